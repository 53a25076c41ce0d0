# Arrays copied into other orders and shapes; making the outputs that are not given.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from .arrays import empty, empty_like_each, extents_of
from .errors import InvalidError
from .ops import Ops
from .views import axis_of, joined, parts_of, permuted, sliced, unflattened

_MOST_PARTS = 16


class Moves(Ops):
    """Mixed into Context. Arrays may have any strides; results that are not given are compact, allocated by the first
    array's framework, of its element type unless a dtype is given. Of what every op takes besides see Ops; alignment:
    None is found from the arrays."""

    def _copy(self, inputs: Sequence[Any], outputs: Sequence[Any], launch: dict[str, Any], fill: float = 0.0) -> None:
        """Each output of its input, filled where that is None; empty ones are left out."""
        if any(0 in extents_of(one, "out") for one in outputs):
            pairs = [pair for pair in zip(inputs, outputs, strict=True) if 0 not in extents_of(pair[1], "out")]
            inputs, outputs = [one for one, _ in pairs], [one for _, one in pairs]
        for at in range(0, len(outputs), _MOST_PARTS):
            self._copy_full(list(inputs[at : at + _MOST_PARTS]), list(outputs[at : at + _MOST_PARTS]), launch, fill)

    def _copy_full(self, inputs: list[Any], outputs: list[Any], launch: dict[str, Any], fill: float = 0.0) -> None:
        """The same of as many as one launch takes, none of them empty."""
        launch.setdefault("alignment", "found")
        self.call("copy", launch, inputs=inputs, outputs=outputs, fill=fill)

    def _copied(self, view: Any, x: Any, out: Any, dtype: object | None, launch: dict[str, Any]) -> Any:
        """out = a view of x, of the view's extents where it is not given; returns out."""
        if out is not None:
            self._copy([view], [out], launch)
            return out
        shape = extents_of(view, "x")
        out = empty(shape, x, "out", dtype)
        if 0 not in shape:
            self._copy_full([view], [out], launch)
        return out

    def copy(self, x: Any, *, out: Any = None, dtype: object | None = None, **launch: Any) -> Any:  # type: ignore
        """out = x, cast to out's element type; returns out. x is broadcast to out's shape."""
        return self._copied(x, x, out, dtype, launch)

    def fill(self, out: Any, value: float, **launch: Any) -> Any:
        """Every element of out becomes the value; returns out."""
        self._copy([None], [out], launch, value)
        return out

    def permute(
        self, x: Any, axes: Sequence[int], *, out: Any = None, dtype: object | None = None, **launch: Any
    ) -> Any:
        """out[i_axes[0], i_axes[1], ...] = x[i_0, i_1, ...]; returns out."""
        rank = len(extents_of(x, "x"))
        order = [axis_of(axis, rank, "axes") for axis in axes]
        if sorted(order) != list(range(rank)):
            raise InvalidError(f"axes: {tuple(axes)} given; allowed is each of the {rank} axes once")
        return self._copied(permuted(self, x, tuple(order)), x, out, dtype, launch)

    def transpose(
        self, x: Any, first: int = -2, second: int = -1, *, out: Any = None, dtype: object | None = None, **launch: Any
    ) -> Any:
        """x with two axes exchanged; returns out."""
        rank = len(extents_of(x, "x"))
        first, second = axis_of(first, rank, "first"), axis_of(second, rank, "second")
        axes = list(range(rank))
        axes[first], axes[second] = second, first
        return self._copied(permuted(self, x, tuple(axes)), x, out, dtype, launch)

    def slice(self, x: Any, *index: Any, out: Any = None, dtype: object | None = None, **launch: Any) -> Any:
        """x[index] of slices, integers and ..., copied; returns out."""
        return self._copied(sliced(self, x, index), x, out, dtype, launch)

    def concat(
        self, arrays: Sequence[Any], axis: int = 0, *, out: Any = None, dtype: object | None = None, **launch: Any
    ) -> Any:
        """Arrays one behind the other along an axis, in one launch for each sixteen; returns out."""
        given = list(arrays)
        axis, sizes, whole = joined(self, given, axis)
        out = self._of_shape(whole, out, given[0], dtype)
        parts = parts_of(self, out, sizes, axis)
        if len(sizes) > _MOST_PARTS or 0 in sizes or 0 in whole:
            self._copy(given, parts, launch)
        else:
            self._copy_full(given, list(parts), launch)
        return out

    def split(
        self,
        x: Any,
        sizes: Sequence[int],
        axis: int = 0,
        *,
        outs: Sequence[Any] | None = None,
        dtype: object | None = None,
        **launch: Any,
    ) -> list[Any]:
        """Parts of x of these extents along an axis, each compact, in one launch for each sixteen; returns them."""
        shape = extents_of(x, "x")
        axis, sizes = axis_of(axis, len(shape)), list(sizes)
        if sum(sizes) != shape[axis] or (sizes and min(sizes) < 0):
            raise InvalidError(f"sizes: {tuple(sizes)} given; allowed are extents whose sum is {shape[axis]}")
        parts = list(parts_of(self, x, sizes, axis))
        if outs is not None:
            if len(outs) != len(parts):
                raise InvalidError(f"outs: {len(outs)} given; allowed is one for each of the {len(parts)} sizes")
            self._copy(parts, outs, launch)
            return list(outs)
        made = empty_like_each(parts, x, "outs", dtype)
        if 0 < len(sizes) <= _MOST_PARTS and 0 not in sizes and 0 not in shape:
            self._copy_full(parts, made, launch)
        else:
            self._copy(parts, made, launch)
        return made

    def repeat_interleave(
        self, x: Any, repeats: int, axis: int = 0, *, out: Any = None, dtype: object | None = None, **launch: Any
    ) -> Any:
        """Every element of an axis `repeats` times, one behind the other; returns out."""
        shape = tuple(extents_of(x, "x"))
        axis = axis_of(axis, len(shape))
        if repeats < 0:
            raise InvalidError(f"repeats: {repeats} given; allowed are 0 and more")
        whole = (*shape[:axis], shape[axis] * repeats, *shape[axis + 1 :])
        out = self._of_shape(whole, out, x, dtype)
        if 0 not in whole:
            self._copy_full([unflattened(self, x, axis, 1)], [unflattened(self, out, axis, repeats)], launch)
        return out

    def pad(
        self,
        x: Any,
        widths: Sequence[tuple[int, int]],
        value: float = 0.0,
        *,
        out: Any = None,
        dtype: object | None = None,
        **launch: Any,
    ) -> Any:
        """x with so many elements of `value` before and after it, a pair an axis, in one launch; returns out."""
        shape = tuple(extents_of(x, "x"))
        widths = [(operator.index(before), operator.index(after)) for before, after in widths]
        if len(widths) != len(shape) or any(before < 0 or after < 0 for before, after in widths):
            raise InvalidError(f"widths: {widths} given; allowed is (before, after), 0 and more, of each axis of x")
        whole = tuple([n + before + after for n, (before, after) in zip(shape, widths, strict=True)])
        out = self._of_shape(whole, out, x, dtype)
        # What lies before and after along an axis, within what the axes before it leave.
        outputs, inner = [], out
        for axis, (n, (before, after)) in enumerate(zip(shape, widths, strict=True)):
            if before or after:
                first, inner, last = parts_of(self, inner, [before, n, after], axis)
                outputs += [first] * (before > 0) + [last] * (after > 0)
        self._copy([x, *[None] * len(outputs)], [inner, *outputs], launch, value)
        return out

    @staticmethod
    def _of_shape(shape: tuple[int, ...], out: Any, like: Any, dtype: object | None) -> Any:
        if out is None:
            return empty(shape, like, "out", dtype)
        given = tuple(extents_of(out, "out"))
        if given != shape:
            raise InvalidError(f"out: shape {given} given; it must be {shape}")
        return out
