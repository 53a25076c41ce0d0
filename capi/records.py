# What of quern.h is not about ops, as the renderers of the languages take it: the structs that calls fill, the structs
# that callers fill, and what each of their fields is.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
from dataclasses import dataclass

from header import Function, Header, HeaderError, Struct
from render_cpp import camel
from render_rust import is_count

# Filled by quern, read by callers.
READ = [
    "quern_device_info",
    "quern_stats",
    "quern_event",
    "quern_fault",
    "quern_warm_result",
    "quern_tune_result",
    "quern_entry",
    "quern_finding",
    "quern_trim_result",
    "quern_cache_stats",
    "quern_verify_result",
    "quern_kernel_info",
]
# Filled by callers. One that another points to comes before it.
FILLED = [
    "quern_context_options",
    "quern_model",
    "quern_warm_options",
    "quern_tune_options",
    "quern_trim_options",
    "quern_verify_options",
]


@dataclass
class Field:
    """A field that a binding shows. kind:

    c_int32 and so on   a number
    text                a string; `length`: the field that takes its length in bytes, "" where there is none
    texts               strings, whose number goes to the field `count`
    numbers             int64s, likewise
    bytes               memory that is `count` long, or none
    dtype               DLPack's element type
    part                a struct of FILLED, `type`, or none
    log, event          a callback of a context, whose user pointer is `user`
    progress            one of a call, told a struct `type`
    """

    name: str
    kind: str
    type: str = ""
    count: str = ""
    length: str = ""
    user: str = ""


def short(name: str) -> str:
    """quern_warm_result is WarmResult."""
    return camel(name.removeprefix("quern_"))


def lower(name: str) -> str:
    """max_kv_len is maxKvLen."""
    made = camel(name)
    return made[0].lower() + made[1:]


def records(header: Header, names: list[str]) -> list[tuple[str, list[Field]]]:
    """Those structs and their fields, in the order of `names`."""
    types = dict(header.types)
    return [(name, fields(types, name)) for name in names]


def fields(types: dict[str, Struct | Function], struct_name: str) -> list[Field]:
    struct = types[struct_name]
    if not isinstance(struct, Struct):
        raise HeaderError(f"{struct_name} is no struct")
    members, made = dict(struct.fields), []
    for name, kind in struct.fields:
        part, callback = kind[len("POINTER(") : -1], types.get(kind)
        if name in ("size", "reserved") or is_count(name, struct) or name.endswith(("_length", "_user")):
            continue
        if kind == "c_char_p":
            made.append(Field(name, "text", length=f"{name}_length" if f"{name}_length" in members else ""))
        elif re.fullmatch(r"c_char \* \d+", kind):
            made.append(Field(name, "text", length=kind.split(" * ")[1]))
        elif kind in ("POINTER(c_char_p)", "POINTER(c_int64)"):
            made.append(Field(name, "texts" if "char" in kind else "numbers", count=f"{name[:-1]}_count"))
        elif kind == "c_void_p":
            made.append(Field(name, "bytes", count=f"{name}_size"))
        elif kind == "DLDataType":
            made.append(Field(name, "dtype"))
        elif isinstance(callback, Function):
            told = callback.parameters[-1][len("POINTER(") : -1]
            role = name if name in ("log", "event") else "progress"
            made.append(Field(name, role, told if role != "log" else "", user=f"{name}_user"))
        elif part in FILLED:
            made.append(Field(name, "part", part))
        elif re.fullmatch(r"c_(u?int(32|64)|float|double)", kind):
            made.append(Field(name, kind))
        else:
            raise HeaderError(f"{struct_name}.{name}: {kind} is no kind of field that bindings show")
    return made
