// The tiles of fitted.cuh, which block has which of them, and the warp that copies them.
//
// To this kernel b is the first operand and a the second. A tile is kTileM rows of b by as many rows of a as the launch
// says (`rows` below), at most kTileN. A tile that would reach beyond the last row of a or of b begins earlier, so that
// it reads rows that exist: TMA takes longer to fill rows outside of a matrix with zeros than to copy rows. What lies
// in the tile before it as well is not stored twice.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/sm90/warpgroup.cuh"
#include "gemm/kernels/shared/dense_tiles.cuh"
#include "gemm/kernels/shared/tma_tiles.cuh"

namespace q {

inline constexpr i32 kGroupThreads = 128;
inline constexpr i32 kConsumers = 2;  // consumer warpgroups, of which each has 64 rows of b of every tile
inline constexpr i32 kFirstBytes = kTileM * 128;
static_assert(kTileM == kConsumers * 64 && kThreads == (kConsumers + 1) * kGroupThreads &&
              kBlockK * sizeof(ElementA) == 128 && !kTransposedA && !kTransposedB && kGrouping == kDense && !kGate &&
              !kOutScale && !kBlockScale);

// What the launch says of a tile.
struct Fit {
  i32 rows;         // of a
  i32 stages;       // that there is room for
  i32 stage_bytes;  // of one

  QUERN_DEVICE explicit Fit(const GemmParams& p)
      : rows(fitted_rows_of(p.flags)), stages(fitted_stages_of(p.flags)), stage_bytes(kFirstBytes + rows * 128) {}
};

// The stage at hand and its phase, with a number of stages that is known at run time only.
struct FittedState {
  i32 stage = 0;
  u32 phase = 0;
  i32 begun = 0;  // the stage that was the first: its phase is the first to change

  // Begins so that the last of `k_blocks` k blocks takes the last stage. The stages before that are free early, and
  // other blocks' sums find the same place in every block.
  QUERN_DEVICE void end_with_last(i32 k_blocks, i32 stages) {
    const i32 rest = k_blocks - k_blocks / stages * stages;
    stage = begun = rest == 0 ? 0 : stages - rest;
  }
  QUERN_DEVICE void next(i32 stages) {
    if (++stage == stages) stage = 0;
    if (stage == begun) phase ^= 1;
  }
};

// The position of a block in its cluster, which is the first dimension of the grid: rank = (part * twins + twin) *
// peers + peer. Peers have the same rows of a and neighbouring rows of b, twins the same rows of b and neighbouring
// rows of a; they share copies of what is the same by cluster multicast. Blocks that differ in `part` alone share a
// tile by split-K.
struct FittedBlock {
  i32 peer_bits, twin_bits;  // logarithms of their numbers
  i32 part, parts, twin, peer;

  QUERN_DEVICE explicit FittedBlock(const GemmParams& p)
      : peer_bits(fitted_peers_of(p.flags)), twin_bits(fitted_twins_of(p.flags)) {
    const i32 rank = block_index(0), shift = peer_bits + twin_bits;
    part = rank >> shift, parts = block_count(0) >> shift;
    peer = rank & (peers() - 1), twin = rank >> peer_bits & (twins() - 1);
  }
  QUERN_DEVICE i32 peers() const { return 1 << peer_bits; }
  QUERN_DEVICE i32 twins() const { return 1 << twin_bits; }
  QUERN_DEVICE bool clustered() const { return parts > 1 || shared_by() > 1; }
  // Waits until all blocks of the cluster have begun and initialised their mbarriers.
  QUERN_DEVICE void meet() const {
    if (clustered()) cluster_wait();
  }
  QUERN_DEVICE i32 shared_by() const { return peers() + twins() - 1; }  // blocks that it copies for
  QUERN_DEVICE i32 rank_of(i32 of_part, i32 of_twin, i32 of_peer) const {
    return (((of_part << twin_bits) + of_twin) << peer_bits) + of_peer;
  }
  QUERN_DEVICE u32 rank_of_part(i32 of_part) const { return static_cast<u32>(rank_of(of_part, twin, peer)); }
  // Number i of the blocks that copy for this one, itself among them; -1 where there are fewer.
  QUERN_DEVICE i32 rank_of_sharer(i32 i) const {
    if (i < peers()) return rank_of(part, twin, i);
    return i < shared_by() ? rank_of(part, twin ^ 1, peer) : -1;
  }
  // Ranks as bits: of all peers, and of all twins.
  QUERN_DEVICE u32 all_peers() const { return ((1u << peers()) - 1) << rank_of(part, twin, 0); }
  QUERN_DEVICE u32 all_twins() const { return 1u << rank_of(part, 0, peer) | 1u << rank_of(part, twins() - 1, peer); }
};

struct FittedWork {
  i32 group;
  i32 first;                  // row of b that the tile begins with: a column of out
  i32 second;                 // row of a
  i32 own_first, own_second;  // the first of those whose results the tile before does not have
  i32 first_k_block, end_k_block;
};

// A block's tiles, or its part of the k blocks of one. The second dimension of the grid counts clusters.
class FittedTiles {
 public:
  QUERN_DEVICE FittedTiles(const GemmParams& p, const FittedBlock& block)
      : p_(p), tiles_(p, block_index(1), block_count(1), block.peers(), block.peer) {}
  QUERN_DEVICE bool next(FittedWork& work) {
    Work tile;
    if (!tiles_.next(tile)) return false;
    // Computed again for each tile: kept over the products they would take registers from the accumulators.
    const FittedBlock block(p_);
    const i32 rows = fitted_rows_of(p_.flags);
    work.group = tile.group;
    work.own_first = tile.row;
    work.own_second = ((tile.column / kTileN << block.twin_bits) + block.twin) * rows;
    // Results that are stored 16 bytes at a time begin at multiples of eight columns.
    const i32 last_first = round_up(p_.n - kTileM, 8), last_second = p_.m - rows;
    work.first = least(work.own_first, last_first < 0 ? 0 : last_first);
    work.second = least(work.own_second, last_second < 0 ? 0 : last_second);
    work.first_k_block = 0, work.end_k_block = tile.end_k_block;
    if (block.parts > 1) {
      work.first_k_block = tile.end_k_block * block.part / block.parts;
      work.end_k_block = tile.end_k_block * (block.part + 1) / block.parts;
    }
    return true;
  }

 private:
  static QUERN_DEVICE i32 least(i32 a, i32 b) { return a < b ? a : b; }

  const GemmParams& p_;
  DenseTiles tiles_;
};

struct FittedBarriers {
  Mbarrier full[kStages], empty[kStages];
  Mbarrier received;  // bytes of other blocks' sums
};
inline constexpr i32 kFull = 0, kEmpty = kStages;

// What one thread copies: each of the peers a part of the rows of a for all of them, each of the twins of the rows of
// b. A block whose tile lies beyond the last copies rows that exist: what it waits for keeps its releases in step with
// the others' stages.
class FittedCopies {
 public:
  QUERN_DEVICE FittedCopies(const GemmParams& p, const TensorMap& map_first, const TensorMap& map_second,
                            const Fit& fit, const FittedBlock& block, u8* shared, FittedBarriers& barriers)
      : p_(p),
        map_first_(map_first),
        map_second_(map_second),
        fit_(fit),
        block_(block),
        shared_(shared),
        barriers_(barriers),
        first_rows_(fitted_first_rows(p.n, kTileM)) {}

  // The first k blocks of the first tile, into stages that are still unused. A block of a cluster copies all of their
  // rows for itself, since the others may not have begun.
  QUERN_DEVICE void begin(const FittedWork& work) {
    if (block_.parts > 1) state_.end_with_last(work.end_k_block - work.first_k_block, fit_.stages);
    const i32 left = work.end_k_block - work.first_k_block;
    begun_ = left < kBegunAlone ? left : kBegunAlone;
    QUERN_ROLLED for (i32 i = 0; i < begun_; ++i) {
      u8* to = stage();
      QUERN_ROLLED for (i32 twin = 0; twin < block_.twins(); ++twin) copy_first(to, work, work.first_k_block + i, twin);
      QUERN_ROLLED for (i32 peer = 0; peer < block_.peers(); ++peer)
          copy_second(to, work, work.first_k_block + i, peer);
      state_.next(fit_.stages);
    }
  }
  // All that is left of the first tile and the tiles behind it.
  QUERN_DEVICE void finish(FittedTiles& tiles, FittedWork& work) {
    const u32 peers = block_.all_peers(), twins = block_.all_twins();
    work.first_k_block += begun_;
    do {
      QUERN_ROLLED for (i32 k_block = work.first_k_block; k_block < work.end_k_block; ++k_block) {
        mbarrier_wait(barriers_.empty[state_.stage], state_.phase ^ 1);
        u8* to = stage();
        if (block_.twin_bits == 0) {
          copy_first(to, work, k_block, 0);
        } else {
          const i32 from = block_.twin * (first_rows_ >> block_.twin_bits);
          TmaTileA::load_multicast(to + from * 128, map_first_, full(), twins, CacheHint::normal, k_block * kBlockK,
                                   work.first + from, first_group(work));
        }
        if (block_.peer_bits == 0) {
          copy_second(to, work, k_block, 0);
        } else {
          const i32 from = block_.peer * (fit_.rows >> block_.peer_bits);
          TmaTileB::load_multicast(to + kFirstBytes + from * 128, map_second_, full(), peers, CacheHint::normal,
                                   k_block * kBlockK, work.second + from, second_group(work));
        }
        state_.next(fit_.stages);
      }
    } while (tiles.next(work));
  }

 private:
  static constexpr i32 kBegunAlone = 3;  // k blocks, about as long as the blocks of a cluster need to meet

  QUERN_DEVICE Mbarrier& full() { return barriers_.full[state_.stage]; }
  // The stage at hand, of which all bytes are expected.
  QUERN_DEVICE u8* stage() {
    mbarrier_arrive_expect(full(), static_cast<u32>((first_rows_ + fit_.rows) * 128));
    return shared_ + state_.stage * fit_.stage_bytes;
  }
  QUERN_DEVICE i32 first_group(const FittedWork& work) const { return (p_.flags & kGroupsOfB) != 0 ? work.group : 0; }
  QUERN_DEVICE i32 second_group(const FittedWork& work) const { return (p_.flags & kGroupsOfA) != 0 ? work.group : 0; }
  // The rows that a twin, or a peer, has to copy.
  QUERN_DEVICE void copy_first(u8* to, const FittedWork& work, i32 k_block, i32 twin) {
    const i32 from = twin * (first_rows_ >> block_.twin_bits);
    TmaTileA::load(to + from * 128, map_first_, full(), CacheHint::normal, k_block * kBlockK, work.first + from,
                   first_group(work));
  }
  QUERN_DEVICE void copy_second(u8* to, const FittedWork& work, i32 k_block, i32 peer) {
    const i32 from = peer * (fit_.rows >> block_.peer_bits);
    TmaTileB::load(to + kFirstBytes + from * 128, map_second_, full(), CacheHint::normal, k_block * kBlockK,
                   work.second + from, second_group(work));
  }

  const GemmParams& p_;
  const TensorMap &map_first_, &map_second_;
  const Fit& fit_;
  const FittedBlock& block_;
  u8* shared_;
  FittedBarriers& barriers_;
  i32 first_rows_;
  FittedState state_;
  i32 begun_ = 0;
};

}  // namespace q
