// Products over element types, scales and their layouts, and numbers at the edges: every 8-bit code, infinities, NaN,
// results beyond the largest.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include "tests/ops/gemm_fixture.h"
#include "tests/ops/gemm_problem.h"

namespace quern::test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();
const std::vector<Element> kAll = {Element::f16, Element::bf16, Element::f32, Element::e4m3, Element::e5m2};
const std::vector<Element> kFp8 = {Element::e4m3, Element::e5m2};

std::vector<GemmCase> elements() {
  std::vector<GemmCase> all;
  for (const Scaling scaling : {Scaling::lines, Scaling::blocks}) {
    GemmCase common;
    common.scale_a = common.scale_b = scaling;
    common.k = 400;
    GemmList list(common);
    const std::string suffix = scaling == Scaling::blocks ? "_blocks" : "";
    for (const Element a : kFp8) {
      for (const Element b : kFp8) {
        list.add(std::string(a.name()) + "_by_" + b.name() + suffix,
                 [&](GemmCase& c) { c.a = a, c.b = b, c.out = Element::f32; });
      }
    }
    for (const Element out : kAll) {
      // Storing is the same whatever the scales.
      if (scaling == Scaling::blocks && out.kind() != Element::e4m3) continue;
      list.add(std::string("to_") + out.name() + suffix, [&](GemmCase& c) { c.out = out; });
      list.add(std::string("to_") + out.name() + suffix + "_unaligned",
               [&](GemmCase& c) { c.out = out, c.out_padding = 3; });
      // Far beyond what 8 bits and f16 hold.
      list.add(std::string("beyond_") + out.name() + suffix, [&](GemmCase& c) { c.out = out, c.gain = 50000.0; });
      list.add(std::string("far_below_") + out.name() + suffix, [&](GemmCase& c) { c.out = out, c.gain = 1e-4; });
    }
    all.insert(all.end(), list.cases().begin(), list.cases().end());
  }
  for (const Element a : {Element(Element::f16), Element(Element::bf16), Element(Element::f32)}) {
    GemmCase common;
    common.product = Product::gemm;
    common.a = common.b = a;
    GemmList list(common);
    for (const Element out : kAll) {
      // Twice the same but for what is f32 throughout.
      if (a.kind() != Element::bf16 && out.kind() != a.kind() && out.kind() != Element::f32) continue;
      list.add(std::string(a.name()) + "_to_" + out.name(), [&](GemmCase& c) { c.out = out; });
    }
    all.insert(all.end(), list.cases().begin(), list.cases().end());
  }
  GemmCase rounded;
  rounded.product = Product::gemm;
  rounded.a = rounded.b = rounded.out = Element::f32;
  rounded.tf32 = true;
  rounded.name = "tf32_of_f32";
  all.push_back(rounded);
  return all;
}
QUERN_GEMM_CASES(Elements, elements());

std::vector<GemmCase> scales() {
  std::vector<GemmCase> all;
  for (const int m : {1, 6, 70}) {
    GemmCase common;
    common.m = m, common.n = 264, common.k = 272;
    GemmList list(common);
    const auto add = [&](const std::string& name, const std::function<void(GemmCase&)>& change) {
      list.add(name + "_" + std::to_string(m), change);
    };
    add("per_tensor", [](GemmCase& c) { c.scale_a = c.scale_b = Scaling::tensor; });
    add("row_by_tensor", [](GemmCase& c) { c.scale_b = Scaling::tensor; });
    add("tensor_by_column", [](GemmCase& c) { c.scale_a = Scaling::tensor; });
    add("row_by_column", {});
    add("blocks_m_contiguous", [](GemmCase& c) { c.scale_a = c.scale_b = Scaling::blocks; });
    add("blocks_row_major", [](GemmCase& c) { c.scale_a = c.scale_b = Scaling::blocks, c.scales_by_row = true; });
    add("one_block", [](GemmCase& c) { c.scale_a = c.scale_b = Scaling::blocks, c.n = 24, c.k = 16; });
    all.insert(all.end(), list.cases().begin(), list.cases().end());
  }
  return all;
}
QUERN_GEMM_CASES(Scales, scales());

// Every code of a in every row's place, times 1; then every code of b.
class GemmCodes : public testing::TestWithParam<std::pair<Element, Element>> {};
INSTANTIATE_TEST_SUITE_P(Fp8, GemmCodes,
                         testing::Values(std::pair(Element(Element::e4m3), Element(Element::e4m3)),
                                         std::pair(Element(Element::e4m3), Element(Element::e5m2)),
                                         std::pair(Element(Element::e5m2), Element(Element::e4m3)),
                                         std::pair(Element(Element::e5m2), Element(Element::e5m2))),
                         [](const testing::TestParamInfo<std::pair<Element, Element>>& of) {
                           return std::string(of.param.first.name()) + "_by_" + of.param.second.name();
                         });

void expect_codes_exact(GemmCase c, bool of_a) {
  c.scale_a = c.scale_b = Scaling::tensor;
  c.k = 48;
  c.out = Element::f32;
  GemmProblem problem(c, Random("codes"));
  const GemmTensors& t = problem.tensors();
  problem.put(t.scale_a, 0, 0, 0, 1.0);
  problem.put(t.scale_b, 0, 0, 0, 1.0);
  const GemmTensor &coded = of_a ? t.a : t.b, &ones = of_a ? t.b : t.a;
  const Element element = coded.element;
  ASSERT_NO_FATAL_FAILURE(problem.make_workspace(context()));
  for (std::int64_t r = 0; r < ones.rows; ++r) {
    for (std::int64_t k = 0; k < c.k; ++k) problem.put(ones, 0, r, k, 1.0);
  }
  for (int first = 0; first < 256; first += static_cast<int>(coded.rows)) {
    for (std::int64_t r = 0; r < coded.rows; ++r) {
      // Each code stands in another place of k.
      for (std::int64_t k = 0; k < c.k; ++k) problem.put(coded, 0, r, k, 0.0);
      problem.put_code(coded, 0, r, (r * 7 + first) % c.k, static_cast<unsigned>(first + r));
    }
    problem.poison_outputs();
    ASSERT_NO_FATAL_FAILURE(problem.call(context()));
    synchronize();
    const GemmOutput output = problem.output();
    for (std::int64_t m = 0; m < c.m; ++m) {
      for (std::int64_t n = 0; n < c.n; ++n) {
        const int code = first + static_cast<int>(of_a ? m : n);
        const unsigned char memory[4] = {static_cast<unsigned char>(code)};
        const double expected = element.load(memory), got = t.out.element.load(&output.out[t.out.at(0, m, n) * 4]);
        EXPECT_TRUE(std::isnan(expected) ? std::isnan(got) : got == expected)
            << element.name() << " " << code << " in row " << m << ", column " << n << ": " << got << ", not "
            << expected;
      }
    }
  }
}

TEST_P(GemmCodes, TimesOneStayAsTheyAre) {
  GemmCase c;
  c.a = GetParam().first, c.b = GetParam().second;
  c.m = 16, c.n = 8;
  expect_codes_exact(c, true);
  c.m = 3, c.n = 64;
  expect_codes_exact(c, false);
}

// Infinities and NaN of the operands reach what they must, and nothing else.
TEST(GemmNumbers, WhatIsNotFiniteStaysInItsRowsAndColumns) {
  std::vector<GemmCase> cases;
  for (const Element element : {Element(Element::f16), Element(Element::bf16), Element(Element::f32),
                                Element(Element::e4m3), Element(Element::e5m2)}) {
    GemmCase c;
    c.product = element.is_fp8() ? Product::fp8 : Product::gemm;
    c.a = c.b = element;
    c.out = Element::f32;
    cases.push_back(c);
    if (element.kind() != Element::e5m2) continue;
    c.out = Element::e4m3;  // where infinity becomes the largest
    cases.push_back(c);
    c.out = Element::bf16;
    c.scale_a = c.scale_b = Scaling::blocks;
    cases.push_back(c);
  }
  std::vector<const GemmCase*> pointers;
  for (GemmCase& c : cases) {
    c.m = 9;
    pointers.push_back(&c);
  }
  prepare_all(pointers);
  for (const GemmCase& c : cases) {
    SCOPED_TRACE(std::string(c.a.name()) + " to " + c.out.name());
    GemmProblem problem(c, Random("not finite"));
    const GemmTensors& t = problem.tensors();
    const auto infinite = [&](const GemmTensor& tensor, std::int64_t row, std::int64_t k, bool negative) {
      if (tensor.element.kind() == Element::e5m2) problem.put_code(tensor, 0, row, k, negative ? 0xfc : 0x7c);
      if (!tensor.element.is_fp8()) problem.put(tensor, 0, row, k, negative ? -kInfinity : kInfinity);
    };
    problem.put(t.a, 0, 2, 17, kNan);
    problem.put(t.b, 0, 11, 143, kNan);
    infinite(t.a, 4, 100, false);
    infinite(t.b, 30, 0, true);
    infinite(t.a, 5, 3, true), infinite(t.a, 5, 4, false);  // NaN, or infinity, by their signs
    ASSERT_NO_FATAL_FAILURE(problem.run(context()));
    problem.check();
  }
}

// A scale that is no number makes its row none.
TEST(GemmNumbers, AScaleThatIsNotANumberIsNotHidden) {
  GemmCase c;
  c.out = Element::f32;
  GemmProblem problem(c, Random("scales"));
  problem.put(problem.tensors().scale_a, 0, 3, 0, kNan);
  ASSERT_NO_FATAL_FAILURE(problem.run(context()));
  problem.check();
}

// A stride of 0 makes one row of a, or of b, stand for all.
TEST(GemmNumbers, ARowMayStandForAll) {
  for (const bool of_a : {true, false}) {
    GemmCase c;
    c.scale_a = c.scale_b = Scaling::tensor;
    c.m = 200, c.n = 264, c.k = 272;
    c.out = Element::f32;
    GemmProblem problem(c, Random("one row"));
    GemmTensors& t = problem.tensors();
    problem.put(t.scale_a, 0, 0, 0, 1.0);
    problem.put(t.scale_b, 0, 0, 0, 1.0);
    // Integers, whose sums are exact in any order.
    Random random("integers");
    std::vector<std::vector<double>> a(1), b(1);
    const auto fill = [&](const GemmTensor& tensor, std::int64_t rows, std::vector<std::vector<double>>* to) {
      to->assign(static_cast<std::size_t>(rows), std::vector<double>(static_cast<std::size_t>(c.k)));
      for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t k = 0; k < c.k; ++k) {
          const double value = random.between(-3, 3);
          (*to)[static_cast<std::size_t>(r)][static_cast<std::size_t>(k)] = value;
          problem.put(tensor, 0, r, k, value);
        }
      }
    };
    fill(t.a, of_a ? 1 : c.m, &a);
    fill(t.b, of_a ? c.n : 1, &b);
    TensorBox& box = of_a ? t.a.box : t.b.box;
    box.strides[0] = 0, box.strides[1] = 1;
    box.tensor.strides = box.strides;
    ASSERT_NO_FATAL_FAILURE(problem.make_workspace(context()));
    ASSERT_NO_FATAL_FAILURE(problem.call(context()));
    synchronize();
    const GemmOutput output = problem.output();
    int wrong = 0;
    for (std::int64_t m = 0; m < c.m; ++m) {
      for (std::int64_t n = 0; n < c.n; ++n) {
        double sum = 0.0;
        for (std::size_t k = 0; k < static_cast<std::size_t>(c.k); ++k) {
          sum += a[static_cast<std::size_t>(of_a ? 0 : m)][k] * b[static_cast<std::size_t>(of_a ? n : 0)][k];
        }
        wrong += t.out.element.load(&output.out[t.out.at(0, m, n) * 4]) != sum;
      }
    }
    EXPECT_EQ(wrong, 0) << "with one row of " << (of_a ? "a" : "b");
  }
}

}  // namespace
}  // namespace quern::test
