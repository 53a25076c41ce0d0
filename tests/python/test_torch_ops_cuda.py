# torch.ops.quern on an NVIDIA GPU: the stream that is current, graphs by hand and by torch.compile, gradients, bound
# calls. Skipped where there is none: CI has none, `./dev device-test` runs these.
# SPDX-License-Identifier: Apache-2.0
import pytest
import quern

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
if not torch.cuda.is_available():
    pytest.skip("PyTorch finds no CUDA device", allow_module_level=True)
from quern import torch_ops  # noqa: E402
from quern.torch_ops import ops  # noqa: E402

LONG = 200_000_000  # cycles that a stream is held up for: 100 ms, which no call takes


@pytest.fixture(autouse=True)
def gpu(cache_folder):
    torch.manual_seed(5)
    with quern.Context("cuda", cache_path=cache_folder) as made, torch.no_grad():
        torch_ops.use(made)
        yield made
        torch.cuda.synchronize()
        torch_ops._contexts.clear()


def normal(*shape, dtype=torch.bfloat16):
    return torch.randn(*shape, device="cuda").to(dtype)


def paged(lengths, kv=2, d=64):
    lengths = torch.tensor(lengths, dtype=torch.int32, device="cuda")
    pages = normal(32, 16, kv, d)
    table = torch.randperm(32, device="cuda")[: lengths.numel() * 8].reshape(-1, 8).int()
    return {"q": normal(lengths.numel(), 8, d), "k": pages, "v": pages, "lengths": lengths, "page_table": table}


def attended(given):
    return ops.attention(**given, max_kv_len=128)


def close(one, other, tolerance=2e-2):
    one, other = one.double(), other.double()
    return (one - other).abs().max() <= tolerance * max(1.0, other.abs().max().item())


def test_they_are_right():
    x, weight = normal(33, 256), normal(128, 256)
    assert close(ops.gemm(x, weight), x.double() @ weight.double().T)
    given = paged([100, 1, 64])
    keys = given["k"][given["page_table"].long()].flatten(1, 2).double()
    for b, length in enumerate((100, 1, 64)):
        seen = keys[b, :length].repeat_interleave(4, dim=1).transpose(0, 1)
        weights = torch.softmax(given["q"][b].double()[:, None] @ seen.mT * 64**-0.5, -1)
        assert close(attended(given)[b], (weights @ seen)[:, 0])


def test_the_stream_that_is_current():
    x, weight = normal(4, 256), normal(128, 256)
    expected = ops.gemm(x, weight)
    given = paged([100, 30])
    expected_attended = attended(given)
    torch.cuda.synchronize()
    for call, source, right in (
        (lambda late: ops.gemm(late, weight), x, expected),
        (lambda late: attended({**given, "q": late}), given["q"], expected_attended),
        (lambda late: ops.rmsnorm(late), x, ops.rmsnorm(x)),
    ):
        late, early, stream = torch.zeros_like(source), torch.empty_like(source), torch.cuda.Stream()
        with torch.cuda.stream(stream):
            call(late)
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(LONG)
            late.copy_(source)
            out = call(late)
        # Any other stream comes too early, which shows that this test would see one.
        with torch.cuda.stream(torch.cuda.default_stream()):
            early.copy_(late)
        torch.cuda.synchronize()
        assert not early.any()
        assert torch.equal(out, right)


def test_the_stream_of_bound_calls(gpu):
    x, weight, late = normal(4, 256), normal(128, 256), torch.zeros(4, 256, dtype=torch.bfloat16, device="cuda")
    expected = ops.gemm(x, weight).clone()
    bound = gpu.gemm.bind(late, weight)
    given = paged([100, 30])
    bound_attention = gpu.attention.bind(**{**given, "q": torch.zeros_like(given["q"])}, max_kv_len=128)
    assert torch.isfinite(bound_attention()).all()
    for _ in range(2):
        late.zero_()
        torch.cuda.synchronize()
        with torch.cuda.stream(torch.cuda.Stream()):
            torch.cuda._sleep(LONG)
            late.copy_(x)
            out = bound()
        torch.cuda.synchronize()
        assert torch.equal(out, expected)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        bound()
    late.copy_(2 * x)
    graph.replay()
    torch.cuda.synchronize()
    assert close(out, 2 * expected)


def step(x, weight, gain, given):
    hidden = ops.rmsnorm(ops.gemm(x, weight), gain)
    return attended({**given, "q": hidden.view(-1, 8, 64)})


def test_a_graph_by_hand():
    x, weight, gain, given = normal(3, 256), normal(512, 256), normal(512), paged([100, 1, 64])
    step(x, weight, gain, given)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = step(x, weight, gain, given)
    for lengths in ([100, 1, 64], [7, 128, 1]):
        x.copy_(normal(3, 256))
        given["lengths"].copy_(torch.tensor(lengths, dtype=torch.int32))
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(out, step(x, weight, gain, given))


@pytest.mark.parametrize("backend", ["aot_eager", "inductor", "cudagraphs", "reduce-overhead"])
def test_compiled(backend):
    how = {"mode": backend} if backend == "reduce-overhead" else {"backend": backend}
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    compiled = torch.compile(step, fullgraph=True, **how)
    x, weight, gain, given = normal(3, 256), normal(512, 256), normal(512), paged([100, 1, 64])
    # The first calls warm up and record, the later ones replay.
    for _ in range(4):
        x = normal(3, 256)
        if backend == "reduce-overhead":
            torch.compiler.cudagraph_mark_step_begin()
        assert torch.equal(compiled(x, weight, gain, given), step(x, weight, gain, given))
    if backend == "reduce-overhead":
        assert not torch._dynamo.utils.counters["inductor"]["cudagraph_skips"]


def test_gradients():
    with torch.enable_grad():
        x = normal(9, 512, dtype=torch.float32).requires_grad_()
        gain = normal(512, dtype=torch.float32).requires_grad_()
        seed = normal(9, 512, dtype=torch.float32)
        got = torch.autograd.grad((ops.rmsnorm(x, gain) * seed).sum(), (x, gain))
        expected = torch.autograd.grad((torch.nn.functional.rms_norm(x, (512,), gain, 1e-6) * seed).sum(), (x, gain))
    for one, other in zip(got, expected, strict=True):
        assert close(one, other, 1e-4)


def test_parameters_without_gradients():
    x, weight = normal(3, 256), torch.nn.Parameter(normal(128, 256))
    assert torch.equal(ops.gemm(x, weight), ops.gemm(x, weight.detach()))
    with torch.enable_grad(), pytest.raises(quern.InvalidError, match="requires a gradient"):
        ops.gemm(x, weight)
