# Small tokenizers of bytes as Qwens, Llama-3 and GPT-2 have them, and what the library that they come from makes of
# texts, special tokens around them and all:
#   pip install tokenizers && python3 bytelevels.py > bytelevels.json
# The engine's tests hold its tokens against these.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import random

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

WORDS = (
    "the quick brown fox jumps over a lazy dog and in the beginning God created the heaven and the earth it's we'll "
    "hello hello world the other there then 12 1234 2024 a.b, c; d: (e) caf\u00e9 na\u00efve \u4e2d\u6587 \u1ec7 \u00c5"
)
TEXTS = [
    "the beginning",
    "  two spaces  and a tail ",
    "IT'S we'll it's\n\n\tthe tab\r\n",
    "caf\u00e9 cafe\u0301 nai\u0308ve A\u030a e\u0323\u0302 e\u0302\u0323 \u212b \u4e2d\u6587 \U0001f600",
    "\u1112\u1161\u11ab \ud55c \u0958 \u0344",
    "12345 a.b, c; d: (e)",
    "<s>hello</s>the dog<turn>e\u0301<s> the fox",
    "<s>",
    "",
]
CASES = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
BYTES = {"add_prefix_space": False, "use_regex": False}


def corpus() -> list[str]:
    draw, words = random.Random(1), WORDS.split()
    return [" ".join(draw.choice(words) for _ in range(12)) for _ in range(400)]


def make(name: str) -> dict:
    tokenizer = Tokenizer(models.BPE(ignore_merges=name == "llama-3"))
    digits = {"qwen": r"\p{N}", "llama-3": r"\p{N}{1,3}"}
    if name == "gpt-2":
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    else:
        split = pre_tokenizers.Split(Regex(CASES + digits[name] + REST), "isolated")
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(**BYTES)])
    if name == "qwen":
        tokenizer.normalizer = normalizers.NFC()
    special = [AddedToken(text, special=True, normalized=False) for text in ("<s>", "</s>", "<turn>")]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(
        corpus(),
        trainers.BpeTrainer(vocab_size=420, special_tokens=special, initial_alphabet=alphabet, show_progress=False),
    )
    tokenizer.decoder = decoders.ByteLevel()
    byte_level = processors.ByteLevel(trim_offsets=False)
    around = processors.TemplateProcessing(
        single="<s> $A" if name == "llama-3" else "<turn> <s> $A </s>",
        special_tokens=[(each.content, tokenizer.token_to_id(each.content)) for each in special],
    )
    tokenizer.post_processor = {
        "qwen": byte_level,
        "llama-3": processors.Sequence([byte_level, around]),
        "gpt-2": around,
    }[name]
    ids = [tokenizer.encode(text).ids for text in TEXTS]
    return {"name": name, "json": json.loads(tokenizer.to_str()), "ids": ids}


print(
    json.dumps({"texts": TEXTS, "files": [make(name) for name in ("qwen", "llama-3", "gpt-2")]}, separators=(",", ":"))
)
