# Convolutions along sequences, making the outputs that are not given.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

from .arrays import element, empty, shape_of, unwrap
from .ops import Ops


class Convolutions(Ops):
    """Mixed into Context. Of what every op takes besides see Ops."""

    def conv1d(
        self,
        x: Any,
        weight: Any,
        bias: Any = None,
        *,
        offsets: Any = None,
        state: Any = None,
        state_ids: Any = None,
        has_state: Any = None,
        silu: bool = False,
        out: Any = None,
        **launch: Any,
    ) -> Any:
        """The causal depthwise convolution of state-space models and gated delta nets: each channel's weighted sum of
        a token and the width - 1 before it in its sequence; returns out.

        x          [tokens, channels] f16, bf16 or f32; rows at any distance
        weight     [channels, width], x's element type or f32; width 2 to 8, the last tap is the token's own
        bias       optional [channels], weight's element type
        offsets    [batch+1] int32: where in x each sequence begins and ends; None: x is one sequence, or with a state
                   one token of each
        state      optional [slots, width-1, channels], x's element type or f32: the inputs before the first token, the
                   oldest first; receives the last ones. What is laid out [slots, channels, width-1] is given as a view,
                   state.swapaxes(1, 2). None: zeros come before
        state_ids  optional [batch] int32: each sequence's slot; -1: it has none. None: its place
        has_state  optional [batch] bool or uint8: where 0, zeros are taken for what the slot holds
        silu       out = y / (1 + exp(-y))
        out        [tokens, channels] of x's element type, no part of x; None: allocated by x's framework"""
        shape = shape_of(x, "x", 2)
        out = empty(shape, x, "out", element(x, "x")) if out is None else out
        if offsets is None and state is None:
            offsets = empty((2,), x, "offsets", "i32")
            ends = unwrap(offsets)
            ends[0], ends[1] = 0, shape[0]
        self.call(
            "conv1d", x=x, weight=weight, bias=bias, offsets=offsets, state=state, state_ids=state_ids,
            has_state=has_state, out=out, silu=silu, **launch,
        )  # fmt: skip
        return out
