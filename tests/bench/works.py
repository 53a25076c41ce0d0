# Pieces of work beside PyTorch: each checked, then timed as a call out of a flushed L2 and in a graph of 20 calls;
# PyTorch eager and compiled by torch.compile in the same run, of which the faster one counts.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import fcntl
import math
import statistics
import time
import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from kept import write

CALLS, REPLAYS, IN_GRAPH = 20, 7, 20
COLUMNS = "us of quern's call, graph, programmatic graph; PyTorch's call, x as fast; its graph, x as fast"
LAUNCH: dict[str, bool] = {}  # with every call of quern's: programmatic launches


@dataclass
class Place:
    device: str
    small: bool

    def size(self, large: int, small: int) -> int:
        return small if self.small else large

    def normal(self, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.randn(*shape, device=self.device, dtype=torch.float32 if self.small else dtype).to(dtype)

    def integers(self, low: int, high: int, *shape: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
        return torch.randint(low, high, shape, device=self.device, dtype=dtype)


@dataclass
class Work:
    name: str
    run: Callable[[], object]
    check: Callable[[], float]  # how far from PyTorch's result: 0 where it must be the same
    most: float = 0.0  # that may be
    peer: Callable[..., Any] | None = None
    moved: int = 0  # bytes that it must at least read and write
    given: tuple[Any, ...] = ()  # to the peer
    compiled: bool = False  # whether torch.compile is worth a try, too
    goal: float = 0.0  # TB/s that are asked for
    family: str = ""
    compiled_peer: Callable[..., Any] | None = None  # what torch.compile is given instead of peer


def far(out: torch.Tensor, exact: torch.Tensor) -> float:
    """The largest difference, relative to 1 and more; infinite where one of the two alone is NaN."""
    worst = 0.0
    for mine, true in zip(out.flatten().split(1 << 26), exact.flatten().split(1 << 26), strict=True):
        mine, true = mine.double(), true.double()
        same = (mine == true) | (mine.isnan() & true.isnan())
        apart = torch.where(same, 0.0, (mine - true).abs() / true.abs().clamp(min=1)).nan_to_num(nan=math.inf)
        worst = max(worst, float(apart.max())) if apart.numel() else worst
    return worst


class Clock:
    def __init__(self) -> None:
        self.dirt = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")

    def call_us(self, work: Callable[[], object]) -> float:
        times = []
        for i in range(CALLS + 2):
            self.dirt.zero_()
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            work()
            end.record()
            torch.cuda.synchronize()
            if i >= 2:
                times.append(begin.elapsed_time(end) * 1e3)
        return statistics.median(times)

    def graph_us(self, work: Callable[[], object]) -> float:
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            work()
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=stream):
                for _ in range(IN_GRAPH):
                    work()
            graph.replay()
            times = []
            for _ in range(REPLAYS):
                begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                begin.record()
                graph.replay()
                end.record()
                torch.cuda.synchronize()
                times.append(begin.elapsed_time(end) * 1e3 / IN_GRAPH)
        return statistics.median(times)

    def both(self, work: Callable[[], object]) -> dict[str, float]:
        """The graph only where that is another thing than calls: below a millisecond, with what L2 may hold."""
        call = self.call_us(work)
        return {"call": call, "graph": self.graph_us(work)} if call < 100 else {"call": call}


Peers = list[tuple[str, Callable[[], object]]]


def for_these_shapes(formula: Callable[..., Any]) -> Callable[..., Any]:
    """Compiled for the shapes that it meets first, and without a look at what others of its code have met."""
    own = types.FunctionType(
        formula.__code__.replace(), formula.__globals__, formula.__name__, formula.__defaults__, formula.__closure__
    )
    return torch.compile(own, dynamic=False)


def peers_of(work: Work, compiled: bool) -> Peers:
    peer, formula = work.peer, work.compiled_peer or (work.peer if work.compiled else None)
    peers: Peers = []
    if peer is not None:
        peers.append(("eager", lambda: peer(*work.given)))
    if formula is not None and compiled:
        quick = for_these_shapes(formula)
        peers.append(("compiled", lambda: quick(*work.given)))
    return peers


def measure(work: Work, peers: Peers, clock: Clock, row: dict[str, Any]) -> str:
    own = row["quern"] = clock.both(work.run)
    if "graph" in own:
        LAUNCH["programmatic"] = True
        own["programmatic"] = clock.graph_us(work.run)
        LAUNCH.clear()
    text = "".join(f"{own.get(way, math.nan):9.1f}" for way in ("call", "graph", "programmatic"))
    for name, peer in peers:
        try:
            row[name] = clock.both(peer)
        except Exception as error:  # what PyTorch cannot do is no result of quern's
            row[name] = {}
            text += f" ({name}: {str(error).splitlines()[0][:60]})"
    for way in ("call", "graph"):
        best = min(
            (row[name][way] for name in ("eager", "compiled") if way in row.get(name, {})),
            default=math.nan,
        )
        row[f"x_{way}"] = best / own.get(way, math.nan)
        text += f"{best:9.1f} {row[f'x_{way}']:5.2f}x"
    row["x_programmatic"] = best / own.get(
        "programmatic", math.nan
    )  # beside PyTorch's graph, which has no such launches
    if work.moved:
        row["tb_s"] = work.moved / own["call"] * 1e-6
        text += f"{row['tb_s']:6.2f} TB/s"
        if work.goal and row["tb_s"] < work.goal:
            text += f" of {work.goal}"
    return text


@contextlib.contextmanager
def turn(folder: str, part: int, parts: int, patience: float = 60) -> Iterator[None]:
    """Of processes that share a GPU: once all have come here, each is let in alone."""
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    (place / f"ready{part}").touch()
    end = time.perf_counter() + patience
    while any(not (place / f"ready{i}").exists() for i in range(parts)) and time.perf_counter() < end:
        time.sleep(0.02)
    with open(place / "turn", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def distribution(rows: list[dict[str, Any]], title: str) -> None:
    """Mean, 5 % quantile and the worst ten of how many times as fast as PyTorch."""
    for way in ("call", "graph", "programmatic"):
        known = sorted(
            (r for r in rows if r.get(f"x_{way}", math.nan) > 0),
            key=lambda r: r[f"x_{way}"],
        )
        if not known:
            continue
        x = [r[f"x_{way}"] for r in known]
        geometric = math.exp(statistics.mean(map(math.log, x)))
        print(f"{title}, {way}: {len(x)} problems, mean {statistics.mean(x):.2f}x, geometric {geometric:.2f}x, "
              f"5 % {x[len(x) // 20]:.2f}x, worst {x[0]:.2f}x, below 1.0x: {sum(v < 1 for v in x)}")  # fmt: skip
        print("   " + "; ".join(f"{r['work']} {r[f'x_{way}']:.2f}x" for r in known[:10]))
        families = sorted({r["family"] for r in known})
        if len(families) > 1:
            means = {f: statistics.mean(r[f"x_{way}"] for r in known if r["family"] == f) for f in families}
            print(
                "   means: " + ", ".join(f"{f} {m:.2f}x" for f, m in means.items()),
                flush=True,
            )


def prepare(work: Work, options: Any, row: dict[str, Any]) -> Peers | None:
    """Checks, and calls each of PyTorch's once; None where quern's call is refused."""
    try:
        at = time.perf_counter()
        work.run()
        if not options.host:
            torch.cuda.synchronize()
        row["first_ms"] = (time.perf_counter() - at) * 1e3
        row["error"] = work.check()
    except Exception as error:
        row["error"] = math.inf
        print(f"{work.name:54} FAILED: {error}", flush=True)
    row["right"] = row["error"] <= work.most
    if "first_ms" not in row:
        return None
    peers = [] if options.host or options.alone else peers_of(work, not options.eager)
    for _, peer in peers:
        with contextlib.suppress(Exception):  # told when it is timed
            peer()
    return peers


def run_all(works: Iterable[Work], options: Any, context: Any) -> list[dict[str, Any]]:
    """Checks, then times; with options.warm alone calls what is timed, once, and with options.host alone checks. With
    options.turns all is checked and compiled before anything is timed."""
    torch._dynamo.config.recompile_limit = torch._dynamo.config.accumulated_recompile_limit = 4096
    clock = None if options.host or options.warm else Clock()
    rows: list[dict[str, Any]] = []
    kept: list[tuple[Work, Peers, dict[str, Any]]] = []
    part, parts = (int(n) for n in options.part.split("/"))
    begin = time.perf_counter()

    def tell(work: Work, peers: Peers, row: dict[str, Any]) -> None:
        text = measure(work, peers, clock, row) if clock is not None else ""
        wrong = "" if row["right"] else f"  WRONG BY {row['error']:.3g}"
        print(f"{work.name:54}{text}{wrong}", flush=True)

    for number, work in enumerate(works):
        if options.only not in work.name or number % parts != part:
            continue
        if options.seconds and time.perf_counter() - begin > options.seconds:
            print(f"out of time: {work.name} and what follows is not measured", flush=True)
            break
        row: dict[str, Any] = {"work": work.name, "family": work.family}
        peers = prepare(work, options, row)
        rows.append(row)
        if peers is None:
            continue
        if options.turns:
            kept.append((work, peers, row))
        else:
            tell(work, peers, row)
    if options.turns:
        with turn(options.turns, part, parts):
            for work, peers, row in kept:
                tell(work, peers, row)
    return rows


def finish(rows: list[dict[str, Any]], options: Any) -> None:
    if options.json:
        write(
            options.json,
            note="Microseconds of calls out of a flushed L2 and of graphs of 20 calls, plain and programmatic.",
            rows=rows,
        )
    if not all(row["right"] for row in rows):
        raise SystemExit("a result is wrong")


def add_options(parser: Any) -> None:
    parser.add_argument("--only", default="", help="a word of the names of what is done")
    parser.add_argument("--json", help="write the figures there")
    parser.add_argument(
        "--host",
        action="store_true",
        help="small problems on the CPU, checked and not timed",
    )
    parser.add_argument(
        "--warm",
        action="store_true",
        help="check, call PyTorch's once, and time nothing",
    )
    parser.add_argument("--eager", action="store_true", help="without torch.compile")
    parser.add_argument("--alone", action="store_true", help="quern without PyTorch")
    parser.add_argument("--part", default="0/1", help="of what is done the i-th of n: i/n")
    parser.add_argument(
        "--turns",
        default="",
        metavar="FOLDER",
        help="of processes with the n parts, each in the background: all prepare at once, and time one after the other",
    )
    parser.add_argument("--seconds", type=float, default=0, help="begin nothing after so many")
