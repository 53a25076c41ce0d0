// The epilogue. Slices of a tile's rows go through shared memory, so that each thread has the sums of eight
// neighbouring columns of one row: it scales them, applies the formula and stores the results.
//
// EPILOGUE is the formula as a C++ expression of f32 values: acc (with a gate: gate and up), xN for operand N, sN for
// scalar N.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/reduce.cuh"
#include "common/scale.cuh"
#include "gemm/kernels/shared/operand.cuh"
#include "gemm/kernels/shared/source.cuh"

#ifndef OPERAND_0
#define OPERAND_0 NoOperand
#endif
#ifndef OPERAND_1
#define OPERAND_1 NoOperand
#endif
#ifndef OPERAND_2
#define OPERAND_2 NoOperand
#endif
#ifndef OPERAND_3
#define OPERAND_3 NoOperand
#endif
#ifndef OPERAND_4
#define OPERAND_4 NoOperand
#endif
#ifndef OPERAND_5
#define OPERAND_5 NoOperand
#endif
#ifndef OPERAND_6
#define OPERAND_6 NoOperand
#endif
#ifndef OPERAND_7
#define OPERAND_7 NoOperand
#endif

namespace q {

// The formula for one result, where it reads no operand. With a gate `acc` is the gate's sum.
QUERN_DEVICE f32 formula(const GemmParams& p, f32 acc, f32 up = 0.0f) {
  const f32 s0 = p.scalars[0], s1 = p.scalars[1], s2 = p.scalars[2], s3 = p.scalars[3];
  const f32 s4 = p.scalars[4], s5 = p.scalars[5], s6 = p.scalars[6], s7 = p.scalars[7];
  const f32 gate = acc, x0 = acc, x1 = acc, x2 = acc, x3 = acc, x4 = acc, x5 = acc, x6 = acc, x7 = acc;
  static_cast<void>(gate), static_cast<void>(up);
  static_cast<void>(x0), static_cast<void>(x1), static_cast<void>(x2), static_cast<void>(x3);
  static_cast<void>(x4), static_cast<void>(x5), static_cast<void>(x6), static_cast<void>(x7);
  static_cast<void>(s0), static_cast<void>(s1), static_cast<void>(s2), static_cast<void>(s3);
  static_cast<void>(s4), static_cast<void>(s5), static_cast<void>(s6), static_cast<void>(s7);
  return EPILOGUE;
}

// The formula for eight results: `first` holds their sums (with a gate: those of the gate), `second` those of up.
QUERN_DEVICE Eight apply_formula(const GemmParams& p, const Place& at, const Eight& first, const Eight& second) {
  const f32(&a)[kEight] = first.x, (&b)[kEight] = second.x;
  if constexpr (USES_OPERANDS == 0) {
    return {{formula(p, a[0], b[0]), formula(p, a[1], b[1]), formula(p, a[2], b[2]), formula(p, a[3], b[3]),
             formula(p, a[4], b[4]), formula(p, a[5], b[5]), formula(p, a[6], b[6]), formula(p, a[7], b[7])}};
  } else {
    Eight result;
    const Eight v0 = OPERAND_0::load(p.operands[0], at), v1 = OPERAND_1::load(p.operands[1], at);
    const Eight v2 = OPERAND_2::load(p.operands[2], at), v3 = OPERAND_3::load(p.operands[3], at);
    const Eight v4 = OPERAND_4::load(p.operands[4], at), v5 = OPERAND_5::load(p.operands[5], at);
    const Eight v6 = OPERAND_6::load(p.operands[6], at), v7 = OPERAND_7::load(p.operands[7], at);
    const f32 s0 = p.scalars[0], s1 = p.scalars[1], s2 = p.scalars[2], s3 = p.scalars[3];
    const f32 s4 = p.scalars[4], s5 = p.scalars[5], s6 = p.scalars[6], s7 = p.scalars[7];
    QUERN_UNROLL for (i32 i = 0; i < kEight; ++i) {
      const f32 acc = a[i], gate = a[i], up = b[i];
      const f32 x0 = v0.x[i], x1 = v1.x[i], x2 = v2.x[i], x3 = v3.x[i], x4 = v4.x[i], x5 = v5.x[i], x6 = v6.x[i],
                x7 = v7.x[i];
      result.x[i] = EPILOGUE;
      // A formula need not use all of them.
      static_cast<void>(acc), static_cast<void>(gate), static_cast<void>(up);
      static_cast<void>(x0), static_cast<void>(x1), static_cast<void>(x2), static_cast<void>(x3);
      static_cast<void>(x4), static_cast<void>(x5), static_cast<void>(x6), static_cast<void>(x7);
    }
    static_cast<void>(s0), static_cast<void>(s1), static_cast<void>(s2), static_cast<void>(s3);
    static_cast<void>(s4), static_cast<void>(s5), static_cast<void>(s6), static_cast<void>(s7);
    return result;
  }
}

// The scale of row `source` of a. Only for scales that are applied to whole sums, not to each k block.
QUERN_DEVICE f32 scale_of_row(const GemmParams& p, const Work& work, i32 source) {
  return p.scale_a[work.group * p.scale_a_group + source * p.scale_a_row];
}
// Eight sums times the scales of their row of a and of their rows of b, the first of which is `column`.
QUERN_DEVICE Eight scaled(const GemmParams& p, const Work& work, i32 source, i32 column, const f32* sums) {
  const Eight v = read_eight(sums);
  if constexpr (!kScaled) return v;
  const f32 of_row = scale_of_row(p, work, source);
  const f32* of_column = p.scale_b + work.group * p.scale_b_group + column * p.scale_b_row;
  const i32 last = p.n - 1 - column;
  const auto next = [&](i32 i) {
    const f32 product = v.x[i] * (of_row * *of_column);
    // Columns beyond the last are not stored, so they may take any scale.
    if (i < last) of_column += p.scale_b_row;
    return product;
  };
  return {{next(0), next(1), next(2), next(3), next(4), next(5), next(6), next(7)}};
}

// Sums that have been scaled already stay as they are.
QUERN_DEVICE const Eight& scaled(const GemmParams&, const Work&, i32, i32, const Eight& v) { return v; }

// The larger of `largest` and the finite magnitudes of those of eight results that exist.
QUERN_DEVICE f32 larger_of(f32 largest, const Place& at, bool inside, const Eight& v) {
  QUERN_UNROLL for (i32 i = 0; i < kEight; ++i) {
    const f32 magnitude = v.x[i] < 0.0f ? -v.x[i] : v.x[i];
    if (inside && at.column + i < at.columns && magnitude < infinity()) largest = fmax(largest, magnitude);
  }
  return largest;
}
QUERN_DEVICE void store_scale(const GemmParams& p, const Place& at, f32 scale) {
  p.out_scale[at.group * p.out_scale_group + at.row * p.out_scale_row + at.column / 128 * p.out_scale_column] = scale;
}
// Divides eight results by the scale of their block of 128 columns of one row and stores that scale. The block is held
// by 16 neighbouring lanes; `inside` says whether this lane's results exist.
template <class T>
QUERN_DEVICE Eight quantised(const GemmParams& p, const Place& at, bool inside, const Eight& v) {
  const f32 scale = scale_for<T>(lanes_reduce<16>(larger_of(0.0f, at, inside, v), Larger()), p.power_of_two != 0);
  if (inside && at.column % 128 == 0 && at.column < at.columns) store_scale(p, at, scale);
  Eight r;
  QUERN_UNROLL for (i32 i = 0; i < kEight; ++i) r.x[i] = v.x[i] / scale;
  return r;
}

// Finishes and stores eight neighbouring results of row `line` of the tile, from column `column` of the tile's part of
// out on. `sums` are either a place in shared memory or values that are scaled already; with a gate `others` are those
// of the up half. All lanes of a warp must call it; `there` is false in a lane without results.
template <class Sums>
QUERN_DEVICE void finish_eight(const GemmParams& p, const Work& work, bool there, i32 line, i32 column,
                               const Sums& sums, const Sums& others) {
  const i32 source = there ? source_row(p, work, line) : -1;
  const Place at{work.group, work.first_row + work.row + line, work.column + column, kGate ? p.n / 2 : p.n};
  const bool inside = source >= 0 && at.column < at.columns;
  Eight result{};
  if (inside) {
    Eight second{};
    if constexpr (kGate) second = scaled(p, work, source, at.columns + at.column, others);
    result = apply_formula(p, at, scaled(p, work, source, at.column, sums), second);
  }
  if constexpr (kOutScale) result = quantised<Out>(p, at, inside, result);
  if (inside) {
    Out* to = static_cast<Out*>(p.out) + at.group * p.out_group + at.row * p.out_row + at.column;
    write_eight(to, result, p.out_vectors != 0, at);
  }
}

}  // namespace q
