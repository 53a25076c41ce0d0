# What stands beside the sampler, from Python: the outputs that are made, arrays and scalars, what is refused.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest
import quern


def rows(n: int, vocab: int) -> np.ndarray:
    return (3 * np.random.default_rng(n).standard_normal((n, vocab))).astype(np.float32)


def softmax(x: np.ndarray, t: np.ndarray | float = 1.0) -> np.ndarray:
    z = x.astype(np.float64) / t
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def test_softmax_by_row_and_in_place(context: quern.Context) -> None:
    x, t = rows(4, 777), np.array([1.0, 0.5, 2.0, 0.0], np.float32)
    status = np.full(4, 9, np.int32)
    out = context.softmax(x, temperature=t, status=status)
    np.testing.assert_allclose(out[:3], softmax(x[:3], t[:3, None]), rtol=1e-5)
    assert out[3].argmax() == x[3].argmax() and out[3].sum() == 1
    assert (status == 0).all()
    np.testing.assert_allclose(context.softmax(x, log=True, temperature=0.7), np.log(softmax(x, 0.7)), atol=1e-4)
    again = x.copy()
    assert context.softmax(again, out=again) is again
    np.testing.assert_allclose(again, softmax(x), rtol=1e-5)
    half = context.softmax(x.astype(np.float16), dtype="f16")
    assert half.dtype == np.float16


def test_argmax(context: quern.Context) -> None:
    x = rows(5, 1000)
    x[2] = np.nan
    x[3, 17] = x[3, 800] = 99
    ids, values = context.argmax(x, values=True)
    assert ids.tolist() == [x[0].argmax(), x[1].argmax(), -1, 17, x[4].argmax()]
    assert np.isnan(values[2]) and values[3] == 99
    wide = np.empty(5, np.int64)
    assert context.argmax(x, ids=wide) is wide
    np.testing.assert_array_equal(wide, ids)


def test_top_k(context: quern.Context) -> None:
    x = np.round(rows(3, 500))
    order = np.argsort(-x, axis=1, kind="stable")[:, :20]
    ids, values = context.top_k(x, 20, sorted=True)
    np.testing.assert_array_equal(ids, order)
    np.testing.assert_array_equal(values, np.take_along_axis(x, order, 1))
    np.testing.assert_array_equal(context.top_k(x, 20, values=False), np.sort(order, 1))
    short = context.top_k(x, 4, lengths=np.array([0, 2, 500], np.int32), values=False)
    assert short[:2].tolist() == [[-1] * 4, [0, 1, -1, -1]]
    given = np.empty((3, 7), np.int32)
    assert context.top_k(x, ids=given)[0] is given


def test_renormalise(context: quern.Context) -> None:
    probs = softmax(rows(3, 300)).astype(np.float32)
    kept = context.renormalise(probs, top_k=np.array([1, 5, 0], np.int32), top_p=0.8)
    assert (kept > 0).sum(1)[0] == 1 and (kept > 0).sum(1)[1] <= 5
    np.testing.assert_allclose(kept.sum(1), 1, rtol=1e-5)
    order = np.argsort(-probs[2], kind="stable")
    count = int((np.cumsum(probs[2][order].astype(np.float64)) < 0.8 * probs[2].sum(dtype=np.float64)).sum()) + 1
    np.testing.assert_array_equal(np.sort(np.flatnonzero(kept[2])), np.sort(order[:count]))
    least = context.renormalise(probs, min_p=0.5)
    np.testing.assert_array_equal(least > 0, probs >= np.float32(0.5) * probs.max(1, keepdims=True))


def test_verify_draft(context: quern.Context) -> None:
    logits = rows(2 * 4, 200).reshape(2, 4, 200)
    best = logits.argmax(-1).astype(np.int32)
    drafts = best[:, :3].copy()
    drafts[1, 1] = (drafts[1, 1] + 1) % 200
    verified = context.verify_draft(logits, drafts, greedy=True, logits=True)
    assert verified.accepted.tolist() == [3, 1]
    assert verified.ids.tolist() == [best[0].tolist(), [best[1, 0], best[1, 1], -1, -1]]
    assert verified.path.tolist() == [[0, 1, 2], [0, -1, -1]]
    offsets = np.array([5, 6], np.int64)
    target = softmax(logits).astype(np.float32)
    sampled = context.verify_draft(target, drafts, target[:, :3].copy(), depth=2, offset=offsets, seed=3)
    assert sampled.accepted.tolist() == [2, 2] and sampled.ids.shape == (2, 3)
    assert offsets.tolist() == [6, 7]


def test_verify_draft_edits_as_sample_does(context: quern.Context) -> None:
    logits = rows(2 * 4, 200).reshape(2, 4, 200)
    allowed = np.full((2, 4, 7), -1, np.int32)
    allowed[1, 0, 3:] = 0
    counts = np.zeros((2, 200), np.int32)
    counts[:, 5:9] = 2
    given = {"repetition": 1.3, "presence": np.array([0.4, 0.1], np.float32), "frequency": 0.2}
    drafts, logprobs, seen = np.zeros((2, 3), np.int32), np.zeros((2, 4), np.float32), counts.copy()
    for i in range(4):
        drawn = context.sample(
            logits[:, i].copy(),
            temperature=0.0,
            output_counts=seen,
            allowed=allowed[:, i].copy(),
            logprobs=True,
            **given,
        )
        if i < 3:
            drafts[:, i] = drawn.ids
        logprobs[:, i] = drawn.logprobs
    verified = context.verify_draft(
        logits, drafts, logits=True, greedy=True, output_counts=counts, allowed=allowed, logprobs=True, **given
    )
    assert verified.accepted.tolist() == [3, 3]
    np.testing.assert_array_equal(verified.ids[:, :3], drafts)
    np.testing.assert_allclose(verified.logprobs, logprobs, atol=3e-5)
    np.testing.assert_array_equal(counts, seen)
    assert context.verify_draft(logits, drafts, logits=True).logprobs is None


def test_refusals(context: quern.Context) -> None:
    x = rows(2, 8)
    with pytest.raises(quern.InvalidError, match="temperature"):
        context.softmax(x, temperature=-1.0)
    with pytest.raises(quern.InvalidError, match=r"ids.shape\[1\]"):
        context.top_k(x, 4096)
    with pytest.raises(quern.InvalidError, match="top_p"):
        context.renormalise(x, top_p=1.5)
    with pytest.raises(quern.InvalidError, match="top_ks"):
        context.renormalise(x, top_k=np.ones(3, np.int32))
    for given in ({"temperature": 0.5}, {"logprobs": True}, {"banned": np.zeros((2, 1), np.int32)}):
        with pytest.raises(quern.InvalidError, match="QUERN_VERIFY_LOGITS"):
            context.verify_draft(x[:, None].repeat(2, 1), np.zeros((2, 1), np.int32), **given)
