# Rows of tables from Python on the host target, NumPy in and out.
# SPDX-License-Identifier: Apache-2.0
import ml_dtypes
import numpy as np
import pytest
import quern


def test_gather(context, rng):
    table = rng.standard_normal((11, 40)).astype(ml_dtypes.bfloat16)
    ids = np.array([3, 0, 10, 3], np.int64)
    np.testing.assert_array_equal(context.gather(table, ids), table[ids])
    wide = context.gather(table, ids, scale=2.0, dtype="f32")
    assert wide.dtype == np.float32
    np.testing.assert_array_equal(wide, 2 * table[ids].astype(np.float32))
    padded = context.gather(table, ids, padding=0)
    np.testing.assert_array_equal(padded[1], np.zeros(40, ml_dtypes.bfloat16))
    np.testing.assert_array_equal(padded[2], table[10])


def test_gather_of_shards_sums_to_the_whole(context, rng):
    table = rng.standard_normal((12, 8)).astype(np.float32)
    ids = np.array([0, 5, 6, 11], np.int32)
    low = context.gather(table[:6], ids, shard=True)
    high = context.gather(table[6:], ids, first=6, shard=True)
    np.testing.assert_array_equal(low + high, table[ids])


def test_gather_refuses(context):
    table = np.zeros((4, 8), np.float32)
    with pytest.raises(quern.InvalidError, match=r"ids\[1\] is 4; allowed: 0 to 3"):
        context.gather(table, np.array([0, 4], np.int32))


def test_scatter(context, rng):
    x = rng.standard_normal((4, 40)).astype(ml_dtypes.bfloat16)
    ids = np.array([3, 0, 7, 3], np.int64)
    placed = context.scatter(x, ids, rows=9)
    assert placed.dtype == x.dtype
    expected = np.zeros((9, 40), ml_dtypes.bfloat16)
    expected[ids] = x
    np.testing.assert_array_equal(placed, expected)
    # The gradient of gather, into what is there.
    sums = np.ones((9, 40), np.float32)
    assert context.scatter(x, ids, sums, add=True, scale=2.0, padding=0) is sums
    by_hand = np.ones((9, 40), np.float32)
    for i in (0, 2, 3):
        by_hand[ids[i]] += 2 * x[i].astype(np.float32)
    np.testing.assert_allclose(sums, by_hand, rtol=1e-6)
    shard = context.scatter(x[:2], ids[:2], rows=2, first=3, shard=True, unique=True, dtype="f32")
    np.testing.assert_array_equal(shard, np.stack([x[0], np.zeros(40)]).astype(np.float32))


def test_scatter_refuses(context):
    x = np.zeros((2, 8), np.float32)
    with pytest.raises(quern.InvalidError, match=r"ids\[1\] is 4; allowed: 0 to 3"):
        context.scatter(x, np.array([0, 4], np.int32), rows=4)
    with pytest.raises(quern.InvalidError, match="rows"):
        context.scatter(x, np.array([0, 1], np.int32))
