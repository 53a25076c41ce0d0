// The scales and zero points that belong to the numbers of a and b, as the kernels of every target take them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gemm/kernels/shared/source.cuh"
#include "quantized_gemm/kernels/shared/numbers.cuh"
#include "quantized_gemm/params.cuh"

namespace q {

// Scales in groups of 16 are multiplied into runs, as a product of runs has two groups; larger groups' sums are scaled.
inline constexpr bool kScaledRuns = kGroup == 16, kScaledSums = kGroup > 16;

// Multiplies a run by the scale of its group.
template <class Code, class Scale>
QUERN_DEVICE void scale_run(u32 (&run)[2 * sizeof(Multiplied)], f32 scale) {
  if constexpr (!kIntegers) {
    QUERN_UNROLL for (u32& word : run) {
      if constexpr (kExactTimes<Code, Scale>) {
        word = fma_pairs<Multiplied>(word, both<Multiplied>(scale), 0u);
      } else {
        const f32x2 two = unpack<Multiplied>(word);
        word = pack<Multiplied>(two.x * scale, two.y * scale);
      }
    }
  }
}

// What whole sums are multiplied by: scales of the tensors, those that lines have for all of their k, and what the
// multiplied numbers stand for.
QUERN_DEVICE f32 scale_of_all(const QuantizedParams& p) {
  f32 all = kUnitOf<CodeA, Multiplied> * kUnitOf<CodeB, Multiplied>;
  if (p.tensor_scale_a) all *= *p.tensor_scale_a;
  if (p.tensor_scale_b) all *= *p.tensor_scale_b;
  return all;
}
// Of the tile's lines.
QUERN_DEVICE f32 scale_of_row(const QuantizedParams& p, const Work& work, i32 line) {
  const i32 row = source_row(p.product, work, line);
  if (kGroupsOfScaleA || p.scale_a.data == nullptr || row < 0) return 1.0f;
  return to_f32(static_cast<const ScaleA*>(p.scale_a.data)[row * p.scale_a.line]);
}
QUERN_DEVICE f32 scale_of_column(const QuantizedParams& p, const Work& work, i32 line) {
  const i32 row = source_column(p.product, work, line);
  if (kGroupsOfScaleB || p.scale_b.data == nullptr || row < 0) return 1.0f;
  return to_f32(static_cast<const ScaleB*>(p.scale_b.data)[row * p.scale_b.line]);
}

// Which items of an operand's lines, `per_line` of each, a thread has: number thread, thread + kThreads and so on,
// whose lines are kStep apart. With a gate the second half of b's lines is N/2 further on.
template <i32 lines, i32 per_line, bool of_b>
struct Items {
  static constexpr i32 kAll = lines * per_line, kEach = (kAll + kThreads - 1) / kThreads, kStep = kThreads / per_line;
  static_assert(kThreads % per_line == 0 && kEach <= 32);
  static_assert(!of_b || !kGate || kEach <= 1 || kOutTileN % kStep == 0, "items of one number lie in the same half");
  static QUERN_DEVICE constexpr bool is_further(i32 e) { return of_b && kGate && e > 0 && e * kStep >= kOutTileN; }
  static QUERN_DEVICE i32 line() { return thread_index() / per_line; }
  static QUERN_DEVICE i32 place() { return thread_index() % per_line; }

  u32 there;  // a bit for each item whose line there is
  // Returns the row in memory of the first one's line, which need not be there.
  QUERN_DEVICE i64 begin(const GemmParams& p, const Work& work) {
    there = 0;
    QUERN_UNROLL for (i32 e = 0; e < kEach; ++e) {
      const i32 own = line() + e * kStep;
      const i32 row = of_b ? source_column(p, work, own) : source_row(p, work, own);
      there |= static_cast<u32>(own < lines && row >= 0) << e;
    }
    if constexpr (!of_b) return static_cast<i64>(work.row) + line();
    const bool second = kGate && line() >= kOutTileN;
    return static_cast<i64>(work.column) + line() + (second ? p.n / 2 - kOutTileN : 0);
  }
  QUERN_DEVICE bool has(i32 e) const { return (there >> e & 1) != 0; }
  // How many rows behind the first one's item number e is.
  static QUERN_DEVICE i64 rows_to(const GemmParams& p, i32 e) {
    return e * kStep + (is_further(e) ? static_cast<i64>(p.n / 2 - kOutTileN) : 0);
  }
};

// This thread's scales, or zero points, of `lines` lines and `count` groups of each. They are loaded as they lie in
// memory, and long before they are stored, so that nothing waits for them.
template <class T, i32 lines, bool of_b, i32 count>
class Scales {
  // Those of one byte four at a time, of neighbouring groups, by one load where they lie side by side.
  static constexpr i32 kSide = sizeof(T) == 1 && count % 4 == 0 ? 4 : 1;
  using Own = Items<lines, count / kSide, of_b>;
  using Held = typename Either<kSide == 4, u32, T>::type;

 public:
  struct Values {
    Held x[Own::kEach > 0 ? Own::kEach : 1];
  };
  QUERN_DEVICE void begin(const GemmParams& p, const Work& work, const QuantizedScales& from) {
    from_ = static_cast<const T*>(from.data) + items_.begin(p, work) * from.line + Own::place() * kSide * from.group;
  }
  // Of the groups from number `first` on.
  QUERN_DEVICE void load(const GemmParams& p, const QuantizedScales& from, i32 first, Values& values) const {
    const i32 groups = kGroup == 0 ? 1 : p.k / (kGroup > 0 ? kGroup : 1), left = groups - first - Own::place() * kSide;
    const T* const block = from_ + first * from.group;
    const bool side_by_side =
        from.group == 1 && left >= 4 && ((reinterpret_cast<u64>(block) | static_cast<u64>(from.line)) & 3) == 0;
    QUERN_UNROLL for (i32 e = 0; e < Own::kEach; ++e) {
      const T* const item = block + Own::rows_to(p, e) * from.line;
      values.x[e] = Held{};
      if (!items_.has(e)) continue;
      if constexpr (kSide == 1) {
        if (left > 0) values.x[e] = *item;
      } else if (side_by_side) {
        values.x[e] = *reinterpret_cast<const u32*>(item);
      } else {
        const u8* const bytes = reinterpret_cast<const u8*>(item);
        QUERN_ROLLED for (i32 i = 0; i < 4 && i < left; ++i) values.x[e] |= static_cast<u32>(bytes[i * from.group])
                                                                            << 8 * i;
      }
    }
  }
  // put(line, group, scale) for each of this thread's.
  template <class Put>
  static QUERN_DEVICE void each(const Values& values, Put put) {
    QUERN_UNROLL for (i32 e = 0; e < Own::kEach; ++e) {
      if (Own::kAll % kThreads != 0 && e * kThreads + thread_index() >= Own::kAll) continue;
      const i32 line = Own::line() + e * Own::kStep;
      if constexpr (kSide == 1) {
        put(line, Own::place(), values.x[e]);
      } else {
        QUERN_UNROLL for (i32 i = 0; i < 4; ++i) {
          T scale;
          *reinterpret_cast<u8*>(&scale) = static_cast<u8>(values.x[e] >> 8 * i);
          put(line, Own::place() * 4 + i, scale);
        }
      }
    }
  }

 private:
  const T* from_ = nullptr;
  Own items_;
};

}  // namespace q
