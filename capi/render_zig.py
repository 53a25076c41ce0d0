# What of bindings/zig is made of quern.h: c.zig, the header in Zig with defaults for every field, and each op's calls
# by the struct of its arguments.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re

from header import Function, Header, Kind, Struct
from render_cpp import camel

SCALARS = {
    "None": "void",
    "c_char": "u8",
    "c_float": "f32",
    "c_double": "f64",
    "c_size_t": "usize",
    **{f"c_{sign}int{bits}": f"{letter}{bits}" for sign, letter in (("", "i"), ("u", "u")) for bits in (8, 16, 32, 64)},
}
KEYWORDS = {"align", "error", "export", "test", "union", "var", "const", "fn", "opaque", "packed", "resume"}


def identifier(name: str) -> str:
    return f'@"{name}"' if name in KEYWORDS else name


def type_of(kind: str, opaque: set[str]) -> str:
    """A type of ctypes' in Zig. Pointers are C's, to one or to many, but for strings and opaque structs."""
    read_only = "const " if getattr(kind, "read_only", False) else ""
    if kind == "c_char_p":
        return "?[*:0]const u8"
    if kind == "c_void_p":
        return f"?*{read_only}anyopaque"
    if kind.startswith("POINTER("):
        inner = kind[len("POINTER(") : -1]
        if inner in opaque:
            return f"?*{read_only}{inner}"
        if inner == "c_char_p":
            return "[*c]const [*:0]const u8"
        if inner.startswith("POINTER("):
            pointed = Kind(inner)
            pointed.read_only = bool(read_only)
            # `const DLTensor *const *` is a list that is read, `const quern_expression **` a place to write to.
            outer = "" if inner[len("POINTER(") : -1] in opaque else read_only
            return f"[*c]{outer}{type_of(pointed, opaque)}"
        return f"[*c]{read_only}{type_of(inner, opaque)}"
    if array := re.fullmatch(r"(\w+) \* (\d+)", kind):
        return f"[{array[2]}]{type_of(array[1], opaque)}"
    return SCALARS.get(kind, kind)


def c_module(header: Header, ops: list[str], sizes: dict[str, int]) -> str:
    """bindings/zig/c.zig. `sizes`: of each struct."""
    opaque = {name for name, kind in header.types if isinstance(kind, Struct) and not kind.fields}
    callbacks = {name for name, kind in header.types if isinstance(kind, Function)}
    lines = [
        "//! quern.h in Zig: every constant, struct and function under its C name, all fields with their defaults.",
        "//! Documentation is the header's. Made of quern.h by ./dev generate.",
        "// SPDX-License-Identifier: Apache-2.0",
        "",
    ]
    lines += [f"pub const {name} = {value};" for name, value in header.constants.items()]
    for name, kind in header.types:
        lines.append("")
        if isinstance(kind, Function):
            given = ", ".join(type_of(parameter, opaque) for parameter in kind.parameters)
            lines.append(f"pub const {name} = ?*const fn ({given}) callconv(.c) {type_of(kind.result, opaque)};")
        elif not kind.fields:
            lines.append(f"pub const {name} = opaque {{}};")
        else:
            lines.append(f"pub const {name} = extern struct {{")
            for member, of in kind.fields:
                zig = type_of(of, opaque)
                default = _default(name, member, of, zig, callbacks)
                lines.append(f"    {identifier(member)}: {zig} = {default},")
            lines.append("};")
    lines.append("")
    for name, function in header.functions.items():
        given = ", ".join(type_of(parameter, opaque) for parameter in function.parameters)
        lines.append(f"pub extern fn {name}({given}) {type_of(function.result, opaque)};")
    lines += ["", "comptime {", "    // As C lays them out."]
    lines += [f'    if (@sizeOf({name}) != {size}) @compileError("{name}");' for name, size in sizes.items()]
    lines += ["}", "", "// The ops by the structs of their arguments."]
    lines += [f"pub const {camel(op)} = quern_{op}_args;" for op in ops]
    lines += [
        "",
        "/// The three calls of an op.",
        "pub fn calls(comptime Args: type) type {",
        "    return switch (Args) {",
    ]
    for op in ops:
        lines += [
            f"        quern_{op}_args => struct {{",
            f"            pub const run = quern_{op};",
            f"            pub const prepare = quern_{op}_prepare;",
            f"            pub const workspace = quern_{op}_workspace;",
            "        },",
        ]
    lines += ['        else => @compileError("no op takes a " ++ @typeName(Args)),', "    };", "}", ""]
    statuses = next(enum.values for enum in header.enums if enum.name == "quern_status")
    names = {name: camel(name.removeprefix("QUERN_").lower()) for name in statuses if name != "QUERN_OK"}
    lines += ["/// What a call fails with, but for QUERN_OK.", "pub const Error = error{"]
    lines += [f"    {name}," for name in names.values()]
    lines += ["    /// Of a newer library.", "    Unknown,", "};", "", "pub fn errorOf(status: i32) Error {"]
    lines += ["    return switch (status) {"]
    lines += [f"        {name} => error.{error}," for name, error in names.items()]
    lines += ["        else => error.Unknown,", "    };", "}", ""]
    return "\n".join(lines)


def _default(struct: str, member: str, kind: str, zig: str, callbacks: set[str]) -> str:
    if member == "size" and kind == "c_uint32":
        return f"@sizeOf({struct})"
    if zig.startswith("[*c]") or zig.startswith("?") or kind in callbacks:
        return "null"
    if " * " in kind:
        return f"@splat({'0' if kind.startswith('c_') else '.{}'})"
    return "0" if kind in SCALARS else ".{}"
