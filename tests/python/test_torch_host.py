# PyTorch tensors of the CPU on `host`: what they say, parameters under no_grad, bound calls. Skipped without PyTorch,
# which CI does not install for its size: `./dev bindings` does.
# SPDX-License-Identifier: Apache-2.0
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import quern
from quern import compiled, ops

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


def test_names_of_torch_exist():
    """What the binding reads of PyTorch on a GPU alone (streams, capture) is there under these names."""
    for source in Path(quern.__file__).parent.glob("*.py"):
        for name in re.findall(r"\btorch\.((?:cuda|version|library)\.[A-Za-z_.]+)", source.read_text()):
            found = torch
            for part in name.rstrip(".").split("."):
                assert hasattr(found, part), f"{source.name}: torch.{name} is not there"
                found = getattr(found, part)
