"""Times of calls on a GPU, those of several sides taken in turns: call by call out of a clean L2, and as graphs.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import contextlib
import gc
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

Call = Callable[[], object]
FLUSH_BYTES = 256 << 20


@dataclass(frozen=True)
class Times:
    """Medians."""

    us: float  # on the device
    host_us: float  # to enqueue


class Clock:
    """All work goes to `stream`, which is current inside `with clock:`."""

    def __init__(self, rounds: int, replays: int) -> None:
        self.rounds, self.replays = rounds, replays
        self.stream = torch.cuda.Stream()
        self._context = contextlib.ExitStack()
        self._written = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda")
        self._read = torch.ones(FLUSH_BYTES // 4, dtype=torch.float32, device="cuda")
        self._sum = torch.empty((), dtype=torch.float32, device="cuda")
        torch.cuda.synchronize()

    def __enter__(self) -> Clock:
        self._context.enter_context(torch.cuda.stream(self.stream))
        return self

    def __exit__(self, *exception: object) -> None:
        self._context.close()

    def synchronise(self) -> None:
        self.stream.synchronize()

    def flush(self) -> None:
        """Writes more than the L2 holds, so that nothing of before stays, then reads as much that nobody has written,
        so that no dirty line is left whose writing back would be charged to what comes next. It takes the device
        longer than the host needs to enqueue that."""
        self._written.fill_(1)
        torch.sum(self._read, dim=0, out=self._sum)

    def flush_us(self) -> float:
        """The median time of a flush: what hides the enqueuing of a call behind it."""
        return self._in_turns({"flush": self.flush}, 5, False)["flush"].us

    def once_ms(self, call: Call) -> float:
        """One call's wall time until it has finished."""
        self.synchronise()
        start = time.perf_counter()
        call()
        self.synchronise()
        return (time.perf_counter() - start) * 1000

    def of_calls(self, calls: dict[str, Call]) -> dict[str, Times]:
        """Each side's time of a call out of a clean L2, the sides in turns."""
        for call in calls.values():
            for _ in range(3):
                call()
        return self._in_turns(calls, self.rounds, True)

    def of_graphs(self, graphs: dict[str, torch.cuda.CUDAGraph]) -> dict[str, Times]:
        """Each side's time of a replay, the sides in turns. Nothing is flushed."""
        for graph in graphs.values():
            graph.replay()
        return self._in_turns({side: graph.replay for side, graph in graphs.items()}, self.replays, False)

    def capture(self, calls: Sequence[Call]) -> torch.cuda.CUDAGraph:
        """The calls as one graph. Whatever they compile or allocate once has been by then."""
        graph = torch.cuda.CUDAGraph()
        self.synchronise()
        graph.capture_begin()
        try:
            for call in calls:
                call()
        except BaseException:
            with contextlib.suppress(RuntimeError):
                graph.capture_end()
            raise
        graph.capture_end()
        return graph

    def _in_turns(self, calls: dict[str, Call], rounds: int, flushed: bool) -> dict[str, Times]:
        spans: dict[str, list[tuple[torch.cuda.Event, torch.cuda.Event]]] = {side: [] for side in calls}
        host: dict[str, list[float]] = {side: [] for side in calls}
        with _without_collection():
            for turn in range(rounds):
                # Who goes first changes from turn to turn.
                for side in list(calls) if turn % 2 == 0 else reversed(list(calls)):
                    span = tuple(torch.cuda.Event(enable_timing=True) for _ in range(2))
                    if flushed:
                        self.flush()
                    before = time.perf_counter_ns()
                    span[0].record()
                    calls[side]()
                    span[1].record()
                    host[side].append((time.perf_counter_ns() - before) / 1000)
                    spans[side].append(span)
            self.synchronise()
        return {
            side: Times(
                statistics.median(start.elapsed_time(end) * 1000 for start, end in spans[side]),
                statistics.median(host[side]),
            )
            for side in calls
        }


@contextlib.contextmanager
def _without_collection() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
