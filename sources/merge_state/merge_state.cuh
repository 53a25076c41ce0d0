// Joins two partial results of attention over disjoint keys, weighing each by its share of the joint sum (Dao et al.,
// "FlashAttention", 2022, section 3.1, the algebra of tiled softmax).
// SPDX-License-Identifier: Apache-2.0
#include "common/eight.cuh"
#include "merge_state/params.cuh"

namespace q {

using Element = ELEMENT;  // f16, bf16 or f32
inline constexpr int kThreads = THREADS;
inline constexpr int kGroup = 8;  // elements that a thread takes at once

QUERN_DEVICE void merge(const MergeStateParams& p) {
  constexpr f32 kLog2E = 1.44269504088896341f, kLn2 = 0.69314718055994531f;
  const i32 groups_per_row = p.dim / kGroup;
  const i64 step = static_cast<i64>(block_count(0)) * kThreads;
  for (i64 i = static_cast<i64>(block_index(0)) * kThreads + thread_index(); i < p.groups; i += step) {
    const i64 row_head = i / groups_per_row;
    const i32 column = static_cast<i32>(i % groups_per_row) * kGroup;
    const i64 row = row_head / p.heads, head = row_head % p.heads;
    const f32 lse_a = p.lse_a[row * p.lse_a_stride_row + head * p.lse_a_stride_head] * kLog2E;
    const f32 lse_b = p.lse_b[row * p.lse_b_stride_row + head * p.lse_b_stride_head] * kLog2E;
    const f32 max = fmax(lse_a, lse_b);
    // Where neither saw a key, both weights are 0 and the log of their sum is -inf. A part without keys is not read
    // into the sum: whatever stands there may be NaN.
    const f32 base = max == -infinity() ? 0.0f : max;
    const f32 weight_a = exp2(lse_a - base), weight_b = exp2(lse_b - base), sum = weight_a + weight_b;
    const f32 inverse = sum > 0.0f ? rcp(sum) : 0.0f;
    const Eight a = widen(
        load_eight(static_cast<const Element*>(p.out_a) + row * p.a_stride_row + head * p.a_stride_head + column));
    const Eight b = widen(
        load_eight(static_cast<const Element*>(p.out_b) + row * p.b_stride_row + head * p.b_stride_head + column));
    Eight joined;
    QUERN_UNROLL for (int c = 0; c < kGroup; ++c) {
      const f32 from_a = weight_a > 0.0f ? a.x[c] * (weight_a * inverse) : 0.0f;
      joined.x[c] = weight_b > 0.0f ? fma(b.x[c], weight_b * inverse, from_a) : from_a;
    }
    store_eight(static_cast<Element*>(p.out) + row * p.out_stride_row + head * p.out_stride_head + column,
                narrow<Element>(joined));
    if (column == 0 && p.lse)
      p.lse[row * p.lse_stride_row + head * p.lse_stride_head] = sum > 0.0f ? (max + log2(sum)) * kLn2 : -infinity();
  }
}

}  // namespace q

QUERN_KERNEL(quern_merge_state, THREADS, 1, QUERN_PARAM q::MergeStateParams p) {
  q::launch_next_grid();
  q::wait_for_previous_grid();
  q::merge(p);
}
