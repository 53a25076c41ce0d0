// The form of persistent.cuh in which the operands are swapped and the blocks of a cluster divide the k blocks of a
// tile (split-K), of which each cluster has one: for few tiles, and for rows that do not fill tiles of 128. Rows of b
// take the place of rows, so a tile may have any of wgmma's numbers of rows of a. To the copies and the main loop b is
// the first operand and a the second; here `work` means the tile as they see it.
//
// At the end the blocks exchange partial sums. Every 8 rows of a have one block that finishes their results. All blocks
// send it their sums from registers to its shared memory, in the place of its stages, where an mbarrier counts the
// bytes that arrive. They are added up in the order of the k blocks, whatever order they arrive in.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gemm/kernels/shared/dense_tiles.cuh"
#include "gemm/kernels/sm90/persistent_k_loop.cuh"

namespace q {

static_assert(!kClusterK || (kGrouping == kDense && !kGate && !kOutScale && !kOverlappedEpilogue && !kBlockScale &&
                             !kTransposedA && !kTransposedB));

// The position of a block in its cluster, which is the first dimension of the grid: rank = part * peers + peer. Blocks
// with the same `part` (the peers) have the same rows of a and neighbouring rows of b and share copies of a by cluster
// multicast; blocks with the same `peer` share a tile by split-K.
struct ClusterKBlock {
  i32 part, parts, peer, peers;

  QUERN_DEVICE explicit ClusterKBlock(const GemmParams& p) : peers(p.peers) {
    const i32 rank = block_index(0), shift = peers == 2 ? 1 : 0;
    part = rank >> shift, parts = block_count(0) >> shift, peer = rank & (peers - 1);
  }
  QUERN_DEVICE u32 rank_of(i32 of_part) const { return static_cast<u32>(of_part * peers + peer); }
};

// A block's part of the k blocks of its tile, in the form that the roles iterate over. The second dimension of the grid
// counts clusters.
class ClusterKTiles {
 public:
  QUERN_DEVICE ClusterKTiles(const GemmParams& p, const ClusterKBlock& block)
      : tiles_(p, block_index(1), block_count(1), block.peers, block.peer), part_(block.part), parts_(block.parts) {}
  QUERN_DEVICE bool next(Work& work) {
    if (!tiles_.next(work)) return false;
    const i32 k_blocks = work.end_k_block;
    work.first_k_block = k_blocks * part_ / parts_;
    work.end_k_block = k_blocks * (part_ + 1) / parts_;
    return true;
  }

 private:
  DenseTiles tiles_;
  i32 part_, parts_;
};

// Sums are exchanged in groups: 8 rows of a and a consumer's 64 rows of b, of which each thread has four sums.
inline constexpr i32 kGroupRows = 8, kGroupSums = 4, kGroups = kTileN / kGroupRows;
inline constexpr i32 kGroupBytes = kGroupThreads * kGroupSums * 4, kWarpBytes = kGroupBytes / 4;
// A group that a block finishes has a slot for each block and consumer.
inline constexpr i32 kMostParts = 8;
static_assert(!kClusterK || (kGroups + kMostParts) * kConsumers * kGroupBytes <= kStages * (kABytes + kBBytes));

// This block among those that share the tile, and the groups that it finishes of those that exist.
struct ClusterKPart {
  ClusterKBlock block;
  i32 number, parts, groups, first, end;

  QUERN_DEVICE ClusterKPart(const GemmParams& p, i32 rows)
      : block(p),
        number(block.part),
        parts(block.parts),
        groups(div_up(rows, kGroupRows)),
        first(groups * number / parts),
        end(groups * (number + 1) / parts) {}
  // The place of part `part` of the own group number i (from `first` on), from the beginning of the stages on.
  QUERN_DEVICE i32 slot(i32 i, i32 part, i32 consumer) const {
    return ((i * parts + part) * kConsumers + consumer) * kGroupBytes;
  }
};

// Which block finishes a group, for one group after the other.
struct GroupOwner {
  i32 block = 0, first = 0;  // its first group
  i32 next;                  // the first group of the block behind it

  QUERN_DEVICE explicit GroupOwner(const ClusterKPart& part) : next(part.groups / part.parts) {}
  QUERN_DEVICE void find(i32 group, const ClusterKPart& part) {
    QUERN_ROLLED while (group >= next && block + 1 < part.parts) {
      ++block;
      first = next;
      next = part.groups * (block + 1) / part.parts;
    }
  }
};

// Sends a thread's sums from element `first` on, two groups at a time, to the blocks that finish them.
template <i32 first>
QUERN_DEVICE void send_groups(const Sums& sums, const ClusterKPart& part, GroupOwner owner, i32 consumer, u8* shared,
                              Mbarrier& received) {
  constexpr i32 kGroup = first / kGroupSums;
  if (kGroup >= part.groups) return;
  f32 x[8];
  sums.template read<first>(x);
  const i32 t = thread_index() % kGroupThreads * 16;
  QUERN_UNROLL for (i32 i = 0; i < 2; ++i) {
    if (kGroup + i < part.groups) {
      owner.find(kGroup + i, part);
      const vec16 v = {bits_of(x[4 * i]), bits_of(x[4 * i + 1]), bits_of(x[4 * i + 2]), bits_of(x[4 * i + 3])};
      u8* to = shared + part.slot(kGroup + i - owner.first, part.number, consumer) + t;
      if (owner.block == part.number) {
        store16(to, v);
      } else {
        const u32 rank = part.block.rank_of(owner.block);
        store_async(cluster_address(to, rank), v, cluster_address(&received, rank));
      }
    }
  }
  if constexpr (first + 8 < kSumCount) send_groups<first + 8>(sums, part, owner, consumer, shared, received);
}

// The scales of the eight columns of out that a lane finishes.
struct ColumnScales {
  f32 x[kEight];

  QUERN_DEVICE ColumnScales(const GemmParams& p, i32 column) {
    QUERN_UNROLL for (i32 i = 0; i < kEight; ++i) {
      // Columns beyond the last are not stored, so they may take any scale.
      const i32 c = column + i < p.n ? column + i : p.n - 1;
      x[i] = kScaled ? p.scale_b[c * p.scale_b_row] : 1.0f;
    }
  }
};

// Adds up and finishes this block's groups, two at a time: of each a warp has 16 columns of out and 8 rows.
QUERN_DEVICE void finish_groups(const GemmParams& p, const Work& work, const ClusterKPart& part, i32 consumer,
                                const ColumnScales& scales, u8* shared) {
  Work out = work;
  out.row = work.column, out.column = work.row, out.rows = p.m;
  const i32 l = lane(), w = warp() % 4, which = l / 16, row = l % 16 / 2, half = l % 2;
  const i32 column = consumer * 64 + w * 16 + half * 8;
  QUERN_ROLLED for (i32 group = part.first; group < part.end; group += 2) {
    u8* places[2];
    f32 sums[2][kGroupSums];
    QUERN_UNROLL for (i32 g = 0; g < 2; ++g) {
      const i32 own = group + g < part.end ? group + g - part.first : group - part.first;
      places[g] = shared + part.slot(own, 0, consumer) + w * kWarpBytes;
      QUERN_UNROLL for (f32& sum : sums[g]) sum = 0.0f;
    }
    QUERN_ROLLED for (i32 of = 0; of < part.parts; ++of) {
      QUERN_UNROLL for (i32 g = 0; g < 2; ++g) {
        const vec16 v = load16(places[g] + of * (kConsumers * kGroupBytes) + l * 16);
        QUERN_UNROLL for (i32 i = 0; i < kGroupSums; ++i) sums[g][i] += f32_of(v.x[i]);
      }
    }
    // Transposed to [row of a][16 rows of b] in the place of the first part.
    sync_warp();
    QUERN_UNROLL for (i32 g = 0; g < 2; ++g) {
      auto* to = reinterpret_cast<f32*>(places[g]);
      if (g == 0 || group + 1 < part.end) {
        QUERN_UNROLL for (i32 i = 0; i < kGroupSums; ++i) to[((l & 3) * 2 + (i & 1)) * 16 + l / 4 + i / 2 * 8] =
            sums[g][i];
      }
    }
    sync_warp();
    const bool there = group + which < part.end;
    const f32* from = reinterpret_cast<const f32*>(which != 0 ? places[1] : places[0]) + row * 16 + half * 8;
    Eight v = read_eight(from);
    const i32 line = (there ? group + which : group) * kGroupRows + row;
    if constexpr (kScaled) {
      const i32 source = out.row + line;
      const f32 of_row = scale_of_row(p, out, source < p.m ? source : p.m - 1);
      QUERN_UNROLL for (i32 i = 0; i < kEight; ++i) v.x[i] *= of_row * scales.x[i];
    }
    finish_eight(p, out, there, line, column, v, Eight{});
  }
}

// A consumer warpgroup's part of the cluster's tile. With several blocks all warps of all blocks meet once, when every
// block's stages are free.
template <class Tiles>
QUERN_DEVICE void multiply_cluster_tile(const GemmParams& p, Tiles tiles, const Consumer& c, u8* shared,
                                        Mbarrier& received) {
  Work work;
  tiles.next(work);
  if (kOrdered && c.number == 1) c.hand_over();
  if constexpr (kPromoted) {
    c.sums.clear();
    promote_k_blocks(k_blocks_of(work), c);
  } else {
    accumulate_k_blocks(k_blocks_of(work), c);
  }
  if (kOrdered && c.number == 0) c.take_turn();  // the other warpgroup handed over last
  const i32 left = p.m - work.column;
  const ClusterKPart part(p, left < kTileN ? left : kTileN);
  const ColumnScales scales(p, work.row + c.number * 64 + warp() % 4 * 16 + lane() % 2 * 8);
  if (part.parts > 1) {
    if (thread_index() == 0) {
      mbarrier_arrive_expect(received,
                             static_cast<u32>((part.end - part.first) * (part.parts - 1) * kConsumers * kGroupBytes));
    }
    sync_warp();
    sync_cluster_shared();
  } else {
    sync_named(kScaleBarrier, kConsumers * kGroupThreads);  // the other warpgroup may still read the stages
  }
  send_groups<0>(c.sums, part, GroupOwner(part), c.number, shared, received);
  if (part.parts > 1) mbarrier_wait_cluster(received, 0);
  sync_warp();
  finish_groups(p, work, part, c.number, scales, shared);
}

}  // namespace q
