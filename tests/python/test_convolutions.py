# Convolutions along sequences from Python on the host target, NumPy in and out.
# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import quern


def test_conv1d_goes_on_from_its_state(context, rng):
    x = rng.standard_normal((9, 16)).astype(np.float32)
    weight, bias = rng.standard_normal((16, 4)).astype(np.float32), rng.standard_normal(16).astype(np.float32)
    padded = np.concatenate([np.zeros((3, 16)), x])
    expected = bias + sum(weight[:, j] * padded[j : j + 9] for j in range(4))
    whole = context.conv1d(x, weight, bias, offsets=np.array([0, 9], np.int32))
    np.testing.assert_allclose(whole, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(context.conv1d(x, weight, bias), whole)
    # A prompt of six tokens, then one at a time: the states lie as [slots, channels, width - 1].
    states = np.full((3, 16, 3), np.nan, np.float32)
    slot = np.array([1], np.int32)
    view = states.swapaxes(1, 2)
    fresh = np.array([False])
    prompt = context.conv1d(
        x[:6], weight, bias, offsets=np.array([0, 6], np.int32), state=view, state_ids=slot, has_state=fresh
    )
    np.testing.assert_array_equal(prompt, whole[:6])
    for t in range(6, 9):
        step = context.conv1d(x[t : t + 1], weight, bias, state=view, state_ids=slot)
        np.testing.assert_array_equal(step[0], whole[t])
    np.testing.assert_array_equal(states[1].T, x[6:])
    assert np.isnan(states[[0, 2]]).all()


def test_conv1d_refuses(context):
    x, weight = np.zeros((2, 8), np.float32), np.zeros((8, 4), np.float32)
    with pytest.raises(quern.InvalidError, match=r"weight.shape\[1\]"):
        context.conv1d(x, np.zeros((8, 9), np.float32))
    with pytest.raises(quern.InvalidError, match="over x|where x does"):
        context.conv1d(x, weight, out=x)
