# Rows of tables, making the outputs that are not given.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

from .arrays import empty, shape_of, unwrap
from .errors import InvalidError
from .ops import Ops


class Rows(Ops):
    """Mixed into Context. Of what every op takes besides see Ops."""

    def gather(
        self,
        table: Any,
        ids: Any,
        *,
        scale: float = 1.0,
        first: int = 0,
        padding: int | None = None,
        shard: bool = False,
        dtype: object | None = None,
        out: Any = None,
        **launch: Any,
    ) -> Any:
        """out[i] = scale * table[ids[i] - first] by row: token embeddings. Returns out.

        table    [rows, n]; f16, bf16 or f32; as they are also e4m3, e5m2, int8, uint8, int32 and int64
        ids      [count] int32 or int64
        first    the id of the table's row 0
        padding  an id whose rows are zeros
        shard    ids outside of the table give zeros: they are another shard's
        dtype    out's element type: table's by default; f16, bf16 or f32
        out      [count, n]; None: allocated by table's framework"""
        if out is None:
            out = empty((*shape_of(ids, "ids", 1), shape_of(table, "table", 2)[1]), table, "out", dtype)
        self.call(
            "gather", launch, table=table, ids=ids, out=out, scale=scale, first=first,
            padding=0 if padding is None else padding, has_padding=padding is not None, shard=shard,
        )  # fmt: skip
        return out

    def scatter(
        self,
        x: Any,
        ids: Any,
        out: Any = None,
        *,
        rows: int | None = None,
        add: bool = False,
        scale: float = 1.0,
        first: int = 0,
        padding: int | None = None,
        shard: bool = False,
        unique: bool = False,
        dtype: object | None = None,
        **launch: Any,
    ) -> Any:
        """out[ids[i] - first] = scale * x[i] by row, or with `add` += : gather's mirror, and its gradient. Where an id
        comes more than once the last of its rows stands, or all of them are added, in the order of their places: the
        same bits in every run. Returns out.

        x        [count, n]; f16, bf16 or f32; where it is not added also e4m3, e5m2, int8, uint8, int32 and int64
        ids      [count] int32 or int64
        out      [rows, n]; rows that no id names are untouched. None: zeros of x's framework, `rows` of them
        first    the id of out's row 0
        padding  an id whose rows are passed over
        shard    ids outside of out are passed over: they are another shard's
        unique   no id comes twice: one launch, without a workspace
        dtype    out's element type where it is made: x's by default; f16, bf16 or f32"""
        if out is None:
            if rows is None:
                raise InvalidError(
                    "out: None given without `rows`; allowed is an array, or how many rows it is to have"
                )
            out = empty((rows, shape_of(x, "x", 2)[1]), x, "out", dtype)
            unwrap(out)[...] = 0
        self.call(
            "scatter", launch, x=x, ids=ids, out=out, scale=scale, first=first,
            padding=0 if padding is None else padding, has_padding=padding is not None, add=add, shard=shard,
            unique=unique,
        )  # fmt: skip
        return out
