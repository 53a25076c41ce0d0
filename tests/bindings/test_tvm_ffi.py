# The TVM-FFI module: every op is there, calls are right on the CPU's tensors and, where there is a GPU, on its streams.
#   QUERN_TVM_FFI=MODULE.so python3 -m pytest tests/bindings/test_tvm_ffi.py
# SPDX-License-Identifier: Apache-2.0
import concurrent.futures
import itertools
import os
import resource

import numpy as np
import pytest

tvm_ffi = pytest.importorskip("tvm_ffi", reason="apache-tvm-ffi is not installed")
MODULE = os.environ.get("QUERN_TVM_FFI")
pytestmark = pytest.mark.skipif(not MODULE, reason="QUERN_TVM_FFI names no module")
ROOT = os.environ.get("QUERN_CHECKOUT") or os.path.join(os.path.dirname(__file__), "..", "..")


@pytest.fixture(scope="module")
def module():
    return tvm_ffi.load_module(MODULE)


def call(function, **named):
    """Names and values in turn; NumPy's arrays as TVM-FFI takes them."""
    turned = {name: tvm_ffi.from_dlpack(one) if isinstance(one, np.ndarray) else one for name, one in named.items()}
    return function(*itertools.chain.from_iterable(turned.items()))


def decode_step(dtype=np.float16):
    rng = np.random.default_rng(3)
    q, pages = rng.standard_normal((2, 4, 64)).astype(dtype), rng.standard_normal((4, 16, 2, 64)).astype(dtype)
    lengths, table = np.array([20, 3], np.int32), np.array([[2, 0], [3, 1]], np.int32)
    expected = np.zeros((2, 4, 64))
    for b, length in enumerate(lengths):
        keys = pages[table[b]].reshape(-1, 2, 64)[:length].astype(np.float64)
        for h in range(4):
            scores = keys[:, h // 2] @ q[b, h].astype(np.float64) / 8
            weights = np.exp(scores - scores.max())
            expected[b, h] = weights @ keys[:, h // 2] / weights.sum()
    return {"q": q, "k": pages, "v": pages, "lengths": lengths, "page_table": table, "max_kv_len": 32}, expected


def test_every_op_is_there(module):
    with open(os.path.join(ROOT, "sources", "ops.def"), encoding="utf-8") as file:
        ops = [line[9:].split(",")[0].rstrip(")\n") for line in file if line.startswith("QUERN_OP(")]
    assert len(ops) > 30
    for op in ops:
        for suffix in ("", "_prepare", "_workspace"):
            assert module[op + suffix] is not None
        with pytest.raises(ValueError, match="no tensor is given"):
            module[op]()


def test_attention_is_right(module):
    given, expected = decode_step()
    out = np.full((2, 4, 64), np.nan, np.float16)
    assert call(module.attention_workspace, **given, out=out) >= 0
    call(module.attention_prepare, **given, out=out)
    call(module.attention, **given, out=out, flags=module.constant("QUERN_ATTENTION_CAUSAL"))
    np.testing.assert_allclose(out, expected, atol=2e-3)


def test_numbers_lists_and_formulas(module):
    rng = np.random.default_rng(4)
    a, b, bias = (rng.standard_normal(shape).astype(np.float32) for shape in ((3, 64), (8, 64), (8,)))
    out = np.zeros((3, 8), np.float32)
    call(
        module.gemm,
        a=a,
        b=b,
        out=out,
        expression="acc * scalar0 + col0",
        operands=[tvm_ffi.from_dlpack(bias)],
        scalars=[0.5],
    )
    np.testing.assert_allclose(out, 0.5 * (a @ b.T) + bias, atol=1e-4)
    x, norm = rng.standard_normal((3, 96)).astype(np.float32), np.zeros((3, 96), np.float32)
    call(module.rmsnorm, x=x, out=norm, eps=1e-3, weight=None)
    np.testing.assert_allclose(norm, x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-3), atol=1e-5)


def test_errors_name_the_argument(module):
    x = np.zeros((3, 64), np.float32)
    with pytest.raises(ValueError, match=r"QUERN_INVALID: .*b.shape\[1\] is 32"):
        call(module.gemm, a=x, b=x[:, :32].copy(), out=x)
    with pytest.raises(ValueError, match="gemm has no argument 'weight'; there are flags, "):
        call(module.gemm, a=x, weight=x)
    with pytest.raises(ValueError, match="eps: a tensor given; allowed is a number"):
        call(module.rmsnorm, x=x, eps=x)
    with pytest.raises(ValueError, match="names and values in turn"):
        module.gemm("a", tvm_ffi.from_dlpack(x), "b")
    with pytest.raises(ValueError, match="max_sms: 4294967296 given"):
        call(module.gemm, a=x, max_sms=1 << 32)
    with pytest.raises(ValueError, match="quern.h has no 'QUERN_NONE'"):
        module.constant("QUERN_NONE")


def test_a_stream_of_the_host_is_refused(module):
    x = np.zeros((3, 64), np.float32)
    with pytest.raises(ValueError, match="QUERN_INVALID: stream: a handle given; tensors of the host have no streams"):
        call(module.rmsnorm, x=x, out=x, stream=64)
    for wrong in (1.5, "side", x):
        with pytest.raises(ValueError, match="stream: a handle is wanted"):
            call(module.rmsnorm, x=x, out=x, stream=wrong)


def test_threads_share_the_workspaces(module):
    """As many are held as calls were made at once, however many threads there were; a failed call's is right again."""
    given, expected = decode_step()
    x = np.zeros((3, 64), np.float32)

    def run(_):
        out = np.full((2, 4, 64), np.nan, np.float16)
        call(module.attention, **given, out=out)
        with pytest.raises(ValueError, match=r"b.shape\[1\] is 32"):
            call(module.gemm, a=x, b=x[:, :32].copy(), out=x)
        np.testing.assert_allclose(out, expected, atol=2e-3)

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(8):
        with concurrent.futures.ThreadPoolExecutor(8) as threads:
            list(threads.map(run, range(16)))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10  # KiB


def test_another_context_can_be_used(module, tmp_path):
    quern = pytest.importorskip("quern")
    import ctypes

    with quern.Context("host", cache_path=tmp_path) as context:
        module.use_context(1, 0, ctypes.cast(context._handle, ctypes.c_void_p).value)
        x = np.ones((3, 96), np.float32)
        call(module.rmsnorm, x=x, out=x)
        assert context.stats().kernels_loaded == 1
        module.use_context(1, 0, 0)  # the module makes one of its own again
    call(module.rmsnorm, x=x, out=x)


def on_gpu():
    try:
        import torch
    except ImportError:
        return False
    return torch.cuda.is_available()


@pytest.mark.skipif(not on_gpu(), reason="no GPU for PyTorch")
def test_streams_and_graphs_on_a_gpu(module):
    import torch

    given, expected = decode_step()
    given = {name: torch.from_numpy(one).cuda() if isinstance(one, np.ndarray) else one for name, one in given.items()}
    expected, q, out = torch.from_numpy(expected).cuda(), given["q"], torch.zeros_like(given["q"])
    call(module.attention, **given, out=out)
    assert torch.allclose(out.double(), expected, atol=2e-3)
    late = torch.zeros_like(q)
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda._sleep(20_000_000)
        late.copy_(q)
        call(module.attention, **{**given, "q": late}, out=out.zero_())
    torch.cuda.synchronize()
    assert torch.allclose(out.double(), expected, atol=2e-3)
    # A stream of the call's own, for which nothing is kept: the framework could not make a workspace in its order.
    aside = torch.cuda.Stream()
    with pytest.raises(ValueError, match="workspace: none given for a stream of the call's own"):
        call(module.attention, **given, out=out, stream=aside.cuda_stream)
    bytes_of = call(module.attention_workspace, **given, out=out)
    workspace = torch.zeros(bytes_of, dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()
    call(module.attention, **given, out=out.zero_(), stream=aside.cuda_stream, workspace=workspace)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call(module.attention, **{**given, "q": late}, out=out)
    out.zero_()
    graph.replay()
    torch.cuda.synchronize()
    assert torch.allclose(out.double(), expected, atol=2e-3)
