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
static_assert(kThreads == (kConsumers + 1) * kGroupThreads && kStepK * sizeof(ElementA) == 128 && kTileN % 32 == 0);
inline constexpr i32 kABytes = kTileM * 128, kBBytes = kTileN * 128;
inline constexpr bool kPromoted = sizeof(ElementA) == 1;
// Sums that are promoted take their registers twice: wide tiles are multiplied one half after the other.
inline constexpr i32 kPassN = kPromoted && kTileN > 192 ? kTileN / 2 : kTileN;
inline constexpr i32 kPasses = kTileN / kPassN;

// Of a thread. Those that copy take what the others can spare: most where they read scales and look up whose rows a tile has, least
// where sums are there twice and nobody reads scales.
inline constexpr i32 kProducerRegisters = kBlockScale && kGrouping == kContiguous && kTileN < 256 ? 56 : kBlockScale || !kPromoted ? 40 : 24;
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
    const i32 row = static_cast<i32>(kGrouping == kContiguous ? work.first_row : 0) + work.row, group_of_a = kGrouping == kContiguous ? 0 : work.group;
    QUERN_ROLLED for (i32 step = 0; step < work.last_step; ++step) {
      mbarrier_wait(stages.empty[turn.stage], turn.phase ^ 1);
      Mbarrier& full = stages.full[turn.stage];
      mbarrier_arrive_expect(full, kABytes + kBBytes);
      u8* to = shared + turn.stage * (kABytes + kBBytes);
      const i32 k = step * kStepK;
      QUERN_UNROLL for (i32 box = 0; box < kBoxesA; ++box) {
        MappedA::load(to + box * (kBoxLinesA * 128), map_a, full, CacheHint::normal, k, row + box * kBoxLinesA, group_of_a);
      }
      to += kABytes;
      QUERN_UNROLL for (i32 box = 0; box < kBoxesB; ++box, to += kBoxLinesB * 128) {
        const i32 half = box * 2 / kBoxesB, column = work.column + box * kBoxLinesB + (kGate && half == 1 ? p.n / 2 - kOutTileN : 0);
        if (peers.count == 1) {
          MappedB::load(to, map_b, full, CacheHint::normal, k, column, work.group);
        } else if (peers.rank == half) {
          MappedB::load_multicast(to, map_b, full, 3u, CacheHint::normal, k, column, work.group);
        }
      }
      turn.next();
    }
  }
}

// Scales of a step: one for each row of the tile, then those of the two blocks of 128 columns that it is in, or of its two halves
// where there is a gate.
inline constexpr i32 kColumnScales = kGate || kTileN > 128 ? 2 : 1;
inline constexpr i32 kStageScales = kTileM + 4;

// Warps that bring the scales of each step into shared memory, each those of some rows. They read some steps ahead of the stage that
// is free, since reading takes longer than a step.
inline constexpr i32 kScaleWarps = kBlockScale ? 2 : 0;

template <class Tiles>
QUERN_DEVICE void copy_scales(const GemmParams& p, Tiles tiles, i32 number, f32* shared_scales, Stages& stages) {
  constexpr i32 kAhead = 4, kRows = kTileM / (kScaleWarps * kWarp);
  const i32 l = lane(), line = number * (kRows * kWarp) + l;
  const bool has_column = number == 0 && l < kColumnScales;
  Work work;
  Turn turn;
  QUERN_ROLLED while (tiles.next(work)) {
    const f32* from[kRows];
    QUERN_UNROLL for (i32 i = 0; i < kRows; ++i) {
      const i32 source = source_row(p, work, line + i * kWarp);
      from[i] = p.scale_a + (kGrouping == kContiguous ? 0 : work.group) * p.scale_a_group + (source < 0 ? 0 : source) * p.scale_a_row;
    }
    const i32 second = l == 1 ? 1 : 0, last = (p.n - 1) / 128;
    const i32 block = kGate ? (second * (p.n / 2) + work.column) / 128 : work.column / 128 + second;
    const f32* from_column = p.scale_b + work.group * p.scale_b_group + (block < last ? block : last) * p.scale_b_row;
    f32 row[kAhead][kRows], column[kAhead];
    i32 read = 0;
    const auto read_next = [&](i32 slot) {
      if (read++ >= work.last_step) return;
      QUERN_UNROLL for (i32 i = 0; i < kRows; ++i) row[slot][i] = *from[i], from[i] += p.scale_a_k;
      if (has_column) column[slot] = *from_column, from_column += p.scale_b_k;
    };
    QUERN_UNROLL for (i32 i = 0; i < kAhead; ++i) read_next(i);
    QUERN_ROLLED for (i32 first = 0; first < work.last_step; first += kAhead) {
      QUERN_UNROLL for (i32 i = 0; i < kAhead; ++i) {
        if (first + i < work.last_step) {
          mbarrier_wait(stages.empty[turn.stage], turn.phase ^ 1);
          f32* to = shared_scales + turn.stage * kStageScales;
          QUERN_UNROLL for (i32 r = 0; r < kRows; ++r) to[line + r * kWarp] = row[i][r];
          if (has_column) to[kTileM + l] = column[i];
          read_next(i);
          sync_warp();
          if (l == 0) mbarrier_arrive(stages.full[turn.stage]);
          turn.next();
        }
      }
    }
  }
}
static_assert(!kBlockScale || (kGate ? kTileN == 128 || kTileN == 256 : kTileN == 128 || kTileN == 192 || kTileN == 256));

// What one step's sums are multiplied by: for each 64 columns, and each of a thread's two rows.
struct StepScales {
  f32 x[3][2];  // the first block's, the second's, and, of the three 64 columns of a tile of 192, the middle's

  QUERN_DEVICE void take(const f32* scales, i32 line, bool middle_is_second) {
    QUERN_UNROLL for (i32 h = 0; h < 2; ++h) {
      const f32 row = scales[line + 8 * h];
      QUERN_UNROLL for (i32 i = 0; i < kColumnScales; ++i) x[i][h] = scales[kTileM + i] * row;
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

// This warp has done with a stage: the producers of all blocks of the cluster, which copy into it, are told.
QUERN_DEVICE void release(Mbarrier& empty, Peers peers) {
  if constexpr (kBlockScale) sync_warp();  // all its lanes have read scales of the stage, one tells
  if (peers.count == 1) {
    if (lane() == 0) mbarrier_arrive(empty);
  } else if (lane() < peers.count) {
    mbarrier_arrive_remote_relaxed(empty, lane());
  }
}

// Adds a pass's sums to those of the tile.
template <i32 pass>
QUERN_DEVICE void promote(f32 (&sums)[kSumCount], const f32 (&part)[kPassN / 2], const StepScales& scales) {
  QUERN_UNROLL for (i32 i = 0; i < kPassN / 2; ++i) {
    constexpr i32 kFirst = pass * (kPassN / 2);
    sums[kFirst + i] = kBlockScale ? fma(part[i], scales.of(kFirst + i), sums[kFirst + i]) : sums[kFirst + i] + part[i];
  }
}

// What one consumer goes through the steps of a tile with.
struct Consumer {
  const u8* shared;
  const f32* scales;
  Stages& stages;
  Turn& turn;
  Peers peers;
  i32 number;

  template <int count>
  QUERN_DEVICE void multiply(f32 (&d)[count], const Turn& of, i32 pass, bool accumulate) const {
    static_assert(count == kPassN / 2);
    const u8* stage = shared + of.stage * (kABytes + kBBytes);
    const u64 a = matrix_descriptor(stage + number * 64 * 128, MappedA::kLayout), b = matrix_descriptor(stage + kABytes + pass * (kPassN * 128), MappedB::kLayout);
    QUERN_UNROLL for (i32 k = 0; k < 4; ++k) {
      wgmma<ElementA, ElementB, MappedA::kMajor, MappedB::kMajor>(d, advanced(a, k * MappedA::kNextBytes), advanced(b, k * MappedB::kNextBytes), accumulate || k > 0);
    }
    wgmma_commit();
  }
  QUERN_DEVICE void await(const Turn& of) const { mbarrier_wait(stages.full[of.stage], of.phase); }
  QUERN_DEVICE void await() const { await(turn); }
  QUERN_DEVICE void release(i32 stage) const { q::release(stages.empty[stage], peers); }
  // Of the present stage.
  QUERN_DEVICE StepScales step_scales(const Work& work) const {
    StepScales of_step;
    if constexpr (kBlockScale) {
      of_step.take(scales + turn.stage * kStageScales, number * 64 + wgmma_row(thread_index() % kGroupThreads, 0), work.column % 128 != 0);
    }
    return of_step;
  }
};

// Products of `steps` steps, summed by the tensor cores and then added to the sums of the tile; the other warpgroup's products keep the
// tensor cores busy meanwhile.
template <i32 steps, int count>
QUERN_DEVICE void promote_together(f32 (&sums)[count], const Work& work, const Consumer& c) {
  static_assert(steps == 1 || (steps == 2 && !kBlockScale));
  const Turn first = c.turn;
  Turn second = first;
  c.await();
  const StepScales scales = c.step_scales(work);
  if constexpr (steps == 2) second.next();
  QUERN_UNROLL for (i32 pass = 0; pass < kPasses; ++pass) {
    const bool done = pass == kPasses - 1;
    f32 part[kPassN / 2];
    wgmma_fence();
    c.multiply(part, first, pass, false);
    if constexpr (steps == 2) {
      if (pass == 0) {
        c.await(second);
        wgmma_fence();  // the compiler, which sees a branch in the wait, would remark that it puts one here
      }
      c.multiply(part, second, pass, true);
      if (done) {
        wgmma_wait<1>();
        c.release(first.stage);
      }
    }
    wgmma_wait<0>(part);
    if (done) c.release(second.stage);
    if (pass == 0) {
      promote<0>(sums, part, scales);
    } else {
      promote<kPasses - 1>(sums, part, scales);
    }
  }
  c.turn = second;
  c.turn.next();
}

// All steps of a tile, two at a time. Where scales do not change with k, their products are summed together.
template <int count>
QUERN_DEVICE void promote_steps(f32 (&sums)[count], const Work& work, const Consumer& c) {
  i32 step = 0;
  QUERN_ROLLED for (; step + 2 <= work.last_step; step += 2) {
    if constexpr (kBlockScale) {
      promote_together<1>(sums, work, c);
      promote_together<1>(sums, work, c);
    } else {
      promote_together<2>(sums, work, c);
    }
  }
  if constexpr (kBlockScale) {
    if (step < work.last_step) promote_together<1>(sums, work, c);
  } else {
    // A loop, though it runs once at most: behind a branch the sums would get other registers, more than there are.
    QUERN_ROLLED for (; step < work.last_step; ++step) promote_together<1>(sums, work, c);
  }
}

// All steps of a tile where sums are kept as they are: one step's products stay under way while the next one's begin; the stage
// before is free by then. The first step stands before the loop, so that nothing but products writes the sums within it: the compilers
// of CUDA 12 would wait for each product otherwise.
template <int count>
QUERN_DEVICE void accumulate_steps(f32 (&sums)[count], i32 steps, const Consumer& c) {
  c.await();
  wgmma_fence();
  c.multiply(sums, c.turn, 0, false);
  i32 before = c.turn.stage;
  c.turn.next();
  QUERN_ROLLED for (i32 step = 1; step < steps; ++step) {
    c.await();
    wgmma_fence();
    c.multiply(sums, c.turn, 0, true);
    wgmma_wait<1>();
    c.release(before);
    before = c.turn.stage;
    c.turn.next();
  }
  wgmma_wait<0>(sums);
  c.release(before);
}

// What a consumer has in shared memory beside the stages.
struct Staging {
  u8* results;         // of this warp
  f32* column_scales;  // of this warpgroup
  f32* block_scales;   // of the stages
};

template <class Tiles>
QUERN_DEVICE void multiply_tiles(const GemmParams& p, const TensorMap& map_out, Tiles tiles, Peers peers, i32 consumer, const u8* shared, Stages& stages, Staging staging) {
  Work work;
  Turn turn;
  const i32 line = consumer * 64 + wgmma_row(thread_index() % kGroupThreads, 0);
  const Consumer c{shared, staging.block_scales, stages, turn, peers, consumer};
  QUERN_ROLLED while (tiles.next(work)) {
    f32 sums[kSumCount];
    [[maybe_unused]] ResultScales result_scales{};
    if constexpr (kPlainResults && kScaled) result_scales.load(p, work, line);
    if constexpr (kPromoted) {
      QUERN_UNROLL for (f32& sum : sums) sum = 0.0f;
      promote_steps(sums, work, c);
    } else {
      accumulate_steps(sums, work.last_step, c);
    }
    if constexpr (kPlainResults) {
      if constexpr (kScaled) result_scales.share(staging.column_scales, 3 + consumer);
      store_plain_rows<Out>(p, map_out, work, consumer, sums, result_scales.row, staging.column_scales, staging.results);
    } else {
      store_rows(p, work, consumer, sums, reinterpret_cast<f32*>(staging.results));
    }
  }
  if constexpr (kPlainResults) {
    if (lane() == 0) tma_wait<0>();
  }
}

template <class Tiles>
QUERN_DEVICE void run_roles(const GemmParams& p, const TensorMap& map_a, const TensorMap& map_b, const TensorMap& map_out, const Tiles& tiles, Peers peers, u8* shared,
                            Stages& stages) {
  // By a shuffle, so that the compiler knows a warp's threads to go one way and keeps what they share in uniform registers.
  const i32 group = shuffle(thread_index() / kGroupThreads, 0);
  u8* staged = shared + kStages * (kABytes + kBBytes);
  auto* scales = reinterpret_cast<f32*>(staged + kConsumers * 4 * kStagedBytes);
  if (group == kConsumers) {
    registers_shrink<kProducerRegisters>();
    if (thread_index() % kGroupThreads == 0) copy_tiles(p, map_a, map_b, tiles, peers, shared, stages);
    if constexpr (kBlockScale) {
      const i32 number = warp() % 4 - 1;
      if (number >= 0 && number < kScaleWarps) copy_scales(p, tiles, number, scales, stages);
    }
    sync_warp();
  } else {
    registers_grow<kConsumerRegisters>();
    multiply_tiles(p, map_out, tiles, peers, group, shared, stages, {staged + warp() * kStagedBytes, scales + group * kTileN, scales});
  }
}

}  // namespace q

QUERN_KERNEL(quern_gemm_warpgroups, THREADS, 1, QUERN_PARAM q::GemmParams p, QUERN_PARAM q::TensorMap map_a, QUERN_PARAM q::TensorMap map_b,
             QUERN_PARAM q::TensorMap map_out) {
  using namespace q;
  QUERN_SHARED(Stages, stages, 1);
  u8* shared = tile_shared();
  const Peers peers{static_cast<i32>(cluster_size()), static_cast<i32>(cluster_rank())};
  const i32 cluster = block_index(0) / peers.count, clusters = block_count(0) / peers.count;
  if (thread_index() == 0) {
    prefetch_tensor_map(map_a);
    prefetch_tensor_map(map_b);
    if (p.out_mapped != 0) prefetch_tensor_map(map_out);
    for (i32 i = 0; i < kStages; ++i) {
      mbarrier_init(stages[0].full[i], 1 + kScaleWarps);
      mbarrier_init(stages[0].empty[i], kConsumers * 4 * peers.count);
    }
    fence_mbarrier_init();
  }
  sync_block();
  if (peers.count > 1) sync_cluster();
  launch_next_grid();
  wait_for_previous_grid();
  if constexpr (kGrouping != kDense) {
    QUERN_SHARED(Experts, experts, 1);
    list_experts(p, experts[0], kTileM * peers.count);
    run_roles(p, map_a, map_b, map_out, ExpertTiles(p, experts[0], cluster, clusters, peers.count, peers.rank), peers, shared, stages[0]);
  } else {
    run_roles(p, map_a, map_b, map_out, DenseTiles(p, cluster, clusters, peers.count, peers.rank), peers, shared, stages[0]);
  }
  // A block's memory is copied to and its barriers are told of until its peer is done.
  if (peers.count > 1) sync_cluster();
}
