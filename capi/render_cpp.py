# What of bindings/cpp is made of quern.h: each op's args as a C++ aggregate whose members have defaults, and its calls;
# what calls that are no ops' tell, and are given, as such aggregates.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import TYPE_CHECKING

from header import Header, Struct

if TYPE_CHECKING:
    from records import Field

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


def records_header(read: list[tuple[str, list[Field]]], filled: list[tuple[str, list[Field]]]) -> str:
    """bindings/cpp/quern_records.hpp."""
    lines = [
        "// What calls that are no ops' tell, and what they are given: the structs of quern.h, documented there. Made",
        "// of quern.h by ./dev generate; included by quern.hpp, which has Held.",
        "// SPDX-License-Identifier: Apache-2.0",
        "#pragma once",
        "",
        "#include <quern.h>",
        "",
        "#include <cstddef>",
        "#include <cstdint>",
        "#include <functional>",
        "#include <optional>",
        "#include <string>",
        "#include <string_view>",
        "#include <vector>",
        "",
        "namespace quern {",
        "",
        "// ---- What calls tell",
    ]
    for name, members in read:
        lines += ["", f"struct {_title(name)} {{", f"  using Raw = {name};"]
        lines += [f"  {_member(each)};" for each in members]
        lines += ["", f"  static {_title(name)} of(const Raw& from) {{", f"    {_title(name)} made;"]
        for each in members:
            lines += [f"    {line}" for line in _taken(each)]
        lines += ["    return made;", "  }", "};"]
    lines += ["", "// ---- What they are given"]
    for name, members in filled:
        lines += ["", f"struct {_title(name)} {{", f"  using Raw = {name};"]
        lines += [f"  {_member(each)};" for each in members]
        lines += ["", "  // In C, for as long as this and `held` live.", "  template <typename Held>"]
        lines += ["  [[nodiscard]] Raw raw(Held& held) const {", "    Raw made = {};", "    made.size = sizeof made;"]
        for each in members:
            lines += [f"    {line}" for line in _given(each)]
        if all(each.kind in SCALARS or each.kind == "dtype" for each in members):
            lines.append("    static_cast<void>(held);")
        lines += ["    return made;", "  }", "};"]
    return "\n".join([*lines, "", "}  // namespace quern", ""])


def _title(name: str) -> str:
    return camel(name.removeprefix("quern_"))


def _member(each: Field) -> str:
    if each.kind in SCALARS:
        return f"{SCALARS[each.kind]} {each.name} = 0"
    if each.kind == "log":
        return "std::function<void(std::int32_t level, std::string_view text)> log = {}"
    if each.kind == "event":
        return f"std::function<void(const {_title(each.type)}&)> event = {{}}"
    if each.kind == "progress":
        told = f"const {_title(each.type)}& result"
        return f"std::function<bool(std::uint64_t done, std::uint64_t total, {told})> progress = {{}}"
    named = {
        "part": f"std::optional<{_title(each.type)}>",
        "text": "std::string",
        "texts": "std::vector<std::string>",
        "numbers": "std::vector<std::int64_t>",
        "dtype": "DLDataType",
        "bytes": "std::vector<std::byte>",
    }
    return f"{named[each.kind]} {each.name} = {{}}"


def _taken(each: Field) -> list[str]:
    """Statements that take a field out of the C struct `from`."""
    place, made = f"from.{each.name}", f"made.{each.name}"
    if each.kind == "text" and not each.length:
        return [f'{made} = {place} == nullptr ? "" : {place};']
    if each.kind == "bytes":
        start = f"const auto* {each.name} = static_cast<const std::byte*>({place});"
        return [start, f"if ({each.name} != nullptr) {made}.assign({each.name}, {each.name} + from.{each.count});"]
    return [f"{made} = {place};"]


def _given(each: Field) -> list[str]:
    """Statements that put a field into the C struct `made`."""
    place = f"made.{each.name}"
    if each.kind == "text":
        lines = [f'{place} = held.text("{each.name}", {each.name});']
        return lines + ([f"made.{each.length} = {each.name}.size();"] if each.length else [])
    if each.kind in ("texts", "numbers"):
        value = f'held.texts("{each.name}", {each.name})' if each.kind == "texts" else f"{each.name}.data()"
        return [f"{place} = {value};", f"made.{each.count} = {each.name}.size();"]
    if each.kind == "part":
        return [f"if ({each.name}) {place} = held.keep({each.name}->raw(held));"]
    if each.kind in ("log", "event", "progress"):
        return [f"if ({each.name}) held.{each.kind}({each.name}, {place}, made.{each.user});"]
    return [f"{place} = {each.name};"]
