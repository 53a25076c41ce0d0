// The custom mask: bits that say which of a sequence's last keys a query may see, beside what causal and the windows
// leave.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attention/kernels/shared/problem.cuh"

namespace q {

// One sequence's.
struct CustomMask {
  const u8* rows;
  i32 row_bytes;
  i32 first;  // key of bit 0 of every row; beyond all keys where there is no mask
};
QUERN_DEVICE CustomMask custom_mask(const AttentionParams& p, const Sequence& s) {
  CustomMask m{nullptr, 0, kUnbounded};
  if constexpr (kCustomMask) {
    const i32 keys = p.mask_keys[s.index];
    if (keys > 0) {
      m.rows = p.mask + p.mask_indptr[s.index];
      m.row_bytes = (keys + 7) / 8;
      m.first = s.kv_len - keys;
    }
  } else {
    (void)p, (void)s;
  }
  return m;
}

// Of 16 keys from `key` on, those that query `query` of the sequence may see, as bits; keys before the mask's are all
// seen.
QUERN_DEVICE u32 mask_bits(const CustomMask& m, i32 query, i32 key) {
  const i32 bit = key - m.first, byte = bit >> 3;  // both may be negative
  const u8* row = m.rows + static_cast<i64>(query) * m.row_bytes;
  u32 word = 0;
  QUERN_UNROLL for (int i = 0; i < 3; ++i) {
    const i32 at = byte + i;
    const u32 eight = at < 0 ? 0xffu : at < m.row_bytes ? row[at] : 0u;
    word |= eight << 8 * i;
  }
  return word >> (bit & 7);
}

// Whether row `row` of a KV head of the sequence sees key `key`.
QUERN_DEVICE bool sees(const AttentionParams& p, const Sequence& s, const CustomMask& m, i32 row, i32 key) {
  const Range seen = visible(p, s, row);
  if (row >= s.q_len * kGroup || key < seen.first || key >= seen.last) return false;
  return !kCustomMask || key < m.first || (mask_bits(m, row / kGroup, key) & 1) != 0;
}

}  // namespace q
