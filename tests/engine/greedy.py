# What a Llama says greedily, by fp32 maths in NumPy on its bf16 weights:
#   python3 greedy.py MODEL_FOLDER TOKENS > greedy.json
# The prompts are those of golden.json. The engine's tests hold its tokens against these.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import struct
import sys
from pathlib import Path

import numpy as np


class Llama:
    def __init__(self, folder: Path) -> None:
        self.config = json.loads((folder / "config.json").read_text())
        data = (folder / "model.safetensors").read_bytes()
        (size,) = struct.unpack("<Q", data[:8])
        self.weights = {}
        for name, entry in json.loads(data[8 : 8 + size]).items():
            if name == "__metadata__":
                continue
            begin, end = (8 + size + offset for offset in entry["data_offsets"])
            bits = np.frombuffer(data[begin:end], np.uint16).astype(np.uint32) << 16
            self.weights[name] = bits.view(np.float32).reshape(entry["shape"])

    def rmsnorm(self, x: np.ndarray, name: str) -> np.ndarray:
        mean = (x * x).mean(-1, keepdims=True)
        return x / np.sqrt(mean + np.float32(self.config["rms_norm_eps"])) * self.weights[name]

    def rope(self, x: np.ndarray) -> np.ndarray:
        dim = x.shape[2]
        speeds = self.config["rope_parameters"]["rope_theta"] ** (-np.arange(0, dim, 2) / dim)
        angles = (np.arange(len(x))[:, None] * speeds)[:, None]
        cosines, sines = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
        low, high = x[..., : dim // 2], x[..., dim // 2 :]
        return np.concatenate([low * cosines - high * sines, high * cosines + low * sines], -1)

    def attention(self, x: np.ndarray, prefix: str) -> np.ndarray:
        heads, kv_heads, dim = (self.config[k] for k in ("num_attention_heads", "num_key_value_heads", "head_dim"))
        tokens = len(x)
        q, k, v = (x @ self.weights[f"{prefix}self_attn.{name}_proj.weight"].T for name in "qkv")
        q = self.rope(q.reshape(tokens, heads, dim))
        k = np.repeat(self.rope(k.reshape(tokens, kv_heads, dim)), heads // kv_heads, 1)
        v = np.repeat(v.reshape(tokens, kv_heads, dim), heads // kv_heads, 1)
        scores = np.einsum("ihd,jhd->hij", q, k) / np.float32(np.sqrt(dim))
        scores = np.where(np.tril(np.ones((tokens, tokens), bool)), scores, np.float32(-np.inf))
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        out = np.einsum("hij,jhd->ihd", weights, v).reshape(tokens, heads * dim)
        return out @ self.weights[f"{prefix}self_attn.o_proj.weight"].T

    def logits(self, tokens: list[int]) -> np.ndarray:
        x = self.weights["model.embed_tokens.weight"][tokens]
        for layer in range(self.config["num_hidden_layers"]):
            prefix = f"model.layers.{layer}."
            x = x + self.attention(self.rmsnorm(x, prefix + "input_layernorm.weight"), prefix)
            normed = self.rmsnorm(x, prefix + "post_attention_layernorm.weight")
            gate, up = (normed @ self.weights[f"{prefix}mlp.{name}_proj.weight"].T for name in ("gate", "up"))
            x = x + (gate / (1 + np.exp(-gate)) * up) @ self.weights[prefix + "mlp.down_proj.weight"].T
        return self.rmsnorm(x[-1], "model.norm.weight") @ self.weights["model.embed_tokens.weight"].T


def main() -> None:
    folder, count = Path(sys.argv[1]), int(sys.argv[2])
    model = Llama(folder)
    answers = []
    for case in json.loads((folder / "golden.json").read_text())["cases"]:
        tokens = list(case["ids"])
        for _ in range(count):
            tokens.append(int(model.logits(tokens).argmax()))
        answers.append(tokens[len(case["ids"]) :])
    print(json.dumps(answers))


if __name__ == "__main__":
    main()
