// The kernel of quantized_gemm, for every target: packed lines of a and b come through stages of shared memory, from
// which each lane reads runs of eight numbers, unpacks them in registers and multiplies them on tensor cores.
//
// Sums of a group are scaled before they are added to those of the groups before it, in f32. A tile belongs to one
// block of threads or to several, which divide its k blocks (stream-K).
// SPDX-License-Identifier: Apache-2.0
#include "quantized_gemm/kernels/portable/sums.cuh"
// Both ask for what stands in sums.cuh.
#include "gemm/kernels/shared/store.cuh"
#include "gemm/kernels/shared/stream_k.cuh"

namespace q {

inline constexpr i32 kRunsOfBlock = kBlockK / kRunK;
// Products of runs that are summed before they are scaled.
inline constexpr i32 kRunsOfGroup = kScaledSums && kGroup < kBlockK ? kGroup / kRunK : kRunsOfBlock;
// Reads 16 lines of an operand from `line` on, product of runs number `step` of a stage.
QUERN_DEVICE Runs<Multiplied> read_a(const u8* stage, i32 line, i32 step) {
  Runs<Multiplied> runs;
  QUERN_UNROLL for (i32 h = 0; h < kRunsHeld; ++h) {
    const i32 own = line + run_line(lane(), h), k = run_k(lane());
    const u8* from = stage + own * LinesOfA::kPitch + (step * kRunK + k) * LinesOfA::kBits / 8;
    DecodeA::run(load_packed<CodeA>(from), 0u, runs.x[h]);
    if constexpr (kScaledRuns && kGroupsOfScaleA) {
      const auto* scales = reinterpret_cast<const f32*>(stage + kOffsetOfScaleA);
      scale_run<CodeA, ScaleA>(runs.x[h], scales[(2 * step + k / 16) * kTileM + own]);
    }
  }
  return runs;
}
QUERN_DEVICE Runs<Multiplied> read_b(const u8* stage, i32 line, i32 step) {
  Runs<Multiplied> runs;
  QUERN_UNROLL for (i32 h = 0; h < kRunsHeld; ++h) {
    const i32 own = line + run_line(lane(), h), k = run_k(lane());
    const u8* from = stage + kOffsetOfB + own * LinesOfB::kPitch + (step * kRunK + k) * LinesOfB::kBits / 8;
    u32 zero = DecodeB::zero_word(kBitsOf<CodeB> == 4 ? 8 : 128);
    if constexpr (kZeros) {
      const i32 group = kGroup == 0 ? 0 : (step * kRunK + k) / (kGroup > 0 && kGroup < kBlockK ? kGroup : kBlockK);
      zero = reinterpret_cast<const u32*>(stage + kOffsetOfZeros)[group * kTileN + own];
    }
    DecodeB::run(load_packed<CodeB>(from), zero, runs.x[h]);
    if constexpr (kScaledRuns && kGroupsOfScaleB) {
      const auto* scales = reinterpret_cast<const f32*>(stage + kOffsetOfScaleB);
      scale_run<CodeB, ScaleB>(runs.x[h], scales[(2 * step + k / 16) * kTileN + own]);
    }
  }
  return runs;
}

// Multiplies the k block that lies in a stage.
QUERN_DEVICE void multiply_block(const u8* stage, Sums& sums) {
  QUERN_UNROLL for (i32 step = 0; step < kRunsOfBlock; ++step) {
    if constexpr (kScaledSums) {
      if (step % kRunsOfGroup == 0) sums.begin_group();
    }
    Runs<Multiplied> b[kTilesN];
    QUERN_UNROLL for (i32 j = 0; j < kTilesN; ++j) b[j] = read_b(stage, warp_column() + 16 * j, step);
    QUERN_UNROLL for (i32 i = 0; i < kTilesM; ++i) {
      const Runs<Multiplied> a = read_a(stage, warp_row() + 16 * i, step);
      QUERN_UNROLL for (i32 j = 0; j < kTilesN; ++j) mma(sums.products[i][j], a, b[j]);
    }
    if constexpr (kScaledSums) {
      if (step % kRunsOfGroup == kRunsOfGroup - 1) {
        const i32 group = step / kRunsOfGroup;
        sums.end_group(reinterpret_cast<const f32*>(stage + kOffsetOfScaleA) + group * kTileM,
                       reinterpret_cast<const f32*>(stage + kOffsetOfScaleB) + group * kTileN);
      }
    }
  }
}

QUERN_DEVICE void multiply(const QuantizedParams& p) {
  QUERN_SHARED(i32, flag, 1);
  u8* const stages = dynamic_shared();
  auto* staged = reinterpret_cast<f32*>(stages + kStages * kStage);
  DenseTiles tiles(p.product);
  const StreamKSchedule schedule = tiles.schedule();
  Feed feed(p, tiles, stages);
  Sums sums;
  feed.fill<kStages - 1>();
  Pending pending;
  i32 stage = 0, free = kStages - 1;
  Work work;
  QUERN_ROLLED while (tiles.next(work)) {
    sums.clear();
    QUERN_ROLLED for (i32 k_block = work.first_k_block; k_block < work.end_k_block; ++k_block) {
      copy_async_wait<kStages - 2>();
      sync_block();
      pending.store();
      feed.begin(free, pending);
      multiply_block(stages + stage * kStage, sums);
      free = stage;
      stage = stage + 1 == kStages ? 0 : stage + 1;
    }
    if (!reduce_partial_sums(p.product, schedule, work, sums, flag)) continue;
    sums.finish();
    sums.scale(
        scale_of_all(p), [&](i32 line) { return scale_of_row(p, work, line); },
        [&](i32 line) { return scale_of_column(p, work, line); });
    store(p.product, work, sums, staged);
  }
  copy_async_wait<0>();
}

}  // namespace q

QUERN_KERNEL(quern_quantized_gemm, THREADS, BLOCKS_PER_SM, QUERN_PARAM q::QuantizedParams p) {
  q::launch_next_grid();
  q::wait_for_previous_grid();
  q::multiply(p);
}
