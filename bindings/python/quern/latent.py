# Latent attention (DeepSeek's MLA), making the outputs that are not given.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

from .arrays import empty, shape_of
from .ops import Ops


class Latent(Ops):
    """Mixed into Context."""

    def mla_decode(
        self,
        q: Any,
        cache: Any,
        *,
        scale: float,
        lengths: Any = None,
        q_rope: Any = None,
        cache_rope: Any = None,
        cache_scale: Any = None,
        cache_type: str | int | None = None,
        d_latent: int | None = None,
        cu_q: Any = None,
        page_table: Any = None,
        page_indptr: Any = None,
        page_indices: Any = None,
        indices: Any = None,
        slots: bool = False,
        max_q_len: int | None = None,
        max_kv_len: int | None = None,
        causal: bool = False,
        window_left: int | None = None,
        window_right: int | None = None,
        logit_cap: float | None = None,
        sinks: Any = None,
        status: Any = None,
        out: Any = None,
        lse: Any = None,
        return_lse: bool = False,
        **launch: Any,
    ) -> Any:
        """Attention over a latent cache in its absorbed form; returns out, or (out, lse) where lse was given or asked
        for. All heads see the same keys, whose first d_latent numbers are the values too.

        q             [total_q, heads, d_latent + d_rope], f16 or bf16, last stride 1; or d_latent alone with q_rope
                      [total_q, heads, d_rope]
        cache         [pages, page_size, d_latent + d_rope], q's element type or e4m3, last stride 1; or d_latent alone
                      with cache_rope [pages, page_size, d_rope]
        scale         of the logits: 1/sqrt of the head dim before absorption, 192**-0.5 for DeepSeek-V3
        cache_scale   e4m3: [1] f32, or one a token, [pages, page_size]
        cache_type    what a uint8 cache holds: "e4m3", or "rows_656" (512 e4m3, 4 f32 scales, 64 bf16)
        d_latent      None: out's last extent where it is given, q's where q_rope is, else 512 of q's
        lengths       [batch] int32: keys of each sequence, this call's tokens included
        cu_q          [batch+1] int32: where each sequence's queries begin; None: one query each
        page_table    [batch, max_pages] int32, or page_indptr [batch+1] with page_indices, int32
        indices       [total_q, top_k] int32: the keys that each query sees, by their positions in its sequence, -1
                      skipped; with slots=True by their places in the pool, page * page_size + slot: then there are no
                      lengths, cu_q and pages
        max_q_len     no sequence has more queries; None: 1 without cu_q, else total_q
        max_kv_len    no sequence has more keys; None: as many as the page table has room for
        causal, window_left, window_right, logit_cap, sinks    as in attention
        status        [1] int32: bits of quern_mla_status are or-ed into it
        out           [total_q, heads, d_latent], q's element type; None: allocated by q's framework (rows past the last
                      sequence's stay unset)
        lse           [total_q, heads] f32, natural logarithm; None: allocated where return_lse is True"""
        tokens, heads, width = shape_of(q, "q", 3)
        if out is None:
            if d_latent is None:
                d_latent = width if q_rope is not None else 512
            out = empty((tokens, heads, d_latent), q, "out")
        if lse is None and return_lse:
            lse = empty((tokens, heads), q, "lse", "float32")
        if max_kv_len is None and not slots:
            page_size = shape_of(cache, "cache", 3)[1]
            if page_table is not None:
                max_kv_len = shape_of(page_table, "page_table", 2)[1] * page_size
            elif page_indices is not None:
                max_kv_len = shape_of(page_indices, "page_indices", 1)[0] * page_size
        self.call(
            "mla_decode", launch, q=q, q_rope=q_rope, cache=cache, cache_rope=cache_rope, cache_scale=cache_scale,
            cache_type=cache_type, out=out, lse=lse, lengths=lengths, cu_q=cu_q, page_table=page_table,
            page_indptr=page_indptr, page_indices=page_indices, indices=indices, slots=slots, sinks=sinks,
            max_q_len=max_q_len, max_kv_len=max_kv_len, window_left=window_left, window_right=window_right, scale=scale,
            status=status, logit_cap=logit_cap, causal=causal,
        )  # fmt: skip
        return out if lse is None else (out, lse)

    def mla_append(
        self,
        kv: Any,
        cache: Any,
        *,
        weight: Any = None,
        k_rope: Any = None,
        d_rope: int | None = None,
        cache_rope: Any = None,
        cache_scale: Any = None,
        cache_type: str | int | None = None,
        slots: Any = None,
        page_table: Any = None,
        page_indptr: Any = None,
        page_indices: Any = None,
        cu_q: Any = None,
        lengths: Any = None,
        positions: Any = None,
        q_rope: Any = None,
        q_rope_out: Any = None,
        kv_out: Any = None,
        k_rope_out: Any = None,
        status: Any = None,
        power_of_two: bool = False,
        **rope: Any,
    ) -> Any:
        """Puts new tokens into a latent cache as mla_decode reads it: the latent normalised where a weight is given,
        the rope parts turned where a field of rope is, both quantised as the cache has it. Returns q_rope_out (q_rope
        itself where it is not given), or None without q_rope.

        kv            [tokens, d_latent + d_rope], f16 or bf16, last stride 1; or d_latent alone with k_rope
                      [tokens, d_rope]
        d_rope        how many of kv's last numbers are the rope part, without k_rope; None: 64
        weight        [d_latent], kv's element type or f32: of an RMS norm, with eps
        cache         [pages, page_size, d_latent + d_rope], kv's element type or e4m3 (bytes with cache_type="e4m3");
                      or d_latent alone with cache_rope [pages, page_size, d_rope]; or rows of 656 bytes with
                      cache_type="rows_656"
        cache_scale   e4m3: [1] f32, read, or [pages, page_size], written; power_of_two rounds what is found up
        slots         [tokens] int32 or int64: page * page_size + place; a negative one is skipped; or
        page_table    [batch, max_pages] int32, or page_indptr with page_indices; cu_q [batch+1] int32 says which tokens
                      are whose (None: one each), and positions or lengths [batch] int32 where they go
        positions     [tokens] int32 or int64; with slots and rope they must be given
        q_rope, q_rope_out    [tokens, heads, d_rope]: the queries' rope parts, turned too; None: written over
        kv_out, k_rope_out    as kv and k_rope: what is stored, before it is quantised; may be kv and k_rope
        status        [1] int32: bits of quern_mla_status are or-ed into it
        The rest are the fields of quern_rope_options, see rope; scaling="plain" is rope with nothing else to say."""
        if d_rope is None and k_rope is None:
            d_rope = 64
        self.call(
            "mla_append", kv=kv, k_rope=k_rope, weight=weight, cache=cache, cache_rope=cache_rope,
            cache_scale=cache_scale, cache_type=cache_type, d_rope=d_rope, slots=slots, page_table=page_table,
            page_indptr=page_indptr, page_indices=page_indices, cu_q=cu_q, lengths=lengths, positions=positions,
            q_rope=q_rope, q_rope_out=q_rope_out, kv_out=kv_out, k_rope_out=k_rope_out, status=status,
            power_of_two=power_of_two, **rope,
        )  # fmt: skip
        return q_rope if q_rope_out is None else q_rope_out

    def index_scores(
        self,
        q: Any,
        weights: Any,
        k: Any,
        *,
        lengths: Any,
        q_scale: Any = None,
        k_scale: Any = None,
        cu_q: Any = None,
        page_table: Any = None,
        page_indptr: Any = None,
        page_indices: Any = None,
        cu_kv: Any = None,
        max_q_len: int | None = None,
        columns: int | None = None,
        q_type: str | int | None = None,
        causal: bool = False,
        leave_masked: bool = False,
        status: Any = None,
        out: Any = None,
        **launch: Any,
    ) -> Any:
        """What DeepSeek-V3.2's indexer gives each key: the sum over heads h of
        weights[i, h] * q_scale[i, h] * max(q[i, h] . k[j], 0) * k_scale[j] for the keys j that query i of a sequence
        sees, -inf in the other columns of out, which is returned.

        q             [total_q, heads, d], e4m3 or e5m2 (bytes with q_type="e4m3"), last stride 1
        weights       [total_q, heads] f32
        k             paged: [pages, page_size, d]; ragged, with cu_kv: [total_kv, d]; q's element type
        q_scale       [1] or [total_q, heads] f32; None: 1
        k_scale       [1] f32, or k's shape without its last dimension; None: 1
        lengths       [batch] int32: keys of each sequence, this call's tokens included
        cu_q          [batch+1] int32: where each sequence's queries begin; None: one query each
        page_table    [batch, max_pages] int32, or page_indptr [batch+1] with page_indices, int32
        cu_kv         [batch+1] int32: where each sequence's keys begin
        max_q_len     no sequence has more queries; None: 1 without cu_q, else total_q
        columns       of out where it is allocated: no sequence has more keys; None: as many as pages or k have room for
        causal        query i of a sequence sees keys j <= length - q_len + i
        leave_masked  columns that a query does not see may keep what was there
        status        [1] int32: bits of quern_mla_status are or-ed into it
        out           [total_q, columns] f32; None: allocated by q's framework (rows past the last sequence's stay
                      unset)"""
        if out is None:
            if columns is None and cu_kv is not None:
                columns = shape_of(k, "k", 2)[0]
            elif columns is None:
                listed = page_table if page_table is not None else page_indices
                pages = 0 if listed is None else shape_of(listed, "pages", 2 if page_table is not None else 1)[-1]
                columns = pages * shape_of(k, "k", 3)[1]
            out = empty((shape_of(q, "q", 3)[0], columns), q, "out", "float32")
        self.call(
            "index_scores", launch, q=q, q_scale=q_scale, weights=weights, k=k, k_scale=k_scale, out=out,
            lengths=lengths, cu_q=cu_q, page_table=page_table, page_indptr=page_indptr, page_indices=page_indices,
            cu_kv=cu_kv, status=status, max_q_len=max_q_len, q_type=q_type, causal=causal, leave_masked=leave_masked,
        )  # fmt: skip
        return out
