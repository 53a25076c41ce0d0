// The main loop without tensor cores: products and accumulators in f32. A thread has rows and columns of the tile that
// are 16 apart.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gemm/kernels/portable/load.cuh"

namespace q {

inline constexpr i32 kThreadRows = kTileM / 16, kThreadColumns = kTileN / 16;
static_assert(kThreads == 256 && sizeof(ElementA) == 4 && sizeof(ElementB) == 4 && !kBlockScale);

struct Sums {
  static constexpr i32 kHeld = kThreadRows * kThreadColumns;
  f32 x[kThreadRows][kThreadColumns];

  QUERN_DEVICE Sums() { clear(); }
  QUERN_DEVICE void clear() {
    each([](i32, f32& sum) { sum = 0.0f; });
  }
  // To and from global memory in which element i of the thread lies at i * kThreads.
  QUERN_DEVICE void write(f32* to) {
    each([&](i32 i, f32& sum) { to[i * kThreads] = sum; });
  }
  static constexpr i32 kAtOnce = 1;
  QUERN_DEVICE void add(const f32* const (&from)[kAtOnce], i32) {
    each([&](i32 i, f32& sum) { sum += from[0][i * kThreads]; });
  }

 private:
  template <class F>
  QUERN_DEVICE void each(const F& f) {
    QUERN_UNROLL for (i32 i = 0; i < kThreadRows; ++i) {
      QUERN_UNROLL for (i32 j = 0; j < kThreadColumns; ++j) f(i * kThreadColumns + j, x[i][j]);
    }
  }
};

inline constexpr i32 kSlices = kThreadRows, kSliceRows = 16;
QUERN_DEVICE i32 row_of_slice(i32 slice, i32 row) { return 16 * slice + row; }
template <i32 slice, i32 pitch>
QUERN_DEVICE void stage_slice(const Sums& sums, f32* staged) {
  QUERN_UNROLL for (i32 j = 0; j < kThreadColumns; ++j)
      staged[thread_index() / 16 * pitch + thread_index() % 16 + 16 * j] = sums.x[slice][j];
}

// Loads four k of `count` lines that are 16 apart.
template <bool transposed, class Staged, i32 count>
QUERN_DEVICE void load_lines(const f32* tile, i32 line, i32 k, f32 (*to)[count]) {
  QUERN_UNROLL for (i32 i = 0; i < count; ++i) {
    if constexpr (transposed) {
      QUERN_UNROLL for (i32 c = 0; c < 4; ++c) to[c][i] = tile[(k + c) * Staged::kPitch + line + 16 * i];
    } else {
      const vec16 v = load16(tile + (line + 16 * i) * Staged::kPitch + k);
      QUERN_UNROLL for (i32 c = 0; c < 4; ++c) to[c][i] = f32_of(v.x[c]);
    }
  }
}

QUERN_DEVICE void multiply_k_block(Sums& sums, const u8* stage) {
  const auto* a = reinterpret_cast<const f32*>(stage);
  const auto* b = reinterpret_cast<const f32*>(stage + StagedA::kBytes);
  QUERN_ROLLED for (i32 k = 0; k < kBlockK; k += 4) {
    f32 of_a[4][kThreadRows], of_b[4][kThreadColumns];
    load_lines<kTransposedA, StagedA, kThreadRows>(a, thread_index() / 16, k, of_a);
    load_lines<kTransposedB, StagedB, kThreadColumns>(b, thread_index() % 16, k, of_b);
    QUERN_UNROLL for (i32 c = 0; c < 4; ++c) {
      QUERN_UNROLL for (i32 i = 0; i < kThreadRows; ++i) {
        QUERN_UNROLL for (i32 j = 0; j < kThreadColumns; ++j) sums.x[i][j] = fma(of_a[c][i], of_b[c][j], sums.x[i][j]);
      }
    }
  }
}

// Operands are loaded anew for every four k, so nothing is kept.
struct Fragments {};

// Multiplies the next `k_blocks` k blocks of the pipeline, whose first stages have been filled; with a single stage
// they are filled here.
template <class Pipe>
QUERN_DEVICE void product(Pipe& pipeline, i32 k_blocks, Sums& sums, Fragments&) {
  sums.clear();
  QUERN_ROLLED for (i32 k_block = 0; k_block < k_blocks; ++k_block) {
    if constexpr (kStages == 1) pipeline.load();
    pipeline.wait();
    sync_block();
    if constexpr (kStages > 1) pipeline.load();
    multiply_k_block(sums, pipeline.stage());
    if constexpr (kStages == 1) {
      sync_block();
    } else {
      pipeline.take();
    }
  }
}

}  // namespace q
