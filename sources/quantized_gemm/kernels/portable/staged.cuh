// What a block of threads copies from memory: k blocks of packed lines of a and b asynchronously into stages of shared
// memory, and the scales and zero points that belong to them by way of registers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gemm/kernels/shared/dense_tiles.cuh"
#include "quantized_gemm/kernels/shared/scales.cuh"

namespace q {

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

using ScalesOfB = Scales<ScaleB, kGroupsOfScaleB ? kTileN : 0, true, kGroupsOfBlock>;
using ScalesOfA = Scales<ScaleA, kGroupsOfScaleA ? kTileM : 0, false, kGroupsOfBlock>;
using Zeros = Scales<u8, kZeros ? kTileN : 0, true, kGroupsOfBlock>;

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
    const auto at = [](i32 lines, i32 line, i32 group) { return group * lines + line; };
    if constexpr (kGroupsOfScaleB)
      ScalesOfB::each(b, [&](i32 line, i32 group, ScaleB scale) { of_b[at(kTileN, line, group)] = to_f32(scale); });
    if constexpr (kGroupsOfScaleA)
      ScalesOfA::each(a, [&](i32 line, i32 group, ScaleA scale) { of_a[at(kTileM, line, group)] = to_f32(scale); });
    if constexpr (kZeros) {
      Zeros::each(zeros,
                  [&](i32 line, i32 group, u8 zero) { words[at(kTileN, line, group)] = DecodeB::zero_word(zero); });
    }
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
    const i32 group =
        kGroup == 0 ? 0 : static_cast<i32>(static_cast<i64>(k_block) * kBlockK / (kGroup > 0 ? kGroup : 1));
    if constexpr (kGroupsOfScaleB) scales_b_.load(p_.product, p_.scale_b, group, pending.b);
    if constexpr (kGroupsOfScaleA) scales_a_.load(p_.product, p_.scale_a, group, pending.a);
    if constexpr (kZeros) zeros_.load(p_.product, p_.zero_b, group, pending.zeros);
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
