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


def test_rmsnorm_refuses(context):
    x = np.zeros((2, 8), np.float32)
    with pytest.raises(quern.InvalidError, match="residual_out is given"):
        context.rmsnorm(x, residual_out=np.zeros_like(x))
    with pytest.raises(quern.InvalidError, match=r"weight.shape\[0\] is 7"):
        context.rmsnorm(x, np.zeros(7, np.float32))
