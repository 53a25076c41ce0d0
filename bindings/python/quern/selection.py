# What stands beside a sampler: softmax, argmax, top-k, renormalising, the verification of drafts; outputs that are not
# given are made.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any, NamedTuple

from .arrays import empty, empty_together, shape_of
from .ops import Ops

# A parameter, and what it is called as an array with a value a row.
_BY_ROW = {
    "temperature": "temperatures", "top_k": "top_ks", "top_p": "top_ps", "min_p": "min_ps", "seed": "seeds",
    "offset": "offsets", "repetition": "repetitions", "presence": "presences", "frequency": "frequencies",
}  # fmt: skip


def _by_row(given: dict[str, Any]) -> dict[str, Any]:
    """Parameters that are arrays under the names of arrays."""
    return {_BY_ROW.get(name, name) if hasattr(value, "__dlpack__") else name: value for name, value in given.items()}


class Verified(NamedTuple):
    """What of each sequence's drafts is accepted."""

    accepted: Any  # [batch] int32: how many
    ids: Any  # [batch, depth+1] int32: the accepted tokens and the one behind them, then -1
    path: Any  # [batch, depth] int32: the accepted nodes, then -1
    logprobs: Any = None  # [batch, depth+1] f32, where asked for: of each of ids; NaN behind the last


class Selection(Ops):
    """Mixed into Context. Of what every op takes besides see Ops."""

    def softmax(
        self, logits: Any, *, temperature: float | Any = 1.0, out: Any = None, dtype: object = "f32", **launch: Any
    ) -> Any:
        """Probabilities of each row, or with log=True their natural logarithms; returns out.

        logits       [rows, vocab] f32, f16 or bf16
        temperature  a number, or [rows] f32; 0: all on the largest, the lowest index on ties
        out          [rows, vocab] f32 or as logits, may be logits; None: allocated by logits' framework, of `dtype`
        status       optional [rows] int32, enum quern_sample_status of each row"""
        out = empty(shape_of(logits, "logits", 2), logits, "out", dtype) if out is None else out
        self.call("softmax", launch, logits=logits, out=out, **_by_row({"temperature": temperature}))
        return out

    def argmax(self, logits: Any, *, ids: Any = None, values: bool | Any = False, **launch: Any) -> Any:
        """Where each row is largest, the lowest index on ties; -1 for a row of NaN. Returns ids, or (ids, values).

        logits       [rows, vocab] f32, f16 or bf16
        ids          [rows] int32 or int64; None: allocated by logits' framework, int32
        values       True: made; or [rows] f32"""
        rows = shape_of(logits, "logits", 2)[0]
        ids = empty((rows,), logits, "ids", "i32") if ids is None else ids
        if isinstance(values, bool):
            values = empty((rows,), logits, "values", "f32") if values else None
        self.call("argmax", launch, logits=logits, ids=ids, values=values)
        return ids if values is None else (ids, values)

    def top_k(
        self,
        x: Any,
        k: int | None = None,
        *,
        lengths: Any = None,
        sorted: bool = False,
        ids: Any = None,
        values: bool | Any = True,
        **launch: Any,
    ) -> Any:
        """The k largest of each row, of equal ones the lowest indices; returns (ids, values), or ids where values is
        False. Where a row has fewer than k numbers, the rest is -1 and -inf.

        x            [rows, n] f32, f16 or bf16
        k            1 to 2048; may be left to ids' second extent
        lengths      optional [rows] int32: only so many of each row's first are looked at
        sorted       the largest first; else by ascending index
        ids          [rows, k] int32; None: allocated by x's framework
        values       True: made, f32; or [rows, k] f32 or as x"""
        rows = shape_of(x, "x", 2)[0]
        k = shape_of(ids, "ids", 2)[1] if k is None else k
        if ids is None and values is True:
            made = empty_together(x, ((rows, k), "i32", None), ((rows, k), "f32", None))
            if made is not None:
                ids, values = made
        ids = empty((rows, k), x, "ids", "i32") if ids is None else ids
        if isinstance(values, bool):
            values = empty((rows, k), x, "values", "f32") if values else None
        self.call("top_k", launch, x=x, lengths=lengths, ids=ids, values=values, sorted=sorted)
        return ids if values is None else (ids, values)

    def renormalise(self, probs: Any, *, out: Any = None, **given: Any) -> Any:
        """The probabilities that top_k, top_p and min_p leave, over their sum, and 0 for the others; returns out.

        probs        [rows, vocab] f32
        top_k, top_p, min_p    each a number, or an array with one a row: int32, f32, f32
        joint        top-p is of what top-k began with, else of what it leaves
        out          [rows, vocab] f32, may be probs; None: allocated by probs' framework
        status       optional [rows] int32, enum quern_sample_status of each row"""
        out = empty(shape_of(probs, "probs", 2), probs, "out", "f32") if out is None else out
        self.call("renormalise", probs=probs, out=out, **_by_row(given))
        return out

    def verify_draft(
        self,
        target: Any,
        draft_ids: Any,
        draft: Any = None,
        *,
        depth: int | None = None,
        accepted: Any = None,
        ids: Any = None,
        path: Any = None,
        logprobs: bool | Any = False,
        **given: Any,
    ) -> Verified:
        """Which drafts stay, and the token behind them, distributed as if target had drawn them; returns Verified.
        quern.h says how.

        target       [batch, n+1, vocab] f32 probabilities; with logits=True logits, then with temperature, top_k,
                     top_p, min_p, joint as `sample` takes them; with greedy=True either, and f16 or bf16 as with
                     logits=True
        draft_ids    [batch, n] int32
        repetition, presence, frequency, prompt_mask, prompt_tokens, prompt_lengths, output_counts, output_tokens,
        output_lengths, bias_offsets, bias_ids, bias_values, max_bias, banned    with logits=True: as `sample` takes
                     them, of the text before the drafts; a row of target is edited as if those before it were in the
                     output
        allowed      with logits=True: [batch, n+1, ceil(vocab/32)] int32, a bit for each token that may be chosen
        logprobs     with logits=True: True, made and returned; or [batch, depth+1] f32. logprobs_filtered as in
                     `sample`
        draft        [batch, n, vocab] f32 probabilities that they were drawn from; None: they were chosen in some way
        parents      [batch, n] int32: the node that each follows, -1 for the context; None: a chain
        lengths      [batch] int32: how many drafts each sequence has; None: n
        without_replacement    siblings were drawn from one distribution, none twice; else independently
        seed, offset a number, or an array with one a sequence, int64; an array of offsets is raised by one
        depth        the most that are accepted; None: n
        status       optional [batch] int32, enum quern_sample_status of each sequence"""
        batch, n = shape_of(draft_ids, "draft_ids", 2)
        depth = n if depth is None else depth
        accepted = empty((batch,), target, "accepted", "i32") if accepted is None else accepted
        ids = empty((batch, depth + 1), target, "ids", "i32") if ids is None else ids
        path = empty((batch, depth), target, "path", "i32") if path is None else path
        if isinstance(logprobs, bool):
            logprobs = empty((batch, depth + 1), target, "logprobs", "f32") if logprobs else None
        self.call(
            "verify_draft", target=target, draft=draft, draft_ids=draft_ids, accepted=accepted, ids=ids, path=path,
            logprobs=logprobs, **_by_row(given),
        )  # fmt: skip
        return Verified(accepted, ids, path, logprobs)
