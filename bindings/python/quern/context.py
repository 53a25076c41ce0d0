# A context: one device, its kernels and its cache.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ctypes
import os
import re
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from . import _abi, compiled, structs
from .admin import Administration
from .arrays import Workspaces
from .attention import Attention
from .cache_pages import CachePages
from .convolutions import Convolutions
from .elementwise import Elementwise
from .errors import InvalidError
from .experts import Experts
from .expression import Expression
from .fourier import Fourier
from .kernel import Kernel, describe
from .latent import Latent
from .library import call, library
from .moves import Moves
from .norms import Norms
from .ops import Ops
from .ordering import Ordering
from .products import Products
from .quantization import Quantization
from .reductions import Reductions
from .rows import Rows
from .sampling import Sampling
from .selection import Selection
from .wheels import nvidia_wheel_dirs

_DEVICES = {"host": _abi.kDLCPU, "host64": _abi.kDLCPU, "cuda": _abi.kDLCUDA, "rocm": _abi.kDLROCM, "hip": _abi.kDLROCM}
_POLICIES = {
    "compile": _abi.QUERN_MISS_COMPILE,
    "cached_only": _abi.QUERN_MISS_CACHED_ONLY,
    "background": _abi.QUERN_MISS_BACKGROUND,
}


class Context(
    Attention, Latent, CachePages, Products, Quantization, Experts, Norms, Reductions, Rows, Ordering, Convolutions,
    Fourier, Sampling, Selection, Elementwise, Moves, Administration,
):  # fmt: skip
    """One device, its kernels and its cache. Safe to use from several threads. Close it, or use it in a `with`.

    device          "cuda", "cuda:1", "rocm:0"; "host" or "host64" (kernels run on the CPU with warps of 32 or 64: for
                    tests and development); None: no device, for warming and cache administration
    miss            what a call does whose kernel is neither loaded nor cached: "compile" and wait; "cached_only": raise
                    MissError; "background": raise PendingError and compile meanwhile
    target          what to compile for, "sm_90a"; None: the device's own. On a device its own; a CUDA device also takes
                    code without a letter for chips of its major version, no later than it and with the same shared
                    memory: "sm_90" on an H200
    cache_path      folder; None: $XDG_CACHE_HOME/quern, else $HOME/.cache/quern
    cache_limit     bytes, file and journal together; None: 1 GiB
    no_cache        keep kernels in memory only (bundles are still read)
    read_only_cache, shared_cache    read the cache and never write it; accept a folder that others own or can write
    bundles         files made by cache_export, searched in order below the cache
    trusted_keys    public keys (make_keys): where there are any, bundles need a signature of one of them
    signed_only     consult nothing but such bundles: the cache file is neither read nor written
    checked         for finding mistakes: what lies in index tensors is checked on the device before a call's kernels,
                    which write nothing where it is wrong (`faults` says what it was; so does FaultError, once, from the
                    next call), and what kernels print comes to `log`, or to standard output
    search_dirs     absolute folders looked into first for NVRTC, hipRTC and drivers; None: those of NVIDIA's wheels in
                    this Python environment, unless QUERN_NVRTC_DIR is set
    helper_path, host_compiler       absolute paths of quern-compile-helper and of the C++ compiler for "host"
    nvrtc_in_helper run NVRTC in the helper process, so that its crashes are survived
    compiler_pin    "nvrtc 13.0": use images of this compiler build only, and make none with another
    compile_threads compilations at once; None: the number of cores, at most 8
    compile_timeout_ms, flight_timeout_ms    of a compilation in the helper; of waiting for another process's
    host_seed       "host": seed of unfair scheduling and late delivery; None: fair and eager
    host_threads    "host": CPU threads; None: the number of cores
    cache_key       64 hexadecimal digits that all who share the cache folder know, and nobody else: entries carry a MAC
                    under it, and no others are loaded
    max_kernels     loaded at once; None: no bound. To load one more raises NoMemoryError: unload makes room
    log             called with (level, text), from any thread; level as in enum quern_log_level
    log_level       "error", "warning", "info" or "debug": `log` is told this and what is worse; None: all
    event           called with a record of quern_event, from any thread"""

    def __init__(
        self,
        device: str | None = None,
        *,
        miss: str = "compile",
        target: str | None = None,
        cache_path: str | os.PathLike[str] | None = None,
        cache_limit: int | None = None,
        no_cache: bool = False,
        read_only_cache: bool = False,
        shared_cache: bool = False,
        bundles: Iterable[str | os.PathLike[str]] = (),
        trusted_keys: Iterable[str] = (),
        signed_only: bool = False,
        checked: bool = False,
        search_dirs: Iterable[str | os.PathLike[str]] | None = None,
        helper_path: str | os.PathLike[str] | None = None,
        host_compiler: str | os.PathLike[str] | None = None,
        nvrtc_in_helper: bool = False,
        compiler_pin: str | None = None,
        compile_threads: int | None = None,
        compile_timeout_ms: int | None = None,
        flight_timeout_ms: int | None = None,
        host_seed: int | None = None,
        host_threads: int | None = None,
        cache_key: str | None = None,
        max_kernels: int | None = None,
        log: Callable[[int, str], None] | None = None,
        log_level: str | None = None,
        event: Callable[[Any], None] | None = None,
    ) -> None:
        self._handle: Any = None
        self._device = _device(device)
        self._workspaces = Workspaces()
        if miss not in _POLICIES:
            raise InvalidError(f"miss: {miss!r} given; allowed are {', '.join(_POLICIES)}")
        if search_dirs is None:
            search_dirs = [] if "QUERN_NVRTC_DIR" in os.environ else nvidia_wheel_dirs()
        # ctypes keeps a callback only as long as its object lives, and quern calls until the context is destroyed.
        callbacks = {
            "log": _abi.quern_log_callback(_logger(log)) if log else None,
            "event": _abi.quern_event_callback(_reporter(event)) if event else None,
        }
        options = structs.fill(
            structs.new(_abi.quern_context_options),
            {
                "device_type": self._device[0], "device_id": self._device[1], "miss_policy": _POLICIES[miss],
                "target": "host64" if device == "host64" and target is None else target, "cache_path": cache_path,
                "cache_limit": cache_limit, "no_cache": no_cache, "read_only_cache": read_only_cache,
                "shared_cache": shared_cache, "bundles": bundles, "trusted_keys": trusted_keys,
                "signed_only": signed_only, "checked": checked, "search_dirs": search_dirs,
                "helper_path": helper_path, "host_compiler": host_compiler, "nvrtc_in_helper": nvrtc_in_helper,
                "compiler_pin": compiler_pin, "compile_threads": compile_threads,
                "compile_timeout_ms": compile_timeout_ms, "flight_timeout_ms": flight_timeout_ms,
                "host_seed": host_seed, "host_threads": host_threads, "cache_key": cache_key,
                "max_kernels": max_kernels, "log_level": log_level, **callbacks,
            },
            structs.flag_bits(_abi.quern_context_flags),
            "Context",
        )  # fmt: skip
        handle = ctypes.POINTER(_abi.quern_context)()
        call("quern_context_create", ctypes.byref(options), ctypes.byref(handle))
        self._handle = handle
        self._launcher = compiled.launcher(self, Ops.call)
        if self._launcher is not None:
            self.call = self._launcher.call
        self._destroy = weakref.finalize(self, _destroy, handle, callbacks, os.getpid(), self._launcher)

    def _open(self) -> Any:
        if self._handle is None:
            raise InvalidError("context: is closed")
        return self._handle

    def close(self) -> None:
        """Ends background compilations and unloads the kernels. No call may be in flight."""
        if self._handle is not None:
            self._handle = None
            self._destroy()

    def __enter__(self) -> Context:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def device(self) -> Any:
        """The device as quern found it: name, target, warp_size, sm_count, shared_per_block, l2_bytes and so on."""
        info = structs.new(_abi.quern_device_info)
        call("quern_device", self._open(), ctypes.byref(info))
        return structs.record(info)

    def stats(self) -> Any:
        """Counts since the context was made: kernels_loaded, cache_hits, compiled, compile_ms and so on."""
        stats = structs.new(_abi.quern_stats)
        call("quern_get_stats", self._open(), ctypes.byref(stats))
        return structs.record(stats)

    def expression(self, text: str) -> Expression:
        """A formula that a kernel applies to each of its results, checked: "silu(acc + col0) * row1". The same formula
        is the same kernel. It can be given to any number of calls as `expression`, with its operands and scalars.

        leaves      acc: the op's result, or gate and up; numbers; rowN, colN, tensorN: operand N, a vector over rows,
                    one over columns, a tensor of the result's shape; scalarN: run-time scalar N
        operators   + - * / and unary -; < <= > >= == !=; && || !
        functions   abs exp log sqrt rsqrt tanh erf sigmoid relu silu gelu gelu_tanh (x); min max pow (x, y); clamp (x,
                    low, high); select (truth value, x, y)"""
        return Expression(self, text)

    def kernel(
        self,
        source: str,
        entry: str,
        *,
        name: str = "kernel.cu",
        headers: Mapping[str, str] | None = None,
        constants: Mapping[str, object] | None = None,
        options: Iterable[str] = (),
        target: str | None = None,
        max_shared_bytes: int = 0,
        cached_only: bool = False,
        background: bool = False,
    ) -> Kernel | None:
        """Readies a kernel of the caller's own: keyed, cached and compiled like quern's. The same description gives the
        same kernel. None for a target that is not the device's: it is compiled and stored, not loaded.

        source, name      the text, and what the compiler's log calls it
        entry             the kernel's name
        headers           what the source may #include, by name; nothing else can be
        constants         become #define name value
        options           further compiler options, part of the key
        max_shared_bytes  the most dynamic shared memory a launch will ask for"""
        flags = {"cached_only": cached_only, "background": background}
        desc = describe(source, entry, name, headers or {}, constants or {}, options, target, max_shared_bytes, flags)
        handle = ctypes.POINTER(_abi.quern_kernel)()
        call("quern_kernel_prepare", self._open(), ctypes.byref(desc), ctypes.byref(handle))
        return Kernel(self, handle) if handle else None


def _device(device: str | None) -> tuple[int, int]:
    """DLPack's device type and ordinal."""
    if device is None:
        return 0, 0
    match = re.fullmatch(r"([a-z0-9]+?)(?::(\d+))?", str(device))
    if match is None or match[1] not in _DEVICES or (match[2] and _DEVICES[match[1]] == _abi.kDLCPU):
        raise InvalidError(f'device: {device!r} given; allowed are None, "host", "host64", "cuda:N" and "rocm:N"')
    return _DEVICES[match[1]], int(match[2] or 0)


def _destroy(handle: Any, callbacks: Mapping[str, Any], process: int, launcher: Any) -> None:
    """`callbacks` are held until the context is gone. In a forked child it is abandoned: it is the parent's."""
    if launcher is not None:
        launcher.close()
    if os.getpid() == process:
        library().quern_context_destroy(handle)


def _logger(log: Callable[[int, str], None]) -> Callable[..., None]:
    return lambda user, level, text: log(level, text.decode("utf-8", "replace"))


def _reporter(event: Callable[[Any], None]) -> Callable[..., None]:
    return lambda user, reported: event(structs.record(reported.contents))
