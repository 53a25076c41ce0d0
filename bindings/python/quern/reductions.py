# Reductions over any axes, making the outputs that are not given.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .arrays import empty, shape_of, unwrap
from .errors import InvalidError
from .ops import Ops
from .views import retyped

_PLACES = ("argmax", "argmin")
_TRUTHS = ("any", "all")
_MOST = 4


class Reductions(Ops):
    """Mixed into Context. Of what every op takes besides see Ops."""

    def reduce(
        self,
        x: Any,
        reductions: str | Sequence[str],
        *,
        axis: int | Sequence[int] | None = None,
        keepdims: bool = False,
        y: Any = None,
        before: Any = None,
        after: Any = None,
        scalars: Sequence[float] = (),
        f16_sums: bool = False,
        dtype: object | None = None,
        out: Any = None,
        **launch: Any,
    ) -> Any:
        """Reductions of before(x) over some axes, in one pass; returns what `reductions` asks for: one array for a
        name, a list for a list of up to four.

        x           1 to 6 dimensions, any strides; f32, f16, bf16, e4m3, e5m2 or int8; bool is taken as int8
        reductions  "sum", "mean", "max", "min", "argmax", "argmin", "l2", "dot", "logsumexp", "any", "all"
        axis        of x, counted from the end where negative; None: all
        keepdims    results have the axes that are reduced with 1 for their extent
        y           x's shape and element type: the other factor of "dot", tensor0 of before
        before      a formula of acc (x's element), tensor0 and scalars; None: x itself
        after       a formula of acc (the result) and scalars, or a list of one for each of `reductions` (or None)
        f16_sums    sums are rounded to f16 after every addition
        dtype       of numbers: f32 by default; f16, bf16; int32 for sums and dot products of int8. Places are int64,
                    truth values uint8 (NumPy and PyTorch: bool)
        out         instead of allocated results: an array, or a list as `reductions` is"""
        one = isinstance(reductions, str)
        kinds = [reductions] if one else list(reductions)
        if not 1 <= len(kinds) <= _MOST:
            raise InvalidError(f"reductions: {len(kinds)} given; allowed are 1 to {_MOST}")
        if _is_truth(x):
            x = retyped(self, x, "i8")
        if y is not None and _is_truth(y):
            y = retyped(self, y, "i8")
        shape = shape_of(x, "x")
        axes = _axes(axis, len(shape))
        if len(axes) == 0:
            raise InvalidError("axis: none given; allowed are None (all) and one or more")
        if len(axes) == 1 and not keepdims:
            kept = shape[: axes[0]] + shape[axes[0] + 1 :]
        else:
            kept = tuple(1 if d in axes else n for d, n in enumerate(shape) if keepdims or d not in axes)
        if one and not isinstance(after, (list, tuple)):
            result = _result(kept, x, reductions, dtype) if out is None else out
            self.call(
                "reduce", launch, x=x, y=y, before=before, f16_sums=f16_sums, axes=_mask(axes),
                out=_bytes(self, result), reduction=reductions, after=after, scalars=scalars or None,
            )  # fmt: skip
            return result
        outs = [out] if one or out is None else list(out)
        afters = list(after) if isinstance(after, (list, tuple)) else [after] + [None] * (len(kinds) - 1)
        if len(afters) != len(kinds) or (out is not None and len(outs) != len(kinds)):
            raise InvalidError(f"after, out: not as many as reductions, {len(kinds)}")
        if out is None:
            outs = [_result(kept, x, kind, dtype) for kind in kinds]
        numbered: dict[str, Any] = {}
        for i, (kind, result, behind) in enumerate(zip(kinds, outs, afters, strict=True)):
            suffix = str(i) if i else ""
            numbered["out" + suffix], numbered["reduction" + suffix] = _bytes(self, result), kind
            numbered["after" + suffix] = behind
        if scalars:
            numbered["scalars"] = scalars
        self.call("reduce", launch, x=x, y=y, before=before, f16_sums=f16_sums, axes=_mask(axes), **numbered)
        return outs[0] if one else outs

    def sum(self, x: Any, axis: int | Sequence[int] | None = None, **rest: Any) -> Any:
        """As `reduce`, and so all below."""
        return self.reduce(x, "sum", axis=axis, **rest)

    def mean(self, x: Any, axis: int | Sequence[int] | None = None, **rest: Any) -> Any:
        return self.reduce(x, "mean", axis=axis, **rest)

    def amax(self, x: Any, axis: int | Sequence[int] | None = None, **rest: Any) -> Any:
        """The largest; NaN where there is one."""
        return self.reduce(x, "max", axis=axis, **rest)

    def amin(self, x: Any, axis: int | Sequence[int] | None = None, **rest: Any) -> Any:
        """The smallest; NaN where there is one."""
        return self.reduce(x, "min", axis=axis, **rest)

    def argmin(self, x: Any, axis: int | Sequence[int] | None = None, **rest: Any) -> Any:
        """The place of the smallest, int64. That of the largest of rows is `argmax`, over other axes
        reduce(x, "argmax")."""
        return self.reduce(x, "argmin", axis=axis, **rest)

    def l2(self, x: Any, axis: int | Sequence[int] | None = None, **rest: Any) -> Any:
        """The root of the sum of squares."""
        return self.reduce(x, "l2", axis=axis, **rest)

    def dot(self, x: Any, y: Any, axis: int | Sequence[int] | None = None, **rest: Any) -> Any:
        """The sum of x * y."""
        return self.reduce(x, "dot", y=y, axis=axis, **rest)

    def logsumexp(self, x: Any, axis: int | Sequence[int] | None = None, **rest: Any) -> Any:
        """log(sum of e^x)."""
        return self.reduce(x, "logsumexp", axis=axis, **rest)

    def any(self, x: Any, axis: int | Sequence[int] | None = None, **rest: Any) -> Any:
        """Whether one is not 0."""
        return self.reduce(x, "any", axis=axis, **rest)

    def all(self, x: Any, axis: int | Sequence[int] | None = None, **rest: Any) -> Any:
        """Whether none is 0."""
        return self.reduce(x, "all", axis=axis, **rest)


def _axes(axis: int | Sequence[int] | None, rank: int) -> tuple[int, ...]:
    if type(axis) is int and -rank <= axis < rank:
        return (axis % rank,)
    if axis is None:
        return tuple(range(rank))
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    for d in axes:
        if not -rank <= d < rank:
            raise InvalidError(f"axis: {d} given; allowed are {-rank} to {rank - 1}")
    found = tuple(sorted({d % rank for d in axes}))
    if len(found) != len(axes):
        raise InvalidError(f"axis: {axis} given; allowed are axes that differ")
    return found


def _mask(axes: tuple[int, ...]) -> int:
    bits = 0
    for d in axes:
        bits |= 1 << d
    return bits


def _result(shape: tuple[int, ...], x: Any, kind: str, dtype: object | None) -> Any:
    if kind in _PLACES:
        return empty(shape, x, "out", "int64")
    if kind in _TRUTHS:
        return empty(shape, x, "out", "bool")
    return empty(shape, x, "out", "f32" if dtype is None else dtype)


# Whether a dtype is that of truth values, by the dtypes that were asked for.
_truths: dict[object, bool] = {}


def _is_truth(array: Any) -> bool:
    dtype = getattr(unwrap(array), "dtype", None)
    known = _truths.get(dtype)
    if known is None:
        known = str(dtype) in ("bool", "torch.bool")
        if len(_truths) < 100:
            _truths[dtype] = known
    return known


def _bytes(ops: Ops, result: Any) -> Any:
    """Truth values as the bytes that they are."""
    return retyped(ops, result, "u8") if _is_truth(result) else result
