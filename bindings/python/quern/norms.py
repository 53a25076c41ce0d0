# Norms, making the outputs that are not given.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

from .arrays import element, empty, shape_of
from .ops import Ops


class Norms(Ops):
    """Mixed into Context. Of what every op takes besides see Ops."""

    def rmsnorm(
        self,
        x: Any,
        weight: Any = None,
        *,
        residual: Any = None,
        residual_out: Any = None,
        eps: float = 1e-6,
        weight_plus_one: bool = False,
        constant_weight: bool = False,
        out: Any = None,
        **launch: Any,
    ) -> Any:
        """out = y / sqrt(mean(y^2) + eps) * weight by row, y = x + residual; returns out, or (out, residual_out) with a
        residual.

        x                [rows, n], n to 65536; f16, bf16 or f32; last stride 1, rows at any distance
        weight           [n], x's element type or f32; None: 1
        residual         [rows, n], added to x before, in f32
        residual_out     [rows, n], receives the sum; may be residual or x. None: allocated where residual is given
        weight_plus_one  multiply by 1 + weight (Gemma)
        constant_weight  with programmatic: nothing that may still be running writes weight
        out              [rows, n]; may be x or residual; None: allocated by x's framework"""
        shape, kind = shape_of(x, "x", 2), element(x, "x")
        out = empty(shape, x, "out", kind) if out is None else out
        if residual is not None and residual_out is None:
            residual_out = empty(shape, x, "residual_out", kind)
        self.call(
            "rmsnorm", x=x, weight=weight, residual=residual, out=out, residual_out=residual_out, eps=eps,
            weight_plus_one=weight_plus_one, constant_weight=constant_weight, **launch,
        )  # fmt: skip
        return out if residual is None else (out, residual_out)
