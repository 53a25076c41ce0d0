"""Matrix products: how many times as fast as the peer, and how much of the memory's speed few rows reach.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import math
from typing import Any

from .results import newest, source
from .svg import BLUE, FAINT, GREEN, GREY, GRID, INK, ORANGE, RED, Picture, Scale

KINDS = {
    "block": ("fp8, block scales / DeepGEMM", BLUE, 1),
    "tensor": ("fp8, a scale a tensor / cuBLASLt", GREEN, 1),
    "row": ("fp8, a scale a row / cuBLASLt", ORANGE, 1),
    "bf16": ("bf16 / cuBLASLt", RED, 2),
}


def _rows(result: dict[str, Any]) -> list[tuple[tuple[int, int, int], str, dict[str, Any], dict[str, Any]]]:
    """Shape (m, n, k), kind, quern's times and the peer's, of each row of a known kind that has both."""
    found = []
    for row in result["rows"]:
        shape, sides = row["case"]["shape"], dict(row["sides"])
        ours = sides.pop("quern", None)
        if row["case"]["section"] in KINDS and ours and sides:
            found.append(
                ((shape["m"], shape["n"], shape["k"]), row["case"]["section"], ours, next(iter(sides.values())))
            )
    return found


def speed() -> Picture:
    """A line a kind from a call's ratio to a graph's, for each shape."""
    result = newest("gemm")
    rows = _rows(result)
    shapes = sorted({shape for shape, *_ in rows})
    kinds = [kind for kind in KINDS if any(kind == of for _, of, *_ in rows)]
    step = 12 * len(kinds) + 14
    top, left, right = 112, 165, 860
    picture = Picture(
        900, top + step * len(shapes) + 50, "Matrix products: speed over the peer in the same run", source(result)
    )
    picture.legend(20, 74, [(KINDS[kind][0], KINDS[kind][1]) for kind in kinds])
    bottom = top + step * len(shapes)
    x = Scale(0.85, 3.1, left, right, log=True)
    for tick in (0.9, 1, 1.1, 1.25, 1.5, 2, 2.5, 3):
        picture.line(x(tick), top - 6, x(tick), bottom, INK if tick == 1 else GRID, 1.5 if tick == 1 else 1)
        picture.text(x(tick), bottom + 18, f"{tick:g} x", colour=FAINT, anchor="middle")
    picture.text(x(1) - 6, top - 10, "peer faster", size=11, colour=FAINT, anchor="end")
    picture.text(x(1) + 6, top - 10, "quern faster", size=11, colour=FAINT)
    picture.dot(right - 258, top - 14, FAINT, 4, hollow=True)
    picture.text(right - 248, top - 10, "one call, L2 flushed", size=11, colour=FAINT)
    picture.dot(right - 118, top - 14, FAINT, 4)
    picture.text(right - 108, top - 10, "in a CUDA graph", size=11, colour=FAINT)
    for i, shape in enumerate(shapes):
        y = top + i * step
        if i > 0:
            picture.line(20, y, right, y)
        picture.text(left - 12, y + step / 2 + 4, " x ".join(map(str, shape)), anchor="end")
        for of, kind, ours, peer in rows:
            if of != shape:
                continue
            at = y + 12 + 12 * kinds.index(kind)
            call, graph = (x(peer[how] / ours[how]) for how in ("call_us", "graph_us"))
            picture.line(call, at, graph, at, KINDS[kind][1], 2)
            picture.dot(call, at, KINDS[kind][1], 3.8, hollow=True)
            picture.dot(graph, at, KINDS[kind][1], 3.8)
    picture.text(left - 12, bottom + 18, "M x N x K", colour=FAINT, anchor="end")
    return picture


def weights() -> Picture:
    """TB/s of weights over rows, a panel a matrix of weights, under the speed of a copy."""
    result, ceilings = newest("gemm"), newest("ceilings")
    ceiling = ceilings["copy_gbps"] / 1000
    rows = [row for row in _rows(result) if row[0][0] <= 128]
    panels = sorted({shape[1:] for shape, *_ in rows}, key=lambda nk: nk[0] * nk[1])
    wide, top, bottom = 210, 136, 406
    width = 70 + wide * len(panels)
    picture = Picture(width, 460, "Few rows: weights read, TB/s, as part of a CUDA graph", source(result))
    kinds = [kind for kind in KINDS if any(kind == of for _, of, *_ in rows)]
    picture.legend(20, 74, [(KINDS[kind][0].split(" / ")[0], KINDS[kind][1]) for kind in kinds])
    picture.dot(width - 250, 70, FAINT, 4)
    picture.text(width - 240, 74, "quern")
    picture.dot(width - 180, 70, FAINT, 3, hollow=True)
    picture.text(width - 170, 74, "peer")
    y = Scale(0, 5, bottom, top)
    for i, panel in enumerate(panels):
        left = 62 + i * wide
        right = left + wide - 30
        lowest = min(shape[0] for shape, *_ in rows)
        x = Scale(lowest, 128, left + 14, right - 14, log=True)
        picture.text((left + right) / 2, top - 14, f"N {panel[0]}, K {panel[1]}", anchor="middle", weight=600)
        for tick in range(6):
            picture.line(left, y(tick), right, y(tick))
            if i == 0:
                picture.text(left - 8, y(tick) + 4, str(tick), colour=FAINT, anchor="end")
        picture.line(left, y(ceiling), right, y(ceiling), INK, 1.3, "5 4")
        if i == 0:
            picture.text(left + 4, y(ceiling) - 6, f"copy, {ceiling:.2f} TB/s", size=11)
        for m in sorted({shape[0] for shape, *_ in rows}):
            picture.line(x(m), bottom, x(m), bottom + 4, FAINT)
            picture.text(x(m), bottom + 18, str(m), colour=FAINT, anchor="middle")
        for k, kind in enumerate(kinds):
            of_kind = sorted((row for row in rows if row[0][1:] == panel and row[1] == kind), key=lambda row: row[0])
            aside = 7 * (k - (len(kinds) - 1) / 2)  # kinds come to much the same
            for side in (3, 2):  # the peer's, then quern's over them
                points = [
                    (x(row[0][0]) + aside, y(panel[0] * panel[1] * KINDS[kind][2] / row[side]["graph_us"] / 1e6))
                    for row in of_kind
                ]
                if len(points) > 1:
                    picture.path(points, KINDS[kind][1], 1.6 if side == 2 else 0.8, "" if side == 2 else "3 3")
                for at in points:
                    picture.dot(*at, KINDS[kind][1], 4 if side == 2 else 2.6, hollow=side == 3)
        picture.text((left + right) / 2, bottom + 38, "M, rows", colour=FAINT, anchor="middle")
    return picture


SWEPT = {
    **{kind: (title, colour) for kind, (title, colour, _) in KINDS.items()},
    "grouped": ("grouped / CUTLASS", GREY),
    "contiguous": ("contiguous experts, block scales / DeepGEMM", GREY),
    "masked": ("masked experts, block scales / DeepGEMM", GREY),
}


def random_products() -> Picture:
    """A dot for each random product: the ratio of its graph over M, a panel a kind, with the goal's share of them."""
    result = newest("gemm_random")
    products = [product for product in result["products"] if not product["error"] and product["peer"]]
    kinds = [kind for kind in SWEPT if any(product["kind"] == kind for product in products)]
    high, top, left, right = 170, 100, 70, 880
    picture = Picture(
        920,
        top + (high + 34) * len(kinds) + 30,
        "Random matrix products: speed over the peer, as graphs",
        source(result),
    )
    for i, kind in enumerate(kinds):
        title, colour = SWEPT[kind]
        above = top + i * (high + 34)
        y = Scale(0.6, 2.6, above + high, above, log=True)
        x = Scale(1, 8192 if kind in KINDS else 16384, left, right, log=True)
        points = [
            (product["shape"]["m"], product["graph_us"][product["peer"]] / product["graph_us"]["quern"])
            for product in products
            if product["kind"] == kind
        ]
        mean = math.exp(sum(math.log(ratio) for _, ratio in points) / len(points))
        picture.text(left, above - 8, f"{title}: {len(points)} products, mean {mean:.2f}", weight=600)
        for tick in (0.7, 0.8, 0.9, 1, 1.25, 1.5, 2, 2.5):
            picture.line(left, y(tick), right, y(tick), INK if tick == 1 else GRID, 1.3 if tick == 1 else 1)
            picture.text(left - 8, y(tick) + 4, f"{tick:g}", size=11, colour=FAINT, anchor="end")
        for tick in (1, 4, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192):
            picture.text(x(tick), above + high + 14, str(tick), size=11, colour=FAINT, anchor="middle")
        for m, ratio in points:
            picture.dot(x(m), y(min(max(ratio, 0.6), 2.6)), colour, 2.2)
    picture.text((left + right) / 2, top + (high + 34) * len(kinds) + 8, "M, rows", colour=FAINT, anchor="middle")
    return picture
