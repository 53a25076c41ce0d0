// The sums of few rows: of a warp, whose tensor cores have lines of b as rows and rows of a as columns, and of a block,
// once those of the warps that divide k have been added up in shared memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quantized_gemm/kernels/few/tokens.cuh"

namespace q {

// Sums of products are integers to the end, scaled and added to others, or the sums themselves.
inline constexpr bool kWholeIntegers = kIntegers && !kScaledSums;
using Scaled = Either<kHalf, HalfAccumulator, Accumulator>::type;
using Products = Either<kIntegers, Either<kHalf, IntegerHalfAccumulator, IntegerAccumulator>::type, Scaled>::type;

// Of integers these are the bits.
QUERN_DEVICE f32 sum_of(f32 a, f32 b) {
  if constexpr (kWholeIntegers) {
    return f32_of(bits_of(a) + bits_of(b));
  } else {
    return a + b;
  }
}

struct WarpSums {
  static constexpr i32 kEach = (kHalf ? 128 : 256) / kWarp;
  Products products[kLineTiles][kRowTiles];
  Scaled scaled[kScaledSums ? kLineTiles : 1][kScaledSums ? kRowTiles : 1];

  template <class Visit>
  static QUERN_DEVICE void each(Visit visit) {
    QUERN_UNROLL for (i32 i = 0; i < kLineTiles; ++i) {
      QUERN_UNROLL for (i32 j = 0; j < kRowTiles; ++j) { QUERN_UNROLL for (i32 e = 0; e < kEach; ++e) visit(i, j, e); }
    }
  }
  QUERN_DEVICE void begin_group() {
    each([&](i32 i, i32 j, i32 e) { products[i][j].x[e] = 0; });
  }
  QUERN_DEVICE void clear() {
    begin_group();
    if constexpr (kScaledSums) each([&](i32 i, i32 j, i32 e) { scaled[i][j].x[e] = 0.0f; });
  }
  // Multiplies what has been added to `products` since begin_group() by the scales of group number `group` of a chunk.
  QUERN_DEVICE void end_group(const u8* buffer, i32 group) {
    const auto* const of_b = reinterpret_cast<const f32*>(buffer + kOffsetOfScaleB) + warp_line() * kScalePitch + group;
    const auto* const of_a = reinterpret_cast<const f32*>(buffer + kOffsetOfScaleA) + group;
    QUERN_UNROLL for (i32 i = 0; i < kLineTiles; ++i) {
      f32 lines[kRowsHeld];
      QUERN_UNROLL for (i32 h = 0; h < kRowsHeld; ++h) {
        lines[h] = 1.0f;
        if constexpr (kGroupsOfScaleB) lines[h] = of_b[(16 * i + row_of(lane(), h)) * kScalePitch];
      }
      QUERN_UNROLL for (i32 j = 0; j < kRowTiles; ++j) {
        QUERN_UNROLL for (i32 e = 0; e < kEach; ++e) {
          f32 scale = lines[held_row(e)];
          if constexpr (kScaledA) scale *= of_a[(16 * j + column_of(lane(), e)) * kScalePitch];
          f32& sum = scaled[i][j].x[e];
          sum = fma(static_cast<f32>(products[i][j].x[e]), scale, sum);
        }
      }
    }
  }
  // The sums of the warps that divide k, added up into kParts parts in shared memory, [part][row][line]: half of the
  // warps leave theirs there and the others add them to their own. All threads call it; a barrier makes the parts
  // visible.
  QUERN_DEVICE void meet(f32* parts) {
    if constexpr (kWarpsK > 1) {
      if (warp_k() >= kParts) each_place(parts, [](f32& place, f32 sum) { place = sum; });
      sync_block();
    }
    if (warp_k() < kParts) {
      each_place(parts, [](f32& place, f32 sum) {
        if constexpr (kWarpsK > 1) sum = sum_of(sum, place);
        place = sum;
      });
    }
  }

 private:
  // visit(its place, sum): of each sum of this warp.
  template <class Visit>
  QUERN_DEVICE void each_place(f32* parts, Visit visit) const {
    f32* const first = parts + warp_k() % kParts * kPart + warp_line();
    each([&](i32 i, i32 j, i32 e) {
      f32& place = first[(16 * j + column_of(lane(), e)) * kPartPitch + 16 * i + row_of(lane(), held_row(e))];
      if constexpr (kWholeIntegers) {
        visit(place, f32_of(static_cast<u32>(products[i][j].x[e])));
      } else if constexpr (kScaledSums) {
        visit(place, scaled[i][j].x[e]);
      } else {
        visit(place, products[i][j].x[e]);
      }
    });
  }
};

// A thread has vectors of four neighbouring lines, number thread, thread + kThreads and so on of the tile, rows first.
// Of a narrow tile some threads have none.
struct Sums {
  static constexpr i32 kAll = kTileM * kTileN / 4, kVectors = div_up(kAll, kThreads), kHeld = 4 * kVectors;
  static constexpr bool kIdle = kAll % kThreads != 0;
  static_assert(!kIdle || kVectors == 1);
  static constexpr i32 kOfRow = kTileN / 4;
  f32 x[kHeld];  // bits of integers until finish()

  static QUERN_DEVICE bool idle() { return kIdle && thread_index() >= kAll; }
  static QUERN_DEVICE i32 row(i32 v) { return (v * kThreads + thread_index()) / kOfRow; }
  static QUERN_DEVICE i32 line(i32 v) { return (v * kThreads + thread_index()) % kOfRow * 4; }
  QUERN_DEVICE void clear() { QUERN_UNROLL for (f32& sum : x) sum = 0.0f; }
  // Of all parts, in their order.
  QUERN_DEVICE void gather(const f32* parts) {
    clear();
    if (idle()) return;
    QUERN_UNROLL for (i32 part = 0; part < kParts; ++part) {
      QUERN_UNROLL for (i32 v = 0; v < kVectors; ++v) {
        const vec16 four = load16(parts + part * kPart + row(v) * kPartPitch + line(v));
        QUERN_UNROLL for (i32 e = 0; e < 4; ++e) x[4 * v + e] = sum_of(x[4 * v + e], f32_of(four.x[e]));
      }
    }
  }
  // To and from the workspace, for stream-K.
  static constexpr i32 kAtOnce = kHeld < 8 ? 8 / kHeld : 1;
  QUERN_DEVICE void write(f32* to) const { QUERN_UNROLL for (i32 i = 0; i < kHeld; ++i) to[i * kThreads] = x[i]; }
  QUERN_DEVICE void add(const f32* const (&from)[kAtOnce], i32 there) {
    f32 read[kAtOnce][kHeld];
    QUERN_UNROLL for (i32 n = 0; n < kAtOnce; ++n) {
      QUERN_UNROLL for (i32 i = 0; i < kHeld; ++i) read[n][i] = from[n][i * kThreads];
    }
    QUERN_UNROLL for (i32 n = 0; n < kAtOnce; ++n) {
      if (n >= there) continue;
      QUERN_UNROLL for (i32 i = 0; i < kHeld; ++i) x[i] = sum_of(x[i], read[n][i]);
    }
  }
  QUERN_DEVICE void finish(const QuantizedParams& p, const Work& work) {
    if (idle()) return;
    if constexpr (kWholeIntegers) {
      QUERN_UNROLL for (f32& sum : x) sum = static_cast<f32>(static_cast<i32>(bits_of(sum)));
    }
    f32 all = scale_of_all(p);
    if constexpr (kScaledAtOnce) all *= DecodeB::kScaledUnit;
    QUERN_UNROLL for (i32 v = 0; v < kVectors; ++v) {
      const f32 of_row = all * scale_of_row(p, work, row(v));
      QUERN_UNROLL for (i32 e = 0; e < 4; ++e) x[4 * v + e] *= of_row * scale_of_column(p, work, line(v) + e);
    }
  }
};

// The epilogue takes the whole tile as one slice.
inline constexpr i32 kSlices = 1, kSliceRows = kTileM;
QUERN_DEVICE i32 row_of_slice(i32, i32 row) { return row; }
template <i32 slice, i32 pitch>
QUERN_DEVICE void stage_slice(const Sums& sums, f32* staged) {
  static_assert(pitch == kPartPitch, "each thread writes where it has read");
  if (Sums::idle()) return;
  QUERN_UNROLL for (i32 v = 0; v < Sums::kVectors; ++v) {
    f32* const to = staged + Sums::row(v) * pitch + Sums::line(v);
    QUERN_UNROLL for (i32 e = 0; e < 4; ++e) to[e] = sums.x[4 * v + e];
  }
}

}  // namespace q
