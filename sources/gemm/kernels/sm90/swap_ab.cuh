// Matrix products of few rows on Hopper, bound by reading b. The operands are swapped, since wgmma has at least 64
// rows: two consumer warpgroups multiply 64 rows of b each by 16 to 128 rows of a. One producer warp copies by TMA, one
// loads block scales. The blocks of a cluster may share a tile by split-K. With many rows of a two neighbouring tiles
// may share a cluster: each of their blocks copies half of a's rows to both (cluster multicast).
//
// The tensor cores keep about 14 bits of sums of 8-bit products, so after each 128 of k they are added to f32
// accumulators in registers.
// SPDX-License-Identifier: Apache-2.0
#include "common/sm90/wgmma.cuh"
#include "gemm/kernels/shared/dense_tiles.cuh"
#include "gemm/kernels/shared/epilogue.cuh"
#include "gemm/kernels/shared/grouped_tiles.cuh"
#include "gemm/kernels/shared/pipeline.cuh"
#include "gemm/kernels/shared/tma_tiles.cuh"
#include "gemm/kernels/sm90/cluster_split_k.cuh"
#include "gemm/kernels/sm90/small_m_scales.cuh"

namespace q {

inline constexpr i32 kConsumers = 2, kConsumerWarps = 4 * kConsumers;
inline constexpr i32 kCopyWarp = kConsumerWarps, kScaleWarp = kConsumerWarps + 1;
static_assert(kThreads == (kConsumerWarps + 2) * kWarp && kTileN == 64 * kConsumers && kTileM % 16 == 0 &&
              kBlockK * sizeof(ElementB) == 128);
// A stage has 128 bytes of k of each row of b, then of each row of a.
inline constexpr i32 kBBytes = kTileN * 128, kTileBytes = kBBytes + kTileM * 128;
inline constexpr i32 kSumCount = kTileM / 2;  // accumulators of a thread
inline constexpr bool kPromoted = sizeof(ElementB) == 1;

// Accumulators are transposed in shared memory, kSliceM rows of a at a time; those of a block's last tile all at once,
// in the place of the stages.
inline constexpr i32 kSliceM = kTileM < 64 ? kTileM : 64, kStagedPitch = kTileN + 4;
static_assert(kStages * kTileBytes >= kTileM * kStagedPitch * 4);

// Copies b of a k block to the beginning of a stage, and expects the bytes of both operands.
QUERN_DEVICE void copy_b(const GemmParams& p, const TensorMap& map, const Work& work, i32 k_block, u8* stage,
                         Mbarrier& full) {
  // In a dense product with one row of tiles every row of b is read once. An expert may have several tiles of rows.
  const CacheHint hint = kGrouping == kDense && p.tiles_m == 1 ? CacheHint::evict_first : CacheHint::normal;
  mbarrier_arrive_expect(full, kTileBytes);
  TmaTileB::load(stage, map, full, hint, k_block * kBlockK, work.column, group_of_b(p, work));
  if constexpr (kGate || kTransposedB) {
    TmaTileB::load(stage + kBBytes / 2, map, full, hint, k_block * kBlockK,
                   work.column + (kGate ? p.n / 2 : kTileN / 2), group_of_b(p, work));
  }
}

// Copies b of the first k blocks, up to one for each stage, and returns their number. It needs only the list of tiles,
// so it runs before the rest of the set-up.
template <class Tiles>
QUERN_DEVICE i32 begin_copies(const GemmParams& p, const TensorMap& map_b, Tiles tiles, u8* shared, Stages& stages) {
  Work work;
  i32 begun = 0;
  QUERN_ROLLED while (begun < kStages && tiles.next(work)) {
    QUERN_ROLLED for (i32 k_block = work.first_k_block; k_block < work.end_k_block && begun < kStages;
                      ++k_block, ++begun) {
      copy_b(p, map_b, work, k_block, shared + begun * kTileBytes, stages.full[begun]);
    }
  }
  return begun;
}

// Copies a of a k block behind the stage's b, to both blocks if they are peers: each then copies half of the rows, or
// half of the k where a is mn-major.
QUERN_DEVICE void copy_a(const GemmParams& p, const TensorMap& map, const Work& work, const ClusterPosition& position,
                         i32 k_block, u8* stage, Mbarrier& full) {
  const i32 row = static_cast<i32>(kGrouping == kContiguous ? work.first_row : 0) + work.row,
            group = group_of_a(p, work);
  const i32 half_rows = kTransposedA ? 0 : position.peer * (kTileM / 2),
            half_k = kTransposedA ? position.peer * (kBlockK / 2) : 0;
  u8* to = stage + kBBytes + (kTransposedA ? position.peer * (TmaTileA::kSpanBytes / 2) : half_rows * 128);
  QUERN_UNROLL for (i32 box = 0; box < (kTransposedA ? TmaTileA::kSpans : 1); ++box, to += TmaTileA::kSpanBytes) {
    const i32 k = k_block * kBlockK + half_k, line = row + half_rows + box * TmaTileA::kSpan;
    if (position.peers == 1) {
      TmaTileA::load(to, map, full, CacheHint::normal, k, line, group);
    } else {
      TmaTileA::load_multicast(to, map, full, 3u << position.rank_of(position.part, 0), CacheHint::normal, k, line,
                               group);
    }
  }
}

template <class Tiles>
QUERN_DEVICE void copy_tiles(const GemmParams& p, const TensorMap& map_a, const TensorMap& map_b, Tiles tiles,
                             const ClusterPosition& position, u8* shared, Stages& stages, i32 begun) {
  Work work;
  StageState state;
  QUERN_ROLLED while (tiles.next(work)) {
    QUERN_ROLLED for (i32 k_block = work.first_k_block; k_block < work.end_k_block; ++k_block) {
      u8* stage = shared + state.stage * kTileBytes;
      Mbarrier& full = stages.full[state.stage];
      if (begun > 0) {
        --begun;
      } else {
        mbarrier_wait(stages.empty[state.stage], state.phase ^ 1);
        copy_b(p, map_b, work, k_block, stage, full);
      }
      copy_a(p, map_a, work, position, k_block, stage, full);
      state.next();
    }
  }
  // A block must not return before its peer has freed all stages, since the peer arrives on this block's mbarriers.
  if (position.peers > 1) {
    QUERN_ROLLED for (i32 i = 0; i < kStages; ++i, state.next())
        mbarrier_wait(stages.empty[state.stage], state.phase ^ 1);
  }
}

// Reads the row scales into L2, so that the epilogue finds them there.
template <class Tiles>
QUERN_DEVICE void fetch_scales(const GemmParams& p, Tiles tiles) {
  Work work;
  QUERN_ROLLED while (tiles.next(work)) {
    QUERN_ROLLED for (i32 i = lane(); i < kTileM; i += kWarp) {
      const i32 source = source_row(p, work, i);
      if (source >= 0) load_volatile(p.scale_a + work.group * p.scale_a_group + source * p.scale_a_row);
    }
  }
}

// The scales of the two rows of b that a thread has accumulators of, loaded before its products.
struct OwnScales {
  f32 x[2] = {1.0f, 1.0f};

  QUERN_DEVICE OwnScales(const GemmParams& p, const Work& work, i32 consumer) {
    if constexpr (kScaled) {
      QUERN_UNROLL for (i32 h = 0; h < 2; ++h) {
        const i32 source = source_column(p, work, consumer * 64 + wgmma_row(thread_index() % 128, 2 * h));
        if (source >= 0) x[h] = p.scale_b[work.group * p.scale_b_group + source * p.scale_b_row];
      }
    }
  }
};

// Multiplies the consumer's 64 rows of b by as many rows of a as d has room for, from `row` on.
template <i32 count>
QUERN_DEVICE void multiply_k_block(f32 (&d)[count], const u8* stage, i32 consumer, i32 row, bool accumulate) {
  const u64 b = matrix_descriptor(stage + consumer * 64 * 128, TmaTileB::kLayout),
            a = matrix_descriptor(stage + kBBytes + row * 128, TmaTileA::kLayout);
  QUERN_UNROLL for (i32 k = 0; k < 4; ++k) {
    wgmma<ElementB, ElementA, TmaTileB::kMajor, TmaTileA::kMajor>(
        d, advanced(b, k * TmaTileB::kNextBytes), advanced(a, k * TmaTileA::kNextBytes), accumulate || k > 0);
  }
}

// 8-bit products are summed apart before they are promoted, for so many rows of a at a time.
inline constexpr i32 kProductsM = kTileM < 64 ? kTileM : 64;

// Adds the products of a k block to the accumulators of the rows of a from `row` on.
QUERN_DEVICE void promote(f32 (&sums)[kSumCount], const f32 (&products)[kProductsM / 2], i32 row, const f32* scales) {
  QUERN_UNROLL for (i32 j = 0; j < kProductsM / 8; ++j) {
    f32 of_row[2] = {1.0f, 1.0f};
    if constexpr (kBlockScale) {
      const u64 both = *reinterpret_cast<const u64*>(scales + row + 8 * j + (lane() & 3) * 2);
      of_row[0] = f32_of(static_cast<u32>(both)), of_row[1] = f32_of(static_cast<u32>(both >> 32));
    }
    QUERN_UNROLL for (i32 i = 4 * j; i < 4 * j + 4; ++i) {
      f32& sum = sums[row / 2 + i];
      sum = kBlockScale ? fma(products[i], of_row[i & 1], sum) : sum + products[i];
    }
  }
}

// Writes the accumulators of the rows first .. first + rows - 1 of a, whole slices, to shared memory transposed: [row
// of a][row of b].
template <i32 slice>
QUERN_DEVICE void stage_sums(i32 first, i32 rows, const f32 (&sums)[kSumCount], const OwnScales& scales, i32 consumer,
                             f32* staged) {
  constexpr i32 kFirst = slice * kSliceM;
  if (kFirst >= first && kFirst < first + rows) {
    const i32 t = thread_index() % 128;
    f32* to = staged + (kFirst - first) * kStagedPitch + consumer * 64;
    QUERN_UNROLL for (i32 i = 0; i < kSliceM / 2; ++i) {
      const f32 sum = sums[kFirst / 2 + i];
      to[wgmma_column(t, i) * kStagedPitch + wgmma_row(t, i)] = kScaled ? sum * scales.x[i >> 1 & 1] : sum;
    }
  }
  if constexpr (kFirst + kSliceM < kTileM) stage_sums<slice + 1>(first, rows, sums, scales, consumer, staged);
}

QUERN_DEVICE Eight times(Eight v, f32 scale) {
  if constexpr (kScaled) {
    QUERN_UNROLL for (f32& x : v.x) x *= scale;
  }
  return v;
}

using TileExchange = Exchange<kConsumerWarps>;

// The epilogue of a tile, `at_once` rows of a at a time. With split-K this block finishes every parts-th of them.
QUERN_DEVICE void finish_tile(const GemmParams& p, const Work& work, const f32 (&sums)[kSumCount],
                              const OwnScales& scales, i32 consumer, i32 at_once, f32* staged, TileExchange& exchange) {
  constexpr i32 kGroups = kOutTileN / kEight;
  QUERN_ROLLED for (i32 first_row = 0; first_row < kTileM; first_row += at_once) {
    exchange.wait_until_read();
    stage_sums<0>(first_row, at_once, sums, scales, consumer, staged);
    exchange.wait_until_written();
    const i32 left = work.rows - work.row - first_row, rows = left < at_once ? left : at_once;
    const i32 part = exchange.position().part, parts = exchange.position().parts;
    const i32 own = rows > part ? div_up(rows - part, parts) : 0;
    QUERN_ROLLED for (i32 first = 0; first < own * kGroups; first += kConsumerWarps * kWarp) {
      const i32 i = first + thread_index();
      const bool there = i < own * kGroups;
      const i32 row = there ? i / kGroups * parts + part : 0, column = i % kGroups * kEight;
      const f32* at = staged + row * kStagedPitch + column;
      const i32 source = kScaled && there ? source_row(p, work, first_row + row) : -1;
      const f32 scale = source < 0 ? 1.0f : scale_of_row(p, work, source);
      finish_eight(p, work, there, first_row + row, column, times(exchange.sum(at), scale),
                   kGate ? times(exchange.sum(at + kOutTileN), scale) : Eight{});
    }
    exchange.release();
  }
}

template <class Tiles>
QUERN_DEVICE void multiply_tiles(const GemmParams& p, Tiles tiles, i32 consumer, u8* shared, const f32* scales,
                                 Stages& stages, f32* staged, TileExchange& exchange) {
  Work work;
  StageState state;
  [[maybe_unused]] const f32* own_scales = scales + (kGate ? consumer * kTileM : 0);
  const ClusterPosition& position = exchange.position();
  const auto free = [&](i32 stage) {
    sync_warp();
    if (lane() == 0) mbarrier_arrive(stages.empty[stage]);
    if (position.peers > 1 && lane() == 1)
      mbarrier_arrive_remote_relaxed(stages.empty[stage], position.rank_of(position.part, position.peer ^ 1));
  };
  QUERN_ROLLED while (tiles.next(work)) {
    const OwnScales own(p, work, consumer);
    f32 sums[kSumCount];
    if constexpr (kPromoted) {
      QUERN_UNROLL for (f32& sum : sums) sum = 0.0f;
      QUERN_ROLLED for (i32 k_block = work.first_k_block; k_block < work.end_k_block; ++k_block) {
        mbarrier_wait(stages.full[state.stage], state.phase);
        // The second half of the rows is multiplied while the first half is added.
        f32 products[kTileM / kProductsM][kProductsM / 2];
        wgmma_fence();
        QUERN_UNROLL for (i32 i = 0; i < kTileM / kProductsM; ++i) {
          multiply_k_block(products[i], shared + state.stage * kTileBytes, consumer, i * kProductsM, false);
          wgmma_commit();
        }
        if constexpr (kTileM > kProductsM) {
          wgmma_wait<1>(products[0]);
          promote(sums, products[0], 0, own_scales + state.stage * kScaleCount);
        }
        constexpr i32 kLast = kTileM / kProductsM - 1;
        wgmma_wait<0>(products[kLast]);
        promote(sums, products[kLast], kLast * kProductsM, own_scales + state.stage * kScaleCount);
        free(state.stage);
        state.next();
      }
    } else {
      // The products of one k block stay in flight while those of the next begin; by then the stage before has been
      // read. The first k block stands before the loop so that nothing but products writes the accumulators within it.
      const auto multiply = [&](bool accumulate) {
        mbarrier_wait(stages.full[state.stage], state.phase);
        wgmma_fence();
        multiply_k_block(sums, shared + state.stage * kTileBytes, consumer, 0, accumulate);
        wgmma_commit();
      };
      multiply(false);
      i32 before = state.stage;
      state.next();
      QUERN_ROLLED for (i32 k_block = work.first_k_block + 1; k_block < work.end_k_block; ++k_block) {
        multiply(true);
        wgmma_wait<1>();
        free(before);
        before = state.stage;
        state.next();
      }
      wgmma_wait<0>(sums);
      free(before);
    }
    const bool all_at_once = kTileM > kSliceM && !tiles.more();
    if (all_at_once) exchange.wait_for_block();  // the other warpgroup may still read the stages
    finish_tile(p, work, sums, own, consumer, all_at_once ? kTileM : kSliceM,
                all_at_once ? reinterpret_cast<f32*>(shared) : staged, exchange);
  }
  exchange.wait_until_read();
}

template <class Tiles>
QUERN_DEVICE void run_roles(const GemmParams& p, const TensorMap& map_a, const TensorMap& map_b, const Tiles& tiles,
                            const ClusterPosition& position, u8* shared, Stages& stages, ExchangeBarriers& barriers,
                            i32 begun) {
  auto* scales = reinterpret_cast<f32*>(shared + kStages * kTileBytes);
  if (warp() == kCopyWarp) {
    if (lane() == 0) copy_tiles(p, map_a, map_b, tiles, position, shared, stages, begun);
  } else if (warp() == kScaleWarp) {
    if constexpr (kBlockScale) copy_scales<4, 1, kStages>(p, tiles, 0, scales, stages, [] {});
    if constexpr (kScaled) fetch_scales(p, tiles);
  } else {
    TileExchange exchange(barriers, position);
    multiply_tiles(p, tiles, warp() / 4, shared, scales, stages, scales + kStages * kScaleCount, exchange);
  }
}

}  // namespace q

// The first dimension of the grid is one cluster, the second counts clusters.
QUERN_KERNEL(quern_gemm_swap_ab, THREADS, BLOCKS_PER_SM, QUERN_PARAM q::GemmParams p, QUERN_PARAM q::TensorMap map_a,
             QUERN_PARAM q::TensorMap map_b) {
  using namespace q;
  QUERN_SHARED(Stages, stages, 1);
  QUERN_SHARED(ExchangeBarriers, barriers, 1);
  u8* shared = tile_shared();
  const ClusterPosition position(p);
  launch_next_grid();
  // The producer begins as early as possible.
  i32 begun = 0;
  if (thread_index() == kCopyWarp * kWarp) {
    prefetch_tensor_map(map_b);
    prefetch_tensor_map(map_a);
    for (i32 i = 0; i < kStages; ++i) {
      mbarrier_init(stages[0].full[i], kBlockScale ? 2 : 1);
      mbarrier_init(stages[0].empty[i], static_cast<u32>(kConsumerWarps * position.peers));
    }
    TileExchange::init(barriers[0], position);
    fence_mbarrier_init();
    if constexpr (kGrouping == kDense) {
      if ((p.flags & kConstantB) == 0) wait_for_previous_grid();
      begun = begin_copies(p, map_b, ClusterTiles(DenseTiles(p, block_index(1), block_count(1)), position), shared,
                           stages[0]);
    }
  }
  if (position.blocks() > 1) {
    cluster_arrive_relaxed();  // fence_mbarrier_init() orders the initialisation before this
    cluster_wait();
  } else {
    sync_block();
  }
  wait_for_previous_grid();
  if constexpr (kGrouping == kDense) {
    run_roles(p, map_a, map_b, ClusterTiles(DenseTiles(p, block_index(1), block_count(1)), position), position, shared,
              stages[0], barriers[0], begun);
  } else {
    QUERN_SHARED(Experts, experts, 1);
    list_experts(p, experts[0]);
    run_roles(p, map_a, map_b, ClusterTiles(ExpertTiles(p, experts[0], block_index(1), block_count(1)), position),
              position, shared, stages[0], barriers[0], begun);
  }
}
