// Joins many partial results of attention over disjoint keys, weighing each by its share of the joint sum, in one pass:
// the sum so far is rescaled whenever the largest log-sum-exp grows (Milakov and Gimelshein, "Online normalizer
// calculation for softmax", 2018). The time is that of reading the parts, so those of a thread's eight elements are
// loaded several at once.
// SPDX-License-Identifier: Apache-2.0
#include "common/eight.cuh"
#include "merge_states/params.cuh"

namespace q {

using Element = ELEMENT;  // f16, bf16 or f32
inline constexpr int kThreads = THREADS;
inline constexpr int kGroup = 8;                              // elements that a thread takes at once
inline constexpr int kAtOnce = sizeof(Element) == 4 ? 2 : 4;  // parts

struct Joint {
  f32 max = -infinity(), sum = 0.0f;
  Eight values = {};

  // A part that saw no key is left out, whatever stands in it.
  QUERN_DEVICE void add(f32 lse, const Eight& part) {
    const f32 grown = fmax(max, lse), base = grown == -infinity() ? 0.0f : grown;
    const f32 before = exp2(max - base), weight = exp2(lse - base);
    sum = fma(sum, before, weight);
    max = grown;
    QUERN_UNROLL for (int c = 0; c < kGroup; ++c) {
      const f32 rest = values.x[c] * before;
      values.x[c] = weight == 0.0f ? rest : fma(part.x[c], weight, rest);
    }
  }
};

QUERN_DEVICE void merge(const MergeStatesParams& p) {
  constexpr f32 kLog2E = 1.44269504088896341f, kLn2 = 0.69314718055994531f;
  const i64 step = static_cast<i64>(block_count(0)) * kThreads;
  for (i64 i = static_cast<i64>(block_index(0)) * kThreads + thread_index(); i < p.groups; i += step) {
    const i32 row_head = static_cast<i32>(i) / p.groups_per_row;
    const i32 column = (static_cast<i32>(i) - row_head * p.groups_per_row.value) * kGroup;
    const i32 row = row_head / p.heads, head = row_head - row * p.heads.value;
    const Element* part =
        static_cast<const Element*>(p.parts) + row * p.part_stride_row + head * p.part_stride_head + column;
    const f32* lse = p.lses + row * p.lses_stride_row + head * p.lses_stride_head;
    Joint joint;
    QUERN_ROLLED for (i32 first = 0; first < p.count; first += kAtOnce) {
      PackedEight<Element> loaded[kAtOnce];
      f32 lses[kAtOnce];
      QUERN_UNROLL for (int j = 0; j < kAtOnce; ++j) {
        const bool there = first + j < p.count;
        const i64 at = there ? first + j : first;  // beyond the last one the first is read again, and not counted
        lses[j] = there ? lse[at * p.lses_stride] * kLog2E : -infinity();
        loaded[j] = load_eight(part + at * p.part_stride);
      }
      QUERN_UNROLL for (int j = 0; j < kAtOnce; ++j) joint.add(lses[j], widen(loaded[j]));
    }
    // A NaN among the log-sum-exps makes the sum NaN, and so the row.
    const f32 inverse = joint.sum == 0.0f ? 0.0f : rcp(joint.sum);
    QUERN_UNROLL for (int c = 0; c < kGroup; ++c) joint.values.x[c] *= inverse;
    store_eight(static_cast<Element*>(p.out) + row * p.out_stride_row + head * p.out_stride_head + column,
                narrow<Element>(joint.values));
    if (column == 0 && p.lse) {
      p.lse[row * p.lse_stride_row + head * p.lse_stride_head] =
          joint.sum == 0.0f ? -infinity() : (joint.max + log2(joint.sum)) * kLn2;
    }
  }
}

}  // namespace q

QUERN_KERNEL(quern_merge_states, THREADS, 1, QUERN_PARAM q::MergeStatesParams p) {
  q::launch_next_grid();
  q::wait_for_previous_grid();
  q::merge(p);
}
