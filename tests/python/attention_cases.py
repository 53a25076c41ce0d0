# Paged attention for the tests of every framework: random cases in plain NumPy, and the fp64 loop that is the truth.
# SPDX-License-Identifier: Apache-2.0
from dataclasses import dataclass, field

import numpy as np


@dataclass
class Case:
    """Sequences whose keys lie scattered over the pages of a pool; whatever belongs to none is NaN."""

    q_lens: list[int]
    lengths: list[int]
    heads: int = 4
    kv_heads: int = 2
    d_k: int = 64
    d_v: int = 64
    page_size: int = 16
    causal: bool = True
    options: dict = field(default_factory=dict)  # window_left, logit_cap, ...
    alibi_slopes: np.ndarray | None = None
    sinks: np.ndarray | None = None

    def make(self, rng, dtype):
        """Fills q, k, v, page_table, cu_q and the truth, out and lse."""
        pages = [-(-length // self.page_size) for length in self.lengths]
        order = rng.permutation(sum(pages) + 3)
        self.page_table = np.full((len(pages), max(1, *pages)), 2**30, np.int32)
        shape = (len(order), self.page_size, self.kv_heads)
        self.k = np.full((*shape, self.d_k), np.nan, dtype)
        self.v = np.full((*shape, self.d_v), np.nan, dtype)
        self.cu_q = np.cumsum([0, *self.q_lens]).astype(np.int32)
        self.length_array = np.array(self.lengths, np.int32)
        self.q = rng.standard_normal((self.cu_q[-1], self.heads, self.d_k), np.float32).astype(dtype)
        self.out = np.zeros((self.cu_q[-1], self.heads, self.d_v))
        self.lse = np.full((self.cu_q[-1], self.heads), -np.inf)
        for sequence, (length, count) in enumerate(zip(self.lengths, pages, strict=True)):
            taken, order = order[:count], order[count:]
            self.page_table[sequence, :count] = taken
            k = rng.standard_normal((length, self.kv_heads, self.d_k), np.float32).astype(dtype)
            v = rng.standard_normal((length, self.kv_heads, self.d_v), np.float32).astype(dtype)
            for j in range(length):
                self.k[taken[j // self.page_size], j % self.page_size] = k[j]
                self.v[taken[j // self.page_size], j % self.page_size] = v[j]
            self._truth(sequence, k.astype(np.float64), v.astype(np.float64))
        return self

    def _truth(self, sequence, k, v):
        length, q_len, begin = self.lengths[sequence], self.q_lens[sequence], self.cu_q[sequence]
        scale = self.options.get("scale") or self.d_k**-0.5
        cap, left, right = (self.options.get(name) for name in ("logit_cap", "window_left", "window_right"))
        for i in range(q_len):
            position = length - q_len + i
            keys = np.arange(length)
            seen = np.ones(length, bool)
            if self.causal:
                seen &= keys <= position
            if left is not None:
                seen &= keys >= position - left
            if right is not None:
                seen &= keys <= position + right
            for head in range(self.heads):
                group = head // (self.heads // self.kv_heads)
                s = scale * (k[seen, group] @ self.q[begin + i, head].astype(np.float64))
                if cap:
                    s = cap * np.tanh(s / cap)
                if self.alibi_slopes is not None:
                    s = s + self.alibi_slopes[head] * (keys[seen] - position)
                terms = s if self.sinks is None else np.append(s, self.sinks[head])
                if terms.size:
                    top = terms.max()
                    self.lse[begin + i, head] = lse = top + np.log(np.exp(terms - top).sum())
                    self.out[begin + i, head] = np.exp(s - lse) @ v[seen, group]

    def arguments(self, convert=lambda array: array):
        """Keyword arguments of Context.attention, each array through `convert`."""
        tensors = {"lengths": self.length_array, "page_table": self.page_table}
        if any(q_len != 1 for q_len in self.q_lens):
            tensors["cu_q"] = self.cu_q
        if self.alibi_slopes is not None:
            tensors["alibi_slopes"] = self.alibi_slopes
        if self.sinks is not None:
            tensors["sinks"] = self.sinks
        converted = {name: convert(array) for name, array in tensors.items()}
        return {**converted, "causal": self.causal, **self.options}

    def check(self, out, lse, unit):
        """Against the truth; `unit`: the relative rounding error of the working precision. The products' weights and
        the result are each rounded to it once, so four units of the largest value bound the error."""
        largest = max(1.0, float(np.nanmax(np.abs(self.v.astype(np.float64)), initial=0.0)))
        np.testing.assert_allclose(np.asarray(out, np.float64), self.out, rtol=0, atol=4 * unit * largest)
        np.testing.assert_array_equal(np.isinf(lse), np.isinf(self.lse))
        finite = np.isfinite(self.lse)
        np.testing.assert_allclose(np.asarray(lse, np.float64)[finite], self.lse[finite], rtol=0, atol=1e-4)


def cases():
    """One of each kind, by name."""
    slopes = np.array([0.5, 0.25, 0.125, 0.0625], np.float32)
    return {
        "decode": Case([1, 1, 1], [37, 1, 300], causal=False),
        "an empty sequence": Case([1, 1, 1], [16, 0, 5]),
        "chunked prefill": Case([5, 1, 0, 20], [40, 9, 7, 20]),
        "a page size of one": Case([2, 1], [19, 33], page_size=1),
        "heads of their own": Case([3, 1], [33, 64], heads=3, kv_heads=3, d_k=40, d_v=72, page_size=8),
        "seven heads a group": Case([1, 1], [65, 130], heads=7, kv_heads=1, d_k=128, d_v=128),
        "a window": Case([6, 1], [50, 90], options={"window_left": 13}),
        "a window on both sides": Case([6], [50], causal=False, options={"window_left": 0, "window_right": 3}),
        "cap and scale": Case([4], [40], options={"logit_cap": 5.0, "scale": 0.3}),
        "ALiBi": Case([4, 1], [40, 77], alibi_slopes=slopes),
        "sinks": Case([4, 1], [40, 0], sinks=slopes - 0.2),
    }
