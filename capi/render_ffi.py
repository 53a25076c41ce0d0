# quern.ffi.h: quern.h's declarations for those who read C without a preprocessor, which are cffi, LuaJIT and PHP.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
import textwrap

from header import Header

NOTE = """/* quern.h without directives and prose, for FFIs that read declarations alone: cffi, LuaJIT, PHP. Numbers
 * that are macros there are an enum here. Made of quern.h, which has the documentation, by ./dev generate.
 * SPDX-License-Identifier: Apache-2.0 */
"""


def ffi_header(plain: str, header: Header) -> str:
    """bindings/ffi/quern.ffi.h. `plain`: quern.h's text without comments, directives and what only C++ sees."""
    enumerators = {name for enum in header.enums for name in enum.values}
    macros = [f"  {name} = {value}" for name, value in header.constants.items() if name not in enumerators]
    parts = ["enum quern_constants {\n" + ",\n".join(macros) + "\n};"]
    # A declaration ends at a semicolon outside of braces.
    depth, start = 0, 0
    for place, sign in enumerate(plain):
        depth += (sign == "{") - (sign == "}")
        if sign == ";" and depth == 0:
            parts.append(_tidy(plain[start : place + 1], header))
            start = place + 1
    return NOTE + "\n".join(parts) + "\n"


def _tidy(declaration: str, header: Header) -> str:
    text = re.sub(r"\s+", " ", declaration).strip()
    if text.startswith("enum"):
        # Values as plain numbers: not every reader of C shifts.
        head, body = text.split("{", 1)
        names = re.findall(r"(\w+)(?: =[^,}]*)?[,}]", body)
        return head + "{\n" + ",\n".join(f"  {name} = {header.constants[name]}" for name in names) + "\n};"
    if text.startswith("typedef struct") and "{" in text:
        head, body = text.split("{", 1)
        fields, name = body.rsplit("}", 1)
        return head + "{\n" + "".join(f"  {one.strip()};\n" for one in fields.split(";") if one.strip()) + "}" + name
    return "\n    ".join(textwrap.wrap(text, 110, break_long_words=False, break_on_hyphens=False))
