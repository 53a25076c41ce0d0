# Mixture of experts: choosing them, and joining what they made; making the outputs that are not given.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any, NamedTuple

from .arrays import empty, shape_of
from .errors import InvalidError
from .ops import Ops


class Routing(NamedTuple):
    """Each token's experts, and the choices sorted by expert: what a grouped product and moe_combine take."""

    weights: Any  # [tokens, top_k] f32
    ids: Any  # [tokens, top_k] int32
    offsets: Any  # [local_experts+1] int32: where each expert's rows begin
    indices: Any  # [tokens*top_k] int32: the token of each sorted row
    positions: Any  # [tokens, top_k] int32: the sorted row of each choice, -1 where its expert is not local
    counts: Any  # [local_experts] int32


class Experts(Ops):
    """Mixed into Context. Of what every op takes besides see Ops."""

    def moe_route(
        self,
        logits: Any,
        top_k: int,
        *,
        bias: Any = None,
        sigmoid: bool = False,
        renormalize: bool = False,
        groups: int | None = None,
        top_groups: int | None = None,
        scale: float | None = None,
        first_expert: int = 0,
        local_experts: int | None = None,
        **given: Any,
    ) -> Routing:
        """Chooses each token's top_k experts and sorts the choices by expert; returns a Routing.

        logits         [tokens, experts] f32, f16 or bf16
        bias           [experts] f32: added to the scores where experts are chosen, not to the weights
        sigmoid        scores are sigmoid(logits); else softmax
        renormalize    a token's weights are divided by their sum
        groups, top_groups    the experts fall into that many groups, of which the best top_groups are looked at
        scale          multiplies the weights; None: 1
        first_expert, local_experts    expert parallelism: the sorted part holds these alone
        weights, ids, offsets, indices, positions, counts    outputs; allocated by logits' framework where not given"""
        tokens, experts = shape_of(logits, "logits", 2)
        local = experts - first_expert if local_experts is None else local_experts
        if top_k < 1 or not 0 <= first_expert <= experts or local < 0:
            raise InvalidError(
                f"top_k {top_k}, first_expert {first_expert}, local_experts {local}: given for {experts} experts; "
                "allowed are a top_k from 1, and experts that there are"
            )
        choices = (tokens, top_k)
        shapes = {
            "weights": choices, "ids": choices, "offsets": (local + 1,), "indices": (tokens * top_k,),
            "positions": choices, "counts": (local,),
        }  # fmt: skip
        made = {
            name: given.pop(name)
            if given.get(name) is not None
            else empty(shape, logits, name, "f32" if name == "weights" else "i32")
            for name, shape in shapes.items()
        }
        self.call(
            "moe_route", logits=logits, bias=bias, top_k=top_k, sigmoid=sigmoid, renormalize=renormalize, groups=groups,
            top_groups=top_groups, scale=scale, first_expert=first_expert, local_experts=local_experts, **made, **given,
        )  # fmt: skip
        return Routing(**made)

    def moe_combine(
        self,
        x: Any,
        positions: Any,
        weights: Any = None,
        *,
        add: Any = None,
        out: Any = None,
        out_dtype: object | None = None,
        **launch: Any,
    ) -> Any:
        """out[t] = sum over j of weights[t, j] x[positions[t, j]], plus add[t]; returns out.

        x          [rows, n] f16, bf16 or f32, last stride 1: what a grouped product made
        positions  [tokens, top_k] int32; -1 gives nothing
        weights    [tokens, top_k] f32; None: 1 each
        add        [tokens, n] of out's type: the shared experts' result; may be out
        out        [tokens, n]; None: allocated by x's framework with elements of out_dtype, None: x's"""
        if out is None:
            shape = (shape_of(positions, "positions", 2)[0], shape_of(x, "x", 2)[1])
            out = empty(shape, x, "out", out_dtype)
        self.call("moe_combine", launch, x=x, positions=positions, weights=weights, add=add, out=out)
        return out
