# Calls bound to their arguments: the same results as a plain call's, from memory as it is by then, in either way of
# calling the library.
# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import quern
from placed import Placed
from quern import _abi


def attention_arguments(rng):
    q = rng.standard_normal((3, 4, 32)).astype(np.float16)
    pages = rng.standard_normal((6, 4, 2, 32)).astype(np.float16)
    lengths = np.array([5, 0, 8], np.int32)
    table = np.array([[3, 1], [0, 0], [5, 2]], np.int32)
    return (q, pages, pages), {"lengths": lengths, "page_table": table, "causal": True, "return_lse": True}


def test_it_reads_what_memory_holds_by_then(context, rng):
    arrays, named = attention_arguments(rng)
    bound = context.attention.bind(*arrays, **named)
    for _ in range(3):
        arrays[0][...] = rng.standard_normal(arrays[0].shape)
        out, lse = context.attention(*arrays, **named)
        again = bound()
        np.testing.assert_array_equal(again[0], out)
        np.testing.assert_array_equal(again[1], lse)
        assert bound() is again
    named["lengths"][0] = 100
    with pytest.raises(quern.InvalidError, match="lengths"):
        bound()


def test_an_epilogue_stays_alive(context):
    a, b = np.ones((3, 32), np.float16), np.ones((6, 32), np.float16)
    bound = context.gemm.bind(
        a, b, expression="acc * scalar0 + col0", scalars=[2.0], operands=[np.full(6, 3, np.float32)]
    )
    junk = [np.zeros(6, np.float32) for _ in range(100)]
    assert (bound() == 67).all() and len(junk) == 100


def test_wrong_arguments_are_told_at_once(context):
    with pytest.raises(quern.InvalidError, match="q: list given"):
        context.attention.bind([1], np.zeros((2, 2, 1, 32), np.float16), np.zeros((2, 2, 1, 32), np.float16), lengths=0)
    with pytest.raises(TypeError):
        context.gemm.bind(np.ones((3, 32), np.float16), np.ones((6, 32), np.float16))(1)


def test_with_a_workspace_of_the_caller_s(context, rng):
    arrays, named = attention_arguments(rng)
    size = context.attention_workspace(
        q=arrays[0], k=arrays[1], v=arrays[2], out=arrays[0], lengths=named["lengths"],
        page_table=named["page_table"], causal=True, max_kv_len=8,
    )  # fmt: skip
    memory = np.zeros(size + 256, np.uint8)
    aligned = memory[-memory.ctypes.data % 256 :]
    out, lse = context.attention(*arrays, **named)
    for call in (
        context.attention.bind(*arrays, workspace=aligned, **named),
        lambda: context.attention(*arrays, workspace=aligned, **named),
    ):
        again = call()
        np.testing.assert_array_equal(again[0], out)
        np.testing.assert_array_equal(again[1], lse)


def test_a_workspace_behind_a_byte_offset(context):
    """What comes before it, in the same memory, is somebody else's."""
    boxes = np.array([[0, 0, 10, 10], [1, 1, 11, 11], [20, 0, 30, 10], [0, 0, 10, 10]], np.float32)[None]
    scores = np.array([[0.5, 0.9, 0.1, 0.7]], np.float32)
    outputs = {"ids": np.zeros((1, 4), np.int32), "counts": np.zeros(1, np.int32)}
    size = context.nms_workspace(boxes=boxes, scores=scores, iou_threshold=0.5, **outputs)
    offset = -(-size // 256) * 256
    memory = np.zeros(offset + size + 256, np.uint8)
    begin = -memory.ctypes.data % 256 + offset
    workspace = memory[begin:][:size]
    named = {"workspace": Placed(workspace, offset=offset), **outputs}
    for call in (context.nms.bind(boxes, scores, 0.5, **named), lambda: context.nms(boxes, scores, 0.5, **named)):
        workspace[:] = 0
        outputs["ids"][:] = 7
        call()
        assert outputs["ids"].tolist() == [[1, 2, -1, -1]]
        assert workspace.any() and not memory[:begin].any()


def test_a_closed_context_is_told(cache_folder):
    context = quern.Context("host", cache_path=cache_folder)
    a, b = np.ones((3, 32), np.float16), np.ones((6, 32), np.float16)
    bound = context.gemm.bind(a, b)
    context.close()
    for call in (bound, lambda: context.gemm(a, b), lambda: context.gemm.bind(a, b)):
        with pytest.raises(quern.InvalidError, match="context: is closed"):
            call()


def test_every_op_can_be_bound(context):
    for op in _abi.OPS:
        method = getattr(context, op)
        assert method.__doc__ is None or callable(method.bind)
        assert getattr(quern.Context, op).__name__ == op, "help() and signatures are the function's"
