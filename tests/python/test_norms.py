# Norms from Python on the host target, NumPy in and out, against fp64.
# SPDX-License-Identifier: Apache-2.0
import ml_dtypes
import numpy as np
import pytest
import quern


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_rmsnorm(context, rng, dtype):
    x, residual = (rng.standard_normal((5, 72)).astype(dtype) for _ in range(2))
    weight = rng.standard_normal(72).astype(dtype)
    out = context.rmsnorm(x, weight, eps=1e-5)
    assert out.dtype == x.dtype
    exact = x.astype(np.float64)
    by = weight.astype(np.float64)
    expected = exact / np.sqrt((exact**2).mean(1, keepdims=True) + 1e-5) * by
    close = {"rtol": 1e-2, "atol": 1e-3} if x.itemsize == 2 else {"rtol": 1e-5, "atol": 1e-7}
    np.testing.assert_allclose(out.astype(np.float64), expected, **close)

    out, total = context.rmsnorm(x, weight, residual=residual, eps=1e-5, weight_plus_one=True)
    exact = exact + residual.astype(np.float64)
    np.testing.assert_allclose(total.astype(np.float64), exact, **close)
    expected = exact / np.sqrt((exact**2).mean(1, keepdims=True) + 1e-5) * (1 + by)
    np.testing.assert_allclose(out.astype(np.float64), expected, **close)
    # In place: the sum over the residual, the norm over x.
    context.rmsnorm(x, weight, residual=residual, residual_out=residual, out=x, eps=1e-5, weight_plus_one=True)
    np.testing.assert_array_equal(x, out)
    np.testing.assert_array_equal(residual, total)


def test_rmsnorm_takes_rows_at_any_distance(context, rng):
    x = rng.standard_normal((7, 40)).astype(np.float32)[:, :33]
    out = context.rmsnorm(x)
    np.testing.assert_allclose(out, x / np.sqrt((x.astype(np.float64) ** 2).mean(1, keepdims=True) + 1e-6), rtol=1e-5)


def test_rows_of_more_dimensions(context, rng):
    x, residual = (rng.standard_normal((2, 3, 5, 24)).astype(np.float32) for _ in range(2))
    weight = rng.standard_normal(24).astype(np.float32)
    flat = x.reshape(30, 24)
    for made, expected in (
        (context.rmsnorm(x, weight), context.rmsnorm(flat, weight)),
        (context.norm(x, weight), context.norm(flat, weight)),
    ):
        assert made.shape == x.shape
        np.testing.assert_array_equal(made.reshape(30, 24), expected)
    out, total = np.zeros_like(x), np.zeros_like(x)
    done = context.rmsnorm(x, weight, residual=residual, residual_out=total, out=out)
    assert done[0] is out and done[1] is total
    np.testing.assert_array_equal(total, x + residual)
    # A sample's tokens share a scale.
    scale = rng.standard_normal((2, 24)).astype(np.float32)
    made = context.norm(x, scale=scale)
    np.testing.assert_array_equal(made, context.norm(x) * (1 + scale[:, None, None, :]))
    # Rows at a distance are rows all the same; rows in another order are not.
    np.testing.assert_array_equal(context.rmsnorm(x[..., :8]), context.rmsnorm(x[..., :8].copy()))
    with pytest.raises(quern.InvalidError, match="not compact"):
        context.rmsnorm(x.swapaxes(0, 1))


def test_rmsnorm_refuses(context):
    x = np.zeros((2, 8), np.float32)
    with pytest.raises(quern.InvalidError, match="residual_out is given"):
        context.rmsnorm(x, residual_out=np.zeros_like(x))
    with pytest.raises(quern.InvalidError, match=r"weight.shape\[0\] is 7"):
        context.rmsnorm(x, np.zeros(7, np.float32))


def normalised(x, eps=1e-5):
    x = x.astype(np.float64)
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)


def test_norms_by_name(context, rng):
    x, residual = rng.standard_normal((2, 6, 72)).astype(np.float32)
    weight, bias = rng.standard_normal((2, 72)).astype(np.float32)
    scale, shift = rng.standard_normal((2, 2, 72)).astype(np.float32)
    close = {"rtol": 1e-4, "atol": 1e-5}
    np.testing.assert_allclose(context.layer_norm(x, weight, bias), normalised(x) * weight + bias, **close)
    out, total = context.layer_norm(x, residual=residual, dtype="f16")
    assert out.dtype == np.float16
    np.testing.assert_allclose(total, x + residual)
    expected = normalised(x) * (1 + np.repeat(scale, 3, 0)) + np.repeat(shift, 3, 0)
    np.testing.assert_allclose(context.adaln(x, scale, shift), expected, **close)
    np.testing.assert_allclose(context.l2_norm(x), x / np.linalg.norm(x, axis=1, keepdims=True), **close)
    image = rng.standard_normal((2, 6, 5, 7)).astype(np.float32)
    channel = rng.standard_normal(6).astype(np.float32)
    by = channel[:, None, None]
    found = context.group_norm(image, 3, channel, channel)
    assert found.shape == image.shape
    np.testing.assert_allclose(found, normalised(image.reshape(2, 3, -1)).reshape(image.shape) * by + by, **close)
    found = context.instance_norm(image)
    np.testing.assert_allclose(found, normalised(image.reshape(2, 6, -1)).reshape(image.shape), **close)
    last = np.ascontiguousarray(image.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    found, total = context.group_norm(last, 3, channel, channel, residual=last)
    assert found.strides == total.strides == last.strides
    exact = normalised(2 * image.reshape(2, 3, -1)).reshape(image.shape)
    np.testing.assert_allclose(found, exact * by + by, **close)
    np.testing.assert_allclose(total, 2 * image, **close)
    with pytest.raises(quern.InvalidError, match="not compact"):
        context.group_norm(image[:, :, ::2], 3)


def test_norm_backward(context, rng):
    x, dout = rng.standard_normal((2, 9, 40)).astype(np.float32)
    weight = rng.standard_normal(40).astype(np.float32)
    dx, dweight, dbias = context.layer_norm_backward(dout, x, weight)
    y, g = normalised(x), dout * weight
    inverse = 1 / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    exact = inverse * (g - g.mean(1, keepdims=True) - y * (g * y).mean(1, keepdims=True))
    close = {"rtol": 1e-3, "atol": 1e-5}
    np.testing.assert_allclose(dx, exact, **close)
    np.testing.assert_allclose(dweight, (dout * y).sum(0), **close)
    np.testing.assert_allclose(dbias, dout.sum(0), **close)
    dx, dweight = context.rmsnorm_backward(dout, x, weight, add=x)
    inverse = 1 / np.sqrt((x**2).mean(1, keepdims=True) + 1e-5)
    y = x * inverse
    np.testing.assert_allclose(dx, inverse * (g - y * (g * y).mean(1, keepdims=True)) + x, **close)
    np.testing.assert_allclose(dweight, (dout * y).sum(0), **close)
