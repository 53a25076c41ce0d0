# How checkpoints store weights of 4 bits, and how `quantized_gemm` takes them: NumPy arrays in and out, at load time.
# SPDX-License-Identifier: Apache-2.0
"""Weights of 4 bits as `Context.quantized_gemm` takes them: uint8 [N, K/2], two in a byte along K, the first in the low
four bits.

    NVFP4 (ModelOpt, compressed-tensors)   weight_packed is b with b_format="e2m1", weight_scale (e4m3) scale_b, and
                                           tensor_scale_b is weight_scale_2, or 1 / weight_global_scale
    MXFP4                                  the blocks are b with b_format="e2m1" once the last two dimensions are one,
                                           the scales scale_b with scale_b_type="ue8m0"
    compressed-tensors, pack-quantized     weight_packed.view(uint8) is b with b_format="uint4", weight_scale scale_b;
                                           zero points are packed along N: `unpack`
    AWQ, GPTQ                              `from_awq` and `from_gptq`"""

from __future__ import annotations

from typing import Any

from .errors import InvalidError

# Which of eight consecutive columns each four bits of a word of AWQ's are, from the lowest on.
_AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)


def pack(codes: Any) -> Any:
    """[..., K] integers of 4 bits, signed or not, to uint8 [..., K/2]."""
    import numpy as np

    codes = np.asarray(codes)
    if codes.shape[-1] % 2 != 0:
        raise InvalidError(f"codes.shape[-1] is {codes.shape[-1]}; allowed are even numbers")
    low, high = (codes[..., i::2].astype(np.uint8) & 15 for i in (0, 1))
    return np.ascontiguousarray(low | high << 4)


def unpack(words: Any, axis: int = -1) -> Any:
    """The unsigned integers of 4 bits in integers of any width, as uint8: along `axis`, the lowest bits first."""
    import numpy as np

    words = np.moveaxis(np.asarray(words), axis, -1)
    words = np.ascontiguousarray(words).view(np.uint8)
    codes = np.stack([words & 15, words >> 4], -1).reshape(*words.shape[:-1], -1)
    return np.moveaxis(codes, -1, axis)


def from_gptq(qweight: Any, qzeros: Any = None, *, zero_offset: int = 1) -> tuple[Any, Any]:
    """(b, zero_b) of GPTQ's qweight int32 [K/8, N] and qzeros int32 [groups, N/8], for b_format="uint4"; scale_b is
    scales.T, a view. zero_offset is what is stored too little in qzeros: 1, or 0 in checkpoints of format gptq_v2.
    Without qzeros zero_b is None. Rows of K that were permuted (desc_act) are permuted in a: a[:, argsort(g_idx)]
    with qweight's rows in the same order."""
    b = pack(unpack(qweight, 0).T)
    return b, None if qzeros is None else (unpack(qzeros, 1) + zero_offset).T.copy()


def from_awq(qweight: Any, qzeros: Any = None) -> tuple[Any, Any]:
    """(b, zero_b) of AWQ's qweight int32 [K, N/8] and qzeros int32 [groups, N/8], for b_format="uint4"; scale_b is
    scales.T, a view. Without qzeros zero_b is None."""
    import numpy as np

    def columns(words: Any) -> Any:
        codes = unpack(words, 1)
        ordered = np.empty_like(codes)
        for i, column in enumerate(_AWQ_ORDER):
            ordered[:, column::8] = codes[:, i::8]
        return ordered

    return pack(columns(qweight).T), None if qzeros is None else columns(qzeros).T.copy()
