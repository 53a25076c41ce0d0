# The ops as PyTorch's own: torch.ops.quern.OP for every op of the library, with schemas made of the same description as
# all else here and with implementations for fake tensors, so that torch.compile traces through them.
# SPDX-License-Identifier: Apache-2.0
"""import quern.torch_ops registers `torch.ops.quern.OP` for every op: keyword arguments by the names of the op's args
struct, outputs among them, which it writes (their schema says so) and which it does not return. `quern.torch_ops.ops`
has the methods of quern.Context over them, which make the outputs that are not given:

    from quern.torch_ops import ops

    @torch.compile(fullgraph=True)
    def block(x, weight):
        return torch.relu(ops.gemm(x, weight))

Calls go to a context of the tensors' device, which is made when it is first needed, or which `use` has set: "host" for
tensors of the CPU. They launch on PyTorch's current stream and copy nothing.

Gradients: `ops.norm` of kind "layer" and "rms", `ops.layer_norm` and `ops.rmsnorm` have them, with and without a
residual, where outputs are not given: see quern.torch_norms. No other op has one: under torch.no_grad() and
torch.inference_mode() parameters are taken as they are, else those that require one are refused."""

from __future__ import annotations

import threading
from typing import Any

import torch

from . import _abi, arrays, dtypes
from .arguments import IN_PLACE
from .compiled import describe
from .context import Context
from .errors import InvalidError
from .norms import Norms
from .ops import Ops
from .torch_norms import differentiable, register_norm, wants_gradient

_NAMESPACE = "quern"
# fast/description.h's kinds of arguments, as schemas have them.
_TYPES = {
    0: "bool",
    3: "SymInt",
    4: "SymInt",
    5: "SymInt",
    6: "SymInt",
    7: "float",
    8: "float",
    9: "float[]",
    10: "str",
}
arrays.compiling = torch.compiler.is_dynamo_compiling
# What torch.compile may come across is known before.
for _short, _long in dtypes.LONG.items():
    for _dtype in (_short, _long, getattr(torch, _long, _long)):
        dtypes.short_name(_dtype)
_contexts: dict[tuple[str, int], Context] = {}
_lock = threading.Lock()


def use(context: Context) -> None:
    """Has the ops on this context's device launched by it: one with options of your own, say. It stays yours to close,
    when no call comes any more."""
    _contexts[_place(context._device[0], context._device[1])] = context


def context_of(device: torch.device) -> Context:
    """The context that tensors of this device go to."""
    place = (device.type, device.index or 0)
    found = _contexts.get(place)
    if found is None:
        with _lock:
            found = _contexts.get(place)
            if found is None:
                found = _contexts[place] = Context("host" if device.type == "cpu" else _name(*place))
    return found


def _place(kind: int, ordinal: int) -> tuple[str, int]:
    # PyTorch calls AMD's devices "cuda" too.
    return ("cpu", 0) if kind == _abi.kDLCPU else ("cuda", ordinal)


def _name(kind: str, ordinal: int) -> str:
    if kind != "cuda":
        raise InvalidError(f"device: tensors of {kind} are given; allowed are those of cpu and cuda")
    return f"{'rocm' if torch.version.hip else 'cuda'}:{ordinal}"


def schema(op: str) -> str:
    """An op's schema: every argument by name and optional, what may be written marked so."""
    written = {*_abi.OUTPUTS[op], *IN_PLACE.get(op, {})}
    arguments = []
    for name, field, _, _, _, _, enumerators in describe(_abi.OPS[op])[1]:
        mark = f"({chr(ord('a') + len([one for one in arguments if '!' in one]))}!)" if name in written else ""
        if field == 1:
            kind = f"Tensor{mark}"
        elif field == 2:
            kind = f"Tensor{mark}[]"
        else:
            kind = "str" if enumerators else _TYPES[field]
        arguments.append(f"{kind}? {name}=None")
    return f"{op}(*, {', '.join(arguments)}) -> ()"


def _launcher(op: str) -> Any:
    def launch(**given: Any) -> None:
        given = {name: value for name, value in given.items() if value is not None}
        tensors = [value for value in given.values() if isinstance(value, torch.Tensor)]
        tensors += [one for value in given.values() if isinstance(value, (list, tuple)) for one in value]
        device = next((one.device for one in tensors if isinstance(one, torch.Tensor)), None)
        if device is None:
            raise InvalidError(f"{op}: no tensor is given")
        context_of(device).call(op, **given)

    return launch


def _fake(**given: Any) -> None:
    """Nothing is returned, so that there is nothing to make."""


# The functions themselves: torch.compile traces no descriptors.
_norm, _rmsnorm = Norms.norm, Norms.rmsnorm


class TorchOps(*(base for base in Context.__bases__ if issubclass(base, Ops))):  # type: ignore[misc]
    """The methods of quern.Context for ops, each on the device of its tensors."""

    def call(self, op: str, more: dict[str, Any] | None = None, /, **arguments: Any) -> None:
        """torch.ops.quern.OP by its name."""
        if more:
            arguments = {**arguments, **more}
        if arguments.get("alignment") == "found":  # a schema has a number there
            lists = [value if isinstance(value, (list, tuple)) else [value] for value in arguments.values()]
            arguments["alignment"] = arrays.alignment_of(
                [one for each in lists for one in each if isinstance(one, torch.Tensor)]
            )
        getattr(torch.ops.quern, op)(**arguments)

    def norm(self, x: Any, weight: Any = None, bias: Any = None, **rest: Any) -> Any:
        """As Context.norm, with gradients."""
        if wants_gradient(x, weight, bias, rest.get("residual")):
            return differentiable(x, weight, bias, **rest)
        return _norm(self, x, weight, bias, **rest)

    def rmsnorm(self, x: Any, weight: Any = None, **rest: Any) -> Any:
        """As Context.rmsnorm, with gradients."""
        if wants_gradient(x, weight, rest.get("residual")):
            return differentiable(x, weight, None, kind="rms", **{"eps": 1e-6, **rest})
        return _rmsnorm(self, x, weight, **rest)

    def prepare(self, op: str, **arguments: Any) -> None:
        """As Context.prepare, which is the context's: context_of(device).prepare."""
        raise InvalidError(f"{op}: prepare is a context's; see quern.torch_ops.context_of")

    def workspace(self, op: str, **arguments: Any) -> int:
        """As Context.workspace, which is the context's: context_of(device).workspace."""
        raise InvalidError(f"{op}: workspace is a context's; see quern.torch_ops.context_of")


_library = torch.library.Library(_NAMESPACE, "DEF")
for _op in _abi.OPS:
    _library.define(schema(_op), tags=(torch.Tag.needs_fixed_stride_order,))
    _library.impl(_op, _launcher(_op), "CompositeExplicitAutograd")
    torch.library.register_fake(f"{_NAMESPACE}::{_op}", _fake, lib=_library)

    # The function itself: what torch.compile traces is plain Python, without `bind`.
    setattr(TorchOps, _op, getattr(TorchOps, _op))

ops = TorchOps()
register_norm(_library, ops)
