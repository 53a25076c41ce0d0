// Matrix products on Hopper: one warpgroup copies tiles of a and b by tensor map, the others multiply them as they arrive. It
// replaces gemm.cuh where operands are aligned and not gathered.
//
// Two blocks of threads may be a cluster: they have tiles of the same columns, one below the other, and each copies half of b's
// tile into the memory of both.
//
// The tensor cores' sums of 8-bit products keep about 14 bits: they are added to sums in registers after every 256 of k, and with
// block scales, which are applied then, after every 128.
// SPDX-License-Identifier: Apache-2.0
#include "common/hopper.cuh"
#include "gemm/experts.cuh"
#include "gemm/mapped.cuh"
#include "gemm/pipeline.cuh"
#include "gemm/tiles.cuh"
#include "gemm/warpgroup_rows.cuh"

namespace q {

inline constexpr i32 kGroupThreads = 128;
inline constexpr i32 kConsumers = kTileM / 64;  // warpgroups, 64 rows each
static_assert(kThreads == (kConsumers + 1) * kGroupThreads && kStepK * sizeof(ElementA) == 128 && kTileN % 16 == 0);
inline constexpr i32 kABytes = kTileM * 128, kBBytes = kTileN * 128;
inline constexpr bool kPromoted = sizeof(ElementA) == 1;
// Sums that are promoted take their registers twice: wide tiles are multiplied one half after the other.
inline constexpr i32 kPassN = kPromoted && kTileN > 192 ? kTileN / 2 : kTileN;
inline constexpr i32 kPasses = kTileN / kPassN;

// Of a thread. Those that copy take what the others can spare: more where they read scales.
inline constexpr i32 kProducerRegisters = kBlockScale ? 56 : 40;
inline constexpr i32 kConsumerRegisters = 252 - kProducerRegisters / 2;
static_assert((kConsumerRegisters * 2 + kProducerRegisters) * kGroupThreads == 168 * kThreads && kConsumerRegisters % 8 == 0);
static_assert(kConsumers == 2);

// Of the cluster.
struct Peers {
  i32 count, rank;
};

// In how many boxes tiles are copied, of so many lines each. b's come in two halves: a gate's, or those that each peer copies.
inline constexpr i32 kBoxesA = kTransposedA ? MappedA::kSpans : 1, kBoxLinesA = kTileM / kBoxesA;
inline constexpr i32 kBoxesB = kTransposedB ? MappedB::kSpans : 2, kBoxLinesB = kTileN / kBoxesB;

template <class Tiles>
QUERN_DEVICE void copy_tiles(const GemmParams& p, const TensorMap& map_a, const TensorMap& map_b, Tiles tiles, Peers peers, u8* shared, Stages& stages) {
  Work work;
  Turn turn;
  QUERN_ROLLED while (tiles.next(work)) {
    const i32 row = static_cast<i32>(kGrouping == kContiguous ? work.first_row : 0) + work.row;
    const i32 of_a = group_of_a(p, work), of_b = group_of_b(p, work);
    QUERN_ROLLED for (i32 step = 0; step < work.last_step; ++step) {
      mbarrier_wait(stages.empty[turn.stage], turn.phase ^ 1);
      Mbarrier& full = stages.full[turn.stage];
      mbarrier_arrive_expect(full, kABytes + kBBytes);
      u8* to = shared + turn.stage * (kABytes + kBBytes);
      const i32 k = step * kStepK;
      QUERN_UNROLL for (i32 box = 0; box < kBoxesA; ++box) {
        MappedA::load(to + box * (kBoxLinesA * 128), map_a, full, CacheHint::normal, k, row + box * kBoxLinesA, of_a);
      }
      to += kABytes;
      QUERN_UNROLL for (i32 box = 0; box < kBoxesB; ++box, to += kBoxLinesB * 128) {
        const i32 half = box * 2 / kBoxesB, column = work.column + box * kBoxLinesB + (kGate && half == 1 ? p.n / 2 - kOutTileN : 0);
        if (peers.count == 1) {
          MappedB::load(to, map_b, full, CacheHint::normal, k, column, of_b);
        } else if (peers.rank == half) {
          MappedB::load_multicast(to, map_b, full, 3u, CacheHint::normal, k, column, of_b);
        }
      }
      turn.next();
    }
  }
  // Consumers wait for the stage behind each step's, which after the last step has nothing in it.
  if constexpr (kBlockScale) {
    mbarrier_wait(stages.empty[turn.stage], turn.phase ^ 1);
    mbarrier_arrive(stages.full[turn.stage]);
  }
}

// Scales of a step: for each row of the tile its own times those of the one or two blocks of 128 columns that the tile is in, or of
// its two halves where there is a gate.
inline constexpr i32 kColumnScales = kGate || kTileN > 128 ? 2 : 1;
inline constexpr i32 kStageScales = kTileM * kColumnScales;

// Warps that bring the scales of each step into shared memory, each those of some rows. They read some steps ahead of the stage that
// is free, since reading takes longer than a step.
inline constexpr i32 kScaleWarps = kBlockScale ? 2 : 0;

template <class Tiles>
QUERN_DEVICE void copy_scales(const GemmParams& p, Tiles tiles, i32 number, f32* shared_scales, Stages& stages) {
  constexpr i32 kAhead = kGrouping == kDense ? 4 : 3, kRows = kTileM / (kScaleWarps * kWarp);
  const i32 l = lane(), line = number * (kRows * kWarp) + l;
  Work work;
  Turn turn;
  const auto hand_over = [&] {
    sync_warp();
    if (l == 0) mbarrier_arrive(stages.full[turn.stage]);
    turn.next();
  };
  QUERN_ROLLED while (tiles.next(work)) {
    const f32* of_row[kRows];
    QUERN_UNROLL for (i32 r = 0; r < kRows; ++r) {
      const i32 source = source_row(p, work, line + r * kWarp);
      of_row[r] = p.scale_a + (kGrouping == kContiguous ? 0 : work.group) * p.scale_a_group + (source < 0 ? 0 : source) * p.scale_a_row;
    }
    const f32* of_column[kColumnScales];
    const i32 last = (p.n - 1) / 128;
    QUERN_UNROLL for (i32 c = 0; c < kColumnScales; ++c) {
      const i32 block = kGate ? (c * (p.n / 2) + work.column) / 128 : work.column / 128 + c;
      of_column[c] = p.scale_b + work.group * p.scale_b_group + (block < last ? block : last) * p.scale_b_row;
    }
    f32 row[kAhead][kRows], column[kAhead][kColumnScales];
    i32 read = 0;
    const auto read_next = [&](i32 slot) {
      if (read++ >= work.last_step) return;
      QUERN_UNROLL for (i32 r = 0; r < kRows; ++r) row[slot][r] = *of_row[r], of_row[r] += p.scale_a_k;
      QUERN_UNROLL for (i32 c = 0; c < kColumnScales; ++c) column[slot][c] = *of_column[c], of_column[c] += p.scale_b_k;
    };
    QUERN_UNROLL for (i32 i = 0; i < kAhead; ++i) read_next(i);
    QUERN_ROLLED for (i32 first = 0; first < work.last_step; first += kAhead) {
      QUERN_UNROLL for (i32 i = 0; i < kAhead; ++i) {
        if (first + i < work.last_step) {
          mbarrier_wait(stages.empty[turn.stage], turn.phase ^ 1);
          f32* to = shared_scales + turn.stage * kStageScales + line * kColumnScales;
          QUERN_UNROLL for (i32 r = 0; r < kRows; ++r) {
            QUERN_UNROLL for (i32 c = 0; c < kColumnScales; ++c) to[r * kWarp * kColumnScales + c] = row[i][r] * column[i][c];
          }
          read_next(i);
          hand_over();
        }
      }
    }
  }
  // As in copy_tiles.
  mbarrier_wait(stages.empty[turn.stage], turn.phase ^ 1);
  hand_over();
}
static_assert(!kBlockScale || (kGate ? kTileN == 128 || kTileN == 256 : kTileN == 128 || kTileN == 192 || kTileN == 256));

// What one step's sums are multiplied by: for each 64 columns, and each of a thread's two rows.
struct StepScales {
  f32 x[3][2];  // the first block's, the second's, and, of the three 64 columns of a tile of 192, the middle's

  QUERN_DEVICE void take(const SharedArray<f32>& scales, i32 first, bool middle_is_second) {
    QUERN_UNROLL for (i32 h = 0; h < 2; ++h) {
      f32 own[kColumnScales];
      load_shared(own, scales, first + 8 * h * kColumnScales);
      QUERN_UNROLL for (i32 i = 0; i < kColumnScales; ++i) x[i][h] = own[i];
      if constexpr (kTileN == 192) x[2][h] = middle_is_second ? x[1][h] : x[0][h];
    }
  }
  // Of sum i of the tile.
  QUERN_DEVICE f32 of(i32 i) const {
    const i32 segment = i / 32, h = i >> 1 & 1;
    if constexpr (kColumnScales == 1) return x[0][h];
    if constexpr (kTileN == 192) return x[segment == 1 ? 2 : segment / 2][h];
    return x[segment / (kTileN / 128)][h];
  }
};

// Adds a pass's sums to those of the tile.
template <i32 pass>
QUERN_DEVICE void promote(f32 (&sums)[kSumCount], const f32 (&part)[kPassN / 2], const StepScales& scales) {
  QUERN_UNROLL for (i32 i = 0; i < kPassN / 2; ++i) {
    constexpr i32 kFirst = pass * (kPassN / 2);
    sums[kFirst + i] = kBlockScale ? fma(part[i], scales.of(kFirst + i), sums[kFirst + i]) : sums[kFirst + i] + part[i];
  }
}

// The warpgroups multiply 8-bit operands in turns where two steps are summed together: who has three quarters of a step left hands
// over, so that the other's first product follows the last one.
inline constexpr i32 kTurnBarrier = 5;
inline constexpr bool kTurns = kPromoted && !kBlockScale;

// Of the stages, and one that nobody waits for.
struct Barriers {
  Stages stages;
  Mbarrier spare;
};
inline constexpr i32 kFull = 0, kEmpty = kStages, kSpare = 2 * kStages;
static_assert(sizeof(Barriers) == (kSpare + 1) * sizeof(Mbarrier));

// What one consumer goes through the steps of a tile with: addresses in shared memory and descriptors are made once. To find them again
// for each step took a tenth of its time.
struct Consumer {
  SharedArray<Mbarrier> barriers;
  SharedArray<f32> scales;  // from those of the thread's first row on
  u32 a, b;                 // the lower halves of the first stage's descriptors
  Turn& turn;
  Peers peers;
  i32 number;

  template <int count>
  QUERN_DEVICE void multiply(f32 (&d)[count], const Turn& of, i32 pass, bool accumulate) const {
    static_assert(count == kPassN / 2);
    constexpr u64 kUpperA = MappedA::kLayout >> 32 << 32, kUpperB = MappedB::kLayout >> 32 << 32;
    const u32 stage = static_cast<u32>(of.stage) * ((kABytes + kBBytes) >> 4), columns = static_cast<u32>(pass) * (kPassN * 128 >> 4);
    QUERN_UNROLL for (u32 k = 0; k < 4; ++k) {
      const u32 next_a = k * (MappedA::kNextBytes >> 4), next_b = k * (MappedB::kNextBytes >> 4);
      wgmma<ElementA, ElementB, MappedA::kMajor, MappedB::kMajor>(d, kUpperA | (a + stage + next_a), kUpperB | (b + stage + columns + next_b), accumulate || k > 0);
      if (kTurns && k == 0) wgmma_commit();
    }
    wgmma_commit();
  }
  QUERN_DEVICE void await(const Turn& of) const { mbarrier_wait(barriers, kFull + of.stage, of.phase); }
  // This warp has done with a stage: the producers of all blocks of the cluster, which copy into it, are told. With block scales there is
  // one block; the branch stays, since the compiler keeps descriptors in uniform registers with it and not without.
  QUERN_DEVICE void release(i32 barrier) const {
    if constexpr (kBlockScale) sync_warp();  // all its lanes have read scales of the stage, one tells
    if (peers.count == 1) {
      if (lane() == 0) mbarrier_arrive(barriers, barrier);
    } else if (lane() < peers.count) {
      mbarrier_arrive_remote_relaxed(barriers, barrier, lane());
    }
  }
  QUERN_DEVICE void release(const Turn& of) const { release(kEmpty + of.stage); }
  QUERN_DEVICE StepScales step_scales(const Turn& of, bool middle_is_second) const {
    StepScales of_step;
    of_step.take(scales, of.stage * kStageScales, middle_is_second);
    return of_step;
  }
  QUERN_DEVICE void take_turn() const { sync_named(kTurnBarrier + number, kConsumers * kGroupThreads); }
  QUERN_DEVICE void hand_over() const { arrive_named(kTurnBarrier + (number ^ 1), kConsumers * kGroupThreads); }
};

// Products of `steps` steps, summed by the tensor cores and then added to the sums of the tile; the other warpgroup's products keep the
// tensor cores busy meanwhile.
template <i32 steps, int count>
QUERN_DEVICE void promote_together(f32 (&sums)[count], const Consumer& c) {
  static_assert((steps == 1 || steps == 2) && kTurns);
  const Turn first = c.turn;
  Turn second = first;
  c.await(first);
  if constexpr (steps == 2) second.next();
  QUERN_UNROLL for (i32 pass = 0; pass < kPasses; ++pass) {
    const bool done = pass == kPasses - 1;
    f32 part[kPassN / 2];
    c.take_turn();
    wgmma_fence();
    c.multiply(part, first, pass, false);
    if constexpr (steps == 2) {
      if (pass == 0) {
        c.await(second);
        wgmma_fence();  // the compiler, which sees a branch in the wait, would remark that it puts one here
      }
      c.multiply(part, second, pass, true);
      if (done) {
        wgmma_wait<2>();
        c.release(first);
      }
    }
    wgmma_wait<1>();
    c.hand_over();
    wgmma_wait<0>(part);
    if (done) c.release(second);
    if (pass == 0) {
      promote<0>(sums, part, {});
    } else {
      promote<kPasses - 1>(sums, part, {});
    }
  }
  c.turn = second;
  c.turn.next();
}

// All steps of a tile where scales do not change with k: two at a time.
template <int count>
QUERN_DEVICE void promote_steps(f32 (&sums)[count], i32 steps, const Consumer& c) {
  i32 step = 0;
  QUERN_ROLLED for (; step + 2 <= steps; step += 2) promote_together<2>(sums, c);
  // A loop, though it runs once at most: behind a branch the sums would get other registers, more than there are.
  QUERN_ROLLED for (; step < steps; ++step) promote_together<1>(sums, c);
}

// All steps of a tile with block scales. While a step's last products are under way, what the next one needs is waited for and read;
// the stage before is released while its first ones are. So little but the adding itself lies between products, and adding takes no
// longer than the other warpgroup's products.
template <int count>
QUERN_DEVICE void promote_scaled_steps(f32 (&sums)[count], const Work& work, const Consumer& c) {
  const bool middle_is_second = work.column % 128 != 0;
  Turn at = c.turn;
  c.await(at);
  StepScales scales = c.step_scales(at, middle_is_second);
  i32 before = kSpare;
  QUERN_ROLLED for (i32 step = 0; step < work.last_step; ++step) {
    Turn next = at;
    next.next();
    StepScales next_scales;
    QUERN_UNROLL for (i32 pass = 0; pass < kPasses; ++pass) {
      f32 part[kPassN / 2];
      wgmma_fence();
      c.multiply(part, at, pass, false);
      if (pass == 0) c.release(before);
      if (pass == kPasses - 1) {
        c.await(next);
        next_scales = c.step_scales(next, middle_is_second);
      }
      wgmma_wait<0>(part);
      if (pass == 0) {
        promote<0>(sums, part, scales);
      } else {
        promote<kPasses - 1>(sums, part, scales);
      }
    }
    before = kEmpty + at.stage;
    at = next;
    scales = next_scales;
  }
  c.release(before);
  c.turn = at;
}

// All steps of a tile where sums are kept as they are: one step's products stay under way while the next one's begin; the stage
// before is free by then. The first step stands before the loop, so that nothing but products writes the sums within it: the compilers
// of CUDA 12 would wait for each product otherwise.
template <int count>
QUERN_DEVICE void accumulate_steps(f32 (&sums)[count], i32 steps, const Consumer& c) {
  Turn at = c.turn;
  c.await(at);
  wgmma_fence();
  c.multiply(sums, at, 0, false);
  Turn before = at;
  at.next();
  QUERN_ROLLED for (i32 step = 1; step < steps; ++step) {
    c.await(at);
    wgmma_fence();
    c.multiply(sums, at, 0, true);
    wgmma_wait<1>();
    c.release(before);
    before = at;
    at.next();
  }
  wgmma_wait<0>(sums);
  c.release(before);
  c.turn = at;
}

// What a consumer has in shared memory beside the stages.
struct Staging {
  u8* results;         // of this warp
  f32* column_scales;  // of this warpgroup
  f32* block_scales;   // of the stages
};

template <class Tiles>
QUERN_DEVICE void multiply_tiles(const GemmParams& p, const TensorMap& map_out, Tiles tiles, Peers peers, i32 consumer, const u8* shared, Barriers& barriers, Staging staging) {
  Work work;
  const i32 line = consumer * 64 + wgmma_row(thread_index() % kGroupThreads, 0);
  Turn turn;
  const auto low = [](const u8* tile, u64 layout) { return static_cast<u32>(matrix_descriptor(tile, layout)); };
  const Consumer c{SharedArray<Mbarrier>(reinterpret_cast<Mbarrier*>(&barriers)), SharedArray<f32>(staging.block_scales + line * kColumnScales),
                   low(shared + consumer * 64 * 128, MappedA::kLayout), low(shared + kABytes, MappedB::kLayout), turn, peers, consumer};
  if (kTurns && consumer == 1) c.hand_over();
  // Which tile is next is found out while results leave, unless that takes registers that sums have.
  constexpr bool kSoon = kPlainResults && kGrouping == kDense;
  [[maybe_unused]] Work next;
  [[maybe_unused]] bool more = kSoon && tiles.next(next);
  QUERN_ROLLED while (kSoon ? more : tiles.next(work)) {
    if constexpr (kSoon) work = next;
    f32 sums[kSumCount];
    [[maybe_unused]] ResultScales result_scales{};
    if constexpr (kPlainResults && kScaled) result_scales.load(p, work, line);
    if constexpr (kPromoted) {
      QUERN_UNROLL for (f32& sum : sums) sum = 0.0f;
      if constexpr (kBlockScale) {
        promote_scaled_steps(sums, work, c);
      } else {
        promote_steps(sums, work.last_step, c);
      }
    } else {
      accumulate_steps(sums, work.last_step, c);
    }
    if constexpr (kPlainResults) {
      if constexpr (kScaled) result_scales.share(staging.column_scales, 3 + consumer);
      store_plain_rows<Out>(p, map_out, work, consumer, sums, result_scales.row, staging.column_scales, staging.results, [&] {
        if constexpr (kSoon) more = tiles.next(next);
      });
    } else {
      store_rows(p, work, consumer, sums, reinterpret_cast<f32*>(staging.results));
    }
  }
  if (kTurns && consumer == 0) c.take_turn();  // the other one handed over last
  if constexpr (kPlainResults && kBulkResults) {
    if (elect_one()) tma_wait<0>();
  }
}

template <class Tiles>
QUERN_DEVICE void run_roles(const GemmParams& p, const TensorMap& map_a, const TensorMap& map_b, const TensorMap& map_out, const Tiles& tiles, Peers peers, u8* shared,
                            Barriers& barriers) {
  // By a shuffle, so that the compiler knows a warp's threads to go one way and keeps what they share in uniform registers.
  const i32 group = shuffle(thread_index() / kGroupThreads, 0);
  u8* staged = shared + kStages * (kABytes + kBBytes);
  auto* scales = reinterpret_cast<f32*>(staged + kConsumers * 4 * kStagedBytes);
  if (group == kConsumers) {
    registers_shrink<kProducerRegisters>();
    if (shuffle(warp() % 4, 0) == 0 && elect_one()) copy_tiles(p, map_a, map_b, tiles, peers, shared, barriers.stages);
    if constexpr (kBlockScale) {
      const i32 number = shuffle(warp() % 4, 0) - 1;
      if (number >= 0 && number < kScaleWarps) copy_scales(p, tiles, number, scales, barriers.stages);
    }
    sync_warp();
  } else {
    registers_grow<kConsumerRegisters>();
    multiply_tiles(p, map_out, tiles, peers, group, shared, barriers, {staged + warp() * kStagedBytes, scales + group * kTileN, scales});
  }
}

}  // namespace q

QUERN_KERNEL(quern_gemm_warpgroups, THREADS, 1, QUERN_PARAM q::GemmParams p, QUERN_PARAM q::TensorMap map_a, QUERN_PARAM q::TensorMap map_b,
             QUERN_PARAM q::TensorMap map_out) {
  using namespace q;
  QUERN_SHARED(Barriers, barriers, 1);
  u8* shared = tile_shared();
  const Peers peers{static_cast<i32>(cluster_size()), static_cast<i32>(cluster_rank())};
  const i32 cluster = block_index(0) / peers.count, clusters = block_count(0) / peers.count;
  if (thread_index() == 0) {
    prefetch_tensor_map(map_a);
    prefetch_tensor_map(map_b);
    if (p.out_mapped != 0) prefetch_tensor_map(map_out);
    for (i32 i = 0; i < kStages; ++i) {
      mbarrier_init(barriers[0].stages.full[i], 1 + kScaleWarps);
      mbarrier_init(barriers[0].stages.empty[i], kConsumers * 4 * peers.count);
    }
    mbarrier_init(barriers[0].spare, kConsumers * 4 * peers.count);
    fence_mbarrier_init();
  }
  sync_block();
  if (peers.count > 1) sync_cluster();
  launch_next_grid();
  wait_for_previous_grid();
  if constexpr (kGrouping != kDense) {
    QUERN_SHARED(Experts, experts, 1);
    list_experts(p, experts[0], kTileM * peers.count);
    run_roles(p, map_a, map_b, map_out, ExpertTiles(p, experts[0], cluster, clusters, peers.count, peers.rank), peers, shared, barriers[0]);
  } else {
    run_roles(p, map_a, map_b, map_out, DenseTiles(p, cluster, clusters, peers.count, peers.rank), peers, shared, barriers[0]);
  }
  // A block's memory is copied to and its barriers are told of until its peer is done.
  if (peers.count > 1) sync_cluster();
}
