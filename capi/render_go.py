# What of bindings/go is made of quern.h: each op's arguments as a Go struct, and its calls; what calls that are no ops'
# fill, and are given.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterable

from header import Header, Struct
from records import FILLED, READ, Field, records, short
from render_cpp import camel
from render_rust import is_count, pointed_to

SCALARS = {
    "c_float": "float32",
    "c_double": "float64",
    **{f"c_{sign}int{bits}": f"{sign}int{bits}" for sign in ("", "u") for bits in (32, 64)},
}
POINTERS = {
    "POINTER(DLTensor)": "*Tensor",
    "POINTER(POINTER(DLTensor))": "[]*Tensor",
    "POINTER(c_float)": "[]float32",
    "POINTER(quern_expression)": "*Expression",
    "c_void_p": "unsafe.Pointer",
}
LEFT_OUT = ("size", "reserved", "workspace", "workspace_size")
# Of a context's options, which say its device as a Device.
DEVICE = {"device_type": "Device.Type", "device_id": "Device.ID"}
KEYWORDS = ("type", "range", "func", "map")


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
    for part in pointed_to(header, ops):
        name = camel(part.removeprefix("quern_"))
        lines += [*_type(name, part, structs[part]), ""]
        lines += [f"func (op *{name}) raw(held *holder) *C.{part} {{", "\tif op == nil {", "\t\treturn nil", "\t}"]
        lines += [f"\targs := (*C.{part})(held.allocate(C.sizeof_{part}))", f"\targs.size = C.sizeof_{part}"]
        lines += [*_sets(structs[part]), "\treturn args", "}"]
    for op in ops:
        args, name = f"quern_{op}_args", camel(op)
        lines += [*_type(name, f"quern_{op}", structs[args]), ""]
        lines += [f"func (op *{name}) args(held *holder) *C.{args} {{"]
        lines += [f"\targs := (*C.{args})(held.allocate(C.sizeof_{args}))", f"\targs.size = C.sizeof_{args}"]
        lines += [*_sets(structs[args]), "\treturn args", "}"]
        given = "context *C.quern_context, held *holder"
        lines += [
            "",
            f"func (op *{name}) run({given}, memory unsafe.Pointer, size uint64, failure *C.quern_error) C.int32_t {{",
            "\targs := op.args(held)",
            "\targs.workspace, args.workspace_size = memory, C.uint64_t(size)",
            f"\treturn C.quern_{op}(context, args, failure)",
            "}",
            "",
            f"func (op *{name}) prepare({given}, failure *C.quern_error) C.int32_t {{",
            f"\treturn C.quern_{op}_prepare(context, op.args(held), failure)",
            "}",
            "",
            f"func (op *{name}) workspace({given}, size *C.uint64_t, failure *C.quern_error) C.int32_t {{",
            f"\treturn C.quern_{op}_workspace(context, op.args(held), size, failure)",
            "}",
        ]
    return "\n".join([*lines, ""])


def records_file(header: Header) -> str:
    """bindings/go/quern/records.go."""
    lines = [
        "// What calls that are no ops' tell, and what they are given: the structs of quern.h, documented there. Made",
        "// of quern.h by ./dev generate.",
        "// SPDX-License-Identifier: Apache-2.0",
        "",
        "package quern",
        "",
        '// #include "callbacks.h"',
        'import "C"',
    ]
    for name, members in records(header, READ):
        lines += _type_of_fields(name, members)
        title = _title(name)
        lines += ["", f"func new{title}(from *C.{name}) {title} {{", f"\treturn {title}{{"]
        inside = aligned((f"{camel(member.name)}:", f"{_read(member)},") for member in members)
        lines += [*(f"\t{line}" for line in inside), "\t}", "}"]
    for name, members in records(header, FILLED):
        shown = _title(name)
        lines += _type_of_fields(name, members)
        lines += ["", f"func (o *{shown}) raw(held *holder) *C.{name} {{"]
        lines += [f"\tmade := (*C.{name})(held.allocate(C.sizeof_{name}))", f"\tmade.size = C.sizeof_{name}"]
        for member in members:
            lines += _put(member)
        lines += ["\treturn made", "}"]
    return "\n".join([*lines, ""])


def _title(name: str) -> str:
    """What a struct is called, the constants' names being taken."""
    return {"quern_context_options": "Options", "quern_fault": "IndexFault"}.get(name) or short(name)


def _go_type(member: Field) -> str:
    if member.kind in SCALARS:
        return SCALARS[member.kind]
    if member.kind in ("event", "progress"):
        told = short(member.type)
        return f"func({told})" if member.kind == "event" else f"func(done, total uint64, result {told}) (cancel bool)"
    if member.kind == "part":
        return f"*{short(member.type)}"
    named = {"text": "string", "texts": "[]string", "numbers": "[]int64", "bytes": "[]byte", "dtype": "DType"}
    return {**named, "log": "func(level int32, text string)"}[member.kind]


def _type_of_fields(name: str, members: list[Field]) -> list[str]:
    filled = name == "quern_context_options"
    shown = [(camel(each.name), _go_type(each)) for each in members if not (filled and each.name in DEVICE)]
    if filled:
        shown = [("Device", "Device"), *shown]
    title = _title(name)
    return ["", f"// {title} is {name}.", f"type {title} struct {{", *aligned(shown), "}"]


def _read(member: Field) -> str:
    place = f"from.{member.name}"
    if member.kind == "text":
        return f"C.GoString({f'&{place}[0]' if member.length else place})"
    if member.kind == "bytes":
        return f"bytesOf({place}, from.{member.count})"
    return f"{SCALARS[member.kind]}({place})"


def _put(member: Field) -> list[str]:
    """Statements that put a field of the Go struct `o` into the C struct `made`."""
    value, place = f"o.{DEVICE.get(member.name) or camel(member.name)}", f"made.{member.name}"
    if member.kind in SCALARS:
        kind = member.kind[2:] if member.kind in ("c_float", "c_double") else f"{member.kind[2:]}_t"
        return [f"\t{place} = C.{kind}({value})"]
    if member.kind == "text":
        lines = [f'\t{place} = held.text("{member.name}", {value})']
        return lines + ([f"\tmade.{member.length} = C.uint64_t(len({value}))"] if member.length else [])
    if member.kind in ("texts", "numbers"):
        held = f'held.texts("{member.name}", {value})' if member.kind == "texts" else f"held.numbers({value})"
        return [f"\t{place}, made.{member.count} = {held}, C.uint64_t(len({value}))"]
    if member.kind == "dtype":
        return [f"\t{place} = {value}.raw()"]
    if member.kind == "part":
        set_to = [f"{place} = {value}.raw(held)"]
    elif member.kind == "progress":
        told = short(member.type)
        set_to = [f"{place} = C.{member.type.removesuffix('_result')}_callback(C.quernGo{told})"]
        set_to += [f"made.{member.user} = progressOf(held, {value})"]
    else:
        set_to = [f"{place} = C.quern_{member.kind}_callback(C.quernGo{member.kind.capitalize()})"]
        set_to += [f"made.{member.user} = held.handle({value})"]
    return [f"\tif {value} != nil {{", *(f"\t\t{line}" for line in set_to), "\t}"]


def _fields(struct: Struct) -> list[tuple[str, str]]:
    return [(name, kind) for name, kind in struct.fields if name not in LEFT_OUT and not is_count(name, struct)]


def _type(name: str, c_name: str, struct: Struct) -> list[str]:
    fields = aligned((camel(field), type_of(kind)) for field, kind in _fields(struct))
    return ["", f"// {name} is {c_name}.", f"type {name} struct {{", *fields, "}"]


def _sets(struct: Struct) -> list[str]:
    """Statements that put the Go struct `op` into the C struct `args`."""
    lines = []
    for name, kind in _fields(struct):
        value, member = f"op.{camel(name)}", f"_{name}" if name in KEYWORDS else name
        if kind in SCALARS:
            value = f"C.{kind[2:]}{'' if kind in ('c_float', 'c_double') else '_t'}({value})"
        elif kind in ("POINTER(DLTensor)", "POINTER(quern_expression)"):
            value = f"{value}.raw()"
        elif kind in ("POINTER(POINTER(DLTensor))", "POINTER(c_float)"):
            lines.append(f"\targs.{name[:-1]}_count = C.uint32_t(len({value}))")
            value = f"held.{'floats' if kind == 'POINTER(c_float)' else 'tensors'}({value})"
        elif kind != "c_void_p":
            value = f"{value}.raw(held)"
        lines.append(f"\targs.{member} = {value}")
    return lines


def aligned(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """Lines as gofmt lays them out."""
    pairs = list(pairs)
    width = max(len(name) for name, _ in pairs)
    return [f"\t{name:{width}} {rest}" for name, rest in pairs]


def constant(name: str) -> str:
    return camel(name.removeprefix("QUERN_").lower())


def type_of(kind: str) -> str:
    return SCALARS.get(kind) or POINTERS.get(kind) or "*" + camel(kind[len("POINTER(quern_") : -1])
