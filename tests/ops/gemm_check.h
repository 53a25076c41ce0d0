// A matrix product by the definition, and how far a result may be from it.
//
// The reference is fp64 over the de-quantised operands. A result may lie anywhere between the rounded ends of the
// interval that two kinds of error leave around the exact value:
//
//   the sum    a share of the sum of the terms' magnitudes: (2 + sqrt(k)) 2^-23 for plain f32 sums, whose k roundings
//   are of
//              partial sums no larger than that sum and 2^-24 of them each, in random directions: three standard
//              deviations even where the first term is all there is, many more where terms are alike. Tensor cores cut
//              off what lies below the largest addend instead of rounding it, at every step of k: a few times that on a
//              GPU
//   the rest   what a change of 2^-22 in each of the formula's inputs makes, and 2^-20 of its value: f32 arithmetic,
//   whose
//              functions are within 5 ulp
//
// The rounding to out's element comes once on top, and so needs no bound of its own: rounding is monotone. Over all
// elements the root mean square of the errors must stay below twice that of f32 sums in order of k with their result
// rounded.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "tests/ops/gemm_problem.h"

namespace quern::test {

// One result: exact, how far f32 may be from it, and by f32 sums in order of k.
struct GemmValue {
  double exact = 0.0;
  double allowed = 0.0;
  double plain = 0.0;
};

// A sum over k in its three ways; `size` is the sum of the terms' magnitudes.
struct GemmSum {
  double exact = 0.0;
  double size = 0.0;
  double plain = 0.0;
  double count = 0.0;  // of the terms
};

// The formula of a case's epilogue, made of what capi/quern.h says.
std::function<double(const Terms&)> formula_of(const GemmCase& c);

// The largest share of what they may be that errors of f32 results have reached in this run, over all checks.
double worst_gemm_error();

}  // namespace quern::test
