"""Who multiplies: quern, cuBLASLt through PyTorch, DeepGEMM. Each makes of one set of operands a call without
arguments, so that nothing but the call itself is timed.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from typing import Any

import torch
from quern import Context, _abi
from quern.errors import from_status
from quern.library import library

from .operands import Operands
from .shapes import KINDS, Shape

Call = Callable[[], object]
QUERN, CUBLASLT, DEEPGEMM = "quern", "cuBLASLt", "DeepGEMM"


def product_line(kind: str, shape: Shape) -> str:
    """What `quern tune` calls the product that Quern.dense makes."""
    if KINDS[kind].element_bytes == 2:
        orders = (" order_a=km" if KINDS[kind].turned_a else "") + (" order_b=kn" if KINDS[kind].turned_b else "")
        product = f"gemm * dtype=bf16{orders}"
    else:
        product = f"fp8_gemm * scales={'blocks' if kind == 'block' else 'vectors'}"
    return f"{product} n={shape.n} k={shape.k}"


class Quern:
    """Calls of quern with their args structs filled beforehand, one workspace for all of a case's."""

    name = QUERN

    def __init__(self, context: Context, device: str, stream: int | None) -> None:
        self.context, self._device, self._stream = context, device, stream
        self._workspace = self._zeros(0)

    def _zeros(self, size: int) -> torch.Tensor:
        return torch.zeros(size, dtype=torch.uint8, device=self._device)

    def call(self, op: str, **arguments: Any) -> Call:
        """The op's C function with everything that it takes."""
        needed = self.context.workspace(op, stream=self._stream, **arguments)
        if needed > self._workspace.numel():
            self._workspace = self._zeros(needed)
        made = self.context._arguments(op, {"stream": self._stream, **arguments})
        made.args.workspace, made.args.workspace_size = self._workspace.data_ptr(), self._workspace.numel()
        error = _abi.quern_error(size=ctypes.sizeof(_abi.quern_error))
        function = getattr(library(), f"quern_{op}")
        given = (self.context._open(), ctypes.byref(made.args), ctypes.byref(error))
        keep = (made, arguments, self._workspace)

        def call(_: Any = keep) -> None:
            status = function(*given)
            if status != _abi.QUERN_OK:
                raise from_status(status, error.native, error.text.decode("utf-8", "replace"))

        return call

    def dense(self, kind: str, given: Operands, **launch: Any) -> Call:
        if KINDS[kind].element_bytes == 2:
            return self.call("gemm", a=given.a, b=given.b, out=given.out, **launch)
        return self.call(
            "fp8_gemm", a=given.a, b=given.b, scale_a=given.scale_a, scale_b=given.scale_b, out=given.out, **launch
        )

    def grouped(self, given: Operands, **rows: torch.Tensor | int) -> Call:
        """`rows`: offsets, counts, indices or expected_rows."""
        return self.call(
            "grouped_fp8_gemm",
            a=given.a,
            b=given.b,
            scale_a=given.scale_a,
            scale_b=given.scale_b,
            out=given.out,
            **rows,
        )

    def compiled(self) -> int:
        return self.context.stats().compiled

    def variants(self) -> str:
        """Of the kernels that this context's calls have taken, by quern's names for them."""
        return " ".join(sorted(set(re.findall(r"\bvariant=(\w+)", self.context.manifest()))))


class CublasLt:
    """torch._scaled_mm and torch.mm into given outputs."""

    name = CUBLASLT

    def __init__(self, fast_accumulation: bool) -> None:
        self.fast_accumulation = fast_accumulation

    def dense(self, kind: str, given: Operands) -> Call:
        a, b, out = given.a, given.b.T, given.out
        if KINDS[kind].element_bytes == 2:
            return lambda: torch.mm(a, b, out=out)
        scale_a, scale_b, fast = given.scale_a, given.scale_b, self.fast_accumulation
        if kind == "row":
            scale_a, scale_b = scale_a[:, None], scale_b[None, :]

        def call() -> None:
            torch._scaled_mm(a, b, scale_a, scale_b, out_dtype=out.dtype, use_fast_accum=fast, out=out)

        return call


class DeepGemm:
    """Where it can be imported."""

    name = DEEPGEMM

    def __init__(self) -> None:
        import deep_gemm

        self._library = deep_gemm
        self.version: str = deep_gemm.__version__

    def dense(self, kind: str, given: Operands, programmatic: bool = False) -> Call:
        if kind != "block":
            raise ValueError(f"{kind} scales are none of DeepGEMM's")
        return self._call(self._library.fp8_gemm_nt, given, programmatic=programmatic)

    def contiguous(self, given: Operands, experts_of_rows: torch.Tensor) -> Call:
        """experts_of_rows [rows] int32; each expert's rows are a multiple of 128."""
        return self._call(self._library.m_grouped_fp8_gemm_nt_contiguous, given, experts_of_rows)

    def masked(self, given: Operands, counts: torch.Tensor, expected: int) -> Call:
        library = self._library  # later releases have it by the other name
        function = getattr(library, "m_grouped_fp8_gemm_nt_masked", None) or library.fp8_m_grouped_gemm_nt_masked
        return self._call(function, given, counts, expected)

    def _call(self, function: Any, given: Operands, *rows: Any, programmatic: bool = False) -> Call:
        a, b, out = (given.a, given.scale_a), (given.b, given.scale_b), given.out
        set_programmatic = self._library.set_pdl  # of all calls from then on

        def call() -> None:
            set_programmatic(programmatic)
            function(a, b, out, *rows)

        return call


class Peers:
    """Those that there are, or none with `alone`."""

    def __init__(self, fast_accumulation: bool, alone: bool) -> None:
        self.cublaslt = None if alone else CublasLt(fast_accumulation)
        self.deepgemm: DeepGemm | None = None
        self._why_not = ""
        try:
            self.deepgemm = None if alone else DeepGemm()
        except Exception as error:  # a library that does not load may raise anything
            self._why_not = f"{type(error).__name__}: {error}"

    def __str__(self) -> str:
        if self.cublaslt is None:
            return "no peers"
        fast = "with" if self.cublaslt.fast_accumulation else "without"
        deepgemm = self.deepgemm.version if self.deepgemm else f"not there ({self._why_not})"
        return f"cuBLASLt {fast} fast accumulation, DeepGEMM {deepgemm}"
