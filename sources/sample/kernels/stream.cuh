// What every block of a row does: reads its chunks, once, and leaves what there is to know about each.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sample/kernels/edits.cuh"

namespace q {

inline constexpr bool kFilters = FILTERS != 0;

// The temperature of the sums over chunks, and of the filters.
QUERN_DEVICE f32 filter_temperature(const SampleParams& p, i32 i) {
  const bool last = p.temperature_last || read_row(p.dynamic_range, i) > 0.0f;
  const f32 temperature = read_row(p.temperature, i);
  return last && temperature > 0.0f ? 1.0f : temperature;
}

QUERN_DEVICE bool needs_sums(const SampleParams& p, i32 i) {
  if (p.sums != Sums::wanted) return p.sums == Sums::all;
  if (read_row(p.temperature, i) == 0.0f) return false;
  if constexpr (kFilters) {
    const i32 k = read_row(p.top_k, i);
    const bool by_count = k > 0 && k <= kMostListed && k < p.vocab, share = read_row(p.top_p, i) < 1.0f;
    if (share) return !(k > 0 && k < p.vocab) && !(read_row(p.min_p, i) > 0.0f);
    return !by_count && !(read_row(p.min_p, i) > 0.0f);
  }
  return true;
}

// The largest logit of each group, in the lane that group_of_lane says: of 32/kVector neighbouring lanes each ends with
// one load's, half of the loads being handed over at each step.
QUERN_DEVICE f32 reduce_groups(f32 (&of_load)[kLoads]) {
  constexpr int kSharers = kGroup / kVector;
  int n = kLoads;
  QUERN_UNROLL for (int d = 1; d < kSharers; d *= 2) {
    if (n > 1) {
      n /= 2;
      QUERN_UNROLL for (int i = 0; i < kLoads / 2; ++i) {
        if (i >= n) continue;
        const bool upper = (lane() & d) != 0;
        const f32 keep = upper ? of_load[i + n] : of_load[i], give = upper ? of_load[i] : of_load[i + n];
        of_load[i] = fmax(keep, shuffle_xor(give, d));
      }
    } else {
      of_load[0] = fmax(of_load[0], shuffle_xor(of_load[0], d));
    }
  }
  return of_load[0];
}
QUERN_DEVICE i32 group_of_lane() {
  constexpr int kSharers = kGroup / kVector;
  i32 load = 0, n = kLoads;
  QUERN_UNROLL for (int d = 1; d < kSharers; d *= 2) {
    n /= 2;
    if (n > 0 && (lane() & d) != 0) load += n;
  }
  return load * (kWarp / kSharers) + lane() / kSharers;
}

// Makes NaN -inf. Whether there was one in the warp's chunk.
QUERN_DEVICE bool take_nan_out(f32 (&x)[kEach]) {
  bool nan = false;
  QUERN_UNROLL for (int i = 0; i < kEach; ++i) nan |= x[i] != x[i];
  nan = ballot(nan) != 0;
  if (nan) {
    QUERN_UNROLL for (int i = 0; i < kEach; ++i) x[i] = fmax(x[i], -infinity());
  }
  return nan;
}
// 2^((x - max) scale), with what is NaN, of two infinities, as 1.
QUERN_DEVICE f32 share_in_chunk(f32 x, f32 max, f32 scale) { return share_of_largest(max, x, scale); }
// A lane's part of their sum; max > -inf.
QUERN_DEVICE f32 sum_of_shares(const f32 (&x)[kEach], f32 max, f32 scale) {
  f32 sum = 0.0f;
  QUERN_UNROLL for (int i = 0; i < kEach; ++i) sum += share_in_chunk(x[i], max, scale);
  return sum;
}

QUERN_DEVICE void stream_chunk(const SampleParams& p, const Row& row, i32 chunk, bool sums, f32 scale,
                               const u32* listed) {
  f32 x[kEach];
  load_chunk(row, chunk * kChunk, p.vocab, p.vectors, x);
  if constexpr (kEdits) edit_chunk(p, row, chunk * kChunk, listed, x);
  const bool nan = take_nan_out(x);
  f32 of_load[kLoads];
  QUERN_UNROLL for (int j = 0; j < kLoads; ++j) {
    of_load[j] = -infinity();
    QUERN_UNROLL for (int e = 0; e < kVector; ++e) of_load[j] = fmax(of_load[j], x[j * kVector + e]);
  }
  f32 max;
  if constexpr (kFilters) {
    max = reduce_groups(of_load);
    const i64 at = (static_cast<i64>(row.i) * p.chunks + chunk) * kGroups + group_of_lane();
    p.group_keys[at] = key_of(max);
  } else {
    max = of_load[0];
    QUERN_UNROLL for (int j = 1; j < kLoads; ++j) max = fmax(max, of_load[j]);
  }
  ChunkStats stats{};
  stats.max = max = warp_max(max);
  stats.has_nan = nan;
  if (sums && max > -infinity()) stats.sum = warp_sum(sum_of_shares(x, max, scale));
  if (kFilters && p.sigmas) {
    f64 from_max = 0, squares = 0;
    u32 alive = 0;
    const f32 base = max < infinity() ? max : 0.0f;
    QUERN_UNROLL for (int i = 0; i < kEach; ++i) {
      if (fabs(x[i]) < infinity()) {
        const f64 d = static_cast<f64>(x[i]) - base;
        from_max += d, squares += d * d, ++alive;
      }
    }
    stats.from_max = warp_sum(from_max), stats.squares = warp_sum(squares), stats.alive = warp_sum(alive);
  }
  if (lane() == 0) p.stats[static_cast<i64>(row.i) * p.chunks + chunk] = stats;
}

// Chunks block, block + 1, ... of the row: a warp each, one after the other.
QUERN_DEVICE void stream(const SampleParams& p, const Row& row, i32 first_chunk) {
  const i32 rest = p.chunks - first_chunk, count = rest < p.chunks_per_block ? rest : p.chunks_per_block;
  u32* listed = nullptr;
  if (kEdits && p.slots != 0) {
    listed = reinterpret_cast<u32*>(dynamic_shared());
    mark_listed(p, row.i, first_chunk, count, listed);
  }
  constexpr f32 kLog2E = 1.44269504088896341f;
  const f32 scale = inverse_of(filter_temperature(p, row.i)) * kLog2E;
  const bool sums = needs_sums(p, row.i);
  QUERN_ROLLED for (i32 c = warp(); c < count; c += kThreads / kWarp) {
    stream_chunk(p, row, first_chunk + c, sums, scale, listed ? listed + c * kGroups : nullptr);
  }
}

}  // namespace q
