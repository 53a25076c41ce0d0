# Calls made ready once and launched again and again: `bound = context.attention.bind(q, k, v, ...)`, then `bound()`.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ctypes
import functools
import inspect
import types
from collections.abc import Callable
from typing import Any

from . import _abi, compiled
from .arguments import Arguments
from .arrays import Workspaces, is_torch, stream_handle
from .errors import InvalidError
from .library import call
from .tensor import borrow


class OpMethod:
    """A method of Context for an op: called as any, and with `bind`."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        functools.update_wrapper(self, function)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self.function if instance is None else BoundMethod(self.function, instance)


class BoundMethod(functools.partial):  # type: ignore[type-arg]
    """An op's method of one context."""

    __slots__ = ()

    def bind(self, *arguments: Any, **named: Any) -> Any:
        """The same call with these arguments, to be launched again and again: bound() returns its outputs, the same
        arrays each time, with what the arguments' memory holds by then. Everything is checked here, and memory is
        allocated here alone: bound() costs little more than the call of the C ABI.

        The arrays may change in what they hold, not in place or shape. Without `stream`, each bound() is on PyTorch's
        current stream where one of the arrays is PyTorch's. The workspace is the bound call's own unless one is given:
        one launch of it at a time. A CUDA graph that captured bound() needs it, and the context, for as long as the
        graph is used."""
        recorder = _Recorder(self.args[0])
        result = self.func(recorder, *arguments, **named)
        return recorder.bound(result)


class _Recorder:
    """Stands for a context in an op's method, and takes down what it would launch."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self._recorded: tuple[str, Arguments, bool, Any] | None = None

    def __getattr__(self, name: str) -> Any:
        found = inspect.getattr_static(type(self._context), name, None)
        return types.MethodType(found, self) if isinstance(found, types.FunctionType) else getattr(self._context, name)

    def call(self, op: str, more: dict[str, Any] | None = None, /, **arguments: Any) -> None:
        if more:
            arguments |= more
        if self._recorded is not None:
            raise InvalidError(f"{op}: this method launches more than one op, which cannot be bound")
        context, workspace = self._context, arguments.pop("workspace", None)
        context._open()
        follows = arguments.get("stream") is None and context._device[0] not in (0, _abi.kDLCPU)
        launch = context._arguments(op, arguments)
        if workspace is None:
            needed = context._workspace_size(launch)
            owner, address, size = Workspaces().take(needed, launch.stream, context._device, launch.arrays)
        else:
            owner, address, size = given_workspace(workspace, context._device, launch.stream)
        launch.args.workspace, launch.args.workspace_size = address, size
        self._recorded = op, launch, follows and any(is_torch(array) for array in launch.arrays), owner

    def bound(self, result: Any) -> Any:
        if self._recorded is None:
            raise InvalidError("this method launched nothing that could be bound")
        op, launch, follows, owner = self._recorded
        context = self._context
        if context._launcher is not None:
            exchange = compiled.exchange_of_first(launch.arrays) if follows else None
            if not follows or exchange is not None:
                keep = (context, launch, owner)
                return context._launcher.bind(op, ctypes.addressof(launch.args), keep, result, exchange)
        return Bound(context, op, launch, owner, result, follows)


class Bound:
    """A call with its arguments, through ctypes."""

    def __init__(self, context: Any, op: str, launch: Arguments, owner: Any, result: Any, follows: bool) -> None:
        self._context, self._name, self._launch, self._owner = context, f"quern_{op}", launch, owner
        self._result, self._follows = result, follows

    def __call__(self) -> Any:
        """Launches it and returns its outputs, the same ones each time."""
        launch, context = self._launch, self._context
        if self._follows:
            launch.args.stream = stream_handle(None, launch.arrays, context._device)
        call(self._name, context._open(), ctypes.byref(launch.args))
        return self._result


def given_workspace(workspace: Any, device: tuple[int, int], stream: int) -> tuple[Any, int, int]:
    """A caller's workspace: what keeps it alive, its address and its bytes."""
    owner = borrow(workspace, "workspace", device, stream).writable("workspace").on(device, "workspace")
    if owner.tensor.dtype.bits != 8 or owner.tensor.ndim != 1:
        raise InvalidError("workspace: must be one dimension of bytes (uint8)")
    return owner, owner.address, owner.shape[0]
