// Products of many rows, whose tiles a warpgroup copies and others multiply where the target has warpgroups.
// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/gemm_fixture.h"
#include "tests/ops/gemm_kinds.h"
#include "tests/ops/gemm_problem.h"

namespace quern::test {
namespace {

// The kinds that Hopper's kernels take.
std::vector<GemmKind> kinds() { return {gemm_kinds()[0], gemm_kinds()[1], gemm_kinds()[2], gemm_kinds()[3]}; }

void add(std::vector<GemmCase>* all, const std::string& name, GemmCase c, int m, int n, int k) {
  all->push_back(of_shape(std::move(c), m, n, k));
  all->back().name = "many_" + name + "_" + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k);
}

// Columns and terms that fill no tile and no k block, k blocks that come in pairs and not; and so many columns that the
// widest tiles are taken.
std::vector<GemmCase> shapes() {
  std::vector<GemmCase> all;
  for (const GemmKind& kind : kinds()) {
    for (const int n : {8, 24, 40}) {
      for (const int k : {16, 128, 144}) add(&all, kind.name, kind.common, 200, n, k);
    }
    for (const int k : {16, 144, 272, 400}) add(&all, kind.name, kind.common, 300, 520, k);
    add(&all, kind.name, kind.common, 129, 24, 7184);
  }
  return all;
}
QUERN_GEMM_CASES(ManyRows, shapes());

// What follows the sums, where tiles are narrow and where they are wide; of one matrix, of experts.
std::vector<GemmCase> ways() {
  std::vector<GemmCase> all;
  const auto each = [&](const std::string& name, GemmCase c, const std::function<void(GemmCase&)>& change) {
    for (const int n : {384, 1024}) {
      GemmCase changed = c;
      changed.name = "many_" + name + "_" + std::to_string(n);
      changed.m = 300, changed.n = n, changed.k = 272;
      change(changed);
      all.push_back(changed);
    }
  };
  const auto gate = [](GemmCase& c) { c.gate = true; };
  each("blocks_gate", fp8_blocks(), gate);
  each("vectors_gate", fp8_vectors(), gate);
  each("bf16_gate", gemm_of(Element::bf16), gate);
  each("blocks_out_scale", fp8_blocks(),
       [](GemmCase& c) { c.out = Element::e4m3, c.out_scale = true, c.power_of_two = true; });
  each("vectors_out_scale", fp8_vectors(), [](GemmCase& c) { c.out = Element::e5m2, c.out_scale = true; });
  for (const Element out : {Element(Element::f16), Element(Element::bf16)}) {
    each(std::string("blocks_to_") + out.name(), fp8_blocks(), [&](GemmCase& c) { c.out = out; });
    each(std::string("vectors_to_") + out.name(), fp8_vectors(), [&](GemmCase& c) { c.out = out; });
  }
  each("blocks_by_row", fp8_blocks(), [](GemmCase& c) { c.scales_by_row = true; });
  each("tensor_scales", fp8_vectors(), [](GemmCase& c) { c.scale_a = c.scale_b = Scaling::tensor; });
  each("other_codes", fp8_vectors(), [](GemmCase& c) { c.a = Element::e5m2; });
  each("other_codes_of_b", fp8_blocks(), [](GemmCase& c) { c.b = Element::e5m2; });
  each("bias_c_gelu", fp8_blocks(), [](GemmCase& c) {
    c.bias = Element::bf16, c.c = Element::f32, c.activation = QUERN_ACTIVATION_GELU;
    c.padding = 16, c.out_padding = 3;
  });
  // Rows that end within 16 bytes of which the caller owns the rest.
  const auto short_rows = [](GemmCase& c) { c.n -= 3, c.out = Element::bf16, c.out_padding = 3; };
  each("blocks_short_rows", fp8_blocks(), short_rows);
  each("vectors_short_rows", fp8_vectors(), short_rows);
  each("bf16_short_rows", gemm_of(Element::bf16), short_rows);
  each("c_is_out", gemm_of(Element::bf16), [](GemmCase& c) { c.c = Element::bf16, c.c_is_out = true; });
  each("batched", gemm_of(Element::f16), [](GemmCase& c) { c.batch = 2, c.m = 150; });
  each("programmatic", fp8_blocks(), [](GemmCase& c) { c.flags = QUERN_CALL_PROGRAMMATIC; });
  const auto by_offsets = [](GemmCase& c) {
    c.product = Product::contiguous;
    c.counts = {300, 129, 0, 250};
    c.m = 690, c.first_offset = 5;
  };
  const auto by_counts = [](GemmCase& c) {
    c.product = Product::masked;
    c.counts = {200, 0, 70, 131};
    c.m = 201;
  };
  for (const bool gated : {false, true}) {
    const std::string suffix = gated ? "_gate" : "";
    for (const GemmKind& kind : {gemm_kinds()[0], gemm_kinds()[1]}) {
      for (const Element out : {Element(Element::f32), Element(Element::bf16)}) {
        const std::string name = std::string(kind.name) + suffix + "_to_" + out.name();
        each("offsets_" + name, kind.common, [&](GemmCase& c) { by_offsets(c), c.gate = gated, c.out = out; });
        each("counts_" + name, kind.common, [&](GemmCase& c) { by_counts(c), c.gate = gated, c.out = out; });
      }
    }
  }
  return all;
}
QUERN_GEMM_CASES(ManyWays, ways());

}  // namespace
}  // namespace quern::test
