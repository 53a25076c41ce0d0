// Matrix products on Hopper: one warpgroup copies tiles of a and b by tensor map, the others multiply them as they arrive. It
// replaces gemm.cuh where operands are aligned and not gathered.
//
// Two blocks of threads may be a cluster: they have tiles of the same columns, one below the other, and each copies half of b's
// tile into the memory of both.
// SPDX-License-Identifier: Apache-2.0
#include "gemm/kernels/sm90/overlapped_epilogue.cuh"
#include "gemm/kernels/shared/dense_tiles.cuh"
#include "gemm/kernels/sm90/persistent_k_loop.cuh"

namespace q {

// Of a thread. Those that copy take what the others can spare: more where they read scales, unless the next tile's products are under way
// beside sums.
inline constexpr i32 kProducerRegisters = kBlockScale && !kAhead ? 56 : 40;
inline constexpr i32 kConsumerRegisters = 252 - kProducerRegisters / 2;
static_assert((kConsumerRegisters * 2 + kProducerRegisters) * kGroupThreads == 168 * kThreads && kConsumerRegisters % 8 == 0);
static_assert(kConsumers == 2);
// Whether blocks may be pairs (choice.cpp).
inline constexpr bool kMayPair = kTileN == 128 && !kBlockScale;

// What a consumer has in shared memory beside the stages.
struct Staging {
  u8* results;         // of this warp
  f32* column_scales;  // of this warpgroup
};

template <class Tiles>
QUERN_DEVICE void multiply_tiles(const GemmParams& p, const TensorMap& map_out, Tiles tiles, const Consumer& c, Staging staging) {
  Work work;
  const i32 consumer = c.number, line = consumer * 64 + wgmma_row(thread_index() % kGroupThreads, 0);
  if (kTurns && consumer == 1) c.hand_over();
  // Which tile is next is found out while results leave, unless that takes registers that sums have.
  constexpr bool kSoon = kPlainResults && kGrouping == kDense;
  [[maybe_unused]] Work next;
  [[maybe_unused]] bool more = kSoon && tiles.next(next);
  QUERN_ROLLED while (kSoon ? more : tiles.next(work)) {
    if constexpr (kSoon) work = next;
    if constexpr (!kPromoted) {
      // For the compiler, which behind a slice that leaves by ordinary stores no longer knows that a warp's threads go one way: it would
      // keep descriptors in their registers and move each of them in every step.
      sync_warp();
      c.state.stage = shuffle(c.state.stage, 0), work.last_step = shuffle(work.last_step, 0);
    }
    [[maybe_unused]] ResultScales result_scales{};
    if constexpr (kTileScales) result_scales.load(p, work, line);
    if constexpr (kPromoted) {
      c.sums.clear();
      if constexpr (kBlockScale) {
        promote_scaled_steps(work, c);
      } else {
        promote_steps(work.last_step, c);
      }
    } else {
      accumulate_steps(work.last_step, c);
    }
    if constexpr (kTileScales) result_scales.share(staging.column_scales, kScaleBarrier + consumer);
    if constexpr (kPlainResults) {
      store_plain_rows<Out>(p, map_out, work, consumer, c.sums, result_scales.row, staging.column_scales, staging.results, [&] {
        if constexpr (kSoon) more = tiles.next(next);
      });
    } else {
      store_rows(p, work, consumer, c.sums, result_scales.row, staging.column_scales, reinterpret_cast<f32*>(staging.results));
    }
  }
  if (kTurns && consumer == 0) c.take_turn();  // the other one handed over last
  if constexpr (kPlainResults && kTwoBoxes) {
    if (elect_one()) tma_wait<0>();
  }
}

// How many steps lie between two of a warp's bulk copies of results.
inline constexpr i32 kPace = 2;

// The next tile's first products are under way while results leave. Where these have room of their own, the first half of them is finished
// while the tile's last products are under way, the second while the next one's first are.
template <class Tiles>
QUERN_DEVICE void multiply_tiles_ahead(const GemmParams& p, const TensorMap& map_out, Tiles tiles, const Consumer& c, Staging staging) {
  Work work;
  if (!tiles.next(work)) return;
  c.await(c.state);
  StepScales scales = c.step_scales(c.state);
  wgmma_fence();
  c.multiply(c.part, c.state, 0, false);
  LateResults<Out> results(map_out, c.number, staging.results);
  bool more = true;
  [[maybe_unused]] ResultScales result_scales{{1.0f, 1.0f}, {}};
  const i32 line = c.number * 64 + wgmma_row(thread_index() % kGroupThreads, 0);
  if constexpr (kTileScales) result_scales.load(p, work, line);
  // Scales of columns have two places in turn: those of one tile are read while some warps have put down the next one's.
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
    i32 step = 0;
    QUERN_ROLLED for (;;) {
      const bool one_more = kOverlappedEpilogue && results.any_left() && step + kPace < work.last_step;
      const i32 until = one_more ? step + kPace : work.last_step;
      if (kOverlappedEpilogue && !one_more) results.send_all();  // too few steps for each to have its own
      QUERN_ROLLED for (; step < until; ++step) {
        StageState next = at;
        next.next();
        next.stage = shuffle(next.stage, 0);  // for the compiler, as in run_roles
        if constexpr (kPasses == 2) {
          wgmma_wait<0>();
          promote<0>(c.sums, c.part, scales);
          wgmma_fence();
          c.multiply(c.part, at, 1, false);
          if (kOverlappedEpilogue && step + 1 == work.last_step) {
            if constexpr (kTileScales) sync_named(kScaleBarrier + c.number, kGroupThreads);  // they are there
            results.template stage<0>(p, work, c.sums, column_scales);
            results.send_one();
          }
        }
        c.await(next);
        StepScales next_scales = scales;
        if constexpr (kBlockScale) next_scales = c.step_scales(next), next_scales.settle(middle_is_second);
        wgmma_wait<0>();
        promote<kPasses - 1>(c.sums, c.part, scales);
        wgmma_fence();
        // Behind the last tile too, of what is there: nobody takes what comes of it.
        c.multiply(c.part, next, 0, false);
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
        if (more) result_scales.load(p, work, line);
      }
      results.template stage<1>(p, work, c.sums, column_scales);
      results.send_one();
    } else {
      store_plain_rows<Out>(p, map_out, work, c.number, c.sums, result_scales.row, column_scales, staging.results, [] {});
    }
    if constexpr (!kOverlappedEpilogue) more = tiles.next(work);
  }
  wgmma_wait<0>();
  if constexpr (kOverlappedEpilogue) {
    results.send_all();
    results.await();
  }
}

template <class Tiles>
QUERN_DEVICE void run_roles(const GemmParams& p, const TensorMap& map_a, const TensorMap& map_b, const TensorMap& map_out, const Tiles& tiles, Peers peers, u8* shared,
                            Barriers& barriers, Sums& sums, Part& part) {
  // By a shuffle, so that the compiler knows a warp's threads to go one way and keeps what they share in uniform registers.
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
    const Consumer consumer{SharedArray<Mbarrier>(reinterpret_cast<Mbarrier*>(&barriers)), SharedArray<f32>(scales + line * kColumnScales),
                            low(shared + group * 64 * 128, MappedA::kLayout), low(shared + kABytes, MappedB::kLayout), state, peers, group, sums, part};
    const Staging staging{staged + warp() * kStagedBytes, scales + group * kTileN};
    wait_for_previous_grid();
    meet_named(kBegun, kBegunThreads);
    if constexpr (kAhead) {
      multiply_tiles_ahead(p, map_out, tiles, consumer, staging);
    } else {
      multiply_tiles(p, map_out, tiles, consumer, staging);
    }
  }
}

}  // namespace q

QUERN_KERNEL(quern_gemm_persistent, THREADS, 1, QUERN_PARAM q::GemmParams p, QUERN_PARAM q::TensorMap map_a, QUERN_PARAM q::TensorMap map_b,
             QUERN_PARAM q::TensorMap map_out) {
  using namespace q;
  Sums sums;
  Part part;
  QUERN_SHARED(Barriers, barriers, 1);
  u8* shared = tile_shared();
  launch_next_grid();
  const i32 w = shuffle(warp(), 0);
  // Where blocks are never pairs this still takes their number from the parameters: with the branch on it in Consumer::release the compiler
  // keeps descriptors in uniform registers.
  const Peers peers{p.peers, kMayPair && p.peers > 1 ? static_cast<i32>(cluster_rank()) : 0};
  const i32 count = kMayPair ? peers.count : 1, shift = count == 2 ? 1 : 0, cluster = block_index(0) >> shift, clusters = block_count(0) >> shift;
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
  // Each block's barriers are there before its peer copies into its memory.
  if (count > 1) {
    sync_warp();
    sync_cluster();
  }
  if constexpr (kGrouping != kDense) {
    wait_for_previous_grid();
    QUERN_SHARED(Experts, experts, 1);
    list_experts(p, experts[0], kTileM * count);
    run_roles(p, map_a, map_b, map_out, ExpertTiles(p, experts[0], cluster, clusters, count, peers.rank), peers, shared, barriers[0], sums, part);
  } else {
    run_roles(p, map_a, map_b, map_out, DenseTiles(p, cluster, clusters, count, peers.rank), peers, shared, barriers[0], sums, part);
  }
  // A block's memory is copied to and its barriers are told of until its peer is done.
  if (count > 1) sync_cluster();
}
