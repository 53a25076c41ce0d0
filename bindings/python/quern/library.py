# Finds libquern, opens it once and gives its functions their types.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ctypes
import ctypes.util
import os
import threading
from pathlib import Path
from typing import Any

from . import _abi
from .errors import NotFoundError, UnsupportedError, from_status

NAME = "libquern.so"
SONAME = f"{NAME}.{_abi.QUERN_ABI_VERSION}"  # how an installed package has it: the command beside it asks for this
_lock = threading.Lock()
_opened: ctypes.CDLL | None = None


def candidates() -> list[str]:
    """Where libquern is looked for, in order: QUERN_LIBRARY (then nowhere else), beside this package, the build
    folder of the checkout that the package lies in, the system's search path."""
    if named := os.environ.get("QUERN_LIBRARY"):
        return [named]
    package = Path(__file__).resolve().parent
    places = [package / SONAME, package.parents[1] / "lib" / NAME, package.parents[2] / "build" / "lib" / NAME]
    found = [str(place) for place in places]
    return [*found, ctypes.util.find_library("quern") or NAME]


def library() -> ctypes.CDLL:
    """libquern, opened on the first call. Raises NotFoundError with every place that was tried."""
    global _opened
    with _lock:
        if _opened is None:
            _opened = _bind(_open())
        return _opened


def _open() -> ctypes.CDLL:
    tried = []
    for place in candidates():
        if os.path.isabs(place) and not os.path.exists(place):
            tried.append(f"{place}: not there")
            continue
        try:
            return ctypes.CDLL(place)
        except OSError as error:
            tried.append(f"{place}: {error}")
    raise NotFoundError("libquern was not found; set QUERN_LIBRARY to its full path. Tried:\n  " + "\n  ".join(tried))


def _bind(opened: ctypes.CDLL) -> ctypes.CDLL:
    try:
        version = opened.quern_abi_version
    except AttributeError as error:
        raise UnsupportedError(f"{opened._name} is no libquern: {error}") from None
    version.restype, version.argtypes = _abi.FUNCTIONS["quern_abi_version"]
    if version() != _abi.QUERN_ABI_VERSION:
        raise UnsupportedError(
            f"{opened._name} has ABI version {version()}, this package was made for {_abi.QUERN_ABI_VERSION}"
        )
    for name, (result, parameters) in _abi.FUNCTIONS.items():
        # An older library of the same ABI version may lack a newer op: that op alone then fails, when it is called.
        function = getattr(opened, name, None)
        if function is not None:
            function.restype, function.argtypes = result, parameters
    return opened


def call(name: str, *arguments: Any) -> None:
    """Calls a function that returns a status and takes a quern_error last; raises what it reports."""
    function = getattr(library(), name, None)
    if function is None:
        raise UnsupportedError(f"this libquern ({version()}) has no {name}")
    error = _abi.quern_error(size=ctypes.sizeof(_abi.quern_error))
    status = function(*arguments, ctypes.byref(error))
    if status != _abi.QUERN_OK:
        raise from_status(status, error.native, error.text.decode("utf-8", "replace"))


def version() -> str:
    """The library's version, "0.1.0"; that of the header this package was made of is quern.__version__."""
    return library().quern_version().decode()
