"""Operands on the device, what they stand for, and how far a result is from their product.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch

from .shapes import KINDS, Shape

FP8 = torch.float8_e4m3fn
LARGEST = 448.0  # of e4m3
GROUP = 128  # elements that share a block scale
# 1 - 2<x,y>/(x^2+y^2) of a right result and its reference stays below.
LIMIT = 1e-3


@dataclass
class Operands:
    """One set of what a product reads and writes. In groups a, b and out have the experts in front, but for a
    contiguous a and out, whose experts' rows follow one another."""

    a: torch.Tensor
    b: torch.Tensor
    out: torch.Tensor
    scale_a: torch.Tensor | None = None
    scale_b: torch.Tensor | None = None

    def twin(self) -> Operands:
        """The same numbers and layout elsewhere in memory."""
        tensors = {name: value for name, value in vars(self).items() if value is not None}
        return replace(self, **{name: _twin(value) for name, value in tensors.items()})

    def poison(self) -> None:
        self.out.fill_(float("nan"))


def _twin(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=tensor.device).copy_(tensor)


def _blocks(x: torch.Tensor, rows: int) -> torch.Tensor:
    """[..., M, K] as [..., blocks, rows, groups, GROUP], zeros where it ends sooner."""
    m, k = x.shape[-2:]
    padded = torch.nn.functional.pad(x, (0, -k % GROUP, 0, -m % rows))
    return padded.unflatten(-1, (-1, GROUP)).unflatten(-3, (-1, rows))


def quantised(x: torch.Tensor, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    """[..., M, K] as e4m3 with a scale for each block of `rows` x GROUP: [..., ceil(M/rows), ceil(K/GROUP)] f32."""
    blocks = _blocks(x.float(), rows)
    scale = blocks.abs().amax((-3, -1)).clamp_min_(1e-4).div_(LARGEST)
    codes = (blocks / scale[..., :, None, :, None]).to(FP8)
    *_, m, k = x.shape
    return codes.flatten(-2).flatten(-3, -2)[..., :m, :k].contiguous(), scale


def rows_fastest(scale: torch.Tensor) -> torch.Tensor:
    """[..., M, groups] with its rows contiguous, a multiple of four of them: how quern and DeepGEMM read it fastest."""
    *leading, m, groups = scale.shape
    wide = torch.zeros(*leading, groups, -(-m // 4) * 4, dtype=scale.dtype, device=scale.device)
    view = wide[..., :m].transpose(-1, -2)
    view.copy_(scale)
    return view


def dequantised(codes: torch.Tensor, scale: torch.Tensor, rows: int) -> torch.Tensor:
    """f32 of what `quantised` gave."""
    m, k = codes.shape[-2:]
    wide = scale.repeat_interleave(rows, -2)[..., :m, :].repeat_interleave(GROUP, -1)[..., :k]
    return codes.float() * wide


def _turned(x: torch.Tensor) -> torch.Tensor:
    """The same matrix, stored column by column."""
    return x.T.contiguous().T


def dense(kind: str, shape: Shape, device: str) -> Operands:
    """Normally distributed data."""
    a = torch.randn(shape.m, shape.k, dtype=torch.bfloat16, device=device)
    b = torch.randn(shape.n, shape.k, dtype=torch.bfloat16, device=device)
    out = torch.empty(shape.m, shape.n, dtype=torch.bfloat16, device=device)
    if KINDS[kind].element_bytes == 2:
        return Operands(_turned(a) if KINDS[kind].turned_a else a, _turned(b) if KINDS[kind].turned_b else b, out)
    (a, scale_a), (b, scale_b) = quantised(a, 1), quantised(b, GROUP)
    if kind == "block":
        return Operands(a, b, out, rows_fastest(scale_a), scale_b)
    sizes = (1, 1) if kind == "tensor" else (shape.m, shape.n)
    scale_a, scale_b = (torch.rand(size, device=device).add_(0.5).div_(LARGEST) for size in sizes)
    return Operands(a, b, out, scale_a, scale_b)


def dense_reference(kind: str, given: Operands) -> torch.Tensor:
    """The product of what the operands stand for, in f32."""
    if kind == "block":
        return dequantised(given.a, given.scale_a, 1) @ dequantised(given.b, given.scale_b, GROUP).T
    product = given.a.float() @ given.b.float().T
    return product if given.scale_a is None else product * given.scale_a[:, None] * given.scale_b[None, :]


def grouped(shape: Shape, contiguous: bool, device: str) -> Operands:
    """Experts with all their rows there, block scales."""

    def codes(rows: int, share: int) -> tuple[torch.Tensor, torch.Tensor]:
        made = [
            quantised(torch.randn(rows, shape.k, dtype=torch.bfloat16, device=device), share)
            for _ in range(shape.groups)
        ]
        return torch.stack([code for code, _ in made]), torch.stack([scale for _, scale in made])

    (a, scale_a), (b, scale_b) = codes(shape.m, 1), codes(shape.n, GROUP)
    out = torch.empty(shape.groups, shape.m, shape.n, dtype=torch.bfloat16, device=device)
    if contiguous:
        a, scale_a, out = a.flatten(0, 1), scale_a.flatten(0, 1), out.flatten(0, 1)
    return Operands(a, b, out, rows_fastest(scale_a), scale_b)


def grouped_reference(given: Operands) -> torch.Tensor:
    """Each expert's product in f32, in out's shape."""
    experts = given.b.shape[0]
    rows = dequantised(given.a, given.scale_a, 1).view(experts, -1, given.a.shape[-1])
    products = [rows[e] @ dequantised(given.b[e], given.scale_b[e], GROUP).T for e in range(experts)]
    return torch.stack(products).view(given.out.shape)


def difference(x: torch.Tensor, y: torch.Tensor) -> float:
    """1 - 2<x,y>/(x^2+y^2) in f64; NaN where there is a NaN."""
    product: Any = 0.0
    squares: Any = 0.0
    for part, other in zip(x.flatten().split(1 << 24), y.flatten().split(1 << 24), strict=True):
        left, right = part.double(), other.double()
        product += torch.dot(left, right)
        squares += torch.dot(left, left) + torch.dot(right, right)
    return float(1 - 2 * product / squares)
