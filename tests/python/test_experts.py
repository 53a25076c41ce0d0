# Routing to experts and back from Python on the host target, NumPy in and out, against fp64; and a whole mixture of
# experts made of the ops.
# SPDX-License-Identifier: Apache-2.0
import ml_dtypes
import numpy as np
import pytest
import quern


def wide(array):
    return np.asarray(array).astype(np.float64)


def softmax(x):
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def logits_of(rng, tokens, experts):
    """Far enough apart that rounding decides no choice."""
    steps = np.linspace(-3, 3, experts)
    return np.stack([rng.permutation(steps) for _ in range(tokens)]).astype(np.float32)


@pytest.mark.parametrize("sigmoid", [False, True])
def test_choices(context, rng, sigmoid):
    logits = logits_of(rng, 9, 16)
    bias = (rng.permutation(16) * 0.05).astype(np.float32)
    routing = context.moe_route(logits, 3, bias=bias, sigmoid=sigmoid, renormalize=True, scale=2.5)
    score = 1 / (1 + np.exp(-wide(logits))) if sigmoid else softmax(wide(logits))
    ids = np.argsort(-(score + bias), axis=1, kind="stable")[:, :3]
    np.testing.assert_array_equal(routing.ids, ids)
    weights = np.take_along_axis(score, ids, 1)
    np.testing.assert_allclose(routing.weights, 2.5 * weights / weights.sum(1, keepdims=True), rtol=1e-5)


def test_sorted_by_expert(context, rng):
    routing = context.moe_route(logits_of(rng, 9, 16), 3)
    counts = np.bincount(routing.ids.ravel(), minlength=16)
    np.testing.assert_array_equal(routing.counts, counts)
    np.testing.assert_array_equal(routing.offsets, np.concatenate([[0], np.cumsum(counts)]))
    for expert in range(16):
        rows = slice(routing.offsets[expert], routing.offsets[expert + 1])
        np.testing.assert_array_equal(routing.indices[rows], np.nonzero((routing.ids == expert).any(1))[0])
    tokens = np.broadcast_to(np.arange(9)[:, None], (9, 3))
    np.testing.assert_array_equal(routing.indices[routing.positions], tokens)


def test_local_experts_alone(context, rng):
    routing = context.moe_route(logits_of(rng, 9, 16), 3, first_expert=4, local_experts=8)
    local = (routing.ids >= 4) & (routing.ids < 12)
    assert (routing.positions[~local] == -1).all() and (routing.positions[local] >= 0).all()
    assert routing.offsets.shape == (9,) and routing.offsets[-1] == local.sum() == routing.counts.sum()


def test_groups(context, rng):
    logits = logits_of(rng, 7, 16)
    routing = context.moe_route(logits, 2, groups=4, top_groups=1)
    best = softmax(wide(logits)).reshape(7, 4, 4).max(2).argmax(1)
    assert (routing.ids // 4 == best[:, None]).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_combine(context, rng, dtype):
    x, add = rng.standard_normal((20, 48), np.float32).astype(dtype), rng.standard_normal((6, 48)).astype(dtype)
    positions = rng.permutation(20)[:18].reshape(6, 3).astype(np.int32)
    positions[2, 1] = -1
    weights = rng.standard_normal((6, 3), np.float32)
    there = np.where(positions < 0, 0, weights)
    expected = (wide(x)[positions] * wide(there)[..., None]).sum(1)
    unit = {2: 2.0**-7 if dtype is ml_dtypes.bfloat16 else 2.0**-10, 4: 2.0**-20}[x.dtype.itemsize]
    out = context.moe_combine(x, positions, weights)
    assert out.dtype == dtype
    np.testing.assert_allclose(wide(out), expected, rtol=0, atol=unit * 8)
    out = context.moe_combine(x, positions, weights, add=add, out=add)
    assert out is add
    plain = context.moe_combine(x, positions, out_dtype="f32")
    np.testing.assert_allclose(plain, (wide(x)[positions] * (positions >= 0)[..., None]).sum(1), rtol=0, atol=1e-5)


def test_a_mixture_of_experts(context, rng):
    """Route, quantise, gate and up, quantise, down, combine: against fp64 on the dequantised weights."""
    tokens, experts, hidden, width, top_k = 9, 6, 128, 128, 2
    x = rng.standard_normal((tokens, hidden), np.float32)
    up = (rng.standard_normal((experts * 2 * width, hidden), np.float32)) / 8
    down = (rng.standard_normal((experts * hidden, width), np.float32)) / 8
    made = []
    for weight, n in ((up, 2 * width), (down, hidden)):
        quantised, scale = context.quantize(weight, scale_kind="block")
        made += [quantised.reshape(experts, n, -1), scale.reshape(experts, n // 128, -1)]
    up_q, up_scale, down_q, down_scale = made
    routing = context.moe_route(logits_of(rng, tokens, experts), top_k, renormalize=True)
    a, a_scale = context.quantize(x)
    gated = context.grouped_fp8_gemm(
        a, up_q, a_scale, up_scale, offsets=routing.offsets, indices=routing.indices, gate=True, out_dtype="f32"
    )
    h, h_scale = context.quantize(gated)
    rows = context.grouped_fp8_gemm(h, down_q, h_scale, down_scale, offsets=routing.offsets, out_dtype="f32")
    out = context.moe_combine(rows, routing.positions, routing.weights)

    def dense(q, scale):
        return wide(q) * wide(scale).repeat(128, 1).repeat(128, 2)

    up_w, down_w = dense(up_q, up_scale), dense(down_q, down_scale)
    expected = np.zeros((tokens, hidden))
    for token in range(tokens):
        for j in range(top_k):
            both = up_w[routing.ids[token, j]] @ wide(x[token])
            hidden_state = both[:width] / (1 + np.exp(-both[:width])) * both[width:]
            expected[token] += routing.weights[token, j] * (down_w[routing.ids[token, j]] @ hidden_state)
    similarity = 1 - 2 * (expected * out).sum() / ((expected**2).sum() + (wide(out) ** 2).sum())
    assert similarity < 2e-3


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"top_k": 0}, "top_k 0, first_expert 0, local_experts 8: given for 8 experts"),
        ({"top_k": 9}, "top_k"),
        ({"top_k": 2, "first_expert": 9}, "first_expert 9"),
        ({"top_k": 2, "groups": 3}, "groups"),
        ({"top_k": 2, "softmax": True}, "moe_route has no argument 'softmax'"),
        ({"top_k": 2, "ids": np.zeros((4, 2), np.int64)}, "ids"),
    ],
)
def test_bad_arguments_are_named(context, rng, arguments, complaint):
    with pytest.raises(quern.InvalidError, match=complaint):
        context.moe_route(logits_of(rng, 4, 8), **arguments)
