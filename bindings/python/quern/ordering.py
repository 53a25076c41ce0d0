# Sorting, counting, the suppression of boxes; outputs that are not given are made.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

from .arrays import element, empty, shape_of
from .errors import InvalidError
from .ops import Ops
from .tensor import Tensor


def _rows(array: Any, argument: str, dimensions: int) -> Any:
    """An array of so many dimensions as it is; one of one less as the only row."""
    if array is None or len(shape_of(array, argument)) != dimensions - 1:
        return array
    return Tensor(array.array[None], element(array, argument)) if isinstance(array, Tensor) else array[None]


class Ordering(Ops):
    """Mixed into Context. Of what every op takes besides see Ops."""

    def sort(
        self,
        keys: Any,
        values: Any = None,
        *,
        descending: bool = False,
        offsets: Any = None,
        max_segment: int = 0,
        keys_out: Any = None,
        values_out: Any = None,
        **launch: Any,
    ) -> Any:
        """Keys in ascending order by rows, stably, and values with them; returns keys_out, or (keys_out, values_out)
        with values. Zeros of both signs are equal, NaNs equal to each other and larger than all else.

        keys         [rows, n] or [n]; f16, bf16, f32, int32, uint32 or int64
        values       optional, of keys' shape, elements of 8 to 64 bits
        descending   the largest first; equal keys stay as they were
        offsets      with keys [n], optional [segments+1] int32: each segment is sorted by itself
        max_segment  with offsets: no segment is longer; 0: n
        keys_out     may be keys; None: allocated by keys' framework
        values_out   may be values; None: allocated by values' framework"""
        shape = shape_of(keys, "keys")
        keys_out = empty(shape, keys, "keys_out") if keys_out is None else keys_out
        if values is not None and values_out is None:
            values_out = empty(shape_of(values, "values"), values, "values_out")
        self.call(
            "sort", launch, keys=_rows(keys, "keys", 2), values=_rows(values, "values", 2), offsets=offsets,
            keys_out=_rows(keys_out, "keys_out", 2), values_out=_rows(values_out, "values_out", 2),
            max_segment=max_segment, descending=descending,
        )  # fmt: skip
        return keys_out if values is None else (keys_out, values_out)

    def argsort(
        self,
        keys: Any,
        *,
        descending: bool = False,
        offsets: Any = None,
        max_segment: int = 0,
        dtype: object = "i32",
        out: Any = None,
        **launch: Any,
    ) -> Any:
        """Where in its row, or segment, each key of the sorted ones was; returns out. Arguments as sort's.

        dtype  of out where it is made: int32 or int64
        out    of keys' shape, int32 or int64; None: allocated by keys' framework"""
        out = empty(shape_of(keys, "keys"), keys, "out", dtype) if out is None else out
        self.call(
            "sort", launch, keys=_rows(keys, "keys", 2), offsets=offsets, values_out=_rows(out, "out", 2),
            max_segment=max_segment, descending=descending,
        )  # fmt: skip
        return out

    def histogram(
        self,
        x: Any,
        bins: int | None = None,
        *,
        first: int = 0,
        low: float | None = None,
        high: float | None = None,
        clamp: bool = False,
        accumulate: bool = False,
        dtype: object = "i32",
        counts: Any = None,
        **launch: Any,
    ) -> Any:
        """How many numbers of each row fall into each bin; returns counts.

        x           [rows, n] or [n]; int8, uint8, int32, int64, f16, bf16 or f32
        bins        how many; may be left to counts' last extent
        first       of integers: what is counted in bin 0; bins are 1 wide
        low, high   of floats: where the first bin begins and the last ends, `high` included
        clamp       what lies below or above is counted in the first or the last bin, else not at all. NaN never is
        accumulate  add to what counts has
        dtype       of counts where they are made: int32 or int64
        counts      [rows, bins] or [bins], int32 or int64; None: allocated by x's framework"""
        shape = shape_of(x, "x")
        if counts is None:
            if bins is None or accumulate:
                raise InvalidError("counts: None given; allowed with `bins`, and without `accumulate`")
            counts = empty((*shape[:-1], bins), x, "counts", dtype)
        self.call(
            "histogram", launch, x=_rows(x, "x", 2), counts=_rows(counts, "counts", 2), first=first, low=low, high=high,
            clamp=clamp, accumulate=accumulate,
        )  # fmt: skip
        return counts

    def nms(
        self,
        boxes: Any,
        scores: Any,
        iou_threshold: float,
        *,
        classes: Any = None,
        lengths: Any = None,
        score_threshold: float | None = None,
        most: int | None = None,
        ids: Any = None,
        counts: Any = None,
        **launch: Any,
    ) -> tuple[Any, Any]:
        """Non-maximum suppression: of each image's boxes, by descending score, those that overlap no kept box of their
        class by more than iou_threshold. Returns (ids, counts).

        boxes            [images, n, 4] or [n, 4] f32: x1, y1, x2, y2; n to 32768
        scores           [images, n] or [n] f32; of equal ones the lower place comes first, NaN is out
        classes          optional, of scores' shape, int32
        lengths          optional [images] int32: how many boxes there are
        score_threshold  boxes whose score is not above it are out
        most             how many to keep at most; None: n
        ids              [images, most] or [most] int32: the kept boxes' places, then -1; None: allocated
        counts           [images] or [1] int32: how many are kept; None: allocated"""
        shape = shape_of(scores, "scores")
        ids = empty((*shape[:-1], shape[-1] if most is None else most), scores, "ids", "i32") if ids is None else ids
        counts = empty(shape[:-1] or (1,), scores, "counts", "i32") if counts is None else counts
        self.call(
            "nms", launch, boxes=_rows(boxes, "boxes", 3), scores=_rows(scores, "scores", 2),
            classes=_rows(classes, "classes", 2), lengths=lengths, ids=_rows(ids, "ids", 2), counts=counts,
            iou_threshold=iou_threshold, score_threshold=score_threshold,
        )  # fmt: skip
        return ids, counts
