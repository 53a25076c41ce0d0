# Kernels by the names that people know them by: for each the call, which sources/NAMES.md shows and a test runs, and
# the formula that it is held against, in fp64 NumPy (tests/python/kernel_truths.py).
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Name:
    family: str
    name: str
    call: str  # an expression over `context` and the arrays of kernel_truths.arrays
    truth: str  # likewise, over the arrays in fp64 and the functions of kernel_truths
    tolerance: float = 2e-5  # of the larger of 1 and the number; 0: equal
    shown: str = ""  # on the page, where `call` is a function of kernel_truths.steps: what matters in it


F16, BF16, E4M3 = 2e-3, 1.6e-2, 0.07  # one rounding of the result
INT8 = 0.02  # of numbers of a few units, by a scale of a row


def _names(family: str, *rows: tuple) -> list[Name]:
    return [Name(family, *row) for row in rows]


NAMES = [
    *_names(
        "element-wise",
        ("add, f32 x1 (rows at odd places)", "context.add(x[:, 1:], y[:, 1:])", "x[:, 1:] + y[:, 1:]"),
        ("add, f32 x4", "context.add(x, y)", "x + y"),
        ("add, f16 x1", "context.add(xh[:, 1:], yh[:, 1:])", "xh[:, 1:] + yh[:, 1:]", F16),
        ("add, f16 x2", "context.add(xh, yh, alignment=4)", "xh + yh", F16),
        ("add, f16 x8", "context.add(xh, yh)", "xh + yh", F16),
        ("add, bf16", "context.add(xb, yb)", "xb + yb", BF16),
        ("add, fp8", "context.add(xe, ye)", "xe + ye", E4M3),
        ("sub", "context.sub(x, y)", "x - y"),
        ("mul", "context.mul(xh, yh)", "xh * yh", F16),
        ("div", "context.div(x, positive)", "x / positive"),
        ("bias", "context.bias(xb, row)", "xb + row", BF16),
        ("sigmoid", "context.sigmoid(x)", "sigmoid(x)"),
        ("relu", "context.relu(xh)", "np.maximum(xh, 0)", 0),
        ("relu2", "context.relu2(x)", "np.maximum(x, 0) ** 2"),
        ("elu", "context.elu(x)", "np.where(x > 0, x, np.expm1(x))"),
        ("gelu (erf)", "context.gelu(xb)", "gelu(xb)", BF16),
        ("gelu (tanh)", "context.gelu_tanh(x)", "gelu_tanh(x)"),
        ("swish, silu", "context.silu(xh)", "xh * sigmoid(xh)", F16),
        ("hardswish", "context.hardswish(x)", "x * np.clip(x + 3, 0, 6) / 6"),
        ("hardshrink", "context.hardshrink(x)", "np.where(abs(x) > 0.5, x, 0)", 0),
        ("mish", "context.mish(x)", "x * np.tanh(np.log1p(np.exp(x)))"),
        ("tanh", "context.tanh(x)", "np.tanh(x)"),
        ("exp", "context.exp(x)", "np.exp(x)"),
        ("log", "context.log(positive)", "np.log(positive)"),
        ("sin", "context.sin(x)", "np.sin(x)"),
        ("cos", "context.cos(x)", "np.cos(x)"),
        ("sqrt", "context.sqrt(positive)", "np.sqrt(positive)"),
        ("rsqrt", "context.rsqrt(positive)", "positive**-0.5"),
        ("abs", "context.abs(xh)", "abs(xh)", 0),
        ("neg", "context.neg(xb)", "-xb", 0),
        ("clamp", "context.clamp(x, -0.5, 0.75)", "np.clip(x, -0.5, 0.75)"),
        ("where", "context.where(condition, x, y)", "np.where(condition, x, y)", 0),
        ("cast f32 to f16", 'context.cast(x, "f16")', "x", F16),
        ("cast f32 to fp8", 'context.cast(x, "e4m3")', "x", E4M3),
        ("swiglu", "context.swiglu(xb, yb)", "xb * sigmoid(xb) * yb", BF16),
        ("geglu", "context.geglu(x, y)", "gelu(x) * y"),
        ("modulate", "context.modulate(x, row, other_row)", "x * (1 + row) + other_row"),
        ("gated residual", "context.gated_residual(x, y, row)", "x + y * row"),
        (
            "temperature by position (iRoPE)",
            "context.temperature(q, far[:, None, None])",
            "q * (1 + 0.1 * np.log1p(np.floor((far[:, None, None] + 1) / 8192)))",
        ),
    ),
    *_names(
        "rotary",
        ("rope, NeoX, f32", "context.rope(q, positions=at)", "rope(q, at)"),
        (
            "rope, q and k packed in one launch",
            "context.rope(q, q[:, :2], positions=at)",
            "rope(q, at), rope(q[:, :2], at)",
        ),
        ("rope, interleaved", "context.rope(q, positions=at, interleaved=True)", "rope(q, at, interleaved=True)"),
        ("rope, linear", 'context.rope(q, positions=at, scaling="linear", factor=4)', "rope(q, at, angles(32) / 4)"),
        (
            "rope, NTK",
            'context.rope(q, positions=at, scaling="ntk", factor=4)',
            "rope(q, at, angles(32, 1e4 * 4 ** (32 / 30)))",
        ),
        (
            "rope, YaRN",
            'context.rope(q, positions=at, scaling="yarn", factor=4, original_positions=64)',
            "(0.1 * np.log(4) + 1) * rope(q, at, yarn(32, 4, 64))",
        ),
        (
            "rope, Llama 3",
            'context.rope(q, positions=at, scaling="llama3", factor=8, original_positions=64)',
            "rope(q, at, llama3(32, 8, 64))",
        ),
        ("rope, partial dims", "context.rope(q, positions=at, rotary_dim=16)", "rope(q, at, angles(16))"),
        ("rope by table", "context.rope(q, positions=at, table=table_of_angles)", "rope(q, at)", 1e-4),
        (
            "ALiBi",
            "context.attention(one, k, v, lengths=all_keys, cu_kv=both_ends, alibi_slopes=slopes)",
            "attention(one, k, v, slopes=slopes)",
            F16,
        ),
    ),
    *_names(
        "row reductions",
        ("all-reduce f32", "context.sum(x, axis=1)", "x.sum(1)"),
        ("all-reduce f16, f32 accumulators", "context.sum(xh, axis=1)", "xh.sum(1)"),
        ("all-reduce f16, f16 accumulators", "context.sum(xh, axis=1, f16_sums=True)", "xh.sum(1)", 3e-2),
        ("all-reduce bf16", "context.sum(xb, axis=1)", "xb.sum(1)"),
        ("all-reduce e4m3", "context.sum(xe, axis=1)", "xe.sum(1)"),
        ("all-reduce e5m2, f16 accumulators", "context.sum(x5, axis=1, f16_sums=True)", "x5.sum(1)", 3e-2),
        ("all-reduce int8 in int32", 'context.sum(codes, axis=1, dtype="int32")', "codes.sum(1)", 0),
        ("dot product f32", "context.dot(x, y)", "(x * y).sum()"),
        ("dot product f16", "context.dot(xh, yh)", "(xh * yh).sum()"),
        ("softmax, safe, online", "context.softmax(x)", "softmax(x)"),
        ("layer norm f32", "context.layer_norm(x, row, other_row)", "layer_norm(x) * row + other_row"),
        ("layer norm f16", "context.layer_norm(xh)", "layer_norm(xh)", F16),
        ("RMS norm f32", "context.rmsnorm(x, row)", "rms_norm(x, 1e-6) * row"),
        ("RMS norm f16", "context.rmsnorm(xh)", "rms_norm(xh, 1e-6)", F16),
        ("RMS norm + residual", "context.rmsnorm(x, row, residual=y)", "rms_norm(x + y, 1e-6) * row, x + y"),
        ("L2 norm", "context.l2_norm(x)", "x / np.sqrt((x**2).sum(1, keepdims=True))"),
        ("group norm", "context.group_norm(image, 2)", "group_norm(image, 2)"),
        ("instance norm", "context.instance_norm(image)", "group_norm(image, image.shape[1])"),
        ("AdaLN", "context.adaln(x, row[None], other_row[None])", "layer_norm(x) * (1 + row) + other_row"),
        ("sum", "context.sum(x)", "x.sum()", 1e-4),
        ("max", "context.amax(x, axis=1)", "x.max(1)", 0),
        ("min", "context.amin(x, axis=0)", "x.min(0)", 0),
        ("argmax", "context.argmax(x)", "x.argmax(1)", 0),
        ("axis sums", "context.sum(image, axis=(0, 2))", "image.sum((0, 2))"),
        ("layer norm backward", "context.layer_norm_backward(y, x, row)", "layer_norm_backward(y, x, row)", 1e-4),
    ),
    *_names(
        "moves",
        ("embedding f32", "context.gather(table, ids)", "table[ids]", 0),
        ("embedding f16, packed", "context.gather(table_h, ids)", "table_h[ids]", 0),
        ("transpose, by column, row, diagonal, swizzled", "context.transpose(x)", "x.T", 0),
        ("transpose f16", "context.transpose(xh)", "xh.T", 0),
        ("3-D transpose", "context.permute(image, (1, 2, 0))", "image.transpose(1, 2, 0)", 0),
        ("4-D transpose", "context.permute(batch, (0, 2, 1, 3))", "batch.transpose(0, 2, 1, 3)", 0),
        ("concat", "context.concat([x, y], axis=1)", "np.concatenate([x, y], 1)", 0),
        ("slice", "context.slice(x, slice(1, 4), slice(None, None, 3))", "x[1:4, ::3]", 0),
        ("repeat-interleave", "context.repeat_interleave(x, 3, axis=0)", "np.repeat(x, 3, 0)", 0),
        ("QKV split", "context.split(x, [24, 8, 8], axis=1)", "np.split(x, [24, 32], 1)", 0),
        (
            "KV append",
            "appended(context)",
            "appended(None)",
            0,
            "context.kv_append(k, v, k_cache, v_cache, slots=slots)",
        ),
        (
            "MoE permute",
            "context.gather(x, context.moe_route(gates, 2).indices)",
            "x[np.argsort(experts.ravel(), kind='stable') // 2]",
            0,
        ),
        ("gather", "context.gather(x, ids % 5)", "x[ids % 5]", 0),
        ("scatter", "context.scatter(x, places, rows=9)", "scattered(x, places, 9)", 0),
        ("scatter-add", "context.scatter(x, ids % 5, rows=5, add=True)[:5]", "scattered(x, ids % 5, 5)"),
        ("histogram int32", "context.histogram(integers, 10)", "np.bincount(integers, minlength=10)", 0),
        (
            "quantise int8",
            "restored(context, x, 'int8')",
            "x",
            INT8,
            'context.quantize(x, scale_kind="token", dtype="int8")',
        ),
        (
            "quantise int8, by a scale that is given",
            'context.pointwise("int8(round(tensor0 / scalar0))", [x], scalars=[0.05], dtype="int8")',
            "np.clip(np.rint(x / np.float32(0.05)), -128, 127)",
            0,
        ),
        ("quantise fp8", "restored(context, x)", "x", E4M3, 'context.quantize(x, scale_kind="token")'),
    ),
    *_names(
        "matrix-vector",
        ("sgemv, k 128", "context.gemm(x128[:1], w128)", "x128[:1] @ w128.T", 1e-4),
        ("sgemv, k 32", "context.gemm(x128[:1, :32], w128[:, :32])", "x128[:1, :32] @ w128[:, :32].T", 1e-4),
        ("hgemv, k 16", "context.gemm(xh128[:1, :16], wh128[:, :16])", "xh128[:1, :16] @ wh128[:, :16].T", F16),
        ("bf16", "context.gemm(xb128[:1], wb128)", "xb128[:1] @ wb128.T", BF16),
        ("W8A8", 'context.fp8_gemm(xe128[:1], we128, unit, unit, out_dtype="f32")', "xe128[:1] @ we128.T", 1e-4),
    ),
    *_names(
        "matrix products",
        ("sgemm", "context.gemm(x128, w128)", "x128 @ w128.T", 1e-4),
        ("sgemm TF32", "context.gemm(x128, w128, tf32=True)", "x128 @ w128.T", 3e-2),
        ("hgemm", "context.gemm(xh128, wh128)", "xh128 @ wh128.T", 4e-3),
        ("hgemm, NN", "context.gemm(xh128, wh128.T.copy().T)", "xh128 @ wh128.T", 4e-3),
        ("hgemm, TN", "context.gemm(wh128.T.copy().T, wh128)", "wh128 @ wh128.T", 4e-3),
        (
            "fp8 by blocks of scales",
            "product_of_blocks(context)",
            "0 * (x128 @ w128.T)",
            1e-3,
            "context.fp8_gemm(a, b, scale_a, scale_b)",
        ),
        (
            "W8A16",
            'context.quantized_gemm(xh128, int8_w, scale_b=of_columns, out_dtype="f32")',
            "xh128 @ (int8_w * of_columns[:, None]).T",
            1e-4,
        ),
        (
            "W4A16",
            'context.quantized_gemm(xb128, pack(int4_w), scale_b=of_groups, b_format="int4", out_dtype="f32")',
            "xb128 @ in_groups(int4_w, of_groups).T",
            1e-4,
        ),
        (
            "W4A4",
            "context.quantized_gemm(pack(int4_x), pack(int4_w), scale_a=of_rows, scale_b=of_groups, "
            'a_format="int4", b_format="int4", out_dtype="f32")',
            "(int4_x * of_rows[:, None]) @ in_groups(int4_w, of_groups).T",
            1e-4,
        ),
        (
            "int8",
            'context.quantized_gemm(int8_x, int8_w, out_dtype="f32")',
            "int8_x.astype(int) @ int8_w.T.astype(int)",
            0,
        ),
        (
            "int4",
            'context.quantized_gemm(pack(int4_x), pack(int4_w), a_format="int4", b_format="int4", out_dtype="f32")',
            "int4_x @ int4_w.T",
            0,
        ),
        (
            "NVFP4",
            "context.quantized_gemm(pack(fp4_x), pack(fp4_w), scale_a=fp4_scale_x, scale_b=fp4_scale_w, "
            'tensor_scale_b=unit, a_format="e2m1", b_format="e2m1", out_dtype="f32")',
            "in_groups(fp4(fp4_x), fp4_scale_x) @ in_groups(fp4(fp4_w), fp4_scale_w).T",
            1e-4,
        ),
        ("batched", "context.gemm(batch[0], batch[1])", "batch[0] @ batch[1].transpose(0, 2, 1)", 1e-4),
        (
            "grouped",
            "grouped(context)",
            "grouped(None)",
            1e-4,
            "context.grouped_fp8_gemm(a, b, scale_a, scale_b, offsets=offsets)",
        ),
        (
            "epilogue tree",
            'context.gemm(x128, w128, expression="max(acc + row0, tensor1) * col2", operands=[five, plane, row48])',
            "np.maximum(x128 @ w128.T + five[:, None], plane) * row48",
            1e-4,
        ),
        (
            "linear + bias + gelu",
            'context.gemm(x128, w128, bias=row48, activation="gelu")',
            "gelu(x128 @ w128.T + row48)",
            1e-4,
        ),
        ("conv1d, causal and depthwise", "context.conv1d(x, taps, offsets=both_queries)", "conv1d(x, taps)"),
        (
            "conv1d: stride, padding, dilation, groups",
            "context.conv1d(image[:, :4], kernels, stride=2, padding=3, dilation=2, groups=2)",
            "convolved(image[:, :4], kernels, 2, 3, 2, 2)",
            1e-4,
        ),
        (
            "conv2d: stride, padding, dilation, groups",
            "context.conv2d(photo, kernels_of_2, stride=(2, 1), padding=1, dilation=(1, 2), groups=2)",
            "convolved2d(photo, kernels_of_2, (2, 1), 1, (1, 2), 2)",
            1e-4,
        ),
        (
            "conv2d, channels last, + bias + relu",
            'context.conv2d(photo_last.transpose(0, 3, 1, 2), kernels_of_4, row8, padding="same", activation="relu")',
            "convolved_photo()",
            1e-4,
        ),
        (
            "patch embedding",
            "context.conv2d(photo[:, :3], patches, stride=4)",
            "convolved2d(photo[:, :3], patches, (4, 4), 0, (1, 1), 1)",
            1e-4,
        ),
    ),
    *_names(
        "attention",
        (
            "split-KV, split-Q, shared KV, tiled: decode",
            "context.attention(one, k, v, lengths=all_keys, cu_kv=both_ends)",
            "attention(one, k, v)",
            F16,
        ),
        (
            "causal",
            "context.attention(qh, k, v, lengths=all_keys, cu_q=both_queries, cu_kv=both_ends, causal=True)",
            "attention(qh, k, v, causal=True)",
            F16,
        ),
        (
            "cross",
            "context.attention(qh, k, v, lengths=all_keys, cu_q=both_queries, cu_kv=both_ends)",
            "attention(qh, k, v)",
            F16,
        ),
        (
            "windowed",
            "context.attention(one, k, v, lengths=all_keys, cu_kv=both_ends, causal=True, window_left=6)",
            "attention(one, k[-7:], v[-7:])",
            F16,
        ),
        (
            "sinks",
            "context.attention(one, k, v, lengths=all_keys, cu_kv=both_ends, sinks=slopes)",
            "attention(one, k, v, sinks=slopes)",
            F16,
        ),
        (
            "paged",
            "context.attention(one, pages_k, pages_v, lengths=all_keys, page_table=page_table)",
            "attention(one, k, v)",
            F16,
        ),
        (
            "fp8",
            "context.attention(one, k.astype(ml_dtypes.float8_e4m3fn), v.astype(ml_dtypes.float8_e4m3fn), "
            "lengths=all_keys, cu_kv=both_ends)",
            "attention(one, k, v)",
            0.1,
        ),
        (
            "MLA",
            "context.mla_decode(latent_q, latent_cache, d_latent=64, scale=0.1, lengths=all_keys, "
            "page_table=page_table)",
            "mla(latent_q, latent_cache, page_table)",
            F16,
        ),
        (
            "head dims to 1 024",
            "context.attention(wide_q, wide_k, wide_k, lengths=all_keys, cu_kv=both_ends)",
            "attention(wide_q, wide_k, wide_k)",
            F16,
        ),
        (
            "merge_attn_states",
            "merged(context)",
            "attention(one, k, v)",
            F16,
            "context.merge_state(out_a, lse_a, out_b, lse_b)",
        ),
    ),
    *_names(
        "selection",
        ("argmax", "context.argmax(x)", "x.argmax(1)", 0),
        ("multinomial", "context.sample(certain, seed=7).ids", "certain.argmax(1)", 0),
        ("top-k", "context.top_k(x, 4, sorted=True)[0]", "np.argsort(-x, 1, kind='stable')[:, :4]", 0),
        ("top-k of probabilities", "context.renormalise(chances, top_k=3)", "kept(chances, top_k=3)"),
        ("top-p", "context.renormalise(chances, top_p=0.7)", "kept(chances, top_p=0.7)"),
        ("min-p", "context.renormalise(chances, min_p=0.3)", "kept(chances, min_p=0.3)"),
        (
            "penalties",
            "context.sample(x, temperature=0.0, output_tokens=best, presence=100.0).ids",
            "np.argsort(-x, 1, kind='stable')[:, 1]",
            0,
        ),
        ("bitmask", "context.sample(x, temperature=0.0, allowed=low_half).ids", "x[:, :16].argmax(1)", 0),
        ("MoE router", "np.sort(context.moe_route(gates, 2).ids)", "np.sort(experts)", 0),
        ("draft verification", "context.verify_draft(targets, drafts, greedy=True).accepted", "np.array([2, 0])", 0),
    ),
    *_names(
        "others",
        ("nms f32", "context.nms(boxes, scores, 0.5, most=3)[0]", "np.array([[1, 2, -1]])", 0),
        ("sort", "context.sort(x)", "np.sort(x, 1)", 0),
        (
            "LSTM cell",
            'context.pointwise(["sigmoid(tensor1) * tensor4 + sigmoid(tensor0) * tanh(tensor2)", '
            '"sigmoid(tensor3) * tanh(sigmoid(tensor1) * tensor4 + sigmoid(tensor0) * tanh(tensor2))"], '
            "[*context.split(gates_of_cell, [8, 8, 8, 8], axis=1), cell])",
            "lstm(gates_of_cell, cell)",
        ),
    ),
    *_names(
        "signals",
        ("FFT, complex", "context.fft(spectrum)", "np.fft.fft(spectrum)", 1e-4),
        ("inverse FFT", "context.ifft(spectrum)", "np.fft.ifft(spectrum)"),
        ("FFT, real (rfft)", "context.rfft(signal)", "np.fft.rfft(signal)", 1e-4),
        ("inverse, to real (irfft)", "context.irfft(spectrum)", "np.fft.irfft(spectrum)"),
        (
            "STFT",
            "context.stft(signal, 40, hop=16, window=hann)",
            "np.fft.rfft(frames(signal, 40, 16) * hann)",
            1e-4,
        ),
        (
            "STFT, power",
            'context.stft(signal, 40, hop=16, window=hann, result="power")',
            "np.abs(np.fft.rfft(frames(signal, 40, 16) * hann)) ** 2",
            1e-4,
        ),
        (
            "log-mel spectrogram",
            'context.pointwise("log(max(tensor0, 1e-10))", '
            '[context.gemm(context.stft(signal[0], 40, hop=16, window=hann, result="power"), mel, alignment=4)])',
            "np.log(np.abs(np.fft.rfft(frames(signal[0], 40, 16) * hann)) ** 2 @ mel.T)",
            1e-4,
        ),
    ),
]

# What the lists of others name and no op here does.
ABSENT = {
    "PoPE": "rotary tables with signs of their own: give `rope` a table where it is one of cosines and sines",
}
