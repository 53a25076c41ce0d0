"""quern's MLA decode beside FlashMLA's and FlashInfer's (where they can be imported), in one run.
FlashMLA's kernels for Hopper are on PyPI as sgl-flash-mla (pip install --no-deps: it asks for a later PyTorch than it
needs).

    PYTHONPATH=build/python python3 tests/bench/mla_bench.py [--only NAME,...] [--budget SECONDS] [--json FILE]

Needs an NVIDIA GPU of the Hopper generation, PyTorch, and quern's Python package as built. Each case is first held
against fp64 on sampled rows, then timed: calls out of a flushed L2, and a graph of 20 calls. The sides take turns.
`bytes` is the time that reading the cache, the queries and writing the results takes at the rate of a large copy on
the same device.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from typing import Any

import torch
from gemm.clock import Clock
from gemm.sides import Quern
from kept import write
from quern import Context

LATENT, ROPE, COLUMNS = 512, 64, 576
SCALE = 192**-0.5
GRAPH_CALLS = 20


@dataclass(frozen=True)
class Case:
    name: str
    batch: int
    queries: int
    heads: int
    keys: int  # of each sequence; of the longest where `skewed`
    cache: str = "bf16"  # e4m3: a scale for the tensor; rows656
    top_k: int = 0
    skewed: bool = False
    page: int = 64


CASES = [
    Case("b128_h128_4096", 128, 1, 128, 4096),
    Case("b128_h128_8192", 128, 1, 128, 8192),
    Case("b128_h16_8192", 128, 1, 16, 8192),
    Case("b128_h16_4096", 128, 1, 16, 4096),
    Case("b64_h64_8192", 64, 1, 64, 8192),
    Case("b1_h128_32768", 1, 1, 128, 32768),
    Case("b16_h128_4096", 16, 1, 128, 4096),
    Case("b128_q2_h128_4096", 128, 2, 128, 4096),
    Case("b128_h128_4096_page16", 128, 1, 128, 4096, page=16),
    Case("b128_h16_8192_e4m3", 128, 1, 16, 8192, cache="e4m3"),
    Case("b128_h128_4096_e4m3", 128, 1, 128, 4096, cache="e4m3"),
    Case("b128_h128_top2048_bf16", 128, 1, 128, 8192, top_k=2048),
    Case("b128_h128_top2048_rows656", 128, 1, 128, 8192, cache="rows656", top_k=2048),
    Case("b128_h64_top2048_rows656", 128, 1, 64, 8192, cache="rows656", top_k=2048),
    Case("b2_q512_h128_top2048_rows656", 2, 512, 128, 8192, cache="rows656", top_k=2048),
    Case("skewed1000_h16", 1000, 1, 16, 32768, skewed=True),
    Case("skewed1000_h128", 1000, 1, 128, 32768, skewed=True),
]


class Problem:
    """A case's tensors on the device, and its rows in fp64."""

    def __init__(self, case: Case, seed: int) -> None:
        self.case = case
        random = torch.Generator(device="cuda").manual_seed(seed)

        def normal(*shape: int) -> torch.Tensor:
            return torch.randn(*shape, generator=random, device="cuda", dtype=torch.bfloat16)

        lengths = torch.full((case.batch,), case.keys, dtype=torch.int32)
        if case.skewed:
            drawn = torch.rand(case.batch, generator=torch.Generator().manual_seed(seed))
            lengths = (case.keys ** (0.85 * drawn)).to(torch.int32).clamp(min=1)
            lengths[case.batch // 3] = case.keys
        self.lengths_host = lengths
        self.tokens = int(lengths.sum())
        pages = (lengths + case.page - 1) // case.page
        total = int(pages.sum())
        order = torch.randperm(total, generator=torch.Generator().manual_seed(seed + 1)).to(torch.int32)
        table = torch.zeros(case.batch, int(pages.max()), dtype=torch.int32)
        at = 0
        for i, count in enumerate(pages.tolist()):
            table[i, :count] = order[at : at + count]
            at += count
        self.table_host = table
        self.table, self.lengths = table.cuda(), lengths.cuda()
        self.q = normal(case.batch * case.queries, case.heads, COLUMNS)
        self.scale: torch.Tensor | None = None
        numbers = normal(total, case.page, COLUMNS)
        if case.cache == "bf16":
            self.cache = numbers
        elif case.cache == "e4m3":
            self.scale = torch.full((1,), 0.03, device="cuda")
            self.cache = (numbers / 0.03).to(torch.float8_e4m3fn)
        else:
            self.cache = torch.empty(total, case.page, 656, dtype=torch.uint8, device="cuda")
            groups = numbers[..., :LATENT].float().reshape(total, case.page, 4, 128)
            scales = groups.abs().amax(-1).clamp(min=1e-4) / 448
            quantised = (groups / scales[..., None]).to(torch.float8_e4m3fn)
            self.cache[..., :LATENT] = quantised.reshape(total, case.page, LATENT).view(torch.uint8)
            self.cache[..., LATENT : LATENT + 16] = scales.contiguous().view(torch.uint8)
            self.cache[..., LATENT + 16 :] = numbers[..., LATENT:].contiguous().view(torch.uint8)
        del numbers
        self.cu_q = torch.arange(case.batch + 1, dtype=torch.int32, device="cuda") * case.queries
        self.indices: torch.Tensor | None = None
        if case.top_k:
            chosen = [torch.randperm(case.keys)[: case.top_k] for _ in range(case.batch * case.queries)]
            self.indices = torch.stack(chosen).to(torch.int32).cuda()
        self.out = torch.empty(
            case.batch * case.queries,
            case.heads,
            LATENT,
            dtype=torch.bfloat16,
            device="cuda",
        )

    def keys_of(self, sequence: int) -> torch.Tensor:
        """[keys, 576] in fp64."""
        length = int(self.lengths_host[sequence])
        pages = self.table[sequence, : (length + self.case.page - 1) // self.case.page].long()
        rows = self.cache[pages].reshape(-1, self.cache.shape[-1])[:length]
        if self.case.cache == "bf16":
            return rows.double()
        if self.case.cache == "e4m3":
            return rows.double() * 0.03
        latent = rows[:, :LATENT].contiguous().view(torch.float8_e4m3fn).double().reshape(length, 4, 128)
        scales = rows[:, LATENT : LATENT + 16].contiguous().view(torch.float32).double()
        rope = rows[:, LATENT + 16 :].contiguous().view(torch.bfloat16).double()
        return torch.cat([(latent * scales[..., None]).reshape(length, LATENT), rope], 1)

    def error(self, out: torch.Tensor) -> float:
        """The largest relative error of a sampled query token's results, by norms."""
        worst = 0.0
        batch, queries = self.case.batch, self.case.queries
        for sequence in {0, 1 % batch, batch // 3, batch - 1}:
            keys = self.keys_of(sequence)
            for i in sorted({0, queries // 2, queries - 1}):
                token = sequence * queries + i
                seen = keys[: keys.shape[0] - queries + i + 1]
                if self.indices is not None:
                    listed = self.indices[token].long()
                    seen = keys[listed[listed < seen.shape[0]]]
                logits = self.q[token].double() @ seen.T * SCALE
                exact = torch.softmax(logits, -1) @ seen[:, :LATENT]
                off = (out[token].double() - exact).norm() / exact.norm()
                worst = max(worst, float(off)) if not torch.isnan(off) else float("inf")
        return worst

    def bytes(self) -> int:
        width = {"bf16": COLUMNS * 2, "e4m3": COLUMNS, "rows656": 656}[self.case.cache]
        rows = self.case.batch * self.case.queries
        # Sequences share no keys; with lists every query token reads its own.
        keys = rows * self.case.top_k if self.case.top_k else self.tokens
        return keys * width + rows * self.case.heads * (COLUMNS + LATENT) * 2

    def flops(self) -> int:
        keys = self.case.batch * self.case.top_k if self.case.top_k else self.tokens
        return keys * self.case.queries * self.case.heads * (COLUMNS + LATENT) * 2


def quern_call(side: Quern, problem: Problem) -> Any:
    case = problem.case
    more: dict[str, Any] = {}
    if case.queries > 1:
        more = {"cu_q": problem.cu_q, "max_q_len": case.queries}
    if problem.scale is not None:
        more["cache_scale"] = problem.scale
    if case.cache == "rows656":
        more["cache_type"] = "rows_656"
    if problem.indices is not None:
        more["indices"] = problem.indices
    return side.call(
        "mla_decode", q=problem.q, cache=problem.cache, out=problem.out, lengths=problem.lengths,
        page_table=problem.table, max_kv_len=case.keys, scale=SCALE, causal=True, **more,
    )  # fmt: skip


def slots_of(problem: Problem) -> torch.Tensor:
    """Where in the pool each listed key lies: [batch, queries, top_k]; -1 for one that the query does not see."""
    case = problem.case
    listed = problem.indices.view(case.batch, case.queries, case.top_k).long()
    pages = problem.table.long().gather(1, listed.flatten(1) // case.page).view(listed.shape)
    query = torch.arange(case.queries, device="cuda")
    seen = problem.lengths.long()[:, None] - case.queries + query + 1
    return torch.where(listed < seen[..., None], pages * case.page + listed % case.page, -1).to(torch.int32)


def flashmla_call(problem: Problem) -> Any:
    """None where it cannot be imported or does not take the case."""
    try:
        import flash_mla
    except ImportError:
        return None
    case = problem.case
    dense = case.cache == "bf16" and not case.top_k
    listed = case.cache == "rows656" and case.top_k > 0
    if case.page != 64 or not (dense or listed):
        return None
    # What it finds out from the lengths it keeps there from its first call on, which is not timed.
    metadata, _ = flash_mla.get_mla_metadata()
    # The wheel of PyPI keeps its kernels for Hopper apart.
    more: dict[str, Any] = {"use_legacy": True} if hasattr(flash_mla, "has_legacy") else {}
    if listed:
        more.update(indices=slots_of(problem), is_fp8_kvcache=True, causal=False)
    else:
        more.update(causal=True)
    q = problem.q.view(case.batch, case.queries, case.heads, COLUMNS)
    cache = problem.cache.view(-1, case.page, 1, problem.cache.shape[-1])

    def call() -> torch.Tensor:
        return flash_mla.flash_mla_with_kvcache(
            q, cache, problem.table, problem.lengths, LATENT, metadata, softmax_scale=SCALE, **more
        )[0].view(problem.out.shape)  # fmt: skip

    return call


def flashinfer_call(problem: Problem) -> Any:
    try:
        from flashinfer.mla import BatchMLAPagedAttentionWrapper
    except ImportError:
        return None
    case = problem.case
    if case.cache != "bf16" or case.top_k:
        return None
    pages = (problem.lengths_host + case.page - 1) // case.page
    indptr = torch.cat([torch.zeros(1, dtype=torch.int32), pages.cumsum(0).to(torch.int32)]).cuda()
    listed = torch.cat([problem.table_host[i, :n] for i, n in enumerate(pages.tolist())]).cuda()
    wrapper = BatchMLAPagedAttentionWrapper(torch.empty(256 << 20, dtype=torch.uint8, device="cuda"), backend="fa3")
    wrapper.plan(
        problem.cu_q, indptr, listed, problem.lengths, case.heads, LATENT, ROPE, case.page, True, SCALE,
        torch.bfloat16, torch.bfloat16,
    )  # fmt: skip
    q, cache = problem.q, problem.cache
    out = torch.empty_like(problem.out)

    def call() -> torch.Tensor:
        return wrapper.run(
            q[..., :LATENT],
            q[..., LATENT:],
            cache[..., :LATENT],
            cache[..., LATENT:],
            out=out,
            return_lse=False,
        )

    return call


def copy_rate(clock: Clock) -> float:
    """Bytes a second of a copy of 2 GiB, read and written."""
    from_, to = (torch.empty(1 << 31, dtype=torch.uint8, device="cuda") for _ in range(2))
    us = clock.of_calls({"copy": lambda: to.copy_(from_)})["copy"].us
    return 2 * (1 << 31) / us * 1e6


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="cases whose name contains any of these, separated by commas")
    parser.add_argument(
        "--budget",
        type=float,
        default=600,
        help="seconds after which no further case begins",
    )
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--replays", type=int, default=5)
    parser.add_argument("--seed", type=int, default=20261123)
    parser.add_argument("--cache", help="quern's cache folder")
    parser.add_argument("--json", help="write the rows here")
    given = parser.parse_args()
    begin = time.monotonic()
    rows: list[dict[str, Any]] = []
    failed = False
    clock = Clock(given.rounds, given.replays)
    context = Context("cuda", cache_path=given.cache) if given.cache else Context("cuda", no_cache=True)
    with clock, context:
        rate = copy_rate(clock)
        print(f"copy: {rate / 1e9:.0f} GB/s", flush=True)
        for case in CASES:
            if given.only and not any(part in case.name for part in given.only.split(",")):
                continue
            if time.monotonic() - begin > given.budget:
                print(f"{case.name}: no time left", flush=True)
                continue
            problem = Problem(case, given.seed)
            side = Quern(context, "cuda", clock.stream.cuda_stream)
            call = quern_call(side, problem)
            problem.out.fill_(float("nan"))
            first = clock.once_ms(call)
            error = problem.error(problem.out)
            calls = {"quern": call}
            for name, make in (
                ("flashmla", flashmla_call),
                ("flashinfer", flashinfer_call),
            ):
                peer = make(problem)
                if peer is None:
                    continue
                if (off := problem.error(peer())) > 1e-2:
                    print(f"{case.name}: {name} is off by {off:.2e}", flush=True)
                calls[name] = peer
            times = clock.of_calls(calls)
            graphs = clock.of_graphs({name: clock.capture([each] * GRAPH_CALLS) for name, each in calls.items()})
            row: dict[str, Any] = {"case": case.name, "error": error, "first_ms": first,
                                   "bytes_us": problem.bytes() / rate * 1e6}  # fmt: skip
            text = []
            for name in calls:
                us, graph = times[name].us, graphs[name].us / GRAPH_CALLS
                row[name] = {"call": us, "graph": graph}
                text.append(f"{name} {us:.1f} / {graph:.1f} us, {problem.bytes() / graph / 1e3:.0f} GB/s, "
                            f"{problem.flops() / graph / 1e6:.0f} T")  # fmt: skip
            failed |= not error < 1e-2
            rows.append(row)
            print(f"{case.name:28} {'; '.join(text)}; bytes {row['bytes_us']:.1f} us; error {error:.1e}; first "
                  f"{first:.0f} ms", flush=True)  # fmt: skip
            del problem, side, call, calls
            torch.cuda.empty_cache()
    if given.json:
        write(given.json, rows=rows)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
