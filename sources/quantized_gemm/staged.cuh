// What a block of threads copies from memory: k blocks of packed lines of a and b asynchronously into stages of shared
// memory, and the scales and zero points that belong to them by way of registers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gemm/kernels/shared/dense_tiles.cuh"
#include "gemm/kernels/shared/source.cuh"
#include "quantized_gemm/decode.cuh"
#include "quantized_gemm/params.cuh"

namespace q {

using CodeA = CODE_A;
using CodeB = CODE_B;

inline constexpr i32 kGroup = GROUP;  // of k that share a scale; 0: all of k
inline constexpr bool kGroupsOfScaleA = GROUPS_A != 0, kGroupsOfScaleB = GROUPS_B != 0;
inline constexpr bool kZeros = ZEROS != 0;  // there is a tensor of zero points

// What is multiplied: bytes where both operands are integers of as many bits, else the floating-point type of a, or
// f16, which holds every other number there is.
template <bool first, class A, class B>
struct Either {
  using type = A;
};
template <class A, class B>
struct Either<false, A, B> {
  using type = B;
};
template <class Code>
inline constexpr bool kIsInteger = false;
template <>
inline constexpr bool kIsInteger<i8> = true;
template <>
inline constexpr bool kIsInteger<Int4> = true;
template <>
inline constexpr bool kIsInteger<Uint4> = true;
inline constexpr bool kIntegers = kIsInteger<CodeA> && kIsInteger<CodeB> && kGroup != 16;
using Multiplied = Either<kIntegers, i8, Either<kIsBf16<CodeA>, bf16, f16>::type>::type;
inline constexpr bool kPaired = kBitsOf<CodeA> == 4 || kBitsOf<CodeB> == 4;
using DecodeA = Decode<CodeA, Multiplied, kPaired>;
using DecodeB = Decode<CodeB, Multiplied, kPaired>;

// Scales in groups of 16 are multiplied into runs, as a product of runs has two groups; larger groups' sums are scaled.
inline constexpr bool kScaledRuns = kGroup == 16, kScaledSums = kGroup > 16;
inline constexpr i32 kGroupsOfBlock = kGroup == 0 || kGroup >= kBlockK ? 1 : kBlockK / kGroup;

// A stored scale of 8 bits without mantissa.
struct Ue8m0 {
  u8 bits;
};
QUERN_DEVICE f32 to_f32(Ue8m0 v) {
  // 2^-127 is a subnormal number of f32, and 255 is a NaN.
  return v.bits == 255 ? nan() : f32_of(v.bits == 0 ? 0x00400000u : static_cast<u32>(v.bits) << 23);
}
using ScaleA = SCALE_A;
using ScaleB = SCALE_B;

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
template <class Code, i32 lines>
class Copies {
  using Lines = StagedLines<Code, lines>;

 public:
  // row_of(line) is the line's row in memory, -1 where there is none.
  template <class RowOf>
  QUERN_DEVICE void begin(const u8* data, i64 row_bytes, i32 k, RowOf row_of) {
    there_ = 0;
    bytes_ = static_cast<i64>(k) * Lines::kBits / 8;
    QUERN_UNROLL for (i32 e = 0; e < Lines::kEach; ++e) {
      const i32 i = e * kThreads + thread_index(), line = i / Lines::kRowCopies;
      const i32 row = i < Lines::kAll ? row_of(line) : -1;
      from_[e] = data + (row < 0 ? 0 : row) * row_bytes + i % Lines::kRowCopies * kCopyBytes;
      there_ |= static_cast<u32>(row >= 0) << e;
    }
  }
  QUERN_DEVICE void copy(u8* stage, i32 k_block) const {
    const i64 first = static_cast<i64>(k_block) * Lines::kRowBytes;
    QUERN_UNROLL for (i32 e = 0; e < Lines::kEach; ++e) {
      const i32 i = e * kThreads + thread_index(), piece = i % Lines::kRowCopies;
      if (Lines::kAll % kThreads != 0 && i >= Lines::kAll) continue;
      const bool take = (there_ >> e & 1) != 0 && first + piece * kCopyBytes < bytes_;
      u8* const to = stage + i / Lines::kRowCopies * Lines::kPitch + piece * kCopyBytes;
      if constexpr (kCopyBytes == 16) {
        copy_async_16(to, take ? from_[e] + first : from_[e], take);
      } else {
        copy_async_4(to, take ? from_[e] + first : from_[e], take);
      }
    }
  }

 private:
  static_assert(Lines::kEach <= 32);
  const u8* from_[Lines::kEach] = {};
  u32 there_ = 0;
  i64 bytes_ = 0;
};

// Scales of a k block on their way, as they lie in memory, so that nothing waits for them before they are stored.
template <class T, i32 lines>
struct Scales {
  static constexpr i32 kAll = kGroupsOfBlock * lines, kEach = (kAll + kThreads - 1) / kThreads;
  T x[kEach > 0 ? kEach : 1];

  template <class RowOf>
  QUERN_DEVICE void load(const QuantizedScales& from, i32 k_block, i32 groups, T otherwise, RowOf row_of) {
    const i32 first =
        kGroup == 0 ? 0 : static_cast<i32>(static_cast<i64>(k_block) * kBlockK / (kGroup > 0 ? kGroup : 1));
    QUERN_UNROLL for (i32 e = 0; e < kEach; ++e) {
      const i32 i = e * kThreads + thread_index(), line = i / kGroupsOfBlock, group = first + i % kGroupsOfBlock;
      const i32 row = i < kAll ? row_of(line) : -1;
      x[e] = row >= 0 && group < groups ? static_cast<const T*>(from.data)[row * from.line + group * from.group]
                                        : otherwise;
    }
  }
  // store(number of the place, scale) for each of this thread's.
  template <class Store>
  QUERN_DEVICE void each(Store store) const {
    QUERN_UNROLL for (i32 e = 0; e < kEach; ++e) {
      const i32 i = e * kThreads + thread_index();
      if (i < kAll) store(i % kGroupsOfBlock * lines + i / kGroupsOfBlock, x[e]);
    }
  }
};

// What one k block brings by way of registers.
struct Pending {
  Scales<ScaleB, kGroupsOfScaleB ? kTileN : 0> b;
  Scales<ScaleA, kGroupsOfScaleA ? kTileM : 0> a;
  Scales<u8, kZeros ? kTileN : 0> zeros;
  u8* stage = nullptr;

  QUERN_DEVICE void store() const {
    if (stage == nullptr) return;
    auto* of_b = reinterpret_cast<f32*>(stage + kOffsetOfScaleB);
    auto* of_a = reinterpret_cast<f32*>(stage + kOffsetOfScaleA);
    auto* words = reinterpret_cast<u32*>(stage + kOffsetOfZeros);
    if constexpr (kGroupsOfScaleB) b.each([&](i32 place, ScaleB scale) { of_b[place] = to_f32(scale); });
    if constexpr (kGroupsOfScaleA) a.each([&](i32 place, ScaleA scale) { of_a[place] = to_f32(scale); });
    if constexpr (kZeros) zeros.each([&](i32 place, u8 zero) { words[place] = DecodeB::zero_word(zero); });
  }
};

// Goes through the k blocks of this block of threads, ahead of the products and on from tile to tile.
class Feed {
 public:
  QUERN_DEVICE Feed(const QuantizedParams& p, const DenseTiles& tiles, u8* stages)
      : p_(p), tiles_(tiles), stages_(stages), groups_(kGroup > 0 ? p.product.k / (kGroup > 0 ? kGroup : 1) : 1) {
    next_tile();
  }
  // Begins the copies of the next k block, if there is one, into stage number `stage`.
  QUERN_DEVICE void begin(i32 stage, Pending& pending) {
    pending.stage = nullptr;
    if (more_) {
      u8* const to = stages_ + stage * kStage;
      pending.stage = to;
      a_.copy(to, k_block_);
      b_.copy(to + kOffsetOfB, k_block_);
      const GemmParams& p = p_.product;
      const auto row_of_b = [&](i32 line) { return source_column(p, work_, line); };
      const auto row_of_a = [&](i32 line) { return source_row(p, work_, line); };
      if constexpr (kGroupsOfScaleB) pending.b.load(p_.scale_b, k_block_, groups_, ScaleB{}, row_of_b);
      if constexpr (kGroupsOfScaleA) pending.a.load(p_.scale_a, k_block_, groups_, ScaleA{}, row_of_a);
      if constexpr (kZeros) pending.zeros.load(p_.zero_b, k_block_, groups_, u8{}, row_of_b);
      if (++k_block_ == work_.end_k_block) next_tile();
    }
    copy_async_commit();
  }

 private:
  QUERN_DEVICE void next_tile() {
    more_ = tiles_.next(work_);
    if (!more_) return;
    k_block_ = work_.first_k_block;
    const GemmParams& p = p_.product;
    a_.begin(static_cast<const u8*>(p.a), p.a_row, p.k, [&](i32 line) { return source_row(p, work_, line); });
    b_.begin(static_cast<const u8*>(p.b), p.b_row, p.k, [&](i32 line) { return source_column(p, work_, line); });
  }

  const QuantizedParams& p_;
  DenseTiles tiles_;
  u8* stages_;
  i32 groups_;
  Work work_{};
  i32 k_block_ = 0;
  bool more_ = false;
  Copies<CodeA, kTileM> a_;
  Copies<CodeB, kTileN> b_;
};

}  // namespace q
