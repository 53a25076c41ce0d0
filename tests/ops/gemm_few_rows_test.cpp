// Products of few rows, whose tiles are shared by the blocks of a cluster where the target has clusters.
// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/gemm_fixture.h"
#include "tests/ops/gemm_kinds.h"
#include "tests/ops/gemm_problem.h"

namespace quern::test {
namespace {

constexpr std::uint32_t kConstantB = std::uint32_t{QUERN_CALL_PROGRAMMATIC} | QUERN_GEMM_CONSTANT_B;

// The kinds that Hopper's kernel for few rows takes.
std::vector<GemmKind> kinds() { return {gemm_kinds()[0], gemm_kinds()[1], gemm_kinds()[2], gemm_kinds()[3]}; }

void add(std::vector<GemmCase>* all, const std::string& name, GemmCase c, int m, int n, int k) {
  all->push_back(of_shape(std::move(c), m, n, k));
  all->back().name = name + "_" + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k);
}

// Every number of rows at which another kernel begins, with columns and terms that fill no tile and no k block.
std::vector<GemmCase> rows() {
  std::vector<GemmCase> all;
  for (const GemmKind& kind : kinds()) {
    for (const int m : {1, 2, 7, 16, 17, 32, 33, 64, 65, 127, 128})
      add(&all, kind.name, kind.common, m, m % 2 == 1 ? 24 : 264, m % 3 == 0 ? 1040 : 528);
    for (const int n : {8, 40}) {
      for (const int k : {16, 128, 2064}) add(&all, kind.name, kind.common, 30, n, k);
    }
  }
  return all;
}
QUERN_GEMM_CASES(FewRows, rows());

// What differs from kernel to kernel of the same rows: tiles by the dozen and by the piece, gates, what follows the
// sums.
std::vector<GemmCase> ways() {
  std::vector<GemmCase> all;
  const auto each = [&](const std::string& name, GemmCase c, const std::function<void(GemmCase&)>& change) {
    for (const int m : {9, 100}) {
      GemmCase changed = c;
      changed.name = name + "_" + std::to_string(m);
      changed.m = m, changed.n = 392, changed.k = 1168;
      change(changed);
      all.push_back(changed);
    }
  };
  for (const int sms : {1, 2, 3})
    each("sms_" + std::to_string(sms), fp8_blocks(), [&](GemmCase& c) { c.max_sms = sms; });
  each("many_tiles", fp8_blocks(), [](GemmCase& c) { c.n = 1400, c.k = 528; });
  each("blocks_gate", fp8_blocks(), [](GemmCase& c) { c.gate = true, c.n = 640; });
  each("blocks_gate_one_tile", fp8_blocks(), [](GemmCase& c) { c.gate = true, c.n = 128; });
  each("vectors_gate", fp8_vectors(), [](GemmCase& c) { c.gate = true, c.out = Element::bf16, c.n = 154; });
  each("f16_gate", gemm_of(Element::f16), [](GemmCase& c) { c.gate = true; });
  each("blocks_by_row", fp8_blocks(), [](GemmCase& c) { c.scales_by_row = true, c.out = Element::bf16; });
  each("blocks_out_scale", fp8_blocks(),
       [](GemmCase& c) { c.out = Element::e4m3, c.out_scale = true, c.power_of_two = true; });
  // Gated results of codes: whole runs of tiles that share scales, several for a block, and the last of fewer tiles.
  const auto codes = [](GemmCase& c) { c.gate = true, c.out = Element::e4m3, c.out_scale = true; };
  each("gate_out_scale", fp8_blocks(), [&](GemmCase& c) { codes(c), c.n = 2304, c.flags = kConstantB; });
  each("gate_out_scale_one_sm", fp8_blocks(), [&](GemmCase& c) { codes(c), c.n = 896, c.max_sms = 1; });
  each("gate_out_scale_part", fp8_blocks(),
       [&](GemmCase& c) { codes(c), c.n = 832, c.max_sms = 2, c.out_padding = 8; });
  each("gate_out_scale_less", fp8_vectors(),
       [&](GemmCase& c) { codes(c), c.n = 154, c.out = Element::e5m2, c.power_of_two = true; });
  each("gate_out_scale_bias", fp8_vectors(), [&](GemmCase& c) { codes(c), c.n = 640, c.bias = Element::bf16; });
  each("gate_out_scale_batched", gemm_of(Element::bf16), [&](GemmCase& c) { codes(c), c.batch = 3, c.n = 784; });
  each("tensor_scales", fp8_vectors(),
       [](GemmCase& c) { c.scale_a = c.scale_b = Scaling::tensor, c.out = Element::f16; });
  each("other_codes", fp8_blocks(), [](GemmCase& c) { c.a = Element::e5m2; });
  each("bias_c_padded", fp8_blocks(),
       [](GemmCase& c) { c.bias = Element::bf16, c.c = Element::f32, c.padding = 16, c.out_padding = 3; });
  each("c_is_out", gemm_of(Element::bf16), [](GemmCase& c) { c.c = Element::bf16, c.c_is_out = true; });
  each("batched", gemm_of(Element::bf16), [](GemmCase& c) { c.batch = 3, c.n = 136, c.k = 528; });
  each("programmatic", fp8_blocks(), [](GemmCase& c) { c.flags = QUERN_CALL_PROGRAMMATIC; });
  for (const GemmKind& kind : kinds()) {
    each(std::string("constant_b_") + kind.name, kind.common, [](GemmCase& c) { c.flags = kConstantB; });
  }
  each("constant_b_gate", fp8_blocks(), [](GemmCase& c) { c.gate = true, c.n = 640, c.flags = kConstantB; });
  each("constant_b_experts", fp8_blocks(), [](GemmCase& c) {
    c.product = Product::masked;
    c.counts = {c.m, 0, c.m / 2};
    c.flags = kConstantB;
  });
  each("experts_gate", fp8_blocks(), [](GemmCase& c) {
    c.product = Product::contiguous;
    c.counts = {c.m / 3, 0, c.m / 2};
    c.gate = true, c.n = 512;
  });
  return all;
}
QUERN_GEMM_CASES(Ways, ways());

}  // namespace
}  // namespace quern::test
