# Attention and what goes with it, making the outputs that are not given.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

from .arrays import element, empty, empty_scales, shape_of
from .ops import Ops


class Attention(Ops):
    """Mixed into Context."""

    def attention(
        self,
        q: Any,
        k: Any,
        v: Any,
        *,
        lengths: Any,
        cu_q: Any = None,
        page_table: Any = None,
        page_indptr: Any = None,
        page_indices: Any = None,
        cu_kv: Any = None,
        max_q_len: int | None = None,
        max_kv_len: int | None = None,
        causal: bool = False,
        window_left: int | None = None,
        window_right: int | None = None,
        scale: float | None = None,
        logit_cap: float | None = None,
        alibi_slopes: Any = None,
        sinks: Any = None,
        q_scale: Any = None,
        k_scale: Any = None,
        v_scale: Any = None,
        mask: Any = None,
        mask_indptr: Any = None,
        mask_keys: Any = None,
        out: Any = None,
        out_dtype: object | None = None,
        out_scale: Any = None,
        lse: Any = None,
        return_lse: bool = False,
        **launch: Any,
    ) -> Any:
        """Attention of ragged queries over a paged or ragged KV cache; returns out, or (out, lse) where lse was given
        or asked for; of 8 bits (out, out_scale) or (out, out_scale, lse).

        q             [total_q, heads, d_k], f16, bf16, e4m3 or e5m2 (bytes with q_type="e4m3"), last stride 1; d are
                      multiples of 8 up to 1024, those above 256 for 16 bits
        k, v          paged: [pages, page_size, kv_heads, d]; ragged: [total_kv, kv_heads, d]; last stride 1; out's
                      element type, e4m3, e5m2 (bytes with kv_type="e4m3") or int8
        lengths       [batch] int32: keys of each sequence, this call's tokens included
        cu_q          [batch+1] int32: where each sequence's queries begin; None: one query each
        page_table    paged: [batch, max_pages] int32, or page_indptr [batch+1] with page_indices, int32
        cu_kv         ragged: [batch+1] int32
        max_q_len     no sequence has more queries; None: 1 without cu_q, else total_q
        max_kv_len    no sequence has more keys; None: as many as the page table or k have room for
        causal        query i of a sequence sees keys j <= length - q_len + i
        window_left, window_right    ... and p - left <= j <= p + right, p = length - q_len + i; None: no limit
        scale         of the logits; None: 1/sqrt(d_k)
        logit_cap     c: logits become c * tanh(logit / c)
        alibi_slopes  [heads] f32
        sinks         [heads] f32: a logit a head that takes weight and gives no value
        q_scale       of q of 8 bits, f32: [1], [heads] or [total_q, heads]; None: 1
        k_scale, v_scale    of k and v of 8 bits, f32: [1], [kv_heads], or their shapes without the last dimension
        mask          uint8, bits of the last mask_keys[b] keys of each sequence, a row a query, its lowest bit first;
                      mask_indptr [batch+1] int32 are the bytes where the sequences' rows begin; mask_keys [batch] int32
        out           [total_q, heads, d_v], f16 or bf16; None: allocated by q's framework with elements of out_dtype,
                      None: q's (rows past the last sequence's stay unset). With d_v 128 or 256 also e4m3 or e5m2
                      (bytes with out_type="e4m3")
        out_scale     of out of 8 bits: [total_q, heads * d_v/128] f32, written; None: allocated
        lse           [total_q, heads] f32, natural logarithm; None: allocated where return_lse is True
        constant_past nothing that may still run writes lengths, cu_q, the pages' numbers, cu_kv, or what k, v and their
                      scales hold of earlier tokens: with programmatic=True they may be read early"""
        if out is None:
            out = empty((*shape_of(q, "q", 3)[:2], shape_of(v, "v")[-1]), q, "out", out_dtype)
        if out_scale is None and element(out, "out") in ("e4m3", "e5m2", "uint8"):
            rows, heads, dim = shape_of(out, "out", 3)
            out_scale = empty_scales((rows,), heads * dim // 128, out, "out_scale")
        if lse is None and return_lse:
            lse = empty(shape_of(q, "q", 3)[:2], q, "lse", "float32")
        if max_kv_len is None:
            max_kv_len = _room(k, page_table, page_indices)
        self.call(
            "attention", launch, q=q, k=k, v=v, out=out, lse=lse, lengths=lengths, cu_q=cu_q, page_table=page_table,
            page_indptr=page_indptr, page_indices=page_indices, cu_kv=cu_kv, alibi_slopes=alibi_slopes, sinks=sinks,
            max_q_len=max_q_len, max_kv_len=max_kv_len, window_left=window_left, window_right=window_right, scale=scale,
            logit_cap=logit_cap, causal=causal, q_scale=q_scale, k_scale=k_scale, v_scale=v_scale, mask=mask,
            mask_indptr=mask_indptr, mask_keys=mask_keys, out_scale=out_scale,
        )  # fmt: skip
        written = [x for x in (out, out_scale, lse) if x is not None]
        return written[0] if len(written) == 1 else tuple(written)

    def merge_state(
        self, out_a: Any, lse_a: Any, out_b: Any, lse_b: Any, *, out: Any = None, lse: Any = None, **launch: Any
    ) -> tuple[Any, Any]:
        """Joins two partial attention results over disjoint sets of keys; returns (out, lse).

        out_a, out_b  [rows, heads, d], f16, bf16 or f32, both the same
        lse_a, lse_b  [rows, heads] f32, natural logarithm; both -inf gives zeros and -inf
        out, lse      None: allocated by out_a's framework; out may be out_a or out_b"""
        if out is None:
            out = empty(shape_of(out_a, "out_a", 3), out_a, "out")
        if lse is None:
            lse = empty(shape_of(out_a, "out_a", 3)[:2], out_a, "lse", "float32")
        self.call("merge_state", launch, out_a=out_a, lse_a=lse_a, out_b=out_b, lse_b=lse_b, out=out, lse=lse)
        return out, lse

    def merge_states(
        self, parts: Any, part_lses: Any, *, out: Any = None, lse: Any = None, **launch: Any
    ) -> tuple[Any, Any]:
        """Joins any number of partial attention results over disjoint sets of keys; returns (out, lse).

        parts      [parts, rows, heads, d], f16, bf16 or f32
        part_lses  [parts, rows, heads] f32, natural logarithm; parts of -inf count nothing
        out, lse   [rows, heads, d] and [rows, heads]; None: allocated by parts' framework"""
        if out is None:
            out = empty(shape_of(parts, "parts", 4)[1:], parts, "out")
        if lse is None:
            lse = empty(shape_of(parts, "parts", 4)[1:3], parts, "lse", "float32")
        self.call("merge_states", launch, parts=parts, part_lses=part_lses, out=out, lse=lse)
        return out, lse


def _room(k: Any, page_table: Any, page_indices: Any) -> int:
    """The most keys a sequence can have, as far as shapes tell: no device memory is read."""
    shape = shape_of(k, "k")
    if page_table is not None:
        return shape_of(page_table, "page_table", 2)[1] * shape[1]
    if page_indices is not None:
        return shape_of(page_indices, "page_indices", 1)[0] * shape[1]
    return shape[0]
