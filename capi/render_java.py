# What of bindings/java is made of quern.h: Ops.java, each op as a class whose methods put its arguments to their
# places; Records.java, what calls that are no ops' tell, as records, and are given, as such classes.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from header import Header, Struct
from records import FILLED, READ, Field, lower, records, short
from render_cpp import camel
from render_rust import is_count, pointed_to

LEFT_OUT = ("size", "reserved", "stream", "workspace", "workspace_size")
# The type in Java, and the method of Struct that takes it.
KINDS = {
    "POINTER(DLTensor)": ("Tensor", "tensor"),
    "POINTER(POINTER(DLTensor))": ("List<Tensor>", "tensors"),
    "c_int32": ("int", "integer"),
    "c_uint32": ("int", "integer"),
    "c_int64": ("long", "wide"),
    "c_uint64": ("long", "wide"),
    "c_float": ("float", "number"),
    "c_double": ("double", "wideNumber"),
    "POINTER(c_float)": ("float[]", "numbers"),
    "POINTER(quern_expression)": ("Expression", "expression"),
}
LAID_OUT = (
    "DLTensor",
    "quern_error",
    "quern_source",
    "quern_constant",
    "quern_kernel_desc",
    "quern_launch",
)
NUMBERS = {
    kind: (java, f"JAVA_{java.upper()}") for kind, (java, _) in KINDS.items() if java[0].islower() and "[" not in java
}
Layout = dict[str, tuple[int, dict[str, int]]]


def java_ops(header: Header, ops: list[str], layout: Layout) -> str:
    """bindings/java/quern/Ops.java. `layout`: of each struct its size and its fields' offsets."""
    structs = {name: kind for name, kind in header.types if isinstance(kind, Struct)}
    parts = pointed_to(header, ops)
    lines = [
        "// The ops: each a class whose methods are the fields of quern_OP_args in quern.h, documented there. Made of",
        "// quern.h by ./dev generate.",
        "// SPDX-License-Identifier: Apache-2.0",
        "package quern;",
        "",
        "import java.util.List;",
        "import quern.Quern.Expression;",
        "import quern.Quern.Op;",
        "import quern.Quern.Struct;",
        "import quern.Quern.Tensor;",
        "",
        "public final class Ops {",
        "  private Ops() {}",
    ]
    for part in parts:
        lines += _class(camel(part.removeprefix("quern_")), "Struct", part, structs[part], layout, parts, "")
    for op in ops:
        args = f"quern_{op}_args"
        lines += _class(camel(op), "Op", args, structs[args], layout, parts, f'"{op}", ')
    lines += [
        "",
        "  /** Where the fields of the structs lie that Quern.java fills and reads. */",
        "  static final class Layout {",
    ]
    for name in LAID_OUT:
        size, offsets = layout[name]
        prefix = name.removeprefix("quern_").upper()
        lines.append(f"    static final int {prefix}_BYTES = {size};")
        lines += [f"    static final int {prefix}_{field.upper()} = {offset};" for field, offset in offsets.items()]
    lines += [
        "",
        "    private Layout() {}",
        "  }",
        "",
        "  /** The numbers of quern.h. */",
        "  public static final class Constants {",
    ]
    for name, value in header.constants.items():
        if name.startswith("QUERN_") and -(2**31) <= value < 2**31:
            lines.append(f"    public static final int {name.removeprefix('QUERN_')} = {value};")
    return "\n".join([*lines, "", "    private Constants() {}", "  }", "}", ""])


def _class(
    name: str, base: str, c_name: str, struct: Struct, layout: Layout, parts: list[str], first: str
) -> list[str]:
    size, offsets = layout[c_name]
    lines = ["", f"  /** {c_name}. */", f"  public static final class {name} extends {base}<{name}> {{"]
    lines += [f"    public {name}() {{", f"      super({first}{size});", "    }"]
    for field, kind in struct.fields:
        part = kind[len("POINTER(") : -1]
        if field in LEFT_OUT or is_count(field, struct) or (kind not in KINDS and part not in parts):
            continue
        java, method = KINDS.get(kind) or (camel(part.removeprefix("quern_")), "part")
        place = str(offsets[field])
        if method in ("tensors", "numbers"):
            place += f", {offsets[f'{field[:-1]}_count']}"
        lines += [
            "",
            f"    public {name} {lower(field)}({java} value) {{",
            f"      return {method}({place}, value);",
            "    }",
        ]
    return [*lines, "  }"]


def java_records(header: Header, layout: Layout) -> str:
    """bindings/java/quern/Records.java."""
    lines = [
        "// What calls that are no ops' tell, and what they are given: the structs of quern.h, documented there. Made",
        "// of quern.h by ./dev generate.",
        "// SPDX-License-Identifier: Apache-2.0",
        "package quern;",
        "",
        "import static java.lang.foreign.ValueLayout.JAVA_DOUBLE;",
        "import static java.lang.foreign.ValueLayout.JAVA_INT;",
        "import static java.lang.foreign.ValueLayout.JAVA_LONG;",
        "",
        "import java.lang.foreign.MemorySegment;",
        "import java.util.List;",
        "import java.util.function.Consumer;",
        "import quern.Quern.Log;",
        "import quern.Quern.Progress;",
        "import quern.Quern.Struct;",
        "import quern.Quern.Type;",
        "",
        "public final class Records {",
        "  private Records() {}",
    ]
    for name, members in records(header, READ):
        size, offsets = layout[name]
        shown = [f"{_kind_of(member)} {lower(member.name)}" for member in members]
        given = [_read(member, offsets) for member in members]
        lines += ["", f"  /** {name}. */", f"  public record {short(name)}(", *_listed(shown, ") {")]
        lines += [f"    static final int BYTES = {size};", "", f"    static {short(name)} of(MemorySegment from) {{"]
        lines += [f"      return new {short(name)}(", *_listed(given, ");", 10), "    }", "  }"]
    for name, members in records(header, FILLED):
        size, offsets = layout[name]
        title = short(name)
        lines += ["", f"  /** {name}. */", f"  public static final class {title} extends Struct<{title}> {{"]
        if name == "quern_context_options":
            lines += [f"    static final int DEVICE_TYPE = {offsets['device_type']};", ""]
        lines += [f"    public {title}() {{", f"      super({size});", "    }"]
        for member in members:
            lines += [
                "",
                f"    public {title} {lower(member.name)}({_kind_of(member)} value) {{",
                f"      return {_put(member, offsets)};",
                "    }",
            ]
        lines.append("  }")
    return "\n".join([*lines, "}", ""])


def _listed(items: list[str], end: str, indent: int = 6) -> list[str]:
    return [f"{' ' * indent}{item}{',' if place + 1 < len(items) else end}" for place, item in enumerate(items)]


def _kind_of(member: Field) -> str:
    if member.kind in NUMBERS:
        return NUMBERS[member.kind][0]
    if member.kind == "progress":
        return f"Progress<{short(member.type)}>"
    if member.kind in ("event", "part"):
        return f"Consumer<{short(member.type)}>" if member.kind == "event" else short(member.type)
    named = {"text": "String", "texts": "List<String>", "numbers": "long[]", "bytes": "byte[]", "dtype": "Type"}
    return {**named, "log": "Log"}[member.kind]


def _read(member: Field, offsets: dict[str, int]) -> str:
    place = offsets[member.name]
    if member.kind == "text":
        return f"from.getString({place})" if member.length else f"Quern.string(from, {place})"
    if member.kind == "bytes":
        return f"Quern.bytes(from, {place}, {offsets[member.count]})"
    return f"from.get({NUMBERS[member.kind][1]}, {place})"


def _put(member: Field, offsets: dict[str, int]) -> str:
    """The method of Struct that puts a field to its place."""
    place = offsets[member.name]
    if member.kind == "text":
        length = f", {offsets[member.length]}" if member.length else ""
        return f'text("{lower(member.name)}", {place}{length}, value)'
    if member.kind == "texts":
        return f'texts("{lower(member.name)}", {place}, {offsets[member.count]}, value)'
    if member.kind == "numbers":
        return f"wides({place}, {offsets[member.count]}, value)"
    if member.kind == "progress":
        told = short(member.type)
        return f"progress({place}, value, {told}.BYTES, {told}::of)"
    if member.kind in KINDS:
        return f"{KINDS[member.kind][1]}({place}, value)"
    return f"{member.kind}({place}, value)"
