# Anything with memory and a shape, borrowed as a DLTensor for the length of a call. Nothing is copied.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from typing import Any

from . import _abi, dtypes
from .errors import InvalidError

_DLPACK_MAJOR = 1
_READ_ONLY, _COPIED = 1 << 0, 1 << 1
# DLPack's pinned and managed memory, by the device types that reach it.
_CUDA_HOST, _ROCM_HOST, _CUDA_MANAGED = 3, 11, 13
_REACHABLE = {
    _abi.kDLCPU: (_CUDA_HOST, _ROCM_HOST, _CUDA_MANAGED),
    _abi.kDLCUDA: (_CUDA_HOST, _CUDA_MANAGED),
    _abi.kDLROCM: (_ROCM_HOST,),
}


class _Version(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32)]


class _Managed(ctypes.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = [
        ("version", _Version),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _abi.DLTensor),
    ]


_is_capsule = ctypes.pythonapi.PyCapsule_IsValid
_is_capsule.restype, _is_capsule.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype, _capsule_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


class Tensor:
    """An array with something said about it that its own framework cannot say.

    array: anything that quern takes as a tensor. dtype: what its elements are, where the array's own type only has
    the right width ("bf16" over uint16, "e4m3" over uint8). read_only: the promise that a kernel given this
    argument only reads it, which lets a read-only array be passed to a kernel of one's own."""

    __slots__ = ("array", "dtype", "read_only")

    def __init__(self, array: Any, dtype: object | None = None, *, read_only: bool = False) -> None:
        self.array = array
        self.dtype = None if dtype is None else dtypes.parse(dtype)
        self.read_only = read_only

    def __repr__(self) -> str:
        name = "its own" if self.dtype is None else dtypes.name_of(self.dtype)
        return f"quern.Tensor({self.array!r}, dtype={name})"


# What stands for an array that it holds: besides Tensor the compiled module's View, where there is that.
wrappers: tuple[type, ...] = (Tensor,)


class Shape:
    """A tensor without memory, for `prepare` and `workspace`: its shape, element type and strides in elements
    (None: compact row-major)."""

    __slots__ = ("shape", "dtype", "strides")

    def __init__(self, shape: Sequence[int], dtype: object, strides: Sequence[int] | None = None) -> None:
        if strides is not None and len(strides) != len(shape):
            raise InvalidError(f"strides: {len(strides)} given for {len(shape)} dimensions")
        self.shape, self.strides, self.dtype = tuple(shape), strides, dtypes.parse(dtype)


class Borrowed:
    """A DLTensor and whatever keeps its memory alive."""

    __slots__ = ("tensor", "read_only", "copied", "_keep")

    def __init__(self, tensor: _abi.DLTensor, keep: Any, read_only: bool = False, copied: bool = False) -> None:
        self.tensor, self.read_only, self.copied, self._keep = tensor, read_only, copied, keep

    @property
    def address(self) -> int:
        """Of the first element."""
        return (self.tensor.data or 0) + self.tensor.byte_offset

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.tensor.shape[: self.tensor.ndim])

    def on(self, device: tuple[int, int], argument: str) -> Borrowed:
        """Itself, or InvalidError where a kernel on `device` cannot reach its memory."""
        kind, ordinal = self.tensor.device.device_type, self.tensor.device.device_id
        same = kind == device[0] and (kind == _abi.kDLCPU or ordinal == device[1])
        if not same and kind not in _REACHABLE.get(device[0], ()):
            raise InvalidError(
                f"{argument}: lies on device {kind}:{ordinal}, the context's is {device[0]}:{device[1]} (DLPack's "
                "device type and ordinal)"
            )
        return self

    def writable(self, argument: str) -> Borrowed:
        """Itself, or InvalidError where writing would go to read-only memory or to a copy that nobody sees."""
        if self.read_only:
            raise InvalidError(f"{argument}: the array is read-only, an output must be writable")
        if self.copied:
            raise InvalidError(f"{argument}: the array was exported as a copy, an output must be the memory itself")
        return self


def borrow(array: Any, argument: str, device: tuple[int, int], stream: int = 0) -> Borrowed:
    """A tensor argument as a DLTensor. `device`: DLPack type and ordinal of the context's, whose `stream` the
    array's framework is told to make wait for pending work on the array."""
    if isinstance(array, Tensor):
        borrowed = borrow(array.array, argument, device, stream)
        if array.dtype is not None:
            if array.dtype.bits != borrowed.tensor.dtype.bits:
                raise InvalidError(
                    f"{argument}: {dtypes.name_of(borrowed.tensor.dtype)} elements cannot be taken as "
                    f"{dtypes.name_of(array.dtype)}, which has another width"
                )
            borrowed.tensor.dtype = array.dtype
        return borrowed
    if isinstance(array, wrappers):
        borrowed = borrow(array.array, argument, device, stream)
        told = borrowed.tensor
        return _from_layout(
            array.address, _abi.DLDataType(*array.dtype, 1), array.shape, array.strides,
            (told.device.device_type, told.device.device_id), borrowed.read_only, (borrowed, array),
        )  # fmt: skip
    if isinstance(array, Shape):
        return _from_layout(None, array.dtype, array.shape, array.strides, device)
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(array, numpy.ndarray):
        return _from_numpy(array, argument)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor) and array.requires_grad:
        # A parameter under no_grad is its numbers and nothing else. With gradients on, its part in them would be lost.
        if torch.is_grad_enabled():
            raise InvalidError(
                f"{argument}: the tensor requires a gradient, which quern does not compute; call under "
                "torch.no_grad() or torch.inference_mode(), or give tensor.detach()"
            )
        array = array.detach()
    if torch is not None and isinstance(array, torch.Tensor) and str(array.dtype).startswith("torch.float8"):
        # Its 8-bit floats are exported by recent versions only; their bytes always.
        return borrow(Tensor(array.view(torch.uint8), array.dtype), argument, device, stream)
    if hasattr(array, "__dlpack__"):
        return _from_dlpack(array, argument, device, stream)
    raise InvalidError(
        f"{argument}: {type(array).__name__} given; allowed is any array with __dlpack__, a quern.Tensor or, where "
        "nothing is launched, a quern.Shape"
    )


def _from_layout(
    address: int | None,
    dtype: _abi.DLDataType,
    shape: Sequence[int],
    strides: Sequence[int] | None,
    device: tuple[int, int],
    read_only: bool = False,
    keep: Any = None,
) -> Borrowed:
    extents = ctypes.c_int64 * len(shape)
    tensor = _abi.DLTensor(
        data=address, device=_abi.DLDevice(*device), ndim=len(shape), dtype=dtype, shape=extents(*shape)
    )
    if strides is not None:
        tensor.strides = extents(*strides)
    return Borrowed(tensor, keep, read_only)


def _from_numpy(array: Any, argument: str) -> Borrowed:
    """Not through __dlpack__: that refuses read-only arrays before NumPy 2.1, and bfloat16 always."""
    dtype, size = dtypes.parse(array.dtype, argument), array.dtype.itemsize
    if not array.dtype.isnative:
        raise InvalidError(f"{argument}: elements of {array.dtype.str!r} are not in this machine's byte order")
    if any(stride % size for stride in array.strides):
        raise InvalidError(f"{argument}: strides of {array.strides} bytes are no multiples of the element's {size}")
    strides = [stride // size for stride in array.strides]
    read_only = not array.flags.writeable
    return _from_layout(array.ctypes.data, dtype, array.shape, strides, (_abi.kDLCPU, 0), read_only, array)


def _from_dlpack(array: Any, argument: str, device: tuple[int, int], stream: int) -> Borrowed:
    options: dict[str, Any] = {}
    if device[0] != _abi.kDLCPU and int(array.__dlpack_device__()[0]) == device[0]:
        # DLPack forbids 0 for CUDA, where it could mean two streams: 1 is the legacy default stream.
        options["stream"] = 1 if stream == 0 and device[0] == _abi.kDLCUDA else stream
    try:
        try:
            capsule = array.__dlpack__(max_version=(_DLPACK_MAJOR, 0), **options)
        except TypeError:  # a framework from before DLPack 1.0
            capsule = array.__dlpack__(**options)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise InvalidError(f"{argument}: {type(array).__name__} does not give its memory away: {error}") from error
    # The capsule is kept, not consumed: it frees what it holds when the call is over.
    if _is_capsule(capsule, b"dltensor_versioned"):
        managed = _Managed.from_address(_capsule_pointer(capsule, b"dltensor_versioned"))
        if managed.version.major != _DLPACK_MAJOR:
            raise InvalidError(f"{argument}: DLPack version {managed.version.major}; allowed is {_DLPACK_MAJOR}")
        tensor = _abi.DLTensor.from_buffer_copy(managed.tensor)
        return Borrowed(tensor, capsule, bool(managed.flags & _READ_ONLY), bool(managed.flags & _COPIED))
    if _is_capsule(capsule, b"dltensor"):
        tensor = _abi.DLTensor.from_address(_capsule_pointer(capsule, b"dltensor"))
        return Borrowed(_abi.DLTensor.from_buffer_copy(tensor), capsule)
    raise InvalidError(f"{argument}: __dlpack__ of {type(array).__name__} gave {capsule!r}, which is no DLPack capsule")
