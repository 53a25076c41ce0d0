# Convolutions along sequences and of images, making the outputs that are not given.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

from .arrays import element, empty, shape_of, unwrap
from .errors import InvalidError
from .ops import Ops
from .tensor import Tensor


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
        stride: int = 1,
        padding: int | tuple[int, int] | str = 0,
        dilation: int = 1,
        groups: int = 1,
        out: Any = None,
        **launch: Any,
    ) -> Any:
        """With a weight of two dimensions the causal depthwise convolution of state-space models and gated delta nets:
        each channel's weighted sum of a token and the width - 1 before it in its sequence; returns out.

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
        out        [tokens, channels] of x's element type, no part of x; None: allocated by x's framework

        With a weight of three dimensions the convolution that torch.nn.functional.conv1d knows:

        x          [batch, channels, length], or [channels, length] of one sample; any strides
        weight     [out channels, channels / groups, width], x's element type; bias likewise, [out channels]
        stride, dilation, groups    of places from window to window, of places from tap to tap, of channels
        padding    zeros on both sides of x: how many, or (before, behind); "valid" is 0; "same", with stride 1, as many
                   as keep the length, the odd one behind
        out        [batch, out channels, length'],
                   length' = (length + padding - dilation (width - 1) - 1) / stride + 1"""
        taken = shape_of(weight, "weight")
        if len(taken) == 3:
            for name, given in (
                ("offsets", offsets),
                ("state", state),
                ("state_ids", state_ids),
                ("has_state", has_state),
            ):
                if given is not None:
                    raise InvalidError(f"{name}: given with a weight of three dimensions; allowed is None")
            before, behind = _padding(padding, stride, dilation * (taken[2] - 1))
            one = len(shape_of(x, "x")) == 2
            x = _with_batch(x) if one else x
            batch, _, length = shape_of(x, "x", 3)
            places = (length + before + behind - dilation * (taken[2] - 1) - 1) // max(stride, 1) + 1
            if out is None:
                out = empty((batch, taken[0], max(places, 0)), x, "out", element(x, "x"))
            elif one:
                out = _with_batch(out)
            self.call(
                "conv1d", launch, x=x, weight=weight, bias=bias, out=out, silu=silu, stride=stride,
                dilation=dilation, groups=groups, pad_begin=before, pad_end=behind,
            )  # fmt: skip
            return _without_batch(out) if one else out
        if (stride, padding, dilation, groups) not in ((1, 0, 1, 1), (1, "valid", 1, 1)):
            raise InvalidError("stride, padding, dilation, groups: given with a weight of two dimensions")
        shape = shape_of(x, "x", 2)
        out = empty(shape, x, "out", element(x, "x")) if out is None else out
        if offsets is None and state is None:
            offsets = empty((2,), x, "offsets", "i32")
            ends = unwrap(offsets)
            ends[0], ends[1] = 0, shape[0]
        self.call(
            "conv1d", launch, x=x, weight=weight, bias=bias, offsets=offsets, state=state, state_ids=state_ids,
            has_state=has_state, out=out, silu=silu,
        )  # fmt: skip
        return out

    def conv2d(
        self,
        x: Any,
        weight: Any,
        bias: Any = None,
        *,
        stride: int | tuple[int, int] = 1,
        padding: int | tuple[int, int] | tuple[tuple[int, int], tuple[int, int]] | str = 0,
        dilation: int | tuple[int, int] = 1,
        groups: int = 1,
        activation: str = "none",
        out: Any = None,
        **launch: Any,
    ) -> Any:
        """The convolution of images that torch.nn.functional.conv2d knows; returns out.

        x          [batch, channels, height, width] f16, bf16 or f32, or [channels, height, width] of one sample; any
                   strides: [batch, height, width, channels] is given as a view, np.moveaxis(x, -1, 1), and is fastest
        weight     [out channels, channels / groups, kernel height, kernel width], x's element type
        bias       optional [out channels], x's element type
        stride, dilation    of rows and columns: from window to window, and from tap to tap; a number is both
        padding    zeros around x: how many, or (above and below, on the left and right), or ((above, below), (left,
                   right)); "valid" is 0; "same", with stride 1, as many as keep height and width, the odd one behind
        groups     divides channels and out channels
        activation "relu", "gelu", "gelu_tanh", "silu" or "none", of the sum with the bias
        out        [batch, out channels, height', width'],
                   height' = (height + padding - dilation (kernel height - 1) - 1) / stride + 1, width' likewise;
                   None: allocated by x's framework, in x's order of channels and places"""
        outs, _, *kernel = shape_of(weight, "weight", 4)
        strides, dilations = _both(stride, "stride"), _both(dilation, "dilation")
        reach = [d * (k - 1) for d, k in zip(dilations, kernel, strict=True)]
        given = (padding, padding) if isinstance(padding, (int, str)) else padding
        if len(given) != 2:
            raise InvalidError(f"padding: {padding!r} given; allowed are one of all sides, or two of rows and columns")
        sides = [_padding(p, s, r) for p, s, r in zip(given, strides, reach, strict=True)]
        one = len(shape_of(x, "x")) == 3
        x = _with_batch(x) if one else x
        batch, _, *image = shape_of(x, "x", 4)
        places = [
            max((n + before + behind - r - 1) // max(s, 1) + 1, 0)
            for n, (before, behind), r, s in zip(image, sides, reach, strides, strict=True)
        ]
        if out is None:
            out = _empty_image(x, batch, outs, *places)
        elif one:
            out = _with_batch(out)
        self.call(
            "conv2d", launch, x=x, weight=weight, bias=bias, out=out, stride_h=strides[0], stride_w=strides[1],
            dilation_h=dilations[0], dilation_w=dilations[1], groups=groups, pad_top=sides[0][0],
            pad_bottom=sides[0][1], pad_left=sides[1][0], pad_right=sides[1][1], activation=activation,
        )  # fmt: skip
        return _without_batch(out) if one else out


def _both(given: int | tuple[int, int], name: str) -> tuple[int, int]:
    rows, columns = (given, given) if isinstance(given, int) else given
    for number in (rows, columns):
        if number < 1:
            raise InvalidError(f"{name}: {given!r} given; allowed are 1 and more")
    return rows, columns


def _empty_image(x: Any, batch: int, outs: int, rows: int, columns: int) -> Any:
    """[batch, outs, rows, columns], its channels side by side where x's are."""
    array = x.array if isinstance(x, Tensor) else x
    stride = array.stride() if callable(getattr(array, "stride", None)) else getattr(array, "strides", None)
    channels_last = stride is not None and array.shape[1] > 1 and stride[1] < stride[3]
    kind = element(x, "x")
    if not channels_last:
        return empty((batch, outs, rows, columns), x, "out", kind)
    made = empty((batch, rows, columns, outs), x, "out", kind)
    if isinstance(made, Tensor):
        return Tensor(made.array.transpose(0, 3, 1, 2), kind)
    return made.permute(0, 3, 1, 2) if hasattr(made, "permute") else made.transpose(0, 3, 1, 2)


def _padding(given: int | tuple[int, int] | str, stride: int, reach: int) -> tuple[int, int]:
    if given == "valid":
        return 0, 0
    if given == "same":
        if stride != 1:
            raise InvalidError(f"padding: 'same' given with stride {stride}; allowed with 1 alone")
        return reach // 2, reach - reach // 2
    if isinstance(given, str):
        raise InvalidError(f"padding: {given!r} given; allowed are numbers, 'valid' and 'same'")
    before, behind = (given, given) if isinstance(given, int) else given
    return before, behind


def _with_batch(array: Any) -> Any:
    return Tensor(array.array[None], element(array, "x")) if isinstance(array, Tensor) else array[None]


def _without_batch(array: Any) -> Any:
    return Tensor(array.array[0], element(array, "out")) if isinstance(array, Tensor) else array[0]
