// Split-K of persistent.cuh: the blocks of a cluster divide the k blocks of a tile, of which each cluster has one. At
// the end every block writes its sums where its stages were; then each finishes some of the tile's rows, for which it
// reads the sums of all blocks and adds them up in the order of the k blocks. So results do not depend on timing.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gemm/kernels/shared/dense_tiles.cuh"
#include "gemm/kernels/sm90/persistent_k_loop.cuh"

namespace q {

static_assert(!kSplitK || (kGrouping == kDense && !kGate && !kOutScale && !kOverlappedEpilogue));

// A block's part of the k blocks of its cluster's tile, in the form that the roles iterate over. The first dimension of
// the grid is one cluster, the second counts tiles.
class SplitTiles {
 public:
  QUERN_DEVICE explicit SplitTiles(const GemmParams& p) : tiles_(p, block_index(1), block_count(1)) {}
  QUERN_DEVICE bool next(Work& work) {
    if (!tiles_.next(work)) return false;
    const i32 k_blocks = work.end_k_block, part = block_index(0), parts = block_count(0);
    work.first_k_block = k_blocks * part / parts;
    work.end_k_block = k_blocks * (part + 1) / parts;
    return true;
  }

 private:
  DenseTiles tiles_;
};

// Rows of sums in shared memory. The padding spreads the eight rows that a warp writes at a time over all banks.
inline constexpr i32 kSumsPitch = kTileN + 8;
static_assert(!kSplitK || kTileM * kSumsPitch * 4 <= kStages * (kABytes + kBBytes));

// Writes a thread's sums from element `first` on; `to` is the place of its first.
template <i32 first>
QUERN_DEVICE void write_sums(const Sums& sums, f32* to) {
  f32 x[8];
  sums.template read<first>(x);
  QUERN_UNROLL for (i32 i = 0; i < 4; ++i) {
    const u64 both = static_cast<u64>(bits_of(x[2 * i + 1])) << 32 | bits_of(x[2 * i]);
    *reinterpret_cast<u64*>(to + i % 2 * (8 * kSumsPitch) + first * 2 + i / 2 * 8) = both;
  }
  if constexpr (first + 8 < kSumCount) write_sums<first + 8>(sums, to);
}

// Eights that a thread finishes at a time, so that their loads from other blocks overlap.
inline constexpr i32 kEightsAtOnce = 4;

// Adds up and finishes the rows part, part + parts ... of a tile. `staged` is where each block has written its sums.
QUERN_DEVICE void finish_rows(const GemmParams& p, const Work& work, const f32* staged) {
  constexpr i32 kGroups = kOutTileN / kEight, kFinishers = kConsumers * kGroupThreads;
  const i32 part = block_index(0), parts = block_count(0);
  const i32 left = work.rows - work.row, rows = left < kTileM ? left : kTileM;
  const i32 all = rows > part ? div_up(rows - part, parts) * kGroups : 0;
  QUERN_ROLLED for (i32 first = 0; first < all; first += kEightsAtOnce * kFinishers) {
    Eight sums[kEightsAtOnce];
    i32 row[kEightsAtOnce], column[kEightsAtOnce];
    QUERN_UNROLL for (i32 e = 0; e < kEightsAtOnce; ++e) {
      const i32 i = first + e * kFinishers + thread_index();
      row[e] = i < all ? i / kGroups * parts + part : -1, column[e] = i % kGroups * kEight;
      QUERN_UNROLL for (f32& sum : sums[e].x) sum = 0.0f;
    }
    QUERN_ROLLED for (i32 of = 0; of < parts; ++of) {
      vec16 v[kEightsAtOnce][2];
      QUERN_UNROLL for (i32 e = 0; e < kEightsAtOnce; ++e) {
        const u32 there = cluster_address(staged + (row[e] < 0 ? part : row[e]) * kSumsPitch + column[e],
                                          static_cast<u32>(of));
        v[e][0] = load_cluster<vec16>(there), v[e][1] = load_cluster<vec16>(there + 16);
      }
      QUERN_UNROLL for (i32 e = 0; e < kEightsAtOnce; ++e) {
        QUERN_UNROLL for (i32 i = 0; i < kEight; ++i) sums[e].x[i] += f32_of(v[e][i / 4].x[i % 4]);
      }
    }
    QUERN_UNROLL for (i32 e = 0; e < kEightsAtOnce; ++e) {
      if constexpr (kScaled) {
        const i32 source = row[e] < 0 ? 0 : work.row + row[e];
        const f32 of_row = scale_of_row(p, work, source);
        const f32* of_column = p.scale_b + work.group * p.scale_b_group;
        QUERN_UNROLL for (i32 i = 0; i < kEight; ++i) {
          // Columns beyond the last are not stored, so they may take any scale.
          const i32 c = work.column + column[e] + i;
          sums[e].x[i] *= of_row * of_column[(c < p.n ? c : p.n - 1) * p.scale_b_row];
        }
      }
      finish_eight(p, work, row[e] >= 0, row[e] < 0 ? 0 : row[e], column[e], sums[e], Eight{});
    }
  }
}

// A consumer warpgroup's part of the cluster's tile. The other warps of the block meet this one at two barriers of the
// cluster: sums are written; sums have been read.
template <class Tiles>
QUERN_DEVICE void multiply_split_tile(const GemmParams& p, Tiles tiles, const Consumer& c, u8* shared) {
  Work work;
  tiles.next(work);
  if (kOrdered && c.number == 1) c.hand_over();
  if constexpr (kPromoted) {
    c.sums.clear();
    if constexpr (kBlockScale) {
      promote_scaled_k_blocks(work, c);
    } else {
      promote_k_blocks(k_blocks_of(work), c);
    }
  } else {
    accumulate_k_blocks(k_blocks_of(work), c);
  }
  if (kOrdered && c.number == 0) c.take_turn();  // the other warpgroup handed over last
  // Sums take the place of the stages, which the other warpgroup may still read.
  sync_named(kScaleBarrier, kConsumers * kGroupThreads);
  auto* staged = reinterpret_cast<f32*>(shared);
  const i32 l = lane();
  write_sums<0>(c.sums, staged + (c.number * 64 + warp() % 4 * 16 + l / 4) * kSumsPitch + (l & 3) * 2);
  sync_cluster_shared();
  finish_rows(p, work, staged);
}

}  // namespace q
