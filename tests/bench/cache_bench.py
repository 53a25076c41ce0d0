"""New tokens' keys and values into a paged cache, and rotary positions: times, and bytes a second.

    PYTHONPATH=build/python python3 tests/bench/cache_bench.py [--json FILE]

Needs an NVIDIA GPU, PyTorch, and quern's Python package as built. Every result is held against PyTorch's in f32. Calls
are timed out of a flushed L2, graphs of 20 calls with it warm; the bytes are those that must be read and written.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

import quern
import torch
from gemm.clock import Clock
from kept import write

KV_HEADS, HEADS, DIM, PAGE = 8, 32, 128, 16
THETA = 500000.0


def turned(x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """NeoX's pairs: element i with element i + d / 2."""
    powers = torch.arange(DIM // 2, device="cuda", dtype=torch.float64) * (2.0 / DIM)
    angles = positions.double()[:, None, None] * THETA**-powers
    low, high = x.double().chunk(2, -1)
    return torch.cat((low * angles.cos() - high * angles.sin(), high * angles.cos() + low * angles.sin()), -1)


def worst(got: torch.Tensor, expected: torch.Tensor) -> float:
    return float((got.double() - expected.double()).norm() / expected.double().norm())


class Problem:
    def __init__(self, context: quern.Context, tokens: int) -> None:
        def make(*shape: int) -> torch.Tensor:
            return torch.randn(*shape, dtype=torch.bfloat16, device="cuda")

        self.context, self.tokens = context, tokens
        self.q, self.k, self.v = make(tokens, HEADS, DIM), make(tokens, KV_HEADS, DIM), make(tokens, KV_HEADS, DIM)
        pages = math.ceil(tokens / PAGE)
        self.k_cache, self.v_cache = (make(pages, PAGE, KV_HEADS, DIM) for _ in range(2))
        order = torch.randperm(pages, device="cuda")
        at = torch.arange(tokens, device="cuda")
        self.slots = (order[at // PAGE] * PAGE + at % PAGE).to(torch.int32)
        self.positions = torch.randint(0, 100000, (tokens,), dtype=torch.int32, device="cuda")
        self.q_out, self.k_out = torch.empty_like(self.q), torch.empty_like(self.k)

    def append(self) -> None:
        self.context.kv_append(self.k, self.v, self.k_cache, self.v_cache, slots=self.slots)

    def append_turned(self) -> None:
        self.context.kv_append(self.k, self.v, self.k_cache, self.v_cache, slots=self.slots, positions=self.positions,
                               theta=THETA)  # fmt: skip

    def append_turned_with_queries(self) -> None:
        self.context.kv_append(self.k, self.v, self.k_cache, self.v_cache, slots=self.slots, positions=self.positions,
                               theta=THETA, q=self.q, q_out=self.q_out)  # fmt: skip

    def rope(self) -> None:
        self.context.rope(self.q, self.k, positions=self.positions, theta=THETA, q_out=self.q_out, k_out=self.k_out)

    def difference(self, name: str) -> float:
        keys = self.k_out if name == "rope" else self.k_cache.flatten(0, 1)[self.slots.long()]
        differences = [worst(keys, self.k if name == "append" else turned(self.k, self.positions))]
        if name != "rope":
            differences.append(worst(self.v_cache.flatten(0, 1)[self.slots.long()], self.v))
        if name in ("rope", "append_turned_with_queries"):
            differences.append(worst(self.q_out, turned(self.q, self.positions)))
        return max(differences)

    def bytes(self, name: str) -> float:
        keys = self.tokens * KV_HEADS * DIM * 2.0
        queries = self.tokens * HEADS * DIM * 2.0
        return 2 * {"append": 2 * keys, "append_turned": 2 * keys, "append_turned_with_queries": 2 * keys + queries,
                    "rope": keys + queries}[name]  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cache", help="quern's cache folder; default: none")
    parser.add_argument("--json", help="write the rows here")
    arguments = parser.parse_args()
    torch.manual_seed(1)
    rows, wrong = [], 0
    cache = {"cache_path": arguments.cache} if arguments.cache else {"no_cache": True}
    with quern.Context("cuda", **cache) as context, Clock(20, 7) as clock:
        for tokens in (16384, 64):
            problem = Problem(context, tokens)
            calls: dict[str, Callable[[], None]] = {
                name: getattr(problem, name)
                for name in ("append", "append_turned", "append_turned_with_queries", "rope")
            }
            for name, call in calls.items():
                call()
                clock.synchronise()
                difference = problem.difference(name)
                wrong += not difference < 0.004
                us = clock.of_calls({name: clock.capture([call]).replay})[name].us
                graph = clock.of_graphs({name: clock.capture([call] * 20)})[name].us / 20
                rate = problem.bytes(name) / 1e3
                print(f"{tokens:6} {name:28} {us:7.1f} / {graph:6.2f} us {rate / us:6.0f} / {rate / graph:6.0f} GB/s"
                      f"{'' if difference < 0.004 else f'  WRONG: {difference}'}", flush=True)  # fmt: skip
                rows.append({"tokens": tokens, "name": name, "us": (us, graph), "difference": difference})
    if arguments.json:
        write(arguments.json, rows=rows)
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
