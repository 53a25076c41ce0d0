// A row that is read again by the blocks of its cluster, each its part of it: its vectors, and how logits are
// weighed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sample/kernels/sm90/candidates.cuh"

namespace q {

inline constexpr f32 kMagic = 0x1p23f;  // x + kMagic has the integer nearest to x in its low bits
static_assert(kSpots % kThreads == 0);
inline constexpr int kOwnBins = kSpots / kThreads;

// What is known of a row.
struct RowSums {
  f32 max, scale;
  u64 total;  // of the weights, where they were asked for
};
// How tokens are weighed.
struct Scope {
  f32 max, scale;
  QUERN_DEVICE u64 weigh(f32 x) const { return to_units(exp2(exponent_of(max, x, scale))); }
};

// The vector of a row's logits that begins at `at`, of a lane of the warp that has them from there on; `raw` holds it
// where it is `there`. As edited; what a row has beyond its end is -inf.
QUERN_DEVICE void load_vector(const SampleParams& p, const Row& row, const Part& part, i32 at, bool there,
                              const vec16& raw, f32 (&x)[kVector]) {
  if (there) {
    QUERN_UNROLL for (int w = 0; w < 4; ++w) {
      if constexpr (sizeof(Logit) == 4) {
        x[w] = f32_of(raw.x[w]);
      } else {
        const f32x2 pair = unpack<Logit>(raw.x[w]);
        x[2 * w] = pair.x, x[2 * w + 1] = pair.y;
      }
    }
  } else {
    QUERN_UNROLL for (int e = 0; e < kVector; ++e) x[e] = at + e < p.vocab ? to_f32(row.logits[at + e]) : -infinity();
  }
  if constexpr (kEdits) {
    const i32 begin = at & ~(kChunk - 1), within = at - begin, local = at - part.named.begin;
    const u32* const listed = part.names() ? part.named.marks + (begin - part.named.begin) / kGroup : nullptr;
    edit_vector(p, row, begin, within / (kWarp * kVector), load_masks(row, begin, p.vocab), listed, x);
    const u32 bits = listed ? part.named.bits_at(local) & ((1u << kVector) - 1) : 0u;
    if (bits != 0) {
      const f32* value = part.named.values + part.named.rank_of(local);
      QUERN_UNROLL for (int e = 0; e < kVector; ++e) {
        if ((bits >> e & 1) != 0) x[e] = *value++;
      }
    }
  }
}

}  // namespace q
