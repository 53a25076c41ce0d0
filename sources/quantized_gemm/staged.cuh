// What a block of threads copies from memory: k blocks of packed lines of a and b asynchronously into stages of shared
// memory, and the scales and zero points that belong to them by way of registers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gemm/kernels/shared/dense_tiles.cuh"
#include "gemm/kernels/shared/source.cuh"
#include "quantized_gemm/numbers.cuh"
#include "quantized_gemm/params.cuh"

namespace q {

// Scales in groups of 16 are multiplied into runs, as a product of runs has two groups; larger groups' sums are scaled.
inline constexpr bool kScaledRuns = kGroup == 16, kScaledSums = kGroup > 16;
inline constexpr i32 kGroupsOfBlock = kGroup == 0 || kGroup >= kBlockK ? 1 : kBlockK / kGroup;

// `lines` lines of a k block in shared memory. The padding has the runs that a warp reads at once in different banks.
template <class Code, i32 lines>
struct StagedLines {
  static constexpr i32 kBits = kBitsOf<Code>;
  static constexpr i32 kRowBytes = kBlockK * kBits / 8, kPitch = kRowBytes + 4 * kBits, kBytes = lines * kPitch;
  static constexpr i32 kRowCopies = kRowBytes / kCopyBytes, kAll = lines * kRowCopies;
  static constexpr i32 kEach = (kAll + kThreads - 1) / kThreads;  // copies of a thread
};
using LinesOfA = StagedLines<CodeA, kTileM>;
using LinesOfB = StagedLines<CodeB, kTileN>;

// Scales and zero points lie behind the lines, [groups of the block][lines].
inline constexpr i32 kScalesOfA = kGroupsOfScaleA ? kGroupsOfBlock * kTileM : 0;
inline constexpr i32 kScalesOfB = kGroupsOfScaleB ? kGroupsOfBlock * kTileN : 0;
inline constexpr i32 kZerosOfB = kZeros ? kGroupsOfBlock * kTileN : 0;
inline constexpr i32 kOffsetOfB = LinesOfA::kBytes, kOffsetOfScaleB = kOffsetOfB + LinesOfB::kBytes,
                     kOffsetOfScaleA = kOffsetOfScaleB + 4 * kScalesOfB,
                     kOffsetOfZeros = kOffsetOfScaleA + 4 * kScalesOfA;
inline constexpr i32 kStage = round_up(kOffsetOfZeros + 4 * kZerosOfB, 128);
static_assert(kStage == QUANTIZED_STAGE, "the library has counted otherwise");

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

// This thread's copies of an operand's lines.
template <class Code, i32 lines, bool of_b>
class Copies {
  using Lines = StagedLines<Code, lines>;
  using Own = Items<lines, Lines::kRowCopies, of_b>;

 public:
  QUERN_DEVICE void begin(const GemmParams& p, const Work& work) {
    const i64 row_bytes = of_b ? p.b_row : p.a_row;
    const i64 first = static_cast<i64>(work.first_k_block) * Lines::kRowBytes + Own::place() * kCopyBytes;
    from_ = static_cast<const u8*>(of_b ? p.b : p.a) + items_.begin(p, work) * row_bytes + first;
    // K may end within the last block, which begins before 2^31.
    left_ = static_cast<i32>(p.k - static_cast<i64>(work.first_k_block) * kBlockK) -
            Own::place() * (kCopyBytes * 8 / Lines::kBits);
  }
  // The next k block.
  QUERN_DEVICE void copy(const GemmParams& p, u8* stage) {
    const i64 row_bytes = of_b ? p.b_row : p.a_row;
    u8* const to = stage + Own::line() * Lines::kPitch + Own::place() * kCopyBytes;
    QUERN_UNROLL for (i32 e = 0; e < Own::kEach; ++e) {
      if (Own::kAll % kThreads != 0 && e * kThreads + thread_index() >= Own::kAll) continue;
      const bool take = left_ > 0 && items_.has(e);
      const u8* const from = from_ + Own::rows_to(p, e) * row_bytes;
      if constexpr (kCopyBytes == 16) {
        copy_async_16(to + e * Own::kStep * Lines::kPitch, from, take);
      } else {
        copy_async_4(to + e * Own::kStep * Lines::kPitch, from, take);
      }
    }
    from_ += Lines::kRowBytes;
    left_ -= kBlockK;
  }

 private:
  const u8* from_ = nullptr;
  Own items_;
  i32 left_ = 0;  // k that there are from this thread's first on
};

// This thread's scales of a k block. Loaded a k block before they are stored, as they lie in memory, so that nothing
// waits for them.
template <class T, i32 lines, bool of_b>
class Scales {
  using Own = Items<lines, kGroupsOfBlock, of_b>;

 public:
  struct Values {
    T x[Own::kEach > 0 ? Own::kEach : 1];
  };
  QUERN_DEVICE void begin(const GemmParams& p, const Work& work, const QuantizedScales& from) {
    from_ = static_cast<const T*>(from.data) + items_.begin(p, work) * from.line + Own::place() * from.group;
  }
  QUERN_DEVICE void load(const GemmParams& p, const QuantizedScales& from, i32 k_block, Values& values) const {
    constexpr i32 kSize = kGroup > 0 ? kGroup : 1;
    const i32 first = kGroup == 0 ? 0 : static_cast<i32>(static_cast<i64>(k_block) * kBlockK / kSize);
    const i32 groups = kGroup == 0 ? 1 : p.k / kSize;
    const T* const block = from_ + first * from.group;
    QUERN_UNROLL for (i32 e = 0; e < Own::kEach; ++e) {
      values.x[e] = T{};
      if (items_.has(e) && first + Own::place() < groups) values.x[e] = block[Own::rows_to(p, e) * from.line];
    }
  }
  // put(number of the place, scale) for each of this thread's.
  template <class Put>
  static QUERN_DEVICE void each(const Values& values, Put put) {
    QUERN_UNROLL for (i32 e = 0; e < Own::kEach; ++e) {
      if (Own::kAll % kThreads == 0 || e * kThreads + thread_index() < Own::kAll)
        put(Own::place() * lines + Own::line() + e * Own::kStep, values.x[e]);
    }
  }

 private:
  const T* from_ = nullptr;
  Own items_;
};
using ScalesOfB = Scales<ScaleB, kGroupsOfScaleB ? kTileN : 0, true>;
using ScalesOfA = Scales<ScaleA, kGroupsOfScaleA ? kTileM : 0, false>;
using Zeros = Scales<u8, kZeros ? kTileN : 0, true>;

// What one k block brings by way of registers.
struct Pending {
  ScalesOfB::Values b;
  ScalesOfA::Values a;
  Zeros::Values zeros;
  u8* stage = nullptr;

  QUERN_DEVICE void store() const {
    if (stage == nullptr) return;
    auto* of_b = reinterpret_cast<f32*>(stage + kOffsetOfScaleB);
    auto* of_a = reinterpret_cast<f32*>(stage + kOffsetOfScaleA);
    auto* words = reinterpret_cast<u32*>(stage + kOffsetOfZeros);
    if constexpr (kGroupsOfScaleB) ScalesOfB::each(b, [&](i32 place, ScaleB scale) { of_b[place] = to_f32(scale); });
    if constexpr (kGroupsOfScaleA) ScalesOfA::each(a, [&](i32 place, ScaleA scale) { of_a[place] = to_f32(scale); });
    if constexpr (kZeros) Zeros::each(zeros, [&](i32 place, u8 zero) { words[place] = DecodeB::zero_word(zero); });
  }
};

// Goes through the k blocks of this block of threads, ahead of the products and on from tile to tile.
class Feed {
 public:
  QUERN_DEVICE Feed(const QuantizedParams& p, const DenseTiles& tiles, u8* stages)
      : p_(p), tiles_(tiles), stages_(stages) {
    next_tile();
  }
  // Begins the copies of the next k block, if there is one, into stage number `stage`.
  QUERN_DEVICE void begin(i32 stage, Pending& pending) {
    pending.stage = nullptr;
    if (more_) {
      load_scales(stage, k_block_, pending);
      copy(stage);
    }
    copy_async_commit();
  }
  // Begins the first `count` of them. The scales of the first tile's, which mostly are all, are waited for together.
  template <i32 count>
  QUERN_DEVICE void fill() {
    Pending first[count];
    const i32 of_tile = more_ ? work_.end_k_block - k_block_ : 0;
    QUERN_UNROLL for (i32 s = 0; s < count; ++s) {
      first[s].stage = nullptr;
      if (s < of_tile) load_scales(s, k_block_ + s, first[s]);
    }
    QUERN_ROLLED for (i32 s = 0; s < count; ++s) {
      if (more_) {
        Pending late;
        if (s >= of_tile) load_scales(s, k_block_, late);
        copy(s);
        late.store();
      }
      copy_async_commit();
    }
    QUERN_UNROLL for (i32 s = 0; s < count; ++s) first[s].store();
  }

 private:
  QUERN_DEVICE void load_scales(i32 stage, i32 k_block, Pending& pending) {
    pending.stage = stages_ + stage * kStage;
    if constexpr (kGroupsOfScaleB) scales_b_.load(p_.product, p_.scale_b, k_block, pending.b);
    if constexpr (kGroupsOfScaleA) scales_a_.load(p_.product, p_.scale_a, k_block, pending.a);
    if constexpr (kZeros) zeros_.load(p_.product, p_.zero_b, k_block, pending.zeros);
  }
  QUERN_DEVICE void copy(i32 stage) {
    u8* const to = stages_ + stage * kStage;
    a_.copy(p_.product, to);
    b_.copy(p_.product, to + kOffsetOfB);
    if (++k_block_ == work_.end_k_block) next_tile();
  }
  QUERN_DEVICE void next_tile() {
    more_ = tiles_.next(work_);
    if (!more_) return;
    k_block_ = work_.first_k_block;
    a_.begin(p_.product, work_);
    b_.begin(p_.product, work_);
    if constexpr (kGroupsOfScaleB) scales_b_.begin(p_.product, work_, p_.scale_b);
    if constexpr (kGroupsOfScaleA) scales_a_.begin(p_.product, work_, p_.scale_a);
    if constexpr (kZeros) zeros_.begin(p_.product, work_, p_.zero_b);
  }

  const QuantizedParams& p_;
  DenseTiles tiles_;
  u8* stages_;
  Work work_{};
  i32 k_block_ = 0;
  bool more_ = false;
  Copies<CodeA, kTileM, false> a_;
  Copies<CodeB, kTileN, true> b_;
  ScalesOfB scales_b_;
  ScalesOfA scales_a_;
  Zeros zeros_;
};

}  // namespace q
