# What the calls of kernel_names.py are made with, and what they are held against: plain NumPy, in fp64.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
from quern.packing import pack  # noqa: F401 (the calls name it)

Array = Any


def arrays(rng: np.random.Generator) -> dict[str, Array]:
    """The arrays that the calls name."""

    def normal(*shape: int, dtype: Any = np.float32) -> Array:
        return rng.standard_normal(shape).astype(dtype)

    half, brain = np.float16, ml_dtypes.bfloat16
    a = {"x": normal(5, 40), "y": normal(5, 40), "row": normal(40), "other_row": normal(40)}
    a["positive"] = np.abs(a["y"]) + np.float32(0.25)
    a["condition"] = a["y"] > 0
    for name, dtype in (("h", half), ("b", brain), ("e", ml_dtypes.float8_e4m3fn)):
        a["x" + name], a["y" + name] = a["x"].astype(dtype), a["y"].astype(dtype)
    a["x5"] = a["x"].astype(ml_dtypes.float8_e5m2)
    a["codes"] = rng.integers(-128, 128, (5, 40)).astype(np.int8)
    a["image"], a["batch"] = normal(3, 4, 15), normal(2, 3, 6, 32)
    a["kernels"] = normal(16, 2, 3)
    a |= {"table": normal(11, 40), "table_h": normal(11, 40, dtype=half), "ids": rng.integers(0, 11, 5, np.int32)}
    a["places"] = rng.permutation(9)[:5].astype(np.int32)
    a["integers"] = rng.integers(0, 10, 500, np.int32)

    a |= {"q": normal(5, 4, 32), "at": rng.integers(0, 500, 5, np.int32)}
    a["far"] = np.array([0, 8190, 8191, 50_000, 10**6], np.int32)
    turns = np.arange(500)[:, None] * angles(32)
    a["table_of_angles"] = np.concatenate([np.cos(turns), np.sin(turns)], 1).astype(np.float32)
    a |= {"qh": normal(5, 4, 32, dtype=half), "k": normal(37, 2, 32, dtype=half), "v": normal(37, 2, 32, dtype=half)}
    a |= {"wide_q": normal(1, 2, 320, dtype=half), "wide_k": normal(37, 1, 320, dtype=half)}
    a |= {"one": a["qh"][:1], "slopes": np.array([0.5, 0.25, 0.1, 0.05], np.float32)}
    a |= {"all_keys": np.array([37], np.int32), "both_ends": np.array([0, 37], np.int32)}
    a["both_queries"] = np.array([0, 5], np.int32)
    a["page_table"] = np.array([[3, 0, 4]], np.int32)
    for name in ("k", "v"):
        pages = np.zeros((5, 16, 2, 32), half)
        pages[a["page_table"][0]] = np.concatenate([a[name], np.zeros((11, 2, 32), half)]).reshape(3, 16, 2, 32)
        a["pages_" + name] = pages
    a |= {"latent_q": normal(1, 4, 96, dtype=half), "latent_cache": normal(5, 16, 96, dtype=half)}

    a |= {
        "x128": normal(5, 128),
        "w128": normal(48, 128),
        "row48": normal(48),
        "five": normal(5),
        "plane": normal(5, 48),
    }
    for name, dtype in (("h", half), ("b", brain), ("e", ml_dtypes.float8_e4m3fn)):
        a[f"x{name}128"], a[f"w{name}128"] = a["x128"].astype(dtype), a["w128"].astype(dtype)
    a |= {"unit": np.ones(1, np.float32), "taps": normal(40, 4)}
    a |= {
        "int8_w": rng.integers(-128, 128, (48, 128)).astype(np.int8),
        "int4_w": rng.integers(-8, 8, (48, 128)),
    }
    a |= {
        "int8_x": rng.integers(-128, 128, (5, 128)).astype(np.int8),
        "int4_x": rng.integers(-8, 8, (5, 128)),
    }
    a |= {
        "fp4_x": rng.integers(0, 16, (5, 128)),
        "fp4_w": rng.integers(0, 16, (48, 128)),
    }
    a["of_rows"], a["of_columns"] = (np.abs(normal(lines)) + np.float32(0.25) for lines in (5, 48))
    a["of_groups"] = (np.abs(normal(48, 4)) + 0.25).astype(half)
    for name, lines in (("x", 5), ("w", 48)):
        a["fp4_scale_" + name] = (np.abs(normal(lines, 8)) + 0.25).astype(ml_dtypes.float8_e4m3fn)
    a |= {
        "photo": normal(2, 4, 12, 8),
        "photo_last": normal(2, 12, 8, 4),
        "patches": normal(16, 3, 4, 4),
    }
    a |= {
        "kernels_of_4": normal(8, 4, 3, 3),
        "kernels_of_2": normal(8, 2, 3, 3),
        "row8": normal(8),
    }

    logits = normal(5, 32)
    a |= {"certain": np.where(np.arange(32) == logits.argmax(1)[:, None], 1e4, logits).astype(np.float32)}
    a["chances"] = softmax(logits).astype(np.float32)
    a["best"] = a["x"].argmax(1).astype(np.int32)[:, None]
    a["low_half"] = np.tile(np.array([0xFFFF, 0], np.uint32).view(np.int32), (5, 1))
    a["gates"] = normal(5, 8)
    a["experts"] = np.argsort(-a["gates"], 1, kind="stable")[:, :2]
    a["drafts"] = np.array([[3, 1], [2, 0]], np.int32)
    a["targets"] = np.eye(5, dtype=np.float32)[np.array([[3, 1, 4], [1, 0, 4]])]
    a["boxes"] = np.array([[[0, 0, 10, 10], [0, 1, 10, 11], [20, 20, 30, 30]]], np.float32)
    a["scores"] = np.array([[0.8, 0.9, 0.3]], np.float32)
    a |= {"gates_of_cell": normal(3, 32), "cell": normal(3, 8)}
    a |= {"signal": normal(2, 330), "spectrum": (normal(3, 21) + 1j * normal(3, 21)).astype(np.complex64)}
    a |= {"hann": np.hanning(41)[:40].astype(half).astype(np.float32), "mel": np.abs(normal(8, 21)) + np.float32(0.1)}
    return a


def doubled(values: dict[str, Array]) -> dict[str, Array]:
    """The same arrays in fp64, but for integers and truth values that number or choose."""
    return {
        name: value
        if value.dtype.kind in "iub" and name != "codes"
        else value.astype(np.complex128 if value.dtype.kind == "c" else np.float64)
        for name, value in values.items()
    }


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def gelu(x: Array) -> Array:
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def gelu_tanh(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


# ---- Numbers of 4 bits
def fp4(codes: Array) -> Array:
    return np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])[codes & 7] * np.where(codes & 8, -1, 1)


def in_groups(codes: Array, scales: Array) -> Array:
    return codes * scales.repeat(codes.shape[1] // scales.shape[1], axis=1)


# ---- Norms
def layer_norm(x: Array, eps: float = 1e-5) -> Array:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)


def rms_norm(x: Array, eps: float) -> Array:
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + eps)


def group_norm(x: Array, groups: int) -> Array:
    return layer_norm(x.reshape(x.shape[0], groups, -1)).reshape(x.shape)


def layer_norm_backward(dout: Array, x: Array, weight: Array, eps: float = 1e-5) -> tuple[Array, ...]:
    y, g = layer_norm(x, eps), dout * weight
    inner = g - g.mean(-1, keepdims=True) - y * (g * y).mean(-1, keepdims=True)
    return inner / np.sqrt(x.var(-1, keepdims=True) + eps), (dout * y).sum(0), dout.sum(0)


# ---- Rotary positions
def angles(dim: int, theta: float = 1e4) -> Array:
    return theta ** (-2.0 * np.arange(dim // 2) / dim)


def yarn(dim: int, factor: float, positions: int, fast: float = 32, slow: float = 1) -> Array:
    def place(turns: float) -> float:  # of the pair that turns so often in `positions`
        return dim * math.log(positions / (turns * 2 * math.pi)) / (2 * math.log(1e4))

    low, high = max(math.floor(place(fast)), 0), min(math.ceil(place(slow)), dim - 1)
    ramp = np.clip((np.arange(dim // 2) - low) / max(high - low, 0.001), 0, 1)
    return angles(dim) * (1 - ramp) + angles(dim) / factor * ramp


def llama3(dim: int, factor: float, positions: int, low: float = 1, high: float = 4) -> Array:
    f = angles(dim)
    smooth = np.clip((positions * f / (2 * math.pi) - low) / (high - low), 0, 1)
    return f * smooth + f / factor * (1 - smooth)


def rope(x: Array, positions: Array, f: Array | None = None, interleaved: bool = False) -> Array:
    f = angles(x.shape[-1]) if f is None else f
    turn, out, half = positions[:, None, None] * f, x.copy(), len(f)
    first = np.arange(half) * 2 if interleaved else np.arange(half)
    second = first + 1 if interleaved else first + half
    out[..., first] = x[..., first] * np.cos(turn) - x[..., second] * np.sin(turn)
    out[..., second] = x[..., second] * np.cos(turn) + x[..., first] * np.sin(turn)
    return out


# ---- Attention
def attention(q: Array, k: Array, v: Array, *, causal: bool = False, slopes: Any = None, sinks: Any = None) -> Array:
    """Of one sequence, its queries the last."""
    out = np.zeros((*q.shape[:2], v.shape[-1]))
    for i in range(q.shape[0]):
        position = k.shape[0] - q.shape[0] + i
        keys = position + 1 if causal else k.shape[0]
        for h in range(q.shape[1]):
            of = h * k.shape[1] // q.shape[1]
            s = k[:keys, of] @ q[i, h] / math.sqrt(q.shape[-1])
            if slopes is not None:
                s += slopes[h] * (np.arange(keys) - position)
            weights = softmax(s if sinks is None else np.append(s, sinks[h]))[:keys]
            out[i, h] = weights @ v[:keys, of]
    return out


def mla(q: Array, cache: Array, page_table: Array) -> Array:
    keys = cache[page_table[0]].reshape(-1, cache.shape[-1])[:37]
    return softmax(0.1 * q[0] @ keys.T)[None] @ keys[:, :64]


# ---- Moves, products, selection
def scattered(x: Array, places: Array, rows: int) -> Array:
    out = np.zeros((rows, x.shape[1]))
    np.add.at(out, places, x)
    return out


def frames(signal: Array, n: int, hop: int) -> Array:
    """Those whose middles are at multiples of hop, the signal reflected at its ends."""
    sides = [(0, 0)] * (signal.ndim - 1) + [(n // 2, n // 2)]
    return np.lib.stride_tricks.sliding_window_view(np.pad(signal, sides, "reflect"), n, axis=-1)[..., ::hop, :]


def conv1d(x: Array, taps: Array) -> Array:
    width = taps.shape[1]
    before = np.concatenate([np.zeros((width - 1, x.shape[1])), x])
    return sum(before[j : j + len(x)] * taps[:, j] for j in range(width))


def convolved(x: Array, weight: Array, stride: int, padding: int, dilation: int, groups: int) -> Array:
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding)))
    outs, channels, width = weight.shape
    places = (x.shape[2] - dilation * (width - 1) - 1) // stride + 1
    y = np.zeros((len(x), outs, places))
    for o in range(outs):
        first = o // (outs // groups) * channels
        for j in range(width):
            window = x[:, first : first + channels, j * dilation :][:, :, : (places - 1) * stride + 1 : stride]
            y[:, o] += np.tensordot(window, weight[o, :, j], (1, 0))
    return y


def convolved2d(
    x: Array,
    weight: Array,
    stride: tuple[int, int],
    padding: int,
    dilation: tuple[int, int],
    groups: int,
) -> Array:
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    outs, channels, *kernel = weight.shape
    rows, columns = ((x.shape[2 + d] - dilation[d] * (kernel[d] - 1) - 1) // stride[d] + 1 for d in range(2))
    y = np.zeros((len(x), outs, rows, columns))
    for o in range(outs):
        first = o // (outs // groups) * channels
        for i in range(kernel[0]):
            for j in range(kernel[1]):
                window = x[:, first : first + channels, i * dilation[0] :, j * dilation[1] :]
                window = window[
                    :,
                    :,
                    : (rows - 1) * stride[0] + 1 : stride[0],
                    : (columns - 1) * stride[1] + 1 : stride[1],
                ]
                y[:, o] += np.tensordot(window, weight[o, :, i, j], (1, 0))
    return y


def kept(p: Array, top_k: int = 0, top_p: float = 1.0, min_p: float = 0.0) -> Array:
    out = np.zeros_like(p)
    for row, to in zip(p, out, strict=True):
        order = np.argsort(-row, kind="stable")
        count = top_k or len(row)
        if top_p < 1:
            count = int(np.searchsorted(np.cumsum(row[order]), top_p * row.sum())) + 1
        stays = [i for i in order[:count] if row[i] >= min_p * row.max()]
        to[stays] = row[stays] / row[stays].sum()
    return out


def lstm(gates: Array, cell: Array) -> tuple[Array, Array]:
    i, f, g, o = np.split(gates, 4, 1)
    after = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
    return after, sigmoid(o) * np.tanh(after)


def steps(values: dict[str, Array]) -> dict[str, Any]:
    """Names that stand for more than one call; with None for a context, what they come to."""

    def appended(context: Any) -> tuple[Array, Array]:
        k, v, slots = values["k"][:5], values["v"][:5], np.array([3, 70, 16, 0, 41], np.int32)
        caches = np.zeros((2, 5, 16, 2, 32), np.float16)
        if context is not None:
            context.kv_append(k, v, caches[0], caches[1], slots=slots)
        else:
            caches.reshape(2, 80, 2, 32)[:, slots] = k, v
        return caches[0], caches[1]

    def restored(context: Any, x: Array, dtype: str = "e4m3") -> Array:
        return context.dequantize(*context.quantize(x, scale_kind="token", dtype=dtype), scale_kind="token")

    def convolved_photo() -> Array:
        x, weight, bias = (doubled(values)[name] for name in ("photo_last", "kernels_of_4", "row8"))
        y = convolved2d(x.transpose(0, 3, 1, 2), weight, (1, 1), 1, (1, 1), 1)
        return np.maximum(y + bias[:, None, None], 0)

    def product_of_blocks(context: Any) -> Array:
        a, scale_a = context.quantize(values["x128"], scale_kind="group")
        b, scale_b = context.quantize(values["w128"], scale_kind="block")
        product = context.fp8_gemm(a, b, scale_a, scale_b, out_dtype="f32")
        a = context.dequantize(a, scale_a, scale_kind="group").astype(np.float64)
        b = context.dequantize(b, scale_b, scale_kind="block").astype(np.float64)
        return product - a @ b.T  # how far it is from that of the numbers which the codes stand for

    def grouped(context: Any) -> Array:
        a, b = values["xe128"], np.stack([values["we128"], values["we128"][::-1]])
        offsets, scales = np.array([0, 2, 5], np.int32), np.ones(2, np.float32)
        if context is not None:
            return context.grouped_fp8_gemm(a, b, values["unit"], scales, offsets=offsets, out_dtype="f32")
        a, b = a.astype(np.float64), b.astype(np.float64)
        return np.concatenate([a[:2] @ b[0].T, a[2:] @ b[1].T])

    def merged(context: Any) -> Array:
        halves = [
            context.attention(
                values["one"], values["k"][part], values["v"][part], lengths=np.array([length], np.int32),
                cu_kv=np.array([0, length], np.int32), return_lse=True,
            )
            for part, length in ((slice(0, 20), 20), (slice(20, 37), 17))
        ]  # fmt: skip
        return context.merge_state(*halves[0], *halves[1])[0]

    return {
        "appended": appended, "restored": restored, "product_of_blocks": product_of_blocks, "grouped": grouped,
        "merged": merged, "convolved_photo": convolved_photo,
    }  # fmt: skip
