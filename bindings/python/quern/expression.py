# Pointwise expressions: formulas that a kernel applies to each of its results.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ctypes
from typing import Any

from . import _abi, structs
from .errors import InvalidError
from .library import call
from .opened import Opened


class Expression:
    """A formula, checked; made by Context.expression, alive as long as its context."""

    __slots__ = ("text", "address", "_context", "_handle")

    def __init__(self, context: Opened, text: str) -> None:
        handle = ctypes.POINTER(_abi.quern_expression)()
        encoded = structs.encode(text, "expression")
        call("quern_expression_create", context._open(), encoded, ctypes.byref(handle))
        self.text, self._context, self._handle = text, context, handle
        self.address = ctypes.cast(handle, ctypes.c_void_p).value or 0

    def __repr__(self) -> str:
        return f"quern.Expression({self.text!r})"


def handle_of(expression: Any, context: Any) -> Any:
    """The handle of an Expression of this context, or of a formula's text."""
    if isinstance(expression, str):
        known = vars(context).setdefault("_expressions", {})  # a text is read once
        if expression not in known:
            known[expression] = Expression(context, expression)
        expression = known[expression]
    if not isinstance(expression, Expression):
        raise InvalidError(f"expression: {expression!r} given; allowed are a formula's text and a quern.Expression")
    if expression._context is not context:
        raise InvalidError("expression: was made by another context")
    return expression._handle
