# Warming, the record of what was specialised, the cache, and what is installed here.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from . import _abi, structs
from .errors import DamagedError, PartialError, PendingError
from .library import call, library

_LIST = ctypes.POINTER(_abi.quern_list)


class Administration:
    """Mixed into Context. Records are named tuples with the fields of quern.h's structs."""

    _open: Callable[[], Any]

    def warm(
        self,
        *,
        manifest: str | None = None,
        model: Mapping[str, Any] | None = None,
        targets: Iterable[str] = (),
        list_only: bool = False,
        allow_unserved: bool = False,
        progress: Callable[[int, int, Any], bool | None] | None = None,
    ) -> list[Any]:
        """Compiles and stores what is not in the cache or a bundle, without touching a device; returns a record of
        quern_warm_result each. Raises PartialError, with `results`, where some failed or the model needs what nothing
        here does (outcome QUERN_WARM_UNSERVED; its text says why).

        manifest   text, one specialisation a line: OP TARGET NAME=VALUE ...
        model      the fields of quern_model and its flags by name: {"heads": 32, "head_dim": 128, "gated_mlp": True}
        targets    "sm_90a", "gfx90a"; none: the context's own
        list_only  say what would be made and whether it is there
        allow_unserved  needs that nothing here serves are told and raise nothing
        progress   called with (done, total, result); what it returns cancels where it is true"""
        values: dict[str, Any] = {"targets": targets, "list_only": list_only, "allow_unserved": allow_unserved}
        return self._make("warm", values, manifest, model, progress)

    def load(
        self,
        *,
        manifest: str | None = None,
        model: Mapping[str, Any] | None = None,
        allow_unserved: bool = False,
        progress: Callable[[int, int, Any], bool | None] | None = None,
    ) -> list[Any]:
        """Makes what `warm` makes for the context's own target, as its `miss` has it, and loads it there, so that
        no call has to. Arguments and results are those of `warm`."""
        return self._make("load", {"allow_unserved": allow_unserved}, manifest, model, progress)

    def unload(self, prefix: str | None = None) -> int:
        """Unloads the kernels of an op, or those whose key begins with `prefix`; None: all. Returns their number. None
        of them may be running, or be in a captured graph that is launched again."""
        count = ctypes.c_uint64()
        call("quern_unload", self._open(), _text(prefix, "prefix"), ctypes.byref(count))
        return count.value

    def wait(self, milliseconds: int = (1 << 64) - 1) -> bool:
        """Waits until nothing is being compiled in the background; False where something still is after so long."""
        try:
            call("quern_wait", self._open(), ctypes.c_uint64(milliseconds))
        except PendingError:
            return False
        return True

    def cancel(self) -> int:
        """Drops the compilations in the background that have not begun. Returns their number."""
        count = ctypes.c_uint64()
        call("quern_cancel", self._open(), ctypes.byref(count))
        return count.value

    def failures(self) -> list[Any]:
        """The kernels that a compiler has refused: records with status, what (the key), text (what the compiler
        said; of more than 64 KiB the beginning and the end) and hint (op and constants)."""
        return self._list("quern_failures", "quern_list_finding", _abi.quern_finding)

    def faults(self) -> list[Any]:
        """What calls of this checked context found wrong in their index tensors since this was asked last, oldest
        first: records of quern_fault. Of a stream that was synchronised all are told."""
        handle = _LIST()
        call("quern_faults", self._open(), ctypes.byref(handle), None)
        try:
            count = library().quern_list_count(handle)
            return [_item(handle, "quern_list_fault", _abi.quern_fault, index) for index in range(count)]
        finally:
            library().quern_list_free(handle)

    def verify(self, prefix: str | None = None, *, seed: int = 0) -> list[Any]:
        """Runs every cached kernel (of an op, or with such a key) on this context's device on random inputs, held
        against the host target's execution and double precision: records of quern_verify_result. Raises DamagedError,
        with `results`, where one differs or fails. With a seed of 0 one is drawn."""
        options = structs.new(_abi.quern_verify_options)
        structs.fill(options, {"prefix": prefix, "seed": seed}, {}, "verify")
        return self._list("quern_verify", "quern_list_verify_result", _abi.quern_verify_result, ctypes.byref(options))

    def tune(
        self,
        *,
        manifest: str | None = None,
        model: Mapping[str, Any] | None = None,
        rows: Iterable[int] = (),
        milliseconds: float = 0,
        again: bool = False,
        list_only: bool = False,
        progress: Callable[[int, int, Any], bool | None] | None = None,
    ) -> list[Any]:
        """Measures on this context's device which kernels and splits do matrix products fastest, and keeps them in the
        cache, where calls find them; returns a record of quern_tune_result each. Raises PartialError, with `results`,
        where some failed. The device should have nothing else to do.

        manifest      text, one product a line: OP * NAME=VALUE ... n=N k=K
        model         as for `warm`: all its dense products, of one rank
        rows          numbers of rows; none: 16, 32, 64, 128 and on in powers of two to 8192
        milliseconds  that each candidate is measured for; 0: 20
        again         measure what is known, too
        list_only     say what would be measured and what is known
        progress      called with (done, total, result); what it returns cancels where it is true"""
        options = structs.new(_abi.quern_tune_options)
        counts = (ctypes.c_int64 * len(given))(*given) if (given := list(rows)) else None
        values: dict[str, Any] = {"milliseconds": milliseconds, "again": again, "list_only": list_only}
        if counts is not None:
            options.rows = ctypes.cast(counts, ctypes.POINTER(ctypes.c_int64))
            values["row_count"] = len(counts)
        self._ask(options, values, manifest, model)
        if progress is not None:
            options.progress = _abi.quern_tune_callback(
                lambda user, done, total, result: int(bool(progress(done, total, structs.record(result.contents))))
            )
        structs.fill(options, values, structs.flag_bits(_abi.quern_tune_flags), "tune")
        return self._list("quern_tune", "quern_list_tune_result", _abi.quern_tune_result, ctypes.byref(options))

    def _make(
        self,
        verb: str,
        values: dict[str, Any],
        manifest: str | None,
        model: Mapping[str, Any] | None,
        progress: Callable[[int, int, Any], bool | None] | None,
    ) -> list[Any]:
        options = structs.new(_abi.quern_warm_options)
        self._ask(options, values, manifest, model)
        if progress is not None:
            options.progress = _abi.quern_warm_callback(
                lambda user, done, total, result: int(bool(progress(done, total, structs.record(result.contents))))
            )
        structs.fill(options, values, structs.flag_bits(_abi.quern_warm_flags), verb)
        return self._list("quern_" + verb, "quern_list_warm_result", _abi.quern_warm_result, ctypes.byref(options))

    @staticmethod
    def _ask(options: Any, values: dict[str, Any], manifest: str | None, model: Mapping[str, Any] | None) -> None:
        if manifest is not None:
            values |= {"manifest": manifest, "manifest_length": len(manifest.encode())}
        if model is not None:
            shape = structs.new(_abi.quern_model)
            structs.fill(shape, model, structs.flag_bits(_abi.quern_model_flags), "model")
            options.model = ctypes.pointer(shape)

    def manifest(self) -> str:
        """Everything this context has specialised, sorted, as `warm` reads it."""
        length = ctypes.c_uint64()
        call("quern_manifest", self._open(), None, ctypes.byref(length))
        while True:
            buffer = ctypes.create_string_buffer(length.value + 1)
            room = len(buffer)
            length.value = room
            call("quern_manifest", self._open(), buffer, ctypes.byref(length))
            if length.value < room:  # else another thread specialised something meanwhile
                return buffer.value.decode()

    def cache_list(self, prefix: str | None = None) -> list[Any]:
        """Records of the entries whose key begins with `prefix`, or whose op or target equals it; None: all."""
        return self._list("quern_cache_list", "quern_list_entry", _abi.quern_entry, _text(prefix, "prefix"))

    def cache_inspect(self, key: str) -> Any:
        """The one entry whose key begins with `key` (at least 4 digits), with its image as bytes."""
        return self._list("quern_cache_inspect", "quern_list_entry", _abi.quern_entry, _text(key, "key"))[0]

    def cache_verify(self) -> list[Any]:
        """Reads and checks every row and bundle; raises DamagedError, with `results`, when any does not verify."""
        return self._list("quern_cache_verify", "quern_list_finding", _abi.quern_finding)

    def doctor(self) -> list[Any]:
        """What is here: drivers, devices, compilers, the helper, the cache. Records with status, what, text, hint."""
        return self._list("quern_doctor", "quern_list_finding", _abi.quern_finding)

    def cache_trim(self, *, limit: int | None = None, rebuild: bool = False, all: bool = False) -> Any:
        """Removes entries, least recently used first, down to `limit` bytes (None: the context's limit). rebuild: write
        a fresh file with every row that verifies. all: remove everything. Returns a record with removed, kept,
        bytes_before, bytes_after."""
        options, result = structs.new(_abi.quern_trim_options), structs.new(_abi.quern_trim_result)
        values = {"limit": limit, "rebuild": rebuild, "all": all}
        structs.fill(options, values, structs.flag_bits(_abi.quern_trim_flags), "cache_trim")
        call("quern_cache_trim", self._open(), ctypes.byref(options), ctypes.byref(result))
        return structs.record(result)

    def cache_export(self, path: str | os.PathLike[str], prefix: str | None = None) -> int:
        """Writes the cache, or what `prefix` selects as in cache_list, as a bundle. Returns the number of entries."""
        count = ctypes.c_uint64()
        selected = _text(prefix, "prefix")
        call("quern_cache_export", self._open(), _path(path), selected, ctypes.byref(count))
        return count.value

    @staticmethod
    def make_keys() -> tuple[str, str]:
        """A new secret key, for sign_bundle, and its public one, for `trusted_keys`."""
        secret, public = ctypes.create_string_buffer(65), ctypes.create_string_buffer(65)
        call("quern_keys_make", secret, public)
        return secret.value.decode(), public.value.decode()

    @staticmethod
    def sign_bundle(path: str | os.PathLike[str], secret_key: str) -> None:
        """Verifies a bundle and puts a signature over all of it behind those that it has."""
        call("quern_bundle_sign", _path(path), _text(secret_key, "secret_key"))

    def cache_import(self, path: str | os.PathLike[str]) -> int:
        """Adds a bundle's entries to the cache, all verified before the first is written. Returns their number."""
        count = ctypes.c_uint64()
        call("quern_cache_import", self._open(), _path(path), ctypes.byref(count))
        return count.value

    def cache_stats(self) -> Any:
        """state (enum quern_cache_state), reason, path, entries, image_bytes, file_bytes, limit, bundles and so on."""
        stats = structs.new(_abi.quern_cache_stats)
        call("quern_cache_get_stats", self._open(), ctypes.byref(stats))
        return structs.record(stats)

    def _list(self, function: str, getter: str, kind: type[Any], *arguments: Any) -> list[Any]:
        """Calls what returns a quern_list and reads it out. Where the call says that part of it is bad, the list goes
        with the exception."""
        handle, raised = _LIST(), None
        try:
            call(function, self._open(), *arguments, ctypes.byref(handle))
        except (PartialError, DamagedError) as error:
            raised = error
        try:
            count = library().quern_list_count(handle) if handle else 0
            results = [_item(handle, getter, kind, index) for index in range(count)]
        finally:
            library().quern_list_free(handle)
        if raised is not None:
            raised.results = results
            raise raised
        return results


def _item(handle: Any, getter: str, kind: type[Any], index: int) -> Any:
    item = structs.new(kind)
    status = getattr(library(), getter)(handle, index, ctypes.byref(item))
    if status != _abi.QUERN_OK:
        raise IndexError(f"{getter}: item {index} gave status {status}")
    if kind is _abi.quern_entry:
        # Without an image (a listing), image_size is that of the stored one.
        return structs.record(item, image=ctypes.string_at(item.image, item.image_size) if item.image else None)
    return structs.record(item)


def _path(path: str | os.PathLike[str]) -> bytes | None:
    """What the library takes: absolute, whatever the working directory is then."""
    return _text(os.path.abspath(os.fspath(path)), "path")


def _text(value: str | os.PathLike[str] | None, name: str) -> bytes | None:
    return None if value is None else structs.encode(value, name)
