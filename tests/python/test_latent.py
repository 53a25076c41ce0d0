# MLA decode, append and index scores from Python on the host target, NumPy in and out, against fp64 loops.
# SPDX-License-Identifier: Apache-2.0
import ml_dtypes
import numpy as np
import pytest
import quern

SCALE = 192**-0.5


class Case:
    """Two sequences of a small latent cache."""

    def __init__(self, rng, dtype=ml_dtypes.bfloat16, latent=64, rope=16, heads=5, page_size=8):
        self.latent, self.lengths = latent, np.array([37, 9], np.int32)
        self.q = rng.standard_normal((2, heads, latent + rope)).astype(dtype)
        self.cache = np.full((9, page_size, latent + rope), np.nan, dtype)
        self.table = np.full((2, 6), 1 << 30, np.int32)
        pages = iter(rng.permutation(9).astype(np.int32))
        self.keys = []
        for i, length in enumerate(self.lengths):
            keys = rng.standard_normal((length, latent + rope)).astype(dtype)
            for at in range(0, length, page_size):
                self.table[i, at // page_size] = page = next(pages)
                self.cache[page, : min(page_size, length - at)] = keys[at : at + page_size]
            self.keys.append(keys.astype(np.float64))

    def exactly(self, sequence, seen=None):
        keys = self.keys[sequence] if seen is None else self.keys[sequence][seen]
        logits = self.q[sequence].astype(np.float64) @ keys.T * SCALE
        weights = np.exp(logits - logits.max(-1, keepdims=True))
        lse = np.log(weights.sum(-1)) + logits.max(-1)
        return weights / weights.sum(-1, keepdims=True) @ keys[:, : self.latent], lse


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16])
def test_matches_its_definition(context, rng, dtype):
    case = Case(rng, dtype)
    out, lse = context.mla_decode(
        case.q,
        case.cache,
        scale=SCALE,
        d_latent=case.latent,
        lengths=case.lengths,
        page_table=case.table,
        return_lse=True,
    )
    assert out.dtype == dtype and out.shape == (2, 5, case.latent)
    for i in range(2):
        exact, exact_lse = case.exactly(i)
        np.testing.assert_allclose(out[i].astype(np.float64), exact, atol=0.03)
        np.testing.assert_allclose(lse[i], exact_lse, atol=1e-4)


def test_lists_of_keys(context, rng):
    case = Case(rng)
    indices = np.array([[3, -1, 20, 36], [8, 0, -1, -1]], np.int32)
    out = context.mla_decode(
        case.q,
        case.cache,
        scale=SCALE,
        d_latent=case.latent,
        lengths=case.lengths,
        page_table=case.table,
        indices=indices,
    )
    for i in range(2):
        exact, _ = case.exactly(i, indices[i][indices[i] >= 0])
        np.testing.assert_allclose(out[i].astype(np.float64), exact, atol=0.03)


def test_two_tensors_give_what_one_gives(context, rng):
    case = Case(rng)
    arguments = {"scale": SCALE, "lengths": case.lengths, "page_table": case.table}
    one = context.mla_decode(case.q, case.cache, d_latent=case.latent, **arguments)
    q, q_rope = (np.ascontiguousarray(part) for part in np.split(case.q, [case.latent], -1))
    two = context.mla_decode(
        q,
        case.cache[..., : case.latent],
        q_rope=q_rope,
        cache_rope=case.cache[..., case.latent :],
        **arguments,
    )
    np.testing.assert_array_equal(one, two)


def test_refusals(context, rng):
    case = Case(rng)
    with pytest.raises(quern.InvalidError, match="lengths"):
        context.mla_decode(case.q, case.cache, scale=SCALE, d_latent=case.latent, page_table=case.table)
    with pytest.raises(quern.InvalidError, match="page_table"):
        table = case.table.copy()
        table[1, 0] = 77
        context.mla_decode(
            case.q,
            case.cache,
            scale=SCALE,
            d_latent=case.latent,
            lengths=case.lengths,
            page_table=table,
        )


def turned(x, positions, theta=10000.0):
    half = x.shape[-1] // 2
    angle = positions[:, None] * theta ** (-np.arange(half) / half)
    cos, sin = (f(angle).reshape((len(x),) + (1,) * (x.ndim - 2) + (half,)) for f in (np.cos, np.sin))
    a, b = x[..., :half].astype(np.float64), x[..., half:].astype(np.float64)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


@pytest.mark.parametrize("kind", ["plain", "e4m3", "rows_656"])
def test_append(context, rng, kind):
    tokens, latent, rope = 5, 512, 64
    bf16 = ml_dtypes.bfloat16
    kv = rng.standard_normal((tokens, latent + rope)).astype(bf16)
    weight = rng.standard_normal(latent).astype(bf16)
    q_rope = rng.standard_normal((tokens, 3, rope)).astype(bf16)
    positions, slots = np.arange(7, 7 + tokens, dtype=np.int32), np.array([3, 17, -1, 9, 0], np.int32)
    dtype = {"plain": bf16, "e4m3": ml_dtypes.float8_e4m3fn, "rows_656": np.uint8}[kind]
    cache = np.zeros((3, 8, 656 if kind == "rows_656" else latent + rope), dtype)
    scale = np.zeros((3, 8), np.float32) if kind == "e4m3" else None
    turned_q = np.empty_like(q_rope)
    given = context.mla_append(
        kv,
        cache,
        weight=weight,
        cache_scale=scale,
        cache_type="rows_656" if kind == "rows_656" else None,
        slots=slots,
        positions=positions,
        q_rope=q_rope,
        q_rope_out=turned_q,
        eps=1e-6,
        theta=10000.0,
    )
    assert given is turned_q
    x = kv.astype(np.float64)
    norm = x[:, :latent] / np.sqrt((x[:, :latent] ** 2).mean(-1, keepdims=True) + 1e-6) * weight.astype(np.float64)
    exact = np.concatenate([norm, turned(kv[:, latent:], positions)], -1)
    for t, slot in enumerate(slots):
        if slot < 0:
            continue
        row = cache[slot // 8, slot % 8]
        if kind == "rows_656":
            codes = row[:512].view(ml_dtypes.float8_e4m3fn).astype(np.float64).reshape(4, 128)
            numbers = (codes * row[512:528].view(np.float32)[:, None]).reshape(-1)
            numbers = np.concatenate([numbers, row[528:].view(bf16).astype(np.float64)])
        else:
            numbers = row.astype(np.float64) * (1.0 if scale is None else scale[slot // 8, slot % 8])
        np.testing.assert_allclose(numbers, exact[t], atol=np.abs(exact[t]).max() / (256 if kind == "plain" else 25))
        np.testing.assert_allclose(turned_q[t].astype(np.float64), turned(q_rope, positions)[t], atol=0.03)


def test_append_refusals(context, rng):
    kv, cache = np.zeros((2, 80), np.float16), np.zeros((2, 4, 80), np.float16)
    with pytest.raises(quern.InvalidError, match=r"slots\[1\]"):
        context.mla_append(kv, cache, d_rope=16, slots=np.array([0, 8], np.int32))
    cache.flags.writeable = False
    with pytest.raises(quern.InvalidError, match="cache"):
        context.mla_append(kv, cache, d_rope=16, slots=np.array([0, 1], np.int32))


@pytest.mark.parametrize("ragged", [False, True])
def test_index_scores(context, rng, ragged):
    e4m3, heads, dim = ml_dtypes.float8_e4m3fn, 8, 64
    lengths, cu_q = np.array([37, 9], np.int32), np.array([0, 2, 5], np.int32)
    q = rng.standard_normal((5, heads, dim)).astype(e4m3)
    weights = rng.standard_normal((5, heads)).astype(np.float32)
    keys = [rng.standard_normal((length, dim)).astype(e4m3) for length in lengths]
    scales = [rng.uniform(0.5, 2.0, length).astype(np.float32) for length in lengths]
    if ragged:
        given = {"k": np.concatenate(keys), "k_scale": np.concatenate(scales)}
        given["cu_kv"] = np.array([0, 37, 46], np.int32)
    else:
        table = np.array([[4, 1, 0], [2, 1 << 20, 1 << 20]], np.int32)
        k, k_scale = np.zeros((5, 16, dim), e4m3), np.zeros((5, 16), np.float32)
        for s in range(2):
            for j in range(lengths[s]):
                k[table[s, j // 16], j % 16], k_scale[table[s, j // 16], j % 16] = keys[s][j], scales[s][j]
        given = {"k": k, "k_scale": k_scale, "page_table": table}
    out = context.index_scores(q, weights, lengths=lengths, cu_q=cu_q, causal=True, **given)
    assert out.shape == (5, 46 if ragged else 48)
    for token in range(5):
        s = int(token >= 2)
        seen = lengths[s] - (cu_q[s + 1] - cu_q[s]) + token - cu_q[s] + 1
        dots = q[token].astype(np.float64) @ keys[s].astype(np.float64).T
        exact = weights[token].astype(np.float64) @ np.maximum(dots, 0) * scales[s]
        np.testing.assert_allclose(out[token, :seen], exact[:seen], rtol=1e-4, atol=1e-3)
        assert np.all(out[token, seen:] == -np.inf)


def test_sparse_attention_as_deepseek_v32_has_it(context, rng):
    """Tokens into both caches, the indexer's scores, the keys with the largest, attention over these alone."""
    latent, rope, heads, index_heads, index_dim, page, top = 64, 16, 5, 4, 32, 8, 8
    lengths = np.array([37, 9], np.int32)
    table = np.array([[4, 1, 0, 8, 6], [2, 3, 1 << 20, 1 << 20, 1 << 20]], np.int32)
    total, cu = int(lengths.sum()), np.array([0, 37, 46], np.int32)
    kv = rng.standard_normal((total, latent + rope)).astype(ml_dtypes.bfloat16)
    keys = rng.standard_normal((total, index_dim)).astype(ml_dtypes.bfloat16)
    cache = np.zeros((9, page, latent + rope), ml_dtypes.bfloat16)
    index_cache = np.zeros((9, page, index_dim), ml_dtypes.float8_e4m3fn)
    index_scale = np.zeros((9, page), np.float32)
    places = {"page_table": table, "cu_q": cu, "lengths": lengths}
    context.mla_append(kv, cache, d_rope=rope, **places)
    context.mla_append(keys, index_cache, d_rope=0, cache_scale=index_scale, power_of_two=True, **places)

    q = rng.standard_normal((2, heads, latent + rope)).astype(ml_dtypes.bfloat16)
    index_q = rng.standard_normal((2, index_heads, index_dim)).astype(ml_dtypes.float8_e4m3fn)
    weights = rng.uniform(0.1, 1, (2, index_heads)).astype(np.float32)
    scores = context.index_scores(
        index_q, weights, index_cache, k_scale=index_scale, lengths=lengths, page_table=table, leave_masked=True
    )
    chosen = context.top_k(scores, top, lengths=lengths, values=False)
    out = context.mla_decode(
        q, cache, scale=SCALE, d_latent=latent, lengths=lengths, page_table=table, indices=chosen
    )  # fmt: skip
    for i in range(2):
        rows = table[i, np.arange(lengths[i]) // page] * page + np.arange(lengths[i]) % page
        of = index_cache.reshape(-1, index_dim)[rows].astype(np.float64) * index_scale.reshape(-1)[rows, None]
        exact = weights[i] @ np.maximum(index_q[i].astype(np.float64) @ of.T, 0)
        best = np.argsort(-exact, kind="stable")[:top]
        assert set(chosen[i]) == set(best)
        seen = cache.reshape(-1, latent + rope)[rows[best]].astype(np.float64)
        logits = q[i].astype(np.float64) @ seen.T * SCALE
        attention = np.exp(logits - logits.max(-1, keepdims=True))
        attention /= attention.sum(-1, keepdims=True)
        np.testing.assert_allclose(out[i].astype(np.float64), attention @ seen[:, :latent], atol=0.03)
