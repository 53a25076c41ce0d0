# A kernel of the caller's own: specialised, cached and compiled by quern, launched with raw arguments.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from . import _abi, structs
from .arrays import stream_handle
from .errors import InvalidError
from .library import call
from .opened import Opened
from .tensor import Tensor, borrow


def describe(
    source: str,
    entry: str,
    name: str,
    headers: Mapping[str, str],
    constants: Mapping[str, object],
    options: Iterable[str],
    target: str | None,
    max_shared_bytes: int,
    flags: Mapping[str, bool],
) -> _abi.quern_kernel_desc:
    """The C description of a kernel. True and False become 1 and 0, any other constant its str()."""
    desc = structs.new(_abi.quern_kernel_desc)
    values = {"entry": entry, "target": target, "max_shared_bytes": max_shared_bytes, "options": list(options)}
    structs.fill(desc, {**values, **flags}, structs.flag_bits(_abi.quern_call_flags), "kernel")
    desc.source = ctypes.pointer(_source(name, source))
    desc.headers = (_abi.quern_source * len(headers))(*(_source(*header) for header in headers.items()))
    desc.header_count = len(headers)
    desc.constants = (_abi.quern_constant * len(constants))(
        *(
            _abi.quern_constant(
                ctypes.sizeof(_abi.quern_constant),
                0,
                structs.encode(constant, "constants"),
                structs.encode(str(int(value) if isinstance(value, bool) else value), f"constants[{constant!r}]"),
            )
            for constant, value in constants.items()
        )
    )
    desc.constant_count = len(constants)
    return desc


def _source(name: str, text: str) -> _abi.quern_source:
    encoded = structs.encode(text, name)
    size = ctypes.sizeof(_abi.quern_source)
    return _abi.quern_source(size, 0, structs.encode(name, "name"), encoded, len(encoded))


class Kernel:
    """A kernel ready to launch; made by Context.kernel, alive as long as its context."""

    def __init__(self, context: Opened, handle: Any) -> None:
        self._context, self._handle = context, handle

    @property
    def info(self) -> Any:
        """registers, shared_bytes, local_bytes (-1: unknown), max_threads (a block), key (32 hexadecimal digits)."""
        self._context._open()
        info = structs.new(_abi.quern_kernel_info)
        call("quern_kernel_get_info", self._handle, ctypes.byref(info))
        return structs.record(info)

    def launch(
        self,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        args: Sequence[Any] = (),
        *,
        shared_bytes: int = 0,
        stream: Any = None,
        cluster: int | Sequence[int] = 1,
        programmatic: bool = False,
    ) -> None:
        """Launches and, on a GPU, returns.

        grid, block, cluster   one to three extents: x, y, z
        args                   one a kernel parameter, passed by value as
                                 int                 int32 (beyond that: give a ctypes.c_int64, say)
                                 float               float
                                 bool                bool
                                 a NumPy scalar      its own type
                                 a ctypes value      itself, a ctypes.Structure included
                                 an array            the address of its first element. A read-only one must come as
                                                     quern.Tensor(array, read_only=True)
        shared_bytes           dynamic shared memory, at most the kernel's max_shared_bytes
        stream                 an integer or a stream object; None: PyTorch's current stream, or the default stream"""
        device = self._context._device
        handle = self._context._open()
        launch = structs.new(_abi.quern_launch)
        launch.stream = stream_handle(stream, args, device)
        keep: list[Any] = []
        values = [_value(arg, f"args[{index}]", device, launch.stream or 0, keep) for index, arg in enumerate(args)]
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        extents = {
            f"{what}_{axis}": extent
            for what, given in (("grid", grid), ("block", block), ("cluster", cluster))
            for axis, extent in zip("xyz", _extents(given, what), strict=False)
        }
        flags = structs.flag_bits(_abi.quern_call_flags)
        structs.fill(launch, {**extents, "shared_bytes": shared_bytes, "programmatic": programmatic}, flags, "launch")
        launch.args, launch.arg_count = pointers, len(values)
        call("quern_kernel_launch", handle, self._handle, ctypes.byref(launch))


def _extents(given: int | Sequence[int], what: str) -> Sequence[int]:
    extents = given if isinstance(given, Sequence) else (given,)
    if not 1 <= len(extents) <= 3:
        raise InvalidError(f"{what}: {given!r} given; allowed are one to three extents")
    return extents


def _value(arg: Any, name: str, device: tuple[int, int], stream: int, keep: list[Any]) -> Any:
    """The ctypes value that a kernel parameter is copied from."""
    if isinstance(arg, (ctypes._SimpleCData, ctypes.Structure, ctypes.Array, ctypes.Union)):
        return arg
    if isinstance(arg, bool):
        return ctypes.c_bool(arg)
    if isinstance(arg, int):
        return ctypes.c_int32(structs.in_range(ctypes.c_int32, arg, name))
    if isinstance(arg, float):
        return ctypes.c_float(arg)
    if type(arg).__module__ == "numpy" and hasattr(arg, "tobytes") and not hasattr(arg, "__dlpack__"):
        raw = arg.tobytes()
        return (ctypes.c_ubyte * len(raw)).from_buffer_copy(raw)
    borrowed = borrow(arg, name, device, stream).on(device, name)
    if not (isinstance(arg, Tensor) and arg.read_only):
        borrowed.writable(name)
    keep.append(borrowed)
    return ctypes.c_void_p(borrowed.address)


def address(array: Any, context: Opened, *, writable: bool = True) -> int:
    """The address of an array's first element on the context's device, for a pointer inside a ctypes.Structure. The
    caller keeps the array alive and in place. writable: refuse a read-only array."""
    borrowed = borrow(array, "array", context._device).on(context._device, "array")
    return (borrowed.writable("array") if writable else borrowed).address
