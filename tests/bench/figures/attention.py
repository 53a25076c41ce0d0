"""Attention beside its peers: TFLOP/s of prefill, bytes of keys and values a second of decode.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import Any

from .results import newest, source
from .svg import BLUE, FAINT, GREEN, GREY, INK, ORANGE, PURPLE, RED, Picture, Scale

# The order of the bars, what they are called and their colours; other peers follow in grey.
SIDES = {
    "quern": ("quern", BLUE),
    "flash": ("PyTorch, flash", GREY),
    "cudnn": ("PyTorch, cuDNN", GREEN),
    "flashinfer": ("FlashInfer", ORANGE),
    "fa3": ("FlashAttention-3", PURPLE),
    "fa4": ("FlashAttention-4", RED),
}


def _prefill(quern: dict[str, Any], peers: dict[str, Any]) -> dict[tuple[int, ...], dict[str, float]]:
    """TFLOP/s by (batch, heads, KV heads, queries, keys, dim), then by side."""
    fields = ("batch", "heads", "kv_heads", "q_len", "kv_len", "dim")
    found: dict[tuple[int, ...], dict[str, float]] = {}
    for row in quern.get("prefill", []):
        if row["page_size"] == 0 and row.get("tflops"):
            found.setdefault(tuple(row[field] for field in fields), {})["quern"] = row["tflops"]
    for row in peers.get("prefill", []):
        if row.get("tflops"):
            found.setdefault(tuple(row["shape"]), {})[row["backend"]] = row["tflops"]
    return {shape: sides for shape, sides in found.items() if "quern" in sides}


def _decode(quern: dict[str, Any], peers: dict[str, Any]) -> dict[tuple[int, ...], dict[str, float]]:
    """TB/s of keys and values as a graph by (batch, heads, KV heads, context), then by side."""

    def rate(shape: tuple[int, ...], us: float) -> float:
        batch, _, kv_heads, context = shape
        return batch * kv_heads * context * 128 * 2 * 2 / us / 1e6

    found: dict[tuple[int, ...], dict[str, float]] = {}
    for row in quern.get("decode", {}).get("rows", []):
        shape = (row["batch"], row["heads"], row["kv_heads"], row["context"])
        if row["page_size"] == 16 and row.get("graph_us"):
            found.setdefault(shape, {})["quern"] = rate(shape, row["graph_us"])
    for row in peers.get("decode", []):
        batch, heads, kv_heads, _, context, dim = row["shape"]
        if row.get("graph_us") and dim == 128:
            shape = (batch, heads, kv_heads, context)
            found.setdefault(shape, {})[row["backend"]] = rate(shape, row["graph_us"])
    return {shape: sides for shape, sides in found.items() if "quern" in sides}


def _panel(
    picture: Picture,
    top: float,
    title: str,
    rows: list[tuple[str, dict[str, float]]],
    high: float,
    ticks: list[float],
    digits: int,
    ceiling: float | None = None,
) -> float:
    """Bars by row, from `top` down. Where it ends."""
    left, right, thick = 250, 840, 12
    x = Scale(0, high, left, right)
    picture.text(20, top, title, size=14, weight=600)
    y = top + 16
    end = y + sum(thick * len(sides) + 12 for _, sides in rows)
    for tick in ticks:
        picture.line(x(tick), y, x(tick), end)
        picture.text(x(tick), end + 16, f"{tick:g}", colour=FAINT, anchor="middle")
    for name, sides in rows:
        y += 6
        picture.text(left - 12, y + thick * len(sides) / 2 + 4, name, anchor="end")
        for side in sorted(sides, key=lambda side: list(SIDES).index(side) if side in SIDES else len(SIDES)):
            colour = SIDES[side][1] if side in SIDES else GREY
            picture.box(left, y, x(sides[side]) - left, thick - 2, colour)
            picture.text(x(sides[side]) + 5, y + thick - 3, f"{sides[side]:.{digits}f}", size=10.5, colour=FAINT)
            y += thick
        y += 6
    picture.line(left, top + 16, left, end, INK)
    if ceiling is not None:
        picture.line(x(ceiling), top + 10, x(ceiling), end, INK, 1.3, "5 4")
        picture.text(x(ceiling), top + 4, f"copy, read + written: {ceiling:.2f}", size=11, anchor="middle")
    return end + 30


def attention() -> Picture:
    peers = newest("attention_peers")
    quern = peers["quern"]
    ceilings = newest("ceilings")
    prefill = [
        (f"b{b} {h}/{kv}, {q} of {k}, d {d}", sides) for (b, h, kv, q, k, d), sides in _prefill(quern, peers).items()
    ]
    decode = [(f"b{b} {h}/{kv}, context {c}", sides) for (b, h, kv, c), sides in _decode(quern, peers).items()]
    shown = {side for _, sides in prefill + decode for side in sides}
    bars = sum(12 * len(sides) + 12 for _, sides in prefill + decode)
    picture = Picture(900, 236 + bars, "Attention, bf16, beside its peers", source(peers))
    picture.legend(20, 74, [SIDES.get(side, (side, GREY)) for side in [*SIDES, *(shown - set(SIDES))] if side in shown])
    most = max(value for _, sides in prefill for value in sides.values())
    high = 100 * (int(most / 100) + 1)
    end = _panel(picture, 108, "Causal prefill, TFLOP/s", prefill, high, list(range(0, high + 1, 100)), 0)
    _panel(
        picture,
        end + 20,
        "Decode, d 128, TB/s of keys and values, in a CUDA graph",
        decode,
        5,
        [0, 1, 2, 3, 4, 5],
        2,
        ceilings["copy_gbps"] / 1000,
    )
    return picture
