# The example of a Llama in Python: its tokens are those of fp32 maths, however its prompts are cut.
# SPDX-License-Identifier: Apache-2.0
import importlib.util
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "tests" / "data" / "model"
TOKENS = 6


@pytest.fixture(scope="module")
def llama():
    path = ROOT / "bindings" / "python" / "examples" / "llama.py"
    assert len(path.read_text().splitlines()) < 300
    specification = importlib.util.spec_from_file_location("example_llama", path)
    module = importlib.util.module_from_spec(specification)
    sys.modules["example_llama"] = module
    specification.loader.exec_module(module)
    return module


def cases():
    golden = json.loads((MODEL / "golden.json").read_text())["cases"]
    return [
        (case, greedy[:TOKENS])
        for case, greedy in zip(golden, json.loads((MODEL / "greedy.json").read_text()), strict=True)
    ]


def test_its_tokenizer_gives_golden_tokens(llama):
    tokenizer = llama.Tokenizer(MODEL / "tokenizer.json")
    for case, _ in cases():
        assert [0, *tokenizer.encode(case["prompt"])] == case["ids"]
        assert tokenizer.decode(case["ids"]) == case["prompt"]


# Five prompts on too few pages for all of them, eight tokens a step: sequences wait, join while others write, and are
# cut in chunks.
def test_its_greedy_tokens_are_those_of_fp32(llama, context):
    model = llama.Llama(MODEL, pages=6, page_size=8)
    engine = llama.Engine(context, model, pages=6, most_tokens=8, ends=set())
    sequences = [llama.Sequence(list(case["ids"]), TOKENS) for case, _ in cases()]
    for sequence in sequences:
        engine.add(sequence)
    while engine.step():
        pass
    assert sorted(engine.free) == list(range(6))
    for sequence, (_, greedy) in zip(sequences, cases(), strict=True):
        assert sequence.answer == greedy
    with pytest.raises(ValueError, match="longer with its answer"):
        engine.add(llama.Sequence([0] * 40, 20))
