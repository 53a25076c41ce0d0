"""Random products, many and each for a short time: quern beside its peers, as calls and as graphs.

Operands lie in one pool of random numbers, so that a product takes milliseconds. A result is compared with the peer's,
or where there is none with a product in f32.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from quern import Context

from .clock import Clock
from .operands import GROUP, LIMIT, Operands, dequantised, difference, rows_fastest
from .projections import BLOCK, random_experts, random_shape, with_blocks
from .shapes import KINDS, Shape
from .sides import CUBLASLT, DEEPGEMM, QUERN, Call, Peers, Quern

POOL_BYTES, RESULT_BYTES = 1 << 30, 1 << 29
# A graph goes through so many bytes of operands, and has at least so many calls.
ROTATED_BYTES, GRAPH_CALLS, MOST_SETS = 192 << 20, 12, 96
CALLS, REPLAYS = 9, 5
EXPERTS = ("grouped", "contiguous", "masked")  # the kinds that are a mixture's products
LARGEST_FLOPS = 3e12  # of a product: longer ones would take the time of a hundred others
# Signs and mantissas are random, magnitudes between 1/2 and 2: the power that a device draws depends on the bits.
PATTERNS = {1: (0x8787878787878787, 0x3030303030303030), 2: (0x80FF80FF80FF80FF, 0x3F003F003F003F00)}


@dataclass
class Product:
    """One of the sweep, and what was measured of it; None: not measured."""

    kind: str
    shape: Shape
    counts: list[int] = field(default_factory=list)  # grouped: rows of each expert
    peer: str = ""
    call_us: dict[str, float] = field(default_factory=dict)
    graph_us: dict[str, float] = field(default_factory=dict)
    difference: float | None = None
    note: str = ""  # the variant, of the worst
    error: str = ""

    @property
    def name(self) -> str:
        experts = f" of {self.shape.groups} experts" if self.counts else ""
        return f"{self.kind} {self.shape}{experts}"

    def ratio(self, measure: str) -> float | None:
        """How many times as fast as its peer quern is."""
        times = getattr(self, measure)
        return times[self.peer] / times[QUERN] if self.peer in times and QUERN in times else None


def draw(kinds: list[str], count: int, seed: int) -> list[Product]:
    """`count` of each kind, the kinds in turns."""
    random_ = random.Random(seed)
    products = []
    for _ in range(count):
        for kind in kinds:
            if kind in EXPERTS:
                experts = random_experts(random_)
                while kind != "grouped" and not (blocks := with_blocks(experts, kind, POOL_BYTES, RESULT_BYTES)):
                    experts = random_experts(random_)
                experts = experts if kind == "grouped" else blocks
                products.append(Product(kind, experts.shape, experts.counts))
                continue
            shape = random_shape(random_)
            while shape.flops > LARGEST_FLOPS or (kind == "block" and shape.k % GROUP != 0):
                shape = random_shape(random_)
            products.append(Product(kind, shape))
    return products


def _signed(word: int) -> int:
    return word - (1 << 64) if word >= 1 << 63 else word


class Pool:
    """Memory with random numbers, of which sets of operands are views."""

    def __init__(self, device: str, seed: int) -> None:
        generator = torch.Generator(device=device).manual_seed(seed)
        bits = torch.randint(
            -(2**63), 2**63 - 1, (POOL_BYTES // 8,), dtype=torch.int64, device=device, generator=generator
        )
        self._numbers = {
            size: ((bits & _signed(kept)) | _signed(put)).view(torch.uint8) for size, (kept, put) in PATTERNS.items()
        }
        self._results = torch.empty(RESULT_BYTES, dtype=torch.uint8, device=device)
        self._scales = torch.rand(1 << 22, device=device, generator=generator).add_(0.5).div_(64)

    def sets(self, a: tuple[int, ...], b: tuple[int, ...], out: tuple[int, ...], size: int) -> list[Operands]:
        """As many as ROTATED_BYTES ask for and fit; elements of `size` bytes, results in bf16."""
        dtype = torch.float8_e4m3fn if size == 1 else torch.bfloat16
        of_a, of_b, of_out = (
            -(-math.prod(shape) * each // 1024) * 1024 for shape, each in ((a, size), (b, size), (out, 2))
        )
        fit = min(POOL_BYTES // (of_a + of_b), RESULT_BYTES // of_out, MOST_SETS)
        if fit < 1:
            raise ValueError("the product is larger than the pool")
        count = min(fit, max(2, math.ceil(ROTATED_BYTES / (of_a + of_b))))

        def view(memory: torch.Tensor, at: int, shape: tuple[int, ...], of: torch.dtype) -> torch.Tensor:
            return memory[at : at + math.prod(shape) * of.itemsize].view(of).view(shape)

        numbers = self._numbers[size]
        made = []
        for i in range(count):
            at = i * (of_a + of_b)
            made.append(
                Operands(
                    view(numbers, at, a, dtype),
                    view(numbers, at + of_a, b, dtype),
                    view(self._results, i * of_out, out, torch.bfloat16),
                )
            )
        return made

    def scales(self, *shape: int) -> torch.Tensor:
        return self._scales[: math.prod(shape)].view(shape)


class Sweep:
    def __init__(self, clock: Clock, context: Context, device: str, peers: Peers, seed: int) -> None:
        self._clock, self._context, self._device, self._peers = clock, context, device, peers
        self._quern = Quern(context, device, clock.stream.cuda_stream or None)
        self._pool = Pool(device, seed)

    def run(self, product: Product) -> None:
        """Errors are in the product."""
        try:
            prepare = (
                self._dense if not product.counts else self._experts if product.kind == "grouped" else self._blocks
            )
            sets, makers, reference = prepare(product)
            calls = {side: [make(given) for given in sets] for side, make in makers.items()}
            product.peer = next((side for side in makers if side != QUERN), "")
            results = {}
            for side, of_side in calls.items():
                sets[0].poison()
                result = of_side[0]()  # quern's calls give none
                results[side] = _written(product, result if isinstance(result, torch.Tensor) else sets[0].out)
            expected = results[product.peer] if product.peer else _written(product, reference())
            product.difference = difference(results[QUERN], expected)
            if not product.difference < LIMIT:
                raise RuntimeError(f"1 - 2<x,y>/(x^2+y^2) is {product.difference:.3g}; allowed: below {LIMIT:g}")
            times = self._clock.of_calls({side: of_side[0] for side, of_side in calls.items()})
            product.call_us = {side: time.us for side, time in times.items()}
            repeats = math.ceil(GRAPH_CALLS / len(sets))
            graphs = {side: self._clock.capture(of_side * repeats) for side, of_side in calls.items()}
            replays = self._clock.of_graphs(graphs)
            product.graph_us = {side: time.us / (repeats * len(sets)) for side, time in replays.items()}
        except Exception as error:
            product.error = f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0][:200]}"

    def _dense(self, product: Product) -> tuple[list[Operands], dict[str, Any], Callable[[], torch.Tensor]]:
        kind, shape = product.kind, product.shape
        m, n, k = shape.m, shape.n, shape.k
        sets = self._pool.sets((m, k), (n, k), (m, n), KINDS[kind].element_bytes)
        if kind == "block":
            blocks = -(-k // GROUP)
            scale_a, scale_b = rows_fastest(self._pool.scales(m, blocks)), self._pool.scales(-(-n // GROUP), blocks)
        else:
            scale_a, scale_b = (self._pool.scales(1 if kind == "tensor" else size) for size in (m, n))
        if kind != "bf16":
            for given in sets:
                given.scale_a, given.scale_b = scale_a, scale_b
        makers: dict[str, Any] = {QUERN: lambda given: self._quern.dense(kind, given)}
        cublaslt, deepgemm = self._peers.cublaslt, self._peers.deepgemm
        if KINDS[kind].peer == CUBLASLT and cublaslt:
            makers[CUBLASLT] = lambda given: cublaslt.dense(kind, given)
        elif KINDS[kind].peer == DEEPGEMM and deepgemm:
            makers[DEEPGEMM] = lambda given: deepgemm.dense(kind, given)

        def reference() -> torch.Tensor:
            first = sets[0]
            if kind == "block":
                return dequantised(first.a, scale_a, 1) @ dequantised(first.b, scale_b, GROUP).T
            return first.a.float() @ first.b.float().T

        return sets, makers, reference

    def _experts(self, product: Product) -> tuple[list[Operands], dict[str, Any], Callable[[], torch.Tensor]]:
        """Contiguous groups with a scale a row and column, beside torch._scaled_grouped_mm."""
        shape, counts = product.shape, product.counts
        rows, experts, n, k = sum(counts), len(counts), shape.n, shape.k
        sets = self._pool.sets((rows, k), (experts, n, k), (rows, n), 1)
        scale_a, scale_b = self._pool.scales(rows), self._pool.scales(experts, n)
        for given in sets:
            given.scale_a, given.scale_b = scale_a, scale_b
        ends = torch.tensor(counts, dtype=torch.int32, device=self._device).cumsum(0, dtype=torch.int32)
        offsets = torch.nn.functional.pad(ends, (1, 0))
        makers: dict[str, Any] = {QUERN: lambda given: self._quern.grouped(given, offsets=offsets)}
        if self._peers.cublaslt and hasattr(torch, "_scaled_grouped_mm"):
            makers["CUTLASS"] = lambda given: _grouped_peer(given, ends)

        def reference() -> torch.Tensor:
            first, at, parts = sets[0], 0, []
            for expert, count in enumerate(counts):
                part = first.a[at : at + count].float() @ first.b[expert].float().T
                parts.append(part * scale_a[at : at + count, None] * scale_b[expert][None, :])
                at += count
            return torch.cat(parts)

        return sets, makers, reference

    def _blocks(self, product: Product) -> tuple[list[Operands], dict[str, Any], Callable[[], torch.Tensor]]:
        """Contiguous or masked groups with block scales, beside DeepGEMM."""
        shape, counts, contiguous = product.shape, product.counts, product.kind == "contiguous"
        m, n, k, blocks = shape.m, shape.n, shape.k, shape.k // GROUP
        rows = (m,) if contiguous else (shape.groups, m)
        sets = self._pool.sets((*rows, k), (shape.groups, n, k), (*rows, n), 1)
        scale_a = rows_fastest(self._pool.scales(*rows, blocks))
        scale_b = self._pool.scales(shape.groups, n // GROUP, blocks)
        for given in sets:
            given.scale_a, given.scale_b = scale_a, scale_b
        of_experts = torch.tensor(counts, dtype=torch.int32, device=self._device)
        expert_of_rows = torch.arange(shape.groups, dtype=torch.int32, device=self._device).repeat_interleave(
            of_experts
        )
        offsets = torch.nn.functional.pad(of_experts.cumsum(0, dtype=torch.int32), (1, 0))
        given_rows = {"offsets": offsets} if contiguous else {"counts": of_experts}
        # What the peer is told, too: what experts are padded to, or their mean.
        deepgemm, expected = self._peers.deepgemm, BLOCK if contiguous else max(1, sum(counts) // shape.groups)
        makers: dict[str, Any] = {QUERN: lambda given: self._quern.grouped(given, expected_rows=expected, **given_rows)}
        if deepgemm and contiguous:
            makers[DEEPGEMM] = lambda given: deepgemm.contiguous(given, expert_of_rows)
        elif deepgemm:
            makers[DEEPGEMM] = lambda given: deepgemm.masked(given, of_experts, expected)

        def reference() -> torch.Tensor:
            first = sets[0]
            a, b = dequantised(first.a, scale_a, 1), dequantised(first.b, scale_b, GROUP)
            if not contiguous:
                return a @ b.transpose(-2, -1)
            ends = offsets.tolist()
            return torch.cat(
                [a[begin:end] @ b[e].T for e, (begin, end) in enumerate(zip(ends, ends[1:], strict=False))]
            )

        return sets, makers, reference


def _written(product: Product, result: torch.Tensor) -> torch.Tensor:
    """A copy of the rows that are results: of masked groups those that their counts tell."""
    if product.kind != "masked":
        return result.clone()
    return torch.cat([result[expert, :count] for expert, count in enumerate(product.counts)])


def _grouped_peer(given: Operands, ends: torch.Tensor) -> Call:
    a, b = given.a, given.b.transpose(-2, -1)
    return lambda: torch._scaled_grouped_mm(
        a, b, given.scale_a, given.scale_b, offs=ends, out_dtype=torch.bfloat16, use_fast_accum=True
    )


def variants_of(product: Product, device: str, cache: str) -> str:
    """The variant that quern takes for a dense product, by the manifest of a context of its own."""
    if product.counts:
        return ""
    m, n, k = product.shape.m, product.shape.n, product.shape.k
    size = KINDS[product.kind].element_bytes
    dtype = torch.float8_e4m3fn if size == 1 else torch.bfloat16
    given = Operands(
        torch.zeros(m, k, dtype=torch.bfloat16, device=device).to(dtype),
        torch.zeros(n, k, dtype=torch.bfloat16, device=device).to(dtype),
        torch.empty(m, n, dtype=torch.bfloat16, device=device),
    )
    if product.kind == "block":
        given.scale_a = rows_fastest(torch.ones(m, -(-k // GROUP), device=device))
        given.scale_b = torch.ones(-(-n // GROUP), -(-k // GROUP), device=device)
    elif product.kind != "bf16":
        given.scale_a, given.scale_b = (torch.ones(1 if product.kind == "tensor" else x, device=device) for x in (m, n))
    with Context(device, cache_path=cache) as context:
        quern = Quern(context, device, torch.cuda.current_stream().cuda_stream or None)
        quern.dense(product.kind, given)()
        torch.cuda.synchronize()
        return quern.variants()


def sweep(products: list[Product], cache: str, device: str, seed: int, seconds: float, alone: bool) -> dict[str, Any]:
    """Measures them until the time is over; what they ran on."""
    begin = time.monotonic()
    with Clock(CALLS, REPLAYS) as clock, Context(device, cache_path=cache) as context:
        peers = Peers(False, alone)
        one = Sweep(clock, context, device, peers, seed)
        for product in products:
            if time.monotonic() - begin > seconds:
                break
            one.run(product)
            if "CUDA error" in product.error:
                break
        return {
            "device": torch.cuda.get_device_name(),
            "software": f"PyTorch {torch.__version__}, CUDA {torch.version.cuda}; {peers}",
        }
