# Attention and merge_state from Python on the host target, NumPy in and out, against fp64 loops.
# SPDX-License-Identifier: Apache-2.0
import ml_dtypes
import numpy as np
import pytest
import quern
from attention_cases import Case, cases

F16_UNIT, BF16_UNIT = 2.0**-11, 2.0**-8


@pytest.mark.parametrize("name", cases())
def test_float16(context, rng, name):
    case = cases()[name].make(rng, np.float16)
    out, lse = context.attention(case.q, case.k, case.v, **case.arguments(), return_lse=True)
    assert out.dtype == np.float16 and lse.dtype == np.float32
    case.check(out, lse, F16_UNIT)


def test_bfloat16_arrays_and_their_bits_give_the_same(context, rng):
    case = Case([3, 1], [70, 20]).make(rng, ml_dtypes.bfloat16)
    out, lse = context.attention(case.q, case.k, case.v, **case.arguments(), return_lse=True)
    assert out.dtype == ml_dtypes.bfloat16
    case.check(out, lse, BF16_UNIT)
    q, k, v = (quern.Tensor(array.view(np.uint16), "bf16") for array in (case.q, case.k, case.v))
    bits = context.attention(q, k, v, **case.arguments())
    assert isinstance(bits, quern.Tensor) and bits.array.dtype == np.uint16
    np.testing.assert_array_equal(bits.array, out.view(np.uint16))


@pytest.mark.parametrize("of", ["e4m3", "e5m2"])
def test_results_of_8_bits_come_with_their_scales(context, rng, of):
    case = Case([1, 1, 1], [40, 17, 90], d_v=256).make(rng, ml_dtypes.bfloat16)
    out, scale = context.attention(case.q, case.k, case.v, **case.arguments(), out_dtype=of)
    kind, largest, unit = {"e4m3": ("float8_e4m3fn", 448, 1 / 16), "e5m2": ("float8_e5m2", 57344, 1 / 8)}[of]
    assert out.dtype == getattr(ml_dtypes, kind) and scale.shape == (3, 8) and scale.dtype == np.float32
    assert scale.strides == (4, 16)  # tokens contiguous, a multiple of four of them: what a product reads fastest
    truth = case.out.reshape(3, 8, 128)
    most = np.abs(truth).max(-1)
    np.testing.assert_allclose(scale, most / largest, rtol=0.02)
    given = out.astype(np.float64).reshape(3, 8, 128) * scale[:, :, None]
    assert (np.abs(given - truth) <= (np.abs(truth) + 0.01) * unit + 0.02 * most[:, :, None]).all()
    raw, again = np.zeros(out.shape, np.uint8), np.zeros((3, 8), np.float32)
    given = {"out": raw, "out_scale": again, "out_type": of}
    returned = context.attention(case.q, case.k, case.v, **case.arguments(), **given, return_lse=True)
    assert returned[0] is raw and returned[1] is again and returned[2].shape == (3, 4)
    np.testing.assert_array_equal(raw, out.view(np.uint8))
    np.testing.assert_array_equal(again, scale)


def test_strides_are_honoured(context, rng):
    case = Case([4, 1], [40, 17]).make(rng, np.float16)
    expected = context.attention(case.q, case.k, case.v, **case.arguments())
    # One pool for both, heads before tokens; queries and outputs cut out of something wider; every other table entry.
    pages, page_size, kv_heads, d = case.k.shape
    pool = np.full((pages, 2, kv_heads, page_size, d), np.nan, np.float16)
    k, v = pool[:, 0].transpose(0, 2, 1, 3), pool[:, 1].transpose(0, 2, 1, 3)
    k[:], v[:] = case.k, case.v
    wide = np.full((case.q.shape[0], 3, case.heads, 2 * case.d_k), np.nan, np.float16)
    q, out = wide[:, 0, :, : case.d_k], wide[:, 2, :, case.d_k :]
    q[:] = case.q
    assert context.attention(q, k, v, **case.arguments(), out=out) is out
    np.testing.assert_array_equal(out, expected)
    assert np.isnan(wide[:, 1]).all() and np.isnan(wide[:, 0, :, case.d_k :]).all()


def test_indptr_and_ragged_forms(context, rng):
    case = Case([4, 1], [40, 17]).make(rng, np.float16)
    arguments = case.arguments()
    expected = context.attention(case.q, case.k, case.v, **arguments)
    table = arguments.pop("page_table")
    used = [-(-length // case.page_size) for length in case.lengths]
    indptr = np.cumsum([0, *used]).astype(np.int32)
    indices = np.concatenate([table[i, :count] for i, count in enumerate(used)])
    by_index = {"page_indptr": indptr, "page_indices": indices}
    np.testing.assert_array_equal(context.attention(case.q, case.k, case.v, **arguments, **by_index), expected)
    k, v = (
        np.concatenate(
            [
                pool[table[i, :count]].reshape(-1, *pool.shape[2:])[:length]
                for i, (count, length) in enumerate(zip(used, case.lengths, strict=True))
            ]
        )
        for pool in (case.k, case.v)
    )
    cu_kv = np.cumsum([0, *case.lengths]).astype(np.int32)
    out, lse = context.attention(case.q, k, v, **arguments, cu_kv=cu_kv, return_lse=True)
    case.check(out, lse, F16_UNIT)


def test_read_only_inputs_are_fine_and_outputs_are_not(context, rng):
    case = Case([1], [20]).make(rng, np.float16)
    for array in (case.q, case.k, case.v, case.page_table):
        array.flags.writeable = False
    out, lse = context.attention(case.q, case.k, case.v, **case.arguments(), return_lse=True)
    case.check(out, lse, F16_UNIT)
    kept = out.copy()
    out.flags.writeable = False
    with pytest.raises(quern.InvalidError, match="out: the array is read-only"):
        context.attention(case.q, case.k, case.v, **case.arguments(), out=out)
    np.testing.assert_array_equal(out, kept)


def test_rows_past_the_last_sequence_are_untouched(context, rng):
    case = Case([2, 3], [20, 30]).make(rng, np.float16)
    q = np.concatenate([case.q, np.full_like(case.q[:4], np.nan)])
    out = np.full_like(q, 7)
    context.attention(q, case.k, case.v, **case.arguments(), out=out)
    assert (out[5:] == 7).all()
    np.testing.assert_allclose(out[:5].astype(np.float64), case.out, rtol=0, atol=16 * F16_UNIT)


def test_prepare_reaches_every_smaller_call(tmp_path, rng):
    case = Case([3, 1], [70, 20]).make(rng, np.float16)
    shapes = {name: quern.Shape(array.shape, "f16") for name, array in (("q", case.q), ("k", case.k), ("v", case.v))}
    promised = {
        "out": quern.Shape(case.q.shape, "f16"),
        "lengths": quern.Shape((2,), "i32"),
        "cu_q": quern.Shape((3,), "i32"),
        "page_table": quern.Shape(case.page_table.shape, "i32"),
        "max_q_len": 3,
        "max_kv_len": 80,
        "causal": True,
    }
    with quern.Context("host", cache_path=tmp_path) as context:
        context.attention_prepare(**shapes, **promised)
        compiled = context.stats().compiled
        assert compiled > 0
        small = context.attention_workspace(**shapes, **{**promised, "max_kv_len": 16})
        assert 0 <= small <= context.attention_workspace(**shapes, **promised)
        out, lse = context.attention(case.q, case.k, case.v, **case.arguments(), return_lse=True, cached_only=True)
        case.check(out, lse, F16_UNIT)
        assert context.stats().compiled == compiled


def test_a_workspace_of_one_s_own(context, rng):
    case = Case([1, 1], [300, 200]).make(rng, np.float16)
    arguments = {**case.arguments(), "out": np.empty_like(case.q), "max_kv_len": 320}
    size = context.attention_workspace(q=case.q, k=case.k, v=case.v, **arguments)
    raw = np.zeros(size + 256, np.uint8)
    workspace = raw[-raw.ctypes.data % 256 :][:size]
    for _ in range(2):
        arguments["out"][:] = np.nan
        context.attention(case.q, case.k, case.v, **arguments, workspace=workspace)
        np.testing.assert_allclose(arguments["out"].astype(np.float64), case.out, rtol=0, atol=16 * F16_UNIT)
    with pytest.raises(quern.InvalidError, match="workspace: must be one dimension of bytes"):
        context.attention(case.q, case.k, case.v, **arguments, workspace=np.zeros(64, np.float32))
    with pytest.raises(quern.InvalidError, match="workspace"):
        context.attention(case.q, case.k, case.v, **arguments, workspace=workspace[: max(0, size - 1)])


BAD = {
    "q of another rank": ({"q": lambda a: a[0]}, "q"),
    "q of another type": ({"q": lambda a: a.astype(np.float64)}, "q"),
    "k with another head dim": ({"k": lambda a: a[..., :32]}, "k"),
    "k of another type": ({"k": lambda a: a.astype(np.float32)}, "k"),
    "lengths of another type": ({"lengths": lambda a: a.astype(np.int64)}, "lengths"),
    "a table of another batch": ({"page_table": lambda a: a[:1]}, "page_table"),
    "no last stride of one": ({"v": lambda a: a.repeat(2, axis=-1)[..., ::2]}, "v"),
    "heads that do not divide": ({"q": lambda a: a[:, :3]}, "heads"),
    "a list": ({"v": lambda a: a.tolist()}, "v: list given"),
    "an unknown argument": ({"softcap": lambda a: 1.0}, "attention has no argument 'softcap'; there are"),
    "a flag that is a number": ({"causal": lambda a: 1}, "causal: 1 given; allowed are True and False"),
    "too large a number": ({"max_q_len": lambda a: 2**31}, "max_q_len: 2147483648 given"),
    "a negative length": ({"max_kv_len": lambda a: -1}, "max_kv_len"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_arguments_are_named_and_outputs_untouched(context, rng, name):
    changes, complaint = BAD[name]
    case = Case([1, 1], [20, 30]).make(rng, np.float16)
    out = np.full(case.q.shape, 9, np.float16)
    arguments = {"q": case.q, "k": case.k, "v": case.v, **case.arguments(), "out": out}
    arguments |= {argument: change(arguments.get(argument)) for argument, change in changes.items()}
    with pytest.raises(quern.InvalidError, match=complaint):
        context.attention(**arguments)
    assert (out == 9).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_merge_state(context, rng, dtype):
    shape = (9, 4, 64)
    out_a, out_b = (rng.standard_normal(shape, np.float32).astype(dtype) for _ in range(2))
    lse_a, lse_b = (rng.standard_normal(shape[:2], np.float32) * 5 for _ in range(2))
    lse_a[0], lse_b[1] = -np.inf, -np.inf
    lse_a[2] = lse_b[2] = -np.inf
    out, lse = context.merge_state(out_a, lse_a, out_b, lse_b)
    a, b = lse_a.astype(np.float64), lse_b.astype(np.float64)
    expected_lse = np.logaddexp(a, b)
    with np.errstate(invalid="ignore"):
        weights = [np.nan_to_num(np.exp(part - expected_lse), nan=0.0)[..., None] for part in (a, b)]
    expected = weights[0] * out_a.astype(np.float64) + weights[1] * out_b.astype(np.float64)
    unit = {2: BF16_UNIT if dtype is ml_dtypes.bfloat16 else F16_UNIT, 4: 2.0**-22}[out.dtype.itemsize]
    assert out.dtype == dtype
    np.testing.assert_allclose(out.astype(np.float64), expected, rtol=0, atol=5 * unit)
    np.testing.assert_allclose(lse, expected_lse, rtol=1e-6, atol=1e-5)
    assert not out[2].astype(np.float32).any() and np.isneginf(lse[2]).all()
    in_place = context.merge_state(out_a, lse_a, out_b, lse_b, out=out_a)
    assert in_place[0] is out_a
    np.testing.assert_array_equal(out_a, out)
    np.testing.assert_array_equal(in_place[1], lse)
