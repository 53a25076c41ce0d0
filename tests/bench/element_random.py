# Problems as real models have them, drawn at random: of pointwise, copy, norm, norm_backward, reduce and gather.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from element_works import (
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
from works import Place, Work

BF16, F32 = torch.bfloat16, torch.float32
MOST = 1 << 28  # elements of a tensor


@dataclass(frozen=True)
class Model:
    name: str
    hidden: int
    inner: int
    heads: int
    kv_heads: int
    dim: int
    vocabulary: int


MODELS = (
    Model("Llama-3.2-1B", 2048, 8192, 32, 8, 64, 128256),
    Model("Llama-3-8B", 4096, 14336, 32, 8, 128, 128256),
    Model("Llama-3-70B", 8192, 28672, 64, 8, 128, 128256),
    Model("Qwen2.5-0.5B", 896, 4864, 14, 2, 64, 151936),
    Model("Qwen2.5-7B", 3584, 18944, 28, 4, 128, 152064),
    Model("Qwen3-30B-A3B", 2048, 768, 32, 4, 128, 151936),
    Model("Gemma-2-9B", 3584, 14336, 16, 8, 256, 256000),
    Model("Phi-3-mini", 3072, 8192, 32, 32, 96, 32064),
    Model("DeepSeek-V3", 7168, 2048, 128, 128, 128, 129280),
    Model("GPT-2 XL", 1600, 6400, 25, 25, 64, 50257),
    Model("SmolLM2-135M", 576, 1536, 9, 3, 64, 49152),
    Model("Mistral-7B", 4096, 14336, 32, 8, 128, 32768),
    Model("FLUX", 3072, 12288, 24, 24, 128, 32128),
    Model("Whisper large", 1280, 5120, 20, 20, 64, 51866),
)


def swiglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    return F.silu(gate) * up


def gelu_of_bias(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.gelu(x + bias)


def capped(x: torch.Tensor, cap: float) -> torch.Tensor:
    return torch.tanh(x / cap) * cap


def gated(x: torch.Tensor, y: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
    return x + y * gate


def modulated(x: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    return x * (1 + scale) + shift


def unchanged(x: torch.Tensor, _: Any) -> torch.Tensor:
    return x


def elements(c: Any, p: Place, r: random.Random, m: Model, t: int) -> Work:
    def make(*shape: int) -> torch.Tensor:
        return p.normal(*shape, dtype=BF16)

    kind = r.choice(("add", "swiglu", "bias", "modulate", "gated", "cap", "cast", "scale", "silu"))
    name = f"{kind} {t}x{m.hidden}"
    if kind == "add":
        return elementwise(c, name, "add", (make(t, m.hidden), make(t, m.hidden)), torch.add)
    if kind == "swiglu":
        both = make(t, 2 * m.inner)
        return elementwise(
            c,
            f"{kind} {t}x{m.inner}",
            "swiglu",
            (both[:, : m.inner], both[:, m.inner :]),
            swiglu,
        )
    if kind == "bias":
        return elementwise(
            c, f"gelu of x + bias {t}x{m.inner}", "=gelu(tensor0+tensor1)", (make(t, m.inner), make(m.inner)),
            gelu_of_bias,
        )  # fmt: skip
    if kind == "modulate":
        return elementwise(
            c,
            name,
            kind,
            (
                make(2, max(t // 2, 1), m.hidden),
                make(2, 1, m.hidden),
                make(2, 1, m.hidden),
            ),
            modulated,
        )
    if kind == "gated":
        return elementwise(
            c,
            name,
            "gated_residual",
            (make(t, m.hidden), make(t, m.hidden), make(1, m.hidden)),
            gated,
        )
    if kind == "cap":
        rows = min(t, 512)
        return elementwise(
            c, f"cap of logits {rows}x{m.vocabulary}", "=tanh(tensor0/scalar0)*scalar0",
            (p.normal(rows, m.vocabulary), 30.0), capped,
        )  # fmt: skip
    if kind == "cast":
        return elementwise(
            c,
            f"{name} to f32",
            "cast",
            (make(t, m.hidden), "f32"),
            unchanged,
            dtype=F32,
        )
    if kind == "scale":
        return elementwise(c, f"{name} by row", "mul", (make(t, m.hidden), make(t, 1)), torch.mul)
    return elementwise(c, f"{kind} {t}x{m.inner}", "silu", (make(t, m.inner),), F.silu)


def moves(c: Any, p: Place, r: random.Random, m: Model, t: int) -> Work:
    kind = r.choice(("heads", "split", "transpose", "concat", "slice", "cast", "keys", "repeat"))
    heads = p.normal(t, m.heads, m.dim, dtype=BF16)
    if kind == "heads":
        return copied(c, f"heads first {t}x{m.heads}x{m.dim}", heads.permute(1, 0, 2))
    if kind == "keys":
        return copied(c, f"keys turned {t}x{m.heads}x{m.dim}", heads.permute(1, 2, 0), goal=3.9)
    if kind == "split":
        sizes = [m.heads * m.dim, m.kv_heads * m.dim, m.kv_heads * m.dim]
        return parted(c, f"QKV split {t}x{sum(sizes)}", p.normal(t, sum(sizes), dtype=BF16), sizes)
    if kind == "transpose":
        return copied(
            c,
            f"transpose {m.inner}x{m.hidden}",
            p.normal(m.inner, m.hidden, dtype=BF16).T,
            goal=3.9,
        )
    if kind == "concat":
        parts = [p.normal(t, n * m.dim, dtype=BF16) for n in (m.heads, m.kv_heads)]
        return concatenated(c, f"concat {t}x{m.heads}+{m.kv_heads}x{m.dim}", parts, 1)
    if kind == "slice":
        return copied(
            c,
            f"half of rows {t}x{m.inner}",
            p.normal(t, 2 * m.inner, dtype=BF16)[:, m.inner :],
        )
    if kind == "cast":
        return copied(c, f"cast {t}x{m.hidden} to f32", p.normal(t, m.hidden, dtype=BF16), F32)
    few = p.normal(t, m.kv_heads, 1, m.dim, dtype=BF16)
    group = m.heads // m.kv_heads
    return copied(c, f"repeat {t}x{m.kv_heads}x{m.dim} by {group}", few.expand(-1, -1, group, -1))


def norms(c: Any, p: Place, r: random.Random, m: Model, t: int) -> Work:
    def make(*shape: int) -> torch.Tensor:
        return p.normal(*shape, dtype=BF16)

    kind = r.choice(
        (
            "rms",
            "rms+",
            "layer",
            "layer+",
            "qk",
            "adaln",
            "l2",
            "group",
            "layer back",
            "rms back",
        )
    )
    name, x, w = f"{kind} {t}x{m.hidden}", make(t, m.hidden), make(m.hidden)
    residual = make(t, m.hidden) if kind.endswith("+") else None
    if kind.startswith("rms") and not kind.endswith("back"):
        return normalised(c, name, "rms", x, weight=w, residual=residual)
    if kind in ("layer", "layer+"):
        return normalised(c, name, "layer", x, weight=w, bias=make(m.hidden), residual=residual)
    if kind == "qk":
        return normalised(
            c,
            f"{kind} {t * m.heads}x{m.dim}",
            "rms",
            make(t * m.heads, m.dim),
            weight=make(m.dim),
        )
    if kind == "adaln":
        return normalised(c, name, "layer", x, scale=make(1, m.hidden), shift=make(1, m.hidden))
    if kind == "l2":
        return normalised(c, name, "l2", x)
    if kind == "group":
        channels, side = r.choice(((128, 128), (320, 64), (640, 32), (512, 64), (1280, 16)))
        batch = max(1, min(t // 256, 16))
        image = make(batch, channels, side * side)
        return normalised(
            c, f"group {batch}x{channels}x{side}^2", "group", image, weight=make(channels), bias=make(channels),
            groups=32,
        )  # fmt: skip
    return norm_gradient(c, name, kind.split()[0], x, w)


def reductions(c: Any, p: Place, r: random.Random, m: Model, t: int) -> Work:
    kind = r.choice(("pool", "largest", "argmax", "lse", "gradient", "columns", "rows", "sum"))
    x = p.normal(t, m.hidden, dtype=BF16)
    if kind == "pool":
        batch = 1 << r.randrange(0, 4)
        x = p.normal(batch, max(t // batch, 1), m.hidden, dtype=BF16)
        return reduced(c, f"mean of tokens {batch}x{x.shape[1]}x{m.hidden}", "mean", x, (1,))
    if kind == "largest":
        return reduced(c, f"max of rows {t}x{m.hidden}", "max", x, (1,))
    if kind == "argmax":
        rows = min(t, 512)
        return largest_place(c, f"argmax {rows}x{m.vocabulary}", p.normal(rows, m.vocabulary), 1)
    if kind == "lse":
        rows = min(t, 2048)
        return reduced(
            c,
            f"logsumexp {rows}x{m.vocabulary}",
            "logsumexp",
            p.normal(rows, m.vocabulary, dtype=BF16),
            (1,),
        )
    if kind == "gradient":
        return reduced(
            c,
            f"l2 of {m.inner}x{m.hidden}",
            "l2",
            p.normal(m.inner, m.hidden, dtype=BF16),
            (0, 1),
        )
    if kind == "columns":
        return reduced(
            c,
            f"sum of columns {t}x{m.inner}",
            "sum",
            p.normal(t, m.inner, dtype=BF16),
            (0,),
        )
    if kind == "rows":
        return reduced(c, f"mean of rows {t}x{m.hidden}", "mean", x, (1,))
    return reduced(c, f"sum of {t}x{m.hidden} f32", "sum", p.normal(t, m.hidden), (0, 1))


def gathers(c: Any, p: Place, r: random.Random, m: Model, t: int) -> Work:
    rows, n, kind = r.choice(((m.vocabulary, m.hidden, "embedding"), (t, m.hidden, "experts' rows")))
    ids = p.integers(0, rows, t if kind == "embedding" else 8 * t)
    return gathered(c, f"{kind} {ids.shape[0]} of {rows}x{n}", p.normal(rows, n, dtype=BF16), ids)


FAMILIES = (
    elements,
    elements,
    moves,
    moves,
    norms,
    norms,
    reductions,
    reductions,
    gathers,
)


def drawn(context: Any, place: Place, r: random.Random, count: int) -> Iterator[Work]:
    for _ in range(count):
        while True:
            model, tokens = (
                r.choice(MODELS),
                int(2 ** r.uniform(0, 5 if place.small else 15)),
            )
            if tokens * 2 * max(model.inner, model.heads * model.dim) <= MOST:
                break
        if place.small:
            model = Model(
                model.name,
                model.hidden // 32,
                model.inner // 64,
                model.heads,
                model.kv_heads,
                8,
                500,
            )
        yield r.choice(FAMILIES)(context, place, r, model, tokens)
