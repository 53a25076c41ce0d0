"""`sample` beside PyTorch's own steps and, where Python can import it, FlashInfer, in one run.

    PYTHONPATH=build/python python3 tests/bench/sampling_peers.py [--quick] [--only WORD] [--seed N] [--json FILE]

Needs an NVIDIA GPU and PyTorch. The logits are of several distributions, their seed is drawn at the start and printed.
Each call's tokens are first held against those of the portable kernel, which draws the same ones, then timed: a call
out of a flushed L2 (median of 30) and a graph of 20 calls, in microseconds. PyTorch's way is what an engine without a
sampler does: penalties by scatter, a sort for top-p, topk for top-k, softmax and a race of exponential numbers.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable, Iterator

import quern
import torch
from kept import write

try:
    import flashinfer
except ImportError:
    flashinfer = None

SHAPES = [(1, 128256), (32, 128256), (128, 151936), (512, 128256)]
KINDS = ("peaked", "model", "equal", "two", "staircase", "denormal", "huge")
FLUSH = torch.empty(256 << 20, dtype=torch.uint8, device="cuda") if torch.cuda.is_available() else None
SEED = 1
Work = Callable[[], object]


def call_us(work: Work, runs: int = 30) -> float:
    times = []
    for _ in range(3):
        work()
    for _ in range(runs):
        FLUSH.zero_()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        work()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1000)
    return statistics.median(times)


def graph_us(work: Work, calls: int = 20, replays: int = 10) -> float:
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        work()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for _ in range(calls):
                work()
        graph.replay()
        torch.cuda.synchronize()
        times = []
        for _ in range(replays):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            graph.replay()
            end.record()
            torch.cuda.synchronize()
            times.append(begin.elapsed_time(end) * 1000 / calls)
        return statistics.median(times)


def logits_of(kind: str, rows: int, vocab: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator(device="cuda").manual_seed(SEED)
    x = torch.randn(rows, vocab, device="cuda", generator=generator)
    if kind == "normal":
        x *= 3
    elif kind == "peaked":
        at = torch.randint(0, vocab, (rows, 20), device="cuda", generator=generator)
        x.scatter_add_(1, at, 8 + 4 * torch.rand(rows, 20, device="cuda", generator=generator))
    elif kind == "model":
        # Probabilities that fall as a power of a token's rank, as those of language models do.
        rank = torch.rand(rows, vocab, device="cuda", generator=generator).argsort(1) + 1
        x = 0.7 * x - 1.3 * rank.float().log()
    elif kind == "equal":
        x.fill_(1.5)
    elif kind == "two":
        x = torch.where(x > 0, 1.0, 1.25)
    elif kind == "staircase":
        x = 1 + (x.abs() * 20).floor().clamp(max=63) * 2.0**-20
    elif kind == "denormal":
        x *= 1e-40
    elif kind == "huge":
        x *= 1e30
    return x.to(dtype).contiguous()


class Ours:
    """The arguments of one row of the table, outputs and workspace allocated once."""

    def __init__(self, context: quern.Context, x: torch.Tensor):
        self.context, self.x, n = context, x, x.shape[0]
        self.n = n
        self.ids = torch.empty(n, dtype=torch.int32, device="cuda")
        self.offset = torch.zeros(n, dtype=torch.int64, device="cuda")
        self.seed = torch.arange(n, dtype=torch.int64, device="cuda") + SEED
        self.temperature = self.full(0.8)

    def full(self, value: float, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.full((self.n,), value, dtype=dtype, device="cuda")

    def penalties(self) -> dict:
        vocab = self.x.shape[1]

        def words() -> torch.Tensor:
            return torch.randint(-(2**31), 2**31 - 1, (self.n, (vocab + 31) // 32), dtype=torch.int32, device="cuda")

        return {
            "output_tokens": torch.randint(0, vocab, (self.n, 2048), dtype=torch.int32, device="cuda"),
            "output_lengths": self.full(2048, torch.int32),
            "repetition": self.full(1.1),
            "presence": self.full(0.1),
            "frequency": self.full(0.1),
            "prompt_mask": words() & words(),
        }

    def works(self) -> Iterator[tuple[str, dict]]:
        k, p = self.full(50, torch.int32), self.full(0.9)
        yield "greedy", {"temperature": 0.0}
        yield "no filter", {}
        yield "min-p", {"min_p": self.full(0.05)}
        yield "top-p", {"top_p": p}
        yield "top-k + top-p", {"top_k": k, "top_p": p}
        yield "penalties + top-k + top-p", {"top_k": k, "top_p": p, **self.penalties()}

    def run(self, given: dict) -> Work:
        whole = {"ids": self.ids, "seed": self.seed, "offset": self.offset, "temperature": self.temperature} | given
        return lambda: self.context.sample(self.x, **whole)

    def differing(self, given: dict) -> int:
        """Rows whose token is not the portable kernel's, which a filter that is given and off asks for."""
        drawn = []
        for more in ({}, {"typical_p": self.full(1.0)}):
            self.offset.zero_()
            self.run(given | more)()
            drawn.append(self.ids.clone())
        return int((drawn[0] != drawn[1]).sum())


def draw(logits: torch.Tensor) -> torch.Tensor:
    probs = torch.softmax(logits, -1)
    return (probs / torch.empty_like(probs).exponential_()).argmax(-1)


def by_torch(x: torch.Tensor, ours: Ours, name: str, given: dict) -> Work | None:
    """PyTorch's steps to the same distribution."""
    t = ours.temperature[:, None]

    def top_p(logits: torch.Tensor) -> torch.Tensor:
        ordered, places = logits.sort(-1, descending=True)
        probs = torch.softmax(ordered, -1)
        ordered = ordered.masked_fill(probs.cumsum(-1) - probs >= 0.9, float("-inf"))
        return places.gather(-1, draw(ordered)[:, None])

    def top_k_top_p(logits: torch.Tensor) -> torch.Tensor:
        values, places = logits.topk(50, -1)
        return places.gather(-1, top_p(values))

    def penalised() -> torch.Tensor:
        count = torch.zeros(x.shape, dtype=torch.float32, device="cuda")
        tokens = given["output_tokens"].long()
        count.scatter_add_(1, tokens, torch.ones_like(tokens, dtype=torch.float32))
        bits = torch.arange(32, device="cuda", dtype=torch.int32)
        prompt = ((given["prompt_mask"][..., None] >> bits) & 1).flatten(1)[:, : x.shape[1]].bool()
        changed = torch.where(x > 0, x / 1.1, x * 1.1)
        return torch.where(prompt | (count > 0), changed, x) - 0.1 * (count > 0) - 0.1 * count

    if name == "greedy":
        return lambda: torch.argmax(x, -1)
    if name == "no filter":
        return lambda: draw(x / t)
    if name == "top-p":
        return lambda: top_p(x / t)
    if name == "top-k + top-p":
        return lambda: top_k_top_p(x / t)
    if name == "penalties + top-k + top-p":
        return lambda: top_k_top_p(penalised() / t)

    def min_p() -> torch.Tensor:
        probs = torch.softmax(x / t, -1)
        probs = probs.masked_fill(probs < 0.05 * probs.amax(-1, keepdim=True), 0.0)
        return (probs / torch.empty_like(probs).exponential_()).argmax(-1)

    return min_p if name == "min-p" else None


def by_flashinfer(x: torch.Tensor, ours: Ours, name: str) -> Work | None:
    if flashinfer is None:
        return None
    s, t = flashinfer.sampling, ours.temperature
    k, p, m = ours.full(50, torch.int32), ours.full(0.9), ours.full(0.05)
    return {
        "top-k + top-p": lambda: s.top_k_top_p_sampling_from_logits(x, k, p, filter_apply_order="top_k_first"),
        "top-p": lambda: s.top_p_sampling_from_probs(s.softmax(x, t), p),
        "min-p": lambda: s.min_p_sampling_from_probs(s.softmax(x, t), m),
        "no filter": lambda: s.sampling_from_logits(x),
    }.get(name)


def measure(context: quern.Context, kind: str, shape: tuple[int, int], dtype: torch.dtype, only: str, peers: bool):
    """Prints and returns a row of figures for each work."""
    x = logits_of(kind, *shape, dtype)
    ours = Ours(context, x)
    for name, given in ours.works():
        if only not in name:
            continue
        begin = time.perf_counter()
        ours.run(given)()
        torch.cuda.synchronize()
        row = {"work": name, "kind": kind, "rows": shape[0], "vocab": shape[1], "dtype": str(dtype)[6:]}
        row["first_ms"] = (time.perf_counter() - begin) * 1e3
        context.wait()  # for the kernel that the first call has not waited for
        row["differing"] = ours.differing(given)
        whole = [("quern", ours.run(given))]
        if peers:
            whole += [("torch", by_torch(x, ours, name, given)), ("flashinfer", by_flashinfer(x, ours, name))]
        cells = []
        for who, work in whole:
            if work is None:
                continue
            row[who] = {"graph": graph_us(work)} if not peers else {"call": call_us(work), "graph": graph_us(work)}
            cells.append(f"{who} " + " / ".join(f"{us:.1f}" for us in row[who].values()))
        wrong = f"  {row['differing']} ROWS DIFFER" if row["differing"] else ""
        print(f"{name:26}{kind:10}{shape[0]:4} x {shape[1]:7}{row['dtype']:>9}  {'; '.join(cells)}{wrong}", flush=True)
        yield row


def main() -> None:
    global SEED
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="f32 logits of one distribution alone")
    parser.add_argument("--only", default="", help="a word of the names of what is timed")
    parser.add_argument("--seed", type=int, help="of the logits; drawn where it is not given")
    parser.add_argument("--json", help="write the figures there")
    options = parser.parse_args()
    SEED = random.randrange(1 << 30) if options.seed is None else options.seed
    context, rows = quern.Context("cuda:0"), []
    print(f"{context.device.name}, seed {SEED}, {'with' if flashinfer else 'without'} FlashInfer: call / graph, us")
    for shape in SHAPES:
        rows += measure(context, "normal", shape, torch.float32, options.only, True)
    if not options.quick:
        for kind in KINDS:
            for shape in (SHAPES[1], SHAPES[3]):
                rows += measure(context, kind, shape, torch.float32, options.only, False)
        for dtype in (torch.bfloat16, torch.float16):
            rows += measure(context, "normal", SHAPES[3], dtype, options.only, False)
    print(f"the slowest first call: {max((row['first_ms'] for row in rows), default=0.0):.0f} ms")
    if options.json:
        note = "Microseconds of calls out of a flushed L2 and of graphs of 20 calls; the kinds are logits_of()'s."
        write(options.json, note=note, seed=SEED, rows=rows)


if __name__ == "__main__":
    main()
