# PyTorch tensors of the CPU on `host`: what they say, parameters under no_grad, bound calls. Skipped without PyTorch,
# which CI does not install for its size: `./dev bindings` does.
# SPDX-License-Identifier: Apache-2.0
import re
import sys
import weakref
from pathlib import Path

import numpy as np
import pytest
import quern
from quern import arrays, compiled, dtypes, ops

torch = pytest.importorskip("torch", reason="PyTorch is not installed")


def product(a, b):
    return (a.float() @ b.float().T).to(a.dtype)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_gemm(context, rng, dtype):
    a = torch.from_numpy(rng.integers(-3, 4, (5, 40)).astype(np.float32)).to(getattr(torch, dtype))
    b = torch.from_numpy(rng.integers(-3, 4, (8, 40)).astype(np.float32)).to(getattr(torch, dtype))
    out = context.gemm(a, b)
    assert (type(out), out.dtype, out.shape) == (torch.Tensor, a.dtype, (5, 8))
    assert torch.equal(out, product(a, b))
    # Views: every second row, and a transposed one.
    assert torch.equal(context.gemm(a[::2], b), product(a[::2], b))
    assert torch.equal(context.gemm(a, b.T.contiguous().T), product(a, b))
    bound = context.gemm.bind(a, b)
    a += 1
    assert torch.equal(bound(), product(a, b))


def test_a_parameter_is_taken_under_no_grad(context):
    weight = torch.nn.Parameter(torch.ones(7, 32))
    x = torch.ones(3, 32)
    for off in (torch.no_grad, torch.inference_mode):
        with off():
            assert (context.gemm(x, weight) == 32).all()
            assert (context.gemm.bind(x, weight)() == 32).all()
    with pytest.raises(quern.InvalidError, match="b: the tensor requires a gradient.*no_grad"):
        context.gemm(x, weight)
    with pytest.raises(quern.InvalidError, match="b: the tensor requires a gradient.*no_grad"):
        context.gemm.bind(x, weight)
    assert (context.gemm(x, weight.detach()) == 32).all()


def test_tensors_of_8_bits(context):
    values = torch.tensor([[0.5, -2, 448, 1.75] * 4] * 3)
    x, scale = context.quantize(values, scale_kind="token")
    assert x.dtype == torch.float8_e4m3fn and scale.shape == (3,)
    assert torch.allclose(x.float() * scale[:, None], values, rtol=1 / 16)
    assert torch.equal(context.dequantize(x, scale), x.float() * scale[:, None])


def entered(function, call):
    """Whether a call reaches a Python function."""
    seen = []
    sys.setprofile(lambda frame, event, argument: seen.append(frame.f_code))
    try:
        call()
    finally:
        sys.setprofile(None)
    return function.__code__ in seen


@pytest.mark.skipif(not compiled.used(), reason="quern._fast is not used")
def test_tensors_go_through_the_exchange_api(context):
    if not any(hasattr(torch.Tensor, name) for name in compiled._EXCHANGE_NAMES):
        pytest.skip("this PyTorch has no DLPack exchange API")
    a, b = torch.ones(3, 32), torch.ones(5, 32)
    assert not entered(ops.Ops.call, lambda: context.gemm(a, b))
    assert not entered(torch.Tensor.__dlpack__, lambda: context.gemm(a, b))
    # A subclass may mean something of its own.
    assert entered(ops.Ops.call, lambda: context.gemm(a, b.as_subclass(type("Other", (torch.Tensor,), {}))))


@pytest.mark.skipif(not compiled.used(), reason="quern._fast is not used")
def test_results_are_made_by_libtorch(context):
    """As torch.empty makes them, without going there; what this cannot make is left to it."""
    x = torch.ones(3, 32, dtype=torch.bfloat16)
    context.rmsnorm(x)  # what the module is told it is told by the first context
    if arrays.fast_empty((1,), x, None) is None:
        pytest.skip("this PyTorch lacks what results are made by")
    for dtype in ("f16", "bf16", "float32", torch.float64, "e4m3", "e5m2", "i32", np.int64, "uint8", "bool"):
        made = arrays.fast_empty((2, 0, 5), x, dtype)
        expected = torch.empty((2, 0, 5), dtype=getattr(torch, dtypes.LONG[dtypes.short_name(dtype)]))
        assert (made.dtype, made.shape, made.stride()) == (expected.dtype, expected.shape, expected.stride())
    made = arrays.fast_empty((3, 4), x, None)
    assert (type(made), made.dtype, made.device, made.is_contiguous()) == (torch.Tensor, x.dtype, x.device, True)
    references = sys.getrefcount(made)
    assert made.untyped_storage().resizable() and not made.requires_grad and references == 2
    with torch.inference_mode():
        assert arrays.fast_empty((3,), x, None).is_inference() and not made.is_inference()
    for given in (([3], x, None), ((-3,), x, None), ((3,), x, "f7"), ((3,), x.numpy, None), ((3,), x, [])):
        assert arrays.fast_empty(*given) is None
    assert arrays.fast_empty((3,), x.as_subclass(type("Other", (torch.Tensor,), {})), None) is None
    # They are given back: 16 GB would stay otherwise.
    before = int(Path("/proc/self/statm").read_text().split()[0])
    for _ in range(64):
        arrays.fast_empty((1 << 26,), x, "f32")
    assert (int(Path("/proc/self/statm").read_text().split()[0]) - before) * 4096 < 1 << 30


@pytest.mark.skipif(not compiled.used(), reason="quern._fast is not used")
def test_small_results_are_made_together(context):
    x = torch.ones(3, 32, dtype=torch.bfloat16)
    context.rmsnorm(x)
    if arrays.fast_together(x) is None:
        pytest.skip("this PyTorch lacks what results are made by")
    wanted = (((3, 5), "e4m3", (16, 1)), ((3, 2), "f32", (1, 4)), ((0, 7), None, None), ((), "i64", None))
    made = arrays.fast_together(x, *wanted)
    for tensor, (shape, dtype, strides) in zip(made, wanted, strict=True):
        expected = torch.empty(shape, dtype=getattr(torch, dtypes.LONG[dtype or "bf16"]))
        assert (tensor.dtype, tensor.shape, tensor.device) == (expected.dtype, expected.shape, x.device)
        assert tensor.stride() == (strides or expected.stride())
        assert tensor.data_ptr() % 64 == 0 and not tensor.requires_grad and tensor._base is None
    assert len({tensor.untyped_storage().data_ptr() for tensor in made}) == 1
    # None lies in another's memory, strides and all, and the memory lasts as long as one of them.
    for i, tensor in enumerate(made):
        tensor.copy_(torch.full(tensor.shape, i + 1))
    assert all((tensor.float() == i + 1).all() for i, tensor in enumerate(made))
    last, gone = made.pop(), weakref.ref(made[0])
    del made, tensor
    assert last.item() == 4 and gone() is None
    with torch.inference_mode():
        assert all(one.is_inference() for one in arrays.fast_together(x, *wanted))
    # What is large, or alone, has memory of its own.
    large = arrays.fast_together(x, ((1 << 18,), "f32", None), ((2, 2), None, (1, 8)))
    assert large[0].untyped_storage().data_ptr() != large[1].untyped_storage().data_ptr()
    assert (
        large[1].stride() == (1, 8) and arrays.fast_together(x, ((3,), None, None))[0].untyped_storage().nbytes() == 6
    )
    huge = ((1 << 61,), "f32", None)  # 2^63 bytes: whose number is not below that of small ones
    for told in (
        huge,
        ((3,), None),
        ((3,), None, (1, 1)),
        ((3,), "f7", None),
        ([3], None, None),
        ((3,), None, (-1,)),
        3,
    ):
        assert arrays.fast_together(x, told) is None and arrays.fast_together(x, wanted[0], told) is None
    assert arrays.fast_together(x.numpy, wanted[0]) is None and arrays.fast_together(x, *[wanted[0]] * 17) is None
    parts = arrays.fast_compact(list(x.T.split([5, 27])), "f16")
    assert [(one.shape, one.dtype, one.is_contiguous()) for one in parts] == [
        ((5, 3), torch.float16, True),
        ((27, 3), torch.float16, True),
    ]
    assert arrays.fast_compact([x, x.numpy], None) is None and arrays.fast_compact([], None) is None
    before = int(Path("/proc/self/statm").read_text().split()[0])
    for _ in range(2000):  # 2 GB would stay otherwise
        arrays.fast_together(x, ((1 << 17,), "f32", None), ((1 << 16,), "f32", None))[0].zero_()
    assert (int(Path("/proc/self/statm").read_text().split()[0]) - before) * 4096 < 1 << 29


def test_results_beside_one_another(context):
    """What shares an allocation is what it would be without."""
    x = torch.arange(4 * 136, dtype=torch.float32).reshape(4, 136).half() / 64
    for part, expected in zip(context.split(x, [40, 96], 1), x.split([40, 96], 1), strict=True):
        assert torch.equal(part, expected) and part.is_contiguous()
    for kind in ("group", "token", "block"):
        values, scale = context.quantize(x, scale_kind=kind)
        assert torch.allclose(context.dequantize(values, scale, scale_kind=kind), x.float(), rtol=1 / 16, atol=1 / 16)
        assert scale.stride(0) == 1 or kind == "block"
    out, total = context.rmsnorm(x, residual=x)
    assert torch.equal(total, x + x) and torch.allclose(out.float(), context.rmsnorm(x + x).float(), atol=2e-3)
    ids, values = context.top_k(x, 3)
    assert torch.equal(values, x.float().topk(3).values.flip(-1)) and torch.equal(
        ids, torch.tensor([[133, 134, 135]] * 4)
    )


def test_names_of_torch_exist():
    """What the binding reads of PyTorch on a GPU alone (streams, capture) is there under these names."""
    for source in Path(quern.__file__).parent.glob("*.py"):
        for name in re.findall(r"\btorch\.((?:cuda|version|library)\.[A-Za-z_.]+)", source.read_text()):
            found = torch
            for part in name.rstrip(".").split("."):
                assert hasattr(found, part), f"{source.name}: torch.{name} is not there"
                found = getattr(found, part)
