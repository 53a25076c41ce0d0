# The ops: any of quern.h's by its args struct. Those whose outputs this package makes itself are in attention.py,
# products.py, quantization.py, experts.py and norms.py.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from . import _abi
from .arguments import Arguments
from .arrays import Workspaces
from .bound import OpMethod, given_workspace
from .errors import InvalidError, MissError, PendingError
from .expression import handle_of
from .library import call


class Ops:
    """Mixed into Context. For every op of the library there is a method `OP`, and with the same arguments `OP_prepare`,
    which readies the kernels of every smaller call, and `OP_workspace`, the bytes of workspace.

    Arguments are the fields of the op's args struct by name, those of its epilogue beside them: tensors are anything
    with `__dlpack__`, flags are True or False, enumerators their names in lower case ("gelu_tanh"). Besides those of
    the op itself, each takes
      stream          as an integer or a stream object; None: PyTorch's current stream, or the default stream
      workspace       a zeroed uint8 array on the device, 256-byte aligned, used by one call at a time; None: one that
                      the context keeps for each thread and stream
      alignment       bytes that the rows of every tensor are promised to be aligned to; None: 16; "found": what the
                      tensors' own data are aligned to, up to 16
      max_sms         leave the other SMs free
      batch_invariant, programmatic, cached_only, background    see enum quern_call_flags
    Calls on a GPU return once launched. `OP.bind(...)` is the same call made ready to be launched again and again: see
    quern.bound."""

    _open: Callable[[], Any]
    _device: tuple[int, int]
    _workspaces: Workspaces
    _launcher: Any = None  # the compiled module's, where there is one

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        for op in _abi.OPS.keys() & vars(cls).keys():
            setattr(cls, op, OpMethod(vars(cls)[op]))

    def call(self, op: str, more: dict[str, Any] | None = None, /, **arguments: Any) -> None:
        """Launches the op of this name. Every output is given by the caller and must be writable. `more`: further
        arguments, as a dict.

        Through ctypes: a context that has the compiled module calls that, which comes here for what it leaves."""
        if more:
            arguments |= more
        workspace = arguments.pop("workspace", None)
        launch = self._arguments(op, arguments)
        if workspace is None:
            needed = self._workspace_size(launch)
            owner, address, size = self._workspaces.take(needed, launch.stream, self._device, launch.arrays)
        else:
            owner, address, size = given_workspace(workspace, self._device, launch.stream)
        launch.args.workspace, launch.args.workspace_size = address, size
        try:
            call(f"quern_{op}", self._open(), ctypes.byref(launch.args))
        except (MissError, PendingError, InvalidError):
            raise
        except Exception:
            if workspace is None:
                self._workspaces.drop(launch.stream)
                if self._launcher is not None:
                    self._launcher.forget()
            raise

    def prepare(self, op: str, **arguments: Any) -> None:
        """Readies every kernel that calls of this op with the same dtypes, head counts and flags and no larger maxima
        can reach. Tensors may be quern.Shape."""
        call(f"quern_{op}_prepare", self._open(), ctypes.byref(self._arguments(op, arguments).args))

    def workspace(self, op: str, **arguments: Any) -> int:
        """The bytes of workspace that a call of this op needs. Tensors may be quern.Shape."""
        return self._workspace_size(self._arguments(op, arguments))

    def _workspace_size(self, launch: Arguments) -> int:
        size = ctypes.c_uint64()
        call(f"quern_{launch.op}_workspace", self._open(), ctypes.byref(launch.args), ctypes.byref(size))
        return size.value

    def _arguments(self, op: str, arguments: dict[str, Any]) -> Arguments:
        if op not in _abi.OPS:
            raise InvalidError(f"op: {op!r} given; there are {', '.join(_abi.OPS)}")
        return Arguments(op, arguments, self._device, lambda expression: handle_of(expression, self))


def _method(op: str, verb: str, run: Any) -> Any:
    def method(self: Ops, **arguments: Any) -> Any:
        return run(self, op, **arguments)

    method.__name__ = op + verb
    method.__doc__ = f"{run.__doc__}\n\nThe arguments are the fields of this struct, the flags by their names:\n\n"
    method.__doc__ += _abi.OPS[op].text
    return method


for _op in _abi.OPS:
    for _verb, _run in (("", Ops.call), ("_prepare", Ops.prepare), ("_workspace", Ops.workspace)):
        _made = _method(_op, _verb, _run)
        setattr(Ops, _op + _verb, _made if _verb else OpMethod(_made))
