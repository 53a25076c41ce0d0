# One op's arguments, from Python to its args struct: tensors borrowed, flags and enumerators by name, and what belongs
# to a struct that the args struct points to (an epilogue) beside the rest.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from typing import Any

from . import _abi, structs
from .arrays import alignment_of, stream_handle
from .errors import InvalidError
from .tensor import Borrowed, borrow

_TENSOR = ctypes.POINTER(_abi.DLTensor)
_TENSORS = ctypes.POINTER(_TENSOR)
_EXPRESSION = ctypes.POINTER(_abi.quern_expression)
_POINTERS = (_TENSOR, _TENSORS, _EXPRESSION)
_LAUNCH_FIELDS = ("stream", "workspace", "workspace_size")


# Tensors that are written over where no other is given for their result.
IN_PLACE: dict[str, dict[str, str]] = {
    "rope": {"q": "q_out", "k": "k_out"},
    "kv_append": {"q": "q_out"},
    "mla_append": {"q_rope": "q_rope_out"},
    "kv_copy_pages": {"k": "k_to", "v": "v_to", "k_scale": "k_scale_to", "v_scale": "v_scale_to"},
}


def _is_written(op: str, name: str, args: Any, given: dict[str, Any]) -> bool:
    """Read-only memory is refused for what an op writes, since a DLTensor cannot say so to the library."""
    if (op, name) in (("quantize", "scale"), ("norm", "out_scale")):
        return args.scale_kind != _abi.QUERN_SCALE_STATIC
    if op in ("kv_append", "mla_append") and name.endswith("_scale"):
        return len(getattr(given[name], "shape", ())) > 1  # a scale of a tensor or a head is read
    instead = IN_PLACE.get(op, {}).get(name)
    return name in _abi.OUTPUTS[op] or (instead is not None and instead not in given)


class _Part:
    """A struct that arguments go into."""

    def __init__(self, kind: type[ctypes.Structure], skip: Iterable[str], *flags: Any) -> None:
        self.struct: Any = structs.new(kind)
        self.fields = {name: of for name, of in structs.field_kinds(kind).items() if name not in skip}
        self.flags = structs.flag_bits(*flags)
        self.values: dict[str, Any] = {}

    def takes(self, name: str) -> bool:
        return name in self.fields or name in self.flags

    def arrays(self) -> Iterable[Any]:
        for name, value in self.values.items():
            kind = self.fields.get(name)
            if kind is _TENSORS and not isinstance(value, (list, tuple)):
                raise InvalidError(f"{name}: {type(value).__name__} given; allowed is a list of arrays")
            if kind in (_TENSOR, _TENSORS):
                yield from (one for one in value if one is not None) if kind is _TENSORS else (value,)

    def is_used(self) -> bool:
        """Whether anything but flags that are off has been given."""
        return any(value is not False or name in self.fields for name, value in self.values.items())


class Arguments:
    """One op's args struct, filled, with what keeps its tensors alive. `handle_of` gives an expression's handle."""

    def __init__(
        self, op: str, given: dict[str, Any], device: tuple[int, int], handle_of: Callable[[Any], Any]
    ) -> None:
        declared = _abi.OPS[op]
        pointed_to = structs.pointed_to(declared.args)
        own = _Part(
            declared.args,
            (*_LAUNCH_FIELDS, *pointed_to, *structs.counts(declared.args)),
            _abi.quern_call_flags,
            declared.flags,
        )
        beside = {
            field: _Part(kind, structs.counts(kind), *_abi.FLAGS.get(kind, ())) for field, kind in pointed_to.items()
        }
        parts = [own, *beside.values()]
        given = {name: value for name, value in given.items() if value is not None}
        stream = given.pop("stream", None)
        for name, value in given.items():
            part = next((part for part in parts if part.takes(name)), None)
            if part is None:
                known = sorted({name for part in parts for name in (*part.fields, *part.flags)})
                raise InvalidError(f"{op} has no argument {name!r}; there are {', '.join(known)}")
            part.values[name] = value
        self.op, self.args, self.given = op, own.struct, given
        self.keep: list[Borrowed] = []
        self.arrays = [array for part in parts for array in part.arrays()]
        self.stream = stream_handle(stream, self.arrays, device)
        self.args.stream = self.stream
        if own.values.get("alignment") == "found":
            own.values["alignment"] = alignment_of(self.arrays)
        for part in parts:
            pointers = {name for name in part.values if part.fields.get(name) in _POINTERS}
            scalars = {name: value for name, value in part.values.items() if name not in pointers}
            structs.fill(part.struct, scalars, part.flags, op)
            for name in pointers:
                value = part.values[name]
                setattr(part.struct, name, self._pointer(name, part.fields[name], value, device, handle_of))
                if part.fields[name] is _TENSORS:
                    setattr(part.struct, f"{name[:-1]}_count", len(value))
        for field, part in beside.items():
            if part.is_used():
                setattr(self.args, field, ctypes.pointer(part.struct))

    def _pointer(
        self, name: str, kind: Any, value: Any, device: tuple[int, int], handle_of: Callable[[Any], Any]
    ) -> Any:
        if kind is _EXPRESSION:
            return handle_of(value)
        if kind is _TENSOR:
            written = _is_written(self.op, name, self.args, self.given)
            return ctypes.pointer(self._borrow(name, value, device, written).tensor)
        written = name in _abi.OUTPUTS[self.op]
        borrowed = [
            None if item is None else self._borrow(f"{name}[{i}]", item, device, written)
            for i, item in enumerate(value)
        ]
        return (_TENSOR * len(borrowed))(
            *(_TENSOR() if one is None else ctypes.pointer(one.tensor) for one in borrowed)
        )

    def _borrow(self, name: str, value: Any, device: tuple[int, int], written: bool) -> Borrowed:
        borrowed = borrow(value, name, device, self.stream)
        self.keep.append(borrowed)
        return borrowed.writable(name) if written else borrowed
