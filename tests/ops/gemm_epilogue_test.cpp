// What becomes of a product's sums: activations, bias, c, gates, expressions, and 8-bit results with their scales.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/ops/gemm_fixture.h"
#include "tests/ops/gemm_problem.h"

namespace quern::test {
namespace {

const Element f16 = Element::f16, bf16 = Element::bf16, f32 = Element::f32, e4m3 = Element::e4m3, e5m2 = Element::e5m2;

double silu(double x) { return x / (1.0 + std::exp(-x)); }

GemmCase gated() {
  GemmCase c;
  c.gate = true;
  c.n = 80;
  return c;
}

std::vector<GemmCase> standard() {
  GemmList list(GemmCase{});
  const std::pair<const char*, int> activations[] = {{"relu", QUERN_ACTIVATION_RELU},
                                                     {"gelu", QUERN_ACTIVATION_GELU},
                                                     {"gelu_tanh", QUERN_ACTIVATION_GELU_TANH},
                                                     {"silu", QUERN_ACTIVATION_SILU},
                                                     {"no_activation", QUERN_ACTIVATION_NONE}};
  for (const auto& [name, activation] : activations)
    list.add(name, [a = activation](GemmCase& c) { c.activation = a, c.out = f32, c.gain = 3.0; });
  for (const Element element : {f32, f16, bf16}) {
    list.add(std::string("bias_") + element.name(), [&](GemmCase& c) { c.bias = element; });
    list.add(std::string("c_") + element.name(), [&](GemmCase& c) { c.c = element, c.out_padding = 1; });
  }
  list.add("bias_unaligned", [](GemmCase& c) { c.bias = f32, c.n = 77, c.offset = 16; });
  list.add("c_aligned", [](GemmCase& c) { c.c = bf16; });
  list.add("c_is_out", [](GemmCase& c) { c.c = bf16, c.c_is_out = true, c.out_padding = 1; });
  list.add("bias_c_gelu", [](GemmCase& c) { c.bias = f32, c.c = f32, c.activation = QUERN_ACTIVATION_GELU; });
  list.add("bias_one_row", [](GemmCase& c) { c.bias = f32, c.m = 1, c.n = 1; });
  return list.cases();
}
QUERN_GEMM_CASES(Standard, standard());

std::vector<GemmCase> gates() {
  GemmList list(gated());
  list.add("gate");
  list.add("gate_of_two", [](GemmCase& c) { c.n = 2; });
  list.add("gate_of_odd_halves", [](GemmCase& c) { c.n = 154, c.out_padding = 1; });
  list.add("gate_gelu", [](GemmCase& c) { c.activation = QUERN_ACTIVATION_GELU; });
  list.add("gate_without_activation", [](GemmCase& c) { c.activation = QUERN_ACTIVATION_NONE; });
  list.add("gate_bias_c", [](GemmCase& c) { c.bias = f32, c.c = bf16; });
  list.add("gate_bias_c_unaligned", [](GemmCase& c) { c.bias = f32, c.c = bf16, c.n = 78, c.out_padding = 3; });
  for (const int m : {33, 70, 300}) {
    list.add("gate_" + std::to_string(m), [&](GemmCase& c) { c.m = m, c.n = 528; });
    list.add("gate_blocks_" + std::to_string(m),
             [&](GemmCase& c) { c.m = m, c.n = 544, c.scale_a = c.scale_b = Scaling::blocks; });
  }
  // The halves meet within a block of 128 columns.
  list.add("gate_blocks_in_one", [](GemmCase& c) { c.n = 96, c.scale_a = c.scale_b = Scaling::blocks; });
  // Rows that are aligned to 4 bytes alone are the portable kernels'.
  for (const int m : {5, 70, 300}) {
    list.add("gate_portable_" + std::to_string(m), [&](GemmCase& c) { c.m = m, c.n = 144, c.alignment = 4; });
  }
  list.add("gate_split", [](GemmCase& c) { c.k = 7184; });
  const auto of_f16 = [](GemmCase& c) { c.product = Product::gemm, c.a = c.b = c.out = f16; };
  list.add("gate_f16", of_f16);
  list.add("gate_f16_nn", [&](GemmCase& c) {
    of_f16(c);
    c.transposed_b = true;
  });
  list.add("gate_f16_batched_bias_c", [&](GemmCase& c) {
    of_f16(c);
    c.batch = 3, c.bias = f16, c.c = f16;
  });
  list.add("gate_f32", [](GemmCase& c) { c.product = Product::gemm, c.a = c.b = c.out = f32, c.m = 140; });
  return list.cases();
}
QUERN_GEMM_CASES(Gates, gates());

std::vector<GemmCase> expressions() {
  using O = EpilogueOperand;
  GemmCase common;
  common.out = f32;
  GemmList list(common);
  list.add("column_and_row", [](GemmCase& c) {
    c.expression = "silu(acc + col0) * row1";
    c.formula = [](const Terms& t) { return silu(t.acc + t.x[0]) * t.x[1]; };
    c.operands = {{O::column, f32}, {O::row, f16}};
  });
  list.add("scalars_and_a_tensor", [](GemmCase& c) {
    c.expression = "acc * scalar0 + tensor2 * scalar1";
    c.formula = [](const Terms& t) { return t.acc * t.s[0] + t.x[2] * t.s[1]; };
    c.operands = {{O::unused}, {O::unused}, {O::tensor, bf16}};
    c.scalars = {0.75f, -3.0f};
  });
  list.add("fp8_operands", [](GemmCase& c) {
    c.expression = "max(acc, tensor0) - col1 * row2 + tensor3";
    c.formula = [](const Terms& t) { return std::max(t.acc, t.x[0]) - t.x[1] * t.x[2] + t.x[3]; };
    c.operands = {{O::tensor, e4m3}, {O::column, e5m2}, {O::row, e4m3}, {O::tensor, e5m2}};
  });
  list.add("fp8_operands_unaligned", [](GemmCase& c) {
    c.expression = "max(acc, tensor0) - col1 * row2 + tensor3";
    c.formula = [](const Terms& t) { return std::max(t.acc, t.x[0]) - t.x[1] * t.x[2] + t.x[3]; };
    c.operands = {{O::tensor, e4m3}, {O::column, e5m2}, {O::row, e4m3}, {O::tensor, e5m2}};
    c.n = 77, c.out_padding = 2;
  });
  list.add("wide_operands", [](GemmCase& c) {
    c.expression = "acc * tensor0 + col1 * row2 + col3";
    c.formula = [](const Terms& t) { return t.acc * t.x[0] + t.x[1] * t.x[2] + t.x[3]; };
    c.operands = {{O::tensor, f16}, {O::column, bf16}, {O::row, f32}, {O::column, f16}};
  });
  list.add("leaky_relu", [](GemmCase& c) {
    c.expression = "select(acc > 0, acc, acc * scalar0)";
    c.formula = [](const Terms& t) { return t.acc > 0.0 ? t.acc : t.acc * t.s[0]; };
    c.scalars = {0.01f};
  });
  list.add("without_the_result", [](GemmCase& c) {
    c.expression = "row0 * col7";
    c.formula = [](const Terms& t) { return t.x[0] * t.x[7]; };
    c.operands = {{O::row, f32}, {O::unused}, {O::unused}, {O::unused},
                  {O::unused},   {O::unused}, {O::unused}, {O::column, f32}};
  });
  list.add("eight_of_each", [](GemmCase& c) {
    c.expression =
        "acc + col0*scalar0 + col1*scalar1 + col2*scalar2 + col3*scalar3 + row4*scalar4 + row5*scalar5 + row6*scalar6 "
        "+ row7*scalar7";
    c.formula = [](const Terms& t) {
      double sum = t.acc;
      for (int i = 0; i < 8; ++i) sum += t.x[i] * t.s[i];
      return sum;
    };
    for (int i = 0; i < 8; ++i) c.operands.push_back({i < 4 ? O::column : O::row, f32});
    c.scalars = {1.0f, 0.5f, -2.0f, 0.25f, 3.0f, -1.0f, 0.125f, 1.5f};
  });
  list.add("gated_expression", [](GemmCase& c) {
    c.gate = true, c.n = 80;
    c.expression = "clamp(gate, -scalar0, scalar0) * up + tensor0";
    c.formula = [](const Terms& t) { return std::clamp(t.gate, -t.s[0], t.s[0]) * t.up + t.x[0]; };
    c.operands = {{O::tensor, f32}};
    c.scalars = {0.5f};
  });
  const auto batched = [](GemmCase& c, bool leads) {
    c.product = Product::gemm, c.a = c.b = f16, c.batch = 3;
    c.expression = "silu(acc + col0) * row1 + tensor2";
    c.formula = [](const Terms& t) { return silu(t.acc + t.x[0]) * t.x[1] + t.x[2]; };
    c.operands = {{O::column, f32, leads}, {O::row, f16}, {O::tensor, bf16}};
  };
  list.add("batched_expression", [&](GemmCase& c) { batched(c, false); });
  list.add("batched_expression_of_columns_each", [&](GemmCase& c) { batched(c, true), c.out_padding = 1; });
  return list.cases();
}
QUERN_GEMM_CASES(Expressions, expressions());

std::vector<GemmCase> batched_epilogues() {
  GemmCase common;
  common.product = Product::gemm;
  common.a = common.b = common.out = f16;
  common.batch = 3;
  GemmList list(common);
  list.add("batched_bias", [](GemmCase& c) { c.bias = f32; });
  list.add("batched_bias_each", [](GemmCase& c) { c.bias = f32, c.bias_leads = true; });
  list.add("batched_c", [](GemmCase& c) { c.c = f16, c.out_padding = 2; });
  list.add("batched_c_is_out", [](GemmCase& c) { c.c = f16, c.c_is_out = true; });
  list.add("plain_f32_bias", [](GemmCase& c) { c.a = c.b = c.out = f32, c.bias = f32, c.batch = 0; });
  return list.cases();
}
QUERN_GEMM_CASES(BatchedEpilogues, batched_epilogues());

std::vector<GemmCase> out_scales() {
  GemmCase common;
  common.out = e4m3;
  common.out_scale = true;
  common.n = 264;
  common.gain = 5.0;
  GemmList list(common);
  for (const int m : {5, 33, 300}) {
    list.add("out_scale_" + std::to_string(m), [&](GemmCase& c) { c.m = m; });
    list.add("out_scale_power_of_two_" + std::to_string(m), [&](GemmCase& c) { c.m = m, c.power_of_two = true; });
  }
  for (const int n : {1, 40, 128, 129, 256})
    list.add("out_scale_of_" + std::to_string(n), [&](GemmCase& c) { c.n = n; });
  // Columns past the last have sums of 0, of which this formula makes the largest number of all: it is no part of the
  // scale.
  for (const int n : {1, 129, 251}) {
    list.add("out_scale_of_nothing_" + std::to_string(n), [&](GemmCase& c) {
      c.n = n, c.scalars = {1000.0f};
      c.expression = "select(acc > 0, acc, select(acc < 0, acc, scalar0))";
      c.formula = [](const Terms& t) { return t.acc != 0.0 ? t.acc : t.s[0]; };
    });
  }
  list.add("out_scale_unaligned", [](GemmCase& c) { c.out_padding = 3, c.offset = 16; });
  list.add("out_scale_split", [](GemmCase& c) { c.k = 7184, c.n = 72; });
  for (const int m : {5, 300}) {
    list.add("out_scale_gate_" + std::to_string(m), [&](GemmCase& c) {
      c.m = m, c.gate = true, c.n = 544, c.scale_a = c.scale_b = Scaling::blocks, c.out = e5m2;
    });
    list.add("out_scale_gate_power_of_two_" + std::to_string(m), [&](GemmCase& c) {
      c.m = m, c.gate = true, c.n = 544, c.scale_a = c.scale_b = Scaling::blocks, c.out = e5m2, c.power_of_two = true;
    });
  }
  list.add("out_scale_batched", [](GemmCase& c) { c.product = Product::gemm, c.a = c.b = f16, c.batch = 3; });
  list.add("out_scale_plain", [](GemmCase& c) { c.product = Product::gemm, c.a = c.b = f32; });
  // Few rows stored [k][m] by more threads than copies of a step.
  for (const bool wide : {false, true}) {
    for (const int m : {8, 16}) {
      list.add("out_scale_gate_km_" + std::to_string(m) + (wide ? "_f32" : ""), [&](GemmCase& c) {
        c.product = Product::gemm, c.a = c.b = wide ? f32 : bf16, c.transposed_a = true, c.m = m, c.k = 1024, c.n = 512,
        c.gate = true;
      });
    }
  }
  return list.cases();
}
QUERN_GEMM_CASES(OutScales, out_scales());

// Of a row of zeros the scale is 1; what is not finite has no part in it.
TEST(GemmOutScale, ZerosAndNumbersThatAreNotFinite) {
  for (const bool power_of_two : {false, true}) {
    GemmCase c;
    c.out = e4m3;
    c.out_scale = true;
    c.power_of_two = power_of_two;
    c.n = 264;
    GemmProblem problem(c, Random("edges of scales"));
    const GemmTensors& t = problem.tensors();
    for (std::int64_t k = 0; k < c.k; ++k) problem.put(t.a, 0, 1, k, 0.0);
    problem.put(t.a, 0, 3, 20, std::numeric_limits<double>::quiet_NaN());
    problem.put(t.b, 0, 130, 7, std::numeric_limits<double>::quiet_NaN());
    problem.put(t.scale_b, 0, 200, 0, std::numeric_limits<double>::infinity());
    ASSERT_NO_FATAL_FAILURE(problem.run(context()));
    problem.check();
    const GemmOutput output = problem.output();
    for (int block = 0; block < 3; ++block)
      EXPECT_EQ(f32.load(&output.out_scale[t.out_scale.at(0, 1, block) * 4]), 1.0);
  }
}

}  // namespace
}  // namespace quern::test
