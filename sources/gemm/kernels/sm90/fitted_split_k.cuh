// Split-K of fitted.cuh: the blocks of a cluster divide the k blocks of a tile, of which each cluster has one.
//
// At the end the blocks exchange partial sums. Every 8 rows of a have one block that finishes their results. All blocks
// send it their sums from registers to its shared memory, where an mbarrier counts the bytes that arrive: in the place
// of its stages but those of the last k blocks, of which it tells that they are free while it multiplies these. Sums
// are added up in the order of the k blocks, whatever order they arrive in.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gemm/kernels/sm90/fitted_epilogue.cuh"

namespace q {

// Sums are exchanged in groups: 8 of a consumer's rows of a and its 64 rows of b, of which each thread has four sums.
inline constexpr i32 kGroupRows = 8, kGroupSums = 4, kGroups = kTileN / kGroupRows;
inline constexpr i32 kGroupBytes = kGroupThreads * kGroupSums * 4, kWarpBytes = kGroupBytes / 4;
// A group that a block finishes has a slot for each block and consumer; more blocks would need more room with tall
// tiles.
inline constexpr i32 kMostParts = kTileN > 192 ? 5 : 8;
inline constexpr i32 kMultiplied = kPromoted ? 2 : 1;  // stages that are in use when the others are free
QUERN_DEVICE constexpr bool sums_fit(i32 rows) {
  const i32 stage = kFirstBytes + rows * 128, all = STAGE_ROOM / stage, stages = all < kStages ? all : kStages;
  for (i32 parts = 2; parts <= kMostParts; ++parts) {
    if (div_up(rows / kGroupRows, parts) * parts * kConsumers * kGroupBytes > (stages - kMultiplied) * stage)
      return false;
  }
  return true;
}
QUERN_DEVICE constexpr bool all_sums_fit() {
  for (i32 height = kFirstHeight; height < kFirstHeight + kHeights; ++height) {
    if (!sums_fit(fitted_height(height))) return false;
  }
  return true;
}
static_assert(all_sums_fit());

// This block among those that share the tile, and the groups that it finishes of those that exist.
struct FittedPart {
  FittedBlock block;
  i32 number, parts, groups, first, end;

  QUERN_DEVICE FittedPart(const GemmParams& p, i32 rows)
      : block(p),
        number(block.part),
        parts(block.parts),
        groups(rows / kGroupRows),
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

  QUERN_DEVICE explicit GroupOwner(const FittedPart& part) : next(part.groups / part.parts) {}
  QUERN_DEVICE void find(i32 group, const FittedPart& part) {
    QUERN_ROLLED while (group >= next && block + 1 < part.parts) {
      ++block;
      first = next;
      next = part.groups * (block + 1) / part.parts;
    }
  }
};

// Sends a thread's sums from element `first` on, two groups at a time, to the blocks that finish them.
template <i32 first>
QUERN_DEVICE void send_groups(const Sums& sums, const FittedPart& part, GroupOwner owner, i32 consumer, u8* shared,
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
        const u32 rank = part.block.rank_of_part(owner.block);
        store_async(cluster_address(to, rank), v, cluster_address(&received, rank));
      }
    }
  }
  if constexpr (first + 8 < kTileN / 2) send_groups<first + 8>(sums, part, owner, consumer, shared, received);
}

// Adds up and finishes this block's groups, two at a time: of each a warp has 16 columns of out and 8 rows.
QUERN_DEVICE void finish_groups(const GemmParams& p, const FittedWork& work, const FittedPart& part,
                                const FittedConsumer& c, const ColumnScales& scales, u8* shared) {
  const i32 l = lane(), w = warp() % 4, which = l / 16, row = l % 16 / 2, half = l % 2;
  QUERN_ROLLED for (i32 group = part.first; group < part.end; group += 2) {
    u8* places[2];
    f32 sums[2][kGroupSums];
    QUERN_UNROLL for (i32 g = 0; g < 2; ++g) {
      const i32 own = group + g < part.end ? group + g - part.first : group - part.first;
      places[g] = shared + part.slot(own, 0, c.number) + w * kWarpBytes;
      QUERN_UNROLL for (f32& sum : sums[g]) sum = 0.0f;
    }
    QUERN_ROLLED for (i32 of = 0; of < part.parts; ++of) {
      QUERN_UNROLL for (i32 g = 0; g < 2; ++g) {
        const vec16 v = load16(places[g] + of * (kConsumers * kGroupBytes) + l * 16);
        QUERN_UNROLL for (i32 i = 0; i < kGroupSums; ++i) sums[g][i] += f32_of(v.x[i]);
      }
    }
    // Turned to [row of a][16 rows of b] in the place of the first part.
    sync_warp();
    QUERN_UNROLL for (i32 g = 0; g < 2; ++g) {
      auto* to = reinterpret_cast<f32*>(places[g]);
      if (g == 0 || group + 1 < part.end) {
        QUERN_UNROLL for (i32 i = 0; i < kGroupSums; ++i) to[turned_place(i)] = sums[g][i];
      }
    }
    sync_warp();
    const bool there = group + which < part.end;
    const f32* from = reinterpret_cast<const f32*>(which != 0 ? places[1] : places[0]) + row * 16 + half * kEight;
    const i32 line = (there ? group + which : group) * kGroupRows + row;
    finish_turned(p, work, there, line, c.column + w * 16 + half * kEight, scales, from);
  }
}

// Exchanges and finishes the sums of a tile, when all blocks of the cluster have told that stages are free.
QUERN_DEVICE void finish_part(const GemmParams& p, const FittedWork& work, const FittedConsumer& c, u8* shared,
                              Mbarrier& received) {
  const FittedPart part(p, c.fit.rows);
  const ColumnScales scales(p, work, c.column + warp() % 4 * 16 + lane() % 2 * kEight);
  if (thread_index() == 0) {
    mbarrier_arrive_expect(received,
                           static_cast<u32>((part.end - part.first) * (part.parts - 1) * kConsumers * kGroupBytes));
  }
  sync_warp();
  cluster_wait();
  send_groups<0>(c.sums, part, GroupOwner(part), c.number, shared, received);
  mbarrier_wait_cluster(received, 0);
  sync_warp();
  finish_groups(p, work, part, c, scales, shared);
}

}  // namespace q
