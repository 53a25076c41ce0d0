# Small tokenizers of SentencePiece's kind and what the libraries that they come from make of texts:
#   pip install tokenizers sentencepiece && python3 sentencepieces.py > sentencepieces.json
# The engine's tests hold its tokens against these.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import json
import random

import sentencepiece
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

SPACE = "\u2581"
WORDS = (
    "the quick brown fox jumps over a lazy dog and in the beginning God created the heaven and the earth "
    "and the earth was without form and void and darkness was upon the face of the deep "
    "hello hello world the other there then 12 1234 2024 a.b, c; d: (e) caf\u00e9 na\u00efve \u4e2d\u6587"
)
TEXTS = [
    "the beginning",
    " the beginning",
    "  two spaces  and a tail ",
    "In the beginning God created the heaven and the earth.",
    "hello\nworld\n\n\tthe tab",
    "caf\u00e9 na\u00efve \u4e2d\u6587 \U0001f600 \u00df",
    "thethethethethe",
    "12345 a.b, c; d: (e)",
    "<s>hello</s>the dog<s> the fox",
    "\u2581the\u2581\u2581dog",
    "x",
    " ",
]


def corpus() -> list[str]:
    draw, words = random.Random(1), WORDS.split()
    return [" ".join(draw.choice(words) for _ in range(12)) for _ in range(400)]


def train() -> models.BPE:
    """Merges and a vocabulary with all bytes in front, as Llama-2's and Gemma's have them."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(SPACE, "always", split=True)
    special = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=430, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(corpus(), trainer)
    model = json.loads(tokenizer.to_str())["model"]
    merges = [tuple(merge) for merge in model["merges"]]
    return models.BPE(model["vocab"], merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True)


def of_file(name: str) -> dict:
    """One of the ways in which a tokenizer.json says how spaces are treated."""
    tokenizer = Tokenizer(train())
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    if name == "llama-2":
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)])
    elif name == "gemma":
        tokenizer.normalizer = normalizers.Replace(" ", SPACE)
        tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    else:
        scheme, split = {"first": ("first", False), "always": ("always", True), "never": ("never", True)}[name]
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(SPACE, scheme, split=split)
    steps = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    if name in ("llama-2", "first", "always"):
        steps.append(decoders.Strip(" ", 1, 0))
    tokenizer.decoder = decoders.Sequence(steps)
    made = json.loads(tokenizer.to_str())
    for added in made["added_tokens"]:
        added.pop("single_word"), added.pop("lstrip"), added.pop("rstrip")
    ids = [tokenizer.encode(text, add_special_tokens=False).ids for text in TEXTS]
    return {"name": name, "json": made, "ids": ids, "decoded": [tokenizer.decode(each) for each in ids]}


def of_pieces(prefix: bool) -> dict:
    """What a GGUF file has of SentencePiece's own."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus()), model_writer=model, model_type="bpe", vocab_size=430, byte_fallback=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False, add_dummy_prefix=prefix,
        user_defined_symbols=["<tab>"], minloglevel=2, num_threads=1,
    )  # fmt: skip
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    pieces = range(processor.get_piece_size())
    texts = [text for text in TEXTS if "<s>" not in text and SPACE not in text] + ["the<tab>dog"]
    kinds = (
        (processor.is_unknown, 2),
        (processor.is_control, 3),
        (processor.is_unused, 5),
        (processor.is_byte, 6),
    )
    types = [next((kind for test, kind in kinds if test(piece)), 1) for piece in pieces]
    types[processor.piece_to_id("<tab>")] = 4
    return {
        "prefix": prefix,
        "tokens": [processor.id_to_piece(piece) for piece in pieces],
        "scores": [processor.get_score(piece) for piece in pieces],
        "types": types,
        "texts": texts,
        "ids": [processor.encode(text) for text in texts],
    }


print(
    json.dumps(
        {
            "texts": TEXTS,
            "files": [of_file(name) for name in ("llama-2", "gemma", "first", "always", "never")],
            "pieces": [of_pieces(True), of_pieces(False)],
        },
        ensure_ascii=True,
        separators=(",", ":"),
    )
)
