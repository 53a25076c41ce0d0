# The ops: any of quern.h's by its args struct, and by hand those that make their outputs themselves.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from . import _abi, structs
from .arrays import Workspaces, empty, stream_handle, unwrap
from .errors import InvalidError, MissError, PendingError
from .library import call
from .tensor import Borrowed, Shape, borrow

_TENSOR = ctypes.POINTER(_abi.DLTensor)
# The tensors that ops write, by their names in the args structs: read-only memory is refused for them here, since a
# DLTensor cannot say so to the library.
OUTPUTS = ("out", "lse")
_LAUNCH_FIELDS = ("stream", "workspace", "workspace_size")


class Call:
    """One op's args struct, filled, with what keeps its tensors alive."""

    def __init__(self, op: str, given: dict[str, Any], device: tuple[int, int]) -> None:
        declared = _abi.OPS[op]
        fields = {name: kind for name, kind in structs.field_kinds(declared.args).items() if name not in _LAUNCH_FIELDS}
        self.op = op
        self.arrays = [value for name, value in given.items() if fields.get(name) is _TENSOR and value is not None]
        self.stream = stream_handle(given.pop("stream", None), self.arrays, device)
        self.args: Any = structs.new(declared.args)
        self.args.stream = self.stream
        self.tensors: dict[str, Borrowed] = {}
        scalars = {}
        for name, value in given.items():
            if fields.get(name) is not _TENSOR:
                scalars[name] = value
            elif value is not None:
                borrowed = borrow(value, name, device, self.stream)
                self.tensors[name] = borrowed.writable(name) if name in OUTPUTS else borrowed
                setattr(self.args, name, ctypes.pointer(borrowed.tensor))
        structs.fill(self.args, scalars, structs.flag_bits(_abi.quern_call_flags, declared.flags), op)

    def workspace_size(self, handle: Any) -> int:
        size = ctypes.c_uint64()
        call(f"quern_{self.op}_workspace", handle, ctypes.byref(self.args), ctypes.byref(size))
        return size.value


class Ops:
    """Mixed into Context. For every op of the library there is a method `OP`, and with the same arguments `OP_prepare`,
    which readies the kernels of every smaller call, and `OP_workspace`, the bytes of workspace.

    Arguments are the fields of the op's args struct by name: tensors are anything with `__dlpack__`, flags are True or
    False. Besides those of the op itself, each takes
      stream          as an integer or a stream object; None: PyTorch's current stream, or the default stream
      workspace       a zeroed uint8 array on the device, 256-byte aligned, used by one call at a time; None: one that
                      the context keeps for each thread and stream
      alignment       bytes that the rows of every tensor are promised to be aligned to; None: 16
      max_sms         leave the other SMs free
      batch_invariant, programmatic, cached_only, background    see enum quern_call_flags
    Calls on a GPU return once launched."""

    _open: Callable[[], Any]
    _device: tuple[int, int]
    _workspaces: Workspaces

    def call(self, op: str, **arguments: Any) -> None:
        """Launches the op of this name. Every output is given by the caller and must be writable."""
        workspace = arguments.pop("workspace", None)
        launch = self._call(op, arguments)
        owner, address, size = None, 0, 0
        if workspace is None:
            needed = launch.workspace_size(self._open())
            owner, address, size = self._workspaces.take(needed, launch.stream, self._device, launch.arrays)
        else:
            owner = borrow(workspace, "workspace", self._device, launch.stream).writable("workspace")
            owner.on(self._device, "workspace")
            if owner.tensor.dtype.bits != 8 or owner.tensor.ndim != 1:
                raise InvalidError("workspace: must be one dimension of bytes (uint8)")
            address, size = owner.address, owner.shape[0]
        launch.args.workspace, launch.args.workspace_size = address, size
        try:
            call(f"quern_{op}", self._open(), ctypes.byref(launch.args))
        except (MissError, PendingError, InvalidError):
            raise
        except Exception:
            if workspace is None:
                self._workspaces.drop(launch.stream)
            raise

    def prepare(self, op: str, **arguments: Any) -> None:
        """Readies every kernel that calls of this op with the same dtypes, head counts and flags and no larger maxima
        can reach. Tensors may be quern.Shape."""
        call(f"quern_{op}_prepare", self._open(), ctypes.byref(self._call(op, arguments).args))

    def workspace(self, op: str, **arguments: Any) -> int:
        """The bytes of workspace that a call of this op needs. Tensors may be quern.Shape."""
        return self._call(op, arguments).workspace_size(self._open())

    def _call(self, op: str, arguments: dict[str, Any]) -> Call:
        if op not in _abi.OPS:
            raise InvalidError(f"op: {op!r} given; there are {', '.join(_abi.OPS)}")
        return Call(op, arguments, self._device)

    def attention(
        self,
        q: Any,
        k: Any,
        v: Any,
        *,
        lengths: Any,
        cu_q: Any = None,
        page_table: Any = None,
        page_indptr: Any = None,
        page_indices: Any = None,
        cu_kv: Any = None,
        max_q_len: int | None = None,
        max_kv_len: int | None = None,
        causal: bool = False,
        window_left: int | None = None,
        window_right: int | None = None,
        scale: float | None = None,
        logit_cap: float | None = None,
        alibi_slopes: Any = None,
        sinks: Any = None,
        out: Any = None,
        lse: Any = None,
        return_lse: bool = False,
        **launch: Any,
    ) -> Any:
        """Attention of ragged queries over a paged or ragged KV cache; returns out, or (out, lse) where lse was given
        or asked for.

        q             [total_q, heads, d_k], f16 or bf16, last stride 1
        k, v          paged: [pages, page_size, kv_heads, d]; ragged: [total_kv, kv_heads, d]; last stride 1
        lengths       [batch] int32: keys of each sequence, this call's tokens included
        cu_q          [batch+1] int32: where each sequence's queries begin; None: one query each
        page_table    paged: [batch, max_pages] int32, or page_indptr [batch+1] with page_indices, int32
        cu_kv         ragged: [batch+1] int32
        max_q_len     no sequence has more queries; None: 1 without cu_q, else total_q
        max_kv_len    no sequence has more keys; None: as many as the page table or k have room for
        causal        query i of a sequence sees keys j <= length - q_len + i
        window_left, window_right    ... and p - left <= j <= p + right, p = length - q_len + i; None: no limit
        scale         of the logits; None: 1/sqrt(d_k)
        logit_cap     c: logits become c * tanh(logit / c)
        alibi_slopes  [heads] f32
        sinks         [heads] f32: a logit a head that takes weight and gives no value
        out           [total_q, heads, d_v], q's element type; None: allocated by q's framework (rows past the last
                      sequence's stay unset)
        lse           [total_q, heads] f32, natural logarithm; None: allocated where return_lse is True"""
        if out is None:
            out = empty((*_shape(q, "q", 3)[:2], _shape(v, "v")[-1]), q, "out")
        if lse is None and return_lse:
            lse = empty(_shape(q, "q", 3)[:2], q, "lse", "float32")
        if max_kv_len is None:
            max_kv_len = _room(k, page_table, page_indices)
        self.call(
            "attention", q=q, k=k, v=v, out=out, lse=lse, lengths=lengths, cu_q=cu_q, page_table=page_table,
            page_indptr=page_indptr, page_indices=page_indices, cu_kv=cu_kv, alibi_slopes=alibi_slopes, sinks=sinks,
            max_q_len=max_q_len, max_kv_len=max_kv_len, window_left=window_left, window_right=window_right, scale=scale,
            logit_cap=logit_cap, causal=causal, **launch,
        )  # fmt: skip
        return out if lse is None else (out, lse)

    def merge_state(
        self, out_a: Any, lse_a: Any, out_b: Any, lse_b: Any, *, out: Any = None, lse: Any = None, **launch: Any
    ) -> tuple[Any, Any]:
        """Joins two partial attention results over disjoint sets of keys; returns (out, lse).

        out_a, out_b  [rows, heads, d], f16, bf16 or f32, both the same
        lse_a, lse_b  [rows, heads] f32, natural logarithm; both -inf gives zeros and -inf
        out, lse      None: allocated by out_a's framework; out may be out_a or out_b"""
        if out is None:
            out = empty(_shape(out_a, "out_a", 3), out_a, "out")
        if lse is None:
            lse = empty(_shape(out_a, "out_a", 3)[:2], out_a, "lse", "float32")
        self.call("merge_state", out_a=out_a, lse_a=lse_a, out_b=out_b, lse_b=lse_b, out=out, lse=lse, **launch)
        return out, lse


def _shape(array: Any, argument: str, dimensions: int | None = None) -> tuple[int, ...]:
    if isinstance(array, Shape) or not hasattr(unwrap(array), "shape"):
        raise InvalidError(f"{argument}: {type(array).__name__} given; allowed is an array with a shape and memory")
    shape = tuple(unwrap(array).shape)
    if not shape or (dimensions is not None and len(shape) != dimensions):
        raise InvalidError(f"{argument}: shape {shape} given; allowed are {dimensions or 'one or more'} dimensions")
    return shape


def _room(k: Any, page_table: Any, page_indices: Any) -> int:
    """The most keys a sequence can have, as far as shapes tell: no device memory is read."""
    shape = _shape(k, "k")
    if page_table is not None:
        return _shape(page_table, "page_table", 2)[1] * shape[1]
    if page_indices is not None:
        return _shape(page_indices, "page_indices", 1)[0] * shape[1]
    return shape[0]


def _method(op: str, verb: str, run: Any) -> Any:
    def method(self: Ops, **arguments: Any) -> Any:
        return run(self, op, **arguments)

    method.__name__ = op + verb
    method.__doc__ = f"{run.__doc__}\n\nThe arguments are the fields of this struct, the flags by their names:\n\n"
    method.__doc__ += _abi.OPS[op].text
    return method


for _op in _abi.OPS:
    for _verb, _run in (("", Ops.call), ("_prepare", Ops.prepare), ("_workspace", Ops.workspace)):
        if not hasattr(Ops, _op + _verb):
            setattr(Ops, _op + _verb, _method(_op, _verb, _run))
