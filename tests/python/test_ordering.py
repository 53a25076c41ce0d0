# Sorting, counting and the suppression of boxes from Python on the host target, NumPy in and out.
# SPDX-License-Identifier: Apache-2.0
import ml_dtypes
import numpy as np
import pytest
import quern


def test_sort(context, rng):
    keys = rng.integers(0, 20, (3, 50)).astype(np.int32)
    order = np.argsort(keys, axis=1, kind="stable")
    np.testing.assert_array_equal(context.sort(keys), np.sort(keys, axis=1))
    np.testing.assert_array_equal(context.argsort(keys), order)
    values = rng.standard_normal((3, 50)).astype(ml_dtypes.bfloat16)
    by_key, moved = context.sort(keys, values)
    np.testing.assert_array_equal(by_key, np.sort(keys, axis=1))
    np.testing.assert_array_equal(moved, np.take_along_axis(values, order, 1))
    # In place, the largest first; equal keys stay as they were.
    falling = np.argsort(-keys, axis=1, kind="stable")
    by_falling_key, given = np.take_along_axis(keys, falling, 1), values.copy()
    assert context.sort(keys, values, descending=True, keys_out=keys, values_out=values)[0] is keys
    np.testing.assert_array_equal(keys, by_falling_key)
    np.testing.assert_array_equal(values, np.take_along_axis(given, falling, 1))


def test_sort_of_one_row_and_of_segments(context):
    keys = np.array([3.0, np.nan, -0.0, 0.0, -np.inf, 2.0], np.float32)
    np.testing.assert_array_equal(context.argsort(keys, dtype="i64"), [4, 2, 3, 5, 0, 1])
    np.testing.assert_array_equal(context.argsort(keys, descending=True), [1, 0, 5, 2, 3, 4])
    offsets = np.array([0, 2, 2, 6], np.int32)
    numbers = np.array([2, 1, 9, 0xFFFFFFFF, 7, 8], np.uint32)
    np.testing.assert_array_equal(context.sort(numbers, offsets=offsets, max_segment=4), [1, 2, 7, 8, 9, 0xFFFFFFFF])
    bits = quern.Tensor(np.array([0x4000, 0x3F80], np.uint16), "bf16")
    np.testing.assert_array_equal(context.sort(bits).array, [0x3F80, 0x4000])
    with pytest.raises(quern.InvalidError, match="max_segment"):
        context.sort(numbers, offsets=offsets, max_segment=3)


def test_histogram(context, rng):
    ids = rng.integers(-5, 15, (2, 333)).astype(np.int64)
    counts = context.histogram(ids, 10)
    for row in range(2):
        inside = ids[row][(ids[row] >= 0) & (ids[row] < 10)]
        np.testing.assert_array_equal(counts[row], np.bincount(inside, minlength=10))
    np.testing.assert_array_equal(context.histogram(ids, 10, clamp=True).sum(1), [333, 333])
    again = context.histogram(ids, counts=counts, accumulate=True)
    assert again is counts
    x = np.linspace(-1, 1, 64, endpoint=False, dtype=np.float32)
    np.testing.assert_array_equal(context.histogram(x, 8, low=-1.0, high=1.0, dtype="i64"), np.full(8, 8))
    with pytest.raises(quern.InvalidError, match="counts"):
        context.histogram(x, low=-1.0, high=1.0)


def test_nms(context):
    boxes = np.array([[0, 0, 10, 10], [1, 1, 11, 11], [20, 0, 30, 10], [0, 0, 10, 10]], np.float32)
    scores = np.array([0.5, 0.9, 0.1, 0.7], np.float32)
    ids, counts = context.nms(boxes, scores, 0.5)
    np.testing.assert_array_equal(ids, [1, 2, -1, -1])
    np.testing.assert_array_equal(counts, [2])
    ids, counts = context.nms(
        boxes[None], scores[None], 0.5, classes=np.array([[0, 0, 0, 1]], np.int32), score_threshold=0.2, most=3
    )
    np.testing.assert_array_equal(ids, [[1, 3, -1]])
    np.testing.assert_array_equal(counts, [2])
    with pytest.raises(quern.InvalidError, match="iou_threshold"):
        context.nms(boxes, scores, 2.0)
