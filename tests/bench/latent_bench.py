"""What stands around MLA decode: new tokens into the latent cache, in bytes a second, and index scores, in operations a
second beside those of cuBLASLt's 8-bit product (PyTorch's) in the same run.

    PYTHONPATH=build/python python3 tests/bench/latent_bench.py [--only NAME,...] [--budget SECONDS] [--json FILE]

Needs an NVIDIA GPU, PyTorch, and quern's Python package as built. Each case is first held against fp64 on sampled
tokens, then timed: calls out of a flushed L2, and a graph of 20 calls, appends also of programmatic ones. Appends go
round so many sets of tensors that none is still in L2 when its turn comes again (`sets`; one where a case is so small
that its launch is what is timed); `copy` is what PyTorch's copy of as many bytes takes, in a graph likewise.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from dataclasses import dataclass
from typing import Any

import torch
from gemm.clock import Clock
from gemm.sides import Quern
from kept import write
from quern import Context

LATENT, ROPE, PAGE = 512, 64, 64
GRAPH_CALLS = 20
L2_BYTES = 256 << 20  # more than any GPU's


@dataclass(frozen=True)
class Append:
    name: str
    tokens: int
    heads: int  # of queries turned beside; 0: none
    cache: str = "bf16"


APPENDS = [
    Append("append_64", 64, 0),
    Append("append_64_h16", 64, 16),
    Append("append_64_h128", 64, 128),
    Append("append_16384", 16384, 0),
    Append("append_16384_h16", 16384, 16),
    Append("append_16384_h128", 16384, 128),
    Append("append_16384_e4m3_token", 16384, 0, "e4m3"),
    Append("append_16384_rows656", 16384, 0, "rows656"),
    Append("append_64_rows656_h16", 64, 16, "rows656"),
]


class AppendProblem:
    """One set of a case's tensors."""

    def __init__(self, case: Append, seed: int) -> None:
        self.case = case
        random = torch.Generator(device="cuda").manual_seed(seed)

        def normal(*shape: int) -> torch.Tensor:
            return torch.randn(*shape, generator=random, device="cuda", dtype=torch.bfloat16)

        pages = (case.tokens + PAGE - 1) // PAGE + 1
        self.kv, self.weight = normal(case.tokens, LATENT + ROPE), normal(LATENT)
        width, dtype = {"bf16": (LATENT + ROPE, torch.bfloat16), "e4m3": (LATENT + ROPE, torch.float8_e4m3fn),
                        "rows656": (656, torch.uint8)}[case.cache]  # fmt: skip
        self.cache = torch.zeros(pages, PAGE, width, device="cuda", dtype=dtype)
        self.scale = torch.zeros(pages, PAGE, device="cuda") if case.cache == "e4m3" else None
        # Pages in any order, the tokens of one side by side, as an engine's allocator has them.
        order = torch.randperm(pages, generator=torch.Generator().manual_seed(seed)).cuda()
        token = torch.arange(case.tokens, device="cuda")
        self.slots = (order[token // PAGE] * PAGE + token % PAGE).to(torch.int64)
        self.positions = (token % 4096 + 1000).to(torch.int64)
        self.q_rope = normal(case.tokens, case.heads, 128 + ROPE)[..., 128:] if case.heads else None
        self.q_out = torch.empty(case.tokens, case.heads, ROPE, device="cuda", dtype=torch.bfloat16)

    def call(self, side: Quern, programmatic: bool = False) -> Any:
        more: dict[str, Any] = {"programmatic": programmatic}
        if self.q_rope is not None:
            more |= {"q_rope": self.q_rope, "q_rope_out": self.q_out}
        if self.scale is not None:
            more["cache_scale"] = self.scale
        if self.case.cache == "rows656":
            more["cache_type"] = "rows_656"
        return side.call(
            "mla_append", kv=self.kv, weight=self.weight, cache=self.cache, slots=self.slots, positions=self.positions,
            d_rope=ROPE, eps=1e-6, interleaved=True, scaling="yarn", factor=40.0, original_positions=4096, **more,
        )  # fmt: skip

    def turned(self, x: torch.Tensor, position: int) -> torch.Tensor:
        """[..., 64] in fp64, by YaRN as DeepSeek-V3 has it."""
        pair = torch.arange(ROPE // 2, dtype=torch.float64, device="cuda")
        plain = 10000.0 ** (-2 * pair / ROPE)

        def pairs(turns: float) -> float:
            return ROPE * math.log(4096 / (turns * 2 * math.pi)) / (2 * math.log(10000.0))

        low, high = max(math.floor(pairs(32.0)), 0), min(math.ceil(pairs(1.0)), ROPE - 1)
        ramp = ((pair - low) / (high - low)).clamp(0, 1)
        angle = position * (plain * (1 - ramp) + plain / 40 * ramp)
        factor = 0.1 * math.log(40.0) + 1
        cos, sin = angle.cos() * factor, angle.sin() * factor
        a, b = x[..., 0::2].double(), x[..., 1::2].double()
        return torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2)

    def error(self) -> float:
        """The largest relative error of a sampled token's numbers, by norms."""
        worst = 0.0
        for t in {0, 1, self.case.tokens // 3, self.case.tokens - 1}:
            slot, position = int(self.slots[t]), int(self.positions[t])
            x = self.kv[t, :LATENT].double()
            normed = x / (x.square().mean() + 1e-6).sqrt() * self.weight.double()
            row = self.cache[slot // PAGE, slot % PAGE]
            if self.case.cache == "rows656":
                codes = row[:LATENT].view(torch.float8_e4m3fn).double().view(4, 128)
                latent = (codes * row[LATENT : LATENT + 16].view(torch.float32).double()[:, None]).flatten()
                rope = row[LATENT + 16 :].view(torch.bfloat16).double()
            else:
                by = 1.0 if self.scale is None else float(self.scale[slot // PAGE, slot % PAGE])
                latent, rope = row[:LATENT].double() * by, row[LATENT:].double() * by
            found = [(latent, normed), (rope, self.turned(self.kv[t, LATENT:], position))]
            if self.q_rope is not None:
                found.append((self.q_out[t].double(), self.turned(self.q_rope[t], position)))
            for given, exact in found:
                worst = max(worst, float((given - exact).norm() / exact.norm()))
        return worst

    def bytes(self) -> int:
        row = {"bf16": 1152, "e4m3": 580, "rows656": 656}[self.case.cache]
        return self.case.tokens * (1152 + row + 16 + self.case.heads * ROPE * 4)


@dataclass(frozen=True)
class Scores:
    name: str
    batch: int
    queries: int  # of each sequence
    keys: int
    paged: bool = True


SCORES = [
    Scores("scores_4096x32768", 1, 4096, 32768, False),
    Scores("scores_4096x32768_pages", 1, 4096, 32768),
    Scores("scores_4x1024x8192", 4, 1024, 8192, False),
    Scores("scores_b128_q1_32768", 128, 1, 32768),
    Scores("scores_b128_q2_8192", 128, 2, 8192),
    Scores("scores_b1_q1_32768", 1, 1, 32768),
]
INDEX_HEADS, INDEX_DIM = 64, 128


class ScoresProblem:
    def __init__(self, case: Scores, seed: int) -> None:
        self.case = case
        random = torch.Generator(device="cuda").manual_seed(seed)

        def codes(*shape: int) -> torch.Tensor:
            x = torch.randn(*shape, generator=random, device="cuda", dtype=torch.bfloat16)
            return x.to(torch.float8_e4m3fn)

        tokens, keys = case.batch * case.queries, case.batch * case.keys
        self.q, self.weights = codes(tokens, INDEX_HEADS, INDEX_DIM), torch.randn(tokens, INDEX_HEADS, device="cuda")
        self.lengths = torch.full((case.batch,), case.keys, dtype=torch.int32, device="cuda")
        self.cu_q = torch.arange(case.batch + 1, dtype=torch.int32, device="cuda") * case.queries
        self.cu_kv = torch.arange(case.batch + 1, dtype=torch.int32, device="cuda") * case.keys
        self.k, self.k_scale = codes(keys, INDEX_DIM), torch.rand(keys, device="cuda") + 0.5
        self.table = torch.randperm(keys // PAGE, device="cuda").to(torch.int32).view(case.batch, -1)
        self.out = torch.empty(tokens, case.keys, device="cuda")

    def call(self, side: Quern) -> Any:
        more: dict[str, Any] = {"k": self.k, "k_scale": self.k_scale, "cu_kv": self.cu_kv}
        if self.case.paged:
            more = {"k": self.k.view(-1, PAGE, INDEX_DIM), "k_scale": self.k_scale.view(-1, PAGE),
                    "page_table": self.table}  # fmt: skip
        return side.call(
            "index_scores", q=self.q, weights=self.weights, out=self.out, lengths=self.lengths, cu_q=self.cu_q,
            max_q_len=self.case.queries, causal=True, **more,
        )  # fmt: skip

    def error(self) -> float:
        """The largest relative error of a sampled query's scores, by norms; infinite where a mask is wrong."""
        worst = 0.0
        for sequence in {0, self.case.batch - 1}:
            rows = torch.arange(self.case.keys, device="cuda") + sequence * self.case.keys
            if self.case.paged:
                pages = self.table[sequence].long()
                rows = (pages[:, None] * PAGE + torch.arange(PAGE, device="cuda")).flatten()
            keys, scales = self.k[rows].double(), self.k_scale[rows].double()
            for i in {0, self.case.queries // 2, self.case.queries - 1}:
                token, seen = sequence * self.case.queries + i, self.case.keys - self.case.queries + i + 1
                dots = (self.q[token].double() @ keys.T).clamp(min=0)
                exact = (self.weights[token].double() @ dots * scales)[:seen]
                given = self.out[token].double()
                off = float((given[:seen] - exact).norm() / exact.norm())
                masked = bool((given[seen:] == -math.inf).all())
                worst = max(worst, off) if masked and not math.isnan(off) else math.inf
        return worst

    def pairs(self) -> int:
        """Of queries and keys that they see."""
        c = self.case
        return c.batch * sum(c.keys - c.queries + i + 1 for i in range(c.queries))

    def flops(self) -> int:
        return 2 * self.pairs() * INDEX_HEADS * INDEX_DIM

    def bytes(self) -> int:
        c = self.case
        tokens = c.batch * c.queries
        return c.batch * c.keys * (INDEX_DIM + 4) + tokens * (INDEX_HEADS * (INDEX_DIM + 4) + c.keys * 4)


def rate_of_product(clock: Clock) -> float:
    """Operations a second of cuBLASLt's product of e4m3 matrices of 8192 each way with a scale each."""
    n = 8192
    a, b = (torch.randn(n, n, device="cuda").to(torch.float8_e4m3fn) for _ in range(2))
    one = torch.ones((), device="cuda")
    out = torch.empty(n, n, device="cuda", dtype=torch.bfloat16)

    def call() -> None:
        torch._scaled_mm(a, b.T, one, one, out_dtype=torch.bfloat16, use_fast_accum=True, out=out)

    return 2 * n**3 / clock.of_calls({"cuBLASLt": call})["cuBLASLt"].us * 1e6


def measure_scores(case: Scores, context: Context, clock: Clock, seed: int, product: float) -> dict[str, Any]:
    problem = ScoresProblem(case, seed)
    call = problem.call(Quern(context, "cuda", clock.stream.cuda_stream))
    first = clock.once_ms(call)
    error = problem.error()
    us = clock.of_calls({"quern": call})["quern"].us
    count = GRAPH_CALLS if us < 500 else 3
    graph_us = clock.of_graphs({"quern": clock.capture([call] * count)})["quern"].us / count
    rate = problem.flops() / graph_us / 1e6
    print(f"{case.name:26} {us:8.1f} / {graph_us:8.1f} us, {rate:.0f} TFLOP/s, {rate * 1e12 / product:.2f} of a "
          f"product's; {problem.bytes() / graph_us / 1e6:.2f} TB/s; error {error:.1e}; first {first:.0f} ms",
          flush=True)  # fmt: skip
    return {"case": case.name, "call_us": us, "graph_us": graph_us, "flops": problem.flops(), "bytes": problem.bytes(),
            "product_tflops": product / 1e12, "error": error, "allowed": 4e-3, "first_ms": first}  # fmt: skip


def rate_of_copy(clock: Clock) -> float:
    """Bytes a second of a copy of 2 GiB, read and written."""
    source, to = (torch.empty(1 << 31, dtype=torch.uint8, device="cuda") for _ in range(2))
    us = clock.of_calls({"copy": lambda: to.copy_(source)})["copy"].us
    return 2 * (1 << 31) / us * 1e6


def measure_append(case: Append, context: Context, clock: Clock, seed: int) -> dict[str, Any]:
    first_set = AppendProblem(case, seed)
    sets = 1 if case.tokens < 1024 else min(GRAPH_CALLS, -(-L2_BYTES // first_set.bytes()))
    problems = [first_set] + [AppendProblem(case, seed + i) for i in range(1, sets)]
    side = Quern(context, "cuda", clock.stream.cuda_stream)
    calls = [problem.call(side) for problem in problems]
    first = clock.once_ms(calls[0])
    error = first_set.error()
    us = clock.of_calls({"quern": calls[0]})["quern"].us
    graph = clock.capture([calls[i % sets] for i in range(GRAPH_CALLS)])
    size = first_set.bytes()
    # What the machine does with as many bytes at once: PyTorch's copy of half of them, through as many sets.
    copies = [torch.empty(2, size // 2, dtype=torch.uint8, device="cuda") for _ in range(sets)]
    copied = clock.capture([lambda pair=copies[i % sets]: pair[0].copy_(pair[1]) for i in range(GRAPH_CALLS)])
    overlapping = [problem.call(side, True) for problem in problems]
    programmatic = clock.capture([overlapping[i % sets] for i in range(GRAPH_CALLS)])
    graphs = clock.of_graphs({"quern": graph, "programmatic": programmatic, "copy": copied})
    graph_us, programmatic_us, copy_us = (graphs[s].us / GRAPH_CALLS for s in ("quern", "programmatic", "copy"))
    print(f"{case.name:26} {us:7.2f} / {graph_us:7.2f} / {programmatic_us:7.2f} us, {size / us / 1e6:.2f} / "
          f"{size / graph_us / 1e6:.2f} / {size / programmatic_us / 1e6:.2f} TB/s; copy {copy_us:.2f} us; sets {sets}; "
          f"error {error:.1e}; first {first:.0f} ms", flush=True)  # fmt: skip
    allowed = 4e-3 if case.cache == "bf16" else 4e-2
    return {"case": case.name, "call_us": us, "graph_us": graph_us, "programmatic_us": programmatic_us,
            "copy_us": copy_us, "bytes": size, "sets": sets, "error": error, "allowed": allowed,
            "first_ms": first}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="cases whose name contains any of these, separated by commas")
    parser.add_argument("--budget", type=float, default=600, help="seconds after which no further case begins")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--replays", type=int, default=10)
    parser.add_argument("--seed", type=int, default=20261123)
    parser.add_argument("--cache", help="quern's cache folder")
    parser.add_argument("--json", help="write the rows here")
    given = parser.parse_args()
    begin = time.monotonic()
    rows: list[dict[str, Any]] = []
    clock = Clock(given.rounds, given.replays)
    context = Context("cuda", cache_path=given.cache) if given.cache else Context("cuda", no_cache=True)
    with clock, context:
        print(f"copy: {rate_of_copy(clock) / 1e9:.0f} GB/s", flush=True)
        product = 0.0
        for case in (*APPENDS, *SCORES):
            if given.only and not any(part in case.name for part in given.only.split(",")):
                continue
            if time.monotonic() - begin > given.budget:
                print(f"{case.name}: no time left", flush=True)
                continue
            if isinstance(case, Append):
                rows.append(measure_append(case, context, clock, given.seed))
            else:
                product = product or rate_of_product(clock)
                rows.append(measure_scores(case, context, clock, given.seed, product))
            torch.cuda.empty_cache()
    if given.json:
        write(given.json, rows=rows)
    return 0 if all(row["error"] < row["allowed"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
