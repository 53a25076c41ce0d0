# Functions of elements by their names, and expressions, on the host target against NumPy in fp64.
# SPDX-License-Identifier: Apache-2.0
import math

import ml_dtypes
import numpy as np
import pytest
import quern
from quern.elementwise import Elementwise

_erf = np.vectorize(math.erf)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softplus(x):
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def gelu_tanh(x):
    return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


UNARY = {
    "abs": np.abs, "neg": np.negative, "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1,
    "log": lambda x: np.log(np.abs(x)), "log2": lambda x: np.log2(np.abs(x)), "log1p": lambda x: np.log1p(np.abs(x)),
    "sqrt": lambda x: np.sqrt(np.abs(x)), "rsqrt": lambda x: 1 / np.sqrt(np.abs(x)),
    "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "erf": _erf, "floor": np.floor, "ceil": np.ceil, "round": np.rint,
    "trunc": np.trunc, "sigmoid": sigmoid, "relu": lambda x: np.maximum(x, 0), "relu2": lambda x: np.maximum(x, 0) ** 2,
    "silu": lambda x: x * sigmoid(x), "swish": lambda x: x * sigmoid(x),
    "gelu": lambda x: x / 2 * (1 + _erf(x / np.sqrt(2))), "gelu_tanh": gelu_tanh,
    "hardsigmoid": lambda x: np.clip(x + 3, 0, 6) / 6, "hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "softplus": softplus, "mish": lambda x: x * np.tanh(softplus(x)),
}  # fmt: skip
OF_POSITIVE = ("log", "log2", "log1p", "sqrt", "rsqrt")


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_array(context, rng, name):
    x = rng.standard_normal((5, 37)).astype(np.float32) * 3
    x = np.abs(x) if name in OF_POSITIVE else x
    out = getattr(context, name)(x)
    assert out.dtype == np.float32
    np.testing.assert_allclose(out, UNARY[name](x.astype(np.float64)), rtol=1e-5, atol=1e-6)


def test_every_function_by_name_has_a_test():
    named = {name for name, formula in quern.elementwise._FORMULAS.items() if "{1}" not in formula} - {"cast"}
    assert named == set(UNARY)
    assert all(hasattr(quern.Context, name) for name in quern.elementwise._FORMULAS)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_functions_of_several_arrays(context, rng, dtype):
    x, y, z = (rng.standard_normal((4, 3, 24)).astype(dtype) for _ in range(3))
    exact_x, exact_y, exact_z = (a.astype(np.float64) for a in (x, y, z))
    close = {"rtol": 2e-2, "atol": 2e-2} if x.itemsize == 2 else {"rtol": 1e-5, "atol": 1e-6}

    def same(out, expected):
        assert out.dtype == dtype
        np.testing.assert_allclose(out.astype(np.float64), expected, **close)

    same(context.add(x, y), exact_x + exact_y)
    same(context.sub(x, 2), exact_x - 2)
    same(context.mul(x, y[0]), exact_x * exact_y[0])
    same(context.div(x, 3.0), exact_x / 3)
    same(context.bias(x, y[0, 0]), exact_x + exact_y[0, 0])
    same(context.minimum(x, y), np.minimum(exact_x, exact_y))
    same(context.maximum(x, y[:, :, :1]), np.maximum(exact_x, exact_y[:, :, :1]))
    same(context.pow(context.abs(x), 1.5), np.abs(exact_x) ** 1.5)
    same(context.atan2(x, y), np.arctan2(exact_x, exact_y))
    same(context.swiglu(x, y), exact_x * sigmoid(exact_x) * exact_y)
    same(context.swiglu(x), (exact_x * sigmoid(exact_x))[..., :12] * exact_x[..., 12:])
    same(context.geglu(x, y), exact_x / 2 * (1 + _erf(exact_x / np.sqrt(2))) * exact_y)
    same(context.geglu_tanh(x, y), gelu_tanh(exact_x) * exact_y)
    same(context.clamp(x, -0.5, y), np.minimum(np.maximum(exact_x, -0.5), exact_y))
    same(context.elu(x, 0.7), np.where(exact_x > 0, exact_x, 0.7 * np.expm1(exact_x)))
    same(context.hardshrink(x, 0.3), np.where(np.abs(exact_x) > np.float32(0.3), exact_x, 0))
    same(context.where(exact_x > 0, x, y), np.where(exact_x > 0, exact_x, exact_y))
    same(context.modulate(x, y[:, :1], z[:, :1]), exact_x * (1 + exact_y[:, :1]) + exact_z[:, :1])
    same(context.gated_residual(x, y, z[:, :1]), exact_x + exact_y * exact_z[:, :1])
    positions = np.array([0, 8190, 8191, 100_000], np.int32)[:, None, None]
    by = 1 + 0.1 * np.log1p(np.floor((positions + 1) / 8192))
    same(context.temperature(x, positions), exact_x * by)


def test_integers_stay_integers(context, rng):
    x, y = (rng.integers(-(2**40), 2**40, (3, 7)) for _ in range(2))
    np.testing.assert_array_equal(context.add(x, y), x + y)
    np.testing.assert_array_equal(context.sub(x, 5), x - 5)
    np.testing.assert_array_equal(context.mul(x, 3), x * 3)
    np.testing.assert_array_equal(context.maximum(x, y), np.maximum(x, y))
    np.testing.assert_array_equal(context.where(x > y, x, y), np.where(x > y, x, y))
    np.testing.assert_array_equal(context.relu(x), np.maximum(x, 0))
    assert context.exp(x[:1, :1] * 0).dtype == np.float32
    assert context.add(x.astype(np.int8), 200).max() == 127  # saturated
    with pytest.raises(quern.InvalidError, match=r"2\^24"):
        context.add(x, 2**30)


def test_casts(context):
    x = np.array([1.5, -1.5, 300, -300, np.nan, np.inf, 2.5e-3], np.float32)
    np.testing.assert_array_equal(context.cast(x, "i8"), [1, -1, 127, -128, 0, 127, 0])
    np.testing.assert_array_equal(context.cast(x, "u8"), [1, 0, 255, 0, 0, 255, 0])
    np.testing.assert_array_equal(context.cast(x, bool), [True] * 7)
    codes = context.cast(x, "e4m3")
    np.testing.assert_array_equal(
        codes.astype(np.float32), np.clip(x, -448, 448).astype(ml_dtypes.float8_e4m3fn).astype(np.float32)
    )
    np.testing.assert_array_equal(context.cast(np.array([-5, 2**40]), "i32"), [-5, 2**31 - 1])


def test_expressions_of_ones_own(context, rng):
    x = rng.standard_normal((6, 10)).astype(np.float32)
    with_formula = context.expression("tensor0 * scalar0 + number(index1)")
    out = context.pointwise(with_formula, [x], scalars=[2])
    np.testing.assert_allclose(out, x * 2 + np.arange(10), rtol=1e-6)
    whole, fraction = context.pointwise(["floor(tensor0)", "tensor0-floor(tensor0)"], [x], dtype=["i32", "f16"])
    assert whole.dtype == np.int32 and fraction.dtype == np.float16
    np.testing.assert_array_equal(whole, np.floor(x))
    context.pointwise("place*2", out=(doubled := np.empty((3, 4), np.int64)))
    np.testing.assert_array_equal(doubled, np.arange(0, 24, 2).reshape(3, 4))
    context.relu(x, out=x)
    assert x.min() >= 0


def test_arrays_need_not_be_aligned(context, rng):
    x = rng.standard_normal(100).astype(np.float16)
    np.testing.assert_array_equal(context.neg(x[1:]), -x[1:])
    np.testing.assert_array_equal(context.neg(x[::-3]), -x[::-3])
    np.testing.assert_array_equal(context.add(x[3:][:, None], x[None, 1:4]), x[3:][:, None] + x[None, 1:4])
    assert context.neg(x[:0]).shape == (0,)
    assert context.add(np.array(2.0, np.float32), 1) == 3


def test_numbers_before_arrays(context, rng):
    x = rng.standard_normal((3, 40)).astype(np.float32) + 3
    np.testing.assert_allclose(context.div(1.0, x), 1 / x, rtol=1e-6)
    np.testing.assert_array_equal(context.sub(2.0, x), 2 - x)
    i = np.arange(-5, 5, dtype=np.int32)
    done = context.sub(7, i)
    assert done.dtype == np.int32
    np.testing.assert_array_equal(done, 7 - i)


def test_leaky_relu(context, rng):
    x = rng.standard_normal((3, 40)).astype(np.float32)
    x[0, 0] = np.nan
    np.testing.assert_array_equal(context.leaky_relu(x), np.where(x < 0, x * np.float32(0.01), x))
    np.testing.assert_array_equal(context.leaky_relu(x, 0.5), np.where(x < 0, x * np.float32(0.5), x))


def test_refusals(context):
    x = np.zeros((2, 3), np.float32)
    with pytest.raises(quern.InvalidError, match="dimension -1"):
        context.add(x, np.zeros((2, 4), np.float32))
    with pytest.raises(quern.InvalidError, match="allowed is an array"):
        context.add(1.0, 2.0)
    with pytest.raises(quern.InvalidError, match="allowed are even ones"):
        context.swiglu(x)
    with pytest.raises(quern.InvalidError, match="1 to 4"):
        context.pointwise(["tensor0"] * 5, [x])
    with pytest.raises(quern.InvalidError, match="out: must be given"):
        context.pointwise("place", shape=(3,))
    with pytest.raises(quern.InvalidError, match="lies over out"):
        context.add(x[:1], 1, out=x)
    with pytest.raises(quern.InvalidError, match="read-only"):
        context.relu(x, out=np.broadcast_to(x, (2, 3)))


def test_methods_say_what_they_are():
    for name in (*quern.elementwise._FORMULAS, "bias"):
        assert getattr(Elementwise, name).__doc__, name
