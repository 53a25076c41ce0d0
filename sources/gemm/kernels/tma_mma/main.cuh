// Matrix products of 16 bits on targets that copy by tensor map and multiply by mma.sync: it replaces gemm.cuh where operands are
// aligned, and is for where Hopper's own products are not.
//
// Every warp multiplies; one thread of the first also copies, each step into the stage that all have just left. The stages run on
// from tile to tile: a tile's results go through the stage of its last step while the first steps of the next one are under way.
//
// Tiles that are too few for a last wave may be shared by the steps of k.
// SPDX-License-Identifier: Apache-2.0
#include "common/shared_place.cuh"
#include "gemm/kernels/shared/tma_tiles.cuh"
#include "gemm/kernels/shared/pipeline.cuh"
#include "gemm/kernels/shared/warp_sums.cuh"

#include "gemm/kernels/tma_mma/last_wave.cuh"

namespace q {

inline constexpr i32 kABytes = kTileM * 128, kBBytes = kTileN * 128, kTileBytes = kABytes + kBBytes;
inline constexpr i32 kStepProducts = kStepK / kTileK<ElementA>;
inline constexpr i32 kAhead = kStages - 1;  // steps that are under way
static_assert(kStepK * sizeof(ElementA) == 128 && kStepProducts == 4 && kAhead >= 2 && !kTransposedA && !kTransposedB && kGrouping == kDense);
static_assert(kSliceRows * kStagedPitch * 4 <= kTileBytes, "results are staged where a step was");

// Where a tile's operands begin: lines and groups, and which steps there are.
struct Corner {
  i32 row, column, group_of_a, group_of_b;
  i32 first_step, last_step;
  QUERN_DEVICE Corner(const GemmParams& p, const Work& work)
      : row(work.row), column(work.column), group_of_a(q::group_of_a(p, work)), group_of_b(q::group_of_b(p, work)), first_step(work.first_step), last_step(work.last_step) {}
  // Copies run on to one tile only: one that has fewer steps than are under way has some of zeros.
  QUERN_DEVICE i32 steps() const { return last_step - first_step < kAhead ? kAhead : last_step - first_step; }
};

// What one thread copies with.
struct Copier {
  const GemmParams& p;
  const TensorMap &map_a, &map_b;
  u8* shared;
  Stages& stages;

  // Step `step` of a tile's. b's lines come in two halves: a gate's have their columns apart.
  QUERN_DEVICE void copy(const Corner& at, i32 step, i32 stage) const {
    Mbarrier& full = stages.full[stage];
    u8* to = shared + stage * kTileBytes;
    const i32 from = at.first_step + step, k = from < at.last_step ? from * kStepK : p.k;
    mbarrier_arrive_expect(full, kTileBytes);
    MappedA::load(to, map_a, full, CacheHint::normal, k, at.row, at.group_of_a);
    QUERN_UNROLL for (i32 half = 0; half < 2; ++half) {
      const i32 column = at.column + half * (kGate ? p.n / 2 : kTileN / 2);
      MappedB::load(to + kABytes + half * (kBBytes / 2), map_b, full, CacheHint::normal, k, column, at.group_of_b);
    }
  }
};

// Where a warp reads: the first stage, or another.
struct Readers {
  SwizzledReaderOfA<ElementA> a;
  SwizzledReaderOfB<ElementB> b;

  QUERN_DEVICE explicit Readers(SharedPlace stages) : a(stages + warp_row() * 128), b(stages + (kABytes + warp_column() * 128)) {}
  QUERN_DEVICE Readers at_stage(i32 stage) const {
    Readers r = *this;
    r.a = a + stage * kTileBytes, r.b = b + stage * kTileBytes;
    return r;
  }
};

// Operands: rows of the present tensor-core step and of the next one, columns of the present one and of that after it.
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
  // Those of tensor-core steps of parity `odd` in column j.
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

// Rows of tensor-core step k from i to before `end`.
template <i32 k, i32 i, i32 end>
QUERN_DEVICE void load_rows(Fragments& f, const Readers& from) {
  if constexpr (i < end && i < kTilesM) {
    f.load_row<k, i>(from);
    load_rows<k, i + 1, end>(f, from);
  }
}

// Tensor-core step k of a step, from columns j on. Before they are multiplied the columns after them are read, and behind them some rows of
// the next tensor-core step: read before them, these make the same products 2 to 4% slower by where the assembler puts what.
template <i32 k, i32 j>
QUERN_DEVICE void multiply_columns(Sums& sums, Fragments& f, const Readers& now, const Readers& next) {
  constexpr i32 kNext = (k + 1) % kStepProducts, kRowsEach = div_up(kTilesM, kTilesN);
  const Readers& after = k + 1 < kStepProducts ? now : next;
  if constexpr (j + 1 < kTilesN) {
    f.load_column<k, j + 1>(now);
  } else {
    f.load_column<kNext, 0>(after);
  }
  f.multiply<k & 1, j>(sums);
  load_rows<kNext, j * kRowsEach, (j + 1) * kRowsEach>(f, after);
  if constexpr (j + 1 < kTilesN) multiply_columns<k, j + 1>(sums, f, now, next);
}

// Where a tile begins, and the one after it, which copies run on to.
struct Tiles {
  Corner now, next;
  bool more;

  QUERN_DEVICE Corner corner(bool of_next) const {
    Corner c = now;
    if (of_next) c = next;
    return c;
  }
};

// All steps of a tile but for the release of the last one's stage, `turn`.
QUERN_DEVICE void multiply_tile(Sums& sums, Fragments& f, const Tiles& tiles, const Copier& copier, const Readers& readers, bool copies, StageState& state) {
  const i32 steps = tiles.now.steps();
  mbarrier_wait(copier.stages.full[state.stage], state.phase);
  f.load_first(readers.at_stage(state.stage));
  for (i32 step = 0;;) {
    // Behind the last step nothing is waited for, and what is read once more is not used.
    StageState next = state;
    if (step + 1 < steps) next.next();
    const Readers here = readers.at_stage(state.stage), there = readers.at_stage(next.stage);
    multiply_columns<0, 0>(sums, f, here, there);
    if (copies) {
      // Into the stage of the step before, once all have left it; in the very first step one that nobody has been in.
      const bool wraps = state.stage == 0;
      const i32 before = wraps ? kStages - 1 : state.stage - 1;
      mbarrier_wait(copier.stages.empty[before], wraps ? state.phase ^ 1 : state.phase);
      const i32 ahead = step + kAhead, beyond = ahead - steps;
      if (elect_one() && (beyond < 0 || tiles.more)) copier.copy(tiles.corner(beyond >= 0), beyond < 0 ? ahead : beyond, before);
    }
    multiply_columns<1, 0>(sums, f, here, there);
    multiply_columns<2, 0>(sums, f, here, there);
    mbarrier_wait(copier.stages.full[next.stage], next.phase);
    multiply_columns<3, 0>(sums, f, here, there);
    if (++step == steps) break;
    if (lane() == 0) mbarrier_arrive(copier.stages.empty[state.stage]);
    state = next;
  }
}

QUERN_DEVICE void multiply(const GemmParams& p, const Copier& copier, Sums& sums, Fragments& f, SliceOfThread::Vectors& gathered, i32* flag) {
  WaveTiles tiles(p);
  Work work, next{};
  if (!tiles.next(work)) return;
  // By a shuffle, so that the compiler knows a warp's threads to go one way.
  const bool copies = shuffle(warp(), 0) == 0;
  if (copies && elect_one()) {
    QUERN_ROLLED for (i32 step = 0; step < kAhead; ++step) copier.copy(Corner(p, work), step, step);
  }
  sync_warp();
  const Readers readers(SharedPlace(copier.shared));
  StageState state;
  bool more;
  QUERN_ROLLED do {
    more = tiles.next(next);
    sums.clear();
    multiply_tile(sums, f, {Corner(p, work), Corner(p, next), more}, copier, readers, copies, state);
    sync_block();
    store(p, work, tiles, sums, gathered, reinterpret_cast<f32*>(copier.shared + state.stage * kTileBytes), flag);
    fence_async();
    sync_warp();
    if (lane() == 0) mbarrier_arrive(copier.stages.empty[state.stage]);
    state.next();
    work = next;
  } while (more);
}

}  // namespace q

QUERN_KERNEL(quern_gemm_tma_mma, THREADS, 1, QUERN_PARAM q::GemmParams p, QUERN_PARAM q::TensorMap map_a, QUERN_PARAM q::TensorMap map_b) {
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
