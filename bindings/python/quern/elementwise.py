# Functions of elements, by their names, and expressions of one's own; making the outputs that are not given.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import dtypes
from .arrays import alignment_of, element, empty, unwrap
from .errors import InvalidError
from .ops import Ops

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
    "modulate": "{0}*(1+{1})+{2}",
    "gated_residual": "{0}+{1}*{2}",
    "temperature": "{0}*(1+{2}*log(1+floor(({1}+1)/{3})))",
}
# Of these integers give integers.
_OF_INTEGERS = frozenset(("abs", "neg", "cast", "clamp", "add", "sub", "mul", "minimum", "maximum", "where", "relu"))
_RELU_OF_INTEGERS = "max({0},0)"
_INTEGERS = frozenset(("bool", "i8", "u8", "i16", "i32", "i64"))


def _shape(array: Any, argument: str) -> tuple[int, ...]:
    inner = unwrap(array)
    if not hasattr(inner, "shape"):
        raise InvalidError(f"{argument}: {type(array).__name__} given; allowed is an array with a shape")
    return tuple(inner.shape)


def broadcast_shape(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """What arrays of these shapes are stretched to, by NumPy's rules."""
    rank = max(map(len, shapes), default=0)
    result = []
    for d in range(-rank, 0):
        extents = {shape[d] for shape in shapes if len(shape) >= -d} - {1}
        if len(extents) > 1:
            given = ", ".join(map(str, shapes))
            raise InvalidError(f"operands: shapes {given} given; dimension {d} must be the same, or 1, in all of them")
        result.append(extents.pop() if extents else 1)
    return tuple(result)


class Elementwise(Ops):
    """Mixed into Context. Operands are arrays, broadcast against each other as NumPy does; in their place, but for the
    first's, there may be numbers of Python's, which are run-time arguments in f32. Every function takes
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
        several = isinstance(expression, (list, tuple))
        formulas = list(expression) if several else [expression]
        outs = list(out) if several and out is not None else [out] * len(formulas)
        types = list(dtype) if isinstance(dtype, (list, tuple)) else [dtype] * len(formulas)
        if not 1 <= len(formulas) <= 4 or len(outs) != len(formulas) or len(types) != len(formulas):
            raise InvalidError(
                f"expression: {len(formulas)} given with {len(outs)} outs and {len(types)} dtypes; allowed are 1 to 4 "
                "and as many of the others"
            )
        operands = list(operands)
        if shape is None:
            shape = broadcast_shape(
                [_shape(one, f"operands[{i}]") for i, one in enumerate(operands) if one is not None]
            )
        like = next((one for one in (*operands, *outs) if one is not None), None)
        for i, one in enumerate(outs):
            if one is not None:
                continue
            if like is None:
                raise InvalidError("out: must be given where there is no operand whose framework could allocate it")
            outs[i] = empty(shape, like, "out", types[i])
        names = ("", "1", "2", "3")
        given: dict[str, Any] = {f"out{names[i]}": one for i, one in enumerate(outs)}
        given |= {f"expression{names[i]}": one for i, one in enumerate(formulas)}
        launch.setdefault("alignment", alignment_of(one for one in (*operands, *outs) if one is not None))
        self.call("pointwise", operands=operands or None, scalars=scalars, **given, **launch)
        return tuple(outs) if several else outs[0]

    def _apply(self, name: str, values: Sequence[Any], out: Any, dtype: object | None, launch: dict[str, Any]) -> Any:
        arrays = [value for value in values if hasattr(unwrap(value), "shape")]
        if not arrays or arrays[0] is not values[0] and name != "where":
            raise InvalidError(f"{name}: {values[0]!r} given first; allowed is an array")
        kinds = {id(one): element(one, name) for one in arrays}
        whole = name in _OF_INTEGERS and all(kind in _INTEGERS for kind in kinds.values())
        whole = whole and all(isinstance(value, int) for value in values if not hasattr(unwrap(value), "shape"))
        if whole and dtype is not None and dtypes.name_of(dtypes.parse(dtype)) not in _INTEGERS:
            whole = False
        leaves, operands, scalars = [], [], []
        for value in values:
            if hasattr(unwrap(value), "shape"):
                leaves.append(f"{'integer' if whole else 'tensor'}{len(operands)}")
                operands.append(value)
                continue
            if whole and not -(2**24) <= value <= 2**24:
                raise InvalidError(f"{name}: {value} given; allowed beside integers are -2^24 to 2^24, or an array")
            leaves.append(f"int64(scalar{len(scalars)})" if whole else f"scalar{len(scalars)}")
            scalars.append(float(value))
        of = arrays[1] if name == "where" and len(arrays) > 1 else arrays[0]
        if dtype is None and out is None:
            kind = kinds[id(of)]
            dtype = kind if whole or kind not in _INTEGERS else "f32"
        formula = _RELU_OF_INTEGERS if whole and name == "relu" else _FORMULAS[name]
        return self.pointwise(
            formula.format(*leaves), operands, scalars=scalars or None, out=out, dtype=dtype, **launch
        )

    def elu(self, x: Any, alpha: float = 1.0, *, out: Any = None, dtype: object | None = None, **launch: Any) -> Any:
        """x above 0, else alpha (e^x - 1)."""
        return self._apply("elu", (x, alpha), out, dtype, launch)

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
            half = _shape(gate, "gate")[-1]
            if half % 2 != 0:
                raise InvalidError(f"gate: last extent {half} given without up; allowed are even ones, gate and up")
            gate, up = _part(gate, slice(0, half // 2)), _part(gate, slice(half // 2, half))
        return self._apply(name, (gate, up), out, dtype, launch)

    text = _FORMULAS[name].format("gate", "up")
    method.__doc__ = f"{text}, element by element; returns out. up: None: gate's last axis holds both, gate first."
    return method


def _part(array: Any, of: slice) -> Any:
    from .tensor import Tensor

    part = unwrap(array)[..., of]
    return Tensor(part, dtypes.name_of(array.dtype)) if isinstance(array, Tensor) and array.dtype is not None else part


for _name in _UNARY:
    setattr(Elementwise, _name, _unary(_name))
for _name in (*_BINARY,):
    setattr(Elementwise, _name, _binary(_name))
Elementwise.bias = Elementwise.add  # type: ignore[attr-defined]
for _name in ("swiglu", "geglu", "geglu_tanh"):
    setattr(Elementwise, _name, _gated(_name))
