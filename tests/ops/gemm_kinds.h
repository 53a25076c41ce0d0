// The kinds of product that most tests go through: those whose main loops differ.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "tests/ops/gemm_case.h"

namespace quern::test {

inline GemmCase fp8_vectors() {
  GemmCase c;
  c.out = Element::f32;
  return c;
}
inline GemmCase fp8_blocks() {
  GemmCase c = fp8_vectors();
  c.scale_a = c.scale_b = Scaling::blocks;
  return c;
}
// Operands and results of one element; f32 with tf32 of numbers that TF32 holds.
inline GemmCase gemm_of(Element element, bool tf32 = false) {
  GemmCase c;
  c.product = Product::gemm;
  c.a = c.b = c.out = element;
  c.tf32 = c.short_numbers = tf32;
  return c;
}

struct GemmKind {
  const char* name;
  GemmCase common;
};
inline const std::vector<GemmKind>& gemm_kinds() {
  static const std::vector<GemmKind> all = {{"vectors", fp8_vectors()},     {"blocks", fp8_blocks()},
                                            {"f16", gemm_of(Element::f16)}, {"bf16", gemm_of(Element::bf16)},
                                            {"f32", gemm_of(Element::f32)}, {"tf32", gemm_of(Element::f32, true)}};
  return all;
}

inline GemmCase of_shape(GemmCase c, int m, int n, int k) {
  c.m = m, c.n = n, c.k = k;
  return c;
}

}  // namespace quern::test
