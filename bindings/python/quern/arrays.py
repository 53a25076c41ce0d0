# What a call needs from the caller's own framework: the current stream, memory for outputs, a zeroed workspace.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import ctypes
import sys
import threading
from collections.abc import Iterable
from typing import Any

from . import _abi
from .errors import InvalidError
from .tensor import Tensor

WORKSPACE_ALIGNMENT = 256


def unwrap(array: Any) -> Any:
    return array.array if isinstance(array, Tensor) else array


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


def empty(shape: tuple[int, ...], like: Any, argument: str, dtype: str | None = None) -> Any:
    """An uninitialised array of `like`'s framework, device and element type (or `dtype`, a name that NumPy and PyTorch
    share)."""
    array = unwrap(like)
    if is_torch(array):
        torch = sys.modules["torch"]
        made = torch.empty(shape, dtype=getattr(torch, dtype) if dtype else array.dtype, device=array.device)
    elif "numpy" in sys.modules and isinstance(array, sys.modules["numpy"].ndarray):
        made = sys.modules["numpy"].empty(shape, dtype or array.dtype)
    else:
        raise InvalidError(f"{argument}: must be given, quern allocates outputs for NumPy and PyTorch arrays only")
    if isinstance(like, Tensor) and like.dtype is not None and dtype is None:
        wrapped = Tensor(made)
        wrapped.dtype = like.dtype
        return wrapped
    return made


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
        if kept is not None and kept[2] >= size and not _capturing(device):
            return kept
        made = self._host(size) if device[0] == _abi.kDLCPU else self._torch(size, stream, device, arrays)
        if not _capturing(device):
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
        current = torch.cuda.current_stream(device[1]).cuda_stream
        on = contextlib.nullcontext()
        if stream != current:
            other = (
                torch.cuda.ExternalStream(stream, device=device[1]) if stream else torch.cuda.default_stream(device[1])
            )
            on = torch.cuda.stream(other)
        with on:
            owner = torch.zeros(size, dtype=torch.uint8, device=torch.device("cuda", device[1]))
        return owner, owner.data_ptr(), size


def _capturing(device: tuple[int, int]) -> bool:
    torch = sys.modules.get("torch")
    return device[0] != _abi.kDLCPU and torch is not None and torch.cuda.is_current_stream_capturing()
