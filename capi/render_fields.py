# sources/repeat/fields.inc: what a call of an op is made of, field by field, for what looks at calls of all ops alike.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from header import Header, HeaderError, Struct
from render_rust import pointed_to

MOST_LISTED = 16  # of any list, as signature.h has it
# Of each list, by the name of its count: longer ones are refused unread, so nobody reads them.
MOST = {"operand_count": 8, "scalar_count": 8, "input_count": 16, "output_count": 16}
PLAIN = ("c_int32", "c_uint32", "c_int64", "c_uint64", "c_float", "c_double")


def fields_header(header: Header, ops: list[str]) -> str:
    """each_field() of every op's args and of the structs that they point to."""
    structs = {name: kind for name, kind in header.types if isinstance(kind, Struct)}
    parts = list(dict.fromkeys(pointed_to(header, ops)))
    lines = [
        "// Every field of every op's args: plain numbers by the bytes that they take up together, the others by kind.",
        "// Made of quern.h by ./dev generate; included by sources/repeat/fields.h.",
        "// SPDX-License-Identifier: Apache-2.0",
    ]
    lines.append(f"inline constexpr std::size_t kMostTensorsOfACall = {_most_tensors(structs, ops)};")
    for name in [*parts, *(f"quern_{op}_args" for op in ops)]:
        lines += [
            "template <class Args, class Visit>",
            f"  requires std::is_same_v<std::remove_const_t<Args>, {name}>",
            "void each_field(Args& args, Visit& visit) {",
            *(f"  {line}" for line in _visits(name, structs[name], parts)),
            "}",
        ]
    return "\n".join(lines) + "\n"


def _most_tensors(structs: dict[str, Struct], ops: list[str]) -> int:
    """How many tensors the op with the most has: MOST_LISTED in each list, those of what its args point to, and its
    workspace."""

    def tensors(name: str) -> int:
        count = 0
        for field, kind in structs[name].fields:
            pointed = kind[len("POINTER(") : -1] if kind.startswith("POINTER(") else ""
            if pointed == "DLTensor" or field == "workspace":
                count += 1
            elif pointed == "POINTER(DLTensor)":
                count += MOST_LISTED
            elif pointed in structs and structs[pointed].fields:
                count += tensors(pointed)
        return count

    return max(tensors(f"quern_{op}_args") for op in ops)


def _count_of(name: str, field: str) -> str:
    """How many a list has, and how many it may have."""
    count = f"{field[:-1]}_count"
    if count not in MOST:
        raise HeaderError(f"{name}.{count} counts a list of which nobody knows how long it may be")
    return f"{count}, {MOST[count]}"


def _visits(name: str, struct: Struct, parts: list[str]) -> list[str]:
    lines: list[str] = []
    run: list[str] = []

    def end_run() -> None:
        if run:
            first, last = run[0], run[-1]
            lines.append(f"QUERN_PLAIN({name}, {first}, {last});")
            run.clear()

    for field, kind in struct.fields:
        if field == "size":
            continue
        if kind in PLAIN:
            run.append(field)
            continue
        end_run()
        pointed = kind[len("POINTER(") : -1] if kind.startswith("POINTER(") else ""
        if kind == "c_void_p" and field == "stream":
            lines.append("visit.stream(args.stream);")
        elif kind == "c_void_p" and field == "workspace":
            lines.append("visit.workspace(args.workspace, args.workspace_size);")
        elif pointed == "DLTensor":
            lines.append(f"visit.tensor(args.{field});")
        elif pointed == "POINTER(DLTensor)":
            lines.append(f"visit.tensors(args.{field}, args.{_count_of(name, field)});")
        elif pointed == "c_float":
            lines.append(f"visit.floats(args.{field}, args.{_count_of(name, field)});")
        elif pointed == "quern_expression":
            lines.append(f"visit.handle(args.{field});")
        elif pointed in parts:
            lines.append(f"visit.part(args.{field});")
        else:
            raise HeaderError(f"{name}.{field} is {kind}, of which nobody knows how to tell whether two are alike")
    end_run()
    return lines
