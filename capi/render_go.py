# What of bindings/go is made of quern.h: each op's arguments as a Go struct, and its calls.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterable

from header import Header, Struct
from render_cpp import camel

SCALARS = {
    "c_float": "float32",
    "c_double": "float64",
    **{f"c_{sign}int{bits}": f"{sign}int{bits}" for sign in ("", "u") for bits in (32, 64)},
}
LEFT_OUT = ("size", "reserved", "workspace", "workspace_size")


def ops_file(header: Header, ops: list[str]) -> str:
    """bindings/go/quern/ops.go."""
    structs = {name: kind for name, kind in header.types if isinstance(kind, Struct)}
    lines = [
        "// The ops: each a struct of its arguments, which are the fields of quern_OP_args in quern.h, documented",
        "// there. Made of quern.h by ./dev generate.",
        "// SPDX-License-Identifier: Apache-2.0",
        "",
        "package quern",
        "",
        "// #include <quern.h>",
        'import "C"',
        "",
        'import "unsafe"',
        "",
        "// The numbers of quern.h, but for those that Status and the like name.",
        "const (",
    ]
    numbers = {constant(name): value for name, value in header.constants.items() if name.startswith("QUERN_")}
    lines += [*aligned((name, f"= {value}") for name, value in numbers.items()), ")"]
    for op in ops:
        fields = [(name, kind) for name, kind in structs[f"quern_{op}_args"].fields if name not in LEFT_OUT]
        lines += ["", f"// {camel(op)} is quern_{op}.", f"type {camel(op)} struct {{"]
        lines += aligned((camel(name), type_of(kind)) for name, kind in fields)
        lines += ["}", "", f"func (op *{camel(op)}) args() C.quern_{op}_args {{", f"\tvar args C.quern_{op}_args"]
        lines.append("\targs.size = C.uint32_t(unsafe.Sizeof(args))")
        for name, kind in fields:
            member = f"_{name}" if name in ("type", "range", "func", "map") else name
            lines.append(f"\targs.{member} = {given(f'op.{camel(name)}', kind)}")
        lines += [
            "\treturn args",
            "}",
            "",
            f"func (op *{camel(op)}) run(context *C.quern_context, memory unsafe.Pointer, size uint64, "
            "failure *C.quern_error) C.int32_t {",
            "\targs := op.args()",
            "\targs.workspace, args.workspace_size = memory, C.uint64_t(size)",
            f"\treturn C.quern_{op}(context, &args, failure)",
            "}",
            "",
            f"func (op *{camel(op)}) prepare(context *C.quern_context, failure *C.quern_error) C.int32_t {{",
            "\targs := op.args()",
            f"\treturn C.quern_{op}_prepare(context, &args, failure)",
            "}",
            "",
            f"func (op *{camel(op)}) workspace(context *C.quern_context, size *C.uint64_t, "
            "failure *C.quern_error) C.int32_t {",
            "\targs := op.args()",
            f"\treturn C.quern_{op}_workspace(context, &args, size, failure)",
            "}",
        ]
    return "\n".join([*lines, ""])


def aligned(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """Lines as gofmt lays them out."""
    pairs = list(pairs)
    width = max(len(name) for name, _ in pairs)
    return [f"\t{name:{width}} {rest}" for name, rest in pairs]


def constant(name: str) -> str:
    return camel(name.removeprefix("QUERN_").lower())


def type_of(kind: str) -> str:
    return "*Tensor" if kind == "POINTER(DLTensor)" else SCALARS.get(kind, "unsafe.Pointer")


def given(value: str, kind: str) -> str:
    if kind == "POINTER(DLTensor)":
        return f"{value}.raw()"
    if kind in SCALARS:
        return f"C.{kind[2:]}{'' if kind in ('c_float', 'c_double') else '_t'}({value})"
    return value if kind == "c_void_p" else f"({c_type(kind)})({value})"


def c_type(kind: str) -> str:
    """A pointer's type in cgo."""
    stars = 0
    while kind.startswith("POINTER("):
        kind, stars = kind[len("POINTER(") : -1], stars + 1
    return "*" * stars + "C." + {"c_float": "float"}.get(kind, kind)
