# Keyword arguments to the C ABI's structs, and its results to named tuples: by the structs' own field names, so that a
# field or flag that quern.h gains is here without further work.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ctypes
import functools
import os
from collections import namedtuple
from collections.abc import Iterable, Mapping
from enum import IntEnum, IntFlag
from typing import Any, TypeVar

from . import _abi, dtypes
from .errors import InvalidError

Struct = TypeVar("Struct", bound=ctypes.Structure)
_records: dict[type, Any] = {}


def new(kind: type[Struct]) -> Struct:
    """A zeroed struct that knows its size."""
    return kind(size=ctypes.sizeof(kind))


@functools.cache
def flag_bits(*enums: type[IntFlag] | None) -> dict[str, int]:
    """QUERN_ATTENTION_CAUSAL of quern_attention_flags is "causal": name to bit."""
    bits = {}
    for enum in enums:
        if enum is not None:
            prefix = len(enum.__name__) - len("flags")
            bits.update({str(flag.name)[prefix:].lower(): int(flag) for flag in enum})
    return bits


@functools.cache
def field_kinds(kind: type[ctypes.Structure]) -> dict[str, Any]:
    """The fields a caller may give: all but `size`, `flags` and the reserved ones."""
    return {name: of for name, of, *_ in kind._fields_ if name not in ("size", "flags", "reserved")}


@functools.cache
def pointed_to(kind: type[ctypes.Structure]) -> dict[str, type[ctypes.Structure]]:
    """The fields that point to a struct of quern's own that the caller fills, as its size says."""
    pointed = {name: getattr(of, "_type_", None) for name, of in field_kinds(kind).items()}
    return {
        name: of
        for name, of in pointed.items()
        if isinstance(of, type) and issubclass(of, ctypes.Structure) and hasattr(of, "size")
    }


@functools.cache
def counts(kind: type[ctypes.Structure]) -> frozenset[str]:
    """The fields that say how long another is, which the sequence itself says here."""
    fields = field_kinds(kind)
    return frozenset(f"{name[:-1]}_count" for name in fields if f"{name[:-1]}_count" in fields)


def fill(struct: Struct, values: Mapping[str, Any], flags: Mapping[str, int], what: str) -> Struct:
    """Sets fields by name and flags by their names here (True or False). None leaves a field at its default. A flag of
    a field's own name says that the field is set. Strings are encoded, sequences of strings and of numbers get their
    count, an enumerator may be given by its name."""
    kinds = field_kinds(type(struct))
    enums = _abi.FIELD_ENUMS.get(type(struct), {})
    for name, value in values.items():
        if name not in kinds and name not in flags:
            known = ", ".join(sorted(kinds.keys() | flags.keys()))
            raise InvalidError(f"{what} has no argument {name!r}; there are {known}")
        if value is None:
            continue
        if name not in kinds:
            if not isinstance(value, bool):
                raise InvalidError(f"{name}: {value!r} given; allowed are True and False")
            struct.flags |= flags[name] if value else 0
            continue
        struct.flags |= flags.get(name, 0)
        kind = kinds[name]
        try:
            if kind is _abi.DLDataType:
                value = dtypes.parse(value, name)
            elif kind is ctypes.c_char_p:
                value = encode(value, name)
            elif kind is ctypes.POINTER(ctypes.c_char_p):
                value = strings(value, name)
                setattr(struct, f"{name[:-1]}_count", len(value))
            elif kind is ctypes.POINTER(ctypes.c_float):
                value = (ctypes.c_float * len(value))(*value)
                setattr(struct, f"{name[:-1]}_count", len(value))
            elif name in enums and isinstance(value, str):
                value = enumerator(enums[name], value, name)
            elif issubclass(kind, (ctypes.c_float, ctypes.c_double)):
                value = float(value)
            elif issubclass(kind, ctypes._SimpleCData) and kind is not ctypes.c_void_p:
                value = in_range(kind, value, name)
            setattr(struct, name, value)
        except (TypeError, OverflowError) as error:
            raise InvalidError(f"{name}: {value!r} given: {error}") from None
    return struct


@functools.cache
def enumerators(enum: type[IntEnum]) -> dict[str, int]:
    """Their names without what all of them begin with, in lower case: QUERN_SCALE_TOKEN is "token"."""
    prefix = os.path.commonprefix([member.name for member in enum]).rpartition("_")[0] + "_"
    return {member.name.removeprefix(prefix).lower(): int(member) for member in enum}


def enumerator(enum: type[IntEnum], given: str, name: str) -> int:
    known = enumerators(enum)
    if given not in known:
        raise InvalidError(f"{name}: {given!r} given; allowed are {', '.join(known)}")
    return known[given]


def in_range(kind: Any, value: Any, name: str) -> int:
    """The integer, which ctypes alone would cut to the field's width without a word."""
    number = value.__index__() if hasattr(value, "__index__") else None
    if number is None or kind(number).value != number:
        bits = ctypes.sizeof(kind) * 8
        low, high = (0, 2**bits - 1) if kind(-1).value > 0 else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        raise InvalidError(f"{name}: {value!r} given; allowed is an integer from {low} to {high}")
    return number


def encode(value: str | os.PathLike[str], name: str) -> bytes:
    """Text or a path for C. A NUL inside would cut it short there."""
    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(text, str) or "\0" in text:
        raise InvalidError(f"{name}: {value!r} given; allowed is a string without NUL characters")
    return text.encode()


def strings(values: Iterable[str | os.PathLike[str]], name: str) -> ctypes.Array[ctypes.c_char_p]:
    """`const char *const *`."""
    if isinstance(values, (str, os.PathLike)):
        raise InvalidError(f"{name}: {values!r} given; allowed is a list of strings")
    encoded = [encode(value, name) for value in values]
    return (ctypes.c_char_p * len(encoded))(*encoded)


def record(struct: ctypes.Structure, **replaced: Any) -> Any:
    """A struct that quern filled, as a named tuple that owns its strings."""
    kind = type(struct)
    made: Any = _records.get(kind)
    if made is None:
        made = _records[kind] = namedtuple(
            kind.__name__.removeprefix("quern_"), [name for name in field_kinds(kind)], module=__name__
        )
    return made(*(replaced.get(name, _plain(getattr(struct, name))) for name in made._fields))


def _plain(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
