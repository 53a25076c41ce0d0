// The run-time arguments of fft, and how a row's numbers lie in shared memory, which the library counts and the kernel
// uses alike.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/divisor.cuh"

namespace q {

// Strides in real elements.
struct FftParams {
  const u8* x;        // [outer][inner][number]
  const f32* window;  // [given]
  u8* out;            // [outer][inner][number]
  i64 x_outer, x_inner, x_step;
  i64 out_outer, out_inner, out_step;
  i64 rows;  // outer x inner
  Divisor inner;
  i32 given;           // numbers of a row of x, or of a frame; those behind are zeros
  i32 samples;         // of frames: what a signal has
  i32 hop, pad_begin;  // of frames: frame f begins at sample f hop - pad_begin
  i32 reflect;         // of frames: what lies outside of the signal is its mirror image, else zeros
  f32 scale;
};

// Every `every` numbers `by` places are left out.
struct FftPad {
  i32 every, by;
};

// Behind a pass of this radix in front of which transforms have `before` numbers, a thread writes number k of its
// butterfly at place k before. Neighbours' first numbers lie side by side in runs of `before`, and run after run
// before x radix apart: for an even radix in few banks of shared memory, so that they are moved apart.
QUERN_SHARED_CODE constexpr FftPad fft_pad(i32 before, i32 radix) {
  if (before >= 16 || radix % 2 != 0) return {1, 0};
  return {before * radix < 16 ? 16 : before * radix, before};
}

}  // namespace q
