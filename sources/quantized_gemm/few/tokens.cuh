// What a block of threads shares: the rows of a, of a chunk of k, in the numbers and in the order that tensor cores
// take them, and the scales and zero points of the chunk's groups. They come by way of registers, into one of two
// buffers while what lies in the other is multiplied.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quantized_gemm/few/weights.cuh"

namespace q {

// Rows are multiplied in tiles of 16, or of 8 where there are no more.
inline constexpr bool kHalf = kTileM == 8;
inline constexpr i32 kRowTiles = kHalf ? 1 : kTileM / 16, kRowRunsHeld = kHalf ? 1 : kRunsHeld;
static_assert(kHalf || kRowTiles * 16 == kTileM);
using RowRuns = Either<kHalf, HalfRuns<Multiplied>, Runs<Multiplied>>::type;

// Runs of a lie [step][product of runs][tile of rows][held][lane], so that a warp reads each from one place on.
inline constexpr i32 kRunBytes = 8 * static_cast<i32>(sizeof(Multiplied));
inline constexpr i32 kTokenBytes = kChunkK * kTileM * static_cast<i32>(sizeof(Multiplied));
QUERN_DEVICE i32 token_run(i32 step, i32 i, i32 tile, i32 held) {
  return ((((step * kRunsOfStep + i) * kRowTiles + tile) * kRowRunsHeld + held) * kWarp + lane()) * kRunBytes;
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
  static constexpr i32 kPieces = kTokenBytes / kRunBytes / kThreads;  // runs of a thread
  static_assert(kPieces * kThreads * kRunBytes == kTokenBytes);
  static constexpr i32 kOfTile = kRowTiles * kRowRunsHeld;  // runs of a lane in one product
  static_assert(kWarps % kOfTile == 0, "a thread's runs are of one row");
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
    QUERN_UNROLL for (i32 e = 0; e < kPieces; ++e) load_run(e, first, count);
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
      store_words(buffer + (e * kThreads + thread_index()) * kRunBytes, run);
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
    const i32 within = warp() % kOfTile;
    const i32 row = source_row(p_.product, work, within / kRowRunsHeld * 16 + run_line(lane(), within % kRowRunsHeld));
    there_ = row >= 0;
    row_ = static_cast<const u8*>(p_.product.a) + (there_ ? row * p_.product.a_row : 0);
    if constexpr (kScaledPieces)
      row_scales_ = static_cast<const ScaleA*>(p_.scale_a.data) + (there_ ? row * p_.scale_a.line : 0);
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
  // Of `count` k from `first` on, number `e` of this thread's runs.
  QUERN_DEVICE void load_run(i32 e, i64 first, i32 count) {
    const i32 product = (e * kWarps + warp()) / kOfTile;
    const i32 k = product / kRunsOfStep * kStepK + k_of_run(product % kRunsOfStep, run_k(lane()) >> 3);
    const u8* const from = row_ + (first + k) * kBitsA / 8;
    runs_[e] = {};
    if constexpr (kCopyBytes == 16) {
      if (there_ && k < count) runs_[e] = load_packed<CodeA>(from);
    } else {
      QUERN_UNROLL for (i32 w = 0; w < kBitsA / 4; ++w) {
        if (there_ && k + w * (32 / kBitsA) < count) runs_[e].x[w] = reinterpret_cast<const u32*>(from)[w];
      }
    }
    if constexpr (kScaledPieces) {
      scales_[e] = ScaleA{};
      if (there_ && k < count) scales_[e] = row_scales_[(first + k) / 16 * p_.scale_a.group];
    }
  }

  const QuantizedParams& p_;
  Tiles tiles_;
  i32 block_ = 0, end_block_ = 0;  // of the tile: behind the chunk, and behind the tile
  bool loaded_ = false, there_ = false;
  const u8* row_ = nullptr;
  const ScaleA* row_scales_ = nullptr;
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
