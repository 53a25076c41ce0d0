# Norms, making the outputs that are not given.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .arrays import element, empty, empty_together, shape_of, unwrap
from .errors import InvalidError
from .ops import Ops
from .tensor import Tensor


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

        x                [rows, n], n to 65536; f16, bf16 or f32; last stride 1, rows at any distance. Or more
                         dimensions, rows of the last one at one distance, as are then all arrays of x's shape
        weight           [n], x's element type or f32; None: 1
        residual         [rows, n], added to x before, in f32
        residual_out     [rows, n], receives the sum; may be residual or x. None: allocated where residual is given
        weight_plus_one  multiply by 1 + weight (Gemma)
        constant_weight  with programmatic: nothing that may still be running writes weight
        out              [rows, n]; may be x or residual; None: allocated by x's framework"""
        shape = shape_of(x, "x")
        if len(shape) > 2:
            return _by_rows(
                self.rmsnorm, shape, x, weight, residual=residual, residual_out=residual_out, out=out, eps=eps,
                weight_plus_one=weight_plus_one, constant_weight=constant_weight, **launch,
            )  # fmt: skip
        shape = shape_of(x, "x", 2)
        if residual is not None and residual_out is None and out is None:
            made = empty_together(x, (shape, None, None), (shape, None, None))
            if made is not None:
                out, residual_out = made
        out = empty(shape, x, "out") if out is None else out
        if residual is not None and residual_out is None:
            residual_out = empty(shape, x, "residual_out")
        self.call(
            "rmsnorm", launch, x=x, weight=weight, residual=residual, out=out, residual_out=residual_out, eps=eps,
            weight_plus_one=weight_plus_one, constant_weight=constant_weight,
        )  # fmt: skip
        return out if residual is None else (out, residual_out)

    def norm(
        self,
        x: Any,
        weight: Any = None,
        bias: Any = None,
        *,
        kind: str = "layer",
        residual: Any = None,
        residual_out: Any = None,
        scale: Any = None,
        shift: Any = None,
        groups: int = 0,
        eps: float = 1e-5,
        weight_plus_one: bool = False,
        scale_alone: bool = False,
        dtype: object | None = None,
        out: Any = None,
        **launch: Any,
    ) -> Any:
        """out = ((norm(s) * weight) + bias) * (1 + scale) + shift, s = x + residual; returns out, or
        (out, residual_out) with a residual. What is None is left out.

        x                [rows, n], or with kind "group" [batch, channels, places]; f16, bf16 or f32; last stride 1.
                         But with "group" more dimensions, too, rows of the last one at one distance, as are then all
                         arrays of x's shape
        weight, bias     [n] or [channels], x's element type or f32, both alike
        kind             "layer", "rms", "l2" (by the root of the sum of squares) or "group"
        residual         as x, added to it before, in f32
        residual_out     as x, receives the sum; may be residual or x. None: allocated where residual is given
        scale, shift     [m, n], rows a multiple of m: of a token (m = rows), of a sample (m = batch), of all (m = 1)
        groups           of channels, with kind "group"
        weight_plus_one  multiply by 1 + weight (Gemma)
        scale_alone      multiply by scale instead of 1 + scale
        dtype            out's element type: x's by default; f16, bf16 or f32
        out              as x; may be x or residual where it has their element type; None: allocated by x's framework.
                         e4m3, e5m2 or uint8 with out_scale, scale_kind and, of uint8, type: see quern_norm_args"""
        shape = shape_of(x, "x")
        if len(shape) > 2 and kind != "group":
            return _by_rows(
                self.norm, shape, x, weight, bias, kind=kind, residual=residual, residual_out=residual_out, scale=scale,
                shift=shift, groups=groups, eps=eps, weight_plus_one=weight_plus_one, scale_alone=scale_alone,
                dtype=dtype, out=out, **launch,
            )  # fmt: skip
        shape = shape_of(x, "x", 3 if kind == "group" else 2)
        if out is None:
            out = empty(shape, x, "out", element(x, "x") if dtype is None else dtype)
        elif dtype is not None:
            raise InvalidError("dtype: given with out; allowed is one of the two")
        if residual is not None and residual_out is None:
            residual_out = empty(shape, x, "residual_out", element(x, "x"))
        self.call(
            "norm", launch, x=x, weight=weight, bias=bias, kind=kind, residual=residual, residual_out=residual_out,
            scale=scale, shift=shift, groups=groups, eps=eps, weight_plus_one=weight_plus_one,
            scale_alone=scale_alone, out=out,
        )  # fmt: skip
        return out if residual is None else (out, residual_out)

    def layer_norm(self, x: Any, weight: Any = None, bias: Any = None, **rest: Any) -> Any:
        """(s - mean(s)) / sqrt(variance(s) + eps) * weight + bias by row, s = x + residual. As `norm`."""
        return self.norm(x, weight, bias, kind="layer", **rest)

    def adaln(self, x: Any, scale: Any, shift: Any, **rest: Any) -> Any:
        """A layer norm that a condition modulates: norm(x) * (1 + scale) + shift, scale and shift [rows, n], [batch, n]
        or [1, n]. As `norm`, with kind "rms" too."""
        return self.norm(x, scale=scale, shift=shift, **rest)

    def l2_norm(self, x: Any, weight: Any = None, *, eps: float = 1e-12, **rest: Any) -> Any:
        """s / sqrt(sum(s^2) + eps) by row. As `norm`."""
        return self.norm(x, weight, kind="l2", eps=eps, **rest)

    def group_norm(
        self, x: Any, groups: int, weight: Any = None, bias: Any = None, *, out: Any = None, **rest: Any
    ) -> Any:
        """The layer norm of each group of neighbouring channels at all places: x [batch, channels, ...], each of the
        batch compact, in this order or with the channels last in memory (a view such as PyTorch's channels_last). As
        `norm`; results have x's shape and order."""
        shape = shape_of(x, "x")
        if len(shape) < 2:
            raise InvalidError(f"x: shape {shape} given; allowed are two or more dimensions")
        flat = (*shape[:2], math.prod(shape[2:]))
        given = {name: _view(array, flat) for name in ("residual", "residual_out") if (array := rest.pop(name, None))
                 is not None}  # fmt: skip
        whole = _view(x, flat)
        last = min(flat[1:]) > 1 and _steps(whole)[2] != 1

        def made(name: str, dtype: object) -> Any:
            if not last:
                return empty(flat, x, name, dtype)
            array = empty((flat[0], flat[2], flat[1]), x, name, dtype)
            turned = unwrap(array).swapaxes(1, 2)
            return Tensor(turned, array.dtype) if isinstance(array, Tensor) else turned

        dtype = rest.pop("dtype", None)
        to = made("out", element(x, "x") if dtype is None else dtype) if out is None else _view(out, flat)
        if "residual" in given and "residual_out" not in given:
            given["residual_out"] = made("residual_out", element(x, "x"))
        done = self.norm(whole, weight, bias, kind="group", groups=groups, out=to, **given, **rest)
        if isinstance(done, tuple):
            return tuple(_view(each, shape) for each in done)
        return _view(done, shape)

    def instance_norm(self, x: Any, weight: Any = None, bias: Any = None, **rest: Any) -> Any:
        """The layer norm of each channel at all places. As `group_norm`."""
        return self.group_norm(x, shape_of(x, "x")[1], weight, bias, **rest)

    def norm_backward(
        self,
        dout: Any,
        x: Any,
        weight: Any = None,
        *,
        kind: str = "layer",
        add: Any = None,
        eps: float = 1e-5,
        weight_plus_one: bool = False,
        dx: Any = None,
        dweight: Any = None,
        dbias: Any = None,
        **launch: Any,
    ) -> Any:
        """What flows back through a layer or RMS norm: returns (dx, dweight, dbias), without dbias with kind "rms".

        dout            [rows, n], x's element type: what the caller has for the norm's results
        x               [rows, n], n to 16384: what was normalised (behind a residual: residual_out)
        weight          [n]; None: 1
        kind            "layer" or "rms"
        add             [rows, n], added to dx: what else flows into x
        dx              [rows, n]; may be dout, x or add; None: allocated
        dweight, dbias  [n], f32 or x's element type; None: allocated, f32"""
        dx = empty(shape_of(x, "x", 2), x, "dx", element(x, "x")) if dx is None else dx
        n = shape_of(x, "x", 2)[1]
        dweight = empty((n,), x, "dweight", "f32") if dweight is None else dweight
        if dbias is None and kind == "layer":
            dbias = empty((n,), x, "dbias", element(dweight, "dweight"))
        self.call(
            "norm_backward", launch, dout=dout, x=x, weight=weight, add=add, kind=kind, eps=eps,
            weight_plus_one=weight_plus_one, dx=dx, dweight=dweight, dbias=dbias,
        )  # fmt: skip
        return (dx, dweight, dbias) if kind == "layer" else (dx, dweight)

    def layer_norm_backward(self, dout: Any, x: Any, weight: Any = None, **rest: Any) -> Any:
        """(dx, dweight, dbias). As `norm_backward`."""
        return self.norm_backward(dout, x, weight, kind="layer", **rest)

    def rmsnorm_backward(self, dout: Any, x: Any, weight: Any = None, **rest: Any) -> Any:
        """(dx, dweight). As `norm_backward`."""
        return self.norm_backward(dout, x, weight, kind="rms", **rest)


def _by_rows(
    norm: Callable[..., Any], shape: tuple[int, ...], x: Any, *weights: Any, residual: Any, residual_out: Any, out: Any,
    **rest: Any,
) -> Any:  # fmt: skip
    """What a norm of rows makes of more dimensions."""
    rows = (math.prod(shape[:-1]), shape[-1])
    done = norm(
        _view(x, rows), *weights, residual=_view(residual, rows), residual_out=_view(residual_out, rows),
        out=_view(out, rows), **rest,
    )  # fmt: skip
    if not isinstance(done, tuple):
        return _view(done, shape) if out is None else out
    return tuple(
        _view(made, shape) if given is None else given
        for made, given in zip(done, (out, residual_out), strict=True)
    )  # fmt: skip


def _view(array: Any, shape: tuple[int, ...]) -> Any:
    """The same memory in another shape."""
    if array is None or tuple(unwrap(array).shape) == shape:
        return array
    whole = unwrap(array)
    viewed = whole.reshape(shape)
    if _address(viewed) != _address(whole):
        raise InvalidError(f"an array of shape {tuple(whole.shape)} is not compact; allowed are compact ones here")
    return Tensor(viewed, array.dtype) if isinstance(array, Tensor) else viewed


def _steps(array: Any) -> tuple[int, ...]:
    """Its strides in elements."""
    whole = unwrap(array)
    return (
        whole.stride()
        if callable(getattr(whole, "stride", None))
        else tuple(s // whole.itemsize for s in whole.strides)
    )


def _address(array: Any) -> int:
    return array.data_ptr() if hasattr(array, "data_ptr") else array.ctypes.data
