# Rotary positions from Python: the options' own flags reach the options, in every op that turns something.
# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import quern


def turned(x, positions, interleaved):
    """rope of x [tokens, heads, d] in fp64."""
    half = x.shape[-1] // 2
    turn = positions[:, None, None] * 1e4 ** (-np.arange(half) / half)
    first = np.arange(half) * 2 if interleaved else np.arange(half)
    second = first + 1 if interleaved else first + half
    x = x.astype(np.float64)
    out = x.copy()
    out[..., first] = x[..., first] * np.cos(turn) - x[..., second] * np.sin(turn)
    out[..., second] = x[..., second] * np.cos(turn) + x[..., first] * np.sin(turn)
    return out


@pytest.mark.parametrize("interleaved", [False, True])
def test_pairs_lie_where_the_flag_says(context, rng, interleaved):
    q = rng.standard_normal((6, 4, 32)).astype(np.float32)
    k = rng.standard_normal((6, 2, 32)).astype(np.float32)
    at = rng.integers(0, 3000, 6)
    q_out, k_out = context.rope(q, k, positions=at, interleaved=interleaved)
    np.testing.assert_allclose(q_out, turned(q, at, interleaved), atol=1e-5)
    np.testing.assert_allclose(k_out, turned(k, at, interleaved), atol=1e-5)
    k_cache, v_cache = np.zeros((2, 2, 4, 2, 32), np.float32)
    context.kv_append(
        k, k, k_cache, v_cache, slots=np.arange(6), positions=at, scaling="plain", interleaved=interleaved
    )
    np.testing.assert_allclose(k_cache.reshape(8, 2, 32)[:6], turned(k, at, interleaved), atol=1e-5)
    np.testing.assert_array_equal(v_cache.reshape(8, 2, 32)[:6], k)


def test_a_flag_of_the_options_is_none_of_the_call(context):
    q = np.zeros((1, 1, 32), np.float32)
    with pytest.raises(quern.InvalidError, match="no argument 'weight_plus_one'"):
        context.rope(q, positions=np.zeros(1, np.int32), weight_plus_one=True)
