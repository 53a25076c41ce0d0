# What of bindings/cpp is made of quern.h: each op's args as a C++ aggregate whose members have defaults, and its calls.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from header import Header, Struct

SCALARS = {
    "c_float": "float",
    "c_double": "double",
    "c_void_p": "void*",
    **{f"c_{sign}int{bits}": f"std::{sign}int{bits}_t" for sign in ("", "u") for bits in (32, 64)},
}


def camel(op: str) -> str:
    return "".join(part.capitalize() for part in op.split("_"))


def type_of(kind: str) -> str:
    """A field's type in C++: what the args struct points to, it only reads."""
    if kind.startswith("POINTER("):
        pointed = kind[len("POINTER(") : -1]
        return f"{type_of(pointed)} const*" if pointed.startswith("POINTER(") else f"const {type_of(pointed)}*"
    return SCALARS.get(kind, kind)


def ops_header(header: Header, ops: list[str]) -> str:
    """bindings/cpp/quern_ops.hpp."""
    structs = {name: kind for name, kind in header.types if isinstance(kind, Struct)}
    lines = [
        "// Each op's arguments, as quern.h documents them in quern_OP_args, and its calls. Made of quern.h by",
        "// ./dev generate; included by quern.hpp.",
        "// SPDX-License-Identifier: Apache-2.0",
        "#pragma once",
        "",
        "#include <quern.h>",
        "",
        "#include <cstdint>",
        "",
        "namespace quern {",
        "",
        "// What Context::run and its like need of an op.",
        "#define QUERN_CALLS(op)                              \\",
        "  using Args = quern_##op##_args;                    \\",
        "  static constexpr auto* kRun = quern_##op;            \\",
        "  static constexpr auto* kPrepare = quern_##op##_prepare; \\",
        "  static constexpr auto* kWorkspace = quern_##op##_workspace",
    ]
    for op in ops:
        lines += ["", f"struct {camel(op)} {{"]
        for name, kind in structs[f"quern_{op}_args"].fields:
            kind = type_of(kind)
            value = f"sizeof(quern_{op}_args)" if name == "size" else "nullptr" if kind.endswith("*") else "0"
            lines.append(f"  {kind} {name} = {value};")
        lines += [f"  QUERN_CALLS({op});", "};"]
    lines += ["", "#undef QUERN_CALLS", "", "}  // namespace quern", ""]
    return "\n".join(lines)
