// The kernel of quantized_gemm for few rows of a, which is bound by memory: warps divide b's lines and k, and each
// multiplies what it has copied itself. Lines of b are the rows of tensor cores' tiles, so that no more rows of a are
// multiplied than a multiple of 16, and a lane has the scales of the two lines that it unpacks.
//
// The warps of a block meet once a chunk of k, of which they share a's rows; their sums are added up in shared memory.
// A tile belongs to one block of threads or to several, which divide its k blocks (stream-K).
// SPDX-License-Identifier: Apache-2.0
#include "quantized_gemm/kernels/few/sums.cuh"
// This asks for what stands in sums.cuh.
#include "gemm/kernels/shared/store.cuh"

namespace q {

// Products of runs that are summed before they are scaled.
inline constexpr i32 kRunsOfGroup = kScaledSums ? kGroup / kRunK : kRunsOfStep;

// Run number `run` of what a lane has read, product number `i` of step number `step` of a chunk.
QUERN_DEVICE Runs<Multiplied> unpack_lines(const Words& words, const u8* buffer, i32 tile, i32 step, i32 i) {
  Runs<Multiplied> runs;
  QUERN_UNROLL for (i32 h = 0; h < kRunsHeld; ++h) {
    const i32 line = warp_line() + 16 * tile + run_line(lane(), h);
    const i32 k = step * kStepK + k_of_run(i, run_k(lane()) >> 3);
    const i32 scale = line * kScalePitch + (kGroup == 0 ? 0 : k / (kGroup > 0 ? kGroup : 1));
    const Packed<CodeB> packed = words.get(tile, h, i % kRunsOfRead);
    u32 zero = DecodeB::zero_word(kBitsB == 4 ? 8 : 128);
    if constexpr (kZeros) zero = reinterpret_cast<const u32*>(buffer + kOffsetOfZeros)[scale];
    const auto* const scales = reinterpret_cast<const u32*>(buffer + kOffsetOfScaleB);
    if constexpr (kScaledAtOnce) {
      DecodeB::scaled_run(packed, scales[scale], runs.x[h]);
    } else {
      DecodeB::run(packed, zero, runs.x[h]);
      if constexpr (kScaledRuns && kGroupsOfScaleB) scale_run<CodeB, ScaleB>(runs.x[h], f32_of(scales[scale]));
    }
  }
  return runs;
}
QUERN_DEVICE RowRuns read_rows(const u8* buffer, i32 tile, i32 step, i32 i) {
  RowRuns runs;
  QUERN_UNROLL for (i32 h = 0; h < kRowRunsHeld; ++h)
      load_words(buffer + token_run(step, i, tile, h, lane()), runs.x[h]);
  return runs;
}

// Multiplies the step that lies in a slot, which is number `step` of the chunk in `buffer`.
QUERN_DEVICE void multiply_step(const u8* slot, const u8* buffer, i32 step, WarpSums& sums) {
  Words words;
  QUERN_UNROLL for (i32 i = 0; i < kRunsOfStep; ++i) {
    if (i % kRunsOfRead == 0) words.load(slot, i / kRunsOfRead);
    if constexpr (kScaledSums) {
      if (i % kRunsOfGroup == 0) sums.begin_group();
    }
    RowRuns rows[kRowTiles];
    QUERN_UNROLL for (i32 j = 0; j < kRowTiles; ++j) rows[j] = read_rows(buffer, j, step, i);
    QUERN_UNROLL for (i32 t = 0; t < kLineTiles; ++t) {
      const Runs<Multiplied> lines = unpack_lines(words, buffer, t, step, i);
      QUERN_UNROLL for (i32 j = 0; j < kRowTiles; ++j) mma(sums.products[t][j], lines, rows[j]);
    }
    if constexpr (kScaledSums) {
      if (i % kRunsOfGroup == kRunsOfGroup - 1) sums.end_group(buffer, step * (kStepK / kGroup) + i / kRunsOfGroup);
    }
  }
}

QUERN_DEVICE void multiply(const QuantizedParams& p) {
  QUERN_SHARED(i32, flag, 1);
  u8* const ring = dynamic_shared() + warp() * kRing;
  u8* buffer = dynamic_shared() + kWarps * kRing;
  u8* other = buffer + kBuffer;
  // Weights that nobody writes are copied before the previous launch has finished.
  const bool early = (p.product.flags & kConstantB) != 0;
  if (!early) wait_for_previous_grid();
  Tiles tiles(p.product);
  Weights weights(p.product, tiles, ring);
  QUERN_ROLLED for (i32 s = 0; s < kStages - 1; ++s) weights.begin(s);
  if (early) wait_for_previous_grid();
  Tokens tokens(p, tiles);
  i32 slot = 0, free = kStages - 1;
  Work work{};
  work.rows = p.product.m;
  i32 block = 0;
  WarpSums of_warp;
  // The first time round there is nothing yet to multiply.
  QUERN_ROLLED while (true) {
    const i32 left = work.end_k_block - block, steps = left < kChunkBlocks ? left : kChunkBlocks;
    tokens.load();
    QUERN_ROLLED for (i32 s = 0; s < steps; ++s) {
      copy_async_wait<kStages - 2>();
      // All lanes see one another's copies, and have read the slot that is free.
      sync_warp();
      weights.begin(free);
      multiply_step(ring + slot * kSlot, buffer, warp_k() * steps + s, of_warp);
      free = slot;
      slot = slot + 1 == kStages ? 0 : slot + 1;
    }
    tokens.store(other);
    sync_block();
    u8* const last = buffer;
    buffer = other, other = last;
    block += steps;
    if (block < work.end_k_block) continue;
    if (steps > 0) {
      // What is in `other` has been multiplied.
      f32* const staged = reinterpret_cast<f32*>(other);
      of_warp.meet(staged);
      sync_block();
      Sums sums;
      sums.gather(staged);
      if (reduce_partial_sums(p.product, tiles.schedule(), work, sums, flag)) {
        sums.finish(p, work);
        store(p.product, work, sums, staged);
      }
    }
    if (!tiles.next(work)) break;
    block = work.first_k_block;
    of_warp.clear();
  }
  copy_async_wait<0>();
}

}  // namespace q

QUERN_KERNEL(quern_quantized_gemm, THREADS, BLOCKS_PER_SM, QUERN_PARAM q::QuantizedParams p) {
  q::launch_next_grid();
  q::multiply(p);
}
