# What a call needs from the caller's own framework: the current stream, memory for outputs, a zeroed workspace.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import concurrent.futures
import ctypes
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from . import _abi, dtypes, tensor
from .errors import InvalidError
from .tensor import Shape, Tensor

WORKSPACE_ALIGNMENT = 256

# The compiled module's way to a tensor of PyTorch's: (shape, like, dtype) -> the tensor, or None where it leaves it to
# `empty`. None where there is no such module.
fast_empty: Callable[[Sequence[int], Any, object], Any] | None = None
# And to several at once: (like, (shape, dtype, strides), ...) -> a list of them, or None likewise.
fast_together: Callable[..., list[Any] | None] | None = None
# And to a compact array for each in a list: (arrays, dtype) -> a list, or None likewise.
fast_compact: Callable[[list[Any], object], list[Any] | None] | None = None
# And to an array's extents and, as DLPack's code times 256 and the bits, its elements' type; None of other arrays.
fast_shape: Callable[[Any], tuple[int, ...] | None] | None = None
fast_element: Callable[[Any], int | None] | None = None
# And to what arrays are aligned to: (a list of them) -> bytes, or None where it leaves them to `alignment_of`.
fast_alignment: Callable[[list[Any]], int | None] | None = None


# Short names by DLPack's code times 256 and the bits.
_PACKED: dict[int | None, str] = {code << 8 | bits: name for (code, bits), name in dtypes.NAMES.items()}


def compiling() -> bool:
    """Whether torch.compile reads this code rather than runs it: torch_ops puts PyTorch's own in its place. It cannot
    read the compiled module."""
    return False


def unwrap(array: Any) -> Any:
    return array.array if isinstance(array, tensor.wrappers) else array


def is_torch(array: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(unwrap(array), torch.Tensor)


def stream_handle(stream: Any, arrays: Iterable[Any], device: tuple[int, int]) -> int:
    """The CUstream or hipStream_t to launch on, as an integer. None: PyTorch's current stream where one of the arrays
    is PyTorch's, else the default stream. A PyTorch or CuPy stream, or anything with __cuda_stream__, is itself."""
    if device[0] in (0, _abi.kDLCPU):
        if stream:
            raise InvalidError(f"stream: {stream!r} given; the host target has no streams, allowed is None")
        return 0
    if stream is None:
        if any(is_torch(array) for array in arrays):
            return sys.modules["torch"].cuda.current_stream(device[1]).cuda_stream
        return 0
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])
    for attribute in ("cuda_stream", "ptr"):
        if hasattr(stream, attribute):
            return int(getattr(stream, attribute))
    if isinstance(stream, int) and not isinstance(stream, bool) and stream >= 0:
        return stream
    raise InvalidError(f"stream: {stream!r} given; allowed are None, a stream object and its handle as an integer")


def shape_of(array: Any, argument: str, dimensions: int | None = None) -> tuple[int, ...]:
    """The extents of an array with memory; `dimensions`: how many there must be."""
    if fast_shape is not None and not compiling():
        shape = fast_shape(array)
        if shape and (dimensions is None or len(shape) == dimensions):
            return shape
    kind = type(array)
    shape = None if kind is Shape else getattr(array.array if kind is Tensor else array, "shape", None)
    if shape is None:
        raise InvalidError(f"{argument}: {kind.__name__} given; allowed is an array with a shape and memory")
    if not shape or (dimensions is not None and len(shape) != dimensions):
        raise InvalidError(
            f"{argument}: shape {tuple(shape)} given; allowed are {dimensions or 'one or more'} dimensions"
        )
    return shape if type(shape) is tuple else tuple(shape)  # parts of a torch.Size cost more


def extents_of(array: Any, argument: str) -> tuple[int, ...]:
    """The extents of an array or of a view of one, of any number of dimensions."""
    if fast_shape is not None and not compiling():
        shape = fast_shape(array)
        if shape is not None:
            return shape
    shape = getattr(array.array if isinstance(array, Tensor) else array, "shape", None)
    if shape is None:
        raise InvalidError(f"{argument}: {type(array).__name__} given; allowed is an array with a shape")
    return shape if type(shape) is tuple else tuple(shape)  # parts of a torch.Size cost more


def element(array: Any, argument: str) -> str:
    """The short name of an array's element type: "bf16"."""
    if fast_element is not None and not compiling():
        name = _PACKED.get(fast_element(array))
        if name is not None:
            return name
    if isinstance(array, (Tensor, Shape)) and array.dtype is not None:
        return dtypes.name_of(array.dtype)
    return dtypes.short_name(unwrap(array).dtype, argument)


def empty(shape: Sequence[int], like: Any, argument: str, dtype: object | None = None) -> Any:
    """An uninitialised array of `like`'s framework and device, its elements of `dtype` or as `like`'s. Types that NumPy
    lacks are ml_dtypes' where that has been imported, else a quern.Tensor over their bits."""
    if fast_empty is not None and not compiling():
        made = fast_empty(shape, like, dtype)
        if made is not None:
            return made
    torch = sys.modules.get("torch")
    if dtype is None and torch is not None and isinstance(like, torch.Tensor):
        return torch.empty(shape, dtype=like.dtype, device=like.device)
    array = unwrap(like)
    if torch is not None and isinstance(array, torch.Tensor):
        name = dtypes.LONG[_name_for(like, argument, dtype)]
        if hasattr(torch, name):
            return torch.empty(shape, dtype=getattr(torch, name), device=array.device)
        raise InvalidError(f"{argument}: must be given, this PyTorch has no {name}")
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(array, numpy.ndarray):
        raise InvalidError(f"{argument}: must be given, quern allocates outputs for NumPy and PyTorch arrays only")
    if dtype is None and array is like:
        return numpy.empty(shape, array.dtype)
    name = _name_for(like, argument, dtype)
    if name == "bool" or hasattr(numpy, dtypes.LONG[name]):
        return numpy.empty(shape, dtypes.LONG[name])
    if "ml_dtypes" in sys.modules and not isinstance(like, Tensor):
        return numpy.empty(shape, getattr(sys.modules["ml_dtypes"], dtypes.LONG[name]))
    return Tensor(numpy.empty(shape, f"uint{dtypes.CODES[name][1]}"), name)


def empty_together(
    like: Any, *wanted: tuple[tuple[int, ...], object | None, tuple[int, ...] | None]
) -> list[Any] | None:
    """Uninitialised arrays of `like`'s framework and device, of these shapes, dtypes (None: as `like`'s) and strides in
    elements (None: compact). Small ones share one allocation, which lives as long as any of them. None where they are
    to be made one by one."""
    return None if fast_together is None or compiling() else fast_together(like, *wanted)


def empty_like_each(views: list[Any], like: Any, argument: str, dtype: object | None) -> list[Any]:
    """Compact arrays of the extents of each of these views of an array, otherwise as `empty` makes them; small ones
    share one allocation."""
    if fast_compact is not None and not compiling():
        made = fast_compact(views, dtype)
        if made is not None:
            return made
    return [empty(extents_of(view, argument), like, argument, dtype) for view in views]


def _name_for(like: Any, argument: str, dtype: object | None) -> str:
    return element(like, argument) if dtype is None else dtypes.short_name(dtype, f"{argument}'s dtype")


def alignment_of(arrays: Iterable[Any]) -> int:
    """The bytes, up to 16, that the data of all of these arrays are aligned to; 16 where an array does not say."""
    arrays = list(arrays)
    if fast_alignment is not None and not compiling():
        found = fast_alignment(arrays)
        if found is not None:
            return found
    numpy = sys.modules.get("numpy")
    address = 16
    for given in arrays:
        array = unwrap(given)
        if array is not given and not isinstance(given, Tensor):
            address |= given.address  # a view's own
        elif is_torch(array):
            address |= array.data_ptr()
        elif numpy is not None and isinstance(array, numpy.ndarray):
            address |= array.ctypes.data
    return address & -address


def empty_rows(shape: tuple[int, int], like: Any, argument: str, dtype: object) -> Any:
    """[rows, n] whose rows each begin at a multiple of 16 bytes, as ops are promised: where n bytes are none, with room
    after each row that is not part of the array."""
    rows, n = shape
    if n % 16 == 0:  # whatever the type
        return empty(shape, like, argument, dtype)
    room = row_room(n, dtype, argument)
    wide = empty((rows, room), like, argument, dtype)
    if room == n:
        return wide
    array = unwrap(wide)
    # A quern.Tensor says what its bytes stand for.
    return Tensor(array[:, :n], dtype) if isinstance(wide, Tensor) else array[:, :n]


def empty_scales(rows: Sequence[int], groups: int, like: Any, argument: str) -> Any:
    """[*rows, groups] f32 whose rows are contiguous, a multiple of four of them: the layout that a product reads
    fastest."""
    *leading, last = rows
    if not leading and (made := empty_together(like, scales_layout(last, groups))) is not None:
        return made[0]
    wide = empty((*leading, groups, -(-last // 4) * 4), like, argument, "f32")
    rows_last = wide if last % 4 == 0 else wide[..., :last]
    return rows_last.mT if is_torch(rows_last) else rows_last.swapaxes(-1, -2)


def row_room(n: int, dtype: object, argument: str) -> int:
    """How many elements from one row of n to the next, so that each begins at a multiple of 16 bytes."""
    size = dtypes.CODES[dtypes.short_name(dtype, f"{argument}'s dtype")][1] // 8
    return -(-n * size // 16) * 16 // size


def scales_layout(rows: int, groups: int) -> tuple[tuple[int, int], str, tuple[int, int]]:
    """What `empty_scales` makes, for `empty_together`."""
    return (rows, groups), "f32", (1, (rows + 3) // 4 * 4)


class Workspaces(threading.local):
    """Zeroed workspaces, one a thread and stream, kept and grown: launches leave them zeroed, and two calls in flight
    never share one."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[Any, int, int]] = {}  # stream: owner, address, bytes

    def take(self, size: int, stream: int, device: tuple[int, int], arrays: Iterable[Any]) -> tuple[Any, int, int]:
        """At least `size` bytes: what owns them, their address and their number. Under capture into a graph the
        workspace is the graph's own: zeroed in it, and not kept here."""
        if size == 0:
            return None, 0, 0
        kept = self._kept.get(stream)
        if kept is not None and kept[2] >= size and not capturing(device):
            return kept
        made = self._host(size) if device[0] == _abi.kDLCPU else self._torch(size, stream, device, arrays)
        if not capturing(device):
            self._kept[stream] = made
        return made

    def drop(self, stream: int) -> None:
        """Forgets a workspace that a failed launch may have left half-written."""
        self._kept.pop(stream, None)

    @staticmethod
    def _host(size: int) -> tuple[Any, int, int]:
        owner = (ctypes.c_ubyte * (size + WORKSPACE_ALIGNMENT))()
        address = -(-ctypes.addressof(owner) // WORKSPACE_ALIGNMENT) * WORKSPACE_ALIGNMENT
        return owner, address, size

    @staticmethod
    def _torch(size: int, stream: int, device: tuple[int, int], arrays: Iterable[Any]) -> tuple[Any, int, int]:
        if not any(is_torch(array) for array in arrays):
            raise InvalidError(
                f"workspace: must be given ({size} bytes, zeroed once, {WORKSPACE_ALIGNMENT}-byte aligned); quern "
                "allocates one on a GPU through PyTorch only"
            )
        torch = sys.modules["torch"]

        def make() -> Any:
            on = torch.cuda.ExternalStream(stream, device=device[1]) if stream else torch.cuda.default_stream(device[1])
            with torch.cuda.stream(on):
                return torch.zeros(size, dtype=torch.uint8, device=torch.device("cuda", device[1]))

        # One that is kept is made by a thread of its own: where this thread's allocations go into a pool, as while
        # torch.compile warms a graph up, PyTorch refuses what stays behind in it.
        owner = make() if capturing(device) else _elsewhere(make)
        return owner, owner.data_ptr(), size


def _elsewhere(make: Callable[[], Any]) -> Any:
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        return thread.submit(make).result()


def capturing(device: tuple[int, int]) -> bool:
    torch = sys.modules.get("torch")
    return device[0] != _abi.kDLCPU and torch is not None and torch.cuda.is_current_stream_capturing()
