# Sampling on a GPU beside PyTorch and, where it can be imported, FlashInfer: each a call with L2 flushed (median of
# 30) and a graph of 20 calls. Prints a table a piece of work, in microseconds.
# SPDX-License-Identifier: Apache-2.0
"""usage: sampling_peers.py [--quick] [--only WORD]     (with quern's package on PYTHONPATH)"""

from __future__ import annotations

import statistics
import sys
import time

import quern
import torch

try:
    import flashinfer
except ImportError:
    flashinfer = None

SHAPES = [(1, 128256), (32, 128256), (128, 151936), (512, 128256)]
FLUSH = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")


def call_us(work, runs=30):
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


def graph_us(work, calls=20, replays=10):
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


def logits_of(kind, rows, vocab, dtype=torch.float32):
    generator = torch.Generator(device="cuda").manual_seed(1)
    x = torch.randn(rows, vocab, device="cuda", generator=generator)
    if kind == "normal":
        x *= 3
    elif kind == "peaked":
        at = torch.randint(0, vocab, (rows, 20), device="cuda", generator=generator)
        x.scatter_add_(1, at, 8 + 4 * torch.rand(rows, 20, device="cuda", generator=generator))
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

    def __init__(self, context, x):
        self.context, self.x, n = context, x, x.shape[0]
        self.n = n
        self.ids = torch.empty(n, dtype=torch.int32, device="cuda")
        self.offset = torch.zeros(n, dtype=torch.int64, device="cuda")
        self.seed = torch.arange(n, dtype=torch.int64, device="cuda")
        self.temperature = torch.full((n,), 0.8, device="cuda")

    def full(self, value, dtype=torch.float32):
        return torch.full((self.n,), value, dtype=dtype, device="cuda")

    def sample(self, **more):
        given = dict(ids=self.ids, seed=self.seed, offset=self.offset, temperature=self.temperature) | more

        def work():
            self.context.sample(self.x, **given)

        return work

    def penalties(self):
        vocab = self.x.shape[1]

        def words():
            return torch.randint(-(2**31), 2**31 - 1, (self.n, (vocab + 31) // 32), dtype=torch.int32, device="cuda")

        return {
            "output_tokens": torch.randint(0, vocab, (self.n, 2048), dtype=torch.int32, device="cuda"),
            "output_lengths": self.full(2048, torch.int32),
            "repetition": self.full(1.1),
            "presence": self.full(0.1),
            "frequency": self.full(0.1),
            "prompt_mask": words() & words(),
        }

    def works(self):
        k, p = self.full(50, torch.int32), self.full(0.9)
        yield "penalties + top-k + top-p", self.sample(top_k=k, top_p=p, **self.penalties())
        yield "top-k + top-p", self.sample(top_k=k, top_p=p)
        yield "top-p", self.sample(top_p=p)
        yield "min-p", self.sample(min_p=self.full(0.05))
        yield "no filter", self.sample()
        yield "greedy", self.sample(temperature=0.0)
        yield (
            "no filter, log-probabilities, top 5",
            self.sample(
                logprobs=self.full(0.0),
                top_n=5,
                top_ids=torch.empty(self.n, 5, dtype=torch.int32, device="cuda"),
                top_logprobs=torch.empty(self.n, 5, device="cuda"),
            ),
        )
        if hasattr(self.context, "softmax"):
            out = torch.empty_like(self.x)
            yield "softmax", lambda: self.context.softmax(self.x, temperatures=self.temperature, out=out)


def peers(x):
    n = x.shape[0]
    yield "torch softmax", "softmax", lambda: torch.softmax(x, -1)
    yield "torch argmax", "greedy", lambda: torch.argmax(x, -1)
    if flashinfer is None:
        return
    k, p = torch.full((n,), 50, dtype=torch.int32, device="cuda"), torch.full((n,), 0.9, device="cuda")
    t, m = torch.full((n,), 0.8, device="cuda"), torch.full((n,), 0.05, device="cuda")
    s = flashinfer.sampling
    yield (
        "flashinfer",
        "top-k + top-p",
        lambda: s.top_k_top_p_sampling_from_logits(x, k, p, filter_apply_order="top_k_first"),
    )
    yield "flashinfer", "top-p", lambda: s.top_p_sampling_from_probs(s.softmax(x, t), p)
    yield "flashinfer", "min-p", lambda: s.min_p_sampling_from_probs(s.softmax(x, t), m)
    yield "flashinfer", "no filter", lambda: s.sampling_from_logits(x)
    yield "flashinfer", "softmax", lambda: s.softmax(x, t)


def main():
    quick = "--quick" in sys.argv
    only = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else ""
    context = quern.Context("cuda:0")
    print(context.device.name, "flashinfer" if flashinfer else "without flashinfer")
    table = {}
    for rows, vocab in SHAPES:
        x = logits_of("normal", rows, vocab)
        for name, work in Ours(context, x).works():
            if only in name:
                begin = time.perf_counter()
                work()
                torch.cuda.synchronize()
                first = time.perf_counter() - begin
                table.setdefault(name, []).append(f"{call_us(work):7.1f} /{graph_us(work):7.1f}")
                if rows == 1:
                    print(f"first call {first:.2f} s: {name}", flush=True)
        for who, name, work in peers(x):
            if only in name:
                table.setdefault(f"{name} ({who})", []).append(f"{call_us(work):7.1f} /{graph_us(work):7.1f}")
    print(f"{'call / graph us, f32, normal x 3':42}" + "".join(f"{f'{r} x {v}':>18}" for r, v in SHAPES))
    for name, cells in sorted(table.items()):
        print(f"{name:42}" + "".join(f"{c:>18}" for c in cells))
    if quick:
        return
    for kind in ("peaked", "equal", "two", "staircase", "denormal", "huge"):
        for rows, vocab in ((32, 128256), (512, 128256)):
            ours = Ours(context, logits_of(kind, rows, vocab))
            cells = [
                f"{name} {graph_us(work):.1f}" for name, work in ours.works() if only in name and "log-prob" not in name
            ]
            print(f"graph us, {kind}, {rows} rows: " + "; ".join(cells), flush=True)
    for dtype in (torch.bfloat16, torch.float16):
        ours = Ours(context, logits_of("normal", 512, 128256, dtype))
        cells = [f"{name} {graph_us(work):.1f}" for name, work in ours.works() if only in name]
        print(f"graph us, {dtype}, 512 rows: " + "; ".join(cells), flush=True)


if __name__ == "__main__":
    main()
