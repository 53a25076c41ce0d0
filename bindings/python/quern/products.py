# Matrix products, making the outputs that are not given.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from .arrays import element, empty, empty_scales, shape_of
from .errors import InvalidError
from .ops import Ops

if TYPE_CHECKING:
    from typing_extensions import Unpack

_FP8 = ("e4m3", "e5m2")


class Epilogue(TypedDict, total=False):
    """What becomes of a product's f32 results before they are stored, given beside the other arguments:
    plain   out = activation(acc + c + bias)
    gate    out = activation(gate + c + bias) * (up + c + bias), gate and up the halves of the N columns
    or      out = expression, whose leaves are acc, or with gate=True gate and up"""

    activation: str  # "relu", "gelu", "gelu_tanh", "silu", "none"; left out: none, in front of a gate silu
    bias: Any  # [N]; grouped [experts, N]; batched [N] or [batch, N]; f32, f16 or bf16
    c: Any  # [M, N] with any leading dimension of out; f32, f16 or bf16; may be out
    gate: bool  # columns j and j + N/2 meet: out has N/2 columns
    expression: Any  # a quern.Expression or a formula's text, instead of activation, bias and c
    operands: list[Any]  # of the expression: row [M], col [columns], tensor as out
    scalars: list[float]  # of the expression
    out_scale: Any  # out e4m3 or e5m2: [M, ceil(columns/128)] f32, written; True: allocated
    power_of_two: bool  # round out_scale up to powers of two


class Products(Ops):
    """Mixed into Context. Of a product's epilogue see quern.products.Epilogue, of its launch Ops."""

    def gemm(
        self,
        a: Any,
        b: Any,
        *,
        out: Any = None,
        out_dtype: object | None = None,
        tf32: bool = False,
        constant_b: bool = False,
        **more: Unpack[Epilogue],
    ) -> Any:
        """epilogue(a b^T) of f16, bf16 or f32; returns out, or (out, out_scale) where that was given or asked for.

        a          [M, K] or [batch, M, K]; last stride 1, or the one before it (a transposed view)
        b          [N, K] or [batch, N, K], as a; the transpose of a [K, N] matrix is a view
        out        [M, N] or [batch, M, N], gated N/2; None: allocated by a's framework
        out_dtype  of the out that is allocated: f16, bf16, f32, e4m3 or e5m2; None: a's
        tf32       f32 operands may be rounded to TF32 where the target has it
        constant_b nothing that may still run writes b: with programmatic=True it may be read early
        activation, bias, c, gate, expression, operands, scalars, out_scale, power_of_two    the epilogue"""
        return self._product("gemm", a, b, out, out_dtype, more, tf32=tf32, constant_b=constant_b)

    def fp8_gemm(
        self,
        a: Any,
        b: Any,
        scale_a: Any,
        scale_b: Any,
        *,
        out: Any = None,
        out_dtype: object = "bf16",
        a_type: str | None = None,
        b_type: str | None = None,
        constant_b: bool = False,
        **more: Unpack[Epilogue],
    ) -> Any:
        """epilogue(A B^T) of 8-bit floating point with scales, x = q * scale; returns out, or (out, out_scale) where
        that was given or asked for.

        a          [M, K] e4m3 or e5m2, last stride 1; uint8 with a_type "e4m3" or "e5m2"
        b          [N, K] likewise
        scale_a    f32: [1] per tensor, [M] per row, or [M, ceil(K/128)] in blocks of 1x128, as `quantize` makes them
        scale_b    f32: [1] per tensor, [N] per column, or in blocks of 128x128 [ceil(N/128), ceil(K/128)]
        out        [M, N], gated N/2; None: allocated by a's framework
        out_dtype  of the out that is allocated: bf16, f16, f32, e4m3 or e5m2
        constant_b nothing that may still run writes b or scale_b: with programmatic=True they may be read early
        activation, bias, c, gate, expression, operands, scalars, out_scale, power_of_two    the epilogue"""
        return self._product(
            "fp8_gemm", a, b, out, out_dtype, more, scale_a=scale_a, scale_b=scale_b, a_type=a_type, b_type=b_type,
            constant_b=constant_b,
        )  # fmt: skip

    def grouped_fp8_gemm(
        self,
        a: Any,
        b: Any,
        scale_a: Any,
        scale_b: Any,
        *,
        offsets: Any = None,
        counts: Any = None,
        indices: Any = None,
        status: Any = None,
        out: Any = None,
        out_dtype: object = "bf16",
        a_type: str | None = None,
        b_type: str | None = None,
        expected_rows: int = 0,
        constant_b: bool = False,
        **more: Unpack[Epilogue],
    ) -> Any:
        """As fp8_gemm for a mixture of experts, each row by its expert's weights, in one launch; rows of out that
        belong to no expert are not written. Contiguous with offsets, masked with counts.

        a          contiguous: [rows, K], gathered: [tokens, K]; masked: [experts, capacity, K]
        b          [experts, N, K]
        scale_a    f32: [1], [rows of a], [rows of a, ceil(K/128)]; masked: [1] or with the experts in front
        scale_b    f32: [experts], [experts, N], [experts, ceil(N/128), ceil(K/128)]
        offsets    [experts+1] int32: expert e has the rows offsets[e] to offsets[e+1]
        counts     [experts] int32: how many of the capacity's rows are there
        indices    contiguous: [rows] int32: row r is made of row indices[r] of a
        status     [1] int32, zeroed by the caller: what was wrong is or-ed in, enum quern_group_status
        expected_rows  of an expert that has any, where known: chooses the kernel, results are right for any"""
        rows = None if indices is None else shape_of(indices, "indices", 1)
        return self._product(
            "grouped_fp8_gemm", a, b, out, out_dtype, more, rows, scale_a=scale_a, scale_b=scale_b, offsets=offsets,
            counts=counts, indices=indices, status=status, a_type=a_type, b_type=b_type, expected_rows=expected_rows,
            constant_b=constant_b,
        )  # fmt: skip

    def quantized_gemm(
        self,
        a: Any,
        b: Any,
        *,
        scale_a: Any = None,
        scale_b: Any = None,
        zero_b: Any = None,
        tensor_scale_a: Any = None,
        tensor_scale_b: Any = None,
        a_format: str | None = None,
        b_format: str | None = None,
        scale_a_type: str | None = None,
        scale_b_type: str | None = None,
        out: Any = None,
        out_dtype: object | None = None,
        constant_b: bool = False,
        **more: Unpack[Epilogue],
    ) -> Any:
        """epilogue(A B^T) of numbers stored in 8 or 4 bits with scales, or of such weights and activations of 16 bits
        (W8A16, W4A16, W8A8, W4A8, W4A4, NVFP4, MXFP4); returns out, or (out, out_scale) where that was given or asked
        for. Of quern.packing are the layouts.

        a          [M, K] f16, bf16, int8 or e4m3; uint8 [M, K/2] with a_format "int4" or "e2m1"
        b          [N, K] int8, uint8 or e4m3; uint8 [N, K/2] with b_format "int4", "uint4" or "e2m1"
        scale_a    optional: [1], [M] or [M, K/group] f32, f16, bf16, e4m3, or uint8 with scale_a_type "e4m3" or "ue8m0"
        scale_b    optional: [1], [N] or [N, K/group], likewise; groups of 16, 32, 64 or 128
        zero_b     optional, of uint8 and "uint4": [N] or [N, K/group] uint8, subtracted from b; left out: 128 and 8
        tensor_scale_a, tensor_scale_b    optional: [1] f32, beside the scales
        out        [M, N], gated N/2; None: allocated by a's framework
        out_dtype  of the out that is allocated: bf16, f16, f32, e4m3 or e5m2; None: a's, where that has 16 bits, else
                   bf16
        constant_b nothing that may still run writes b or its scales: with programmatic=True they may be read early
        activation, bias, c, gate, expression, operands, scalars, out_scale, power_of_two    the epilogue"""
        if out is None and out_dtype is None and element(a, "a") not in ("f16", "bf16"):
            out_dtype = "bf16"
        return self._product(
            "quantized_gemm", a, b, out, out_dtype, more, scale_a=scale_a, scale_b=scale_b, zero_b=zero_b,
            tensor_scale_a=tensor_scale_a, tensor_scale_b=tensor_scale_b, a_format=a_format, b_format=b_format,
            scale_a_type=scale_a_type, scale_b_type=scale_b_type, constant_b=constant_b,
        )  # fmt: skip

    def _product(
        self, op: str, a: Any, b: Any, out: Any, out_dtype: object, more: Any, rows: Any = None, **own: Any
    ) -> Any:
        if out is None:
            columns = shape_of(b, "b")[-2]
            if "gate" in more and more["gate"]:
                columns //= 2
            out = empty((*(rows or shape_of(a, "a")[:-1]), columns), a, "out", out_dtype)
        if more.get("out_scale") is True:
            if element(out, "out") not in _FP8:
                raise InvalidError(f"out_scale: True given for out of {element(out, 'out')}; allowed are e4m3 and e5m2")
            *leading, columns = shape_of(out, "out")
            more["out_scale"] = empty_scales(leading, -(-columns // 128), out, "out_scale")
        out_scale = more.get("out_scale")
        own.update(more)
        self.call(op, own, a=a, b=b, out=out)
        return out if out_scale is None else (out, out_scale)
