# fft and its kin against NumPy.
# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import quern


def close(got, wanted):
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4 * max(1.0, float(np.abs(wanted).max(initial=0))))


@pytest.mark.parametrize("shape", [(30,), (3, 16), (2, 3, 21), (2, 1, 2, 12)])
@pytest.mark.parametrize("norm", [None, "forward", "ortho"])
def test_as_numpy(context, rng, shape, norm):
    x = (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(np.complex64)
    got = context.fft(x, norm=norm)
    assert got.dtype == np.complex64
    close(got, np.fft.fft(x, norm=norm))
    close(context.ifft(x, norm=norm), np.fft.ifft(x, norm=norm))
    real = x.real.copy()
    close(context.rfft(real, norm=norm), np.fft.rfft(real, norm=norm))
    close(context.irfft(x, norm=norm), np.fft.irfft(x, norm=norm))


def test_lengths_and_views(context, rng):
    x = rng.standard_normal((4, 20)).astype(np.float32)
    for n in (15, 20, 24):
        close(context.rfft(x, n), np.fft.rfft(x, n))
        spectrum = np.fft.rfft(x).astype(np.complex64)
        close(context.irfft(spectrum, n), np.fft.irfft(spectrum, n))
    close(context.rfft(x.T), np.fft.rfft(x.T))
    pairs = np.stack([x, x], -1)
    close(context.fft(pairs), np.fft.fft(x + 1j * x))
    out = np.empty((4, 11), np.complex64)
    assert context.rfft(x, out=out) is out
    close(out, np.fft.rfft(x))
    half = context.rfft(x.astype(np.float16))
    assert half.shape == (4, 11, 2) and half.dtype == np.float16
    assert context.rfft(x, result="power", out_dtype="f16").dtype == np.float16
    z = (x + 1j * x).astype(np.complex64)
    wanted = np.fft.fft(z)
    context.fft(z, out=z)
    close(z, wanted)


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("mode", ["reflect", "zeros"])
def test_stft(context, rng, center, mode):
    signals = rng.standard_normal((2, 300)).astype(np.float32)
    window = np.hanning(41)[:40].astype(np.float32)
    got = context.stft(signals, 40, hop=16, window=window, center=center, pad_mode=mode)
    kept = {"reflect": "reflect", "zeros": "constant"}[mode]
    padded = np.pad(signals, ((0, 0), (20, 20)), kept) if center else signals
    frames = np.lib.stride_tricks.sliding_window_view(padded, 40, axis=1)[:, ::16]
    wanted = np.fft.rfft(frames * window)
    assert got.shape == wanted.shape
    close(got, wanted)
    power = context.stft(signals[0], 40, hop=16, window=window, center=center, pad_mode=mode, result="power", frames=5)
    close(power, np.abs(wanted[0, :5]) ** 2)


def test_refuses(context):
    x = np.zeros((2, 8), np.float32)
    for given in ({"norm": "none"}, {"kind": "real to complex"}, {"frames": 2, "kind": "real"}):
        with pytest.raises(quern.InvalidError):
            context.fft(x, **given)
    with pytest.raises(quern.InvalidError, match="last dimension of 2"):
        context.fft(x)
    with pytest.raises(quern.InvalidError, match="window"):
        context.stft(x, 8, hop=2, window=np.ones(7, np.float32))
