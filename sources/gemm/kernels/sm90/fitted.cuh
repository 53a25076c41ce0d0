// Matrix products on Hopper in tiles that are fitted to the rows of a: 128 rows of b by any of the numbers of rows that
// wgmma multiplies, as the launch says. So tiles waste few rows and fill the device, with one kernel for all
// of them. b is the first operand and a the second; results are turned in the epilogue. It takes operands that are
// aligned and k-major.
//
// A producer warpgroup copies tiles of both by TMA, two consumer warpgroups multiply them as they arrive. Blocks of
// threads may form clusters of one or two rows and up to four columns of tiles, of which each copies a part into the
// shared memory of all that need it (cluster multicast). Tiles are whole, and a block takes one after the other; or
// there are few, and the blocks of a cluster divide the k blocks of one (fitted_split_k.cuh).
// SPDX-License-Identifier: Apache-2.0
#include "gemm/kernels/sm90/fitted_split_k.cuh"

namespace q {

// The first copies are issued as early as possible: two producer warps initialise the mbarriers while the copying warp
// computes the first tile. Named barriers: kMade tells the copying warp that they are, kBegun tells the consumers.
// Numbers 3 to 6 are each consumer's barriers for its results and for its turn.
inline constexpr i32 kCopyWarp = 4 * kConsumers, kMapWarp = kCopyWarp + 1, kBeginWarp = kCopyWarp + 2;
inline constexpr i32 kMade = 1, kBegun = 2, kMadeThreads = 3 * kWarp, kBegunThreads = kThreads - kWarp;
inline constexpr i32 kProducerRegisters = kPromoted ? 40 : 56, kConsumerRegisters = kPromoted ? 232 : 224;

// The loop of a consumer warpgroup over its tiles, or over the part that it has of one.
QUERN_DEVICE void multiply_fitted_tiles(const GemmParams& p, FittedTiles tiles, const FittedConsumer& c,
                                        FittedStaging& staging, u8* shared, i32 parts, Mbarrier& received) {
  FittedWork work;
  if (kPromoted && c.number == 1) c.hand_over();
  QUERN_ROLLED while (tiles.next(work)) {
    if (parts > 1) c.state.end_with_last(work.end_k_block - work.first_k_block, c.fit.stages);
    [[maybe_unused]] FittedScales scales{};
    if constexpr (kScaled && kPlainResults) scales.load(p, work, c.column);
    if constexpr (kPromoted) c.sums.clear();
    multiply_fitted(work.end_k_block - work.first_k_block, c);
    if (parts > 1) {
      finish_part(p, work, c, shared, received);
      break;
    }
    if constexpr (kPlainResults) {
      if constexpr (kScaled) scales.share(staging.second_scales, kStoreBarrier + c.number);
      store_slices(p, work, c, scales.first, staging.second_scales + (lane() & 3) * 2, staging);
    } else {
      store_pieces(p, work, c, staging.results);
    }
    // After ordinary stores the compiler no longer knows that these values are equal in all threads of a warp. It would
    // keep descriptors in ordinary registers and move each of them in every k block.
    sync_warp();
    c.state.stage = shuffle(c.state.stage, 0);
  }
  if (kPromoted && c.number == 0) c.take_turn();  // the other warpgroup handed over last
}

// Runs this warp's role until all tiles are done.
QUERN_DEVICE void run_fitted_roles(const GemmParams& p, const TensorMap& map_first, const TensorMap& map_second,
                                   u8* shared, FittedBarriers& barriers, Sums& sums, Products& products) {
  // The shuffle tells the compiler that the value is equal in all threads of a warp, so that it uses uniform registers.
  const i32 group = shuffle(thread_index() / kGroupThreads, 0);
  const Fit fit(p);
  const FittedBlock block(p);
  const FittedTiles tiles(p, block);
  if (laid_first(group == kConsumers)) {
    registers_shrink<kProducerRegisters>();
    if (laid_first(shuffle(warp(), 0) == kCopyWarp)) {
      FittedTiles own = tiles;
      FittedWork first;
      const bool any = own.next(first);
      sync_named(kMade, kMadeThreads);
      wait_for_previous_grid();
      FittedCopies copies(p, map_first, map_second, fit, block, shared, barriers);
      const bool one = any && elect_one();
      if (one) copies.begin(first);
      sync_warp();
      block.meet();
      if (one) copies.finish(own, first);
    } else {
      arrive_named(kBegun, kBegunThreads);
      block.meet();
    }
    sync_warp();
  } else {
    registers_grow<kConsumerRegisters>();
    FittedState state;
    const auto low = [](const u8* tile) {
      return static_cast<u32>(matrix_descriptor(tile, k_major_layout(Swizzle::bytes128)));
    };
    const i32 column = group * 64;
    const FittedConsumer consumer{SharedArray<Mbarrier>(reinterpret_cast<Mbarrier*>(&barriers)),
                                  low(shared + column * 128),
                                  low(shared + kFirstBytes),
                                  state,
                                  fit,
                                  block.parts > 1,
                                  block.shared_by() == 1,
                                  block.rank_of_sharer(lane()),
                                  group,
                                  column,
                                  sums,
                                  products};
    FittedStaging staging{
        shared + STAGE_ROOM + group * kStagedBytes,
        reinterpret_cast<f32*>(shared + STAGE_ROOM + kConsumers * kStagedBytes) + group * kSecondScales};
    wait_for_previous_grid();
    meet_named(kBegun, kBegunThreads);
    block.meet();
    multiply_fitted_tiles(p, tiles, consumer, staging, shared, block.parts, barriers.received);
  }
  // Sums are sent when all warps have told that stages are free.
  if (block.parts > 1 && group == kConsumers) sync_cluster_shared();
}

}  // namespace q

QUERN_KERNEL(quern_gemm_fitted, THREADS, 1, QUERN_PARAM q::GemmParams p, QUERN_PARAM q::TensorMap map_b,
             QUERN_PARAM q::TensorMap map_a) {
  using namespace q;
  Sums sums;
  Products products;
  QUERN_SHARED(FittedBarriers, barriers, 1);
  u8* shared = tile_shared();
  launch_next_grid();
  const i32 w = shuffle(warp(), 0);
  if (w == kBeginWarp || w == kBeginWarp + 1) {
    if (elect_one()) {
      if (w == kBeginWarp) {
        QUERN_UNROLL for (i32 i = 0; i < kStages; ++i) mbarrier_init(barriers[0].full[i], 1);
        mbarrier_init(barriers[0].received, 1);
      } else {
        const auto warps = static_cast<u32>(kConsumers * 4 * FittedBlock(p).shared_by());
        QUERN_UNROLL for (i32 i = 0; i < kStages; ++i) mbarrier_init(barriers[0].empty[i], warps);
      }
      fence_mbarrier_init();
    }
    sync_warp();
    arrive_named(kMade, kMadeThreads);
  } else if (w == kMapWarp && elect_one()) {
    prefetch_tensor_map(map_b);
    prefetch_tensor_map(map_a);
  }
  // Tells the other blocks of a cluster that this block's mbarriers are initialised, without waiting for theirs yet.
  // fence_mbarrier_init() orders the initialisation before this.
  if (FittedBlock(p).clustered()) {
    sync_warp();
    cluster_arrive_relaxed();
  }
  run_fitted_roles(p, map_b, map_a, shared, barriers[0], sums, products);
  // Other blocks copy into this block's memory and arrive on its mbarriers until they are done.
  if (FittedBlock(p).shared_by() > 1) sync_cluster();
}
