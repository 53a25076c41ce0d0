# What goes into a paged cache: rotary positions, new tokens' keys and values, copies of pages.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

from .arrays import empty, shape_of
from .ops import Ops


class CachePages(Ops):
    """Mixed into Context. Of what every op takes besides see Ops."""

    def rope(
        self,
        q: Any,
        k: Any = None,
        *,
        positions: Any,
        in_place: bool = False,
        q_out: Any = None,
        k_out: Any = None,
        **rope: Any,
    ) -> Any:
        """Turns q and k, each head by its token's position; returns q_out, or (q_out, k_out) with k.

        q, k          [tokens, heads, d] and [tokens, kv_heads, d], f16, bf16 or f32
        positions     [tokens] int32 or int64
        in_place      q and k are written over
        q_out, k_out  as q and k; None: allocated by q's framework
        The rest are the fields of quern_rope_options: interleaved=True, scaling ("linear", "ntk", "yarn", "llama3"),
        rotary_dim, theta, factor, attention_factor, low_freq_factor, high_freq_factor, beta_fast, beta_slow,
        original_positions, exact_ramp, table."""
        if not in_place:
            q_out = empty(shape_of(q, "q", 3), q, "q_out") if q_out is None else q_out
            if k is not None and k_out is None:
                k_out = empty(shape_of(k, "k", 3), k, "k_out")
        self.call("rope", q=q, k=k, q_out=q_out, k_out=k_out, positions=positions, **rope)
        q_out, k_out = (q if q_out is None else q_out), (k if k_out is None else k_out)
        return q_out if k is None else (q_out, k_out)

    def kv_append(
        self,
        k: Any,
        v: Any,
        k_cache: Any,
        v_cache: Any,
        *,
        slots: Any = None,
        page_table: Any = None,
        page_indptr: Any = None,
        page_indices: Any = None,
        cu_q: Any = None,
        lengths: Any = None,
        positions: Any = None,
        k_scale: Any = None,
        v_scale: Any = None,
        q: Any = None,
        q_out: Any = None,
        q_scale: Any = None,
        q_weight: Any = None,
        k_weight: Any = None,
        **rope: Any,
    ) -> Any:
        """Puts new tokens' keys and values into a paged cache: normalised where weights are given, turned where a field
        of rope is, quantised where the cache has 8 bits. Returns q_out (q itself where it is not given), or None
        without q.

        k, v          [tokens, kv_heads, d], f16, bf16 or f32
        k_cache, v_cache    [pages, page_size, kv_heads, d], k's element type, e4m3, e5m2 (bytes with kv_type="e4m3") or
                      int8
        slots         [tokens] int32 or int64: page * page_size + place; a negative one is skipped; or
        page_table    [batch, max_pages] int32, or page_indptr with page_indices; cu_q [batch+1] int32 says which tokens
                      are whose (None: one each), and positions or lengths [batch] int32 where they go
        positions     [tokens] int32 or int64; with slots and rope they must be given
        k_scale, v_scale    f32: [1] or [kv_heads], read; or [pages, page_size, kv_heads], written; None: 1
        q, q_out      [tokens, heads, d]: normalised and turned too; q_out may be e4m3 or e5m2 with q_scale ([1] or
                      [heads], read; [tokens, heads], written); None: q is written over
        q_weight, k_weight    [d]: of RMS norms over each head, with eps; weight_plus_one=True multiplies by 1 + weight
        The rest are the fields of quern_rope_options, see rope; scaling="plain" is rope with nothing else to say."""
        self.call(
            "kv_append", k=k, v=v, k_cache=k_cache, v_cache=v_cache, slots=slots, page_table=page_table,
            page_indptr=page_indptr, page_indices=page_indices, cu_q=cu_q, lengths=lengths, positions=positions,
            k_scale=k_scale, v_scale=v_scale, q=q, q_out=q_out, q_scale=q_scale, q_weight=q_weight, k_weight=k_weight,
            **rope,
        )  # fmt: skip
        return q if q_out is None else q_out

    def kv_copy_pages(
        self,
        k: Any,
        v: Any,
        sources: Any,
        destinations: Any,
        *,
        k_to: Any = None,
        v_to: Any = None,
        k_scale: Any = None,
        v_scale: Any = None,
        k_scale_to: Any = None,
        v_scale_to: Any = None,
        **launch: Any,
    ) -> None:
        """Copies page sources[i] of k and v to page destinations[i] of k_to and v_to, with their per-token scales.

        k, v          [pages, page_size, kv_heads, d], any element type of a cache; of a latent cache k is
                      [pages, page_size, d], its scales [pages, page_size], and v None
        k_to, v_to    other pools of the same page shape; None: k and v themselves
        k_scale, v_scale    [pages, page_size, kv_heads] f32: copied too, to k_scale_to and v_scale_to or within
        sources, destinations    [pairs] int32 or int64; pairs with a negative number are skipped"""
        self.call(
            "kv_copy_pages", launch, k=k, v=v, sources=sources, destinations=destinations, k_to=k_to, v_to=v_to,
            k_scale=k_scale, v_scale=v_scale, k_scale_to=k_scale_to, v_scale_to=v_scale_to,
        )  # fmt: skip
