// Matrix products of 16-bit operands on targets that copy by TMA and multiply by mma.sync but have no wgmma. It
// replaces kernels/portable/main.cuh where operands are aligned.
//
// All warps multiply; one thread of the first warp also copies each k block into the stage that all warps have just
// freed. The pipeline runs on from tile to tile: a tile's results are staged in the stage of its last k block while the
// first k blocks of the next tile are in flight.
//
// The tiles of an incomplete last wave may be divided by stream-K (last_wave.cuh).
// SPDX-License-Identifier: Apache-2.0
#include "common/shared_place.cuh"
#include "gemm/kernels/shared/pipeline.cuh"
#include "gemm/kernels/shared/tma_tiles.cuh"
#include "gemm/kernels/shared/warp_sums.cuh"
#include "gemm/kernels/tma_mma/last_wave.cuh"

namespace q {

inline constexpr i32 kABytes = kTileM * 128, kBBytes = kTileN * 128, kTileBytes = kABytes + kBBytes;
inline constexpr i32 kMmaSteps = kBlockK / kTileK<ElementA>;
inline constexpr i32 kAhead = kStages - 1;  // k blocks in flight
static_assert(kBlockK * sizeof(ElementA) == 128 && kMmaSteps == 4 && kAhead >= 2 && !kTransposedA && !kTransposedB &&
              kGrouping == kDense);
static_assert(kSliceRows * kStagedPitch * 4 <= kTileBytes, "results are staged in the place of a k block");

// Where a tile's operands begin: lines and groups, and its range of k blocks.
struct TileOrigin {
  i32 row, column, group_of_a, group_of_b;
  i32 first_k_block, end_k_block;
  QUERN_DEVICE TileOrigin(const GemmParams& p, const Work& work)
      : row(work.row),
        column(work.column),
        group_of_a(q::group_of_a(p, work)),
        group_of_b(q::group_of_b(p, work)),
        first_k_block(work.first_k_block),
        end_k_block(work.end_k_block) {}
  // Copies run on to one further tile only, so a tile with fewer k blocks than are in flight is padded with k blocks of
  // zeros.
  QUERN_DEVICE i32 k_blocks() const {
    return end_k_block - first_k_block < kAhead ? kAhead : end_k_block - first_k_block;
  }
};

// What the copying thread needs.
struct Copier {
  const GemmParams& p;
  const TensorMap &map_a, &map_b;
  u8* shared;
  Stages& stages;

  // Copies k block number `k_block` of a tile. b comes in two halves; with a gate their columns lie apart.
  QUERN_DEVICE void copy(const TileOrigin& at, i32 k_block, i32 stage) const {
    Mbarrier& full = stages.full[stage];
    u8* to = shared + stage * kTileBytes;
    const i32 from = at.first_k_block + k_block, k = from < at.end_k_block ? from * kBlockK : p.k;
    mbarrier_arrive_expect(full, kTileBytes);
    TmaTileA::load(to, map_a, full, CacheHint::normal, k, at.row, at.group_of_a);
    QUERN_UNROLL for (i32 half = 0; half < 2; ++half) {
      const i32 column = at.column + half * (kGate ? p.n / 2 : kTileN / 2);
      TmaTileB::load(to + kABytes + half * (kBBytes / 2), map_b, full, CacheHint::normal, k, column, at.group_of_b);
    }
  }
};

// Where a warp reads its operands: the first stage, or another.
struct Readers {
  SwizzledReaderOfA<ElementA> a;
  SwizzledReaderOfB<ElementB> b;

  QUERN_DEVICE explicit Readers(SharedPlace stages)
      : a(stages + warp_row() * 128), b(stages + (kABytes + warp_column() * 128)) {}
  QUERN_DEVICE Readers at_stage(i32 stage) const {
    Readers r = *this;
    r.a = a + stage * kTileBytes, r.b = b + stage * kTileBytes;
    return r;
  }
};

// Operands in registers: the rows of the present tensor-core step and of the next one, the columns that are multiplied
// and those after them.
class Fragments {
 public:
  template <i32 k, i32 i>
  QUERN_DEVICE void load_row(const Readers& from) {
    a_.template load<row(k, i)>(from.a, k, i * (16 * 128));
  }
  template <i32 k, i32 j>
  QUERN_DEVICE void load_column(const Readers& from) {
    b_.template load<column(j)>(from.b, k, j * (16 * 128));
  }
  template <i32 i = 0>
  QUERN_DEVICE void load_first(const Readers& from) {
    load_row<0, i>(from);
    if constexpr (i + 1 < kTilesM) {
      load_first<i + 1>(from);
    } else {
      load_column<0, 0>(from);
    }
  }
  // The products of column j with all rows, in a tensor-core step of parity `odd`.
  template <i32 odd, i32 j>
  QUERN_DEVICE void multiply(Sums& sums) const {
    static_assert(kTilesM == 4);
    sums.x.add_four<j, kTilesN, row(odd, 0), column(j)>(a_, b_);
  }

 private:
  static QUERN_DEVICE constexpr i32 row(i32 k, i32 i) { return (k & 1) * kTilesM + i; }
  static_assert(kTilesN % 2 == 0);
  static QUERN_DEVICE constexpr i32 column(i32 j) { return j & 1; }

  NumberedOperands<OperandA<ElementA>, 0, 2 * kTilesM> a_;
  NumberedOperands<OperandB<ElementB>, 2 * kTilesM, 2> b_;
};

// Loads rows i to `end` - 1 of tensor-core step k.
template <i32 k, i32 i, i32 end>
QUERN_DEVICE void load_rows(Fragments& f, const Readers& from) {
  if constexpr (i < end && i < kTilesM) {
    f.load_row<k, i>(from);
    load_rows<k, i + 1, end>(f, from);
  }
}

// Tensor-core step k of a k block, from column j on. Before a column is multiplied the next one is loaded, and after it
// some rows of the next tensor-core step. Loading these rows first makes the same products 2 to 4% slower, by where the
// assembler places instructions.
template <i32 k, i32 j>
QUERN_DEVICE void multiply_columns(Sums& sums, Fragments& f, const Readers& now, const Readers& next) {
  constexpr i32 kNext = (k + 1) % kMmaSteps, kRowsEach = div_up(kTilesM, kTilesN);
  const Readers& after = k + 1 < kMmaSteps ? now : next;
  if constexpr (j + 1 < kTilesN) {
    f.load_column<k, j + 1>(now);
  } else {
    f.load_column<kNext, 0>(after);
  }
  f.multiply<k & 1, j>(sums);
  load_rows<kNext, j * kRowsEach, (j + 1) * kRowsEach>(f, after);
  if constexpr (j + 1 < kTilesN) multiply_columns<k, j + 1>(sums, f, now, next);
}

// The origins of the present tile and of the next one, which copies run on to.
struct Tiles {
  TileOrigin now, next;
  bool more;

  QUERN_DEVICE TileOrigin origin(bool of_next) const {
    TileOrigin c = now;
    if (of_next) c = next;
    return c;
  }
};

// Multiplies all k blocks of a tile. The stage of the last one, `state`, is left to the epilogue and is not freed here.
QUERN_DEVICE void multiply_tile(Sums& sums, Fragments& f, const Tiles& tiles, const Copier& copier,
                                const Readers& readers, bool copies, StageState& state) {
  const i32 k_blocks = tiles.now.k_blocks();
  mbarrier_wait(copier.stages.full[state.stage], state.phase);
  f.load_first(readers.at_stage(state.stage));
  for (i32 k_block = 0;;) {
    // After the last k block the present stage is read once more instead of a next one; what is read is not used.
    StageState next = state;
    if (k_block + 1 < k_blocks) next.next();
    const Readers here = readers.at_stage(state.stage), there = readers.at_stage(next.stage);
    multiply_columns<0, 0>(sums, f, here, there);
    if (copies) {
      // Copies into the stage of the previous k block, once all warps have freed it; for the very first k block into a
      // stage that is still unused.
      const bool wraps = state.stage == 0;
      const i32 before = wraps ? kStages - 1 : state.stage - 1;
      mbarrier_wait(copier.stages.empty[before], wraps ? state.phase ^ 1 : state.phase);
      const i32 ahead = k_block + kAhead, beyond = ahead - k_blocks;
      if (elect_one() && (beyond < 0 || tiles.more))
        copier.copy(tiles.origin(beyond >= 0), beyond < 0 ? ahead : beyond, before);
    }
    multiply_columns<1, 0>(sums, f, here, there);
    multiply_columns<2, 0>(sums, f, here, there);
    mbarrier_wait(copier.stages.full[next.stage], next.phase);
    multiply_columns<3, 0>(sums, f, here, there);
    if (++k_block == k_blocks) break;
    if (lane() == 0) mbarrier_arrive(copier.stages.empty[state.stage]);
    state = next;
  }
}

QUERN_DEVICE void multiply(const GemmParams& p, const Copier& copier, Sums& sums, Fragments& f,
                           SliceOfThread::Vectors& gathered, i32* flag) {
  WaveTiles tiles(p);
  Work work, next{};
  if (!tiles.next(work)) return;
  // The shuffle tells the compiler that the value is equal in all threads of a warp.
  const bool copies = shuffle(warp(), 0) == 0;
  if (copies && elect_one()) {
    QUERN_ROLLED for (i32 k_block = 0; k_block < kAhead; ++k_block) copier.copy(TileOrigin(p, work), k_block, k_block);
  }
  sync_warp();
  const Readers readers(SharedPlace(copier.shared));
  StageState state;
  bool more;
  QUERN_ROLLED do {
    more = tiles.next(next);
    sums.clear();
    multiply_tile(sums, f, {TileOrigin(p, work), TileOrigin(p, next), more}, copier, readers, copies, state);
    sync_block();
    store(p, work, tiles, sums, gathered, reinterpret_cast<f32*>(copier.shared + state.stage * kTileBytes), flag);
    fence_async();
    sync_warp();
    if (lane() == 0) mbarrier_arrive(copier.stages.empty[state.stage]);
    state.next();
    work = next;
  }
  while (more);
}

}  // namespace q

QUERN_KERNEL(quern_gemm_tma_mma, THREADS, 1, QUERN_PARAM q::GemmParams p, QUERN_PARAM q::TensorMap map_a,
             QUERN_PARAM q::TensorMap map_b) {
  using namespace q;
  QUERN_SHARED(Stages, stages, 1);
  QUERN_SHARED(i32, flag, 1);
  u8* shared = tile_shared();
  Sums sums;
  Fragments fragments;
  SliceOfThread::Vectors gathered;
  launch_next_grid();
  if (thread_index() == 0) {
    prefetch_tensor_map(map_a);
    prefetch_tensor_map(map_b);
    for (i32 i = 0; i < kStages; ++i) {
      mbarrier_init(stages[0].full[i], 1);
      mbarrier_init(stages[0].empty[i], kThreads / kWarp);
    }
    fence_mbarrier_init();
  }
  sync_block();
  wait_for_previous_grid();
  multiply(p, Copier{p, map_a, map_b, shared, stages[0]}, sums, fragments, gathered, flag);
}
