# Moves by their names on the host target, against NumPy.
# SPDX-License-Identifier: Apache-2.0
import ml_dtypes
import numpy as np
import pytest
import quern

DTYPES = [np.float16, np.float32, np.int8, np.int64, ml_dtypes.bfloat16, bool]


@pytest.mark.parametrize("dtype", DTYPES)
def test_transposes(context, rng, dtype):
    x = rng.integers(0, 100, (3, 33, 40)).astype(dtype)
    np.testing.assert_array_equal(context.transpose(x), x.swapaxes(1, 2))
    np.testing.assert_array_equal(context.transpose(x[0]), x[0].T)
    np.testing.assert_array_equal(context.transpose(x, 0, 2), x.swapaxes(0, 2))
    four = x.reshape(3, 11, 3, 40)
    np.testing.assert_array_equal(context.permute(four, (3, 0, 2, 1)), four.transpose(3, 0, 2, 1))
    np.testing.assert_array_equal(context.permute(four, (0, 2, 1, -1)), four.transpose(0, 2, 1, 3))


def test_casts_on_the_way(context, rng):
    x = rng.standard_normal((70, 72)).astype(np.float32)
    np.testing.assert_array_equal(context.transpose(x, dtype="bf16"), x.T.astype(ml_dtypes.bfloat16))
    np.testing.assert_array_equal(context.copy(x[::2, 1:], dtype="f16"), x[::2, 1:].astype(np.float16))
    np.testing.assert_array_equal(
        context.concat([x, x[:1]], dtype="f16"), np.concatenate([x, x[:1]]).astype(np.float16)
    )


def test_joining_and_parting(context, rng):
    x = rng.standard_normal((6, 20, 24)).astype(np.float32)
    for axis in (0, 1, -1):
        parts = np.split(x, [1, 3, 3], axis)
        np.testing.assert_array_equal(context.concat(parts, axis), x)
        for got, expected in zip(context.split(x, [part.shape[axis] for part in parts], axis), parts, strict=True):
            assert got.flags.c_contiguous
            np.testing.assert_array_equal(got, expected)
    many = [x[:, i] for i in range(20)]  # more than one launch has parts
    np.testing.assert_array_equal(context.concat(many), np.concatenate(many))
    np.testing.assert_array_equal(context.slice(x, slice(1, None, 2), ..., 3), x[1::2, ..., 3])


def test_repeating_and_padding(context, rng):
    x = rng.integers(-100, 100, (5, 6, 8)).astype(np.int16)
    for axis in (0, 1, 2):
        np.testing.assert_array_equal(context.repeat_interleave(x, 3, axis), np.repeat(x, 3, axis))
    out = np.zeros((5, 6, 20), np.int16)[:, :, 2:18]
    context.repeat_interleave(x, 2, 2, out=out)
    np.testing.assert_array_equal(out, np.repeat(x, 2, 2))
    assert context.repeat_interleave(x, 0).shape == (0, 6, 8)
    widths = [(1, 0), (0, 2), (3, 4)]
    np.testing.assert_array_equal(context.pad(x, widths, -7), np.pad(x, widths, constant_values=-7))
    np.testing.assert_array_equal(context.pad(x, [(0, 0)] * 3), x)
    of_numpy = [(1, np.int64(0)), (np.int64(0), np.int32(2)), (3, 4)]
    np.testing.assert_array_equal(context.pad(x, of_numpy, -7), np.pad(x, widths, constant_values=-7))
    np.testing.assert_array_equal(context.fill(np.empty((3, 5), np.float16), 1.1), np.full((3, 5), np.float16(1.1)))


def test_elements_that_numpy_lacks(context):
    bits = np.arange(60, dtype=np.uint16).reshape(5, 12)
    x = quern.Tensor(bits, "bf16")
    out = context.transpose(x)
    assert isinstance(out, quern.Tensor)
    np.testing.assert_array_equal(out.array, bits.T)
    np.testing.assert_array_equal(context.concat([x, x]).array, np.concatenate([bits, bits]))


def test_refusals(context):
    x = np.zeros((2, 3), np.float32)
    with pytest.raises(quern.InvalidError, match="each of the 2 axes once"):
        context.permute(x, (0, 0))
    with pytest.raises(quern.InvalidError, match="axis: 2 given"):
        context.concat([x], 2)
    with pytest.raises(quern.InvalidError, match=r"arrays\[1\]: shape"):
        context.concat([x, x[:, :2]])
    with pytest.raises(quern.InvalidError, match="whose sum is 3"):
        context.split(x, [1, 1], 1)
    with pytest.raises(quern.InvalidError, match="outs: 1 given"):
        context.split(x, [1, 2], 1, outs=[x])
    with pytest.raises(quern.InvalidError, match="of each axis"):
        context.pad(x, [(1, 1)])
    with pytest.raises(quern.InvalidError, match="repeats: -1"):
        context.repeat_interleave(x, -1)
    with pytest.raises(quern.InvalidError, match="none given"):
        context.concat([])
    with pytest.raises(quern.InvalidError, match="lies over"):
        context.copy(x[:1], out=x)
