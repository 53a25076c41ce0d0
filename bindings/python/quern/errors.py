# What goes wrong, as Python exceptions: one class a status of the C ABI.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

from . import _abi


class Error(Exception):
    """Base of everything quern raises.

    status: the number in ``enum quern_status``; native: the driver's, compiler's or system's own code, 0 if none.
    The text names the argument, what was given and what is allowed."""

    status: int = _abi.QUERN_INTERNAL

    def __init__(self, text: str, *, status: int | None = None, native: int = 0) -> None:
        super().__init__(text)
        if status is not None:
            self.status = status
        self.native = native


class MissError(Error):
    """Neither loaded nor cached, and the policy forbids compiling."""

    status = _abi.QUERN_MISS


class PendingError(Error):
    """Being compiled in the background: call again."""

    status = _abi.QUERN_PENDING


class InvalidError(Error, ValueError):
    """An argument is wrong."""

    status = _abi.QUERN_INVALID


class UnsupportedError(Error):
    """Well-formed, but no kernel or target here does it."""

    status = _abi.QUERN_UNSUPPORTED


class NotFoundError(Error):
    """A library, compiler, device, file or key is not there; the text says what was tried."""

    status = _abi.QUERN_NOT_FOUND


class CompileError(Error):
    """The kernel compiler refused, crashed or ran out of time; the text carries its log."""

    status = _abi.QUERN_COMPILE


class DriverError(Error):
    """The GPU driver failed; ``native`` is its code."""

    status = _abi.QUERN_DRIVER


class StickyError(Error):
    """The GPU was already in an error state before this call."""

    status = _abi.QUERN_STICKY


class CapturingError(Error):
    """Not ready, and the stream is being captured into a graph: prepare first."""

    status = _abi.QUERN_CAPTURING


class NoMemoryError(Error, MemoryError):
    """Out of memory, the host's or the device's."""

    status = _abi.QUERN_NO_MEMORY


class IoError(Error):
    """A file could not be read or written."""

    status = _abi.QUERN_IO


class DamagedError(Error):
    """A cache file or bundle does not verify. ``results`` holds the findings where the call makes any."""

    status = _abi.QUERN_DAMAGED
    results: list[Any] = []


class ForkedError(Error):
    """The context was made by the parent of this process: make one of your own."""

    status = _abi.QUERN_FORKED


class PartialError(Error):
    """Some items failed, the others were done: ``results`` says which."""

    status = _abi.QUERN_PARTIAL
    results: list[Any] = []


class FaultError(Error):
    """An earlier call of this checked context found its index tensors wrong and did not run; nor has this one."""

    status = _abi.QUERN_FAULT


class InternalError(Error):
    """A bug in quern."""

    status = _abi.QUERN_INTERNAL


BY_STATUS: dict[int, type[Error]] = {kind.status: kind for kind in Error.__subclasses__()}


def from_status(status: int, native: int, text: str) -> Error:
    """The exception for a status that a call returned."""
    kind = BY_STATUS.get(status, Error)
    return kind(text or f"status {status}", status=status, native=native)
