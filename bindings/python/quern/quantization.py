# Quantisation to 8 bits and back, making the outputs that are not given.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

from .arrays import element, empty, empty_rows, empty_scales, empty_together, row_room, scales_layout, shape_of
from .dtypes import short_name
from .errors import InvalidError
from .ops import Ops

_PRODUCTS = ("silu_mul", "gelu_mul", "gelu_tanh_mul")


class Quantization(Ops):
    """Mixed into Context. Of what every op takes besides see Ops."""

    def quantize(
        self,
        x: Any,
        *,
        scale_kind: str = "group",
        front: str = "none",
        dtype: str = "e4m3",
        scale: Any = None,
        residual: Any = None,
        residual_out: Any = None,
        weight: Any = None,
        bias: Any = None,
        eps: float | None = None,
        power_of_two: bool = False,
        weight_plus_one: bool = False,
        dense: Any = None,
        out: Any = None,
        **launch: Any,
    ) -> tuple[Any, Any]:
        """out = saturate(y / scale) of y = front(x); returns (out, scale). As a GEMM wants them.

        x             [rows, n], in front of a product [rows, 2n]; f16, bf16 or f32; last stride 1
        scale_kind    "static": scale [1] is read; "tensor": [1]; "token": [rows]; "group", of 1x128: [rows,
                      ceil(n/128)]; "block", of 128x128: [ceil(rows/128), ceil(n/128)]; "none": only dense is written
        front         "none", "rmsnorm", "layernorm", "silu_mul", "gelu_mul" or "gelu_tanh_mul"
        dtype         "e4m3", "e5m2" or "int8": symmetric, to nearest even, -127 to 127
        residual      norms: [rows, n], added to x before; residual_out, which may be residual or x, receives the sum
        weight, bias  norms: [n]; weight_plus_one: they multiply by 1 + weight
        eps           norms
        power_of_two  round scales up to powers of two
        dense         [rows, n] of x's type: receives y itself
        out           [rows, n] of dtype, or uint8 for e4m3 and e5m2; None: allocated by x's framework, its rows 16-byte
                      aligned (padded in between where n is no multiple of 16)
        scale         f32; None: allocated, rows contiguous"""
        rows, n = shape_of(x, "x", 2)
        n = n // 2 if front in _PRODUCTS else n
        of_bytes = None
        if scale_kind == "none":
            if out is not None or scale is not None:
                raise InvalidError('out, scale: given with scale_kind "none", which writes neither')
        else:
            if out is not None:
                of_bytes = _bytes_as(dtype, out, "out")
            elif short_name(dtype) not in ("e4m3", "e5m2", "i8"):
                raise InvalidError(f"dtype: {dtype} given; allowed are e4m3, e5m2 and int8")
            elif scale is None and (layout := _scale_layout(scale_kind, rows, n)) is not None:
                strides = None if n % 16 == 0 else (row_room(n, dtype, "out"), 1)
                made = empty_together(x, ((rows, n), dtype, strides), layout)
                if made is not None:
                    out, scale = made
            if out is None:
                out = empty_rows((rows, n), x, "out", dtype)
            scale = self._scale(scale_kind, rows, n, x) if scale is None else scale
        self.call(
            "quantize", launch, x=x, out=out, scale=scale, residual=residual, residual_out=residual_out, weight=weight,
            bias=bias, dense=dense, front=front, scale_kind=scale_kind, type=of_bytes, eps=eps,
            power_of_two=power_of_two, weight_plus_one=weight_plus_one,
        )  # fmt: skip
        return out, scale

    def dequantize(
        self,
        x: Any,
        scale: Any,
        *,
        scale_kind: str | None = None,
        dtype: str = "e4m3",
        out: Any = None,
        out_dtype: object = "f32",
        **launch: Any,
    ) -> Any:
        """out = x * scale, the inverse of quantize; returns out.

        x           [rows, n] e4m3, e5m2 or int8; uint8 is taken as dtype
        scale       f32, as quantize makes it
        scale_kind  "tensor", "token", "group" or "block"; None: what the scale's shape says
        out         [rows, n]; None: allocated by x's framework with elements of out_dtype: f16, bf16 or f32"""
        shape = shape_of(x, "x", 2)
        if scale_kind is None:
            scale_kind = _kind_of(shape_of(scale, "scale"), shape)
        out = empty(shape, x, "out", out_dtype) if out is None else out
        self.call("dequantize", launch, x=x, scale=scale, out=out, scale_kind=scale_kind, type=_bytes_as(dtype, x, "x"))
        return out

    @staticmethod
    def _scale(kind: str, rows: int, n: int, x: Any) -> Any:
        groups = -(-n // 128)
        if kind == "group":
            return empty_scales((rows,), groups, x, "scale")
        if kind == "token":
            return empty((rows,), x, "scale", "f32")
        if kind == "tensor":
            return empty((1,), x, "scale", "f32")
        if kind == "block":
            return empty((-(-rows // 128), groups), x, "scale", "f32")
        known = 'allowed are "static" with a scale, "tensor", "token", "group", "block", "none"'
        raise InvalidError(f"scale_kind: {kind!r} given; {known}")


def _scale_layout(kind: str, rows: int, n: int) -> Any:
    """What `_scale` makes, for `empty_together`; None of an unknown kind."""
    groups = -(-n // 128)
    if kind == "group":
        return scales_layout(rows, groups)
    shape = {"token": (rows,), "tensor": (1,), "block": (-(-rows // 128), groups)}.get(kind)
    return None if shape is None else (shape, "f32", None)


def _bytes_as(dtype: str, array: Any, argument: str) -> str | None:
    """What bytes stand for; nothing where the array itself says it."""
    return dtype if array is not None and element(array, argument) == "u8" else None


def _kind_of(scale: tuple[int, ...], x: tuple[int, ...]) -> str:
    groups = -(-x[1] // 128)
    kinds = {(1,): "tensor", (x[0],): "token", (x[0], groups): "group", (-(-x[0] // 128), groups): "block"}
    if scale not in kinds:
        raise InvalidError(f"scale: shape {scale} given for x of {x}; allowed are {', '.join(map(str, kinds))}")
    return kinds[scale]
