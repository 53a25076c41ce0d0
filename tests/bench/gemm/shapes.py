"""Which matrix products are timed: shapes, the kinds of their operands, and who else does them.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# Both bounds of "few" and "many" rows, whose means are told apart.
FEW_ROWS, MANY_ROWS = 128, 4096


@dataclass(frozen=True)
class Shape:
    """out[m, n] = a[m, k] b[n, k]^T; with groups, that for each of so many experts of m rows."""

    m: int
    n: int
    k: int
    groups: int = 1

    @classmethod
    def parse(cls, text: str) -> Shape:
        """Of "16x4096x7168"."""
        match = re.fullmatch(r"(\d+)x(\d+)x(\d+)", text.strip())
        if match is None or "0" in match.groups():
            raise ValueError(f"{text!r} is no shape; allowed are MxNxK, as 16x4096x7168")
        return cls(*map(int, match.groups()))

    def __str__(self) -> str:
        return f"{self.m}x{self.n}x{self.k}"

    @property
    def flops(self) -> int:
        return 2 * self.groups * self.m * self.n * self.k

    def weight_bytes(self, element_bytes: int) -> int:
        return self.groups * self.n * self.k * element_bytes

    def read_bytes(self, element_bytes: int) -> int:
        """Of both operands."""
        return self.groups * (self.m + self.n) * self.k * element_bytes


# Of DeepSeek-V3 and of Llama-3, and a square one.
TWELVE = [
    Shape(16, 4096, 7168),
    Shape(64, 2112, 7168),
    Shape(64, 24576, 1536),
    Shape(64, 7168, 16384),
    Shape(128, 4096, 7168),
    Shape(128, 7168, 16384),
    Shape(4096, 2112, 7168),
    Shape(4096, 24576, 1536),
    Shape(4096, 7168, 16384),
    Shape(4096, 4096, 7168),
    Shape(4096, 7168, 2048),
    Shape(8192, 8192, 8192),
]
# Of the products whose operands are not stored row by row.
TURNED = [Shape(4096, 7168, 16384), Shape(4096, 4096, 7168), Shape(8192, 8192, 8192)]


@dataclass(frozen=True)
class Kind:
    """How operands are stored, and the peer that takes them so."""

    name: str
    title: str
    peer: str
    element_bytes: int
    turned_a: bool = False  # stored [K, M]
    turned_b: bool = False  # stored [K, N]

    @property
    def shapes(self) -> list[Shape]:
        """That are timed where none are asked for."""
        return TURNED if self.turned_a or self.turned_b else TWELVE


KINDS = {
    kind.name: kind
    for kind in (
        Kind("block", "fp8, scales of 1x128 and 128x128", "DeepGEMM", 1),
        Kind("tensor", "fp8, a scale a tensor", "cuBLASLt", 1),
        Kind("row", "fp8, a scale a row and column", "cuBLASLt", 1),
        Kind("bf16", "bf16", "cuBLASLt", 2),
        Kind("nn", "bf16, b stored [K, N]", "cuBLASLt", 2, turned_b=True),
        Kind("tn", "bf16, a stored [K, M], b [K, N]", "cuBLASLt", 2, turned_a=True, turned_b=True),
    )
}
PROGRAMMATIC = Shape(16, 4096, 7168)
MASKED = Shape(256, 4096, 7168, groups=4)
CONTIGUOUS = Shape(8192, 4096, 7168, groups=4)
# Of the kernels that every target has.
PORTABLE_MANY, PORTABLE_FEW = Shape(4096, 7168, 16384), Shape(16, 7168, 16384)

# What --only chooses from: the kinds over their shapes, then what is timed once.
SECTIONS = [*KINDS, "programmatic", "masked", "contiguous", "portable"]
# What random products are drawn of; grouped ones have a scale a row and column, contiguous and masked ones blocks'.
SWEPT = ["bf16", "tensor", "row", "block", "grouped", "contiguous", "masked"]


@dataclass(frozen=True)
class Case:
    """What is timed in one row. `variant` is a kind, or GATHERED."""

    section: str
    variant: str
    shape: Shape

    def __str__(self) -> str:
        return f"{self.section} {self.shape}" + (f" {self.variant}" if self.variant != self.section else "")

    @property
    def element_bytes(self) -> int:
        return KINDS[self.variant].element_bytes if self.variant in KINDS else 1


# The portable kernels take these where they are compiled for a target that has nothing of its own: rows gathered by
# index, and a plain product.
GATHERED, PORTABLE_TARGET = "fp8 gathered", "sm_90"


def cases(sections: list[str], shapes: list[Shape] | None = None) -> list[Case]:
    """In the order in which they are run; `shapes` are those of the kinds, None: each kind's own."""
    made = [
        Case(name, name, shape) for name, kind in KINDS.items() if name in sections for shape in shapes or kind.shapes
    ]
    once = [
        Case("programmatic", "block", PROGRAMMATIC),
        Case("masked", "block", MASKED),
        Case("contiguous", "block", CONTIGUOUS),
        Case("portable", GATHERED, PORTABLE_MANY),
        Case("portable", "bf16", PORTABLE_MANY),
        Case("portable", "block", PORTABLE_FEW),
        Case("portable", "row", PORTABLE_FEW),
        Case("portable", "bf16", PORTABLE_FEW),
    ]
    return made + [case for case in once if case.section in sections]
