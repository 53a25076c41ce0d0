# PyTorch tensors on an NVIDIA GPU: attention, kernels of one's own, streams, graphs. Skipped where there is none:
# CI has none, `./dev device-test` runs these.
# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import quern
from attention_cases import Case, cases

try:
    import torch

    WHY_NOT = "" if torch.cuda.is_available() else "PyTorch finds no CUDA device"
except ImportError:
    WHY_NOT = "PyTorch is not installed"
pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)

UNITS = {"float16": 2.0**-11, "bfloat16": 2.0**-8}


@pytest.fixture
def gpu(cache_folder):
    with quern.Context("cuda", cache_path=cache_folder) as made:
        yield made


def on_gpu(array):
    return torch.from_numpy(np.ascontiguousarray(array)).cuda()


def tensors(case, dtype):
    return [
        torch.from_numpy(array.astype(np.float32)).to("cuda", getattr(torch, dtype))
        for array in (case.q, case.k, case.v)
    ]


def checked(case, out, lse, dtype):
    torch.cuda.synchronize()
    case.check(out.double().cpu().numpy(), lse.cpu().numpy(), UNITS[dtype])


@pytest.mark.parametrize("dtype", UNITS)
@pytest.mark.parametrize("name", cases())
def test_attention(gpu, rng, name, dtype):
    # float32 that both 16-bit types hold exactly: 8 significant bits, no tiny exponents.
    case = cases()[name]
    case.make(Coarse(rng), np.float32)
    q, k, v = tensors(case, dtype)
    out, lse = gpu.attention(q, k, v, **case.arguments(on_gpu), return_lse=True)
    assert (out.dtype, out.device, lse.dtype) == (q.dtype, q.device, torch.float32)
    checked(case, out, lse, dtype)


class Coarse:
    """Random numbers that bf16 and f16 hold exactly."""

    def __init__(self, rng):
        self.rng = rng
        self.permutation = rng.permutation

    def standard_normal(self, shape, dtype):
        return (np.round(self.rng.standard_normal(shape) * 32).clip(-127, 127) / 32).astype(dtype)


def test_the_stream_that_is_current(gpu, rng):
    case = Case([1, 1], [300, 200]).make(Coarse(rng), np.float32)
    q, k, v = tensors(case, "float16")
    arguments = case.arguments(on_gpu)
    gpu.attention(q, k, v, **arguments)
    for given in (False, True):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            torch.cuda._sleep(10_000_000)
            late = torch.zeros_like(q)
            late.copy_(q)
            options = {"stream": stream} if given else {}
            out, lse = gpu.attention(late, k, v, **arguments, return_lse=True, **options)
        checked(case, out, lse, "float16")


def test_a_stream_given_waits_for_what_is_pending(gpu, rng):
    case = Case([1], [100]).make(Coarse(rng), np.float32)
    q, k, v = tensors(case, "float16")
    arguments = case.arguments(on_gpu)
    out, lse = torch.empty_like(q), torch.empty(q.shape[:2], device="cuda")
    gpu.attention(q, k, v, **arguments, out=out, lse=lse)
    torch.cuda.synchronize()
    late = torch.zeros_like(q)
    torch.cuda._sleep(10_000_000)
    late.copy_(q)
    gpu.attention(late, k, v, **arguments, out=out, lse=lse, stream=torch.cuda.Stream().cuda_stream)
    checked(case, out, lse, "float16")


def test_a_graph_serves_lengths_that_change(gpu, rng):
    case = Case([1, 1, 1], [300, 17, 120]).make(Coarse(rng), np.float32)
    q, k, v = tensors(case, "float16")
    arguments = {**case.arguments(on_gpu), "max_kv_len": 320}
    out, lse = torch.empty_like(q), torch.empty(q.shape[:2], device="cuda")
    gpu.attention(q, k, v, **arguments, out=out, lse=lse)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        gpu.attention(q, k, v, **arguments, out=out, lse=lse)
    for lengths in ([300, 17, 120], [1, 0, 64], [0, 0, 0], [299, 17, 1]):
        arguments["lengths"].copy_(torch.tensor(lengths, dtype=torch.int32))
        expected, expected_lse = gpu.attention(q, k, v, **arguments, return_lse=True)
        out.fill_(float("nan"))
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(out, expected) and torch.equal(lse, expected_lse)


def test_what_is_not_ready_is_refused_under_capture(tmp_path):
    source = '#include "quern/kernel.cuh"\nQUERN_KERNEL(k, 32, 1, int n) { (void)n; }\n'
    with quern.Context("cuda", cache_path=tmp_path) as context:
        case = Case([1], [20]).make(np.random.default_rng(0), np.float16)
        arrays = [on_gpu(array) for array in (case.q, case.k, case.v)]
        out = torch.full_like(arrays[0], 9)
        arguments = case.arguments(on_gpu)
        torch.cuda.synchronize()
        with torch.cuda.graph(torch.cuda.CUDAGraph()), pytest.raises(quern.CapturingError, match="prepare"):
            context.attention(*arrays, **arguments, out=out)
        torch.cuda.synchronize()
        assert (out == 9).all()
        context.kernel(source, "k").launch(1, 32, [1])
        torch.cuda.synchronize()


def test_merge_state(gpu, rng):
    case = Case([1, 1], [300, 200]).make(Coarse(rng), np.float32)
    q, k, v = tensors(case, "float16")
    arguments = case.arguments(on_gpu)
    table, lengths = arguments.pop("page_table"), arguments.pop("lengths")
    head = torch.full_like(lengths, 160)
    a = gpu.attention(q, k, v, **{**arguments, "causal": False}, lengths=head, page_table=table, return_lse=True)
    rest = {"lengths": lengths - 160, "page_table": table[:, 10:]}
    b = gpu.attention(q, k, v, **{**arguments, "causal": False}, **rest, return_lse=True)
    out, lse = gpu.merge_state(*a, *b)
    torch.cuda.synchronize()
    np.testing.assert_allclose(out.double().cpu().numpy(), case.out, rtol=0, atol=2.0**-7)
    np.testing.assert_allclose(lse.double().cpu().numpy(), case.lse, rtol=0, atol=1e-4)


def test_kernel(gpu):
    source = """
#include "quern/kernel.cuh"
QUERN_KERNEL(add, 128, 1, float *y, const float *x, float a, int n) {
  const int i = static_cast<int>(q::block_index(0)) * 128 + static_cast<int>(q::thread_index());
  if (i < n) y[i] += a * x[i];
}
"""
    x, y = torch.arange(1000, device="cuda", dtype=torch.float32), torch.ones(1000, device="cuda")
    gpu.kernel(source, "add").launch(8, 128, [y, x, 2.0, 1000])
    assert torch.equal(y, 1 + 2 * x)
    with pytest.raises(quern.InvalidError, match=r"args\[1\]: lies on device 1:0, the context's is 2:0"):
        gpu.kernel(source, "add").launch(8, 128, [y, np.zeros(1000, np.float32), 2.0, 1000])


def test_bad_tensors(gpu, rng):
    case = Case([1, 1], [20, 30]).make(Coarse(rng), np.float32)
    q, k, v = tensors(case, "float16")
    arguments = {**case.arguments(on_gpu), "out": torch.full_like(q, 9)}
    bad = {
        "q": (torch.nn.Parameter(q), "q: the tensor requires a gradient"),
        "k": (k.cpu(), "k"),
        "v": (v.float(), "v"),
        "lengths": (arguments["lengths"].long(), "lengths"),
        "page_table": (arguments["page_table"].cpu(), "page_table"),
        "stream": ("7", "stream: '7' given"),
    }
    for name, (value, complaint) in bad.items():
        with pytest.raises(quern.InvalidError, match=complaint):
            gpu.attention(**{"q": q, "k": k, "v": v, **arguments, name: value})
    torch.cuda.synchronize()
    assert (arguments["out"] == 9).all()


def wide(array):
    return array.double().cpu().numpy()


def spread(scale, shape):
    """Scales of 1x128 or 128x128 as one a number."""
    rows = 1 if scale.shape[-2] == shape[-2] else 128
    return wide(scale).repeat(rows, -2)[..., : shape[-2], :].repeat(128, -1)[..., : shape[-1]]


def normal(*shape, dtype="float32"):
    return torch.randn(*shape, device="cuda").to(getattr(torch, dtype))


def test_gemm_and_its_epilogue(gpu):
    torch.manual_seed(1)
    a, b, bias = normal(33, 256, dtype="bfloat16"), normal(512, 256, dtype="bfloat16"), normal(512)
    sums = wide(a) @ wide(b).T
    out = gpu.gemm(a, b)
    assert out.dtype == torch.bfloat16
    np.testing.assert_allclose(wide(out), sums, rtol=2.0**-7, atol=2.0**-4)
    relu = gpu.gemm(a, b, bias=bias, activation="relu", out_dtype=torch.float32)
    np.testing.assert_allclose(wide(relu), np.maximum(sums + wide(bias), 0), rtol=1e-4, atol=1e-3)
    scaled = gpu.gemm(a, b, expression="acc * scalar0 + col0", operands=[bias], scalars=[0.5], out_dtype="f32")
    np.testing.assert_allclose(wide(scaled), sums * 0.5 + wide(bias), rtol=1e-4, atol=1e-3)
    # Stored the other way round: another kernel, which adds in another order.
    transposed = gpu.gemm(a, b.t().contiguous().t())
    np.testing.assert_allclose(wide(transposed), sums, rtol=2.0**-7, atol=2.0**-4)


def test_8_bit_floats_are_taken_and_made(gpu):
    torch.manual_seed(2)
    x, weight = normal(65, 384, dtype="bfloat16"), normal(256, 384, dtype="bfloat16")
    a, a_scale = gpu.quantize(x)
    b, b_scale = gpu.quantize(weight, scale_kind="block")
    assert a.dtype == b.dtype == torch.float8_e4m3fn
    assert a_scale.shape == (65, 3) and a_scale.stride() == (1, 68)
    expected = (wide(a) * spread(a_scale, a.shape)) @ (wide(b) * spread(b_scale, b.shape)).T
    out = gpu.fp8_gemm(a, b, a_scale, b_scale, out_dtype=torch.float32)
    np.testing.assert_allclose(wide(out), expected, rtol=1e-4, atol=1e-3 * np.abs(expected).max())
    one = torch.ones(1, device="cuda")
    by_bytes = gpu.fp8_gemm(
        a.view(torch.uint8), b.view(torch.uint8), one, one, a_type="e4m3", b_type="e4m3", out_dtype="f32"
    )
    assert torch.equal(by_bytes, gpu.fp8_gemm(a, b, one, one, out_dtype="f32"))
    back = gpu.dequantize(a, a_scale, out_dtype=torch.bfloat16)
    np.testing.assert_allclose(wide(back), wide(x), rtol=2.0**-3, atol=2.0**-4)
    small, small_scale = gpu.fp8_gemm(a, b, a_scale, b_scale, out_dtype=torch.float8_e4m3fn, out_scale=True)
    assert small.dtype == torch.float8_e4m3fn
    np.testing.assert_allclose(
        wide(small) * spread(small_scale, small.shape), expected, rtol=2.0**-3, atol=2.0**-6 * np.abs(expected).max()
    )


def test_a_graph_serves_experts_that_change(gpu):
    torch.manual_seed(3)
    x, weight = normal(48, 256, dtype="bfloat16"), normal(8 * 256, 256, dtype="bfloat16")
    logits = normal(48, 8)
    b, b_scale = gpu.quantize(weight, scale_kind="block")
    b, b_scale = b.view(8, 256, 256), b_scale.view(8, 2, 2)

    def mixture():
        routing = gpu.moe_route(logits, 2, renormalize=True)
        a, a_scale = gpu.quantize(x)
        rows = gpu.grouped_fp8_gemm(a, b, a_scale, b_scale, offsets=routing.offsets, indices=routing.indices)
        return gpu.moe_combine(rows, routing.positions, routing.weights)

    mixture()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = mixture()
    for seed in range(3):
        torch.manual_seed(seed)
        logits.copy_(normal(48, 8) * 3)
        expected = mixture()
        out.fill_(float("nan"))
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(out, expected)


def test_parameters_are_taken_where_no_gradient_is_wanted(gpu):
    weight = torch.nn.Parameter(torch.randn(8, 32, dtype=torch.float16, device="cuda"))
    a = torch.randn(3, 32, dtype=torch.float16, device="cuda")
    with torch.no_grad():
        out = gpu.gemm(a, weight)
    assert torch.allclose(out.float(), a.float() @ weight.detach().float().T, atol=2e-2)
    with pytest.raises(quern.InvalidError, match="b: the tensor requires a gradient.*no_grad"):
        gpu.gemm(a, weight)
