# The example of serving from a paged cache in PyTorch: its tokens are the likeliest of each request alone by fp64,
# but for what f16 rounds, though requests lose their blocks and begin anew. Skipped without PyTorch: `./dev bindings
# torch` runs it.
# SPDX-License-Identifier: Apache-2.0
import importlib.util
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
torch_ops = pytest.importorskip("quern.torch_ops")
ROOT = Path(__file__).resolve().parents[2]
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


@pytest.fixture(scope="module")
def example():
    path = ROOT / "bindings" / "python" / "examples" / "paged_serving.py"
    specification = importlib.util.spec_from_file_location("example_paged", path)
    module = importlib.util.module_from_spec(specification)
    sys.modules["example_paged"] = module
    specification.loader.exec_module(module)
    return module


@pytest.mark.parametrize("device", DEVICES)
def test_tokens_are_those_of_each_request_alone(example, device, context):
    before = dict(torch_ops._contexts)
    torch_ops.use(context)
    try:
        model = example.Model(device, torch.float16)
        engine = example.Engine(model, blocks=5, budget=12)
        random = torch.Generator().manual_seed(3)
        requests = [
            example.Request(torch.randint(example.VOCABULARY, (n,), generator=random).tolist(), tokens)
            for n, tokens in ((10, 26), (12, 24), (3, 30), (30, 6))
        ]
        done = []
        for request in requests:
            engine.add(request)
            done += engine.step()
        for _ in range(200):
            done += engine.step()
        assert sorted(map(id, done)) == sorted(map(id, requests))
        assert engine.preempted > 0
        assert sorted(engine.free) == list(range(5))
        for request in requests:
            assert len(request.made) == request.tokens
            logits = example.reference(model, request.ids)[len(request.prompt) - 1 : -1]
            chosen = logits.gather(1, torch.tensor(request.made, device=device)[:, None])
            assert (logits.amax(-1, keepdim=True) - chosen).max() < 0.02 * logits.std()
        with pytest.raises(ValueError, match="has no room in this cache"):
            engine.add(example.Request([0] * 80, 1))
    finally:
        torch_ops._contexts.clear()
        torch_ops._contexts.update(before)
