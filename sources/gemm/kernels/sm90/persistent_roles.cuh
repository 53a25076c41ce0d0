// The roles of persistent.cuh: a producer warpgroup copies tiles of a and b by TMA, and two consumer warpgroups
// multiply them as they arrive.
//
// Two blocks of threads may form a cluster: they have tiles of the same columns, one below the other, and each copies
// half of b's tile into the shared memory of both (cluster multicast).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gemm/kernels/shared/dense_tiles.cuh"
#include "gemm/kernels/sm90/overlapped_epilogue.cuh"
#include "gemm/kernels/sm90/persistent_k_loop.cuh"

namespace q {

// Registers of a thread. The producer warpgroup gets more where it loads scales, unless the next tile's products take
// registers beside the accumulators.
inline constexpr i32 kProducerRegisters = kBlockScale && !kAhead ? 56 : 40;
inline constexpr i32 kConsumerRegisters = 252 - kProducerRegisters / 2;
static_assert((kConsumerRegisters * 2 + kProducerRegisters) * kGroupThreads == 168 * kThreads &&
              kConsumerRegisters % 8 == 0);
static_assert(kConsumers == 2);
// Whether two blocks may be a cluster (may_pair() in plan/choose.cpp).
inline constexpr bool kMayPair = kTileN == 128 && !kBlockScale;

// A consumer's shared memory beside the stages.
struct Staging {
  u8* results;         // this warp's staging memory
  f32* column_scales;  // this warpgroup's scales of a tile's columns
};

// The loop of a consumer warpgroup over its tiles, where each tile's results are stored before the next tile begins.
template <class Tiles, class Scales>
QUERN_DEVICE void multiply_tiles(const GemmParams& p, const Scales& scales, const TensorMap& map_out, Tiles tiles,
                                 const Consumer& c, Staging staging) {
  Work work;
  const i32 consumer = c.number, line = consumer * 64 + wgmma_row(thread_index() % kGroupThreads, 0);
  if (kOrdered && consumer == 1) c.hand_over();
  // The next tile is computed while results are stored, unless that takes registers from the accumulators.
  constexpr bool kNextEarly = kPlainResults && kGrouping == kDense;
  [[maybe_unused]] Work next;
  [[maybe_unused]] bool more = kNextEarly && tiles.next(next);
  QUERN_ROLLED while (kNextEarly ? more : tiles.next(work)) {
    if constexpr (kNextEarly) work = next;
    if constexpr (!kPromoted) {
      // After a slice that was stored by ordinary stores the compiler no longer knows that these values are equal in
      // all threads of a warp. It would keep descriptors in ordinary registers and move each of them in every k block.
      sync_warp();
      c.state.stage = shuffle(c.state.stage, 0), work.end_k_block = shuffle(work.end_k_block, 0);
    }
    [[maybe_unused]] ResultScales result_scales{};
    if constexpr (kTileScales) result_scales.load(scales, work, line);
    if constexpr (kPromoted) {
      c.sums.clear();
      if constexpr (kBlockScale) {
        promote_scaled_k_blocks(work, c);
      } else {
        promote_k_blocks(work.end_k_block, c);
      }
    } else {
      accumulate_k_blocks(work.end_k_block, c, [] {});
      if constexpr (kIntegerSums<ElementA>) c.sums.integers_to_f32();
    }
    if constexpr (kTileScales) result_scales.share(staging.column_scales, kScaleBarrier + consumer);
    if constexpr (kPlainResults) {
      store_plain_rows<Out>(p, map_out, work, consumer, c.sums, result_scales.row, staging.column_scales,
                            staging.results, [&] {
                              if constexpr (kNextEarly) more = tiles.next(next);
                            });
    } else {
      store_rows(p, work, consumer, c.sums, result_scales.row, staging.column_scales,
                 reinterpret_cast<f32*>(staging.results));
    }
  }
  if (kOrdered && consumer == 0) c.take_turn();  // the other warpgroup handed over last
  if constexpr (kPlainResults && kTwoBoxes) {
    if (elect_one()) tma_wait<0>();
  }
}

// K blocks between two TMA stores of a warp's results.
inline constexpr i32 kPace = 2;

// The loop of a consumer warpgroup over its tiles where the next tile's first products are in flight while results are
// stored. With the overlapped epilogue the first half of the results is staged while the tile's last products are in
// flight, the second half while the next tile's first products are.
template <class Tiles, class Scales>
QUERN_DEVICE void multiply_tiles_ahead(const GemmParams& p, const Scales& given_scales, const TensorMap& map_out,
                                       Tiles tiles, const Consumer& c, Staging staging) {
  Work work;
  if (!tiles.next(work)) return;
  c.await(c.state);
  KBlockScales scales = c.scales_of(c.state);
  wgmma_fence();
  c.multiply(c.products, c.state, 0, false);
  OverlappedResults<Out> results(map_out, c.number, staging.results);
  bool more = true;
  [[maybe_unused]] ResultScales result_scales{{1.0f, 1.0f}, {}};
  const i32 line = c.number * 64 + wgmma_row(thread_index() % kGroupThreads, 0);
  if constexpr (kTileScales) result_scales.load(given_scales, work, line);
  // Column scales have two buffers: those of one tile are still read when a fast warp writes the next tile's.
  i32 place = 0;
  QUERN_ROLLED while (more) {
    c.sums.clear();
    f32* column_scales = staging.column_scales + place;
    if constexpr (kTileScales) {
      place ^= kConsumers * kTileN;
      result_scales.put(column_scales);
      scales.x[0][0] = result_scales.row[0], scales.x[0][1] = result_scales.row[1];
    }
    StageState at = c.state;
    const bool middle_is_second = work.column % 128 != 0;
    scales.settle(middle_is_second);
    i32 k_block = 0;
    QUERN_ROLLED for (;;) {
      const bool one_more = kOverlappedEpilogue && results.any_left() && k_block + kPace < work.end_k_block;
      const i32 until = one_more ? k_block + kPace : work.end_k_block;
      if (kOverlappedEpilogue && !one_more) results.send_all();  // too few k blocks to spread the stores over
      QUERN_ROLLED for (; k_block < until; ++k_block) {
        StageState next = at;
        next.next();
        next.stage = shuffle(next.stage, 0);  // tells the compiler that the value is uniform, as in run_roles
        if constexpr (kPasses == 2) {
          wgmma_wait<0>();
          promote<0>(c.sums, c.products, scales);
          wgmma_fence();
          c.multiply(c.products, at, 1, false);
          if (kOverlappedEpilogue && k_block + 1 == work.end_k_block) {
            if constexpr (kTileScales)
              sync_named(kScaleBarrier + c.number, kGroupThreads);  // the column scales are written
            results.template stage<0>(p, work, c.sums, column_scales);
            results.send_one();
          }
        }
        c.await(next);
        KBlockScales next_scales = scales;
        if constexpr (kBlockScale) next_scales = c.scales_of(next), next_scales.settle(middle_is_second);
        wgmma_wait<0>();
        promote<kPasses - 1>(c.sums, c.products, scales);
        wgmma_fence();
        // After the last k block of the last tile this multiplies whatever the stage holds; the products are not used.
        c.multiply(c.products, next, 0, false);
        c.release(at);
        scales = next_scales;
        at = next;
      }
      if (!one_more) break;
      results.send_one();
    }
    c.state = at;
    if constexpr (kOverlappedEpilogue) {
      more = tiles.next(work);
      if constexpr (kTileScales) {
        if (more) result_scales.load(given_scales, work, line);
      }
      results.template stage<1>(p, work, c.sums, column_scales);
      results.send_one();
    } else {
      store_plain_rows<Out>(p, map_out, work, c.number, c.sums, result_scales.row, column_scales, staging.results,
                            [] {});
    }
    if constexpr (!kOverlappedEpilogue) more = tiles.next(work);
  }
  wgmma_wait<0>();
  if constexpr (kOverlappedEpilogue) {
    results.send_all();
    results.await();
  }
}

// Runs this warp's role until all tiles are done: producer, loader of scales or consumer.
template <class Tiles, class Scales>
QUERN_DEVICE void run_roles(const GemmParams& p, const Scales& given_scales, const TensorMap& map_a,
                            const TensorMap& map_b, const TensorMap& map_out, const Tiles& tiles, Peers peers,
                            u8* shared, Barriers& barriers, Sums& sums, PassProducts& products) {
  // The shuffle tells the compiler that the value is equal in all threads of a warp, so that it uses uniform registers.
  const i32 group = shuffle(thread_index() / kGroupThreads, 0);
  u8* staged = shared + kStages * (kABytes + kBBytes);
  auto* scales = reinterpret_cast<f32*>(staged + kConsumers * 4 * kStagedBytes);
  if (laid_first(group == kConsumers)) {
    registers_shrink<kProducerRegisters>();
    const i32 number = shuffle(warp() % 4, 0) - 1;
    if (laid_first(number < 0)) {
      Tiles own = tiles;
      Work first;
      const bool any = own.next(first);
      sync_named(kMade, kMadeThreads);
      wait_for_previous_grid();
      if (elect_one()) copy_tiles(p, map_a, map_b, own, first, any, peers, shared, barriers.stages);
    } else if (number >= kScaleWarps) {
      arrive_named(kBegun, kBegunThreads);
    } else if constexpr (kBlockScale) {
      bool met = false;
      wait_for_previous_grid();
      copy_scales(p, tiles, number, scales, barriers.stages, [&] {
        if (!met) meet_named(kBegun, kBegunThreads);
        met = true;
      });
    }
    sync_warp();
  } else {
    registers_grow<kConsumerRegisters>();
    StageState state;
    const i32 line = group * 64 + wgmma_row(thread_index() % kGroupThreads, 0);
    const auto low = [](const u8* tile, u64 layout) { return static_cast<u32>(matrix_descriptor(tile, layout)); };
    const Consumer consumer{SharedArray<Mbarrier>(reinterpret_cast<Mbarrier*>(&barriers)),
                            SharedArray<f32>(scales + line * kColumnScales),
                            low(shared + group * 64 * 128, TmaTileA::kLayout),
                            low(shared + kABytes, TmaTileB::kLayout),
                            state,
                            peers,
                            group,
                            sums,
                            products};
    const Staging staging{staged + warp() * kStagedBytes, scales + group * kTileN};
    wait_for_previous_grid();
    meet_named(kBegun, kBegunThreads);
    if constexpr (kAhead) {
      multiply_tiles_ahead(p, given_scales, map_out, tiles, consumer, staging);
    } else {
      multiply_tiles(p, given_scales, map_out, tiles, consumer, staging);
    }
  }
}

// All of the kernel. `scales` are those of rows and columns, as ResultScales takes them.
template <class Scales>
QUERN_DEVICE void multiply_persistently(const GemmParams& p, const Scales& scales, const TensorMap& map_a,
                                        const TensorMap& map_b, const TensorMap& map_out) {
  Sums sums;
  PassProducts products;
  QUERN_SHARED(Barriers, barriers, 1);
  u8* shared = tile_shared();
  launch_next_grid();
  const i32 w = shuffle(warp(), 0);
  // Even where blocks are never a cluster the count comes from the parameters: with the branch on it in
  // Consumer::release the compiler keeps descriptors in uniform registers.
  const i32 rank = kMayPair && p.peers > 1 ? static_cast<i32>(cluster_rank()) : 0;
  const Peers peers{p.peers, rank};
  const i32 count = kMayPair ? peers.count : 1, shift = count == 2 ? 1 : 0, cluster = block_index(0) >> shift,
            clusters = block_count(0) >> shift;
  const u32 releases = kConsumers * 4 * count;
  if (w == kBeginWarp) {
    if (elect_one()) {
      QUERN_UNROLL for (i32 i = 0; i < kStages; ++i) {
        mbarrier_init(barriers[0].stages.full[i], 1 + kScaleWarps);
        mbarrier_init(barriers[0].stages.empty[i], releases);
      }
      mbarrier_init(barriers[0].spare, releases);
      fence_mbarrier_init();
    }
    sync_warp();
    arrive_named(kMade, kMadeThreads);
    if (elect_one()) {
      prefetch_tensor_map(map_b);
      prefetch_tensor_map(map_a);
      if (p.out_mapped != 0) prefetch_tensor_map(map_out);
    }
  }
  // Both blocks' mbarriers must be initialised before a block copies into the other's memory.
  if (count > 1) {
    sync_warp();
    sync_cluster();
  }
  if constexpr (kGrouping != kDense) {
    wait_for_previous_grid();
    QUERN_SHARED(Experts, experts, 1);
    list_experts(p, experts[0], kTileM * count);
    run_roles(p, scales, map_a, map_b, map_out, ExpertTiles(p, experts[0], cluster, clusters, count, peers.rank), peers,
              shared, barriers[0], sums, products);
  } else {
    run_roles(p, scales, map_a, map_b, map_out, DenseTiles(p, cluster, clusters, count, peers.rank), peers, shared,
              barriers[0], sums, products);
  }
  // The other block copies into this block's memory and arrives on its mbarriers until it is done.
  if (count > 1) sync_cluster();
}

}  // namespace q
