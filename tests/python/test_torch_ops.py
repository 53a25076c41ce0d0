# torch.ops.quern: every op registered with a schema and a fake, traced whole by torch.compile, right on the CPU's
# tensors. Skipped without PyTorch, which CI does not install for its size: `./dev bindings torch` does.
# SPDX-License-Identifier: Apache-2.0
import pytest
import quern
from quern import _abi

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
torch_ops = pytest.importorskip("quern.torch_ops")
ops = torch_ops.ops


@pytest.fixture(autouse=True)
def on_host(context):
    """The session's context and its cache."""
    before = dict(torch_ops._contexts)
    torch_ops.use(context)
    torch.manual_seed(7)
    with torch.no_grad():
        yield
    torch_ops._contexts.clear()
    torch_ops._contexts.update(before)


def paged(dtype=torch.bfloat16):
    q, pages = torch.randn(3, 4, 32).to(dtype), torch.randn(6, 4, 2, 32).to(dtype)
    lengths = torch.tensor([5, 1, 8], dtype=torch.int32)
    return q, pages, lengths, torch.tensor([[3, 1], [0, 0], [5, 2]], dtype=torch.int32)


def reference(q, pages, lengths, table):
    """Attention of each sequence's one query, by PyTorch."""
    rows = []
    for b, length in enumerate(lengths):
        keys = pages[table[b].long()].flatten(0, 1)[:length].repeat_interleave(2, dim=1).transpose(0, 1).double()
        weights = torch.softmax(q[b].double()[:, None] @ keys.mT * q.shape[-1] ** -0.5, -1)
        rows.append((weights @ keys)[:, 0])
    return torch.stack(rows)


def test_every_op_has_a_schema_and_a_fake():
    from torch._subclasses.fake_tensor import FakeTensorMode

    for op in _abi.OPS:
        registered = getattr(torch.ops.quern, op).default
        written = {argument.name for argument in registered._schema.arguments if argument.alias_info is not None}
        assert _abi.OUTPUTS[op] <= written, op
        name, kind = next(
            (one.name, str(one.type)) for one in registered._schema.arguments if "Tensor" in str(one.type)
        )
        with FakeTensorMode():
            tensor = torch.empty(2, 3)
            given = {name: [tensor] if "List" in kind else tensor}
            assert registered(**given) is None  # the real one would refuse it


def gemm(x, weight, bias):
    return ops.gemm(x * 2, weight, bias=bias, activation="silu") + 1


def norm(x, weight, residual):
    out, summed = ops.rmsnorm(x, weight, residual=residual)
    return out * 2, summed


def quantized(x):
    values, scale = ops.quantize(x, scale_kind="token")
    return ops.dequantize(values, scale, scale_kind="token") + 0


def attention(q, pages, lengths, table):
    return ops.attention(q, pages, pages, lengths=lengths, page_table=table, return_lse=True)


def cases():
    x = torch.randn(6, 64)
    yield gemm, (x, torch.randn(16, 64), torch.randn(16))
    yield norm, (x, torch.randn(64), torch.randn(6, 64))
    yield quantized, (x,)
    yield attention, paged()
    yield lambda x: ops.softmax(x, temperature=0.5), (x,)
    yield lambda x: ops.top_k(x, 5, sorted=True), (x,)
    yield lambda table, ids: ops.gather(table, ids, scale=2.0), (x, torch.tensor([3, 0, 5]))
    yield lambda x: tuple(ops.moe_route(x, 2, renormalize=True)), (x[:, :8].contiguous(),)


@pytest.mark.parametrize("number", range(8))
def test_compiled_whole_it_is_what_it_is_uncompiled(number):
    function, arguments = list(cases())[number]
    expected = function(*arguments)
    got = torch.compile(function, fullgraph=True, backend="aot_eager")(*arguments)
    for one, other in zip(expected if isinstance(expected, tuple) else (expected,),
                          got if isinstance(got, tuple) else (got,), strict=True):  # fmt: skip
        assert one.dtype == other.dtype and torch.equal(one, other)


def test_attention_is_right():
    given = paged()
    out, _ = attention(*given)
    assert torch.allclose(out.double(), reference(*given), atol=2e-2)


def test_one_graph_serves_several_batches():
    graphs = []

    def count(graph, example_inputs):
        graphs.append(graph)
        return graph

    compiled = torch.compile(lambda x, weight: ops.gemm(x, weight), fullgraph=True, dynamic=True, backend=count)
    weight = torch.randn(16, 64)
    for rows in (5, 9, 14):
        x = torch.randn(rows, 64)
        assert torch.allclose(compiled(x, weight), x @ weight.T, atol=1e-4)
    assert len(graphs) == 1


@pytest.mark.parametrize("op", ["gemm", "attention"])
def test_pytorch_s_own_checks_of_ops(op):
    if op == "gemm":
        given = {"a": torch.randn(3, 64), "b": torch.randn(8, 64), "out": torch.zeros(3, 8)}
    else:
        q, pages, lengths, table = paged()
        given = {"q": q, "k": pages, "v": pages, "out": torch.zeros_like(q), "lengths": lengths, "page_table": table}
        given["max_kv_len"] = 8
    checks = ("test_schema", "test_faketensor")
    told = torch.library.opcheck(getattr(torch.ops.quern, op).default, (), given, test_utils=checks)
    assert set(told.values()) == {"SUCCESS"}


def test_errors_are_quern_s():
    x, weight = torch.randn(3, 64), torch.nn.Parameter(torch.randn(8, 64))
    assert ops.gemm(x, weight).shape == (3, 8)
    with torch.enable_grad(), pytest.raises(quern.InvalidError, match="requires a gradient"):
        ops.gemm(x, weight)
    with pytest.raises(quern.InvalidError, match=r"b.shape\[1\] is 32"):
        ops.gemm(x, weight[:, :32])
    with pytest.raises(quern.InvalidError, match="no tensor is given"):
        torch.ops.quern.gemm()


def test_another_context_can_be_used(cache_folder):
    with quern.Context("host", cache_path=cache_folder) as other:
        torch_ops.use(other)
        ops.gemm(torch.ones(3, 32), torch.ones(8, 32))
        assert other.stats().kernels_loaded == 1


def normal_with_gradient(*shape):
    return torch.randn(*shape, requires_grad=True)


def by_hand(kind, x, weight, bias, residual, plus_one):
    """PyTorch's own, in fp64."""
    s = (x if residual is None else x + residual).double()
    centred = s - s.mean(-1, keepdim=True) if kind == "layer" else s
    y = centred * torch.rsqrt(centred.square().mean(-1, keepdim=True) + 1e-5)
    y = y if weight is None else y * (weight.double() + (1 if plus_one else 0))
    return y if bias is None else y + bias.double(), s


def graded(outputs, seeds, inputs):
    total = sum((one.double() * seed).sum() for one, seed in zip(outputs, seeds, strict=True))
    return torch.autograd.grad(total, inputs)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    ("kind", "has_bias", "has_residual", "plus_one"),
    [
        ("layer", True, False, False),
        ("layer", False, True, False),
        ("rms", False, True, True),
        ("rms", False, False, False),
    ],
)
def test_norms_have_gradients(kind, has_bias, has_residual, plus_one, compiled):
    def run(x, weight, bias, residual):
        rest = {} if residual is None else {"residual": residual}
        if kind == "rms":
            done = ops.rmsnorm(x, weight, eps=1e-5, weight_plus_one=plus_one, **rest)
        else:
            done = ops.layer_norm(x, weight, bias, weight_plus_one=plus_one, **rest)
        return done if isinstance(done, tuple) else (done,)

    with torch.enable_grad():
        x, weight = normal_with_gradient(7, 96), normal_with_gradient(96)
        bias = normal_with_gradient(96) if has_bias else None
        residual = normal_with_gradient(7, 96) if has_residual else None
        inputs = [one for one in (x, weight, bias, residual) if one is not None]
        outputs = (torch.compile(run, fullgraph=True, backend="aot_eager") if compiled else run)(
            x, weight, bias, residual
        )
        expected = by_hand(kind, x, weight, bias, residual, plus_one)[: len(outputs)]
        seeds = [torch.randn(7, 96, dtype=torch.float64) for _ in outputs]
        for one, other in zip(outputs, expected, strict=True):
            assert torch.allclose(one.double(), other, atol=1e-5)
        for one, other in zip(graded(outputs, seeds, inputs), graded(expected, seeds, inputs), strict=True):
            assert torch.allclose(one.double(), other.double(), atol=1e-4)


def test_what_has_no_gradient_is_refused_where_one_is_wanted():
    with torch.enable_grad():
        x = normal_with_gradient(3, 64)
        with pytest.raises(quern.InvalidError, match="kind: 'l2' has no gradient"):
            ops.norm(x, kind="l2")
        with pytest.raises(quern.InvalidError, match="out: given where a gradient is wanted"):
            ops.rmsnorm(x, out=torch.empty(3, 64))
        assert not ops.rmsnorm(x.detach()).requires_grad


def test_pytorch_s_own_checks_of_the_norm_with_gradients():
    with torch.enable_grad():
        given = (normal_with_gradient(3, 64), normal_with_gradient(64), None, normal_with_gradient(3, 64), "rms", 1e-5)
        told = torch.library.opcheck(torch.ops.quern.norm_with_gradient.default, (*given, False))
    assert set(told.values()) == {"SUCCESS"}
