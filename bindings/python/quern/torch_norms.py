# The layer and RMS norm with their gradients for PyTorch: one functional op over quern_norm and quern_norm_backward,
# which torch.compile traces in both directions.
# SPDX-License-Identifier: Apache-2.0
"""torch.ops.quern.norm_with_gradient, which `quern.torch_ops.ops.norm` and its kin call where a gradient is wanted.

s = x + residual, out = norm(s) * weight + bias; it returns (out, s), s empty without a residual. Backward is
quern_norm_backward of s (or x): what flows into s is its `add`, so that a residual's gradient costs no launch of its
own. Gradients of weight and bias are summed in f32 and rounded once."""

from __future__ import annotations

from typing import Any

import torch

from .errors import InvalidError

_NAME = "quern::norm_with_gradient"
_SCHEMA = (
    "norm_with_gradient(Tensor x, Tensor? weight, Tensor? bias, Tensor? residual, str kind, float eps, "
    "bool weight_plus_one) -> (Tensor, Tensor)"
)
_KINDS = ("layer", "rms")
_TAKEN = ("residual", "kind", "eps", "weight_plus_one")


def wants_gradient(*arrays: Any) -> bool:
    """Whether autograd is on and follows one of these."""
    return torch.is_grad_enabled() and any(isinstance(one, torch.Tensor) and one.requires_grad for one in arrays)


def differentiable(x: Any, weight: Any, bias: Any, **rest: Any) -> Any:
    """A norm that backward goes through; returns as Context.norm does."""
    kind = rest.pop("kind", "layer")
    if kind not in _KINDS:
        raise InvalidError(f"kind: {kind!r} has no gradient; allowed are {' and '.join(_KINDS)}, or torch.no_grad()")
    # What changes the result and has no gradient here is refused, not left out of it.
    other = [name for name, value in rest.items() if name not in _TAKEN and value is not None and value is not False]
    if other:
        raise InvalidError(f"{other[0]}: given where a gradient is wanted; allowed are {', '.join(_TAKEN)}")
    residual, eps = rest.get("residual"), float(rest.get("eps", 1e-5))
    plus_one = bool(rest.get("weight_plus_one", False))
    out, summed = torch.ops.quern.norm_with_gradient(x, weight, bias, residual, kind, eps, plus_one)
    return out if residual is None else (out, summed)


def register_norm(library: Any, ops: Any) -> None:
    """Defines the op in torch_ops' library. `ops`: the methods that it launches."""

    def forward(
        x: Any, weight: Any, bias: Any, residual: Any, kind: str, eps: float, weight_plus_one: bool
    ) -> tuple[Any, Any]:
        with torch.no_grad():
            done = ops.norm(x, weight, bias, kind=kind, residual=residual, eps=eps, weight_plus_one=weight_plus_one)
        return done if isinstance(done, tuple) else (done, x.new_empty(0))

    def fake(
        x: Any, weight: Any, bias: Any, residual: Any, kind: str, eps: float, weight_plus_one: bool
    ) -> tuple[Any, Any]:
        return x.new_empty(x.shape), x.new_empty(0 if residual is None else x.shape)

    def keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, Any]) -> None:
        x, weight, bias, residual, ctx.kind, ctx.eps, ctx.weight_plus_one = inputs
        ctx.has_residual = residual is not None
        ctx.bias_dtype = None if bias is None else bias.dtype
        ctx.save_for_backward(output[1] if ctx.has_residual else x, weight)

    def backward(ctx: Any, dout: Any, dsummed: Any) -> tuple[Any, ...]:
        s, weight = ctx.saved_tensors
        add = dsummed.contiguous() if ctx.has_residual else None
        done = ops.norm_backward(
            dout.contiguous(), s, weight, kind=ctx.kind, add=add, eps=ctx.eps, weight_plus_one=ctx.weight_plus_one
        )
        dx, dweight = done[0], None if weight is None else done[1].to(weight.dtype)
        dbias = done[2].to(ctx.bias_dtype) if ctx.bias_dtype is not None else None
        return dx, dweight, dbias, (dx if ctx.has_residual else None), None, None, None

    library.define(_SCHEMA)
    library.impl("norm_with_gradient", forward, "CompositeExplicitAutograd")
    torch.library.register_fake(_NAME, fake, lib=library)
    torch.library.register_autograd(_NAME, backward, setup_context=keep, lib=library)
