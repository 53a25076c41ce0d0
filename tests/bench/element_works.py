# Work of pointwise, copy, norm, norm_backward, reduce and gather on given tensors, beside the same of PyTorch.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from works import LAUNCH, Work, far

ROUNDING = {
    torch.float32: 2e-5,
    torch.float16: 2e-3,
    torch.bfloat16: 1e-2,
    torch.float8_e4m3fn: 0.08,
}
BY_ROWS, BY_SUMS, BY_IDS, TRANSPOSED = 4.2, 4.0, 3.8, 3.9  # TB/s that are asked for


def doubles(tensors: Sequence[Any]) -> list[Any]:
    return [t.double() if isinstance(t, torch.Tensor) and t.is_floating_point() else t for t in tensors]


def bytes_of(*tensors: Any) -> int:
    return sum(t.numel() * t.element_size() for t in tensors if isinstance(t, torch.Tensor))


def elementwise(
    context: Any, label: str, method: str, operands: Sequence[Any], formula: Callable[..., torch.Tensor], *,
    dtype: torch.dtype | None = None, goal: float = BY_ROWS,
) -> Work:  # fmt: skip
    """`method` of context, or an expression that begins with '='. What is no tensor is a scalar."""
    tensors = [t for t in operands if isinstance(t, torch.Tensor)]
    shape = torch.broadcast_shapes(*(t.shape for t in tensors))
    first = next(t for t in tensors if t.dtype != torch.bool)
    out = torch.empty(shape, device=first.device, dtype=dtype or first.dtype)
    if method.startswith("="):
        scalars = [o for o in operands if not isinstance(o, torch.Tensor)] or None

        def run() -> object:
            return context.pointwise(method[1:], tensors, scalars=scalars, out=out, **LAUNCH)
    else:

        def run() -> object:
            return getattr(context, method)(*operands, out=out, **LAUNCH)

    def check() -> float:
        return far(out, formula(*doubles(operands)))

    kind = out.dtype  # torch.compile looks at what a function holds: no tensor

    def peer(*given: Any) -> torch.Tensor:
        return formula(*given).to(kind)

    most = ROUNDING.get(out.dtype, 0.0)
    moved = bytes_of(out, *tensors)
    return Work(
        f"pointwise {label}",
        run,
        check,
        most,
        peer,
        moved,
        tuple(operands),
        True,
        goal,
        "pointwise",
    )


def copied(
    context: Any,
    label: str,
    x: torch.Tensor,
    dtype: torch.dtype | None = None,
    goal: float = BY_ROWS,
) -> Work:
    """A view, written out compact."""
    out = torch.empty(x.shape, device=x.device, dtype=dtype or x.dtype)

    kind = out.dtype

    def peer(view: torch.Tensor) -> torch.Tensor:
        if kind != view.dtype:
            return view.to(kind, memory_format=torch.contiguous_format)
        return view.clone(memory_format=torch.contiguous_format)

    def check() -> float:
        return float((out != x.to(out.dtype)).sum())

    return Work(
        f"copy {label}",
        lambda: context.copy(x, out=out, **LAUNCH),
        check, 0.0, peer, bytes_of(x, out), (x,), True, goal, "copy",
    )  # fmt: skip


def concatenated(context: Any, label: str, parts: Sequence[torch.Tensor], axis: int) -> Work:
    out = torch.cat(list(parts), axis).zero_()

    def check() -> float:
        return float((out != torch.cat(list(parts), axis)).sum())

    def peer(*given: torch.Tensor) -> torch.Tensor:
        return torch.cat(given, axis)

    return Work(
        f"copy {label}", lambda: context.concat(parts, axis, out=out, **LAUNCH),
        check, 0.0, peer, bytes_of(out, *parts),
        tuple(parts), True, BY_ROWS, "copy",
    )  # fmt: skip


def parted(context: Any, label: str, x: torch.Tensor, sizes: Sequence[int]) -> Work:
    views = x.split(list(sizes), 1)
    outs = [torch.empty(v.shape, device=x.device, dtype=x.dtype) for v in views]

    def check() -> float:
        return float(sum((o != v).sum() for o, v in zip(outs, views, strict=True)))

    def peer(given: torch.Tensor) -> list[torch.Tensor]:
        return [v.clone(memory_format=torch.contiguous_format) for v in given.split(list(sizes), 1)]

    return Work(
        f"copy {label}", lambda: context.split(x, sizes, 1, outs=outs, **LAUNCH),
        check, 0.0, peer, 2 * bytes_of(x), (x,), True,
        BY_ROWS, "copy",
    )  # fmt: skip


def normalised(
    context: Any, label: str, kind: str, x: torch.Tensor, *, weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None, residual: torch.Tensor | None = None, scale: torch.Tensor | None = None,
    shift: torch.Tensor | None = None, groups: int = 0, goal: float = BY_SUMS,
) -> Work:  # fmt: skip
    out = torch.empty_like(x)
    added = None if residual is None else torch.empty_like(x)
    given = (x, weight, bias, residual, scale, shift)

    def formula(x: Any, weight: Any, bias: Any, residual: Any, scale: Any, shift: Any) -> Any:
        s = x if residual is None else x + residual
        n = (s.shape[-1],)
        if kind == "layer":
            y = F.layer_norm(s, n, weight, bias, 1e-5)
        elif kind == "rms":
            y = F.rms_norm(s, n, weight, 1e-5)
        elif kind == "l2":
            y = F.normalize(s, dim=-1)
        else:
            y = F.group_norm(s, groups, weight, bias, 1e-5)
        if scale is not None:
            y = (y.view(scale.shape[0], -1, *n) * (1 + scale[:, None]) + shift[:, None]).view_as(s)
        return y if residual is None else (y, s)

    def run() -> object:
        if kind == "group":
            return context.group_norm(x, groups, weight, bias, out=out, **LAUNCH)
        if kind == "rms" and bias is None and scale is None:
            return context.rmsnorm(x, weight, residual=residual, residual_out=added, eps=1e-5, out=out, **LAUNCH)
        return context.norm(
            x, weight, bias, kind=kind, residual=residual, residual_out=added, scale=scale, shift=shift,
            eps=1e-12 if kind == "l2" else 1e-5, out=out, **LAUNCH,
        )  # fmt: skip

    def check() -> float:
        exact = formula(*doubles(given))
        return far(out, exact) if residual is None else max(far(out, exact[0]), far(added, exact[1]))

    moved = bytes_of(x, out, residual, added, scale, shift)
    name = f"norm {label}"
    return Work(name, run, check, ROUNDING[x.dtype], formula, moved, given, True, goal, "norm")


def norm_gradient(context: Any, label: str, kind: str, x: torch.Tensor, weight: torch.Tensor) -> Work:
    dout = torch.randn_like(x)
    n = [x.shape[1]]
    dx, dweight, dbias = (
        torch.empty_like(x),
        torch.empty_like(weight),
        torch.empty_like(weight),
    )
    mean = x.float().mean(1, keepdim=True)
    if kind == "layer":
        rstd = torch.rsqrt(x.float().var(1, keepdim=True, unbiased=False) + 1e-5)
    else:
        rstd = torch.rsqrt(x.float().square().mean(1, keepdim=True) + 1e-5)

    def run() -> object:
        rest = {"dbias": dbias} if kind == "layer" else {}
        return context.norm_backward(dout, x, weight, kind=kind, eps=1e-5, dx=dx, dweight=dweight, **rest, **LAUNCH)

    def formula(dout: Any, x: Any, weight: Any) -> Any:
        x32, d = (
            x.float() if x.dtype != torch.float64 else x,
            dout.to(torch.promote_types(dout.dtype, torch.float32)),
        )
        centred = x32 - x32.mean(1, keepdim=True) if kind == "layer" else x32
        r = torch.rsqrt(centred.square().mean(1, keepdim=True) + 1e-5)
        y, dy = centred * r, d * weight
        inner = dy - y * (dy * y).mean(1, keepdim=True)
        if kind == "layer":
            inner = inner - dy.mean(1, keepdim=True)
        return (
            (inner * r).to(x.dtype),
            (d * y).sum(0).to(weight.dtype),
            d.sum(0).to(weight.dtype),
        )

    def fused(dout: Any, x: Any, weight: Any) -> Any:
        """PyTorch's own kernels, which are given mean and deviation of the forward pass."""
        if kind == "layer":
            return torch.ops.aten.native_layer_norm_backward(dout, x, n, mean, rstd, weight, weight, [True, True, True])
        return torch.ops.aten._fused_rms_norm_backward(dout, x, n, rstd, weight, [True, True])

    def check() -> float:
        exact = formula(*doubles((dout, x, weight)))
        size = float(x.shape[0]) ** 0.5  # of a column's sum
        sums = max(
            far(dweight / size, exact[1] / size),
            far(dbias / size, exact[2] / size) if kind == "layer" else 0,
        )
        return max(far(dx, exact[0]), sums)

    work = Work(
        f"norm {label}", run, check, ROUNDING[x.dtype], fused, bytes_of(x, dout, dx), (dout, x, weight), False, 0.0,
        "norm",
    )  # fmt: skip
    work.compiled_peer = formula
    return work


REDUCTIONS: dict[str, Callable[..., torch.Tensor]] = {
    "sum": lambda x, axes: x.sum(axes, dtype=torch.promote_types(x.dtype, torch.float32)),
    "mean": lambda x, axes: x.mean(axes, dtype=torch.promote_types(x.dtype, torch.float32)),
    "max": lambda x, axes: x.amax(axes),
    "l2": lambda x, axes: torch.linalg.vector_norm(x, dim=axes, dtype=torch.promote_types(x.dtype, torch.float32)),
    "logsumexp": lambda x, axes: torch.logsumexp(x.to(torch.promote_types(x.dtype, torch.float32)), axes),
}


def reduced(
    context: Any,
    label: str,
    kind: str,
    x: torch.Tensor,
    axes: tuple[int, ...],
    goal: float = BY_SUMS,
) -> Work:
    formula = REDUCTIONS[kind]
    kept = [n for d, n in enumerate(x.shape) if d not in axes]
    out = torch.empty(kept, device=x.device, dtype=torch.float32)

    def check() -> float:
        count = x.numel() / max(out.numel(), 1)
        size = count**0.5 if kind in ("sum", "l2") else 1.0
        return far(out / size, formula(x.double(), axes) / size)

    return Work(
        f"reduce {label}", lambda: context.reduce(x, kind, axis=axes, out=out, **LAUNCH), check, 1e-4,
        lambda given: formula(given, axes), bytes_of(x, out), (x,), True, goal, "reduce",
    )  # fmt: skip


def largest_place(context: Any, label: str, x: torch.Tensor, axis: int, goal: float = BY_SUMS) -> Work:
    kept = [n for d, n in enumerate(x.shape) if d != axis]
    out = torch.empty(kept, device=x.device, dtype=torch.int64)

    def check() -> float:
        return float((x.gather(axis, out.unsqueeze(axis)).squeeze(axis) != x.amax(axis)).sum())

    return Work(
        f"reduce {label}", lambda: context.reduce(x, "argmax", axis=axis, out=out, **LAUNCH), check, 0.0,
        lambda given: given.argmax(axis), bytes_of(x, out), (x,), True, goal, "reduce",
    )  # fmt: skip


def gathered(context: Any, label: str, table: torch.Tensor, ids: torch.Tensor) -> Work:
    out = torch.empty(ids.shape[0], table.shape[1], device=table.device, dtype=table.dtype)

    def check() -> float:
        return float((out != table[ids.long()]).sum())

    moved = 2 * bytes_of(out) + bytes_of(ids)
    return Work(
        f"gather {label}", lambda: context.gather(table, ids, out=out, **LAUNCH), check, 0.0,
        lambda table, ids: F.embedding(ids, table), moved, (table, ids), True, BY_IDS, "gather",
    )  # fmt: skip
