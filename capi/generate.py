# Brings up to date what is made of sources/ops.def and quern.h and kept in the repository: the prototypes of the ops in
# quern.h, the lists that pin the C ABI (tests/abi), and the ops that the shells complete. With --check it changes
# nothing and fails where something is out of date.
# SPDX-License-Identifier: Apache-2.0
"""usage: generate.py [--check]"""

from __future__ import annotations

import ctypes
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "capi"), str(ROOT / "bindings" / "python")]
from generate_abi import write as write_ctypes  # noqa: E402
from header import Header, HeaderError, Parser, Struct, read_ops  # noqa: E402
from records import FILLED, READ, records  # noqa: E402
from render_cpp import ops_header, records_header  # noqa: E402
from render_csharp import csharp_ops, csharp_records  # noqa: E402
from render_described import record_table, table  # noqa: E402
from render_ffi import ffi_header  # noqa: E402
from render_fields import fields_header  # noqa: E402
from render_go import ops_file, records_file  # noqa: E402
from render_java import java_ops, java_records  # noqa: E402
from render_rust import ops_module, records_module, sys_crate  # noqa: E402
from render_zig import c_module  # noqa: E402

HEADER = ROOT / "capi" / "quern.h"
ABI = ROOT / "tests" / "abi"
EXPORTS = ROOT / "capi" / "exports.map"
# One version of the export map: its name, its names, and the version before it.
VERSION = re.compile(
    r"^(QUERN_[\d_]+) \{\n  global:\n((?:    \w+;\n)+)(?:  local:\n    \*;\n)?\}( QUERN_[\d_]+)?;\n", re.MULTILINE
)
BINDINGS = ROOT / "bindings"
COMPLETIONS = ROOT / "bindings" / "cli" / "completions"
BEGIN = "/* ---- The three calls of every op: made of sources/ops.def by ./dev generate, not edited by hand */\n"
COMBINES = "/* made of the enums that stand beside quern_call_flags, by ./dev generate */\n"
END = "/* ---- end of the ops' calls */\n"

# What the shells' files say before and after the ops, which "kernel" ends: it is no op of the library's.
LISTS = {
    "quern.bash": ('  local ops="', ' kernel"'),
    "quern.fish": ("set -l ops ", " kernel\n"),
    "_quern": ("  names=(", " kernel sm_80"),
}


def prototypes(ops: list[str]) -> str:
    """The section of quern.h that declares the ops' calls."""
    calls = []
    for op in ops:
        args = f"quern_context *context, const quern_{op}_args *args"
        calls.append(
            f"int32_t quern_{op}_workspace({args},\n    uint64_t *bytes, quern_error *error);\n"
            f"int32_t quern_{op}_prepare({args},\n    quern_error *error);\n"
            f"int32_t quern_{op}({args}, quern_error *error);\n"
        )
    return BEGIN + "\n".join(calls) + END


def combinations(text: str) -> str:
    """What C++ may combine: the flags of all calls with each enum that a comment in quern.h names beside them."""
    named = re.findall(r"enum quern_call_flags \| enum (quern_\w+_flags)", text)
    return "".join(f"QUERN_COMBINES({name})\n" for name in dict.fromkeys(named))


def structs(header: Header) -> list[tuple[str, Struct]]:
    """The structs that callers fill or read, in the header's order."""
    return [(name, kind) for name, kind in header.types if isinstance(kind, Struct) and kind.fields]


def layout_list(header: Header) -> str:
    """tests/abi/layout.def."""
    lines = [
        "// Every public struct and its fields, in order: QUERN_STRUCT(name) opens one, QUERN_FIELD(struct, field)",
        "// follows. Made of quern.h by ./dev generate.",
        "// SPDX-License-Identifier: Apache-2.0",
    ]
    for name, struct in structs(header):
        lines.append(f"QUERN_STRUCT({name})")
        lines += [f"QUERN_FIELD({name}, {member})" for member, _ in struct.fields]
    return "\n".join(lines) + "\n"


def places(header: Header) -> dict[str, tuple[int, dict[str, int]]]:
    """Of each struct its size and its fields' offsets, as ctypes lays them out."""
    made: dict[str, object] = {}
    exec(write_ctypes(header, {}), made)
    found = {}
    for name, struct in structs(header):
        kind = made[name]
        found[name] = ctypes.sizeof(kind), {member: getattr(kind, member).offset for member, _ in struct.fields}
    return found


def layout(header: Header) -> str:
    """tests/abi/layout.txt: sizes and offsets, as ctypes lays the structs out."""
    made: dict[str, object] = {}
    exec(write_ctypes(header, {}), made)
    lines = []
    for name, struct in structs(header):
        kind = made[name]
        lines.append(f"{name} {ctypes.sizeof(kind)}")
        for member, _ in struct.fields:
            place = getattr(kind, member)
            lines.append(f"  {place.offset} {place.size} {member}")
    return "\n".join(lines) + "\n"


def exports(text: str, functions: set[str]) -> str:
    """capi/exports.map: each name in the version that it came with, new ones in the last. A pattern would put what is
    added later into a version that programs linked before already ask for."""
    nodes = VERSION.findall(text)
    if not nodes:
        sys.exit(f"{EXPORTS}: holds no version of the form QUERN_1 {{ global: ... }};")
    known: set[str] = set()
    written = []
    for place, (version, names, before) in enumerate(nodes):
        own = set(re.findall(r"\w+", names)) & functions
        known |= own
        if place == len(nodes) - 1:
            own |= functions - known
        lines = "".join(f"    {name};\n" for name in sorted(own))
        local = "" if place else "  local:\n    *;\n"
        written.append(f"{version} {{\n  global:\n{lines}{local}}}{before};\n")
    return text[: text.index(nodes[0][0] + " {")] + "\n".join(written)


def between(text: str, before: str, after: str, inside: str, where: Path) -> str:
    """`text` with what stands between two marks replaced."""
    start = text.find(before)
    end = text.find(after, start + len(before))
    if start < 0 or end < 0:
        sys.exit(f"{where}: there is no {before!r} followed by {after!r}")
    return text[: start + len(before)] + inside + text[end:]


def wanted() -> dict[Path, str]:
    """Each file and what it should hold."""
    outputs = read_ops((ROOT / "sources" / "ops.def").read_text(encoding="utf-8"))
    ops = list(outputs)
    text = HEADER.read_text(encoding="utf-8")
    text = between(text, BEGIN, END, prototypes(ops)[len(BEGIN) : -len(END)], HEADER)
    text = between(text, COMBINES, "#undef QUERN_COMBINES\n", combinations(text), HEADER)
    parser = Parser(text)
    header = parser.parse()
    laid_out = places(header)
    files = {
        HEADER: text,
        ABI / "layout.def": layout_list(header),
        ABI / "layout.txt": layout(header),
        ROOT / "sources" / "repeat" / "fields.inc": fields_header(header, ops),
        EXPORTS: exports(EXPORTS.read_text(encoding="utf-8"), set(header.functions)),
        ABI / "symbols.txt": "".join(f"{name}\n" for name in sorted(header.functions)),
        BINDINGS / "cpp" / "quern_ops.hpp": ops_header(header, ops),
        BINDINGS / "cpp" / "quern_records.hpp": records_header(records(header, READ), records(header, FILLED)),
        BINDINGS / "ffi" / "quern.ffi.h": ffi_header(parser.plain, header),
        BINDINGS / "go" / "quern" / "ops.go": ops_file(header, ops),
        BINDINGS / "go" / "quern" / "records.go": records_file(header),
        BINDINGS / "described" / "ops.inc": table(header, ops),
        BINDINGS / "described" / "records.inc": record_table(header),
        BINDINGS / "csharp" / "Ops.cs": csharp_ops(header, ops, {name: size for name, (size, _) in laid_out.items()}),
        BINDINGS / "csharp" / "Records.cs": csharp_records(header, laid_out),
        BINDINGS / "java" / "quern" / "Ops.java": java_ops(header, ops, laid_out),
        BINDINGS / "java" / "quern" / "Records.java": java_records(header, laid_out),
        BINDINGS / "rust" / "quern-sys" / "src" / "lib.rs": sys_crate(header),
        BINDINGS / "rust" / "quern" / "src" / "ops.rs": ops_module(header, outputs),
        BINDINGS / "rust" / "quern" / "src" / "records.rs": records_module(
            records(header, READ), records(header, FILLED)
        ),
    }
    files[BINDINGS / "zig" / "c.zig"] = c_module(header, ops, {name: size for name, (size, _) in laid_out.items()})
    for name, (before, after) in LISTS.items():
        file = COMPLETIONS / name
        files[file] = between(file.read_text(encoding="utf-8"), before, after, " ".join(ops), file)
    return files


def main() -> None:
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(__doc__)
    check, stale = sys.argv[1:] == ["--check"], []
    try:
        files = wanted()
    except HeaderError as error:
        sys.exit(f"{HEADER}: {error}")
    for file, text in files.items():
        if file.exists() and file.read_text(encoding="utf-8") == text:
            continue
        stale.append(str(file.relative_to(ROOT)))
        if not check:
            file.write_text(text, encoding="utf-8")
    if check and stale:
        sys.exit(f"out of date: {', '.join(stale)}; ./dev generate writes them")
    for name in stale:
        print(f"wrote {name}")


if __name__ == "__main__":
    main()
