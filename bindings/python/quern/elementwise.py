# Functions of elements, by their names, and expressions of one's own; making the outputs that are not given.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import dtypes
from .arrays import element, empty, extents_of
from .errors import InvalidError
from .ops import Ops
from .tensor import Tensor
from .views import parts_of

# {0}, {1}, ... are the operands. Numbers are f32.
_FORMULAS = {
    "abs": "abs({0})",
    "neg": "-{0}",
    "exp": "exp({0})",
    "exp2": "exp2({0})",
    "expm1": "expm1({0})",
    "log": "log({0})",
    "log2": "log2({0})",
    "log1p": "log1p({0})",
    "sqrt": "sqrt({0})",
    "rsqrt": "rsqrt({0})",
    "sin": "sin({0})",
    "cos": "cos({0})",
    "tanh": "tanh({0})",
    "erf": "erf({0})",
    "floor": "floor({0})",
    "ceil": "ceil({0})",
    "round": "round({0})",
    "trunc": "trunc({0})",
    "sigmoid": "sigmoid({0})",
    "relu": "relu({0})",
    "relu2": "relu({0})*relu({0})",
    "silu": "silu({0})",
    "swish": "silu({0})",
    "gelu": "gelu({0})",
    "gelu_tanh": "gelu_tanh({0})",
    "hardsigmoid": "clamp({0}+3,0,6)/6",
    "hardswish": "{0}*clamp({0}+3,0,6)/6",
    # log(1 + e^x) without overflow.
    "softplus": "max({0},0)+log1p(exp(-abs({0})))",
    "mish": "{0}*tanh(max({0},0)+log1p(exp(-abs({0}))))",
    "elu": "select({0}>0,{0},{1}*expm1(min({0},0)))",
    # NaN stays: it is neither above nor below.
    "hardshrink": "select({0}>=-{1}&&{0}<={1},0,{0})",
    "cast": "{0}",
    "clamp": "clamp({0},{1},{2})",
    "add": "{0}+{1}",
    "sub": "{0}-{1}",
    "mul": "{0}*{1}",
    "div": "{0}/{1}",
    "minimum": "min({0},{1})",
    "maximum": "max({0},{1})",
    "pow": "pow({0},{1})",
    "atan2": "atan2({0},{1})",
    "swiglu": "silu({0})*{1}",
    "geglu": "gelu({0})*{1}",
    "geglu_tanh": "gelu_tanh({0})*{1}",
    "where": "select({0}!=0,{1},{2})",
    "leaky_relu": "select({0}<0,{0}*{1},{0})",
    "modulate": "{0}*(1+{1})+{2}",
    "gated_residual": "{0}+{1}*{2}",
    "temperature": "{0}*(1+{2}*log(1+floor(({1}+1)/{3})))",
}
# Of these integers give integers.
_OF_INTEGERS = frozenset(("abs", "neg", "cast", "clamp", "add", "sub", "mul", "minimum", "maximum", "where", "relu"))
_RELU_OF_INTEGERS = "max({0},0)"
_INTEGERS = frozenset(("bool", "i8", "u8", "i16", "i32", "i64"))


def broadcast_shape(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """What arrays of these shapes are stretched to, by NumPy's rules."""
    if shapes and shapes.count(shapes[0]) == len(shapes):
        return shapes[0]
    rank = max(map(len, shapes), default=0)
    result = []
    for d in range(-rank, 0):
        extents = {shape[d] for shape in shapes if len(shape) >= -d} - {1}
        if len(extents) > 1:
            given = ", ".join(str(tuple(shape)) for shape in shapes)
            raise InvalidError(f"operands: shapes {given} given; dimension {d} must be the same, or 1, in all of them")
        result.append(extents.pop() if extents else 1)
    return tuple(result)


def _made_for(operands: list[Any], shape: Sequence[int] | None, like: Any, dtype: object | None) -> Any:
    """A result of pointwise: of a shape or of what the operands are broadcast to, of the first operand's framework or,
    where there is none, of `like`'s."""
    like = next((one for one in operands if one is not None), like)
    if like is None:
        raise InvalidError("out: must be given where there is no operand whose framework could allocate it")
    if shape is None:
        shape = broadcast_shape([extents_of(x, f"operands[{i}]") for i, x in enumerate(operands) if x is not None])
    return empty(shape, like, "out", dtype)


# Formulas by the function's name, which of its operands are arrays, a bit each, and whether integers are computed with.
_formulas: dict[tuple[str, int, bool], str] = {}


def _formula(name: str, are_arrays: int, whole: bool) -> str:
    leaves, counts = [], [0, 0]
    for i in range(8):
        is_array = are_arrays >> i & 1
        leaf = f"{('integer' if whole else 'tensor') if is_array else 'scalar'}{counts[is_array]}"
        leaves.append(f"int64({leaf})" if whole and not is_array else leaf)
        counts[is_array] += 1
    return (_RELU_OF_INTEGERS if whole and name == "relu" else _FORMULAS[name]).format(*leaves)


def _is_whole(name: str, arrays: Sequence[Any], scalars: Sequence[Any], dtype: object | None) -> bool:
    """Whether a function of these is computed in integers."""
    if name not in _OF_INTEGERS or any(element(one, name) not in _INTEGERS for one in arrays):
        return False
    if dtype is not None and dtypes.short_name(dtype) not in _INTEGERS:
        return False
    if not all(isinstance(value, int) for value in scalars):
        return False
    for value in scalars:
        if not -(2**24) <= value <= 2**24:
            raise InvalidError(f"{name}: {value} given; allowed beside integers are -2^24 to 2^24, or an array")
    return True


class Elementwise(Ops):
    """Mixed into Context. Operands are arrays, broadcast against each other as NumPy does; in their place, but for one,
    there may be numbers of Python's, which are run-time arguments in f32. Every function takes
      out      receives the result; may be an operand of its shape; None: allocated by the first array's framework
      dtype    of the out that is allocated; None: the first array's, but f32 where that is an integer or bool and the
               function is not one of integers (abs, neg, cast, clamp, add, sub, mul, minimum, maximum, where, relu)
    Integers are computed in 64 bits where all arrays are integers, else all in f32. Of what every op takes besides see
    Ops; alignment: None is found from the arrays."""

    def pointwise(  # type: ignore[override]
        self,
        expression: Any,
        operands: Sequence[Any] = (),
        *,
        scalars: Sequence[float] | None = None,
        out: Any = None,
        dtype: object | None = None,
        shape: Sequence[int] | None = None,
        **launch: Any,
    ) -> Any:
        """out = expression of the operands, element by element; returns out. A list of up to four expressions gives a
        tuple of as many results.

        expression  a quern.Expression or a formula's text: tensorN is operand N as numbers, integerN as integers,
                    scalarN scalar N, indexN the place along dimension N, place its number
        operands    up to 8 arrays, broadcast to the result's shape
        scalars     up to 8 numbers
        out, dtype  of the results: one, or a list with as many as there are expressions
        shape       of the results; None: what the operands are broadcast to"""
        if not isinstance(expression, (list, tuple)):
            return self._point(expression, list(operands), scalars, out, dtype, shape, launch)
        formulas = list(expression)
        outs = list(out) if out is not None else [None] * len(formulas)
        types = list(dtype) if isinstance(dtype, (list, tuple)) else [dtype] * len(formulas)
        if not 1 <= len(formulas) <= 4 or len(outs) != len(formulas) or len(types) != len(formulas):
            raise InvalidError(
                f"expression: {len(formulas)} given with {len(outs)} outs and {len(types)} dtypes; allowed are 1 to 4 "
                "and as many of the others"
            )
        operands = list(operands)
        like = next((one for one in outs if one is not None), None)
        for i, one in enumerate(outs):
            if one is None:
                outs[i] = _made_for(operands, shape, like, types[i])
        names = ("", "1", "2", "3")
        given: dict[str, Any] = {f"out{names[i]}": one for i, one in enumerate(outs)}
        given |= {f"expression{names[i]}": one for i, one in enumerate(formulas)}
        launch.setdefault("alignment", "found")
        self.call("pointwise", launch | given, operands=operands or None, scalars=scalars)
        return tuple(outs)

    def _point(
        self, formula: Any, operands: list[Any], scalars: Any, out: Any, dtype: Any, shape: Any, launch: dict[str, Any]
    ) -> Any:
        """`pointwise` of one expression."""
        if out is None:
            out = _made_for(operands, shape, None, dtype)
        launch.setdefault("alignment", "found")
        self.call("pointwise", launch, operands=operands or None, scalars=scalars, out=out, expression=formula)
        return out

    def _apply(self, name: str, values: Sequence[Any], out: Any, dtype: object | None, launch: dict[str, Any]) -> Any:
        arrays: list[Any] = []
        shapes: list[tuple[int, ...]] = []
        scalars: list[Any] = []
        are_arrays = 0
        for i, value in enumerate(values):
            shape = getattr(value.array if isinstance(value, Tensor) else value, "shape", None)
            if shape is None:
                scalars.append(value)
                continue
            arrays.append(value)
            shapes.append(shape if type(shape) is tuple else tuple(shape))
            are_arrays |= 1 << i
        if not arrays:
            raise InvalidError(f"{name}: {values[0]!r} given; allowed is an array, or one among the others")
        kind = element(arrays[0], name)
        whole = kind in _INTEGERS and _is_whole(name, arrays, scalars, dtype)
        if out is None:
            if dtype is None:
                if name == "where" and len(arrays) > 1:
                    kind = element(arrays[1], name)
                dtype = kind if whole or kind not in _INTEGERS else "f32"
            out = empty(broadcast_shape(shapes), arrays[0], "out", dtype)
        formula = _formulas.get((name, are_arrays, whole))
        if formula is None:
            formula = _formulas[name, are_arrays, whole] = _formula(name, are_arrays, whole)
        launch.setdefault("alignment", "found")
        numbers = [float(value) for value in scalars] if scalars else None
        self.call("pointwise", launch, operands=arrays, scalars=numbers, out=out, expression=formula)
        return out

    def elu(self, x: Any, alpha: float = 1.0, *, out: Any = None, dtype: object | None = None, **launch: Any) -> Any:
        """x above 0, else alpha (e^x - 1)."""
        return self._apply("elu", (x, alpha), out, dtype, launch)

    def leaky_relu(
        self, x: Any, slope: float = 0.01, *, out: Any = None, dtype: object | None = None, **launch: Any
    ) -> Any:
        """x, below 0 times slope."""
        return self._apply("leaky_relu", (x, slope), out, dtype, launch)

    def hardshrink(
        self, x: Any, lam: float = 0.5, *, out: Any = None, dtype: object | None = None, **launch: Any
    ) -> Any:
        """0 from -lam to lam, else x."""
        return self._apply("hardshrink", (x, lam), out, dtype, launch)

    def cast(self, x: Any, dtype: object, *, out: Any = None, **launch: Any) -> Any:
        """x in another element type: rounded to nearest even, cut towards 0 for integers; integers and 8-bit
        floating point saturate."""
        return self._apply("cast", (x,), out, dtype, launch)

    def clamp(self, x: Any, low: Any, high: Any, *, out: Any = None, dtype: object | None = None, **launch: Any) -> Any:
        """min(max(x, low), high); a NaN stays."""
        return self._apply("clamp", (x, low, high), out, dtype, launch)

    def where(
        self, condition: Any, x: Any, y: Any, *, out: Any = None, dtype: object | None = None, **launch: Any
    ) -> Any:
        """x where the condition is not 0, else y. The result's element type is x's, or y's where x is a number."""
        return self._apply("where", (condition, x, y), out, dtype, launch)

    def modulate(
        self, x: Any, scale: Any, shift: Any, *, out: Any = None, dtype: object | None = None, **launch: Any
    ) -> Any:
        """x (1 + scale) + shift, as adaptive layer norms do."""
        return self._apply("modulate", (x, scale, shift), out, dtype, launch)

    def gated_residual(
        self, x: Any, y: Any, gate: Any, *, out: Any = None, dtype: object | None = None, **launch: Any
    ) -> Any:
        """x + y gate."""
        return self._apply("gated_residual", (x, y, gate), out, dtype, launch)

    def temperature(
        self,
        x: Any,
        positions: Any,
        *,
        scale: float = 0.1,
        floor: float = 8192.0,
        out: Any = None,
        dtype: object | None = None,
        **launch: Any,
    ) -> Any:
        """x (1 + scale log(1 + floor((positions + 1) / floor))): queries that are scaled by their position where layers
        have no rotary embedding (Llama 4). positions: broadcast against x, [tokens, 1, 1] for x [tokens, heads, d]."""
        return self._apply("temperature", (x, positions, scale, floor), out, dtype, launch)


_TEXTS = {
    "relu2": "relu(x)^2",
    "swish": "x / (1 + e^-x)",
    "silu": "x / (1 + e^-x)",
    "gelu": "x/2 (1 + erf(x / sqrt(2)))",
    "gelu_tanh": "x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))",
    "hardsigmoid": "min(max(x + 3, 0), 6) / 6",
    "hardswish": "x min(max(x + 3, 0), 6) / 6",
    "softplus": "log(1 + e^x)",
    "mish": "x tanh(log(1 + e^x))",
    "round": "x rounded to the nearest integer, ties to even",
    "neg": "-x",
}
_UNARY = [name for name, formula in _FORMULAS.items() if "{1}" not in formula and name != "cast"]
_BINARY = ("add", "sub", "mul", "div", "minimum", "maximum", "pow", "atan2")


def _unary(name: str) -> Any:
    def method(self: Elementwise, x: Any, *, out: Any = None, dtype: object | None = None, **launch: Any) -> Any:
        return self._apply(name, (x,), out, dtype, launch)

    method.__doc__ = f"{_TEXTS.get(name, f'{name}(x)')}, element by element; returns out. See Elementwise."
    return method


def _binary(name: str) -> Any:
    def method(
        self: Elementwise, x: Any, y: Any, *, out: Any = None, dtype: object | None = None, **launch: Any
    ) -> Any:
        return self._apply(name, (x, y), out, dtype, launch)

    method.__doc__ = f"{_FORMULAS[name].format('x', 'y')}, element by element; returns out. See Elementwise."
    return method


def _gated(name: str) -> Any:
    def method(
        self: Elementwise, gate: Any, up: Any = None, *, out: Any = None, dtype: object | None = None, **launch: Any
    ) -> Any:
        if up is None:
            shape = extents_of(gate, "gate")
            half = shape[-1]
            if half % 2 != 0:
                raise InvalidError(f"gate: last extent {half} given without up; allowed are even ones, gate and up")
            gate, up = parts_of(self, gate, [half // 2, half // 2], len(shape) - 1)
        return self._apply(name, (gate, up), out, dtype, launch)

    text = _FORMULAS[name].format("gate", "up")
    method.__doc__ = f"{text}, element by element; returns out. up: None: gate's last axis holds both, gate first."
    return method


for _name in _UNARY:
    setattr(Elementwise, _name, _unary(_name))
for _name in (*_BINARY,):
    setattr(Elementwise, _name, _binary(_name))
Elementwise.bias = Elementwise.add  # type: ignore[attr-defined]
for _name in ("swiglu", "geglu", "geglu_tanh"):
    setattr(Elementwise, _name, _gated(_name))
