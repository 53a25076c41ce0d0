# Fourier transforms of rows and of the frames of signals, as methods that make their outputs.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import sys
from typing import Any

from .arrays import element, empty, is_torch, shape_of, unwrap
from .errors import InvalidError
from .ops import Ops
from .tensor import Tensor

_NORMS = {None: "backward", "backward": "backward", "forward": "forward", "ortho": "ortho"}


class Fourier(Ops):
    """Mixed into Context. Of what every op takes besides see Ops."""

    def fft(
        self,
        x: Any,
        n: int | None = None,
        *,
        kind: str = "forward",
        norm: str | None = None,
        window: Any = None,
        result: str = "complex",
        hop: int = 0,
        pad: int | tuple[int, int] = 0,
        padding: str = "zeros",
        frames: int | None = None,
        out: Any = None,
        out_dtype: object | None = None,
        **launch: Any,
    ) -> Any:
        """The discrete Fourier transforms of rows, along the last dimension, as numpy.fft has them; returns out.

        x          [..., m], of any number of rows and any strides: complex64, or f32, f16, bf16 with a last dimension
                   of 2 behind the numbers; of kind "real" f32, f16 or bf16
        n          of the transform: rows with fewer numbers have zeros behind them, of longer ones the first are taken.
                   None: m, and of kind "to_real" 2 (m - 1)
        kind       "forward", "inverse", "real" (n / 2 + 1 numbers come out) and "to_real": fft, ifft, rfft and irfft
        norm       "backward" scales the inverse kinds by 1 / n, "forward" the others, "ortho" all by 1 / sqrt(n)
        window     optional [m] f32: what x is multiplied by
        result     "complex", "power" (the square of the magnitude) or "magnitude"; not of "to_real"
        hop        of kind "real": samples from frame to frame. x is then [samples] or [signals, samples], a frame has
                   as many samples as window, else n, and out is [signals, frames, n / 2 + 1]
        pad        with hop: samples before and behind the signal, or (before, behind)
        padding    with hop: "zeros" or "reflect"
        frames     with hop: the first so many; None: all
        out        None: allocated by x's framework
        out_dtype  of out's real elements where it is made; None: x's. Complex f32 comes as complex64, of f16 and bf16
                   with a last dimension of 2"""
        if norm not in _NORMS:
            raise InvalidError(f"norm: {norm!r} given; allowed are 'backward', 'forward' and 'ortho'")
        if kind not in ("forward", "inverse", "real", "to_real"):
            raise InvalidError(f"kind: {kind!r} given; allowed are 'forward', 'inverse', 'real' and 'to_real'")
        takes_pairs, makes_pairs = kind != "real", kind != "to_real" and result == "complex"
        x = _pairs(x, "x") if takes_pairs else x
        behind = (2,) if takes_pairs else ()
        shape = shape_of(x, "x")
        if len(shape) < 1 + len(behind) or shape[len(shape) - len(behind) :] != behind:
            raise InvalidError(f"x: shape {shape} given; allowed are complex64, and a last dimension of 2")
        *leading, m = shape[: len(shape) - len(behind)]
        if n is None:
            n = 2 * (m - 1) if kind == "to_real" else m if hop == 0 else shape_of(window, "window", 1)[0]
        most = n // 2 + 1 if kind == "to_real" else n
        if hop == 0 and m > most:
            x, m = _cut(x, most, len(behind)), most
        before, after = (pad, pad) if isinstance(pad, int) else pad
        single = not leading
        rows = (1,) if single else tuple(leading) if hop != 0 or len(leading) <= 2 else (_product(leading),)
        numbers = n // 2 + 1 if kind == "real" else n
        if hop != 0:
            frame = n if window is None else shape_of(window, "window", 1)[0]
            all_frames = max((m + before + after - frame) // max(hop, 1) + 1, 0)
            kept = all_frames if frames is None else frames
            leading, rows = [*leading, kept], (*rows, kept)
        elif frames is not None:
            raise InvalidError("frames: given; allowed with hop")
        after_numbers = (2,) if makes_pairs else ()
        made = None
        if out is None:
            made = empty((*leading, numbers, *after_numbers), x, "out", out_dtype or element(x, "x"))
            target = made
        else:
            target = _pairs(out, "out") if makes_pairs else out
        scaled = {"backward": kind in ("inverse", "to_real"), "forward": kind in ("forward", "real"), "ortho": True}
        by = _NORMS[norm]
        self.call(
            "fft", launch, x=_shaped(x, (*rows[: len(rows) - (hop != 0)], m, *behind), "x"), window=window,
            out=_shaped(target, (*rows, numbers, *after_numbers), "out"), n=n, kind=kind, result=result,
            scaling="unscaled" if not scaled[by] else "by_root" if by == "ortho" else "by_n", hop=hop,
            pad_begin=before, pad_end=after, padding=padding,
        )  # fmt: skip
        return out if made is None else _numbers(made) if makes_pairs else made

    def ifft(self, x: Any, n: int | None = None, **rest: Any) -> Any:
        """fft's inverse: `fft` with kind "inverse"."""
        return self.fft(x, n, kind="inverse", **rest)

    def rfft(self, x: Any, n: int | None = None, **rest: Any) -> Any:
        """Of real rows the n / 2 + 1 numbers that say it all: `fft` with kind "real"."""
        return self.fft(x, n, kind="real", **rest)

    def irfft(self, x: Any, n: int | None = None, **rest: Any) -> Any:
        """rfft's inverse: `fft` with kind "to_real"."""
        return self.fft(x, n, kind="to_real", **rest)

    def stft(
        self, x: Any, n: int, *, hop: int, window: Any = None, center: bool = True, pad_mode: str = "reflect",
        result: str = "complex", **rest: Any,
    ) -> Any:  # fmt: skip
        """The short-time Fourier transform: of frames of a signal, each `hop` samples behind the one before, times
        window; returns out, [signals, frames, n / 2 + 1] or, of one signal, [frames, n / 2 + 1].

        x         [samples] or [signals, samples], f32, f16 or bf16
        n         samples of a frame
        window    optional [n] f32
        center    frame f has its middle at sample f hop: n / 2 samples are before the signal and behind it
        pad_mode  what those are: "reflect" or "zeros"
        result    "complex", "power" or "magnitude"; what else there is has fft"""
        pad = n // 2 if center else 0
        if window is not None and shape_of(window, "window", 1)[0] != n:
            raise InvalidError(f"window: {shape_of(window, 'window')[0]} samples given; allowed are n, {n}")
        padding = pad_mode if center else "zeros"
        return self.fft(x, n, kind="real", window=window, result=result, hop=hop, pad=pad, padding=padding, **rest)


def _product(extents: list[int]) -> int:
    product = 1
    for extent in extents:
        product *= extent
    return product


def _is_complex(array: Any) -> bool:
    return not isinstance(array, Tensor) and str(getattr(array, "dtype", "")).endswith("complex64")


def _pairs(array: Any, argument: str) -> Any:
    """Complex numbers as pairs of real ones, in the same memory; what is not complex as it is."""
    if not _is_complex(array):
        return array
    if is_torch(array):
        return sys.modules["torch"].view_as_real(array)
    if not hasattr(array, "view"):
        raise InvalidError(f"{argument}: complex64 of {type(array).__name__} given; allowed with a last dimension of 2")
    return array[..., None].view("float32")


def _numbers(array: Any) -> Any:
    """The inverse of `_pairs`, of f32."""
    if isinstance(array, Tensor) or element(array, "out") != "f32":
        return array
    if is_torch(array):
        return sys.modules["torch"].view_as_complex(array)
    return array.view("complex64")[..., 0]


def _cut(array: Any, most: int, behind: int) -> Any:
    """The first numbers of each row."""
    inner = unwrap(array)
    cut = inner[..., :most, :] if behind else inner[..., :most]
    return Tensor(cut, element(array, "x")) if isinstance(array, Tensor) else cut


def _shaped(array: Any, shape: tuple[int, ...], argument: str) -> Any:
    """The same elements in so many dimensions."""
    if shape_of(array, argument) == shape:
        return array
    inner = unwrap(array)
    if len(shape) == len(inner.shape) + 1:  # a single row
        inner = inner[None]
    elif len(shape) < len(inner.shape) and _product(list(shape)) == _product(list(inner.shape)):
        shaped = inner.reshape(shape)
        if argument == "out" and not _shares(shaped, inner):
            raise InvalidError(f"out: shape {tuple(inner.shape)} given, whose rows do not lie equally far apart")
        inner = shaped
    return Tensor(inner, element(array, argument)) if isinstance(array, Tensor) else inner


def _shares(a: Any, b: Any) -> bool:
    if is_torch(a):
        return a.data_ptr() == b.data_ptr()
    return a.size == 0 or a.__array_interface__["data"][0] == b.__array_interface__["data"][0]
