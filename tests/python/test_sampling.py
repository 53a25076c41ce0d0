# Sampling from Python: the outputs that are made, arrays and scalars, what is refused.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest
import quern


def test_greedy_is_the_largest(context: quern.Context) -> None:
    rng = np.random.default_rng(1)
    logits = rng.standard_normal((3, 500)).astype(np.float32)
    drawn = context.sample(logits, temperature=0.0, logprobs=True, status=True)
    np.testing.assert_array_equal(drawn.ids, logits.argmax(1))
    shifted = logits - logits.max(1, keepdims=True)
    exact = (shifted - np.log(np.exp(shifted).sum(1, keepdims=True)))[np.arange(3), drawn.ids]
    np.testing.assert_allclose(drawn.logprobs, exact, atol=2e-5)
    assert (drawn.status == 0).all()


def test_offsets_advance_and_draws_repeat(context: quern.Context) -> None:
    logits = np.zeros((2, 1000), np.float32)
    seeds, offsets = np.array([5, 5], np.int64), np.array([0, 7], np.int64)
    first = context.sample(logits, seed=seeds, offset=offsets).ids.copy()
    assert offsets.tolist() == [1, 8]
    second = context.sample(logits, seed=seeds, offset=offsets).ids.copy()
    assert (first != second).any()
    again = context.sample(logits, seed=seeds, offset=np.array([0, 7], np.int64)).ids
    np.testing.assert_array_equal(again, first)


def test_filters_by_row(context: quern.Context) -> None:
    logits = np.arange(64, dtype=np.float32)[None].repeat(4, 0) / 8
    drawn = context.sample(logits, top_k=np.array([1, 2, 0, 3], np.int32), top_p=1.0, top_n=4, logprobs_filtered=True)
    assert drawn.top_ids[0].tolist() == [63, -1, -1, -1]
    assert drawn.top_ids[1].tolist() == [63, 62, -1, -1]
    assert drawn.top_ids[3].tolist() == [63, 62, 61, -1]
    np.testing.assert_allclose(np.exp(drawn.top_logprobs[3][:3]).sum(), 1, rtol=1e-5)


def test_refusals(context: quern.Context) -> None:
    logits = np.zeros((1, 8), np.float32)
    with pytest.raises(quern.InvalidError, match="top_p"):
        context.sample(logits, top_p=1.5)
    with pytest.raises(quern.InvalidError, match="top_ps"):
        context.sample(logits, top_p=np.ones(3, np.float32))
