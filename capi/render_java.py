# What of bindings/java is made of quern.h: Ops.java, each op as a class whose methods put its arguments to their
# places.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from header import Header, Struct
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
LAID_OUT = ("DLTensor", "quern_error", "quern_context_options")
Layout = dict[str, tuple[int, dict[str, int]]]


def lower(name: str) -> str:
    """max_kv_len is maxKvLen."""
    made = camel(name)
    return made[0].lower() + made[1:]


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
