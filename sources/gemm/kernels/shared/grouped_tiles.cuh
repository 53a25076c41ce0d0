// The tiles of a grouped product, whose rows per group are known on the device only. Every block of threads computes
// the same list of tiles, expert after expert, and takes every block_count-th of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gemm/kernels/shared/tile.cuh"

namespace q {

struct Experts {
  i32 first_row[kMaxExperts];  // the expert's first row of out (contiguous grouping)
  i32 rows[kMaxExperts];
  i32 first_tile[kMaxExperts + 1];  // in rows of tiles; the tiles of cluster multicast peers count as one
};

// Whether groups are told by offsets, and not by the number of rows of each.
QUERN_DEVICE bool takes_offsets(const GemmParams& p) { return kGrouping == kContiguous && !p.counts; }

// Computed by the first warp; all threads of the block must call it. An offset smaller than the one before counts as
// equal to it, and rows beyond the tensor are left out, so that no row has two experts and none lies outside.
QUERN_DEVICE void list_experts(const GemmParams& p, Experts& experts, i32 tile_rows = kTileM) {
  if (warp() == 0) {
    const i32 l = lane();
    i32 tiles = 0, reached = 0, wrong = 0;
    QUERN_ROLLED for (i32 first = 0; first < p.groups; first += kWarp) {
      const i32 e = first + l;
      const bool there = e < p.groups;
      i32 begin = 0, rows = 0;
      if (takes_offsets(p)) {
        const i32 from = there ? p.offsets[e] : 0, to = there ? p.offsets[e + 1] : 0;
        if (there && (to < from || (e == 0 && from < 0))) wrong |= kBadOffsets;
        if (there && (from > p.out_rows || to > p.out_rows)) wrong |= kBadCapacity;
        // The largest offset so far.
        begin = from;
        QUERN_UNROLL for (i32 d = 1; d < kWarp; d *= 2) {
          const i32 before = shuffle_up(begin, d);
          if (l >= d && before > begin) begin = before;
        }
        if (begin < reached) begin = reached;
        reached = shuffle(begin, kWarp - 1);
        const i32 end = to < p.out_rows ? to : p.out_rows;
        rows = there && end > begin ? end - begin : 0;
      } else {
        rows = there ? p.counts[e] : 0;
        if (rows < 0 || rows > p.m) wrong |= kBadCapacity;
        rows = rows < 0 ? 0 : rows < p.m ? rows : p.m;
      }
      const i32 own = div_up(rows, tile_rows);
      i32 upto = own;  // inclusive sum over the warp
      QUERN_UNROLL for (i32 d = 1; d < kWarp; d *= 2) {
        const i32 before = shuffle_up(upto, d);
        if (l >= d) upto += before;
      }
      if (there) {
        experts.first_row[e] = begin;
        experts.rows[e] = rows;
        experts.first_tile[e] = tiles + upto - own;
      }
      tiles += shuffle(upto, kWarp - 1);
    }
    if (l == 0) experts.first_tile[p.groups] = tiles;
    if (wrong != 0 && p.status && block_index(0) == 0) atomic_or(p.status, wrong);
  }
  sync_block();
}

// Iterates over the tiles of one block of threads. With cluster multicast the `peers` blocks of a cluster take tiles of
// the same columns, one below the other.
class ExpertTiles {
 public:
  QUERN_DEVICE ExpertTiles(const GemmParams& p, const Experts& experts)
      : ExpertTiles(p, experts, block_index(0), block_count(0)) {}
  // The tiles of block (or cluster) number `index` of `all`; `rank` is the block's number among its peers.
  QUERN_DEVICE ExpertTiles(const GemmParams& p, const Experts& experts, i32 index, i32 all, i32 peers = 1, i32 rank = 0)
      : p_(p),
        experts_(experts),
        peers_(peers),
        rank_(rank),
        tile_(index),
        all_(all),
        tiles_(experts.first_tile[p.groups] * p.tiles_n) {}
  QUERN_DEVICE bool more() const { return tile_ < tiles_; }
  QUERN_DEVICE bool next(Work& work) {
    if (!more()) return false;
    work = work_of(tile_);
    tile_ += all_;
    return true;
  }

 private:
  QUERN_DEVICE Work work_of(i32 tile) const {
    const i32 row_tile = tile / p_.row_tiles;
    i32 low = 0, high = p_.groups;  // first_tile[low] <= row_tile < first_tile[high]
    QUERN_ROLLED while (high - low > 1) {
      const i32 middle = (low + high) / 2;
      if (experts_.first_tile[middle] <= row_tile) {
        low = middle;
      } else {
        high = middle;
      }
    }
    const i32 tiles = experts_.first_tile[low + 1] - experts_.first_tile[low];
    // An expert's tiles of the same columns have consecutive numbers, since they read the same weights.
    const i32 within = tile - experts_.first_tile[low] * p_.tiles_n;
    Work work{};
    work.group = low;
    work.row = (within % tiles * peers_ + rank_) * kTileM;
    work.column = within / tiles * kOutTileN;
    work.rows = experts_.rows[low];
    work.first_row = kGrouping == kContiguous ? experts_.first_row[low] : 0;
    work.end_k_block = div_up(p_.k, kBlockK);
    work.tile = tile;
    return work;
  }

  const GemmParams& p_;
  const Experts& experts_;
  i32 peers_, rank_, tile_, all_, tiles_;
};

// Reports indices that name no row of a. The blocks of threads divide the rows among them.
QUERN_DEVICE void check_indices(const GemmParams& p, const Experts& experts) {
  if (kGrouping != kContiguous || !p.indices || !p.status) return;
  // Offsets may exceed the tensor by any amount.
  const auto within = [&](i32 row) { return row < p.out_rows ? row : p.out_rows; };
  const i32 last = p.groups - 1, end = within(experts.first_row[last] + experts.rows[last]);
  bool wrong = false;
  QUERN_ROLLED for (i32 r = within(experts.first_row[0]) + block_index(0) * kThreads + thread_index(); r < end;
                    r += block_count(0) * kThreads) {
    wrong |= p.indices[r] < 0 || p.indices[r] >= p.a_rows;
  }
  if (wrong) atomic_or(p.status, kBadIndex);
}

}  // namespace q
