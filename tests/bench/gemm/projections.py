"""Random matrix products: M log-uniform, N and K those of a projection of a real model at some tensor parallelism, or
odd sizes.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from .shapes import Shape

MOST_ROWS = 8192
ODD_SHARE = 0.25  # of products whose N and K belong to no model
MULTIPLE = 16  # of N and K, that every peer takes


@dataclass(frozen=True)
class Model:
    """Of a decoder with grouped-query attention, by its config.json."""

    name: str
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int

    def projections(self, ranks: int) -> list[tuple[int, int]]:
        """(N, K) of one of so many ranks: qkv, o, gate and up, down."""
        queries, keys = self.heads * self.head_dim // ranks, max(self.kv_heads // ranks, 1) * self.head_dim
        width = self.intermediate // ranks
        return [
            (queries + 2 * keys, self.hidden),
            (self.hidden, queries),
            (2 * width, self.hidden),
            (self.hidden, width),
        ]


MODELS = [
    Model("Llama-3.2-1B", 2048, 32, 8, 64, 8192),
    Model("Llama-3.2-3B", 3072, 24, 8, 128, 8192),
    Model("Llama-3.1-8B", 4096, 32, 8, 128, 14336),
    Model("Llama-3.1-70B", 8192, 64, 8, 128, 28672),
    Model("Qwen2.5-7B", 3584, 28, 4, 128, 18944),
    Model("Qwen2.5-72B", 8192, 64, 8, 128, 29568),
    Model("Qwen3-8B", 4096, 32, 8, 128, 12288),
    Model("Qwen3-32B", 5120, 64, 8, 128, 25600),
    Model("Mistral-7B", 4096, 32, 8, 128, 14336),
    Model("Mistral-Small-24B", 5120, 32, 8, 128, 32768),
    Model("Gemma-2-9B", 3584, 16, 8, 256, 14336),
    Model("Gemma-3-27B", 5376, 32, 16, 128, 21504),
    Model("gpt-oss-20b", 2880, 64, 8, 64, 2880),
    Model("GLM-4-9B", 4096, 32, 2, 128, 13696),
    Model("Phi-3-mini", 3072, 32, 32, 96, 8192),
    Model("Phi-4", 5120, 40, 10, 128, 17920),
]
# DeepSeek-V3's latent attention, and its layers with and without experts: (N, K) whole, and which of them ranks divide.
DEEPSEEK = [
    (2112, 7168, ""),
    (24576, 1536, "n"),
    (32768, 512, "n"),
    (7168, 16384, "k"),
    (36864, 7168, "n"),
    (7168, 18432, "k"),
    (4096, 7168, "n"),
    (7168, 2048, "k"),
]
RANKS = (1, 2, 4, 8)
BLOCK = 128  # of block scales, and rows of a tile of contiguous experts


def _log_uniform(random_: random.Random, least: int, most: int) -> int:
    return min(int(math.exp(random_.uniform(math.log(least), math.log(most + 1)))), most)


def _columns(random_: random.Random) -> tuple[int, int]:
    if random_.random() < ODD_SHARE:
        return (
            MULTIPLE * _log_uniform(random_, 64 // MULTIPLE, 16384 // MULTIPLE),
            MULTIPLE * _log_uniform(random_, 128 // MULTIPLE, 16384 // MULTIPLE),
        )
    ranks = random_.choice(RANKS)
    model = random_.randrange(len(MODELS) + 1)
    if model < len(MODELS):
        return random_.choice(MODELS[model].projections(ranks))
    n, k, divided = random_.choice(DEEPSEEK)
    return (n // ranks if divided == "n" else n, k // ranks if divided == "k" else k)


def random_shape(random_: random.Random, most_rows: int = MOST_ROWS) -> Shape:
    """One whose N and K every kind and every peer takes."""
    while True:
        n, k = _columns(random_)
        if n % MULTIPLE == 0 and k % MULTIPLE == 0:
            return Shape(_log_uniform(random_, 1, most_rows), n, k)


@dataclass(frozen=True)
class Experts:
    """A mixture's product: experts with unequally many rows of a."""

    shape: Shape
    counts: list[int]


# Experts, and (N, K) of their gate and up and of their down projection.
MIXTURES = [
    (8, (28672, 4096), (4096, 14336)),  # Mixtral-8x7B
    (32, (4096, 7168), (7168, 2048)),  # DeepSeek-V3, of 8 ranks
    (128, (1536, 2048), (2048, 768)),  # Qwen3-30B-A3B
    (32, (5760, 2880), (2880, 2880)),  # gpt-oss-20b
    (16, (2816, 4096), (4096, 1408)),  # GLM-4.5-Air, of 8 ranks
]


def random_experts(random_: random.Random) -> Experts:
    """Counts fall off by a power of the expert's place; some experts have none. M is all rows together."""
    experts, up, down = random_.choice(MIXTURES)
    n, k = random_.choice((up, down))
    rows = _log_uniform(random_, experts // 4, 16384)
    skew = random_.uniform(0.0, 1.0)
    weights = [(place + 1) ** -skew for place in range(experts)]
    random_.shuffle(weights)
    counts = [0] * experts
    for expert in random_.choices(range(experts), weights, k=rows):
        counts[expert] += 1
    return Experts(Shape(rows, n, k, experts), counts)


def with_blocks(experts: Experts, kind: str, operand_bytes: int, result_bytes: int) -> Experts | None:
    """The same with block scales, as contiguous or masked groups, where they fit: whole groups of k and columns, which
    the peer wants, and experts of whole tiles: contiguous ones have so many rows, masked ones room for them. M is then
    all rows, or the room of a masked expert."""
    shape, counts = experts.shape, experts.counts
    if kind == "contiguous":
        counts = [-(-count // BLOCK) * BLOCK for count in counts]
    rows = sum(counts) if kind == "contiguous" else -(-max(counts) // BLOCK) * BLOCK
    slots = rows if kind == "contiguous" else rows * shape.groups
    whole = shape.n % BLOCK == 0 and shape.k % BLOCK == 0
    read, written = slots * shape.k, slots * shape.n * 2
    if not whole or read > operand_bytes // 2 or read + shape.groups * shape.n * shape.k > operand_bytes:
        return None
    return Experts(Shape(rows, shape.n, shape.k, shape.groups), counts) if written <= result_bytes else None
