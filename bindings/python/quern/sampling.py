# Sampling: from logits to tokens, making the outputs that are not given.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any, NamedTuple

from .arrays import empty, shape_of
from .ops import Ops

# What is no array of values a row: asking whether it has a method that it lacks takes longer.
_NUMBERS = (float, int, bool, type(None))
# A parameter, and what it is called as an array with a value a row.
_BY_ROW = {
    "temperature": "temperatures", "top_k": "top_ks", "top_p": "top_ps", "min_p": "min_ps", "typical_p": "typical_ps",
    "n_sigma": "n_sigmas", "xtc_probability": "xtc_probabilities", "xtc_threshold": "xtc_thresholds",
    "dynamic_range": "dynamic_ranges", "dynamic_exponent": "dynamic_exponents", "repetition": "repetitions",
    "presence": "presences", "frequency": "frequencies", "seed": "seeds", "offset": "offsets",
}  # fmt: skip


def _by_row(given: dict[str, Any]) -> dict[str, Any]:
    """Parameters that are arrays under the names of arrays."""
    return {
        _BY_ROW.get(name, name) if type(value) not in _NUMBERS and hasattr(value, "__dlpack__") else name: value
        for name, value in given.items()
    }


class Samples(NamedTuple):
    """A token of each row, and what was asked for besides; None where it was not."""

    ids: Any  # [n] int32, -1 where nothing is left
    logprobs: Any  # [n] f32
    top_ids: Any  # [n, top_n] int32
    top_logprobs: Any  # [n, top_n] f32
    status: Any  # [n] int32, enum quern_sample_status


class Sampling(Ops):
    """Mixed into Context. Of what every op takes besides see Ops."""

    def sample(
        self,
        logits: Any,
        *,
        ids: Any = None,
        logprobs: bool | Any = False,
        top_n: int = 0,
        status: bool | Any = False,
        rows: Any = None,
        **given: Any,
    ) -> Samples:
        """One token for each row, in one launch; returns Samples. quern.h has the formulas, in the order they apply.

        logits         [rows, vocab] f32, f16 or bf16
        temperature, top_k, top_p, min_p, typical_p, n_sigma, xtc_probability, xtc_threshold, dynamic_range,
        dynamic_exponent, repetition, presence, frequency, seed, offset    each a number, or an array with one a row:
                       f32, top_k int32, seed and offset int64; an array of offsets is raised by one
        joint, temperature_last, logprobs_filtered    True: see enum quern_sample_flags
        prompt_mask, prompt_tokens, prompt_lengths, output_counts, output_tokens, output_lengths, bias_offsets,
        bias_ids, bias_values, max_bias, allowed, banned    as in quern.h
        rows           [n] int32: which rows of logits; None: all
        logprobs, status, top_n    True and a number: made and returned; arrays are written to
        ids            [n] int32 or int64; None: allocated by logits' framework, int32"""
        n = shape_of(logits if rows is None else rows, "logits" if rows is None else "rows", 2 if rows is None else 1)[
            0
        ]
        ids = empty((n,), logits, "ids", "i32") if ids is None else ids
        made = {"logprobs": logprobs, "status": status}
        for name, kind in (("logprobs", "f32"), ("status", "i32")):
            if isinstance(made[name], bool):
                made[name] = empty((n,), logits, name, kind) if made[name] else None
        top_ids, top_logprobs = given.pop("top_ids", None), given.pop("top_logprobs", None)
        if top_n:
            top_ids = empty((n, top_n), logits, "top_ids", "i32") if top_ids is None else top_ids
            top_logprobs = empty((n, top_n), logits, "top_logprobs", "f32") if top_logprobs is None else top_logprobs
        given = _by_row(given)
        given.update(made)
        self.call("sample", given, logits=logits, rows=rows, ids=ids, top_ids=top_ids, top_logprobs=top_logprobs)
        return Samples(ids, made["logprobs"], top_ids, top_logprobs, made["status"])
