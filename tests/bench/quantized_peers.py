"""Products of 8-bit and 4-bit numbers with scales (quantized_gemm) beside PyTorch's bf16 product of the same shape.

    PYTHONPATH=build/python python3 tests/bench/quantized_peers.py [--only WORD,...] [--quick] [--seed N] [--json FILE]

Needs PyTorch and an NVIDIA GPU; with --host small problems are held against fp64 on the CPU and nothing is timed. Each
product is first held against fp64 of the same numbers, scales and zero points, on sampled rows and columns. Then it is
timed: calls out of a flushed L2, and in a graph of 20 calls that go round so many sets of weights that none is still in
L2 when its turn comes again. TB/s counts the weights' bytes with their scales, TFLOP/s 2 M N K. Layers are those of
large models, and some of a random N and K; the seed is printed.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from kept import write
from quern import Context
from works import Clock

IN_GRAPH, REPLAYS, SAMPLES = 20, 5, 48
L2_BYTES = 256 << 20  # more than any GPU's
E2M1 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0]
LAYERS = [(4096, 4096), (14336, 4096), (4096, 14336), (28672, 8192), (8192, 28672), (57344, 8192)]  # N, K
ROWS = [1, 4, 16, 32, 64, 256, 1024, 4096]
QUICK_LAYERS, QUICK_ROWS = [(14336, 4096), (28672, 8192)], [1, 16, 1024, 4096]


@dataclass(frozen=True)
class Kind:
    """What is multiplied. A scale's group: 0 for a scale a line, -1 for none."""

    name: str
    a: str = "bf16"
    b: str = "int4"
    group_a: int = -1
    group_b: int = 128
    scale_a: str = "f32"
    scale_b: str = "f16"
    zeros: bool = False
    tensor_scale: bool = False


KINDS = [
    Kind("W4A16 int4 g128"),
    Kind("W4A16 int4 g128 f16", a="f16"),
    Kind("W4A16 uint4 g128 zeros (AWQ)", a="f16", b="uint4", zeros=True),
    Kind("W4A16 int4 g32", group_b=32),
    Kind("W8A16 int8", b="int8", group_b=0, scale_b="f32"),
    Kind("W8A16 e4m3", b="e4m3", group_b=0, scale_b="f32"),
    Kind("W8A16 uint8 g128 zeros", b="uint8", zeros=True),
    Kind("NVFP4 weights", b="e2m1", group_b=16, scale_b="e4m3", tensor_scale=True),
    Kind("MXFP4 weights", b="e2m1", group_b=32, scale_b="ue8m0"),
    Kind("W8A8 int8", a="int8", b="int8", group_a=0, group_b=0, scale_b="f32"),
    Kind("W4A8 int8 by int4 g128", a="int8", group_a=0),
    Kind("W4A8 e4m3 by int4 g128", a="e4m3", group_a=0),
    Kind("W4A4 int4 g128", a="int4", group_a=128),
    Kind("NVFP4", a="e2m1", b="e2m1", group_a=16, group_b=16, scale_a="e4m3", scale_b="e4m3", tensor_scale=True),
    Kind("MXFP4", a="e2m1", b="e2m1", group_a=32, group_b=32, scale_a="ue8m0", scale_b="ue8m0"),
]
QUICK_KINDS = {"W4A16 int4 g128", "W4A16 uint4 g128 zeros (AWQ)", "W8A16 int8", "NVFP4 weights", "W8A8 int8", "NVFP4"}

BITS = {"f16": 16, "bf16": 16, "int8": 8, "uint8": 8, "e4m3": 8, "int4": 4, "uint4": 4, "e2m1": 4}
FLOATS = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "e4m3": torch.float8_e4m3fn}


class Operand:
    """Lines of numbers, with their scales and zero points."""

    def __init__(self, code: str, lines: int, k: int, group: int, scale: str, zeros: bool, device: str) -> None:
        self.code, self.group, self.k, self.kind = code, group, k, scale
        if BITS[code] == 16:
            self.data = torch.randn(lines, k, device=device).to(FLOATS[code])
        else:
            # Bytes of any kind; of e4m3 none beyond 2 and no NaN.
            self.data = torch.randint(0, 256, (lines, k * BITS[code] // 8), device=device, dtype=torch.uint8)
            if code == "int8":
                self.data = self.data.view(torch.int8)
            elif code == "e4m3":
                self.data = (self.data & 0xBF).view(torch.float8_e4m3fn)
        self.scale = self.zero = None
        groups = k // group if group > 0 else 1
        if group >= 0 and scale == "ue8m0":
            self.scale = torch.randint(118, 128, (lines, groups), device=device, dtype=torch.uint8)
        elif group >= 0:
            self.scale = (torch.rand(lines, groups, device=device) * 0.02 + 0.01).to(FLOATS[scale])
            if scale == "e4m3":
                self.scale = (torch.rand(lines, groups, device=device) + 0.5).to(FLOATS[scale])
        if zeros:
            most = 16 if code == "uint4" else 256
            self.zero = torch.randint(0, most, (lines, groups), device=device, dtype=torch.uint8)

    def args(self, name: str) -> dict[str, Any]:
        args: dict[str, Any] = {name: self.data}
        if self.scale is not None:
            args[f"scale_{name}"] = self.scale
            if self.kind == "ue8m0":
                args[f"scale_{name}_type"] = "ue8m0"
        if BITS[self.code] == 4:
            args[f"{name}_format"] = self.code
        if self.zero is not None:
            args[f"zero_{name}"] = self.zero
        return args

    def bytes(self) -> int:
        tensors = [self.data, self.scale, self.zero]
        return sum(t.numel() * t.element_size() for t in tensors if t is not None)

    def exact(self, lines: torch.Tensor) -> torch.Tensor:
        """The numbers of some lines times their scales, in fp64."""
        data = self.data.view(torch.uint8)[lines] if BITS[self.code] < 16 else self.data[lines]
        if BITS[self.code] == 4:
            codes = torch.stack([data & 15, data >> 4], -1).flatten(1).long()
            if self.code == "e2m1":
                x = torch.tensor(E2M1, device=data.device, dtype=torch.float64)[codes]
            else:
                x = codes.double() if self.code == "uint4" else (codes - 16 * (codes > 7)).double()
        elif self.code == "uint8":
            x = data.double()
        else:
            x = (data.view(self.data.dtype) if BITS[self.code] == 8 else data).double()
        if self.code in ("uint4", "uint8"):
            x = x - (8 if self.code == "uint4" else 128) if self.zero is None else x - self._spread(self.zero, lines)
        if self.scale is None:
            return x
        scale = self._spread(self.scale, lines)
        return x * (torch.exp2(scale - 127) if self.kind == "ue8m0" else scale)

    def _spread(self, of_groups: torch.Tensor, lines: torch.Tensor) -> torch.Tensor:
        return of_groups.float()[lines].double().repeat_interleave(self.k // of_groups.shape[1], dim=1)


class Problem:
    def __init__(self, kind: Kind, m: int, n: int, k: int, device: str) -> None:
        self.kind, self.m, self.n, self.k, self.device = kind, m, n, k, device
        self.a = Operand(kind.a, m, k, kind.group_a, kind.scale_a, False, device)
        self.bs = [self.weights()]
        self.tensor_scale = torch.full((1,), 0.25, device=device) if kind.tensor_scale else None
        self.out = torch.full((m, n), math.nan, device=device, dtype=torch.bfloat16)

    def weights(self) -> Operand:
        return Operand(self.kind.b, self.n, self.k, self.kind.group_b, self.kind.scale_b, self.kind.zeros, self.device)

    def add_sets(self) -> None:
        """So many sets of weights that none stays in L2."""
        while len(self.bs) < IN_GRAPH and len(self.bs) * self.bs[0].bytes() < L2_BYTES:
            self.bs.append(self.weights())

    def call(self, context: Context, i: int = 0, **launch: Any) -> Callable[[], object]:
        args = {**self.a.args("a"), **self.bs[i].args("b"), **launch}
        if self.tensor_scale is not None:
            args["tensor_scale_b"] = self.tensor_scale
        a, b = args.pop("a"), args.pop("b")
        return lambda: context.quantized_gemm(a, b, out=self.out, **args)

    def error(self) -> float:
        """The largest error of sampled results, of the sum of their terms' sizes; a bf16's rounding is not counted."""
        rows = torch.randint(0, self.m, (min(self.m, SAMPLES),), device=self.device)
        columns = torch.randint(0, self.n, (min(self.n, SAMPLES),), device=self.device)
        a, b = self.a.exact(rows), self.bs[0].exact(columns)
        by = 0.25 if self.tensor_scale is not None else 1.0
        exact, size = a @ b.T * by, a.abs() @ b.abs().T * by
        off = (self.out[rows][:, columns].double() - exact).abs() - exact.abs() * 2.0**-8
        return float((off.clamp(min=0) / size.clamp(min=1e-30)).nan_to_num(nan=math.inf).max())


def allowed(kind: Kind) -> float:
    """What sums in f32 on tensor cores may cost; groups of 16 are rounded once, exactly where their scales are e4m3."""
    return 2.0**-8 if kind.group_b == 16 and kind.scale_b != "e4m3" else 2.0**-17


def graph_us(calls: list[Callable[[], object]]) -> float:
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for call in calls:
            call()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for i in range(IN_GRAPH):
                calls[i % len(calls)]()
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


def measure(problem: Problem, context: Context, clock: Clock, row: dict[str, Any]) -> str:
    problem.add_sets()
    row["call_us"] = clock.call_us(problem.call(context))
    row["graph_us"] = graph_us([problem.call(context, i) for i in range(len(problem.bs))])
    row["programmatic_us"] = graph_us([problem.call(context, i, programmatic=True) for i in range(len(problem.bs))])
    del problem.bs[1:]
    x = torch.randn(problem.m, problem.k, device="cuda", dtype=torch.bfloat16)
    weight = torch.randn(problem.n, problem.k, device="cuda", dtype=torch.bfloat16)
    y = torch.empty(problem.m, problem.n, device="cuda", dtype=torch.bfloat16)
    row["torch_call_us"] = clock.call_us(lambda: torch.mm(x, weight.T, out=y))
    weights = [weight] + [weight.clone() for _ in range(min(IN_GRAPH, L2_BYTES // (2 * problem.n * problem.k)))]
    row["torch_graph_us"] = graph_us([lambda w=w: torch.mm(x, w.T, out=y) for w in weights])
    best = min(row["graph_us"], row["programmatic_us"])
    row["tb_s"] = problem.bs[0].bytes() / best * 1e-6
    row["tflops"] = 2.0 * problem.m * problem.n * problem.k / best * 1e-6
    row["x"] = row["torch_graph_us"] / best
    return (
        f"{row['call_us']:9.1f}{row['graph_us']:9.1f}{row['programmatic_us']:9.1f}{row['torch_call_us']:9.1f}"
        f"{row['torch_graph_us']:9.1f}{row['x']:7.2f}x{row['tb_s']:7.2f} TB/s{row['tflops']:8.1f} TFLOP/s"
    )


def shapes(options: argparse.Namespace, draw: random.Random) -> list[tuple[int, int, int]]:
    if options.host:
        return [(1, 40, 256), (17, 130, 512), (70, 257, 384)]
    layers = list(QUICK_LAYERS if options.quick else LAYERS)
    rows = QUICK_ROWS if options.quick else ROWS
    for _ in range(1 if options.quick else 4):
        layers.append((draw.randrange(512, 16384, 16), draw.randrange(512, 16384, 128)))
    return [(m, n, k) for n, k in layers for m in rows]


def summary(rows: list[dict[str, Any]]) -> None:
    """Of few rows and layers of 50 MB the bytes a second, of many rows the operations."""
    for name in sorted({row["kind"] for row in rows if "tb_s" in row}):
        own = [row for row in rows if row["kind"] == name and "tb_s" in row]
        few = sorted(row["tb_s"] for row in own if row["m"] <= 32 and row["bytes"] >= 50e6)
        many = sorted(row["tflops"] for row in own if row["m"] >= 1024)
        text = f"{name:32}"
        if few:
            text += f" M to 32, from 50 MB: worst {few[0]:.2f}, median {statistics.median(few):.2f} TB/s;"
        if many:
            text += f" M from 1024: worst {many[0]:.0f}, best {many[-1]:.0f} TFLOP/s"
        print(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="kinds whose names have one of these words, parted by commas")
    parser.add_argument("--quick", action="store_true", help="few kinds, layers and rows")
    parser.add_argument("--host", action="store_true", help="small problems on the CPU, checked and not timed")
    parser.add_argument("--seed", type=int, default=None, help="of shapes and numbers; drawn unless given")
    parser.add_argument("--seconds", type=float, default=0, help="begin nothing after so many")
    parser.add_argument("--json", help="write the figures there")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(1 << 31) if options.seed is None else options.seed
    print(f"seed {seed}")
    draw = random.Random(seed)
    torch.manual_seed(seed)
    device = "cpu" if options.host else "cuda"
    words = options.only.split(",")
    kinds = [kind for kind in KINDS if any(word in kind.name for word in words)]
    if options.quick and not options.only:
        kinds = [kind for kind in KINDS if kind.name in QUICK_KINDS]
    if not options.host:
        print(
            torch.cuda.get_device_name(),
            "us of quern's call, graph, programmatic graph; of torch.mm in bf16 call, graph",
        )
    rows: list[dict[str, Any]] = []
    begin = time.perf_counter()
    with Context("host" if options.host else "cuda") as context:
        clock = None if options.host else Clock()
        for m, n, k in shapes(options, draw):
            for kind in kinds:
                if options.seconds and time.perf_counter() - begin > options.seconds:
                    break
                problem = Problem(kind, m, n, k, device)
                name = f"{kind.name:30} {m:5} {n:6} {k:6}"
                row: dict[str, Any] = {"kind": kind.name, "m": m, "n": n, "k": k, "bytes": problem.bs[0].bytes()}
                rows.append(row)
                problem.call(context)()
                if not options.host:
                    torch.cuda.synchronize()
                row["error"] = problem.error()
                row["right"] = row["error"] <= allowed(kind)
                text = "" if clock is None else measure(problem, context, clock, row)
                print(f"{name}{text}" + ("" if row["right"] else f"  WRONG BY {row['error']:.3g}"), flush=True)
    summary(rows)
    if options.json:
        write(options.json, note="Microseconds; weights' bytes and operations a second by the faster graph.", rows=rows)
    if not all(row["right"] for row in rows):
        raise SystemExit("a result is wrong")


if __name__ == "__main__":
    main()
