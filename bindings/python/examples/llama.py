"""A Llama's inference in Python: continuous batching over a paged cache, prompts in chunks, every operation a call of
quern's. The arrays are NumPy's and the device is `host`; with PyTorch's on a GPU the calls are the same.

    python3 llama.py MODEL_FOLDER [--tokens N] [--temperature T] PROMPT...
"""
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import argparse
import json
import re
import struct
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import quern

I32, F32 = np.int32, np.float32


# ---- What a folder of Hugging Face's has ----------------------------------------------------------------------------
def read_weights(path: Path) -> dict[str, np.ndarray]:
    """A safetensors file of bf16, as f16: NumPy has no bf16, and this small model's numbers are within f16's range."""
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    weights = {}
    for name, entry in json.loads(data[8 : 8 + size]).items():
        if name == "__metadata__":
            continue
        if entry["dtype"] != "BF16":
            raise ValueError(f"{name} is {entry['dtype']}; allowed: BF16")
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        bits = np.frombuffer(data[begin:end], np.uint16).astype(np.uint32) << 16
        weights[name] = bits.view(F32).astype(np.float16).reshape(entry["shape"])
    return weights


class Tokenizer:
    """Byte-level BPE: texts are cut into words, the bytes of a word are merged pair by pair, best rank first."""

    WORDS = re.compile(r"'(?:s|t|re|ve|m|ll|d)| ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+")

    def __init__(self, path: Path) -> None:
        file = json.loads(path.read_text())
        # Each byte is written as a character that can be seen.
        seen = [*range(33, 127), *range(161, 173), *range(174, 256)]
        others = [byte for byte in range(256) if byte not in seen]
        self.characters = {**{b: chr(b) for b in seen}, **{b: chr(256 + i) for i, b in enumerate(others)}}
        self.bytes = {character: byte for byte, character in self.characters.items()}
        self.ids = file["model"]["vocab"]
        merges = (m.split(" ") if isinstance(m, str) else m for m in file["model"]["merges"])
        self.ranks = {tuple(merge): rank for rank, merge in enumerate(merges)}
        self.entries = {token: entry for entry, token in self.ids.items()}
        for added in file["added_tokens"]:
            self.entries[added["id"]] = ""

    def encode(self, text: str) -> list[int]:
        tokens = []
        for word in self.WORDS.findall(text):
            parts = [self.characters[byte] for byte in word.encode()]
            while len(parts) > 1:
                ranks = [self.ranks.get(pair, len(self.ranks)) for pair in zip(parts, parts[1:], strict=False)]
                at = int(np.argmin(ranks))
                if ranks[at] == len(self.ranks):
                    break
                parts[at : at + 2] = [parts[at] + parts[at + 1]]
            tokens += [self.ids[part] for part in parts]
        return tokens

    def decode(self, tokens: list[int]) -> str:
        text = "".join(self.entries[token] for token in tokens)
        return bytes(self.bytes[character] for character in text).decode(errors="replace")


# ---- The model ------------------------------------------------------------------------------------------------------
class Llama:
    def __init__(self, folder: Path, *, pages: int, page_size: int = 16) -> None:
        self.config = c = json.loads((folder / "config.json").read_text())
        if c["model_type"] != "llama" or c["rope_parameters"]["rope_type"] != "default":
            raise ValueError("this reads Llamas with plain rope")
        w = read_weights(folder / "model.safetensors")
        self.heads, self.kv_heads, self.dim = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
        self.eps, self.theta = c["rms_norm_eps"], c["rope_parameters"]["rope_theta"]
        self.page_size = page_size
        self.embedding, self.norm = w["model.embed_tokens.weight"], w["model.norm.weight"]
        self.logits = self.embedding if c["tie_word_embeddings"] else w["lm_head.weight"]
        self.layers = []
        for i in range(c["num_hidden_layers"]):
            layer = {
                name[len(f"model.layers.{i}.") :]: x for name, x in w.items() if name.startswith(f"model.layers.{i}.")
            }
            shape = (pages, page_size, self.kv_heads, self.dim)
            self.layers.append(
                {
                    # q, k and v in one product; gate and up in another, whose epilogue multiplies the halves.
                    "qkv": np.concatenate([layer[f"self_attn.{n}_proj.weight"] for n in "qkv"]),
                    "output": layer["self_attn.o_proj.weight"],
                    "gate_up": np.concatenate([layer[f"mlp.{n}_proj.weight"] for n in ("gate", "up")]),
                    "down": layer["mlp.down_proj.weight"],
                    "attention_norm": layer["input_layernorm.weight"],
                    "mlp_norm": layer["post_attention_layernorm.weight"],
                    "keys": np.zeros(shape, np.float16),
                    "values": np.zeros(shape, np.float16),
                }
            )

    def step(self, context: quern.Context, step: Step) -> np.ndarray:
        """New tokens of all sequences, one behind the other; returns the logits of each sequence's last one."""
        residual, delta = context.gather(self.embedding, step.tokens), None
        for layer in self.layers:
            normed = self.normalise(context, residual, delta, layer["attention_norm"])
            # Heads of q, then of k, then of v: what follows reads and writes parts of one array.
            qkv = context.gemm(normed, layer["qkv"]).reshape(len(step.tokens), -1, self.dim)
            q, k, v = np.split(qkv, [self.heads, self.heads + self.kv_heads], 1)
            context.kv_append(
                k, v, layer["keys"], layer["values"], q=q, page_table=step.page_table, cu_q=step.cu_q,
                positions=step.positions, theta=self.theta,
            )  # fmt: skip
            attended = context.attention(
                q, layer["keys"], layer["values"], lengths=step.lengths, cu_q=step.cu_q,
                page_table=step.page_table, causal=True,
            )  # fmt: skip
            delta = context.gemm(attended.reshape(len(step.tokens), -1), layer["output"])
            normed = self.normalise(context, residual, delta, layer["mlp_norm"])
            delta = context.gemm(context.gemm(normed, layer["gate_up"], gate=True), layer["down"])
        last = context.gather(self.normalise(context, residual, delta, self.norm), step.cu_q[1:] - I32(1))
        return context.gemm(last, self.logits, out_dtype="f32")

    def normalise(
        self, context: quern.Context, residual: np.ndarray, delta: np.ndarray | None, weight: np.ndarray
    ) -> np.ndarray:
        """residual += delta; its norm."""
        if delta is None:
            return context.rmsnorm(residual, weight, eps=self.eps)
        return context.rmsnorm(delta, weight, residual=residual, residual_out=residual, eps=self.eps)[0]


# ---- Who is computed when -------------------------------------------------------------------------------------------
@dataclass
class Sequence:
    tokens: list[int]  # the prompt's and the answer's
    most_new: int
    temperature: float = 0.0
    seed: int = 0
    computed: int = 0  # tokens whose keys and values are in the cache
    pages: list[int] = field(default_factory=list)
    answer: list[int] = field(default_factory=list)


@dataclass
class Step:
    tokens: np.ndarray  # [tokens] int32
    positions: np.ndarray
    cu_q: np.ndarray  # [sequences + 1]: where each begins
    lengths: np.ndarray  # [sequences]: keys, with the new ones
    page_table: np.ndarray  # [sequences, pages]


class Engine:
    """Sequences join and leave between steps. Each step has a token of every one that writes; prompts fill the rest."""

    def __init__(self, context: quern.Context, model: Llama, *, pages: int, most_tokens: int, ends: set[int]) -> None:
        self.context, self.model, self.most_tokens, self.ends = context, model, most_tokens, ends
        self.free = list(range(pages))
        self.waiting: list[Sequence] = []
        self.running: list[Sequence] = []

    def pages_of(self, sequence: Sequence) -> int:
        return -(-(len(sequence.tokens) + sequence.most_new) // self.model.page_size)

    def add(self, sequence: Sequence) -> None:
        if not sequence.tokens or self.pages_of(sequence) > len(self.free) + sum(len(s.pages) for s in self.running):
            raise ValueError("the prompt is empty, or longer with its answer than the cache")
        self.waiting.append(sequence)

    def step(self) -> bool:
        # Whoever is let in has pages to its end: nobody is ever put back.
        while self.waiting and self.pages_of(self.waiting[0]) <= len(self.free):
            sequence = self.waiting.pop(0)
            sequence.pages = [self.free.pop() for _ in range(self.pages_of(sequence))]
            self.running.append(sequence)
        if not self.running:
            return False
        parts, left = [], self.most_tokens
        for sequence in sorted(self.running, key=lambda s: len(s.tokens) - s.computed):
            count = min(len(sequence.tokens) - sequence.computed, left)
            if count > 0:
                parts.append((sequence, count))
                left -= count
        made = self.made(parts)
        logits = self.model.step(self.context, made)
        ids = self.context.sample(
            logits,
            temperature=np.array([s.temperature for s, _ in parts], F32),
            seed=np.array([s.seed for s, _ in parts], np.int64),
            offset=made.lengths.astype(np.int64),  # a draw of its own for each place of a text
        ).ids
        for (sequence, count), token in zip(parts, ids.tolist(), strict=True):
            sequence.computed += count
            if sequence.computed < len(sequence.tokens):
                continue  # the prompt goes on
            sequence.tokens.append(token)
            sequence.answer.append(token)
            if len(sequence.answer) == sequence.most_new or token in self.ends:
                self.free += sequence.pages
                self.running.remove(sequence)
        return True

    @staticmethod
    def made(parts: list[tuple[Sequence, int]]) -> Step:
        counts = [count for _, count in parts]
        table = np.zeros((len(parts), max(len(s.pages) for s, _ in parts)), I32)
        for row, (sequence, _) in zip(table, parts, strict=True):
            row[: len(sequence.pages)] = sequence.pages
        return Step(
            tokens=np.array([t for s, n in parts for t in s.tokens[s.computed : s.computed + n]], I32),
            positions=np.array([p for s, n in parts for p in range(s.computed, s.computed + n)], I32),
            cu_q=np.cumsum([0, *counts], dtype=I32),
            lengths=np.array([s.computed + n for s, n in parts], I32),
            page_table=table,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("prompts", nargs="+")
    parser.add_argument("--tokens", type=int, default=24)
    parser.add_argument("--temperature", type=float, default=0.0)
    given = parser.parse_args()
    tokenizer = Tokenizer(given.folder / "tokenizer.json")
    model = Llama(given.folder, pages=64)
    with quern.Context("host") as context:
        begin, end = model.config["bos_token_id"], model.config["eos_token_id"]
        engine = Engine(context, model, pages=64, most_tokens=64, ends={end})
        sequences = [
            Sequence([begin, *tokenizer.encode(prompt)], given.tokens, given.temperature, seed)
            for seed, prompt in enumerate(given.prompts)
        ]
        for sequence in sequences:
            engine.add(sequence)
        while engine.step():
            pass
    for prompt, sequence in zip(given.prompts, sequences, strict=True):
        print(prompt + tokenizer.decode(sequence.answer))


if __name__ == "__main__":
    main()
