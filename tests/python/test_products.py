# Matrix products from Python on the host target, NumPy in and out, against fp64.
# SPDX-License-Identifier: Apache-2.0
import math

import ml_dtypes
import numpy as np
import pytest
import quern
from quern import _abi, packing
from quern._abi import OUTPUTS

UNITS = {np.float32: 2.0**-20, np.float16: 2.0**-10, ml_dtypes.bfloat16: 2.0**-7}
E4M3, E5M2 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
ERF = np.vectorize(math.erf)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


ACTIVATIONS = {
    "none": lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: x / 2 * (1 + ERF(x / math.sqrt(2))),
    "gelu_tanh": lambda x: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "silu": lambda x: x * sigmoid(x),
}


def wide(array):
    return np.asarray(array).astype(np.float64)


def check(out, expected, unit=2.0**-20):
    assert out.shape == expected.shape
    np.testing.assert_allclose(wide(out), expected, rtol=0, atol=unit * max(1.0, np.abs(expected).max(initial=0)))


def normal(rng, shape, dtype=np.float32):
    return rng.standard_normal(shape, np.float32).astype(dtype)


@pytest.mark.parametrize("dtype", UNITS)
def test_gemm(context, rng, dtype):
    a, b = normal(rng, (7, 80), dtype), normal(rng, (24, 80), dtype)
    out = context.gemm(a, b)
    assert out.dtype == dtype
    check(out, wide(a) @ wide(b).T, UNITS[dtype])
    given = np.full((7, 24), np.nan, np.float32)
    assert context.gemm(a, b, out=given) is given
    check(given, wide(a) @ wide(b).T)


def test_gemm_of_views_and_batches(context, rng):
    a, b = normal(rng, (3, 8, 40)), normal(rng, (40, 16))
    expected = wide(a) @ wide(b)
    check(context.gemm(a[1], b.T), expected[1])
    check(context.gemm(a, np.broadcast_to(b.T, (3, 16, 40))), expected)
    columns = np.asfortranarray(a[0])
    check(context.gemm(columns, b.T), expected[0])


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("gate", [False, True])
def test_epilogues(context, rng, activation, gate):
    a, b, bias = normal(rng, (5, 32)), normal(rng, (16, 32)), normal(rng, 16)
    c = normal(rng, (5, 16))
    sums = wide(a) @ wide(b).T + bias + c
    function = ACTIVATIONS[activation]
    expected = function(sums[:, :8]) * sums[:, 8:] if gate else function(sums)
    check(context.gemm(a, b, bias=bias, c=c, activation=activation, gate=gate), expected)


def test_a_gate_is_silu_unless_told(context, rng):
    a, b = normal(rng, (5, 32)), normal(rng, (16, 32))
    np.testing.assert_array_equal(context.gemm(a, b, gate=True), context.gemm(a, b, gate=True, activation="silu"))


def test_expressions(context, rng):
    a, b = normal(rng, (5, 32)), normal(rng, (16, 32))
    columns, rows, tensor = normal(rng, 16), normal(rng, 5), normal(rng, (5, 16), np.float16)
    text = "select(acc > scalar1, acc * scalar0 + col0, -1) * row1 - tensor2"
    given = {"operands": [columns, rows, tensor], "scalars": [0.5, -2.0]}
    acc = wide(a) @ wide(b).T
    expected = np.where(acc > -2, acc * 0.5 + columns, -1) * wide(rows)[:, None] - wide(tensor)
    check(context.gemm(a, b, expression=text, **given), expected)
    made = context.expression(text)
    assert repr(made) == f"quern.Expression({text!r})"
    check(context.gemm(a, b, expression=made, **given), expected)
    gated = context.gemm(a, b, gate=True, expression="max(gate, up)")
    check(gated, np.maximum(acc[:, :8], acc[:, 8:]))


def test_expressions_of_another_context_are_refused(context, rng, cache_folder):
    a, b = normal(rng, (5, 32)), normal(rng, (16, 32))
    with quern.Context("host", cache_path=cache_folder) as other:
        foreign = other.expression("acc")
        with pytest.raises(quern.InvalidError, match="expression: was made by another context"):
            context.gemm(a, b, expression=foreign)
    with pytest.raises(quern.InvalidError, match='expression, byte 4: there is no "foo"; allowed'):
        context.expression("acc+foo")


BAD = {
    "an unknown activation": ({"activation": "swish"}, "activation: 'swish' given; allowed are default, relu, gelu"),
    "an unknown argument": ({"activate": "silu"}, "gemm has no argument 'activate'; there are a, activation, "),
    "operands that are no list": ({"expression": "acc", "operands": np.zeros(3)}, "operands: ndarray given; allowed"),
    "an operand that is no array": ({"expression": "acc*col0", "operands": [3]}, r"operands\[0\]: int given"),
    "an expression that is none": ({"expression": 3}, "expression: 3 given; allowed are a formula's text"),
    "a read-only out": ({"out": np.broadcast_to(np.float32(0), (5, 16))}, "out: the array is read-only"),
    "out_scale of a wide type": ({"out_scale": True}, "out_scale: True given for out of f32; allowed are e4m3 and"),
    "a bias of another length": ({"bias": np.zeros(3, np.float32)}, "bias"),
    "too many operands": ({"expression": "acc", "operands": [np.zeros(16, np.float32)] * 9}, "operand"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_arguments_are_named(context, rng, name):
    changes, complaint = BAD[name]
    a, b = normal(rng, (5, 32)), normal(rng, (16, 32))
    out = np.full((5, 16), 9, np.float32)
    with pytest.raises(quern.InvalidError, match=complaint):
        context.gemm(a, b, **{"out": out, **changes})
    assert (out == 9).all()


def fp8(rng, shape, dtype=E4M3):
    return (rng.standard_normal(shape) * 4).astype(dtype)


def positive(rng, shape):
    return rng.uniform(0.1, 1, shape).astype(np.float32)


def spread(scale, shape):
    """Scales of 1x128 or 128x128 as one a number."""
    rows = 1 if scale.shape[-2] == shape[-2] else 128
    return wide(scale).repeat(rows, -2)[..., : shape[-2], :].repeat(128, -1)[..., : shape[-1]]


SCALES = {
    "per tensor": (lambda rng: (positive(rng, 1), positive(rng, 1)), lambda scale, shape: wide(scale)),
    "per row": (lambda rng: (positive(rng, 5), positive(rng, 136)), lambda scale, shape: wide(scale)[:, None]),
    "in blocks": (lambda rng: (positive(rng, (5, 2)), positive(rng, (2, 2))), spread),
}


@pytest.mark.parametrize("kind", SCALES)
@pytest.mark.parametrize("types", [(E4M3, E4M3), (E5M2, E4M3)])
def test_fp8_gemm(context, rng, kind, types):
    make, widen = SCALES[kind]
    a, b = fp8(rng, (5, 144), types[0]), fp8(rng, (136, 144), types[1])
    scale_a, scale_b = make(rng)
    expected = (wide(a) * widen(scale_a, a.shape)) @ (wide(b) * widen(scale_b, b.shape)).T
    check(context.fp8_gemm(a, b, scale_a, scale_b, out_dtype="f32"), expected, 2.0**-18)
    out = context.fp8_gemm(a, b, scale_a, scale_b)
    assert out.dtype == ml_dtypes.bfloat16
    check(out, expected, 2.0**-8)


def test_bytes_and_wrapped_bytes_are_fp8_too(context, rng):
    a, b = fp8(rng, (5, 32), E5M2), fp8(rng, (16, 32))
    one = np.ones(1, np.float32)
    expected = context.fp8_gemm(a, b, one, one, out_dtype="f32")
    raw_a, raw_b = a.view(np.uint8), b.view(np.uint8)
    raw = context.fp8_gemm(raw_a, raw_b, one, one, out_dtype="f32", a_type="e5m2", b_type="e4m3")
    np.testing.assert_array_equal(raw, expected)
    wrapped = context.fp8_gemm(quern.Tensor(raw_a, "e5m2"), quern.Tensor(raw_b, "e4m3"), one, one, out_dtype="bf16")
    assert isinstance(wrapped, quern.Tensor) and wrapped.array.dtype == np.uint16
    check(wrapped.array.view(ml_dtypes.bfloat16), wide(expected), 2.0**-8)
    with pytest.raises(quern.InvalidError, match="a_type: 'e3m4' given; allowed are as_tensor, e4m3, e5m2"):
        context.fp8_gemm(raw_a, raw_b, one, one, a_type="e3m4", b_type="e4m3")


def test_fp8_out_with_its_scales(context, rng):
    a, b = fp8(rng, (5, 32)), fp8(rng, (136, 32))
    one = np.ones(1, np.float32)
    expected = wide(a) @ wide(b).T
    out, scale = context.fp8_gemm(a, b, one, one, out_dtype="e4m3", out_scale=True)
    assert (out.dtype, scale.shape, scale.dtype) == (E4M3, (5, 2), np.float32)
    assert scale.strides == (4, 32)  # rows contiguous, a multiple of four of them: what a product reads fastest
    for columns, of in ((slice(0, 128), 0), (slice(128, 136), 1)):
        largest = np.abs(expected[:, columns]).max(1)
        np.testing.assert_allclose(wide(scale[:, of]), largest / 448, rtol=1e-5)
        error = np.abs(wide(out[:, columns]) * wide(scale[:, of])[:, None] - expected[:, columns])
        assert (error <= largest[:, None] / 16).all()
    rounded = context.fp8_gemm(a, b, one, one, out_dtype="e4m3", out_scale=True, power_of_two=True)[1]
    np.testing.assert_array_equal(np.log2(wide(rounded)) % 1, 0)


def test_grouped(context, rng):
    experts, tokens, k, n = 4, 6, 32, 16
    a, b = fp8(rng, (tokens, k)), fp8(rng, (experts, n, k))
    one, each = np.ones(1, np.float32), positive(rng, experts)
    indices = np.array([5, 0, 1, 1, 3, 2, 4], np.int32)
    offsets = np.array([0, 2, 2, 6, 7], np.int32)  # the second has no rows
    status = np.zeros(1, np.int32)
    out = context.grouped_fp8_gemm(
        a, b, one, each, offsets=offsets, indices=indices, status=status, out_dtype="f32", gate=True
    )
    expected = np.empty((7, n // 2))
    for expert in range(experts):
        rows = slice(offsets[expert], offsets[expert + 1])
        sums = wide(a)[indices[rows]] @ wide(b[expert]).T * each[expert]
        expected[rows] = ACTIVATIONS["silu"](sums[:, : n // 2]) * sums[:, n // 2 :]
    check(out, expected)
    assert status[0] == 0
    context.grouped_fp8_gemm(a, b, one, each, offsets=offsets[::-1].copy(), indices=indices, status=status)
    assert status[0] & _abi.quern_group_status.QUERN_GROUP_OFFSETS


def test_grouped_with_counts(context, rng):
    a, b = fp8(rng, (3, 4, 32)), fp8(rng, (3, 16, 32))
    counts = np.array([4, 0, 1], np.int32)
    out = np.full((3, 4, 16), 7, np.float32)
    one, each = np.ones(1, np.float32), np.ones(3, np.float32)
    assert context.grouped_fp8_gemm(a, b, one, each, counts=counts, out=out) is out
    for expert, count in enumerate(counts):
        check(out[expert, :count], wide(a[expert, :count]) @ wide(b[expert]).T)
        assert (out[expert, count:] == 7).all()


def test_prepare_takes_the_same_arguments(tmp_path, rng):
    a, b, bias = normal(rng, (9, 32), np.float16), normal(rng, (16, 32), np.float16), normal(rng, 16)
    shapes = {"a": (64, 32), "b": (16, 32), "out": (64, 16)}
    promised = {name: quern.Shape(shape, "f16") for name, shape in shapes.items()}
    epilogue = {"activation": "relu", "bias": quern.Shape((16,), "f32")}
    with quern.Context("host", cache_path=tmp_path) as context:
        context.gemm_prepare(**promised, **epilogue)
        compiled = context.stats().compiled
        assert compiled > 0
        assert context.gemm_workspace(**promised, **epilogue) >= 0
        out = context.gemm(a, b, bias=bias, activation="relu", cached_only=True)
        assert context.stats().compiled == compiled
        check(out, np.maximum(wide(a) @ wide(b).T + bias, 0), 2.0**-9)
        with pytest.raises(quern.MissError):
            context.gemm(a, b, bias=bias, activation="silu", cached_only=True)


def test_every_op_says_what_it_writes():
    assert OUTPUTS.keys() == _abi.OPS.keys()
    for op, names in OUTPUTS.items():
        fields = {name for name, *_ in _abi.OPS[op].args._fields_}
        assert names <= fields | {"out_scale"} and names


def test_ops_of_the_header_are_methods():
    for op in _abi.OPS:
        assert callable(getattr(quern.Context, op))
        assert f"quern_{op}_args" in getattr(quern.Context, f"{op}_prepare").__doc__
        assert f"quern_{op}_args" in getattr(quern.Context, f"{op}_workspace").__doc__


# ---- quantized_gemm
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])


def grouped_scales(rng, lines, groups, dtype=np.float16):
    return rng.uniform(0.01, 0.1, (lines, groups)).astype(dtype)


def spread(scales, k):
    return wide(scales).repeat(k // scales.shape[1], axis=1)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_weights_of_4_bits(context, rng, dtype):
    x, codes = normal(rng, (5, 256), dtype), rng.integers(-8, 8, (24, 256))
    scale = grouped_scales(rng, 24, 2)
    out = context.quantized_gemm(x, packing.pack(codes), scale_b=scale, b_format="int4")
    assert out.dtype == dtype
    weight = codes * spread(scale, 256)
    check(out, wide(x) @ weight.T, UNITS[dtype])
    bias = normal(rng, 24)
    out = context.quantized_gemm(
        x,
        packing.pack(codes),
        scale_b=scale,
        b_format="int4",
        bias=bias,
        activation="relu",
        out_dtype="f32",
    )
    check(out, np.maximum(wide(x) @ weight.T + bias, 0))


def test_weights_of_8_bits(context, rng):
    x, codes, scale = (
        normal(rng, (5, 64), np.float16),
        rng.integers(-128, 128, (24, 64)).astype(np.int8),
        normal(rng, 24),
    )
    out = context.quantized_gemm(x, codes, scale_b=scale, out_dtype="f32")
    check(out, wide(x) @ (wide(codes) * scale[:, None]).T)
    a, scale_a = (
        rng.integers(-128, 128, (5, 64)).astype(np.int8),
        np.abs(normal(rng, 5)),
    )
    out = context.quantized_gemm(a, codes, scale_a=scale_a, scale_b=scale, out_dtype="f32")
    check(out, (wide(a) * scale_a[:, None]) @ (wide(codes) * scale[:, None]).T)
    assert context.quantized_gemm(a, codes).dtype == ml_dtypes.bfloat16


def test_nvfp4_and_mxfp4(context, rng):
    a, b = rng.integers(0, 16, (5, 64)), rng.integers(0, 16, (24, 64))
    scales = [rng.uniform(0.5, 2, (lines, 4)).astype(E4M3) for lines in (5, 24)]
    of_tensor = np.array([0.25], np.float32)
    out = context.quantized_gemm(
        packing.pack(a), packing.pack(b), scale_a=scales[0], scale_b=scales[1], tensor_scale_b=of_tensor,
        a_format="e2m1", b_format="e2m1", out_dtype="f32",
    )  # fmt: skip
    check(
        out,
        (E2M1[a] * spread(scales[0], 64)) @ (E2M1[b] * spread(scales[1], 64)).T * 0.25,
    )
    x, powers = (
        normal(rng, (5, 64), ml_dtypes.bfloat16),
        rng.integers(120, 130, (24, 2)).astype(np.uint8),
    )
    out = context.quantized_gemm(
        x,
        packing.pack(b),
        scale_b=powers,
        scale_b_type="ue8m0",
        b_format="e2m1",
        out_dtype="f32",
    )
    check(out, wide(x) @ (E2M1[b] * spread(2.0 ** (powers.astype(float) - 127), 64)).T)


def words_of(codes, axis, order):
    """Eight codes of 4 bits in each int32 along an axis, code number order[i] in four bits number i."""
    codes = np.moveaxis(codes, axis, -1).astype(np.int64)
    words = sum(codes[..., column::8] << 4 * i for i, column in enumerate(order))
    return np.moveaxis(words.astype(np.uint32).view(np.int32), -1, axis)


def test_checkpoints_of_gptq_and_awq(context, rng):
    k, n, groups = 256, 32, 2
    x, codes, zeros = (
        normal(rng, (3, k), np.float16),
        rng.integers(0, 16, (k, n)),
        rng.integers(1, 16, (groups, n)),
    )
    scales = grouped_scales(rng, groups, n)
    weight = (codes - zeros.repeat(k // groups, axis=0)) * wide(scales).repeat(k // groups, axis=0)
    in_order = range(8)
    b, zero_b = packing.from_gptq(words_of(codes, 0, in_order), words_of(zeros - 1, 1, in_order))
    out = context.quantized_gemm(x, b, scale_b=scales.T, zero_b=zero_b, b_format="uint4", out_dtype="f32")
    check(out, wide(x) @ weight)
    awq = (0, 2, 4, 6, 1, 3, 5, 7)
    b, zero_b = packing.from_awq(words_of(codes, 1, awq), words_of(zeros, 1, awq))
    out = context.quantized_gemm(x, b, scale_b=scales.T, zero_b=zero_b, b_format="uint4", out_dtype="f32")
    check(out, wide(x) @ weight)
    with pytest.raises(quern.InvalidError, match="even"):
        packing.pack(np.zeros(3, np.uint8))
