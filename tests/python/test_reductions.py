# Reductions from Python on the host target, NumPy in and out.
# SPDX-License-Identifier: Apache-2.0
import ml_dtypes
import numpy as np
import pytest
import quern


def test_every_name_is_what_numpy_has(context, rng):
    x = rng.standard_normal((3, 5, 40)).astype(np.float32)
    x[0, 0, 3] = 0
    y = rng.standard_normal((3, 5, 40)).astype(np.float32)
    close = {"rtol": 1e-5, "atol": 1e-5}
    np.testing.assert_allclose(context.sum(x, 1), x.sum(1), **close)
    np.testing.assert_allclose(context.mean(x, (0, 2), keepdims=True), x.mean((0, 2), keepdims=True), **close)
    np.testing.assert_array_equal(context.amax(x, -1), x.max(-1))
    np.testing.assert_array_equal(context.amin(x), x.min())
    np.testing.assert_array_equal(context.argmin(x, -1), x.argmin(-1))
    np.testing.assert_allclose(context.l2(x, 2), np.linalg.norm(x, axis=2), **close)
    np.testing.assert_allclose(context.dot(x, y, 2), (x * y).sum(2), **close)
    np.testing.assert_allclose(context.logsumexp(x, 2), np.log(np.exp(x).sum(2)), **close)
    for name in ("any", "all"):
        found = getattr(context, name)(x, -1)
        assert found.dtype == np.bool_
        np.testing.assert_array_equal(found, getattr(np, name)(x != 0, -1))


def test_several_of_one_pass_with_formulas(context, rng):
    x, y = rng.standard_normal((2, 6, 130)).astype(ml_dtypes.bfloat16)
    product = x.astype(np.float64) * y.astype(np.float64) + 2
    mean, largest, place = context.reduce(
        x, ["mean", "max", "argmax"], axis=1, y=y, before="acc * tensor0 + scalar1",
        after=["acc * scalar0", None, None], scalars=[0.5, 2.0],
    )  # fmt: skip
    np.testing.assert_allclose(mean, product.mean(1) / 2, rtol=1e-5)
    np.testing.assert_allclose(largest, product.max(1), rtol=1e-5)
    np.testing.assert_array_equal(place, product.argmax(1))
    out = [np.zeros(6, np.float32), np.zeros(6, np.int32)]
    again = context.reduce(x, ["sum", "argmin"], axis=1, out=out)
    assert again[0] is out[0]
    np.testing.assert_array_equal(out[1], x.astype(np.float32).argmin(1))


def test_dtypes_of_results(context, rng):
    x = rng.integers(-128, 128, (4, 300)).astype(np.int8)
    exact = context.sum(x, 1, dtype="int32")
    assert exact.dtype == np.int32
    np.testing.assert_array_equal(exact, x.sum(1, dtype=np.int64))
    assert context.sum(x > 0, dtype="int32") == (x > 0).sum()
    halves = context.sum(np.full((2, 9), 0.1, np.float16), 1, f16_sums=True, dtype="f16")
    assert halves.dtype == np.float16


def test_refusals(context):
    x = np.zeros((2, 8), np.float32)
    with pytest.raises(quern.InvalidError, match="axis: 2"):
        context.sum(x, 2)
    with pytest.raises(quern.InvalidError, match="reductions: 5"):
        context.reduce(x, ["sum"] * 5)
    with pytest.raises(quern.InvalidError, match="y"):
        context.reduce(x, "dot")
