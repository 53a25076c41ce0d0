# Writes quern/_abi.py: the structs, enums, callbacks and functions of quern.h as ctypes knows them, and what
# sources/ops.def says of each op.
# SPDX-License-Identifier: Apache-2.0
"""usage: generate_abi.py HEADER OUTPUT [OPS]"""

from __future__ import annotations

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "capi"))
from header import Function, Header, HeaderError, Parser, Struct, read_ops  # noqa: E402


def flags_of(struct: Struct) -> list[str]:
    """The enums that the comment beside a struct's flags names."""
    beside = re.search(r"\bflags;\s*/\*((?:(?!\*/).)*)\*/", struct.text, re.S)
    return re.findall(r"enum (\w+_flags)", beside[1]) if beside else []


def enum_fields(struct: Struct, enums: set[str | None]) -> dict[str, str]:
    """The integer fields that the comment beside them says hold an enum: name to enum."""
    beside = re.findall(r"\bint32_t (\w+);\s*/\*(?:(?!\*/).)*?\benum (\w+)", struct.text, re.S)
    return {name: enum for name, enum in beside if enum in enums}


def write(header: Header, outputs: dict[str, list[str]]) -> str:
    """The text of _abi.py."""
    lines = [
        "# The C ABI as ctypes knows it. Generated from quern.h by generate_abi.py: do not edit.",
        "# SPDX-License-Identifier: Apache-2.0",
        "from ctypes import *",
        "from enum import IntEnum, IntFlag",
        "from typing import Any, NamedTuple",
        "",
    ]
    lines += [f"{name} = {value}" for name, value in header.constants.items()]
    for enum in header.enums:
        if enum.name:
            base = "IntFlag" if enum.name.endswith("_flags") else "IntEnum"
            lines += ["", "", f"class {enum.name}({base}):"]
            lines += [f"    {name} = {value}" for name, value in enum.values.items()]
    for name, kind in header.types:
        if isinstance(kind, Function):
            lines += ["", "", f"{name} = CFUNCTYPE({', '.join([kind.result, *kind.parameters])})"]
        else:
            lines += ["", "", f"class {name}(Structure):"]
            if kind.fields:
                lines += ["    _fields_ = ["]
                lines += [f'        ("{member}", {member_kind}),' for member, member_kind in kind.fields]
                lines += ["    ]"]
            else:
                lines += ["    pass"]
    lines += ["", "", "# name: (result, parameters)", "FUNCTIONS: dict[str, Any] = {"]
    for name, function in header.functions.items():
        lines += [f'    "{name}": ({function.result}, [{", ".join(function.parameters)}]),']
    lines += ["}"]
    enums = {enum.name for enum in header.enums}
    structs = {name: kind for name, kind in header.types if isinstance(kind, Struct) and kind.fields}
    lines += ["", "", "# The flags of a struct, where the header names them.", "FLAGS: dict[Any, Any] = {"]
    for name, struct in structs.items():
        if flags := flags_of(struct):
            lines += [f"    {name}: ({', '.join(flags)},),"]
    lines += ["}", "# The enum that an integer field holds.", "FIELD_ENUMS: dict[Any, dict[str, Any]] = {"]
    for name, struct in structs.items():
        if held := enum_fields(struct, enums):
            lines += [f"    {name}: {{{', '.join(f'{member!r}: {enum}' for member, enum in held.items())}}},"]
    lines += ["}"]
    lines += ["", "", "class Op(NamedTuple):"]
    lines += [
        "    args: Any  # its args struct",
        "    flags: type | None  # its own flags",
        "    text: str  # its declaration",
    ]
    lines += ["", "", "OPS = {"]
    for name, struct in structs.items():
        if op := re.fullmatch(r"quern_(\w+)_args", name):
            missing = {f"quern_{op[1]}{call}" for call in ("", "_workspace", "_prepare")} - header.functions.keys()
            if missing:
                raise HeaderError(f"{name} is there without {', '.join(sorted(missing))}")
            # Not by the op's name: quern_rope_flags are those of quern_rope_options.
            flags = next((enum for enum in flags_of(struct) if enum != "quern_call_flags"), None)
            lines += [f'    "{op[1]}": Op({name}, {flags}, {struct.text!r}),']
    lines += ["}", "", "# The tensors that each op writes.", "OUTPUTS: dict[str, frozenset[str]] = {"]
    lines += [f'    "{op}": frozenset({{{", ".join(map(repr, names))}}}),' for op, names in outputs.items()]
    lines += ["}", ""]
    return "\n".join(lines)


def main() -> None:
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    source, target = Path(sys.argv[1]), Path(sys.argv[2])
    outputs = read_ops(Path(sys.argv[3]).read_text(encoding="utf-8")) if len(sys.argv) == 4 else {}
    try:
        text = write(Parser(source.read_text(encoding="utf-8")).parse(), outputs)
    except HeaderError as error:
        sys.exit(f"{source}: {error}")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
