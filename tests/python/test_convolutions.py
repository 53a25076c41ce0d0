# Convolutions along sequences from Python on the host target, NumPy in and out.
# SPDX-License-Identifier: Apache-2.0
import math

import numpy as np
import pytest
import quern
from kernel_truths import convolved2d


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


def _convolved(x, weight, stride, padding, dilation, groups):
    """torch.nn.functional.conv1d's meaning, in fp64."""
    x = np.pad(x.astype(np.float64), ((0, 0), (0, 0), padding))
    outs, channels, width = weight.shape
    places = (x.shape[2] - dilation * (width - 1) - 1) // stride + 1
    y = np.zeros((x.shape[0], outs, places))
    for o in range(outs):
        first = o // (outs // groups) * channels
        for j in range(width):
            window = x[:, first : first + channels, j * dilation :][:, :, : (places - 1) * stride + 1 : stride]
            y[:, o] += np.einsum("bct,c->bt", window, weight[o, :, j].astype(np.float64))
    return y


@pytest.mark.parametrize(
    ("stride", "padding", "dilation", "groups"),
    [(1, 0, 1, 1), (2, 1, 1, 1), (1, "same", 3, 2), (3, (0, 4), 1, 8), (1, "valid", 1, 1)],
)
def test_conv1d_in_general(context, rng, stride, padding, dilation, groups):
    x = rng.standard_normal((2, 16, 30)).astype(np.float32)
    weight = rng.standard_normal((24, 16 // groups, 4)).astype(np.float32)
    sides = {"same": (dilation * 3 // 2, dilation * 3 - dilation * 3 // 2), "valid": (0, 0)}.get(
        padding, (padding, padding) if isinstance(padding, int) else padding
    )
    expected = _convolved(x, weight, stride, sides, dilation, groups)
    given = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    out = context.conv1d(x, weight, **given)
    assert out.shape == expected.shape
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(context.conv1d(x[0], weight, **given), out[0])


def test_conv1d_in_general_refuses(context):
    x, weight = np.zeros((2, 8, 9), np.float32), np.zeros((8, 8, 3), np.float32)
    for given in ({"padding": "full"}, {"padding": "same", "stride": 2}, {"groups": 3}, {"stride": -1}):
        with pytest.raises(quern.InvalidError, match=f"{next(iter(given))}|padding"):
            context.conv1d(x, weight, **given)
    with pytest.raises(quern.InvalidError, match="stride"):
        context.conv1d(np.zeros((4, 8), np.float32), np.zeros((8, 3), np.float32), stride=2)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(
    ("stride", "padding", "sides", "dilation", "groups", "activation"),
    [
        (1, 0, (0, 0, 0, 0), 1, 1, "none"),
        ((2, 1), 1, (1, 1, 1, 1), 1, 1, "relu"),
        (1, "same", (2, 2, 1, 2), (2, 1), 2, "silu"),
        (3, ((0, 4), (1, 2)), (0, 4, 1, 2), 1, 8, "gelu"),
        (1, (1, 0), (1, 1, 0, 0), 1, 1, "gelu_tanh"),
        (1, "valid", (0, 0, 0, 0), 1, 1, "none"),
    ],
)
def test_conv2d(context, rng, stride, padding, sides, dilation, groups, activation, last):
    x = rng.standard_normal((2, 16, 10, 13)).astype(np.float32)
    weight = rng.standard_normal((24, 16 // groups, 3, 4)).astype(np.float32)
    bias = rng.standard_normal(24).astype(np.float32)
    given = np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1) if last else x
    rest = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups, "activation": activation}
    out = context.conv2d(given, weight, bias, **rest)
    assert (out.strides[1] == 4) == last
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), sides[:2], sides[2:]))
    both = [(n, n) if isinstance(n, int) else n for n in (stride, dilation)]
    exact = convolved2d(padded, weight.astype(np.float64), both[0], 0, both[1], groups) + bias[:, None, None]
    functions = {
        "none": lambda y: y,
        "relu": lambda y: np.maximum(y, 0),
        "silu": lambda y: y / (1 + np.exp(-y)),
        "gelu": lambda y: y / 2 * (1 + np.vectorize(math.erf)(y / math.sqrt(2))),
        "gelu_tanh": lambda y: y / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y**3))),
    }
    np.testing.assert_allclose(out, functions[activation](exact), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(context.conv2d(given[0], weight, bias, **rest), out[0], rtol=1e-5, atol=1e-5)


def test_conv2d_refuses(context):
    x, weight = np.zeros((2, 8, 9, 9), np.float32), np.zeros((8, 8, 3, 3), np.float32)
    for given in ({"padding": "full"}, {"padding": "same", "stride": 2}, {"groups": 3}, {"stride": 0},
                  {"dilation": (1, -1)}, {"padding": (1, 1, 1)}, {"activation": "tanh"}):  # fmt: skip
        with pytest.raises(quern.InvalidError, match=f"{next(iter(given))}|padding"):
            context.conv2d(x, weight, **given)
    with pytest.raises(quern.InvalidError, match="window"):
        context.conv2d(x, weight, dilation=5)
