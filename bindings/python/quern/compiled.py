# The compiled module quern._fast, where there is one: the calls of ops without ctypes. What it is told of the ops' args
# structs comes from _abi, as everything else does; without it, or with QUERN_PYTHON=ctypes, the same calls go through
# arguments.py alone, which also takes whatever the module leaves to it.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ctypes
import os
import sys
import weakref
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

from . import _abi, arrays, dtypes, structs, tensor, views
from .arrays import capturing, stream_handle, unwrap
from .errors import InvalidError, from_status
from .expression import Expression, handle_of
from .library import library
from .tensor import Tensor

_CHOICES = ("compiled", "ctypes")
_LAUNCH_FIELDS = ("stream", "workspace", "workspace_size")

# fast/tensors.h: enum How.
_ELSEWHERE, _NUMPY, _TENSOR, _EXCHANGE, _TORCH, _CAPSULE, _VIEW = range(7)
# fast/description.h: enum Field.
_FLAG = 0
_TENSOR_POINTER = ctypes.POINTER(_abi.DLTensor)
_FIELDS: dict[Any, int] = {
    _TENSOR_POINTER: 1, ctypes.POINTER(_TENSOR_POINTER): 2, ctypes.c_int32: 3, ctypes.c_uint32: 4, ctypes.c_int64: 5,
    ctypes.c_uint64: 6, ctypes.c_float: 7, ctypes.c_double: 8, ctypes.POINTER(ctypes.c_float): 9,
    ctypes.POINTER(_abi.quern_expression): 10,
}  # fmt: skip
# Both names that DLPack's C exchange API has had on a type.
_EXCHANGE_NAMES = ("__dlpack_c_exchange_api__", "__c_dlpack_exchange_api__")
_EXCHANGE_CAPSULE = b"dlpack_exchange_api"


def _choice() -> str | None:
    given = os.environ.get("QUERN_PYTHON") or None
    if given is not None and given not in _CHOICES:
        raise InvalidError(f"QUERN_PYTHON: {given!r} given; allowed are {' and '.join(_CHOICES)}")
    return given


def _import() -> ModuleType | None:
    """The module; None where it was not built, this Python is older than what it is built for, or ctypes was asked
    for. With QUERN_PYTHON=compiled its absence is an error."""
    choice = _choice()
    if choice == "ctypes":
        return None
    try:
        if sys.version_info < (3, 11):
            raise ImportError("quern._fast needs Python 3.11")
        from . import _fast  # type: ignore[attr-defined]
    except ImportError:
        if choice == "compiled":
            raise
        return None
    return _fast


_module = _import()
_ready = False


def used() -> bool:
    """Whether ops are called through the compiled module."""
    return _module is not None


def launcher(context: Any, slow: Callable[..., Any]) -> Any:
    """What calls ops for a context, or None. `slow`: (context, op, **arguments), the same through ctypes."""
    global _ready
    if _module is None:
        return None
    if not _ready:
        _set_up(_module, slow)
        _ready = True
    handle = ctypes.cast(context._handle, ctypes.c_void_p).value
    workspaces = context._workspaces
    return _module.Launcher(handle, context._device, weakref.ref(context), workspaces.take, workspaces.drop)


def exchange_of_first(arrays: Iterable[Any]) -> Any:
    """The exchange API of the first of PyTorch's tensors among these; None where there is none."""
    kinds = (_kind_of(type(unwrap(array))) for array in arrays)
    return next((capsule for how, capsule in kinds if how == _TORCH), None)


def _set_up(module: ModuleType, slow: Callable[..., Any]) -> None:
    opened = library()
    ops = []
    for op, declared in _abi.OPS.items():
        # An older library of the same ABI may lack a newer op, which then fails in ctypes' words.
        calls = [getattr(opened, f"quern_{op}{call}", None) for call in ("", "_workspace")]
        if all(calls):
            addresses = [ctypes.cast(call, ctypes.c_void_p).value for call in calls]
            ops.append((op, describe(declared), *addresses))
    module.set_up(
        ops,
        (from_status, slow, _expression_address, stream_handle, capturing),
        (_kind_of, _dtype_of, _grad_mode, dtypes.code_of),
    )
    arrays.fast_empty, arrays.fast_alignment = module.empty, module.alignment
    arrays.fast_together, arrays.fast_compact = module.together, module.compact
    arrays.fast_shape, arrays.fast_element = module.shape, module.element
    views.module = module
    tensor.wrappers = (Tensor, module.View)


def describe(declared: Any) -> tuple[list[Any], list[Any]]:
    """The parts of an op's arguments and where each argument goes: fast/description.h."""
    own, beside = declared.args, structs.pointed_to(declared.args)
    kinds = [(own, 0, (_abi.quern_call_flags, declared.flags), {*_LAUNCH_FIELDS, *beside})]
    kinds += [(kind, getattr(own, name).offset, _abi.FLAGS.get(kind, ()), set()) for name, kind in beside.items()]
    parts, arguments, taken = [], [], set()
    for index, (kind, pointer, flag_enums, skip) in enumerate(kinds):
        skip |= structs.counts(kind)
        parts.append((ctypes.sizeof(kind), pointer))
        bits = structs.flag_bits(*flag_enums)
        enums = _abi.FIELD_ENUMS.get(kind, {})
        for name, of in structs.field_kinds(kind).items():
            if name in skip or name in taken:
                continue
            taken.add(name)
            if of not in _FIELDS:
                continue  # ctypes takes it
            pointers = _FIELDS[of] in (1, 2, 10)
            counted = getattr(kind, f"{name[:-1]}_count").offset if _FIELDS[of] in (2, 9) else 0
            enumerators = structs.enumerators(enums[name]) if name in enums else None
            bit = 0 if pointers else bits.get(name, 0)
            arguments.append((name, _FIELDS[of], index, getattr(kind, name).offset, counted, bit, enumerators))
        for name, bit in bits.items():
            if name not in taken:
                taken.add(name)
                arguments.append((name, _FLAG, index, 0, 0, bit, None))
    return parts, arguments


def _expression_address(value: Any, context: Any) -> int:
    if isinstance(value, Expression) and value._context is context:
        return value.address
    return ctypes.cast(handle_of(value, context), ctypes.c_void_p).value or 0


def _dtype_of(dtype: Any) -> tuple[int, int] | None:
    """A NumPy dtype's DLPack code and bits."""
    if not dtype.isnative:
        return None
    try:
        found = dtypes.parse(dtype)
    except InvalidError:
        return None
    return (found.code, found.bits) if found.bits == dtype.itemsize * 8 else None


def _grad_mode() -> Callable[[], bool]:
    """What says whether gradients are computed, where there are PyTorch's tensors."""
    enabled: Callable[[], bool] = sys.modules["torch"].is_grad_enabled
    return enabled


def _kind_of(kind: type) -> tuple[int, Any]:
    """How arrays of this type are read."""
    if kind is Tensor:
        return _TENSOR, None
    if kind in tensor.wrappers:
        return _VIEW, None
    numpy = sys.modules.get("numpy")
    if numpy is not None and issubclass(kind, numpy.ndarray):
        return (_NUMPY, None) if _numpy_is_as_declared(numpy) else (_ELSEWHERE, None)
    torch = sys.modules.get("torch")
    if torch is not None and issubclass(kind, torch.Tensor):
        # Other subclasses may mean something of their own: read-only tensors, those without memory.
        if kind not in (torch.Tensor, torch.nn.Parameter):
            return _ELSEWHERE, None
        capsule = _exchange_of(kind)
        return (_ELSEWHERE, None) if capsule is None else (_TORCH, capsule)
    capsule = _exchange_of(kind)
    if capsule is not None:
        return _EXCHANGE, capsule
    return (_CAPSULE, _export) if hasattr(kind, "__dlpack__") else (_ELSEWHERE, None)


def _exchange_of(kind: type) -> Any:
    for name in _EXCHANGE_NAMES:
        capsule = getattr(kind, name, None)
        if capsule is not None and ctypes.pythonapi.PyCapsule_IsValid(ctypes.py_object(capsule), _EXCHANGE_CAPSULE):
            return capsule
    return None


def _export(array: Any) -> Any:
    try:
        return array.__dlpack__(max_version=(1, 0))
    except TypeError:  # a framework from before DLPack 1.0
        return array.__dlpack__()


class _NumpyArray(ctypes.Structure):
    """fast/tensors.cpp: NumpyArray."""

    _fields_ = [
        ("head", ctypes.c_char * object.__basicsize__),
        ("data", ctypes.c_void_p),
        ("dimensions", ctypes.c_int),
        ("shape", ctypes.POINTER(ctypes.c_ssize_t)),
        ("strides", ctypes.POINTER(ctypes.c_ssize_t)),
        ("base", ctypes.c_void_p),
        ("dtype", ctypes.c_void_p),
        ("flags", ctypes.c_int),
    ]


def _numpy_is_as_declared(numpy: Any) -> bool:
    """Whether this NumPy's arrays lie in memory as its headers have said since 1.7."""
    if object.__basicsize__ != 2 * ctypes.sizeof(ctypes.c_void_p):
        return False
    array = numpy.zeros((3, 5), numpy.float32)[:, ::2]
    for writeable in (True, False):
        array.flags.writeable = writeable
        raw = _NumpyArray.from_address(id(array))
        same = (
            raw.data == array.ctypes.data
            and raw.dimensions == array.ndim
            and tuple(raw.shape[:2]) == array.shape
            and tuple(raw.strides[:2]) == array.strides
            and raw.base == id(array.base)
            and raw.dtype == id(array.dtype)
            and bool(raw.flags & 0x400) == writeable
        )
        if not same:
            return False
    return True
