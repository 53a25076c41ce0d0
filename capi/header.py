# Reads capi/quern.h: its structs, enums, callbacks and functions, the types as ctypes names them.
# The header is a small, regular part of C99; anything else in it is an error here, never skipped.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
from dataclasses import dataclass, field

SCALARS = {
    "void": "None",
    "char": "c_char",
    "float": "c_float",
    "double": "c_double",
    "size_t": "c_size_t",
    **{f"{sign}int{bits}_t": f"c_{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}

TOKEN = re.compile(
    r"\s+|(?P<word>[A-Za-z_]\w*)|(?P<number>0[xX][0-9a-fA-F]+|\d+)(?:[uU]?[lL]{0,2})|(?P<sign><<|.)", re.S
)


# Conditions whose text is not for Python: what C++ sees alone, and what quern takes nowhere.
_HIDDEN = ("#ifdef __cplusplus", "#ifndef QUERN_DLPACK_TENSOR_ONLY")


class HeaderError(Exception):
    """Something in the header that this parser does not read."""


class Kind(str):
    """A type as ctypes names it. read_only: a pointer to what is const."""

    read_only = False


@dataclass
class Enum:
    name: str | None
    values: dict[str, int]


@dataclass
class Struct:
    name: str
    fields: list[tuple[str, str]]  # name, ctypes expression; none: opaque
    text: str = ""  # as it stands in the header, the comment above included


@dataclass
class Function:
    result: str
    parameters: list[str]


@dataclass
class Header:
    constants: dict[str, int] = field(default_factory=dict)  # every #define and enumerator
    enums: list[Enum] = field(default_factory=list)
    types: list[tuple[str, Struct | Function]] = field(default_factory=list)  # in order; a Function is a callback
    functions: dict[str, Function] = field(default_factory=dict)


class Parser:
    """Recursive descent over the header's tokens."""

    def __init__(self, text: str) -> None:
        self.original = text
        self.header = Header()
        self.known = dict(SCALARS)
        self.callbacks: set[str] = set()
        # The declarations alone, each where it was.
        self.plain = self._preprocess(re.sub(r"/\*.*?\*/", self._blank, text, flags=re.S))
        self.tokens: list[tuple[str, int]] = []
        for match in TOKEN.finditer(self.plain):
            token = match.group("word") or match.group("number") or match.group("sign")
            if token:
                self.tokens.append((token, match.start()))
        self.at = 0

    @staticmethod
    def _blank(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match.group())

    def _preprocess(self, text: str) -> str:
        """Takes the #defines with a number and blanks what only C++ sees. Offsets stay as they were."""
        lines, hidden = text.split("\n"), []
        for number, line in enumerate(lines):
            directive = line.strip()
            if directive.startswith("#"):
                if directive.startswith("#if"):
                    hidden.append(directive.startswith(_HIDDEN))
                elif directive == "#endif":
                    hidden.pop()
                elif any(hidden):
                    pass
                elif define := re.fullmatch(r"#define (\w+)(?: (\d+))?", directive):
                    if define.group(2):
                        self.header.constants[define.group(1)] = int(define.group(2))
                elif not directive.startswith("#include"):
                    raise HeaderError(f"line {number + 1}: '{directive}' is not understood")
                lines[number] = " " * len(line)
            elif any(hidden):
                lines[number] = " " * len(line)
        return "\n".join(lines)

    # ---- tokens

    def peek(self, ahead: int = 0) -> str:
        position = self.at + ahead
        return self.tokens[position][0] if position < len(self.tokens) else ""

    def take(self, expected: str | None = None) -> str:
        token = self.peek()
        if not token or (expected is not None and token != expected):
            raise self.error(f"'{expected or 'more'}' expected, '{token}' found")
        self.at += 1
        return token

    def accept(self, token: str) -> bool:
        if self.peek() != token:
            return False
        self.at += 1
        return True

    def error(self, text: str) -> HeaderError:
        offset = self.tokens[min(self.at, len(self.tokens) - 1)][1]
        return HeaderError(f"line {self.original.count(chr(10), 0, offset) + 1}: {text}")

    # ---- declarations

    def parse(self) -> Header:
        while self.peek():
            start = self.at
            if self.accept("typedef"):
                self.typedef(start)
            elif self.peek() == "enum" and "{" in (self.peek(1), self.peek(2)):
                self.enumeration()
            else:
                self.prototype()
        return self.header

    def typedef(self, start: int) -> None:
        if self.peek() != "struct":
            self.callback()
            return
        self.take("struct")
        tag = "" if self.peek() == "{" else self.take()
        if self.peek() == "{":
            fields = self.fields()
            name = self.take()
        else:
            fields, name = [], self.take()
        self.take(";")
        if tag and tag != name:
            raise self.error(f"struct {tag} has another name, {name}, as a type")
        self.known[name] = name
        self.header.types.append((name, Struct(name, fields, self.text_from(start))))

    def text_from(self, start: int) -> str:
        """The declaration that began at token `start`, and the comment that ends on the line above it."""
        begin, end = self.tokens[start][1], self.tokens[self.at - 1][1] + 1
        if above := re.search(r"/\*(?:(?!\*/).)*\*/\n\Z", self.original[:begin], re.S):
            begin = above.start()
        return self.original[begin:end]

    def fields(self) -> list[tuple[str, str]]:
        fields: list[tuple[str, str]] = []
        self.take("{")
        while not self.accept("}"):
            base, const = self.base()
            while True:
                kind = self.pointers(base, const)
                name = self.take()
                if self.accept("["):
                    kind = f"{kind} * {int(self.take(), 0)}"
                    self.take("]")
                fields.append((name, kind))
                if not self.accept(","):
                    break
            self.take(";")
        return fields

    def callback(self) -> None:
        base, const = self.base()
        result = self.pointers(base, const)
        self.take("(")
        self.take("*")
        name = self.take()
        self.take(")")
        parameters = self.parameters()
        self.take(";")
        self.known[name] = name
        self.callbacks.add(name)
        self.header.types.append((name, Function(result, parameters)))

    def prototype(self) -> None:
        base, const = self.base()
        result = self.pointers(base, const)
        name = self.take()
        self.header.functions[name] = Function(result, self.parameters())
        self.take(";")

    def parameters(self) -> list[str]:
        self.take("(")
        if self.peek() == "void" and self.peek(1) == ")":
            self.take()
        kinds: list[str] = []
        while not self.accept(")"):
            if kinds:
                self.take(",")
            base, const = self.base()
            kinds.append(self.pointers(base, const))
            self.take()
        return kinds

    def enumeration(self) -> None:
        self.take("enum")
        name = None if self.peek() == "{" else self.take()
        self.take("{")
        values: dict[str, int] = {}
        following = 0
        while not self.accept("}"):
            enumerator = self.take()
            if self.accept("="):
                following = self.expression()
            values[enumerator] = self.header.constants[enumerator] = following
            following += 1
            if not self.accept(","):
                self.take("}")
                break
        self.take(";")
        self.header.enums.append(Enum(name, values))

    def expression(self) -> int:
        """A number, or numbers shifted or or-ed together from left to right."""
        value = self.operand()
        while self.peek() in ("<<", "|"):
            value = value << self.operand() if self.take() == "<<" else value | self.operand()
        return value

    def operand(self) -> int:
        token = self.take()
        if token in self.header.constants:
            return self.header.constants[token]
        if not token[0].isdigit():
            raise self.error(f"'{token}' is no number")
        return int(token, 0)

    # ---- types

    def base(self) -> tuple[str, bool]:
        const = self.accept("const")
        self.accept("struct")
        name = self.take()
        if name not in self.known:
            self.at -= 1
            raise self.error(f"'{name}' is no type that has been declared")
        return name, const or self.accept("const")

    def pointers(self, base: str, const: bool) -> str:
        kind = "" if self.peek() == "*" else self.known[base]
        while self.accept("*"):
            if not kind and base == "void":
                kind = "c_void_p"
            elif not kind and base == "char" and const:
                kind = "c_char_p"
            else:
                kind = f"POINTER({kind or self.known[base]})"
            self.accept("const")
        named = Kind(kind)
        named.read_only = const
        return named


OP = re.compile(r"^QUERN_OP\((\w+)((?:, \w+)*)\)$", re.M)


def read_ops(text: str) -> dict[str, list[str]]:
    """The ops of sources/ops.def in their order, each with the tensors that it writes."""
    return {name: outputs.replace(",", " ").split() for name, outputs in OP.findall(text)}
