# ops.inc of bindings/described: where each of an op's arguments lies in its struct, and the constants. records.inc: the
# structs of calls that are no ops', as C++ takes them apart.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from header import Header, Struct
from records import FILLED, READ, Field, lower, records
from render_rust import is_count, pointed_to

KINDS = {
    "POINTER(DLTensor)": "kTensor",
    "POINTER(POINTER(DLTensor))": "kTensors",
    "c_int32": "kInt32",
    "c_uint32": "kUint32",
    "c_int64": "kInt64",
    "c_uint64": "kUint64",
    "c_float": "kFloat",
    "c_double": "kDouble",
    "POINTER(c_float)": "kFloats",
    "POINTER(quern_expression)": "kExpression",
}
LEFT_OUT = ("size", "reserved", "stream", "workspace", "workspace_size")


def table(header: Header, ops: list[str]) -> str:
    """bindings/described/ops.inc."""
    structs = {name: kind for name, kind in header.types if isinstance(kind, Struct)}
    lines = [
        "// The ops with their arguments, and the constants. Made of quern.h by ./dev generate; included by",
        "// described.cpp and by what has a function of its own for each op.",
        "// SPDX-License-Identifier: Apache-2.0",
        "#ifdef QUERN_OP",
    ]
    parts = pointed_to(header, ops)
    for op in ops:
        args = structs[f"quern_{op}_args"]
        lines += [f"QUERN_OP({op})", *_fields(f"quern_{op}_args", args, "")]
        for name, kind in args.fields:
            part = kind[len("POINTER(") : -1]
            if part in parts:
                lines.append(f"QUERN_PART(quern_{op}_args, {name}, {part})")
                lines += _fields(part, structs[part], f"{name}_")
        lines.append("QUERN_END()")
    lines += ["#endif", "#ifdef QUERN_CONSTANT"]
    lines += [f"QUERN_CONSTANT({name})" for name in header.constants]
    lines += ["#endif", ""]
    return "\n".join(lines)


def _fields(struct_name: str, struct: Struct, prefix: str) -> list[str]:
    """The fields of a struct: its flags have the struct's name before them where an op has some of its own."""
    lines = []
    for name, kind in struct.fields:
        if name in LEFT_OUT or kind not in KINDS or is_count(name, struct):
            continue
        given = f'"{prefix}{name}"' if name == "flags" else f'"{name}"'
        if KINDS[kind] in ("kTensors", "kFloats"):
            lines.append(f"QUERN_LIST({struct_name}, {name}, {given}, {KINDS[kind]}, {name[:-1]}_count)")
        else:
            lines.append(f"QUERN_FIELD({struct_name}, {name}, {given}, {KINDS[kind]})")
    return lines


def record_table(header: Header) -> str:
    """bindings/described/records.inc."""
    lines = [
        "// The structs of quern.h that are no op's: those that calls fill, QUERN_READ, and those that callers fill,",
        "// QUERN_FILLED, each with its fields and their names in JavaScript. Made of quern.h by ./dev generate.",
        "// SPDX-License-Identifier: Apache-2.0",
        "#ifdef QUERN_READ",
    ]
    for name, members in records(header, READ):
        lines.append(f"QUERN_READ({name})")
        for member in members:
            if member.kind == "bytes":
                lines.append(f'QUERN_BYTES({member.name}, "{lower(member.name)}", {member.count})')
            else:
                lines.append(f'QUERN_MEMBER({member.name}, "{lower(member.name)}")')
        lines.append("QUERN_READ_END()")
    lines += ["#endif", "#ifdef QUERN_FILLED"]
    for name, members in records(header, FILLED):
        lines += [f"QUERN_FILLED({name})", *(f"QUERN_{_filled(member)})" for member in members), "QUERN_FILLED_END()"]
    return "\n".join([*lines, "#endif", ""])


def _filled(member: Field) -> str:
    given = f'{member.name}, "{lower(member.name)}"'
    if member.kind in ("texts", "numbers"):
        return f"{member.kind.upper()}({given}, {member.count}"
    if member.kind in ("log", "event"):
        return f"{member.kind.upper()}({given}, {member.user}"
    if member.kind == "progress":
        return f"PROGRESS({given}, {member.user}, {member.type}"
    if member.kind == "part":
        return f"STRUCT({given}, {member.type}"
    if member.kind == "text" and member.length:
        return f"MEASURED({given}, {member.length}"
    macro = {"text": "TEXT", "dtype": "DTYPE"}.get(member.kind, "NUMBER")
    return f"{macro}({given}"
