"""pointwise, copy, norm, norm_backward, reduce and gather beside PyTorch, eager and compiled, in one run.

    PYTHONPATH=build/python python3 tests/bench/element_peers.py [--only WORD] [--random N --seed S] [--json FILE]

Needs PyTorch, and an NVIDIA GPU unless --host is given: then small problems are held against PyTorch's results on the
CPU and nothing is timed. Columns: quern as a call out of a flushed L2, in a graph of 20 calls and in one of
programmatic launches, in microseconds; the faster of PyTorch's two as a call, how many times as fast quern is; the same
of graphs; TB/s of what is moved at least.
With --random N problems of real models' shapes are drawn, and their distribution is told; --join FILE... tells that of
what several processes wrote with --json. --first: first calls of kernels, with an empty cache.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from element_random import drawn
from element_works import (
    TRANSPOSED,
    concatenated,
    copied,
    elementwise,
    gathered,
    largest_place,
    norm_gradient,
    normalised,
    parted,
    reduced,
)
from quern import Context
from works import COLUMNS, Place, Work, add_options, distribution, finish, run_all

BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32


def pointwises(context: Any, p: Place) -> Iterator[Work]:
    n = p.size(1 << 27, 3001)
    x, y = p.normal(n, dtype=BF16), p.normal(n, dtype=BF16)
    yield elementwise(context, "add bf16 2^27", "add", (x, y), torch.add)
    yield elementwise(context, "silu bf16 2^27", "silu", (x,), F.silu)
    yield elementwise(context, "gelu (erf) bf16 2^27", "gelu", (x,), F.gelu)
    yield elementwise(context, "cast bf16 2^27 to f32", "cast", (x, "f32"), lambda a, _: a, dtype=F32)
    yield elementwise(context, "clamp bf16 2^27", "clamp", (x, -0.5, 0.75), torch.clamp)
    keep = p.integers(0, 2, n, dtype=torch.int8).bool()
    yield elementwise(context, "where of bool, bf16 2^27", "where", (keep, x, y), torch.where)
    a, b = (t.view(-1)[: n // 2].float() for t in (x, y))
    yield elementwise(context, "tanh f32 2^26", "tanh", (a,), torch.tanh)
    yield elementwise(context, "mul f32 2^26", "mul", (a, b), torch.mul)
    yield elementwise(
        context,
        "cast f32 2^26 to bf16",
        "cast",
        (a, "bf16"),
        lambda a, _: a,
        dtype=BF16,
    )
    whole = p.integers(-100, 100, p.size(1 << 26, 999))
    yield elementwise(context, "add int32 2^26", "add", (whole, whole), torch.add)
    rows, inner = p.size(16384, 11), p.size(14336, 48)
    both = p.normal(rows, 2 * inner, dtype=BF16)
    yield elementwise(
        context, "swiglu of halves, bf16 16384x14336", "swiglu", (both[:, :inner], both[:, inner:]),
        lambda g, u: F.silu(g) * u,
    )  # fmt: skip
    t, h = p.size(4096, 5), p.size(3072, 40)
    image, scale, shift = (
        p.normal(8, t, h, dtype=BF16),
        p.normal(8, 1, h, dtype=BF16),
        p.normal(8, 1, h, dtype=BF16),
    )
    yield elementwise(
        context,
        "modulate bf16 8x4096x3072",
        "modulate",
        (image, scale, shift),
        lambda a, s, b: a * (1 + s) + b,
    )
    side = p.size(8192, 65)
    square, other = p.normal(side, side), p.normal(side, side)
    yield elementwise(context, "add f32 8192^2, one transposed", "add", (square, other.T), torch.add)
    odd = p.normal(p.size(32768, 9), p.size(4097, 33), dtype=BF16)
    yield elementwise(context, "silu bf16 of rows of 4096 in 4097", "silu", (odd[:, :-1],), F.silu)
    yield elementwise(context, "add bf16 and a column", "add", (odd[:, 1:], odd[:, :1]), torch.add)
    row, gate = (
        p.normal(1, p.size(4096, 40), dtype=BF16),
        p.normal(1, p.size(4096, 40), dtype=BF16),
    )
    yield elementwise(context, "add bf16, one row of 4096", "add", (row, gate), torch.add)
    yield elementwise(
        context,
        "swiglu bf16, one row of 4096",
        "swiglu",
        (row, gate),
        lambda g, u: F.silu(g) * u,
    )


def copies(context: Any, p: Place) -> Iterator[Work]:
    side = p.size(16384, 70)
    x = p.normal(side, side, dtype=BF16)
    yield copied(context, "bf16 2^28", x)
    yield copied(context, "bf16 columns 4096 to 12288 of 16384", x[:, side // 4 : side // 4 * 3])
    yield copied(context, "bf16 transposed 16384^2", x.T, goal=TRANSPOSED)
    yield copied(context, "bf16 every other column", x[:, ::2], goal=0)
    yield concatenated(context, "concat of bf16 columns", (x[:, : side // 2], x[:, side // 2 :]), 1)
    yield parted(
        context,
        "QKV split bf16",
        x,
        (side // 2, side // 4, side - side // 2 - side // 4),
    )
    f = p.normal(p.size(8192, 70), p.size(16384, 33))
    yield copied(context, "f32 transposed 8192x16384", f.T, goal=TRANSPOSED)
    yield copied(context, "f32 transposed to bf16", f.T, BF16, goal=TRANSPOSED)
    yield copied(context, "int8 transposed 16384^2", x.to(torch.int8).T, goal=TRANSPOSED)
    heads = p.normal(8, p.size(4096, 9), 32, p.size(128, 16), dtype=BF16)
    yield copied(context, "bf16 permuted 0213, 8x4096x32x128", heads.permute(0, 2, 1, 3))
    yield copied(
        context,
        "bf16 permuted 0231, 8x4096x32x128",
        heads.permute(0, 2, 3, 1),
        goal=TRANSPOSED,
    )
    image = p.normal(p.size(128, 2), 256, p.size(56, 7), p.size(56, 7), dtype=BF16)
    yield copied(
        context,
        "bf16 NCHW to NHWC, 128x256x56x56",
        image.permute(0, 2, 3, 1),
        goal=TRANSPOSED,
    )
    yield copied(
        context,
        "bf16 permuted 3210, 128x256x56x56",
        image.permute(3, 2, 1, 0),
        goal=TRANSPOSED,
    )
    yield copied(context, "f32 2^26 to bf16, rows", f)
    yield copied(context, "bf16, one row of 4096", x[:1, :4096])


def norms(context: Any, p: Place) -> Iterator[Work]:
    rows, n = p.size(32768, 7), p.size(4096, 96)
    x, r = p.normal(rows, n, dtype=BF16), p.normal(rows, n, dtype=BF16)
    w, b = p.normal(n, dtype=BF16), p.normal(n, dtype=BF16)
    yield normalised(context, "rms bf16 32768x4096", "rms", x, weight=w)
    yield normalised(context, "rms bf16 32768x4096, residual", "rms", x, weight=w, residual=r)
    yield normalised(context, "layer bf16 32768x4096", "layer", x, weight=w, bias=b)
    yield normalised(
        context,
        "layer bf16 32768x4096, residual",
        "layer",
        x,
        weight=w,
        bias=b,
        residual=r,
    )
    yield normalised(context, "l2 bf16 32768x4096", "l2", x)
    scale, shift = (
        p.normal(p.size(8, 7), n, dtype=BF16),
        p.normal(p.size(8, 7), n, dtype=BF16),
    )
    yield normalised(context, "adaln bf16 8x4096x4096", "layer", x, scale=scale, shift=shift)
    yield normalised(
        context,
        "layer f32 16384x4096",
        "layer",
        x[: rows // 2].float(),
        weight=w.float(),
        bias=b.float(),
    )
    wide = x.view(-1)[: p.size(1 << 27, 512)].view(-1, p.size(16384, 256))
    yield normalised(
        context,
        "layer bf16 8192x16384",
        "layer",
        wide,
        weight=p.normal(wide.shape[1], dtype=BF16),
    )
    short = x.view(-1, p.size(128, 32))
    yield normalised(context, "rms bf16 2^20x128", "rms", short, weight=w[: short.shape[1]])
    image = p.normal(p.size(256, 2), 512, p.size(1024, 9), dtype=BF16)
    c = (p.normal(512, dtype=BF16), p.normal(512, dtype=BF16))
    yield normalised(
        context,
        "group bf16 256x512x32x32, 32 groups",
        "group",
        image,
        weight=c[0],
        bias=c[1],
        groups=32,
    )
    yield normalised(
        context,
        "instance bf16 256x512x32x32",
        "group",
        image,
        weight=c[0],
        bias=c[1],
        groups=512,
    )
    yield norm_gradient(context, "layer backward bf16 32768x4096", "layer", x, w)
    yield norm_gradient(context, "rms backward bf16 32768x4096", "rms", x, w)
    yield norm_gradient(
        context,
        "rms backward bf16 8192x16384",
        "rms",
        wide,
        p.normal(wide.shape[1], dtype=BF16),
    )
    yield normalised(context, "rms bf16, one row of 4096", "rms", x[:1], weight=w)
    yield normalised(context, "layer bf16, one row of 4096", "layer", x[:1], weight=w, bias=b)


def reductions(context: Any, p: Place) -> Iterator[Work]:
    rows, n = p.size(16384, 13), p.size(8192, 200)
    x = p.normal(rows, n, dtype=BF16)
    f = p.normal(p.size(8192, 13), p.size(8192, 100))
    yield reduced(context, "sum of all, f32 2^26", "sum", f, (0, 1))
    yield reduced(context, "sum of rows, bf16 16384x8192", "sum", x, (1,))
    yield reduced(context, "sum of columns, bf16 16384x8192", "sum", x, (0,))
    yield reduced(context, "max of rows, bf16 16384x8192", "max", x, (1,))
    yield reduced(context, "l2 of all, bf16 2^27", "l2", x, (0, 1))
    yield reduced(
        context,
        "mean over places, bf16 64x1024x2048",
        "mean",
        x.view(p.size(64, 13), -1, 8),
        (1,),
    )
    cube = x.view(-1)[: p.size(1 << 27, 2048)].view(p.size(64, 2), p.size(1024, 16), -1)
    yield reduced(context, "mean of the middle, bf16 64x1024x2048", "mean", cube, (1,))
    yield reduced(context, "max of first and last, bf16 64x1024x2048", "max", cube, (0, 2))
    yield reduced(context, "logsumexp of rows, bf16 16384x8192", "logsumexp", x, (1,))
    yield largest_place(context, "argmax of rows, f32 8192x8192", f, 1)
    yield largest_place(context, "argmax of columns, f32 8192x8192", f, 0)
    yield reduced(
        context,
        "sum of rows of 64, bf16 2^21x64",
        "sum",
        x.view(-1, p.size(64, 8)),
        (1,),
    )
    yield reduced(context, "sum of rows, bf16 transposed", "sum", x.T, (1,))
    yield reduced(context, "sum bf16, one row of 4096", "sum", x[:1, :4096], (1,))


def gathers(context: Any, p: Place) -> Iterator[Work]:
    vocabulary, n, count = p.size(128256, 100), p.size(4096, 40), p.size(65536, 33)
    table = p.normal(vocabulary, n, dtype=BF16)
    for dtype in (torch.int32, torch.int64):
        ids = p.integers(0, vocabulary, count, dtype=dtype)
        yield gathered(context, f"65536 of 128256 rows of 4096 bf16, {str(dtype)[6:]}", table, ids)
    few = table.view(-1)[: p.size(1 << 27, 1024)].view(-1, p.size(128, 8))
    yield gathered(
        context,
        "2^20 rows of 128 bf16",
        few,
        p.integers(0, few.shape[0], p.size(1 << 20, 50)),
    )
    yield gathered(context, "one row of 4096 bf16", table, p.integers(0, vocabulary, 1))


def first_calls() -> None:
    """With an empty cache: with the compiler loaded, and the very first with it not."""
    works = (
        ("pointwise", lambda c, p: c.silu(p.normal(4, 4096, dtype=BF16))),
        ("pointwise, long", lambda c, p: c.gelu(p.normal(4, 4096, dtype=F16))),
        ("copy of rows", lambda c, p: c.copy(p.normal(4, 4096, dtype=BF16))),
        ("copy, transposed", lambda c, p: c.transpose(p.normal(256, 4096, dtype=BF16))),
        ("norm", lambda c, p: c.layer_norm(p.normal(4, 4096, dtype=BF16))),
        ("rmsnorm", lambda c, p: c.rmsnorm(p.normal(4, 4096, dtype=BF16))),
        (
            "norm_backward",
            lambda c, p: c.layer_norm_backward(*(p.normal(4, 4096, dtype=BF16) for _ in range(2))),
        ),
        ("reduce", lambda c, p: c.sum(p.normal(4, 4096, dtype=BF16), 1)),
        ("reduce of columns", lambda c, p: c.sum(p.normal(4096, 4096, dtype=BF16), 0)),
        (
            "gather",
            lambda c, p: c.gather(p.normal(9, 4096, dtype=BF16), p.integers(0, 9, 3)),
        ),
        (
            "scatter",
            lambda c, p: c.scatter(p.normal(3, 4096, dtype=BF16), p.integers(0, 9, 3), rows=9, add=True),
        ),
        ("histogram", lambda c, p: c.histogram(p.integers(0, 9, 9999), 10)),
        ("sort, one pass", lambda c, p: c.sort(p.normal(4, 900))),
        ("sort, many passes", lambda c, p: c.sort(p.normal(1, 1 << 20))),
        (
            "nms",
            lambda c, p: c.nms(torch.rand(50, 4, device="cuda"), torch.rand(50, device="cuda"), 0.5),
        ),
        (
            "conv1d",
            lambda c, p: c.conv1d(p.normal(9, 4096, dtype=BF16), p.normal(4096, 4, dtype=BF16)),
        ),
    )
    place = Place("cuda", False)
    with tempfile.TemporaryDirectory() as folder:
        context = Context("cuda:0", cache_path=folder)
        for name, work in works:
            torch.cuda.synchronize()
            begin = time.perf_counter()
            work(context, place)
            torch.cuda.synchronize()
            print(
                f"first call of {name:24}{(time.perf_counter() - begin) * 1e3:7.0f} ms",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument(
        "--random",
        type=int,
        default=0,
        help="so many problems drawn instead of the named ones",
    )
    parser.add_argument("--seed", type=int, help="of what is drawn; none: by the clock")
    parser.add_argument("--first", action="store_true", help="first calls alone")
    parser.add_argument("--join", nargs="+", metavar="FILE", help="no run: the distribution of those kept there")
    options = parser.parse_args()
    if options.join:
        rows = [row for file in options.join for row in json.loads(Path(file).read_text())["rows"]]
        return distribution(rows, "all")
    torch.manual_seed(torch.seed() % 2**31)
    place = Place("cpu" if options.host else "cuda", options.host)
    if options.first:
        return first_calls()
    context = Context("host" if options.host else "cuda:0")
    print(f"{context.device.name}: {COLUMNS}")
    if options.random:
        seed = int(time.time()) if options.seed is None else options.seed
        rows = run_all(drawn(context, place, random.Random(seed), options.random), options, context)
        distribution(rows, f"seed {seed}")
    else:
        families = (pointwises, copies, norms, reductions, gathers)
        rows = run_all(
            (work for family in families for work in family(context, place)),
            options,
            context,
        )
        distribution(rows, "named")
    finish(rows, options)


if __name__ == "__main__":
    main()
