// What a block of threads shares: the rows of a, of a chunk of k, in the numbers and in the order that tensor cores
// take them, and the scales and zero points of the chunk's groups. They come by way of registers, into one of two
// buffers while what lies in the other is multiplied.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quantized_gemm/kernels/few/weights.cuh"

namespace q {

// Rows are multiplied in tiles of 16, or of 8 where there are no more.
inline constexpr bool kHalf = kTileM == 8;
inline constexpr i32 kRowTiles = kHalf ? 1 : kTileM / 16, kRowRunsHeld = kHalf ? 1 : kRunsHeld;
static_assert(kHalf || kRowTiles * 16 == kTileM);
using RowRuns = Either<kHalf, HalfRuns<Multiplied>, Runs<Multiplied>>::type;

// Runs of a lie [step][product of runs][tile of rows][held][lane], so that a warp reads each from one place on. Lanes
// are exchanged by the product's number, so that the runs of a row which neighbouring threads store are in different
// banks.
inline constexpr i32 kRunBytes = 8 * static_cast<i32>(sizeof(Multiplied));
inline constexpr i32 kTokenBytes = kChunkK * kTileM * static_cast<i32>(sizeof(Multiplied));
QUERN_DEVICE constexpr i32 exchanged(i32 i) {
  if (kRunBytes == 8) return i << 2;
  return kRunsOfRead == 4 ? i << 1 : (i & 1) << 2;
}
QUERN_DEVICE i32 token_run(i32 step, i32 i, i32 tile, i32 held, i32 lane) {
  return ((((step * kRunsOfStep + i) * kRowTiles + tile) * kRowRunsHeld + held) * kWarp + (lane ^ exchanged(i))) *
         kRunBytes;
}
// The same for a run of row number `row`, eight k from `k` of the chunk on.
QUERN_DEVICE i32 run_of_row(i32 row, i32 k) {
  const i32 n = k % kStepK / 8, i = n / (4 * kRunsOfRead) * kRunsOfRead + n % kRunsOfRead, place = n / kRunsOfRead % 4;
  const bool halves = kWarp == 32;  // a lane has two rows of a tile: run_line()
  return token_run(k / kStepK, i, row / 16, halves ? row / 8 % 2 : 0,
                   halves ? row % 8 * 4 + place : place * 16 + row % 16);
}

// Scales and zero points lie [line][group], behind the runs; an odd distance has lines in different banks.
inline constexpr i32 kGroupsOfChunk = kGroup == 0 ? 1 : kChunkK / (kGroup > 0 ? kGroup : 1);
inline constexpr i32 kScalePitch = kGroupsOfChunk | 1;
inline constexpr bool kScaledA = kGroupsOfScaleA && kScaledSums;  // else they are multiplied into the runs of a
inline constexpr i32 kOffsetOfScaleB = kTokenBytes,
                     kOffsetOfZeros = kOffsetOfScaleB + (kGroupsOfScaleB ? 4 * kTileN * kScalePitch : 0),
                     kOffsetOfScaleA = kOffsetOfZeros + (kZeros ? 4 * kTileN * kScalePitch : 0),
                     kOffsetOfEnd = kOffsetOfScaleA + (kScaledA ? 4 * kTileM * kScalePitch : 0);
// The sums of the warps that divide k take the place of a chunk.
inline constexpr i32 kParts = kWarpsK > 1 ? kWarpsK / 2 : 1;
inline constexpr i32 kPartPitch = kTileN + 4, kPart = kTileM * kPartPitch;
inline constexpr i32 kBuffer = round_up(kOffsetOfEnd > 4 * kParts * kPart ? kOffsetOfEnd : 4 * kParts * kPart, 128);
static_assert(kWarpsK % kParts == 0 && kBuffer == FEW_BUFFER, "the library has counted otherwise");

// Numbers of E2m1 with scales of e4m3 are multiplied by them as they are unpacked.
inline constexpr bool kScaledAtOnce = kScaledRuns && kGroupsOfScaleB && kIsE2m1<CodeB> && kExactTimes<CodeB, ScaleB>;

// One chunk of the block's, from the loads to the stores.
class Tokens {
  // A thread has the same eight k of rows that are kRowsApart apart, so that a warp loads from one place on.
  static constexpr i32 kOfRow = kChunkK / 8, kRowsApart = kThreads / kOfRow, kPieces = div_up(kTileM, kRowsApart);
  static_assert(kRowsApart * kOfRow == kThreads);
  static constexpr i32 kBitsA = kBitsOf<CodeA>;
  static constexpr bool kScaledPieces = kGroupsOfScaleA && kScaledRuns;
  using OfB = Scales<ScaleB, kGroupsOfScaleB ? kTileN : 0, true, kGroupsOfChunk>;
  using OfA = Scales<ScaleA, kScaledA ? kTileM : 0, false, kGroupsOfChunk>;
  using Zeros = Scales<u8, kZeros ? kTileN : 0, true, kGroupsOfChunk>;

 public:
  QUERN_DEVICE Tokens(const QuantizedParams& p, const Tiles& tiles) : p_(p), tiles_(tiles) {}
  // The next chunk, if there is one.
  QUERN_DEVICE void load() {
    if (block_ == end_block_ && !next_tile()) return;
    const i32 left = end_block_ - block_, blocks = left < kChunkBlocks ? left : kChunkBlocks;
    const i64 first = static_cast<i64>(block_) * kBlockK, end = first + blocks * kBlockK;
    const i32 count = static_cast<i32>((end < p_.product.k ? end : p_.product.k) - first);
    const i32 rows = k() < count ? p_.product.m - row(0) : 0;  // from the thread's first on
    const u8* const from =
        static_cast<const u8*>(p_.product.a) + row(0) * p_.product.a_row + (first + k()) * kBitsA / 8;
    QUERN_UNROLL for (i32 e = 0; e < kPieces; ++e) {
      const bool there = e * kRowsApart < rows;
      const u8* const of_row = from + e * kRowsApart * p_.product.a_row;
      runs_[e] = {};
      if constexpr (kCopyBytes == 16) {
        if (there) runs_[e] = load_packed<CodeA>(of_row);
      } else {
        QUERN_UNROLL for (i32 w = 0; w < kBitsA / 4; ++w) {
          if (there && k() + w * (32 / kBitsA) < count) runs_[e].x[w] = reinterpret_cast<const u32*>(of_row)[w];
        }
      }
      if constexpr (kScaledPieces) {
        scales_[e] = ScaleA{};
        const auto* const scales = static_cast<const ScaleA*>(p_.scale_a.data);
        const i64 group = (first + k()) / 16;
        if (there) scales_[e] = scales[row(e) * p_.scale_a.line + group * p_.scale_a.group];
      }
    }
    const i32 group = kGroup == 0 ? 0 : static_cast<i32>(first / (kGroup > 0 ? kGroup : 1));
    if constexpr (kGroupsOfScaleB) of_b_.load(p_.product, p_.scale_b, group, scales_b_);
    if constexpr (kScaledA) of_a_.load(p_.product, p_.scale_a, group, scales_a_);
    if constexpr (kZeros) of_zeros_.load(p_.product, p_.zero_b, group, zeros_);
    block_ += blocks;
    loaded_ = true;
  }
  QUERN_DEVICE void store(u8* buffer) {
    if (!loaded_) return;
    loaded_ = false;
    QUERN_UNROLL for (i32 e = 0; e < kPieces; ++e) {
      u32 run[2 * sizeof(Multiplied)];
      DecodeA::run(runs_[e], 0u, run);
      if constexpr (kScaledPieces) scale_run<CodeA, ScaleA>(run, to_f32(scales_[e]));
      const i32 to = row(e);
      if (kTileM % kRowsApart == 0 || to < kTileM) store_words(buffer + run_of_row(to, k()), run);
    }
    auto* const words = reinterpret_cast<u32*>(buffer);
    const auto at = [](i32 offset, i32 line, i32 group) { return offset / 4 + line * kScalePitch + group; };
    if constexpr (kGroupsOfScaleB) {
      OfB::each(scales_b_, [&](i32 line, i32 group, ScaleB scale) {
        u32 word = bits_of(to_f32(scale));
        if constexpr (kScaledAtOnce) word = DecodeB::scale_word(to_f32(scale));
        words[at(kOffsetOfScaleB, line, group)] = word;
      });
    }
    if constexpr (kScaledA) {
      OfA::each(scales_a_, [&](i32 line, i32 group, ScaleA scale) {
        words[at(kOffsetOfScaleA, line, group)] = bits_of(to_f32(scale));
      });
    }
    if constexpr (kZeros) {
      Zeros::each(zeros_, [&](i32 line, i32 group, u8 zero) {
        words[at(kOffsetOfZeros, line, group)] = DecodeB::zero_word(zero);
      });
    }
  }

 private:
  QUERN_DEVICE bool next_tile() {
    Work work{};
    if (!tiles_.next(work)) return false;
    work.rows = p_.product.m;
    block_ = work.first_k_block, end_block_ = work.end_k_block;
    if constexpr (kGroupsOfScaleB) of_b_.begin(p_.product, work, p_.scale_b);
    if constexpr (kScaledA) of_a_.begin(p_.product, work, p_.scale_a);
    if constexpr (kZeros) of_zeros_.begin(p_.product, work, p_.zero_b);
    // What the whole sums are multiplied by at the end is on its way meanwhile.
    if (!kGroupsOfScaleB && p_.scale_b.data != nullptr && thread_index() < kTileN) {
      const i32 column = source_column(p_.product, work, thread_index());
      if (column >= 0) prefetch_line(static_cast<const ScaleB*>(p_.scale_b.data) + column * p_.scale_b.line);
    }
    return true;
  }
  static QUERN_DEVICE i32 k() { return thread_index() % kOfRow * 8; }
  static QUERN_DEVICE i32 row(i32 e) { return thread_index() / kOfRow + e * kRowsApart; }

  const QuantizedParams& p_;
  Tiles tiles_;
  i32 block_ = 0, end_block_ = 0;  // of the tile: behind the chunk, and behind the tile
  bool loaded_ = false;
  OfB of_b_;
  OfA of_a_;
  Zeros of_zeros_;
  Packed<CodeA> runs_[kPieces];
  ScaleA scales_[kScaledPieces ? kPieces : 1];
  typename OfB::Values scales_b_;
  typename OfA::Values scales_a_;
  typename Zeros::Values zeros_;
};

}  // namespace q
