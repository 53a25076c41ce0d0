// The run-time arguments of norm, and the constants that its kernels and the library name alike.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/divisor.cuh"
#include "common/types.cuh"

namespace q {

enum class NormKind : u8 { layer, rms, l2, group };
// What a launch does: all of a row at once; or of a row that is too long for that the moments of its pieces, and with
// these its results.
enum class NormStage : u8 { whole, moments, apply };

inline constexpr i32 kNormPieces = 256;        // of a row, at most
inline constexpr i32 kNormPieceThreads = 512;  // that take one
inline constexpr i32 kNormHeld = 16;           // elements of a row that a thread holds at once

// Of some elements: their mean and the sum of their squared deviations from it; where a norm asks for no mean, 0 and
// the sum of their squares.
struct NormMoments {
  f32 mean, squares;
};

// Strides in elements. Arguments are fetched line by line, of 64 bytes from 16 bytes before the first of them on: what
// every norm needs is in one, what many need in the next.
struct NormParams {
  const void* x;  // [rows, n]
  void* out;      // [rows, n]
  i64 x_stride, out_stride;
  const void* weight;  // [n], or of a group norm [channels]
  i32 rows;
  i32 n;

  const void* bias;
  const void* residual;  // [rows, n]
  void* residual_out;    // [rows, n]; may be null
  i64 residual_stride, residual_out_stride;
  f32 eps;
  f32 divide;         // what the sum of squares is divided by: n or 1
  f32 weight_offset;  // 1 where the norm multiplies by 1 + weight
  f32 scale_offset;   // 1 where it multiplies by 1 + scale
  const void* scale;  // [rows / each, n]

  const void* shift;
  i64 scale_stride, shift_stride;
  Divisor each;          // rows that are modulated alike
  i32 channels;          // of a group norm: channels of a row,
  Divisor groups;        // rows of a sample, which lie one behind the other,
  Divisor places;        // and elements of a channel; with the channels last, channels of a row
  i64 place_stride;      // and what lies between the places then
  i32 pieces, piece;     // of a row, and the elements of each but for the last one
  NormMoments* moments;  // [rows, pieces]
};

}  // namespace q
