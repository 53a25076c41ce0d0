// The threads of a head: which elements each holds, and turning them (Su et al., "RoFormer: enhanced transformer with
// rotary position embedding", 2021).
//
// A head's elements are vectors of kWidth. A unit is two vectors whose elements are turned together, or two that are
// not turned; kLanes neighbouring lanes, a team, share a head's units. The elements of a unit are x[0 .. 2 kWidth - 1],
// and its pair i, which is pair unit * kWidth + i of the head, is
//   x[i], x[kWidth + i]    where dimensions i and i + kRotary / 2 turn together
//   x[2i], x[2i + 1]       where they are interleaved
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rope/params.cuh"
#include "rope/vectors.cuh"

namespace q {

template <int kDim, int kRotary, int kWidth, bool kInterleaved>
struct Head {
  static constexpr int kVectors = kDim / kWidth;
  static constexpr int kPaired =
      kInterleaved ? kVectors / 2 : kRotary / 2 / kWidth;         // units whose two vectors are pairs
  static constexpr int kRest = (kVectors - 2 * kPaired + 1) / 2;  // units of what is left
  static constexpr int kUnits = kPaired + kRest;
  static constexpr int kPairs = kRotary / 2;
  static_assert(kDim % kWidth == 0);
  static_assert(kInterleaved ? kVectors % 2 == 0 : kPairs % kWidth == 0);

  // The unit's vectors; the second may not exist.
  static QUERN_DEVICE int first(int unit) {
    if (kInterleaved) return 2 * unit;
    return unit < kPaired ? unit : unit + kPaired;
  }
  static QUERN_DEVICE int second(int unit) {
    if (kInterleaved) return 2 * unit + 1;
    return unit < kPaired ? unit + kPaired : unit + kPaired + kRest;
  }
};

struct Turn {
  f32 cosine, sine;
};

// Of an angle in units of 2^-32 of a full turn. The rest of the nearest quarter lies within pi/4 of 0, where these
// terms of the Taylor series are exact to 2^-28.
QUERN_DEVICE Turn turn_of(u32 phase) {
  const u32 quarter = (phase + 0x20000000u) >> 30;
  const f32 x = static_cast<f32>(static_cast<i32>(phase - (quarter << 30))) * 0x1.921fb6p-30f;  // 2 pi / 2^32
  const f32 y = x * x;
  const f32 s = fma(y, fma(y, fma(y, 1.0f / 362880.0f, -1.0f / 5040.0f), 1.0f / 120.0f), -1.0f / 6.0f);
  const f32 c =
      fma(y, fma(y, fma(y, fma(y, -1.0f / 3628800.0f, 1.0f / 40320.0f), -1.0f / 720.0f), 1.0f / 24.0f), -0.5f);
  const f32 sine = fma(x * y, s, x), cosine = fma(y, c, 1.0f);
  const bool swapped = (quarter & 1) != 0;
  const f32 first = swapped ? sine : cosine, second = swapped ? cosine : sine;
  return {f32_of(bits_of(first) ^ ((quarter + 1) & 2) << 30), f32_of(bits_of(second) ^ (quarter & 2) << 30)};
}

// The angle of a pair at a position. What is a multiple of a turn falls away by itself.
QUERN_DEVICE u32 phase_of(u64 frequency, i64 position) {
  return static_cast<u32>(static_cast<u64>(position) * frequency >> 32);
}

// What turns the pairs of a unit.
template <int kWidth>
struct UnitTurns {
  Turn x[kWidth];
};
enum class TableOf { none, f32_, f16_, bf16_ };
template <class T, class H, int kWidth>
QUERN_DEVICE UnitTurns<kWidth> turns_from_table(const Rope& rope, i64 position, int unit) {
  UnitTurns<kWidth> turns;
  const i64 row = position >= 0 && position < rope.table_positions ? position : -1;
  const T* cosines = static_cast<const T*>(rope.table) + row * rope.table_stride;
  QUERN_UNROLL for (int i = 0; i < kWidth; ++i) {
    const int pair = unit * kWidth + i;
    turns.x[i] = {1.0f, 0.0f};
    if (row >= 0 && pair < H::kPairs) turns.x[i] = {to_f32(cosines[pair]), to_f32(cosines[H::kPairs + pair])};
  }
  return turns;
}
template <class H, int kWidth>
QUERN_DEVICE UnitTurns<kWidth> turns_computed(const Rope& rope, i64 position, int unit) {
  UnitTurns<kWidth> turns;
  QUERN_UNROLL for (int i = 0; i < kWidth; ++i) {
    const int pair = unit * kWidth + i;
    const Turn turn = turn_of(phase_of(rope.frequency[pair < H::kPairs ? pair : 0], position));
    turns.x[i] = {turn.cosine * rope.factor, turn.sine * rope.factor};
  }
  return turns;
}

// Turns a unit's pairs; pairs past the last one that turns stay as they are.
template <class H, int kWidth, bool kInterleaved>
QUERN_DEVICE void turn_unit(const UnitTurns<kWidth>& turns, int unit, f32 (&x)[2 * kWidth]) {
  QUERN_UNROLL for (int i = 0; i < kWidth; ++i) {
    const int one = kInterleaved ? 2 * i : i, other = kInterleaved ? 2 * i + 1 : kWidth + i;
    const f32 a = x[one], b = x[other];
    const bool turns_at_all = unit * kWidth + i < H::kPairs;
    const f32 new_a = fma(-b, turns.x[i].sine, a * turns.x[i].cosine),
              new_b = fma(a, turns.x[i].sine, b * turns.x[i].cosine);
    x[one] = turns_at_all ? new_a : a;
    x[other] = turns_at_all ? new_b : b;
  }
}

}  // namespace q
