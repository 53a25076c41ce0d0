# Views of arrays for the call of an op: transposes, parts, slices. A context that launches through the compiled module
# takes views of that module's, which no framework makes an array for; everything else gets the framework's own.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from . import dtypes
from .arrays import extents_of, is_torch, unwrap
from .errors import InvalidError
from .ops import Ops
from .tensor import Tensor

# The compiled module, where there is one. Its functions give None where they leave an array to its framework.
module: Any = None


def _of_framework(array: Any, change: Callable[[Any], Any]) -> Any:
    """A view that an array's framework makes, with what is said of its elements."""
    view = change(unwrap(array))
    if isinstance(array, Tensor) and array.dtype is not None:
        return Tensor(view, dtypes.name_of(array.dtype))
    return view


def permuted(ops: Ops, array: Any, axes: tuple[int, ...]) -> Any:
    """An array with its axes in this order."""
    view = module.permuted(array, axes) if ops._launcher is not None else None
    if view is None:
        view = _of_framework(array, lambda whole: whole.permute(axes) if is_torch(whole) else whole.transpose(axes))
    return view


def sliced(ops: Ops, array: Any, index: tuple[Any, ...]) -> Any:
    """array[index]."""
    view = module.sliced(array, index) if ops._launcher is not None else None
    return _of_framework(array, lambda whole: whole[index]) if view is None else view


def parts_of(ops: Ops, array: Any, sizes: list[int], axis: int) -> Sequence[Any]:
    """An array's parts of these extents along an axis, one behind the other, which are all of it."""
    views = module.parts(array, sizes, axis) if ops._launcher is not None else None
    if views is not None:
        return views
    if is_torch(array) and not isinstance(array, Tensor):
        return array.split_with_sizes(sizes, axis)
    parts, begin = [], 0
    for size in sizes:
        index = (slice(None),) * axis + (slice(begin, begin + size),)
        parts.append(_of_framework(array, lambda whole, index=index: whole[index]))
        begin += size
    return parts


def unflattened(ops: Ops, array: Any, axis: int, inner: int) -> Any:
    """An array of some elements with one axis as two, the second of extent `inner`, of which the axis's is a
    multiple."""
    view = module.unflattened(array, axis, inner) if ops._launcher is not None else None
    return _of_framework(array, lambda whole: _unflattened(whole, axis, inner)) if view is None else view


def _unflattened(array: Any, axis: int, inner: int) -> Any:
    shape = tuple(array.shape)
    outer = shape[axis] // inner
    if is_torch(array):
        return array.unflatten(axis, (outer, inner))
    split = (*shape[:axis], outer, inner, *shape[axis + 1 :])
    import numpy

    strides = array.strides
    parts = (*strides[:axis], strides[axis] * inner, *strides[axis:])
    return numpy.lib.stride_tricks.as_strided(array, split, parts)


def retyped(ops: Ops, array: Any, name: str) -> Any:
    """An array whose elements are taken as others of the same width: "i8", "u8"."""
    view = module.retyped(array, *dtypes.CODES[name]) if ops._launcher is not None else None
    if view is not None:
        return view
    whole, long = unwrap(array), dtypes.LONG[name]
    if is_torch(whole):
        import torch

        return whole.view(getattr(torch, long))
    return whole.view(long)


def joined(ops: Ops, given: list[Any], axis: int) -> tuple[int, list[int], tuple[int, ...]]:
    """Of arrays one behind the other: the axis from the first one on, their extents along it, the whole's extents."""
    known = module.joined(given, axis) if ops._launcher is not None else None
    if known is not None:
        return known
    if not given:
        raise InvalidError("arrays: none given; allowed is one and more")
    shapes = [tuple(extents_of(array, f"arrays[{i}]")) for i, array in enumerate(given)]
    first = shapes[0]
    axis = axis_of(axis, len(first))
    before, after = first[:axis], first[axis + 1 :]
    for i, shape in enumerate(shapes):
        if len(shape) != len(first) or shape[:axis] != before or shape[axis + 1 :] != after:
            raise InvalidError(f"arrays[{i}]: shape {shape} given; must be as {first} but for axis {axis}")
    sizes = [shape[axis] for shape in shapes]
    return axis, sizes, (*before, sum(sizes), *after)


def axis_of(axis: int, rank: int, argument: str = "axis") -> int:
    """The same axis, counted from the first."""
    if not -rank <= axis < rank:
        raise InvalidError(f"{argument}: {axis} given; allowed are {-rank} to {rank - 1}")
    return axis % rank
