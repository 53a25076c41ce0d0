// The implicit product on Hopper: a persistent kernel whose producer warpgroup copies windows from where x has them,
// beside weights by TMA, and whose two consumer warpgroups multiply them as they arrive. Stages, main loop and epilogue
// are those of gemm's persistent kernel.
//
// Narrow tiles are multiplied by one warpgroup each, in turn: one stores its results while the other multiplies, since
// windows of few channels have few k blocks. Wide ones, whose sums take the registers of both, are halved among them.
// SPDX-License-Identifier: Apache-2.0
#include "common/registers/warpgroup_sums.cuh"
#include "common/shared_place.cuh"
#include "conv2d/kernels/window_loader.cuh"
#include "gemm/kernels/shared/dense_tiles.cuh"
#include "gemm/kernels/sm90/persistent_k_loop.cuh"

namespace q {

inline constexpr bool kWindowsFirst = WINDOWS_FIRST != 0, kBias = BIAS != 0;
inline constexpr bool kTakesTurns = kTileN <= 128;
static_assert(kConsumers == 2 && !kPromoted && kPlainResults && kTwoBoxes && sizeof(ElementA) == 2);

// Registers of a thread: the producer's have two for each of its windows.
inline constexpr i32 kProducerRegisters = 88, kConsumerRegisters = 208;
static_assert((kConsumerRegisters * 2 + kProducerRegisters) * kGroupThreads == 168 * kThreads);

// Arrivals on a stage's barriers: of each thread's copies and of TMA's; of the warps that read it.
inline constexpr u32 kArrivals = kGroupThreads + 1, kReleases = (kTakesTurns ? 1 : kConsumers) * 4;

// Copies the weights of a k block and says how many bytes these are. Called by one thread.
QUERN_DEVICE void copy_weights(const GemmParams& p, const TensorMap& map, const Work& work, i32 k_block, u8* stage,
                               Mbarrier& full) {
  const i32 k = k_block * kBlockK;
  if constexpr (kWindowsFirst) {
    mbarrier_arrive_expect(full, kBBytes);
    QUERN_UNROLL for (i32 box = 0; box < kBoxesB; ++box) {
      TmaTileB::load(stage + kABytes + box * (kBoxLinesB * 128), map, full, CacheHint::normal, k,
                     work.column + box * kBoxLinesB, 0);
    }
  } else {
    const i32 box_lines = box_rows(p.m, kTileM), lines = copied_rows(work.rows - work.row, box_lines, kTileM);
    mbarrier_arrive_expect(full, static_cast<u32>(lines * 128));
    QUERN_ROLLED for (i32 line = 0; line < lines; line += box_lines)
        TmaTileA::load(stage + line * 128, map, full, CacheHint::normal, k, work.row + line, 0);
  }
}

// The loop of the producer warpgroup. Eight threads copy the 128 bytes of a window's k block, to where a TMA copy with
// a swizzle of 128 bytes would have put them.
QUERN_DEVICE void copy_tiles(const ImplicitParams& p, const TensorMap& map_weight, u8* shared, Stages& stages) {
  constexpr i32 kPieces = 8, kStep = kGroupThreads / kPieces, kLines = kWindowsFirst ? kTileM : kTileN;
  static_assert(kLines % kStep == 0 && kStep % 8 == 0);
  const i32 thread = thread_index() % kGroupThreads, row = thread / kPieces, piece = thread % kPieces;
  const bool first_warp = shuffle(thread / kWarp, 0) == 0;
  const SharedPlace windows(shared + (kWindowsFirst ? 0 : kABytes) + row * 128 + ((piece ^ row % 8) << 4));
  const SharedArray<Mbarrier> full(stages.full), empty(stages.empty);
  DenseTiles tiles(p.product);
  Windows<kLines / kStep> lines;
  StageState state;
  Work work;
  QUERN_ROLLED while (tiles.next(work)) {
    lines.begin(p, work.group, (kWindowsFirst ? work.row : work.column) + row, kStep,
                kWindowsFirst ? work.rows : p.product.n, piece * Windows<1>::kPerPiece);
    QUERN_ROLLED for (i32 k_block = 0; k_block < work.end_k_block; ++k_block) {
      const i32 at = state.stage * (kABytes + kBBytes);
      acquire(empty, state);
      if (first_warp && elect_one())
        copy_weights(p.product, map_weight, work, k_block, shared + at, stages.full[state.stage]);
      const SharedPlace to = windows + at;
      QUERN_UNROLL for (i32 i = 0; i < kLines / kStep; ++i) {
        const auto from = lines.piece(i);
        copy_async_16(to + i * (kStep * 128), from.at, from.there);
      }
      copy_async_arrive(full, state.stage);
      lines.next_k_block();
      state.next();
    }
  }
}

// The state of a consumer warpgroup, as accumulate_k_blocks() takes it. In turn it has all rows of its tiles: the first
// 64 in `sums`, the others in `lower`.
struct TileConsumer {
  SharedArray<Mbarrier> full, empty;
  u32 a, b;  // the lower words of the first stage's descriptors
  StageState& state;
  Sums& sums;
  PassProducts& lower;

  QUERN_DEVICE void multiply(Sums&, const StageState& of, i32, bool accumulate) const {
    constexpr u64 kUpper = TmaTileA::kLayout >> 32 << 32;
    constexpr u32 kLower = 64 * 128 >> 4;
    static_assert(TmaTileB::kLayout >> 32 << 32 == kUpper);
    const u32 stage = static_cast<u32>(of.stage) * ((kABytes + kBBytes) >> 4);
    QUERN_UNROLL for (u32 k = 0; k < 4; ++k) {
      const u32 next = stage + k * (TmaTileA::kNextBytes >> 4);
      sums.template multiply<ElementA, ElementB, Major::k, Major::k>(kUpper | (a + next), kUpper | (b + next),
                                                                     accumulate || k > 0);
      if constexpr (kTakesTurns) {
        lower.template multiply<ElementA, ElementB, Major::k, Major::k>(kUpper | (a + kLower + next),
                                                                        kUpper | (b + next), accumulate || k > 0);
      }
    }
    wgmma_commit();
  }
  // Windows arrive by ordinary copies, which products see behind a fence.
  QUERN_DEVICE void await(const StageState& of) const {
    q::await(full, of);
    fence_async();
  }
  QUERN_DEVICE void release(const StageState& of) const {
    if (lane() == 0) mbarrier_arrive(empty, of.stage);
  }
};

template <i32 first, class AnySums>
QUERN_DEVICE void add_eight(AnySums& sums, const f32 (&terms)[8]) {
  f32 x[8];
  sums.template read<first>(x);
  QUERN_UNROLL for (i32 i = 0; i < 8; ++i) x[i] += terms[i];
  sums.template write<first>(x);
}

// Adds the bias, which lies along the weights, to a warpgroup's sums, whose rows begin at row `line` of the tile.
template <i32 first = 0>
QUERN_DEVICE void add_bias(const GemmParams& p, const Work& work, i32 line, const TileConsumer& c) {
  const i32 thread = thread_index() % kGroupThreads;
  const auto at = [&](i32 number, i32 numbers) {
    // What lies beyond the last is not stored.
    return to_f32(static_cast<const ElementA*>(p.operands[0].data)[number < numbers ? number : 0]);
  };
  // Loads of one group of sums at a time: those of all would take more registers than there are.
  if constexpr (first % 32 == 0) sync_warp();
  f32 terms[8];
  QUERN_UNROLL for (i32 i = 0; i < 8; ++i) {
    terms[i] = kWindowsFirst ? at(work.column + wgmma_column(thread, first + i), p.n)
                             : at(work.row + line + wgmma_row(thread, i), work.rows);
  }
  add_eight<first>(c.sums, terms);
  if constexpr (kTakesTurns) {
    if constexpr (!kWindowsFirst) {
      QUERN_UNROLL for (i32 i = 0; i < 8; ++i) terms[i] = at(work.row + 64 + wgmma_row(thread, i), work.rows);
    }
    add_eight<first>(c.lower, terms);
  }
  if constexpr (first + 8 < Sums::kElements) add_bias<first + 8>(p, work, line, c);
}

// The loop of a consumer warpgroup.
QUERN_DEVICE void multiply_tiles(const ImplicitParams& p, const TensorMap& map_out, i32 group, const TileConsumer& c,
                                 u8* boxes) {
  const GemmParams& g = p.product;
  const i32 blocks = block_count(0), index = block_index(0);
  DenseTiles tiles = kTakesTurns ? DenseTiles(g, index + group * blocks, kConsumers * blocks) : DenseTiles(g);
  const f32 unscaled[2] = {1.0f, 1.0f};
  Work work, next;
  bool more = tiles.next(next);
  if (kTakesTurns && more) c.state.skip(group * next.end_k_block);
  QUERN_ROLLED while (more) {
    work = next;
    // As in gemm's loop: tells the compiler that these values are equal in all threads of a warp.
    sync_warp();
    c.state.stage = shuffle(c.state.stage, 0), work.end_k_block = shuffle(work.end_k_block, 0);
    // Whoever begins a tile has to find the phases of its barriers where a round of stages before would leave them:
    // when the other warpgroup has awaited all of its tile.
    if (kTakesTurns && work.tile >= blocks) sync_named(kOrderBarrier + group, kConsumers * kGroupThreads);
    accumulate_k_blocks(work.end_k_block, c, [&] {
      if (kTakesTurns && work.tile + blocks < g.tiles)
        arrive_named(kOrderBarrier + (group ^ 1), kConsumers * kGroupThreads);
    });
    const i32 half = kTakesTurns ? 0 : group;
    if constexpr (kBias) add_bias(g, work, half * 64, c);
    store_plain_rows<Out>(g, map_out, work, half, c.sums, unscaled, nullptr, boxes, [&] { more = tiles.next(next); });
    if constexpr (kTakesTurns) {
      store_plain_rows<Out>(g, map_out, work, 1, c.lower, unscaled, nullptr, boxes, [] {});
      c.state.skip(work.end_k_block);
    }
  }
  if (elect_one()) tma_wait<0>();
}

}  // namespace q

QUERN_KERNEL(quern_convolution_persistent, THREADS, 1, QUERN_PARAM q::ImplicitParams p,
             QUERN_PARAM q::TensorMap map_weight, QUERN_PARAM q::TensorMap map_out) {
  using namespace q;
  Sums sums;
  PassProducts lower;
  QUERN_SHARED(Stages, stages, 1);
  u8* shared = tile_shared();
  launch_next_grid();
  if (warp() == 0) {
    if (elect_one()) {
      stages[0].init(kArrivals, kReleases);
      fence_mbarrier_init();
      prefetch_tensor_map(map_weight);
      if (p.product.out_mapped != 0) prefetch_tensor_map(map_out);
    }
    sync_warp();
  }
  sync_block();
  wait_for_previous_grid();
  const i32 group = shuffle(thread_index() / kGroupThreads, 0);
  if (laid_first(group == kConsumers)) {
    registers_shrink<kProducerRegisters>();
    copy_tiles(p, map_weight, shared, stages[0]);
  } else {
    registers_grow<kConsumerRegisters>();
    StageState state;
    const auto low = [](const u8* tile, u64 layout) { return static_cast<u32>(matrix_descriptor(tile, layout)); };
    const TileConsumer consumer{SharedArray<Mbarrier>(stages[0].full),
                                SharedArray<Mbarrier>(stages[0].empty),
                                low(shared + (kTakesTurns ? 0 : group * 64 * 128), TmaTileA::kLayout),
                                low(shared + kABytes, TmaTileB::kLayout),
                                state,
                                sums,
                                lower};
    multiply_tiles(p, map_out, group, consumer, shared + kStages * (kABytes + kBBytes) + warp() * kStagedBytes);
  }
}
