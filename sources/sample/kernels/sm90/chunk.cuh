// What a warp does with a chunk of its block's part: from raw logits to those that are sampled from, and what there is
// to know of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sample/kernels/sm90/listed.cuh"

namespace q {

// Lane l has the vectors that place_in_chunk() says, in shared memory as it would in registers.
// 16 bits a logit are copied into the second half of the chunk's place, and widened from there.
inline constexpr i32 kRawAt = sizeof(Logit) == 4 ? 0 : kChunk / 2;

QUERN_DEVICE bool comes_by_vectors(const SampleParams& p, i32 chunk) {
  return p.vectors && (chunk + 1) * kChunk <= p.vocab;
}
// Begins to copy it, as one group of this thread's copies.
QUERN_DEVICE void begin_chunk(const SampleParams& p, const Row& row, const Part& part, i32 c) {
  const i32 chunk = part.first + c;
  if (comes_by_vectors(p, chunk)) {
    // Places of the first, from which the others lie at constant distances.
    Logit* const to = reinterpret_cast<Logit*>(part.slice + c * kChunk + kRawAt) + place_in_chunk(0);
    const Logit* const from = row.logits + (chunk * kChunk + place_in_chunk(0));
    constexpr i32 kStep = kWarp * kVector;
    QUERN_UNROLL for (int j = 0; j < kLoads; ++j) copy_async_16(to + j * kStep, from + j * kStep, true);
  }
  copy_async_commit();
}
// What has been copied becomes f32; what could not be copied is read.
QUERN_DEVICE void widen_chunk(const SampleParams& p, const Row& row, const Part& part, i32 c) {
  const i32 chunk = part.first + c;
  f32* const to = part.slice + c * kChunk;
  if (!comes_by_vectors(p, chunk)) {
    QUERN_FOUR_AT_ONCE for (i32 at = lane(); at < kChunk; at += kWarp) {
      const i32 token = chunk * kChunk + at;
      to[at] = token < p.vocab ? to_f32(row.logits[token]) : -infinity();
    }
    sync_warp();
  } else if constexpr (sizeof(Logit) == 2) {
    const Logit* const from = reinterpret_cast<const Logit*>(to + kRawAt);
    vec16 raw[kLoads];
    QUERN_UNROLL for (int j = 0; j < kLoads; ++j) raw[j] = load16(from + place_in_chunk(j));
    sync_warp();
    QUERN_UNROLL for (int j = 0; j < kLoads; ++j) {
      QUERN_UNROLL for (int h = 0; h < 2; ++h) {
        const f32x2 low = unpack<Logit>(raw[j].x[2 * h]), high = unpack<Logit>(raw[j].x[2 * h + 1]);
        store16(to + place_in_chunk(j) + 4 * h, {{bits_of(low.x), bits_of(low.y), bits_of(high.x), bits_of(high.y)}});
      }
    }
  }
}
struct Vector {
  f32 x[kVector];
};
QUERN_DEVICE Vector load_vector(const f32* from) {
  Vector v;
  QUERN_UNROLL for (int e = 0; e < kVector; e += 4) {
    const vec16 four = load16(from + e);
    QUERN_UNROLL for (int w = 0; w < 4; ++w) v.x[e + w] = f32_of(four.x[w]);
  }
  return v;
}
QUERN_DEVICE void store_vector(f32* to, const Vector& v) {
  QUERN_UNROLL for (int e = 0; e < kVector; e += 4) {
    store16(to + e, {{bits_of(v.x[e]), bits_of(v.x[e + 1]), bits_of(v.x[e + 2]), bits_of(v.x[e + 3])}});
  }
}

// Tells all blocks what there is to know of a chunk of this one's part: a barrier of this block makes it known here.
QUERN_DEVICE void tell_chunk(const Part& part, i32 chunk, const Note& note) {
  const i32 to = lane();
  if (to == part.rank) {
    part.notes[chunk] = note;
  } else if (to < part.blocks) {
    store_async(cluster_address(part.notes + chunk, static_cast<u32>(to)), note,
                cluster_address(&part.desk->noted, static_cast<u32>(to)));
  }
}
// How often the output has the tokens of the vector at `at` of a chunk.
QUERN_DEVICE void load_counts(const SampleParams& p, const Row& row, i32 chunk, i32 at, i32 (&counts)[kVector]) {
  const i32 first = chunk * kChunk + at;
  if (p.count_vectors && (chunk + 1) * kChunk <= p.vocab) {
    QUERN_UNROLL for (int e = 0; e < kVector; e += 4) {
      const vec16 four = load16_once(row.counts + first + e);
      QUERN_UNROLL for (int w = 0; w < 4; ++w) counts[e + w] = static_cast<i32>(four.x[w]);
    }
  } else {
    QUERN_UNROLL for (int e = 0; e < kVector; ++e) counts[e] = first + e < p.vocab ? row.counts[first + e] : 0;
  }
}
// Chunk c of the part: edits it, unless edits wait (`late`). What there is to know of it.
QUERN_DEVICE Note take_chunk(const SampleParams& p, const Row& row, const Part& part, i32 c, bool sums, bool sieves,
                             f32 scale, const ChunkMasks& masks, bool late) {
  const i32 chunk = part.first + c;
  f32* const slice = part.slice + c * kChunk;
  const u32* const listed = part.lists() && !late ? part.marks + c * kGroups : nullptr;
  constexpr u32 kOfLane = (1u << kVector) - 1;
  const bool edits = kEdits && ballot(!late) != 0;
  bool nan = false;
  f32 max = -infinity(), sum = 0.0f, top = -infinity(), middle = 0.0f;
  u32 all_repeated = 0, all_outside = 0, all_listed = 0;
  if constexpr (kEdits) {
    all_outside = ~masks.allowed, all_repeated = masks.prompt;
    if (listed) {
      sync_warp();  // other lanes have written what is listed
      top = settle_listed(row, part, c, masks, &nan);
      if (row.counts && lane() < kGroups) all_listed = listed[lane()];
    }
  }
  QUERN_ROLLED for (int j = 0; j < kLoads; ++j) {
    const i32 at = place_in_chunk(j);
    Vector v = load_vector(slice + at);
    bool changed = false;
    if (edits) {
      // Of what is listed, which is -inf here, nothing becomes anything else.
      const i32 word = at >> 5, shift = at & 31;
      const u32 outside = shuffle(all_outside, word) >> shift & kOfLane;
      u32 repeated = shuffle(all_repeated, word) >> shift & kOfLane;
      i32 counts[kVector] = {};
      u32 counted = 0;
      if (row.counts) {
        load_counts(p, row, chunk, at, counts);
        QUERN_UNROLL for (int e = 0; e < kVector; ++e) counted |= counts[e] > 0 ? 1u << e : 0u;
        counted &= ~(shuffle(all_listed, word) >> shift);
        repeated |= counted;
      }
      if (repeated != 0) {
        QUERN_UNROLL for (int e = 0; e < kVector; ++e) {
          const f32 its = repeat(row, v.x[e]);
          v.x[e] = (repeated >> e & 1) != 0 ? its : v.x[e];
        }
      }
      if (counted != 0) {
        QUERN_UNROLL for (int e = 0; e < kVector; ++e) {
          v.x[e] = (counted >> e & 1) != 0 ? weigh_down(row, v.x[e], counts[e]) : v.x[e];
        }
      }
      if (outside != 0) {
        QUERN_UNROLL for (int e = 0; e < kVector; ++e) v.x[e] = (outside >> e & 1) != 0 ? -infinity() : v.x[e];
      }
      changed = (repeated | outside) != 0;
    }
    bool here = false;
    QUERN_UNROLL for (int e = 0; e < kVector; ++e) here |= v.x[e] != v.x[e];
    if (here) {
      QUERN_UNROLL for (int e = 0; e < kVector; ++e) v.x[e] = fmax(v.x[e], -infinity());
      nan = true;
    }
    if (changed || here) store_vector(slice + at, v);
    QUERN_UNROLL for (int e = 0; e < kVector; ++e) max = fmax(max, v.x[e]);
  }
  const f32 own = max;
  max = value_of(warp_max(key_of(max)));
  top = kEdits && listed ? value_of(warp_max(key_of(fmax(top, max)))) : max;
  if (kFilters && sieves && max > -infinity()) {
    // Half way between the mean of the lanes' largest and the least of them. What weighs nothing does not count.
    const f32 no_lower = fmax(own, max - 41.0f * rcp_approx(scale));
    middle = 0.5f * (sum_of_lanes(no_lower) * (1.0f / kWarp) + value_of(warp_min(key_of(no_lower))));
  }
  if (sums && max > -infinity()) {
    QUERN_TWO_AT_ONCE for (int j = 0; j < kLoads; ++j) {
      const i32 at = place_in_chunk(j);
      const Vector v = load_vector(slice + at);
      QUERN_UNROLL for (int e = 0; e < kVector; ++e) sum += share_in_chunk(v.x[e], max, scale);
    }
    sum = sum_of_lanes(sum);
  }
  if (kEdits && listed) put_listed_back(part, c);
  return {top, max, ballot(nan) != 0 ? -sum : sum, middle};
}
// The same of a chunk in registers, for kernels that neither edit nor keep.
QUERN_DEVICE Note take_loaded_chunk(bool sums, f32 scale, f32 (&x)[kEach]) {
  const bool nan = take_nan_out(x);
  f32 max = x[0], sum = 0.0f;
  QUERN_UNROLL for (int i = 1; i < kEach; ++i) max = fmax(max, x[i]);
  max = value_of(warp_max(key_of(max)));
  if (sums && max > -infinity()) sum = warp_sum(sum_of_shares(x, max, scale));
  return {max, max, nan ? -sum : sum, 0.0f};
}

}  // namespace q
