// Lines of b on their way to a warp: each warp copies what it multiplies itself, asynchronously and several steps
// ahead, into slots of shared memory that no other warp touches. So no barrier of the block stands between a copy and
// its use.
//
// A step is kStepK of k of the warp's kWarpLines lines. The warps of a block are kWarpsN by kWarpsK: of a chunk of k
// blocks each of the kWarpsK has an equal share, whose steps follow one another, so that a warp reads lines on where it
// has left off.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gemm/kernels/shared/stream_k.cuh"
#include "quantized_gemm/kernels/shared/scales.cuh"

namespace q {

inline constexpr i32 kStepK = 128, kRunsOfStep = kStepK / kRunK;
inline constexpr i32 kWarps = kThreads / kWarp, kWarpsK = kWarps / kWarpsN;
inline constexpr i32 kWarpLines = kTileN / kWarpsN, kLineTiles = kWarpLines / 16;
inline constexpr i32 kChunkBlocks = CHUNK_BLOCKS, kChunkK = kChunkBlocks * kBlockK;
static_assert(kBlockK == kWarpsK * kStepK && kLineTiles * 16 * kWarpsN == kTileN);
static_assert(kOutTileN % kWarpLines == 0, "with a gate a warp's lines lie in one half");
QUERN_DEVICE i32 warp_line() { return warp() % kWarpsN * kWarpLines; }
QUERN_DEVICE i32 warp_k() { return warp() / kWarpsN; }

inline constexpr i32 kBitsB = kBitsOf<CodeB>;
inline constexpr i32 kLineBytes = kStepK * kBitsB / 8, kSlot = kWarpLines * kLineBytes, kRing = kStages * kSlot;

// Of a step's k a lane reads so many bytes of a line at once, and its neighbours those beside them: as many as there
// are if what the four lanes of a line read is in one group, which a product of runs must be, and half as many where
// sums leave few registers.
inline constexpr i32 kMostRead = kScaledSums && kTileM > 16 ? 8 : 16;
inline constexpr i32 kGroupRead = kScaledSums ? kGroup * kBitsB / 32 : 16;
inline constexpr i32 kRead = kGroupRead < kMostRead ? kGroupRead : kMostRead;
inline constexpr i32 kRunsOfRead = kRead / kBitsB;
// Where the k of the products of runs number i begin, for lanes whose runs are number `place` (0 to 3) of a line.
QUERN_DEVICE constexpr i32 k_of_run(i32 i, i32 place) {
  return i / kRunsOfRead * (kRunsOfRead * kRunK) + place * (kRunsOfRead * 8) + i % kRunsOfRead * 8;
}

// Where piece number `piece` (of 16 bytes) of a line lies in a slot: so that the lines which are read at once are in
// different banks.
inline constexpr i32 kPiecesOfLine = kLineBytes / 16, kPiecesRead = kRead / 4;
inline constexpr i32 kLinesOfBanks = 8 / kPiecesOfLine, kTurns = kPiecesOfLine / kPiecesRead;
QUERN_DEVICE constexpr i32 piece_at(i32 line, i32 piece) {
  return line * kLineBytes + 16 * (piece ^ line / kLinesOfBanks % kTurns * kPiecesRead);
}

// 4, 8 or 16 bytes of shared memory, by one access.
template <i32 words>
QUERN_DEVICE void load_words(const u8* from, u32 (&to)[words]) {
  if constexpr (words == 4) {
    const vec16 v = load16(from);
    to[0] = v.x[0], to[1] = v.x[1], to[2] = v.x[2], to[3] = v.x[3];
  } else if constexpr (words == 2) {
    const u64 v = *reinterpret_cast<const u64*>(from);
    to[0] = static_cast<u32>(v), to[1] = static_cast<u32>(v >> 32);
  } else {
    to[0] = *reinterpret_cast<const u32*>(from);
  }
}
template <i32 words>
QUERN_DEVICE void store_words(u8* to, const u32 (&from)[words]) {
  if constexpr (words == 4) {
    store16(to, {{from[0], from[1], from[2], from[3]}});
  } else {
    static_assert(words == 2);
    *reinterpret_cast<u64*>(to) = static_cast<u64>(from[1]) << 32 | from[0];
  }
}

// The packed numbers of a step that a lane has, as it reads them.
struct Words {
  u32 x[kLineTiles][kRunsHeld][kRead / 4];

  // Read number `read` of the step in `slot`.
  QUERN_DEVICE void load(const u8* slot, i32 read) {
    QUERN_UNROLL for (i32 i = 0; i < kLineTiles; ++i) {
      QUERN_UNROLL for (i32 h = 0; h < kRunsHeld; ++h) {
        const i32 byte = kRead * (4 * read + (run_k(lane()) >> 3));
        const u8* const from = slot + piece_at(16 * i + run_line(lane(), h), byte / 16) + byte % 16;
        load_words(from, x[i][h]);
      }
    }
  }
  // Run number `run` of the read.
  QUERN_DEVICE Packed<CodeB> get(i32 i, i32 h, i32 run) const {
    constexpr i32 kWords = kBitsB / 4;
    Packed<CodeB> packed;
    QUERN_UNROLL for (i32 n = 0; n < kWords; ++n) packed.x[n] = x[i][h][run * kWords + n];
    return packed;
  }
};

// The tiles of a block of threads, one below the other in b: every block_count-th, or with stream-K those that its k
// blocks are of, the first and the last of which may be parts.
class Tiles {
 public:
  QUERN_DEVICE explicit Tiles(const GemmParams& p)
      : k_blocks_(div_up(p.k, kBlockK)),
        schedule_(p.tiles * (p.whole_tiles ? 1 : k_blocks_), block_count(0), p.whole_tiles ? 1 : k_blocks_) {
    tile_ = block_index(0), apart_ = block_count(0), last_ = p.tiles - 1, end_ = k_blocks_;
    if (p.whole_tiles) return;
    const i32 begin = schedule_.begin(tile_), end = schedule_.begin(tile_ + 1);
    tile_ = begin / k_blocks_, apart_ = 1, first_ = begin - tile_ * k_blocks_;
    last_ = begin < end ? (end - 1) / k_blocks_ : -1, end_ = end - last_ * k_blocks_;
  }
  QUERN_DEVICE bool next(Work& work) {
    if (tile_ > last_) return false;
    work.tile = tile_, work.column = tile_ * kOutTileN;
    work.first_k_block = first_, work.end_k_block = tile_ == last_ ? end_ : k_blocks_;
    tile_ += apart_, first_ = 0;
    return true;
  }
  QUERN_DEVICE const StreamKSchedule& schedule() const { return schedule_; }

 private:
  i32 k_blocks_;
  StreamKSchedule schedule_;
  i32 tile_, apart_, last_;
  i32 first_ = 0, end_;  // the k block that the next tile begins with, and behind the last one's last
};

// Goes through the steps of this warp, ahead of the products and on from tile to tile.
class Weights {
  static constexpr i32 kEach = kSlot / 16 / kWarp, kLinesApart = kWarp / kPiecesOfLine;
  static constexpr i32 kOfPiece = 128 / kBitsB, kOfCopy = kCopyBytes * 8 / kBitsB;
  static_assert(kLinesApart % (kLinesOfBanks * kTurns) == 0, "a lane's pieces are turned alike");

 public:
  QUERN_DEVICE Weights(const GemmParams& p, const Tiles& tiles, u8* ring)
      : p_(p), tiles_(tiles), to_(ring + piece_at(line(), piece())) {}
  // Begins the copies of the next step, if there is one, into slot number `slot`.
  QUERN_DEVICE void begin(i32 slot) {
    if (steps_ == 0) next_chunk();
    if (steps_ > 0) {
      QUERN_UNROLL for (i32 e = 0; e < kEach; ++e) {
        const bool there = line() + e * kLinesApart < lines_;
        const u8* const from = from_ + e * kLinesApart * p_.b_row;
        u8* const to = to_ + slot * kSlot + e * kLinesApart * kLineBytes;
        if constexpr (kCopyBytes == 16) {
          copy_async_16(to, from, there && left_ > 0);
        } else {
          QUERN_UNROLL for (i32 i = 0; i < 4; ++i) copy_async_4(to + 4 * i, from + 4 * i, there && left_ > i * kOfCopy);
        }
      }
      from_ += kLineBytes, left_ -= kStepK, --steps_;
    }
    copy_async_commit();
  }

 private:
  static QUERN_DEVICE i32 line() { return lane() / kPiecesOfLine; }
  static QUERN_DEVICE i32 piece() { return lane() % kPiecesOfLine; }
  QUERN_DEVICE void next_chunk() {
    // Of the chunk before, which was whole, what the warps behind this one have.
    i32 skipped = kChunkBlocks * (kWarpsK - 1 - warp_k());
    if (block_ == end_block_) {
      Work work;
      if (!tiles_.next(work)) return;
      block_ = work.first_k_block, end_block_ = work.end_k_block, skipped = 0;
      const i32 half = kGate && warp_line() >= kOutTileN ? 1 : 0, columns = kGate ? p_.n / 2 : p_.n;
      const i32 first = work.column + warp_line() - half * kOutTileN;
      const i64 k = static_cast<i64>(block_) * kBlockK;
      lines_ = columns - first;
      from_ = static_cast<const u8*>(p_.b) + (static_cast<i64>(first) + half * columns + line()) * p_.b_row +
              k / kStepK * kLineBytes + 16 * piece();
      left_ = static_cast<i32>(p_.k - k) - piece() * kOfPiece;
    }
    const i32 left = end_block_ - block_;
    steps_ = left < kChunkBlocks ? left : kChunkBlocks;
    block_ += steps_;
    skipped += warp_k() * steps_;
    from_ += skipped * kLineBytes, left_ -= skipped * kStepK;
  }

  const GemmParams& p_;
  Tiles tiles_;
  u8* to_;                         // this lane's first piece in slot 0
  const u8* from_ = nullptr;       // what that is copied from in the next step
  i32 lines_ = 0;                  // of b that there are from the warp's first on
  i32 left_ = 0;                   // k that there are from this lane's next piece on
  i32 steps_ = 0;                  // left in the chunk
  i32 block_ = 0, end_block_ = 0;  // of the tile: behind the chunk, and behind the tile
};

}  // namespace q
