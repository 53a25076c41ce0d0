# quern as the attention of transformers' models.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

from .context import Context
from .errors import InvalidError


def register(context: Context, name: str = "quern") -> None:
    """Makes `context.attention` known to transformers (4.53 or newer; tried with 5.23): models that are loaded with
    attn_implementation=name use it from then on, in f16 or bf16, on the context's device, without gradients.

    Grouped heads, windows, soft caps, sinks and padding on either side are what they are in transformers; of masks
    those are taken that say which keys are padding. `context` must stay open as long as such a model is used."""
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface, flash_attention_mask

    def attention(
        module: Any,
        query: Any,
        key: Any,
        value: Any,
        attention_mask: Any,
        *,
        scaling: float | None = None,
        dropout: float = 0.0,
        sliding_window: int | None = None,
        softcap: float | None = None,
        is_causal: bool | None = None,
        s_aux: Any = None,
        **others: Any,
    ) -> tuple[Any, None]:
        """query [batch, heads, queries, d], key and value [batch, kv_heads, keys, d]; what transformers' own functions
        of this kind return: [batch, queries, heads, d], and None in place of the weights."""
        if dropout != 0.0:
            raise InvalidError(f"dropout: {dropout} given; allowed is 0: quern has no gradients")
        for packed in ("cu_seq_lens_q", "cu_seq_lens_k"):
            if others.get(packed) is not None:
                raise InvalidError(f"{packed}: packed sequences are not taken")
        causal = module.is_causal if is_causal is None else is_causal
        given = {
            "causal": causal, "scale": scaling, "logit_cap": softcap,
            "sinks": None if s_aux is None else s_aux.float(),
            "window_left": None if sliding_window is None else sliding_window - 1,
            "window_right": None if sliding_window is None or causal else sliding_window - 1,
        }  # fmt: skip
        return _ragged(context, query, key, value, attention_mask, given), None

    AttentionInterface.register(name, attention)
    # None where no key is padding, else which keys are not: [batch, keys].
    AttentionMaskInterface.register(name, flash_attention_mask)


def _ragged(context: Context, query: Any, key: Any, value: Any, mask: Any, given: dict[str, Any]) -> Any:
    import torch

    # transformers has the heads in front of the tokens.
    query, key, value = (x.transpose(1, 2) for x in (query, key, value))
    batch, queries, keys = query.shape[0], query.shape[1], key.shape[1]
    if mask is None:
        lengths = torch.full((batch,), keys, dtype=torch.int32, device=query.device)
        counts = torch.full_like(lengths, queries)
        q, k, v = (x.reshape(-1, *x.shape[2:]) for x in (query, key, value))
    else:
        if mask.ndim != 2 or mask.shape[0] != batch or mask.shape[1] > keys:
            raise InvalidError(f"attention_mask: shape {list(mask.shape)} given; allowed is [{batch}, at most {keys}]")
        there = mask.bool()
        asked = there[:, -queries:]
        key, value = key[:, : there.shape[1]], value[:, : there.shape[1]]
        lengths, counts = there.sum(1, dtype=torch.int32), asked.sum(1, dtype=torch.int32)
        q, k, v = query[asked], key[there], value[there]
    result = context.attention(
        q, k, v, lengths=lengths, cu_q=_begins(counts), cu_kv=_begins(lengths), max_q_len=queries, max_kv_len=keys,
        **given,
    )  # fmt: skip
    if mask is None:
        return result.view(batch, queries, *result.shape[1:])
    out = result.new_zeros(batch, queries, *result.shape[1:])
    out[asked] = result
    return out


def _begins(counts: Any) -> Any:
    """Where each of them begins, if they lie one behind the other, and the end of the last."""
    import torch

    return torch.nn.functional.pad(counts.cumsum(0, dtype=torch.int32), (1, 0))
