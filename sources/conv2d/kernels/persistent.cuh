// The implicit product on Hopper: a persistent kernel whose producer warpgroup copies windows from where x has them,
// beside weights by TMA, and whose two consumer warpgroups multiply them as they arrive. Stages, main loop and epilogue
// are those of gemm's persistent kernel.
//
// Narrow tiles are multiplied by one warpgroup each, in turn: one stores its results while the other multiplies, since
// windows of few channels have few k blocks. Where tiles are few, blocks divide the k of narrow tiles (stream-K). Wide
// tiles, whose sums take the registers of both warpgroups, are halved among them.
// SPDX-License-Identifier: Apache-2.0
#include "common/arrival.cuh"
#include "common/registers/warpgroup_sums.cuh"
#include "common/shared_place.cuh"
#include "conv2d/kernels/window_loader.cuh"
#include "gemm/kernels/shared/dense_tiles.cuh"
#include "gemm/kernels/sm90/persistent_k_loop.cuh"

namespace q {

inline constexpr bool kWindowsFirst = WINDOWS_FIRST != 0, kBias = BIAS != 0;
inline constexpr bool kTakesTurns = kTileN <= 128;
static_assert(kStreamK == kTakesTurns);
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
                kWindowsFirst ? work.rows : p.product.n, work.first_k_block * kBlockK + piece * Windows<1>::kPerPiece);
    QUERN_ROLLED for (i32 k_block = work.first_k_block; k_block < work.end_k_block; ++k_block) {
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

// Sums of a thread, 32 at a time, to and from memory in which they lie kGroupThreads apart.
template <i32 first = 0, class AnySums>
QUERN_DEVICE void write_sums(const AnySums& sums, f32* to) {
  f32 x[8];
  sums.template read<first>(x);
  QUERN_UNROLL for (i32 i = 0; i < 8; ++i) to[(first + i) * kGroupThreads] = x[i];
  if constexpr (first + 8 < AnySums::kElements) write_sums<first + 8>(sums, to);
}
template <i32 first, i32 eight = 0, class AnySums>
QUERN_DEVICE void add_eights(AnySums& sums, const f32 (&terms)[4][8]) {
  add_eight<first + eight * 8>(sums, terms[eight]);
  if constexpr (eight < 3) add_eights<first, eight + 1>(sums, terms);
}
template <i32 first = 0, class AnySums>
QUERN_DEVICE void add_sums(AnySums& sums, const f32* from) {
  f32 terms[4][8];
  QUERN_UNROLL for (i32 i = 0; i < 32; ++i) terms[i / 8][i % 8] = load_volatile(from + (first + i) * kGroupThreads);
  add_eights<first>(sums, terms);
  if constexpr (first + 32 < AnySums::kElements) add_sums<first + 32>(sums, from);
}

// Writes a warpgroup's sums to the workspace where other blocks have a part of the tile's k as well. True where this
// one is to finish the tile, with the sums of all.
QUERN_DEVICE bool join_sums(const GemmParams& p, const DenseTiles& tiles, const Work& work, i32 group,
                            const TileConsumer& c, i32* flag) {
  if (p.whole_tiles != 0) return true;
  const Contributors contributors(tiles.schedule(), work.tile);
  if (contributors.first == contributors.last) return true;
  const i32 thread = thread_index() % kGroupThreads;
  constexpr i32 kHalf = 64 * kTileN;
  const auto slot_of = [&](i32 block) { return p.partials + contributors.slot_of(block) * (2 * kHalf) + thread; };
  f32* own = slot_of(block_index(0));
  write_sums(c.sums, own);
  write_sums(c.lower, own + kHalf);
  const bool last = arrived_last(
      thread == 0, flag, [&] { sync_named(kScaleBarrier + group, kGroupThreads); },
      [&] { return p.arrived + work.tile; },
      [&] { return static_cast<u32>(contributors.last - contributors.first + 1); });
  if (!last) return false;
  c.sums.clear();
  c.lower.clear();
  QUERN_ROLLED for (i32 block = contributors.first; block <= contributors.last; ++block) {
    const f32* from = slot_of(block);
    add_sums(c.sums, from);
    add_sums(c.lower, from + kHalf);
  }
  return true;
}

// The loop of a consumer warpgroup.
QUERN_DEVICE void multiply_tiles(const ImplicitParams& p, const TensorMap& map_out, i32 group, const TileConsumer& c,
                                 u8* boxes, i32* flag) {
  const GemmParams& g = p.product;
  const f32 unscaled[2] = {1.0f, 1.0f};
  DenseTiles tiles(g);
  i32 number = 0;  // of this block's tiles, and parts of them
  Work work, next;
  bool more;
  // The next one that is this warpgroup's.
  const auto find_next = [&] {
    QUERN_ROLLED while ((more = tiles.next(next))) {
      if (!kTakesTurns || (number++ & 1) == group) break;
      c.state.skip(next.end_k_block - next.first_k_block);
    }
  };
  find_next();
  QUERN_ROLLED while (more) {
    work = next;
    // As in gemm's loop: tells the compiler that these values are equal in all threads of a warp.
    sync_warp();
    c.state.stage = shuffle(c.state.stage, 0);
    const i32 k_blocks = shuffle(work.end_k_block - work.first_k_block, 0);
    // Whoever begins a tile has to find the phases of its barriers where a round of stages before would leave them:
    // when the other warpgroup has awaited all of its tile.
    if (kTakesTurns && number > 1) sync_named(kOrderBarrier + group, kConsumers * kGroupThreads);
    accumulate_k_blocks(k_blocks, c, [&] {
      if (kTakesTurns && tiles.more()) arrive_named(kOrderBarrier + (group ^ 1), kConsumers * kGroupThreads);
    });
    if constexpr (kStreamK) {
      if (!join_sums(g, tiles, work, group, c, flag + group)) {
        find_next();
        continue;
      }
    }
    const i32 half = kTakesTurns ? 0 : group;
    if constexpr (kBias) add_bias(g, work, half * 64, c);
    store_plain_rows<Out>(g, map_out, work, half, c.sums, unscaled, nullptr, boxes, find_next);
    if constexpr (kTakesTurns) store_plain_rows<Out>(g, map_out, work, 1, c.lower, unscaled, nullptr, boxes, [] {});
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
  QUERN_SHARED(i32, flags, kConsumers);
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
    multiply_tiles(p, map_out, group, consumer, shared + kStages * (kABytes + kBBytes) + warp() * kStagedBytes, flags);
  }
}
