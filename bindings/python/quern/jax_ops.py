# The ops under JAX: XLA's custom calls, whose handlers are in bindings/jax. What is told of the ops' arguments comes
# from _abi, as everything else does.
# SPDX-License-Identifier: Apache-2.0
"""quern.jax_ops.call("gemm", {"out": jax.ShapeDtypeStruct((m, n), a.dtype)}, a=a, b=b)["out"]

Any op of the library, inside jax.jit and outside: its results are named with their shapes and element types, its other
tensors are JAX's arrays by name, flags are True or False, enumerators their names, as quern.Context takes them. Results
that go on from an argument's memory (a KV cache that is appended to) are named in `in_place`.

The handlers are a library of their own, libquern_jax.so, which is looked for at QUERN_JAX and beside this package:
bindings/jax/README.md has its command. They call libquern on XLA's stream and device; workspaces are XLA's. Nothing
has a gradient. JAX's arrays are row-major: quantise's scales, say, are so too."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from . import _abi, structs
from .compiled import describe
from .errors import InvalidError, NotFoundError
from .library import library

_NAME = "libquern_jax.so"
_PLATFORMS = {"cpu": "cpu", "cuda": "CUDA", "rocm": "ROCM"}
_lock = threading.Lock()
_registered = False


def register() -> None:
    """Has XLA know the ops. `call` does so itself when it is first used."""
    global _registered
    with _lock:
        if _registered:
            return
        place = os.environ.get("QUERN_JAX") or str(Path(__file__).resolve().parent / _NAME)
        library()  # so that the handlers, which ask for it by its SONAME, find the one that this package uses
        try:
            handlers = ctypes.CDLL(place)
        except OSError as error:
            raise NotFoundError(f"{_NAME} was not found; set QUERN_JAX to its full path. Tried: {error}") from None
        for op in _abi.OPS:
            for platform, name in _PLATFORMS.items():
                handler = jax.ffi.pycapsule(getattr(handlers, f"quern_{platform}_{op}"))
                jax.ffi.register_ffi_target(f"quern_{op}", handler, platform=name)
        _registered = True


def call(
    op: str,
    results: Mapping[str, Any],
    *,
    in_place: Mapping[str, str] | None = None,
    vmap_method: str | None = None,
    **arguments: Any,
) -> dict[str, Any]:
    """Calls an op; returns its results by name.

    results      what the op writes: name to anything with a shape and a dtype, jax.ShapeDtypeStruct for one
    in_place     results that are an argument's memory: the result's name to the argument's, which is donated to it. A
                 tensor that is read and written has the same name twice: {"k_cache": "k_cache"}
    vmap_method  as jax.ffi.ffi_call has it
    arguments    the op's others: arrays, lists of arrays, numbers, flags, enumerators' names, formulas"""
    if op not in _abi.OPS:
        raise InvalidError(f"op: {op!r} given; there are {', '.join(_abi.OPS)}")
    register()
    names: list[str] = []
    arrays: list[Any] = []
    known = {name: (field, part, bit, enums) for name, field, part, _, _, bit, enums in describe(_abi.OPS[op])[1]}
    flag_names = ["flags", *(f"{name}_flags" for name in structs.pointed_to(_abi.OPS[op].args))]
    attributes: dict[str, Any] = {}
    flags: dict[str, int] = {}
    for name, value in arguments.items():
        if value is None:
            continue
        if name not in known:
            raise InvalidError(f"{op} has no argument {name!r}; there are {', '.join(sorted(known))}")
        field, part, bit, enumerators = known[name]
        if bit and value is not False:
            flags[flag_names[part]] = flags.get(flag_names[part], 0) | bit
        if field in (1, 2):
            listed = value if field == 2 else [value]
            names += [name] * len(listed)
            arrays += listed
        elif field != 0:
            attributes[name] = _attribute(name, field, value, enumerators)
        elif not isinstance(value, bool):
            raise InvalidError(f"{name}: {value!r} given; allowed are True and False")
    for name in results:
        if name not in known or known[name][0] not in (1, 2):
            raise InvalidError(f"results: {op} writes no {name!r}")
    attributes.update({name: np.int64(bits) for name, bits in flags.items()})
    order = list(results)
    for result, given in (in_place or {}).items():
        if result not in order:
            raise InvalidError(f"in_place: result {result!r} given; allowed are {', '.join(order)}")
        if given not in names:
            allowed = ", ".join(dict.fromkeys(names))
            raise InvalidError(f"in_place: argument {given!r} given for {result!r}; allowed are {allowed}")
    aliases = {names.index(given): order.index(result) for result, given in (in_place or {}).items()}
    shapes = [jax.ShapeDtypeStruct(one.shape, one.dtype) for one in results.values()]
    made = jax.ffi.ffi_call(f"quern_{op}", shapes, input_output_aliases=aliases, vmap_method=vmap_method)(
        *arrays, arguments=",".join(names), results=",".join(order), **attributes
    )
    return dict(zip(order, made, strict=True))


def _attribute(name: str, field: int, value: Any, enumerators: Mapping[str, int] | None) -> Any:
    """A number, a list of numbers or a formula as XLA's attributes have them."""
    if isinstance(value, str) and enumerators is not None:
        if value not in enumerators:
            raise InvalidError(f"{name}: {value!r} given; allowed are {', '.join(enumerators)}")
        return np.int64(enumerators[value])
    if field == 10:
        if not isinstance(value, str):
            raise InvalidError(f"{name}: {type(value).__name__} given; allowed is a formula as a string")
        return value
    if field == 9:
        return np.asarray(value, np.float32)
    if field in (7, 8):
        return np.float64(value)
    return np.int64(value)
