# ops.inc of bindings/node: where each of an op's arguments lies in its struct, and the constants.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from header import Header, Struct

KINDS = {
    "POINTER(DLTensor)": "kTensor",
    "POINTER(POINTER(DLTensor))": "kTensors",
    "c_int32": "kInt32",
    "c_uint32": "kUint32",
    "c_int64": "kInt64",
    "c_uint64": "kUint64",
    "c_float": "kFloat",
    "c_double": "kDouble",
}
LEFT_OUT = ("size", "reserved", "stream", "workspace", "workspace_size")


def table(header: Header, ops: list[str]) -> str:
    """bindings/node/ops.inc."""
    structs = {name: kind for name, kind in header.types if isinstance(kind, Struct)}
    lines = [
        "// The ops with their arguments, and the constants. Made of quern.h by ./dev generate; included by addon.cpp.",
        "// SPDX-License-Identifier: Apache-2.0",
        "#ifdef QUERN_OP",
    ]
    for op in ops:
        args = structs[f"quern_{op}_args"]
        lines.append(f"QUERN_OP({op})")
        for name, kind in args.fields:
            if name in LEFT_OUT or kind not in KINDS or _is_count(name, args):
                continue
            if KINDS[kind] == "kTensors":
                lines.append(f"QUERN_LIST({op}, {name}, {name[:-1]}_count)")
            else:
                lines.append(f"QUERN_FIELD({op}, {name}, {KINDS[kind]})")
        lines.append("QUERN_END()")
    lines += ["#endif", "#ifdef QUERN_CONSTANT"]
    lines += [f"QUERN_CONSTANT({name})" for name in header.constants]
    lines += ["#endif", ""]
    return "\n".join(lines)


def _is_count(name: str, args: Struct) -> bool:
    return name.endswith("_count") and name.removesuffix("_count") + "s" in dict(args.fields)
