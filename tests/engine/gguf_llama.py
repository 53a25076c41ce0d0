# A Llama out of a GGUF file, in fp32 by NumPy: what its weights say before anybody rounds them. Read here once more and
# as plainly as can be, so that the engine's reading is held against another.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import mmap
import struct
from pathlib import Path

import numpy as np
from greedy import Llama

SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def halves(blocks: np.ndarray, begin: int) -> np.ndarray:
    """The f16 at a byte of each block, [blocks, 1] f32."""
    return np.ascontiguousarray(blocks[:, begin : begin + 2]).view(np.float16).astype(np.float32)


def numbers(data: np.ndarray, kind: int) -> np.ndarray:
    """F32, Q4_1 and Q8_0, which are what SmolLM2's file has."""
    if kind == 0:
        return data.view(np.float32)
    if kind == 3:
        blocks = data.reshape(-1, 20)
        quants = np.concatenate([blocks[:, 4:] & 15, blocks[:, 4:] >> 4], 1)
        return quants * halves(blocks, 0) + halves(blocks, 2)
    assert kind == 8, f"element type {kind}"
    blocks = data.reshape(-1, 34)
    return blocks[:, 2:].view(np.int8) * halves(blocks, 0)


class GgufLlama(Llama):
    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            self.data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.at = 0
        magic, _, tensors, values = self.take("4sIQQ")
        assert magic == b"GGUF"
        self.values = {}
        for _ in range(values):
            name = self.string()
            self.values[name] = self.value(*self.take("I"))
        table = []
        for _ in range(tensors):
            name = self.string()
            shape = self.take(f"{self.take('I')[0]}Q")[::-1]
            table.append((name, shape, *self.take("IQ")))
        head = "llama."
        self.config = {
            "num_attention_heads": self.values[head + "attention.head_count"],
            "num_key_value_heads": self.values[head + "attention.head_count_kv"],
            "head_dim": self.values[head + "embedding_length"] // self.values[head + "attention.head_count"],
            "num_hidden_layers": self.values[head + "block_count"],
            "rms_norm_eps": self.values[head + "attention.layer_norm_rms_epsilon"],
            "rope_parameters": {"rope_theta": self.values[head + "rope.freq_base"]},
        }
        begin = -(-self.at // 32) * 32
        bytes_of = {0: (1, 4), 3: (32, 20), 8: (32, 34)}
        self.weights = {}
        for name, shape, kind, offset in table:
            elements, size = bytes_of[kind]
            data = np.frombuffer(self.data, np.uint8, int(np.prod(shape)) // elements * size, begin + offset)
            self.weights[self.name_of(name)] = self.in_order(name, numbers(data, kind).reshape(shape))

    def take(self, form: str) -> tuple:
        values = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return values

    def string(self) -> str:
        (length,) = self.take("Q")
        self.at += length
        return self.data[self.at - length : self.at].decode()

    def value(self, kind: int) -> object:
        if kind == 8:
            return self.string()
        if kind != 9:
            return self.take(SCALARS[kind])[0]
        kind, count = self.take("IQ")
        return [self.value(kind) for _ in range(count)]

    @staticmethod
    def name_of(name: str) -> str:
        if not name.startswith("blk."):
            return {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}[name]
        _, layer, part, kind = name.split(".")
        return f"model.layers.{layer}.{LAYER[part]}.{kind}"

    def in_order(self, name: str, weight: np.ndarray) -> np.ndarray:
        """Rows of q and k with the two halves of each head one behind the other; in the file they alternate."""
        if ".attn_q." not in name and ".attn_k." not in name:
            return weight
        dim = self.config["head_dim"]
        return weight.reshape(-1, dim // 2, 2, weight.shape[1]).swapaxes(1, 2).reshape(weight.shape)

    def encode(self, text: str) -> list[int]:
        """Only of texts whose words are tokens: longest first, which is what merging gives for those."""
        tokens, ids = [], {entry: token for token, entry in enumerate(self.values["tokenizer.ggml.tokens"])}
        text = text.replace(" ", "Ġ").replace("\n", "Ċ")
        while text:
            length = max(n for n in range(1, min(len(text), 24) + 1) if text[:n] in ids)
            tokens.append(ids[text[:length]])
            text = text[length:]
        return tokens

    def decode(self, tokens: list[int]) -> str:
        """As text; nothing for tokens that control, whose type is 3."""
        entries, types = self.values["tokenizer.ggml.tokens"], self.values["tokenizer.ggml.token_type"]
        text = "".join(entries[token] for token in tokens if types[token] != 3)
        return text.replace("Ġ", " ").replace("Ċ", "\n")
