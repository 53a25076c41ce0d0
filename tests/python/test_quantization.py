# Quantisation from Python on the host target, NumPy in and out, against fp64.
# SPDX-License-Identifier: Apache-2.0
import math

import ml_dtypes
import numpy as np
import pytest
import quern

E4M3, E5M2 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
LARGEST = {E4M3: 448.0, E5M2: 57344.0, np.int8: 127.0}
STEP = {E4M3: 2.0**-4, E5M2: 2.0**-3}  # the relative rounding error


def wide(array):
    return np.asarray(array).astype(np.float64)


def spread(scale, kind, shape):
    """The scale of every number."""
    if kind in ("tensor", "static"):
        return np.broadcast_to(wide(scale), shape)
    if kind == "token":
        return np.broadcast_to(wide(scale)[:, None], shape)
    rows = 128 if kind == "block" else 1
    return wide(scale).repeat(rows, 0)[: shape[0]].repeat(128, 1)[:, : shape[1]]


def largest_that_share(y, kind):
    """The largest magnitude of the numbers that share each scale."""
    size = np.abs(y)
    if kind == "tensor":
        return size.max(keepdims=True).reshape(1)
    if kind == "token":
        return size.max(1)
    rows = 128 if kind == "block" else 1
    return np.array(
        [[size[i : i + rows, j : j + 128].max() for j in range(0, y.shape[1], 128)] for i in range(0, y.shape[0], rows)]
    )


def check(y, out, scale, kind, dtype):
    """That the scales are those of y, and that out times them is y to the rounding of dtype."""
    np.testing.assert_allclose(wide(scale), largest_that_share(y, kind) / LARGEST[dtype], rtol=1e-5)
    each = spread(scale, kind, y.shape)
    error = np.abs(wide(out) * each - y)
    assert (error <= np.abs(y) * STEP[dtype] * 1.001 + each * 2.0**-8).all()


@pytest.mark.parametrize("kind", ["tensor", "token", "group", "block"])
@pytest.mark.parametrize("dtype", [E4M3, E5M2])
@pytest.mark.parametrize("source", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_there_and_back(context, rng, kind, dtype, source):
    x = rng.standard_normal((133, 272), np.float32).astype(source)
    out, scale = context.quantize(x, scale_kind=kind, dtype="e4m3" if dtype is E4M3 else "e5m2")
    assert out.dtype == dtype and out.shape == x.shape and scale.dtype == np.float32
    check(wide(x), out, scale, kind, dtype)
    back = context.dequantize(out, scale)
    np.testing.assert_allclose(back, wide(out) * spread(scale, kind, x.shape), rtol=1e-6)
    half = context.dequantize(out, scale, scale_kind=kind, out_dtype="f16")
    assert half.dtype == np.float16


@pytest.mark.parametrize("kind", ["tensor", "token", "group", "block"])
def test_int8_there_and_back(context, rng, kind):
    x = rng.standard_normal((133, 272), np.float32)
    out, scale = context.quantize(x, scale_kind=kind, dtype="int8")
    assert out.dtype == np.int8
    np.testing.assert_allclose(scale, largest_that_share(x, kind) / 127, rtol=1e-6)
    each = spread(scale, kind, x.shape)
    np.testing.assert_allclose(out, np.rint(x / each), atol=1)
    assert np.abs(out.astype(int)).max() == 127
    np.testing.assert_allclose(context.dequantize(out, scale), out * each, rtol=1e-6)


def test_scales_lie_as_a_product_reads_them(context, rng):
    x = rng.standard_normal((5, 272), np.float32)
    out, scale = context.quantize(x)
    assert scale.shape == (5, 3) and scale.strides == (4, 32)
    weight = rng.standard_normal((136, 272), np.float32)
    quantised, blocks = context.quantize(weight, scale_kind="block")
    product = context.fp8_gemm(out, quantised, scale, blocks, out_dtype="f32")
    expected = (wide(out) * spread(scale, "group", x.shape)) @ (
        wide(quantised) * spread(blocks, "block", weight.shape)
    ).T
    np.testing.assert_allclose(product, expected, rtol=0, atol=1e-4 * np.abs(expected).max())


def test_a_static_scale_is_read(context, rng):
    x = rng.standard_normal((4, 64), np.float32)
    scale = np.array([0.01], np.float32)
    scale.flags.writeable = False
    out, same = context.quantize(x, scale_kind="static", scale=scale)
    assert same is scale
    np.testing.assert_allclose(wide(out) * 0.01, np.clip(x, -4.48, 4.48), rtol=STEP[E4M3] * 1.001, atol=1e-4)
    with pytest.raises(quern.InvalidError, match="scale: the array is read-only"):
        context.quantize(x, scale_kind="tensor", scale=scale)


def test_powers_of_two(context, rng):
    scale = context.quantize(rng.standard_normal((7, 256), np.float32), power_of_two=True)[1]
    np.testing.assert_array_equal(np.log2(wide(scale)) % 1, 0)


def test_bytes(context, rng):
    x = rng.standard_normal((4, 128), np.float32)
    expected, scale = context.quantize(x, dtype="e5m2")
    raw = np.zeros((4, 128), np.uint8)
    out, _ = context.quantize(x, dtype="e5m2", out=raw)
    assert out is raw
    np.testing.assert_array_equal(raw, expected.view(np.uint8))
    np.testing.assert_array_equal(
        context.dequantize(raw, scale, dtype="e5m2"), context.dequantize(quern.Tensor(raw, "e5m2"), scale)
    )


def test_norms_in_front(context, rng):
    x, residual = (rng.standard_normal((9, 160), np.float32) for _ in range(2))
    weight, bias = (rng.standard_normal(160, np.float32) for _ in range(2))
    total = wide(x) + wide(residual)
    expected = total / np.sqrt((total**2).mean(1, keepdims=True) + 1e-5) * (1 + wide(weight))
    summed, dense = np.empty_like(x), np.empty_like(x)
    out, scale = context.quantize(
        x, front="rmsnorm", residual=residual, residual_out=summed, weight=weight, weight_plus_one=True, eps=1e-5,
        dense=dense, scale_kind="token",
    )  # fmt: skip
    np.testing.assert_allclose(summed, total, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(dense, expected, rtol=1e-4, atol=1e-5)
    check(expected, out, scale, "token", E4M3)
    centred = wide(x) - wide(x).mean(1, keepdims=True)
    expected = centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5) * weight + bias
    nothing = context.quantize(x, front="layernorm", weight=weight, bias=bias, eps=1e-5, dense=dense, scale_kind="none")
    assert nothing == (None, None)
    np.testing.assert_allclose(dense, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("front", ["silu_mul", "gelu_mul", "gelu_tanh_mul"])
def test_products_in_front(context, rng, front):
    x = rng.standard_normal((6, 320), np.float32)
    gate, up = wide(x[:, :160]), wide(x[:, 160:])
    erf = np.vectorize(math.erf)
    function = {
        "silu_mul": lambda g: g / (1 + np.exp(-g)),
        "gelu_mul": lambda g: g / 2 * (1 + erf(g / math.sqrt(2))),
        "gelu_tanh_mul": lambda g: g / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (g + 0.044715 * g**3))),
    }[front]
    out, scale = context.quantize(x, front=front)
    assert out.shape == (6, 160)
    check(function(gate) * up, out, scale, "group", E4M3)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"scale_kind": "row"}, "scale_kind: 'row' given; allowed are \"static\""),
        ({"scale_kind": "static"}, "scale_kind: 'static' given"),
        ({"front": "softmax"}, "front: 'softmax' given; allowed are none, rmsnorm, layernorm"),
        ({"dtype": "e3m4"}, "'e3m4' is no element type"),
        ({"dtype": "uint8"}, "dtype: uint8 given; allowed are e4m3, e5m2 and int8"),
        ({"scale_kind": "none", "scale": np.ones(1, np.float32)}, "out, scale: given with scale_kind"),
        ({"front": "rmsnorm", "weight": np.ones(3, np.float32)}, "weight"),
        ({"epsilon": 1.0}, "quantize has no argument 'epsilon'"),
    ],
)
def test_bad_arguments_are_named(context, rng, arguments, complaint):
    with pytest.raises(quern.InvalidError, match=complaint):
        context.quantize(rng.standard_normal((4, 128), np.float32), **arguments)


def test_scales_of_another_shape_are_refused(context):
    with pytest.raises(quern.InvalidError, match=r"scale: shape \(3,\) given for x of \(4, 128\); allowed are \(1,\)"):
        context.dequantize(np.zeros((4, 128), E4M3), np.ones(3, np.float32))


@pytest.mark.parametrize("n", [4, 20, 100])
def test_outputs_that_are_made_here_fit_whatever_their_rows_are(context, rng, n):
    x = rng.standard_normal((3, n), np.float32)
    out, scale = context.quantize(x)
    check(x, out, scale, "group", E4M3)
    back = context.dequantize(out, scale)
    assert np.abs(back - x).max() <= np.abs(x).max() / 8
