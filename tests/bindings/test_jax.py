# The ops under JAX: custom calls inside and outside of jit, on the CPU and, where JAX finds one, on a GPU.
#   QUERN_JAX=libquern_jax.so python3 -m pytest tests/bindings/test_jax.py
# SPDX-License-Identifier: Apache-2.0
import os

import numpy as np
import pytest
import quern

jax = pytest.importorskip("jax", reason="jax is not installed")
pytestmark = pytest.mark.skipif(not os.environ.get("QUERN_JAX"), reason="QUERN_JAX names no handlers")
if os.environ.get("QUERN_JAX"):
    import jax.numpy as jnp
    from quern import jax_ops

    Shape = jax.ShapeDtypeStruct


@pytest.fixture(params=["cpu", "gpu"], autouse=True)
def device(request):
    try:
        found = jax.devices(request.param)[0]
    except RuntimeError:
        pytest.skip(f"JAX finds no {request.param}")
    with jax.default_device(found):
        yield found


def normal(seed, *shape, dtype=np.float32):
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape).astype(np.float32)).astype(dtype)


def gemm(a, b, **rest):
    return jax_ops.call("gemm", {"out": Shape((a.shape[0], b.shape[0]), a.dtype)}, a=a, b=b, **rest)["out"]


def test_inside_and_outside_of_jit():
    a, b = normal(1, 5, 64), normal(2, 8, 64)
    expected = np.asarray(a, np.float64) @ np.asarray(b, np.float64).T
    np.testing.assert_allclose(gemm(a, b), expected, atol=1e-4)
    both = jax.jit(lambda a, b: jnp.tanh(gemm(a * 2, b)) + 1)(a, b)
    np.testing.assert_allclose(both, np.tanh(2 * expected) + 1, atol=1e-4)


def test_numbers_lists_flags_and_formulas():
    a, b, bias = normal(1, 5, 64), normal(2, 8, 64), normal(3, 8)
    out = gemm(a, b, expression="acc * scalar0 + col0", operands=[bias], scalars=[0.5])
    np.testing.assert_allclose(out, 0.5 * (np.asarray(a) @ np.asarray(b).T) + np.asarray(bias), atol=1e-4)
    silu = gemm(a, b, bias=bias, activation="relu")
    np.testing.assert_allclose(silu, np.maximum(np.asarray(a) @ np.asarray(b).T + np.asarray(bias), 0), atol=1e-4)
    weight = normal(4, 64)
    done = jax_ops.call("rmsnorm", {"out": a}, x=a, weight=weight, eps=1e-3, weight_plus_one=True)["out"]
    x = np.asarray(a, np.float64)
    expected = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-3) * (1 + np.asarray(weight))
    np.testing.assert_allclose(done, expected, atol=1e-5)


def test_a_decode_step_appends_and_attends():
    """An append into a paged cache in place, then attention over it."""
    kv, dtype = normal(1, 4, 16, 2, 64, dtype=jnp.bfloat16), jnp.bfloat16
    k, v, q = (normal(seed, 2, heads, 64, dtype=dtype) for seed, heads in ((2, 2), (3, 2), (4, 4)))
    lengths, slots = jnp.asarray([20, 3], jnp.int32), jnp.asarray([0 * 16 + 3, 3 * 16 + 2], jnp.int32)
    table = jnp.asarray([[2, 0], [3, 1]], jnp.int32)

    @jax.jit
    def step(q, k, v, k_cache, v_cache):
        caches = jax_ops.call(
            "kv_append", {"k_cache": k_cache, "v_cache": v_cache}, k=k, v=v, k_cache=k_cache, v_cache=v_cache,
            slots=slots, in_place={"k_cache": "k_cache", "v_cache": "v_cache"},
        )  # fmt: skip
        results = {"out": q, "lse": Shape(q.shape[:2], jnp.float32)}
        done = jax_ops.call(
            "attention", results, q=q, k=caches["k_cache"], v=caches["v_cache"], lengths=lengths, page_table=table,
            max_kv_len=32, causal=True,
        )  # fmt: skip
        return done["out"], done["lse"], caches["k_cache"]

    out, _, k_cache = step(q, k, v, kv, kv)
    keys, values = np.array(kv, np.float32).reshape(64, 2, 64), np.array(kv, np.float32).reshape(64, 2, 64)
    keys[np.asarray(slots)], values[np.asarray(slots)] = np.asarray(k, np.float32), np.asarray(v, np.float32)
    np.testing.assert_array_equal(np.asarray(k_cache, np.float32).reshape(64, 2, 64), keys)
    for b, length in enumerate((20, 3)):
        places = np.concatenate([np.arange(16) + 16 * page for page in np.asarray(table)[b]])[:length]
        for h in range(4):
            scores = keys[places, h // 2].astype(np.float64) @ np.asarray(q, np.float64)[b, h] / 8
            weights = np.exp(scores - scores.max())
            right = weights @ values[places, h // 2] / weights.sum()
            np.testing.assert_allclose(np.asarray(out, np.float64)[b, h], right, atol=3e-2)


def test_every_op_is_registered():
    for op in quern._abi.OPS:
        with pytest.raises(quern.InvalidError, match=f"{op} has no argument 'nothing'"):
            jax_ops.call(op, {}, nothing=1)


def test_errors_name_the_argument():
    a, b = normal(1, 5, 64), normal(2, 8, 32)
    with pytest.raises(Exception, match=r"QUERN_INVALID: .*b.shape\[1\] is 32"):
        jax.block_until_ready(gemm(a, b))
    with pytest.raises(quern.InvalidError, match="activation: 'selu' given; allowed are default, relu"):
        gemm(a, b, activation="selu")
    with pytest.raises(quern.InvalidError, match="results: gemm writes no 'product'"):
        jax_ops.call("gemm", {"product": a}, a=a, b=b)


def test_what_is_written_in_place_is_named():
    x, weight = normal(1, 5, 64), normal(2, 64)
    with pytest.raises(quern.InvalidError, match="in_place: result 'residual_out' given; allowed are out"):
        jax_ops.call("rmsnorm", {"out": x}, x=x, weight=weight, in_place={"residual_out": "x"})
    with pytest.raises(
        quern.InvalidError, match="in_place: argument 'residual' given for 'out'; allowed are x, weight"
    ):
        jax_ops.call("rmsnorm", {"out": x}, x=x, weight=weight, in_place={"out": "residual"})
    # XLA's memory goes on only as what it was.
    with pytest.raises(Exception, match="alias|shape"):
        jax.block_until_ready(
            jax_ops.call("rmsnorm", {"out": Shape((5, 64), jnp.float16)}, x=x, in_place={"out": "x"})["out"]
        )


def copies_of(function, *given, donate=()):
    """The copies of whole buffers in what XLA compiles."""
    text = jax.jit(function, donate_argnums=donate).lower(*given).compile().as_text()
    return [line.strip() for line in text.splitlines() if " copy(" in line or " copy-start(" in line]


def test_several_results_are_not_copied():
    """A custom call with several results writes each where it is handed on."""
    x, residual, weight = normal(1, 128, 256), normal(2, 128, 256), normal(3, 256)

    def block(x, residual, weight):
        made = jax_ops.call("rmsnorm", {"out": x, "residual_out": x}, x=x, residual=residual, weight=weight)
        return made["out"], made["residual_out"]

    out, total = jax.jit(block)(x, residual, weight)
    np.testing.assert_allclose(total, np.asarray(x) + np.asarray(residual), atol=1e-6)
    scale = np.sqrt((np.asarray(total, np.float64) ** 2).mean(-1, keepdims=True) + 1e-6)
    np.testing.assert_allclose(out, np.asarray(total) / scale * np.asarray(weight), atol=1e-4)
    assert copies_of(block, x, residual, weight) == []

    def in_place(x, residual, weight):
        made = jax_ops.call(
            "rmsnorm", {"out": x, "residual_out": x}, x=x, residual=residual, weight=weight,
            in_place={"residual_out": "residual"},
        )  # fmt: skip
        return made["residual_out"], made["out"]

    # JAX gives a donated buffer to the first result of its shape and type: returned in another order it is copied.
    assert copies_of(in_place, x, residual, weight, donate=(1,)) == []
    assert copies_of(lambda *given: in_place(*given)[::-1], x, residual, weight, donate=(1,)) != []
    caches = [normal(seed, 4, 16, 2, 64, dtype=jnp.bfloat16) for seed in (4, 5)]
    new, slots = normal(6, 2, 2, 64, dtype=jnp.bfloat16), jnp.asarray([3, 50], jnp.int32)

    def append(k_cache, v_cache):
        written = {"k_cache": k_cache, "v_cache": v_cache}
        names = {name: name for name in written}
        made = jax_ops.call("kv_append", written, k=new, v=new, slots=slots, **written, in_place=names)
        return made["k_cache"], made["v_cache"]

    assert copies_of(lambda k, v: append(*append(k, v)), *caches, donate=(0, 1)) == []
