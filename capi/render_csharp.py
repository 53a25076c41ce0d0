# What of bindings/csharp is made of quern.h: Ops.cs, each op's args as a struct, its functions, and its calls as
# methods of Context; Records.cs, what calls that are no ops' tell and are given.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from header import Header, Struct
from records import FILLED, READ, Field, records, short
from render_cpp import camel
from render_rust import pointed_to

SCALARS = {
    "c_int32": "int",
    "c_uint32": "uint",
    "c_int64": "long",
    "c_uint64": "ulong",
    "c_float": "float",
    "c_double": "double",
}

LAID_OUT = ("quern_source", "quern_constant", "quern_kernel_desc", "quern_launch")
Layout = dict[str, tuple[int, dict[str, int]]]


def csharp_ops(header: Header, ops: list[str], sizes: dict[str, int]) -> str:
    """bindings/csharp/Ops.cs."""
    structs = {name: kind for name, kind in header.types if isinstance(kind, Struct)}
    lines = [
        "// The ops: each a struct of its arguments, which are the fields of quern_OP_args in quern.h, documented",
        "// there. Made of quern.h by ./dev generate.",
        "// SPDX-License-Identifier: Apache-2.0",
        "using System;",
        "using System.Runtime.InteropServices;",
        "",
        "namespace Quern {",
    ]
    for part in pointed_to(header, ops):
        lines += _struct(camel(part.removeprefix("quern_")), part, structs[part])
    for op in ops:
        lines += _struct(f"{camel(op)}Args", f"quern_{op}_args", structs[f"quern_{op}_args"])
    lines += ["  internal static partial class Native {"]
    for op in ops:
        given = f"IntPtr context, ref {camel(op)}Args args"
        lines += [
            "    [DllImport(Library)]",
            f"    internal static extern int quern_{op}({given}, ref Error error);",
            "    [DllImport(Library)]",
            f"    internal static extern int quern_{op}_prepare(\n        {given}, ref Error error);",
            "    [DllImport(Library)]",
            f"    internal static extern int quern_{op}_workspace(",
            f"        {given}, out ulong bytes, ref Error error);",
        ]
    lines += ["  }", "", "  public sealed partial class Context {"]
    for op in ops:
        name = camel(op)
        size = f"args.Size = {sizes[f'quern_{op}_args']};"
        lines += [
            f"    public void {name}({name}Args args) {{",
            f"      {size}",
            "      var error = Error.Blank();",
            "      if (args.Workspace == IntPtr.Zero) {",
            f"        Check(Native.quern_{op}_workspace(Handle, ref args, out var bytes, ref error), error);",
            "        args.Workspace = WorkspaceOf(bytes);",
            "        args.WorkspaceSize = bytes;",
            "      }",
            f"      CheckRun(Native.quern_{op}(Handle, ref args, ref error), error);",
            "    }",
            f"    public void {name}Prepare({name}Args args) {{",
            f"      {size}",
            "      var error = Error.Blank();",
            f"      Check(Native.quern_{op}_prepare(Handle, ref args, ref error), error);",
            "    }",
            f"    public ulong {name}Workspace({name}Args args) {{",
            f"      {size}",
            "      var error = Error.Blank();",
            f"      Check(Native.quern_{op}_workspace(Handle, ref args, out var bytes, ref error), error);",
            "      return bytes;",
            "    }",
            "",
        ]
    lines += ["  }", "", "  /// <summary>The numbers of quern.h.</summary>", "  public static class Constants {"]
    for name, value in header.constants.items():
        if name.startswith("QUERN_"):
            kind = "int" if value < 2**31 else "long"
            lines.append(f"    public const {kind} {camel(name.removeprefix('QUERN_').lower())} = {value};")
    return "\n".join([*lines, "  }", "}", ""])


def _struct(name: str, c_name: str, struct: Struct) -> list[str]:
    lines = [
        f"  /// <summary>{c_name}.</summary>",
        "  [StructLayout(LayoutKind.Sequential)]",
        f"  public struct {name} {{",
    ]
    lines += [f"    public {SCALARS.get(kind, 'IntPtr')} {camel(field)};" for field, kind in struct.fields]
    return [*lines, "  }", ""]


def csharp_records(header: Header, layout: Layout) -> str:
    """bindings/csharp/Records.cs. `layout`: of each struct its size and its fields' offsets."""
    lines = [
        "// What calls that are no ops' tell, and what they are given: the structs of quern.h, documented there. Made",
        "// of quern.h by ./dev generate.",
        "// SPDX-License-Identifier: Apache-2.0",
        "using System;",
        "using System.Collections.Generic;",
        "",
        "namespace Quern {",
    ]
    for name, members in records(header, READ):
        size, offsets = layout[name]
        title = short(name)
        lines += [f"  /// <summary>{name}.</summary>", f"  public sealed class {title} {{"]
        lines += [f"    internal const int Bytes = {size};"]
        lines += [f"    public readonly {_type(member)} {camel(member.name)};" for member in members]
        lines += ["", f"    internal {title}(IntPtr from) {{"]
        lines += [f"      {camel(member.name)} = {_read(member, offsets)};" for member in members]
        lines += ["    }", "  }", ""]
    for name, members in records(header, FILLED):
        size, offsets = layout[name]
        title = short(name)
        lines += [f"  /// <summary>{name}.</summary>", f"  public sealed class {title} {{"]
        for member in members:
            kind = "DeviceType" if member.name == "device_type" else _type(member)
            lines.append(f"    public {kind} {camel(member.name)};")
        lines += ["", "    internal IntPtr Write(Held held) {", f"      var place = held.Struct({size});"]
        for member in members:
            value = f"(int){camel(member.name)}" if member.name == "device_type" else camel(member.name)
            lines.append(f"      {_put(member, offsets, value)};")
        lines += ["      return place;", "    }", "  }", ""]
    lines += ["  /// <summary>Where the fields of the structs lie that Kernel.cs fills.</summary>"]
    lines += ["  internal static class Layout {"]
    for name in LAID_OUT:
        size, offsets = layout[name]
        prefix = short(name)
        lines.append(f"    internal const int {prefix}Bytes = {size};")
        lines += [f"    internal const int {prefix}{camel(field)} = {offset};" for field, offset in offsets.items()]
    return "\n".join([*lines, "  }", "}", ""])


def _type(member: Field) -> str:
    if member.kind in SCALARS:
        return SCALARS[member.kind]
    if member.kind == "progress":
        return f"Func<ulong, ulong, {short(member.type)}, bool>"
    if member.kind in ("event", "part"):
        return f"Action<{short(member.type)}>" if member.kind == "event" else short(member.type)
    named = {"text": "string", "texts": "IList<string>", "numbers": "IList<long>", "bytes": "byte[]"}
    return {**named, "dtype": "ElementType?", "log": "Action<int, string>"}[member.kind]


def _read(member: Field, offsets: dict[str, int]) -> str:
    place = offsets[member.name]
    if member.kind == "text":
        return f"Read.Inline(from, {place}, {member.length})" if member.length else f"Read.Text(from, {place})"
    if member.kind == "bytes":
        return f"Read.Memory(from, {place}, {offsets[member.count]})"
    return f"Read.{camel(SCALARS[member.kind])}(from, {place})"


def _put(member: Field, offsets: dict[str, int], value: str) -> str:
    """The call of Held that puts a field to its place."""
    place = offsets[member.name]
    if member.kind == "text":
        length = f", {offsets[member.length]}" if member.length else ""
        return f'held.Text(place, "{camel(member.name)}", {value}, {place}{length})'
    if member.kind == "texts":
        return f'held.Texts(place, "{camel(member.name)}", {value}, {place}, {offsets[member.count]})'
    if member.kind == "numbers":
        return f"held.Numbers(place, {value}, {place}, {offsets[member.count]})"
    if member.kind == "part":
        return f"held.Part(place, {value}?.Write(held), {place})"
    if member.kind == "progress":
        return f"held.Progress(place, {value}, {place}, from => new {short(member.type)}(from))"
    if member.kind in SCALARS:
        return f"held.Put(place, {value}, {place})"
    return f"held.{camel(member.kind)}(place, {value}, {place})"
