# What of bindings/csharp is made of quern.h: Ops.cs, each op's args as a struct, its functions, and its calls as
# methods of Context.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from header import Header, Struct
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
