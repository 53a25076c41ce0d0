# transformers with quern as its attention: the tokens of its own implementation, on `host`. Skipped without PyTorch and
# transformers, which CI does not install for their size: `./dev bindings transformers` does.
# SPDX-License-Identifier: Apache-2.0
import json
from pathlib import Path

import pytest
import quern

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")

MODEL = Path(__file__).resolve().parents[1] / "data" / "model"
TOKENS = 8


@pytest.fixture(scope="module", autouse=True)
def registered(cache_folder):
    from quern import huggingface

    with quern.Context("host", cache_path=cache_folder) as context:
        huggingface.register(context)
        yield


def load(attention):
    return transformers.AutoModelForCausalLM.from_pretrained(
        MODEL, dtype=torch.float16, attn_implementation=attention
    ).eval()


@pytest.fixture(scope="module")
def prompts():
    return [case["ids"] for case in json.loads((MODEL / "golden.json").read_text())["cases"]]


def answer(model, tokens, mask=None):
    """The tokens that follow each row, and by how much the first of them was ahead of the second."""
    ids = torch.tensor(tokens)
    out = model.generate(
        ids, attention_mask=torch.ones_like(ids) if mask is None else mask, max_new_tokens=TOKENS,
        min_new_tokens=TOKENS, do_sample=False, output_logits=True, return_dict_in_generate=True, pad_token_id=0,
    )  # fmt: skip
    best = torch.stack([step.float().topk(2).values for step in out.logits], 1)
    return out.sequences[:, ids.shape[1] :].tolist(), (best[..., 0] - best[..., 1]).tolist()


def assert_same(tokens, others, ahead):
    """Where the two largest logits lie within 0.02 f16 may choose either, and what follows is another text."""
    for token, other, distance in zip(tokens, others, ahead, strict=True):
        if distance < 0.02:
            return
        assert token == other


def test_tokens_are_those_of_its_own_attention(prompts):
    eager, ours = load("eager"), load("quern")
    for prompt in prompts:
        expected, ahead = answer(eager, [prompt])
        found, _ = answer(ours, [prompt])
        assert_same(found[0], expected[0], ahead[0])


def test_packed_sequences_are_refused():
    """Sequences one behind the other in a row, which only their offsets tell apart: attention would go across."""
    model, ids = load("quern"), torch.tensor([[1, 2, 3, 4, 5]])
    for packed in ("cu_seq_lens_q", "cu_seq_lens_k"):
        with pytest.raises(quern.InvalidError, match=f"{packed}: packed sequences are not taken"):
            model(ids, **{packed: torch.tensor([0, 3, 5], dtype=torch.int32)})
    with pytest.raises(quern.InvalidError, match="dropout: 0.5 given; allowed is 0"):
        transformers.AttentionInterface()["quern"](
            model, *(torch.ones(1, 2, 3, 8) for _ in range(3)), None, dropout=0.5
        )


def test_padding_on_either_side_changes_nothing(prompts):
    model = load("quern")
    short, long = prompts[0][:3], prompts[1][:7]
    alone, ahead = zip(*(answer(model, [prompt]) for prompt in (short, long)), strict=True)
    missing = len(long) - len(short)
    mask = torch.tensor([[0] * missing + [1] * len(short), [1] * len(long)])
    found, _ = answer(model, [[0] * missing + short, long], mask)
    for i in range(2):
        assert_same(found[i], alone[i][0], ahead[i][0])
    with torch.no_grad():
        right = model(torch.tensor([[*short, *[0] * missing], long]), attention_mask=torch.flip(mask, [1])).logits
        assert torch.allclose(right[0, : len(short)], model(torch.tensor([short])).logits[0], atol=0.06)


def small(kind, **changes):
    """A model of random weights, by transformers' own attention and by quern's."""
    torch.manual_seed(3)
    config = transformers.AutoConfig.for_model(
        kind, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        head_dim=16, vocab_size=50, max_position_embeddings=64, pad_token_id=0, **changes,
    )  # fmt: skip
    eager = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").to(torch.bfloat16)
    with torch.no_grad():  # so that what a head attends to matters
        for name, weight in eager.named_parameters():
            if "q_proj" in name or "k_proj" in name:
                weight *= 12
    config._attn_implementation = "quern"
    ours = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="quern").to(torch.bfloat16)
    ours.load_state_dict(eager.state_dict())
    return eager.eval(), ours.eval()


@pytest.mark.parametrize(
    ("kind", "changes", "without"),
    [
        ("mistral", {"sliding_window": 4}, {"sliding_window": None}),
        ("gemma2", {"sliding_window": 5, "attn_logit_softcapping": 0.5}, {"attn_logit_softcapping": None}),
    ],
)
def test_windows_and_caps(kind, changes, without):
    tokens = torch.tensor([[(i * 7) % 50 for i in range(14)]])
    eager, ours = small(kind, **changes)
    other, _ = small(kind, **changes | without)
    with torch.no_grad():
        expected, found, plain = (model(tokens).logits.float() for model in (eager, ours, other))
    apart = (found - expected).abs().max()
    assert apart < 0.25 * (plain - expected).abs().max(), "the model does the same without"


def test_what_it_does_not_take_is_refused():
    model = load("quern")
    ids = torch.tensor([[1, 2, 3]])
    with torch.no_grad(), pytest.raises(quern.InvalidError, match="attention_mask: shape"):
        model(ids, attention_mask=torch.zeros(1, 1, 3, 3, dtype=torch.bfloat16))
    with pytest.raises(quern.InvalidError, match="requires a gradient"):
        model(ids)
