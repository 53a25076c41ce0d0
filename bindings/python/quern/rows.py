# Rows of tables, making the outputs that are not given.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

from .arrays import empty, shape_of
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
            "gather", table=table, ids=ids, out=out, scale=scale, first=first,
            padding=0 if padding is None else padding, has_padding=padding is not None, shard=shard, **launch,
        )  # fmt: skip
        return out
