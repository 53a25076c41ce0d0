# Arrays copied into other orders and shapes; making the outputs that are not given.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from . import dtypes
from .arrays import alignment_of, empty, is_torch, unwrap
from .errors import InvalidError
from .ops import Ops
from .tensor import Tensor

_MOST_PARTS = 16


def _view(array: Any, change: Callable[[Any], Any]) -> Any:
    """A view of an array, with what is said of its elements."""
    view = change(unwrap(array))
    if isinstance(array, Tensor) and array.dtype is not None:
        return Tensor(view, dtypes.name_of(array.dtype))
    return view


def _shape(array: Any, argument: str) -> tuple[int, ...]:
    shape = getattr(unwrap(array), "shape", None)
    if shape is None:
        raise InvalidError(f"{argument}: {type(array).__name__} given; allowed is an array with a shape")
    return shape if isinstance(shape, tuple) else tuple(shape)


def _axis(axis: int, rank: int, argument: str = "axis") -> int:
    if not -rank <= axis < rank:
        raise InvalidError(f"{argument}: {axis} given; allowed are {-rank} to {rank - 1}")
    return axis % rank


def _along(axis: int, begin: int, end: int) -> Callable[[Any], Any]:
    return lambda array: array[(slice(None),) * axis + (slice(begin, end),)]


def parts_of(array: Any, sizes: Sequence[int], axis: int) -> Sequence[Any]:
    """Views of an array's parts of these extents along an axis, one behind the other."""
    if is_torch(array) and not isinstance(array, Tensor):
        return array.split_with_sizes(sizes, axis)
    parts, begin = [], 0
    for size in sizes:
        parts.append(_view(array, _along(axis, begin, begin + size)))
        begin += size
    return parts


class Moves(Ops):
    """Mixed into Context. Arrays may have any strides; results that are not given are compact, allocated by the first
    array's framework, of its element type unless a dtype is given. Of what every op takes besides see Ops; alignment:
    None is found from the arrays."""

    def _copy(self, inputs: Sequence[Any], outputs: Sequence[Any], launch: dict[str, Any], fill: float = 0.0) -> None:
        """Each output of its input, filled where that is None; empty ones are left out."""
        if any(0 in _shape(one, "out") for one in outputs):
            pairs = [pair for pair in zip(inputs, outputs, strict=True) if 0 not in _shape(pair[1], "out")]
            inputs, outputs = [one for one, _ in pairs], [one for _, one in pairs]
        for at in range(0, len(outputs), _MOST_PARTS):
            given, written = list(inputs[at : at + _MOST_PARTS]), list(outputs[at : at + _MOST_PARTS])
            if "alignment" not in launch:
                known = alignment_of([one for one in (*given, *written) if one is not None])
                self.call("copy", inputs=given, outputs=written, fill=fill, alignment=known, **launch)
            else:
                self.call("copy", inputs=given, outputs=written, fill=fill, **launch)

    def copy(self, x: Any, *, out: Any = None, dtype: object | None = None, **launch: Any) -> Any:  # type: ignore
        """out = x, cast to out's element type; returns out. x is broadcast to out's shape."""
        out = empty(_shape(x, "x"), x, "out", dtype) if out is None else out
        self._copy([x], [out], launch)
        return out

    def fill(self, out: Any, value: float, **launch: Any) -> Any:
        """Every element of out becomes the value; returns out."""
        self._copy([None], [out], launch, value)
        return out

    def permute(
        self, x: Any, axes: Sequence[int], *, out: Any = None, dtype: object | None = None, **launch: Any
    ) -> Any:
        """out[i_axes[0], i_axes[1], ...] = x[i_0, i_1, ...]; returns out."""
        rank = len(_shape(x, "x"))
        order = [_axis(axis, rank, "axes") for axis in axes]
        if sorted(order) != list(range(rank)):
            raise InvalidError(f"axes: {tuple(axes)} given; allowed is each of the {rank} axes once")
        change = (lambda a: a.permute(order)) if is_torch(x) else (lambda a: a.transpose(order))
        return self.copy(_view(x, change), out=out, dtype=dtype, **launch)

    def transpose(
        self, x: Any, first: int = -2, second: int = -1, *, out: Any = None, dtype: object | None = None, **launch: Any
    ) -> Any:
        """x with two axes exchanged; returns out."""
        rank = len(_shape(x, "x"))
        first, second = _axis(first, rank, "first"), _axis(second, rank, "second")
        return self.copy(_view(x, lambda array: array.swapaxes(first, second)), out=out, dtype=dtype, **launch)

    def slice(self, x: Any, *index: Any, out: Any = None, dtype: object | None = None, **launch: Any) -> Any:
        """x[index] of slices, integers and ..., copied; returns out."""
        return self.copy(_view(x, lambda array: array[index]), out=out, dtype=dtype, **launch)

    def concat(
        self, arrays: Sequence[Any], axis: int = 0, *, out: Any = None, dtype: object | None = None, **launch: Any
    ) -> Any:
        """Arrays one behind the other along an axis, in one launch for each sixteen; returns out."""
        if not arrays:
            raise InvalidError("arrays: none given; allowed is one and more")
        first = _shape(arrays[0], "arrays[0]")
        axis = _axis(axis, len(first))
        sizes = []
        for i, array in enumerate(arrays):
            shape = _shape(array, f"arrays[{i}]")
            if len(shape) != len(first) or shape[:axis] != first[:axis] or shape[axis + 1 :] != first[axis + 1 :]:
                raise InvalidError(
                    f"arrays[{i}]: shape {tuple(shape)} given; must be as {tuple(first)} but for axis {axis}"
                )
            sizes.append(shape[axis])
        if out is None:
            out = empty((*first[:axis], sum(sizes), *first[axis + 1 :]), arrays[0], "out", dtype)
        elif _shape(out, "out") != (*first[:axis], sum(sizes), *first[axis + 1 :]):
            raise InvalidError(
                f"out: shape {tuple(_shape(out, 'out'))} given; it must be "
                f"{(*first[:axis], sum(sizes), *first[axis + 1 :])}"
            )
        parts = parts_of(out, sizes, axis)
        self._copy(list(arrays), parts, launch)
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
        shape = _shape(x, "x")
        axis = _axis(axis, len(shape))
        if sum(sizes) != shape[axis] or any(size < 0 for size in sizes):
            raise InvalidError(f"sizes: {tuple(sizes)} given; allowed are extents whose sum is {shape[axis]}")
        parts = parts_of(x, list(sizes), axis)
        if outs is None:
            outs = [empty((*shape[:axis], size, *shape[axis + 1 :]), x, "outs", dtype) for size in sizes]
        if len(outs) != len(parts):
            raise InvalidError(f"outs: {len(outs)} given; allowed is one for each of the {len(parts)} sizes")
        self._copy(parts, outs, launch)
        return list(outs)

    def repeat_interleave(
        self, x: Any, repeats: int, axis: int = 0, *, out: Any = None, dtype: object | None = None, **launch: Any
    ) -> Any:
        """Every element of an axis `repeats` times, one behind the other; returns out."""
        shape = _shape(x, "x")
        axis = _axis(axis, len(shape))
        if repeats < 0:
            raise InvalidError(f"repeats: {repeats} given; allowed are 0 and more")
        if out is None:
            out = empty((*shape[:axis], shape[axis] * repeats, *shape[axis + 1 :]), x, "out", dtype)
        each = _view(x, lambda array: array[(slice(None),) * (axis + 1) + (None,)])
        apart = _view(out, lambda array: _split_axis(array, axis, shape[axis], repeats))
        self._copy([each], [apart], launch)
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
        shape = _shape(x, "x")
        if len(widths) != len(shape) or any(before < 0 or after < 0 for before, after in widths):
            raise InvalidError(f"widths: {widths} given; allowed is (before, after), 0 and more, of each axis of x")
        if out is None:
            out = empty([n + a + b for n, (a, b) in zip(shape, widths, strict=True)], x, "out", dtype)
        # What lies before and after along an axis, within what the axes before it leave.
        inputs, outputs, inner = [], [], out
        for axis, (n, (before, after)) in enumerate(zip(shape, widths, strict=True)):
            for begin, end in ((0, before), (before + n, before + n + after)):
                inputs.append(None)
                outputs.append(_view(inner, _along(axis, begin, end)))
            inner = _view(inner, _along(axis, before, before + n))
        self._copy([x, *inputs], [inner, *outputs], launch, value)
        return out


def _split_axis(array: Any, axis: int, extent: int, repeats: int) -> Any:
    """A view with one axis as two."""
    shape = tuple(array.shape)
    if shape[axis] != extent * repeats:
        raise InvalidError(f"out: extent {shape[axis]} of axis {axis} given; it must be {extent * repeats}")
    split = (*shape[:axis], extent, repeats, *shape[axis + 1 :])
    if is_torch(array):
        return array.unflatten(axis, (extent, repeats)) if array.numel() else array.view(split)
    strides = array.strides
    import numpy

    parts = (*strides[:axis], strides[axis] * repeats, strides[axis], *strides[axis + 1 :])
    return numpy.lib.stride_tricks.as_strided(array, split, parts)
