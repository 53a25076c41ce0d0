"""Scatter, sort, histogram, conv1d, conv2d, nms and fft beside PyTorch, in one run.

    PYTHONPATH=build/python python3 tests/bench/rows_peers.py [--only WORD] [--json FILE] [--host]

Needs PyTorch, and an NVIDIA GPU unless --host is given: then small problems are held against PyTorch's results on the
CPU and nothing is timed. Columns as element_peers.py has them. PyTorch has no nms.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import torch
from quern import Context
from works import COLUMNS, LAUNCH, Place, Work, add_options, distribution, far, finish, run_all


def scatters(context: Context, place: Place) -> Iterator[Work]:
    n = place.size(4096, 64)
    for count, rows in ((1, 128256), (4096, 128256), (65536, 128256), (65536, 7)):
        if place.small:
            count, rows = min(count, 300), min(rows, 500)
        x, ids = (
            place.normal(count, n, dtype=torch.bfloat16),
            place.integers(0, rows, count, dtype=torch.int64),
        )
        for out_type, name in ((torch.float32, "f32"), (torch.bfloat16, "bf16")):
            out = torch.zeros(rows, n, device=place.device, dtype=out_type)

            def run(x=x, ids=ids, out=out):
                context.scatter(x, ids, out, add=True, **LAUNCH)

            def check(x=x, ids=ids, out=out, run=run):
                out.zero_()
                run()
                exact = torch.zeros_like(out, dtype=torch.float64).index_add_(0, ids, x.double())
                size = torch.zeros_like(out, dtype=torch.float64).index_add_(0, ids, x.double().abs())
                return float(((out.double() - exact).abs() / (size + 1)).max())

            def peer(x=x, ids=ids, out=out):
                out.index_add_(0, ids, x.to(out.dtype))

            most = 1e-5 if out_type == torch.float32 else 8e-3
            moved = count * n * 2 + 2 * min(count, rows) * n * out.element_size()
            yield Work(
                f"scatter-add {count} rows of {n} bf16 to {rows} {name}",
                run,
                check,
                most,
                peer,
                moved,
            )
        distinct = torch.randperm(max(rows, count), device=place.device)[:count]
        out = torch.zeros(max(rows, count), n, device=place.device, dtype=torch.bfloat16)

        def place_rows(x=x, ids=distinct, out=out):
            context.scatter(x, ids, out, unique=True, **LAUNCH)

        def compare(x=x, ids=distinct, out=out, run=place_rows):
            run()
            return float((out[ids] != x).sum())

        def index_copy(x=x, ids=distinct, out=out):
            out.index_copy_(0, ids, x)

        yield Work(
            f"scatter {count} rows of {n} bf16, unique",
            place_rows,
            compare,
            0.0,
            index_copy,
            count * n * 4,
        )


def sorts(context: Context, place: Place) -> Iterator[Work]:
    types = (
        (torch.float32, "f32"),
        (torch.int32, "int32"),
        (torch.int64, "int64"),
        (torch.bfloat16, "bf16"),
    )
    shapes = [
        (4096, 8),
        (4096, 100),
        (256, 4096),
        (64, 32000),
        (8, 1_000_000),
        (1, 100_000_000),
    ]
    if place.small:
        shapes = [(5, 8), (3, 100), (2, 4096), (2, 9001)]
    for rows, n in shapes:
        for dtype, name in types:
            if dtype.is_floating_point:
                keys = place.normal(rows, n, dtype=dtype)
            else:
                keys = place.integers(-(2**31), 2**31 - 1, rows, n, dtype=dtype)
            out, places = (
                torch.empty_like(keys),
                torch.empty(rows, n, dtype=torch.int32, device=place.device),
            )
            for with_places in (False, True):

                def run(keys=keys, out=out, places=places, with_places=with_places):
                    context.call(
                        "sort",
                        keys=keys,
                        keys_out=out,
                        values_out=places if with_places else None,
                        **LAUNCH,
                    )

                def check(keys=keys, out=out, places=places, with_places=with_places, run=run):
                    run()
                    values, indices = torch.sort(keys, dim=1, stable=True)
                    return float((out != values).sum() + ((places != indices).sum() if with_places else 0))

                label = f"sort {rows}x{n} {name}{', places' if with_places else ''}"
                yield Work(
                    label,
                    run,
                    check,
                    0.0,
                    lambda keys=keys: torch.sort(keys, dim=1, stable=True),
                )


def histograms(context: Context, place: Place) -> Iterator[Work]:
    total = place.size(1 << 26, 5000)
    for bins in (16, 256, 4096, 100_000):
        for kind in ("uniform", "one bin"):
            x = place.integers(0, bins if kind == "uniform" else 1, 1, total)
            counts = torch.empty(1, bins, dtype=torch.int32, device=place.device)

            def run(x=x, counts=counts):
                context.histogram(x, counts=counts, **LAUNCH)

            def check(x=x, counts=counts, bins=bins, run=run):
                run()
                return float((counts[0] != torch.bincount(x[0], minlength=bins)).sum())

            def peer(x=x, bins=bins):
                return torch.bincount(x[0], minlength=bins)

            yield Work(
                f"histogram of {total} int32, {bins} bins, {kind}",
                run,
                check,
                0.0,
                peer,
                total * 4,
                goal=3.5,
            )
    x = place.normal(1, total)
    counts = torch.empty(1, 100, dtype=torch.int32, device=place.device)

    def check_floats() -> float:
        context.histogram(x, low=-4.0, high=4.0, counts=counts, **LAUNCH)
        # Where rounding puts a number at a border is each library's own.
        return float((counts[0] - torch.histc(x, 100, -4, 4).int()).abs().max())

    yield Work(
        f"histogram of {total} f32, 100 bins",
        lambda: context.histogram(x, low=-4.0, high=4.0, counts=counts, **LAUNCH),
        check_floats, max(total * 1e-6, 2.0), lambda: torch.histc(x, 100, -4, 4), total * 4,
    )  # fmt: skip


def convolutions(context: Context, place: Place) -> Iterator[Work]:
    channels = place.size(8192, 48)
    weight, bias = (
        place.normal(channels, 4, dtype=torch.bfloat16),
        place.normal(channels, dtype=torch.bfloat16),
    )
    for batch, length in ((1, 8192), (16, 2048), (64, 1), (256, 1)):
        length = min(length, place.size(length, 70))
        x = place.normal(batch * length, channels, dtype=torch.bfloat16)
        out = torch.empty_like(x)
        state = torch.zeros(batch, 3, channels, dtype=torch.bfloat16, device=place.device)
        offsets = torch.arange(0, batch * length + 1, length, dtype=torch.int32, device=place.device)

        def run(x=x, out=out, state=state, offsets=offsets):
            context.conv1d(x, weight, bias, offsets=offsets, state=state, silu=True, out=out, **LAUNCH)

        def peer(x=x, batch=batch, length=length, dtype=torch.bfloat16):
            rows = x.view(batch, length, channels).transpose(1, 2).to(dtype)
            padded = torch.nn.functional.pad(rows, (3, 0))
            y = torch.nn.functional.conv1d(padded, weight.to(dtype)[:, None], bias.to(dtype), groups=channels)
            return torch.nn.functional.silu(y)

        def check(x=x, out=out, state=state, batch=batch, length=length, run=run, peer=peer):
            state.zero_()
            run()
            exact = peer(x, dtype=torch.float64).transpose(1, 2).reshape(batch * length, channels)
            return float(((out.double() - exact).abs() / (exact.abs() + 1)).max())

        yield Work(
            f"conv1d {batch}x{length}, {channels} channels",
            run,
            check,
            8e-3,
            peer,
            4 * x.numel(),
        )


def general_convolutions(context: Context, place: Place) -> Iterator[Work]:
    for name, batch, channels, length, outs, width, stride, padding, dilation, groups, last in (
        ("Whisper's first", 8, 80, 3000, 1280, 3, 1, 1, 1, 1, False),
        ("Whisper's second", 8, 1280, 3000, 1280, 3, 2, 1, 1, 1, False),
        ("the same, channels last, unpadded", 8, 1280, 3000, 1280, 3, 2, 0, 1, 1, True),
        ("one tap", 8, 1024, 4096, 1024, 1, 1, 0, 1, 1, False),
        ("HiFi-GAN, dilated", 8, 256, 8192, 256, 11, 1, 25, 5, 1, False),
        ("wav2vec 2.0's first", 8, 1, 160000, 512, 10, 5, 0, 1, 1, False),
        ("wav2vec 2.0's positions", 8, 768, 1500, 768, 128, 1, 64, 1, 16, False),
        ("Conformer, depthwise", 16, 512, 4096, 512, 31, 1, 15, 1, 512, False),
    ):
        if place.small:
            batch, length, groups = 2, min(length, 300), min(groups, 16)
            channels, outs = (n if n < 64 else n // 16 for n in (channels, outs))
            groups = min(groups, channels)
        x = place.normal(batch, channels, length, dtype=torch.bfloat16)
        weight = (
            place.normal(outs, channels // groups, width, dtype=torch.bfloat16) / (channels // groups * width) ** 0.5
        )
        bias = place.normal(outs, dtype=torch.bfloat16)
        places = (length + 2 * padding - dilation * (width - 1) - 1) // stride + 1
        out = torch.empty(batch, outs, places, dtype=torch.bfloat16, device=place.device)
        mine, factors = x, weight
        if last:
            mine, out = (t.transpose(1, 2).contiguous().transpose(1, 2) for t in (x, out))
            factors = weight.transpose(1, 2).contiguous().transpose(1, 2)
        rest = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}

        def run(mine=mine, factors=factors, bias=bias, out=out, rest=rest):
            context.conv1d(mine, factors, bias, out=out, **rest, **LAUNCH)

        def check(x=x, weight=weight, bias=bias, out=out, run=run, rest=rest):
            run()
            exact = torch.nn.functional.conv1d(x[:1].double(), weight.double(), bias.double(), **rest)
            return far(out[:1], exact)

        def peer(x=x, weight=weight, bias=bias, rest=rest):
            return torch.nn.functional.conv1d(x, weight, bias, **rest)

        flops = 2 * batch * outs * places * (channels // groups) * width
        yield Work(f"conv1d general: {name} ({flops / 1e12:.2f} TFLOP)", run, check, 2e-2, peer)


def images(context: Context, place: Place) -> Iterator[Work]:
    for name, batch, channels, size, outs, kernel, stride, padding, dilation, groups, last in (
        ("ViT-B/16's patches", 64, 3, 224, 768, 16, 16, 0, 1, 1, False),
        ("ViT-L/14's patches at 336", 16, 3, 336, 1024, 14, 14, 0, 1, 1, False),
        ("ResNet's first", 32, 3, 224, 64, 7, 2, 3, 1, 1, False),
        ("ResNet, 56 x 56", 32, 64, 56, 64, 3, 1, 1, 1, 1, False),
        ("the same, channels last", 32, 64, 56, 64, 3, 1, 1, 1, 1, True),
        ("ResNet, 14 x 14, channels last", 32, 256, 14, 256, 3, 1, 1, 1, 1, True),
        ("ResNet, one place, stride 2, channels last", 32, 256, 56, 512, 1, 2, 0, 1, 1, True),
        ("UNet of SDXL, 64 x 64", 2, 640, 64, 640, 3, 1, 1, 1, 1, False),
        ("UNet of SDXL, 64 x 64, channels last", 2, 640, 64, 640, 3, 1, 1, 1, 1, True),
        ("UNet of SDXL, down, channels last", 2, 640, 64, 640, 3, 2, 1, 1, 1, True),
        ("VAE's decoder, 512 x 512, channels last", 1, 128, 512, 128, 3, 1, 1, 1, 1, True),
        ("one place, channels last", 8, 1024, 64, 1024, 1, 1, 0, 1, 1, True),
        ("DeepLab, dilated, channels last", 8, 512, 64, 256, 3, 1, 12, 12, 1, True),
        ("ConvNeXt, depthwise", 32, 192, 56, 192, 7, 1, 3, 1, 192, False),
        ("MobileNet, depthwise, channels last", 32, 384, 28, 384, 3, 1, 1, 1, 384, True),
    ):
        if place.small:
            batch, size, groups = 2, min(size, 48), min(groups, 16)
            channels, outs = (n if n < 64 else n // 16 for n in (channels, outs))
            groups = min(groups, channels)
        shape = torch.channels_last if last else torch.contiguous_format
        x = place.normal(batch, channels, size, size, dtype=torch.bfloat16).to(memory_format=shape)
        weight = place.normal(outs, channels // groups, kernel, kernel, dtype=torch.bfloat16)
        weight = (weight / (channels // groups * kernel * kernel) ** 0.5).to(memory_format=shape)
        bias = place.normal(outs, dtype=torch.bfloat16)
        places = (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
        out = torch.empty(batch, outs, places, places, dtype=torch.bfloat16, device=place.device)
        out = out.to(memory_format=shape)
        rest = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}

        def run(x=x, weight=weight, bias=bias, out=out, rest=rest):
            context.conv2d(x, weight, bias, out=out, **rest, **LAUNCH)

        def check(x=x, weight=weight, bias=bias, out=out, run=run, rest=rest):
            run()
            exact = torch.nn.functional.conv2d(x[:1].double(), weight.double(), bias.double(), **rest)
            return far(out[:1], exact)

        def peer(x=x, weight=weight, bias=bias, rest=rest):
            return torch.nn.functional.conv2d(x, weight, bias, **rest)

        flops = 2 * batch * outs * places * places * (channels // groups) * kernel * kernel
        yield Work(f"conv2d: {name} ({flops / 1e12:.2f} TFLOP)", run, check, 2e-2, peer)


def suppressions(context: Context, place: Place) -> Iterator[Work]:
    for images, n in ((1, 1000), (8, 2000), (1, 20000)):
        if place.small:
            n = min(n, 150)
        corners = torch.rand(images, n, 2, device=place.device) * 800
        boxes = torch.cat(
            [corners, corners + 8 + 40 * torch.rand(images, n, 2, device=place.device)],
            2,
        )
        scores = torch.rand(images, n, device=place.device)
        ids, counts = (place.integers(0, 1, *shape) for shape in ((images, n), (images,)))

        def run(boxes=boxes, scores=scores, ids=ids, counts=counts):
            context.nms(boxes, scores, 0.5, ids=ids, counts=counts, **LAUNCH)

        def check(boxes=boxes, scores=scores, ids=ids, counts=counts, run=run):
            run()
            # Those that are kept overlap nowhere, in fp64, but for what rounding may move.
            worst = 0.0
            for image, kept in enumerate(ids):
                b = boxes[image][kept[: int(counts[image])].long()][:4000].double()
                low, high = (
                    torch.maximum(b[:, None, :2], b[None, :, :2]),
                    torch.minimum(b[:, None, 2:], b[None, :, 2:]),
                )
                inter, area = (
                    (high - low).clamp(min=0).prod(2),
                    (b[:, 2:] - b[:, :2]).prod(1),
                )
                iou = inter / (area[:, None] + area[None] - inter)
                worst = max(worst, float(iou.fill_diagonal_(0).max()) - 0.5)
            return worst

        yield Work(f"nms {images}x{n}", run, check, 1e-6)


def transforms(context: Context, place: Place) -> Iterator[Work]:
    """Fourier transforms, beside cuFFT through PyTorch. Lengths are powers of two, of small primes, and others."""
    for kind, rows, n in (
        ("forward", 1, 1024),
        ("forward", 65536, 64),
        ("forward", 16384, 512),
        ("forward", 16384, 1000),
        ("forward", 8192, 1024),
        ("forward", 2048, 4096),
        ("forward", 1024, 16384),
        ("forward", 4096, 1536),
        ("forward", 4096, 2310),
        ("inverse", 8192, 1024),
        ("real", 16384, 400),
        ("real", 8192, 2048),
        ("real", 512, 32768),
        ("to_real", 8192, 2048),
    ):
        rows = min(rows, 5) if place.small else rows
        taken, made = (n // 2 + 1 if kind == side else n for side in ("to_real", "real"))
        x = place.normal(rows, taken) if kind == "real" else torch.view_as_complex(place.normal(rows, taken, 2))
        if kind == "to_real":
            x[:, 0] = x[:, 0].real
            x[:, -1] = x[:, -1].real
        out_type = torch.float32 if kind == "to_real" else torch.complex64
        out = torch.empty(rows, made, dtype=out_type, device=place.device)
        name = {"forward": "fft", "inverse": "ifft", "real": "rfft", "to_real": "irfft"}[kind]
        theirs = getattr(torch.fft, name)

        def run(x=x, n=n, kind=kind, out=out):
            context.fft(x, n, kind=kind, out=out, **LAUNCH)

        def check(x=x, n=n, out=out, theirs=theirs, run=run, kind=kind):
            run()
            exact = theirs(x.to(torch.float64 if kind == "real" else torch.complex128), n)
            return float((out - exact).abs().max() / exact.abs().max())

        def peer(x=x, n=n, theirs=theirs):
            return theirs(x, n)

        moved = x.numel() * x.element_size() + out.numel() * out.element_size()
        yield Work(f"fft: {name} of {rows} x {n}", run, check, 1e-6, peer, moved)
    signals, samples = place.size(16, 1), 480000  # half a minute each, as Whisper takes it
    signal, window = place.normal(signals, samples), torch.hann_window(400, device=place.device)
    powers = torch.empty(signals, samples // 160 + 1, 201, device=place.device)

    def whisper() -> None:
        context.stft(signal, 400, hop=160, window=window, result="power", out=powers, **LAUNCH)

    def of_torch(x: torch.Tensor = signal) -> torch.Tensor:
        return torch.stft(x, 400, 160, window=window.to(x.dtype), return_complex=True).abs() ** 2

    def apart() -> float:
        whisper()
        exact = of_torch(signal.double()).transpose(1, 2)
        return float((powers - exact).abs().max() / exact.max())

    yield Work(f"fft: spectrograms of {signals} x {samples}", whisper, apart, 1e-6, of_torch,
               4 * (signal.numel() + powers.numel()))  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    options = parser.parse_args()
    torch.manual_seed(torch.seed() % 2**31)
    context = Context("host" if options.host else "cuda:0")
    place = Place("cpu" if options.host else "cuda", options.host)
    print(f"{context.device.name}: {COLUMNS}")
    families = (scatters, sorts, histograms, convolutions, general_convolutions, images, suppressions, transforms)
    rows = run_all(
        (work for family in families for work in family(context, place)),
        options,
        context,
    )
    distribution(rows, "named")
    finish(rows, options)


if __name__ == "__main__":
    main()
