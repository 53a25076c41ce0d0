// quantized_gemm against its definition in fp64: numbers, scales and zero points, groups, shapes, epilogues.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <vector>

#include "tests/ops/case_suite.h"
#include "tests/ops/compiled.h"
#include "tests/ops/cuda.h"
#include "tests/ops/quantized_gemm_fixture.h"

namespace quern::test {
namespace {

using Code = QuantizedCode;
using Scale = QuantizedScale;

std::vector<QuantizedCase> quantized_cases() {
  std::vector<QuantizedCase> cases;
  const auto add = [&](const std::string& name, const std::function<void(QuantizedCase&)>& change) {
    QuantizedCase c;
    c.name = name;
    change(c);
    cases.push_back(c);
  };
  // W4A16 and W8A16: every number by every type of activation.
  add("bf16_int4_128", [](QuantizedCase& c) { c.m = 7; });
  add("f16_int4_32", [](QuantizedCase& c) { c.a = Code::f16, c.scales_b = 32, c.scale_b = Scale::bf16, c.m = 1; });
  add("bf16_uint4_64_zeros", [](QuantizedCase& c) { c.b = Code::uint4, c.scales_b = c.zeros = 64, c.m = 17; });
  add("f16_uint4_128_zeros",
      [](QuantizedCase& c) { c.a = Code::f16, c.b = Code::uint4, c.zeros = 128, c.scales_by_group = true; });
  add("bf16_uint4_128", [](QuantizedCase& c) { c.b = Code::uint4, c.scale_b = Scale::f32; });
  add("f16_uint4_line_zeros",
      [](QuantizedCase& c) { c.a = Code::f16, c.b = Code::uint4, c.scales_b = c.zeros = kLineScales, c.m = 13; });
  add("bf16_int8", [](QuantizedCase& c) { c.b = Code::int8, c.scales_b = kLineScales, c.scale_b = Scale::bf16; });
  add("f16_int8_64", [](QuantizedCase& c) { c.a = Code::f16, c.b = Code::int8, c.scales_b = 64, c.m = 16; });
  add("bf16_uint8_32_zeros", [](QuantizedCase& c) { c.b = Code::uint8, c.scales_b = c.zeros = 32; });
  add("f16_uint8", [](QuantizedCase& c) { c.a = Code::f16, c.b = Code::uint8, c.scales_b = kOneScale; });
  add("f16_uint8_128_line_zeros",
      [](QuantizedCase& c) { c.a = Code::f16, c.b = Code::uint8, c.scales_b = 128, c.zeros = kLineScales; });
  add("bf16_e4m3", [](QuantizedCase& c) { c.b = Code::e4m3, c.scales_b = kNoScales, c.raw_e4m3 = true; });
  add("f16_e4m3_128", [](QuantizedCase& c) { c.a = Code::f16, c.b = Code::e4m3, c.scale_b = Scale::f32; });
  add("bf16_e2m1_16",
      [](QuantizedCase& c) { c.b = Code::e2m1, c.scales_b = 16, c.scale_b = Scale::e4m3, c.tensor_scales = true; });
  add("f16_e2m1_16", [](QuantizedCase& c) {
    c.a = Code::f16, c.b = Code::e2m1, c.scales_b = 16, c.scale_b = Scale::e4m3, c.tensor_scales = true, c.m = 16;
  });
  add("bf16_e2m1_32_ue8m0", [](QuantizedCase& c) { c.b = Code::e2m1, c.scales_b = 32, c.scale_b = Scale::ue8m0; });
  add("f16_e2m1_32_e8m0", [](QuantizedCase& c) {
    c.a = Code::f16, c.b = Code::e2m1, c.scales_b = 32, c.scale_b = Scale::ue8m0, c.e8m0_type = true;
  });
  add("bf16_int4_16", [](QuantizedCase& c) { c.scales_b = 16; });
  // W8A8, W4A8, W4A4.
  add("int8_int8", [](QuantizedCase& c) { c.a = c.b = Code::int8, c.scales_a = c.scales_b = kLineScales; });
  add("int8_int8_none", [](QuantizedCase& c) { c.a = c.b = Code::int8, c.scales_b = kNoScales, c.m = 40; });
  add("int8_int8_128", [](QuantizedCase& c) { c.a = c.b = Code::int8, c.scales_a = 128, c.scale_b = Scale::f32; });
  add("int8_int4_64", [](QuantizedCase& c) { c.a = Code::int8, c.scales_a = kLineScales, c.scales_b = 64; });
  add("int8_uint4_32_zeros", [](QuantizedCase& c) {
    c.a = Code::int8, c.b = Code::uint4, c.scales_a = kOneScale, c.scales_b = c.zeros = 32, c.m = 14;
  });
  add("int4_int4",
      [](QuantizedCase& c) { c.a = Code::int4, c.scales_a = c.scales_b = kLineScales, c.scale_a = Scale::f16; });
  add("int4_int4_64", [](QuantizedCase& c) { c.a = Code::int4, c.scales_a = c.scales_b = 64; });
  add("int8_uint8",
      [](QuantizedCase& c) { c.a = Code::int8, c.b = Code::uint8, c.scales_a = c.scales_b = c.zeros = kLineScales; });
  add("e4m3_int4_128", [](QuantizedCase& c) { c.a = Code::e4m3, c.scales_a = kLineScales; });
  add("e4m3_e4m3_32", [](QuantizedCase& c) {
    c.a = c.b = Code::e4m3, c.scales_a = c.scales_b = 32, c.scale_a = c.scale_b = Scale::ue8m0;
  });
  add("e2m1_e2m1_16", [](QuantizedCase& c) {
    c.a = c.b = Code::e2m1, c.scales_a = c.scales_b = 16, c.scale_a = c.scale_b = Scale::e4m3, c.tensor_scales = true;
  });
  add("e2m1_e2m1_32", [](QuantizedCase& c) {
    c.a = c.b = Code::e2m1, c.scales_a = c.scales_b = 32, c.scale_a = c.scale_b = Scale::ue8m0, c.m = 11;
  });
  add("int8_e2m1_32", [](QuantizedCase& c) {
    c.a = Code::int8, c.b = Code::e2m1, c.scales_a = kLineScales, c.scales_b = 32, c.scale_b = Scale::ue8m0;
  });
  // Shapes, of kernels that are there already.
  for (const std::int64_t n : {1, 7, 127, 129, 257})
    add("n" + std::to_string(n), [&](QuantizedCase& c) { c.n = n, c.out = Element::bf16; });
  for (const std::int64_t m : {0, 2, 16, 31, 64, 131, 200})
    add("m" + std::to_string(m), [&](QuantizedCase& c) { c.m = m, c.out = Element::bf16; });
  add("no_columns", [](QuantizedCase& c) { c.n = 0, c.out = Element::bf16; });
  for (const std::int64_t k : {128, 384, 1152})
    add("k" + std::to_string(k), [&](QuantizedCase& c) { c.k = k, c.out = Element::bf16; });
  add("k32", [](QuantizedCase& c) { c.k = 32, c.a = Code::f16, c.scales_b = 32, c.scale_b = Scale::bf16; });
  add("k_of_no_whole_block", [](QuantizedCase& c) { c.k = 352, c.scales_b = kLineScales, c.out = Element::bf16; });
  add("many_k", [](QuantizedCase& c) { c.k = 4096, c.n = 150, c.m = 3, c.out = Element::bf16; });
  add("many_k_of_integers", [](QuantizedCase& c) {
    c.a = c.b = Code::int8, c.scales_a = c.scales_b = kLineScales, c.k = 4096, c.n = 150, c.m = 3;
  });
  add("padded", [](QuantizedCase& c) { c.padded = true, c.out = Element::bf16; });
  add("alignment_4", [](QuantizedCase& c) { c.alignment = 4, c.k = 264, c.scales_b = kLineScales, c.m = 12; });
  add("few_sms", [](QuantizedCase& c) { c.max_sms = 1, c.n = 300, c.m = 40, c.out = Element::bf16; });
  add("invariant", [](QuantizedCase& c) { c.flags = QUERN_CALL_BATCH_INVARIANT, c.out = Element::bf16; });
  // Many rows, which Hopper's warpgroups multiply: every number, every size of a group.
  for (const Code a : {Code::f16, Code::bf16}) {
    for (const Code b : {Code::int8, Code::uint8, Code::e4m3, Code::int4, Code::uint4, Code::e2m1}) {
      add("many_" + std::to_string(static_cast<int>(a)) + "_" + std::to_string(static_cast<int>(b)),
          [&](QuantizedCase& c) {
            c.a = a, c.b = b, c.m = 67, c.n = 150, c.k = 352, c.scales_b = kLineScales, c.tensor_scales = true;
            if (a == Code::bf16 && c.has_unsigned()) c.zeros = kLineScales;
          });
    }
  }
  // Many rows of int8 by int8: gemm's kernel, with every kind of scale.
  const auto add_integers = [&](const std::string& name, const std::function<void(QuantizedCase&)>& change) {
    add("integers_" + name, [&](QuantizedCase& c) {
      c.a = c.b = Code::int8, c.scales_a = c.scales_b = kLineScales, c.scale_b = Scale::f32;
      c.m = 150, c.n = 200, c.k = 352;
      change(c);
    });
  };
  add_integers("lines", [](QuantizedCase&) {});
  add_integers("bf16", [](QuantizedCase& c) { c.out = Element::bf16, c.n = 328, c.m = 270, c.scale_b = Scale::bf16; });
  add_integers("no_scales", [](QuantizedCase& c) { c.scales_a = c.scales_b = kNoScales, c.m = 65, c.n = 77; });
  add_integers("one_scale", [](QuantizedCase& c) {
    c.scales_a = c.scales_b = kOneScale, c.scale_a = Scale::f16, c.scale_b = Scale::e4m3, c.tensor_scales = true;
  });
  add_integers("exponents", [](QuantizedCase& c) {
    c.scale_a = c.scale_b = Scale::ue8m0, c.out = Element::bf16, c.bias = c.relu = true;
  });
  add_integers("gate", [](QuantizedCase& c) { c.gate = true, c.n = 390, c.tensor_scales = true; });
  add_integers("gate_bf16", [](QuantizedCase& c) { c.gate = true, c.n = 512, c.m = 66, c.out = Element::bf16; });
  add_integers("e4m3", [](QuantizedCase& c) { c.out = Element::e4m3, c.scales_a = kNoScales, c.n = 129; });
  add_integers("padded", [](QuantizedCase& c) { c.padded = true, c.out = Element::bf16, c.n = 300; });
  add_integers("few_sms", [](QuantizedCase& c) { c.max_sms = 1, c.n = 300, c.out = Element::bf16; });
  add_integers("many_tiles", [](QuantizedCase& c) { c.m = 530, c.n = 1100, c.k = 144, c.out = Element::bf16; });
  add_integers("invariant", [](QuantizedCase& c) { c.flags = QUERN_CALL_BATCH_INVARIANT, c.out = Element::bf16; });
  add_integers("groups", [](QuantizedCase& c) { c.scales_a = c.scales_b = 64, c.k = 384; });
  add("many_128", [](QuantizedCase& c) { c.m = 150, c.k = 640; });
  add("many_64_zeros", [](QuantizedCase& c) {
    c.a = Code::f16, c.b = Code::uint4, c.scales_b = c.zeros = 64, c.m = 90, c.k = 576, c.scales_by_group = true;
  });
  add("many_32_zeros", [](QuantizedCase& c) {
    c.b = Code::uint8, c.scales_b = c.zeros = 32, c.scale_b = Scale::bf16, c.m = 70, c.k = 352;
  });
  add("many_16", [](QuantizedCase& c) {
    c.b = Code::e2m1, c.scales_b = 16, c.scale_b = Scale::e4m3, c.tensor_scales = true, c.m = 129, c.k = 304 + 16;
  });
  add("many_16_rounded", [](QuantizedCase& c) { c.b = Code::int8, c.scales_b = 16, c.scale_b = Scale::f32, c.m = 66; });
  for (const Code a : {Code::f16, Code::bf16}) {
    add(a == Code::f16 ? "many_32_exponents_f16" : "many_32_exponents", [&](QuantizedCase& c) {
      c.a = a, c.b = Code::e2m1, c.scales_b = 32, c.scale_b = Scale::ue8m0, c.m = 80, c.k = 288;
    });
  }
  add("many_gate", [](QuantizedCase& c) { c.m = 75, c.n = 300, c.gate = true, c.scales_b = 64; });
  add("many_padded", [](QuantizedCase& c) { c.m = 140, c.n = 131, c.padded = c.bias = true, c.out = Element::bf16; });
  add("many_padded_plain", [](QuantizedCase& c) { c.m = 80, c.n = 136, c.padded = true, c.out = Element::bf16; });
  add("many_tiles", [](QuantizedCase& c) { c.m = 300, c.n = 400, c.max_sms = 3, c.out = Element::f16; });
  add("many_odd_columns", [](QuantizedCase& c) { c.m = 300, c.n = 403, c.max_sms = 3, c.out = Element::bf16; });
  add("many_k_of_many",
      [](QuantizedCase& c) { c.m = 100, c.n = 400, c.k = 2560, c.max_sms = 3, c.out = Element::bf16; });
  add("many_invariant", [](QuantizedCase& c) { c.m = 130, c.flags = QUERN_CALL_BATCH_INVARIANT; });
  // Results.
  add("f16", [](QuantizedCase& c) { c.out = Element::f16, c.bias = c.relu = true; });
  add("e4m3", [](QuantizedCase& c) { c.out = Element::e4m3; });
  add("gate", [](QuantizedCase& c) { c.n = 300, c.gate = true, c.m = 10; });
  // Few rows have kernels of their own unless their bits must not depend on how many they are. Those of more rows, and
  // of 17 to 32, take every number, too.
  for (const std::size_t i : {0, 2, 3, 8, 11, 13, 15, 18, 20, 21, 22, 24, 25, 27, 28, 29}) {
    const QuantizedCase& other = cases.at(i);
    add(other.name + "_invariant", [&](QuantizedCase& c) {
      const std::string name = c.name;
      c = other, c.name = name, c.flags = QUERN_CALL_BATCH_INVARIANT;
    });
  }
  for (const std::size_t i : {1, 3, 6, 9, 10, 12, 13, 17, 18, 19, 23, 24, 25, 26, 28, 30}) {
    const QuantizedCase& other = cases.at(i);
    add(other.name + "_rows", [&](QuantizedCase& c) {
      const std::string name = c.name;
      c = other, c.name = name, c.m = 27, c.n = 150;
    });
  }
  // Chunks of k and parts of tiles, of whole blocks of k and not.
  for (const std::int64_t k : {512, 1024, 1056, 2080, 5024}) {
    add("few_k" + std::to_string(k), [&](QuantizedCase& c) { c.k = k, c.scales_b = 32, c.n = 70, c.m = 9; });
    add("few_bytes_k" + std::to_string(k), [&](QuantizedCase& c) {
      c.a = c.b = Code::int8, c.scales_a = c.scales_b = 32, c.k = k, c.n = 130, c.m = 20, c.max_sms = 3;
    });
  }
  // So many k that blocks of threads divide them.
  add("few_divided", [](QuantizedCase& c) { c.k = 40960, c.n = 40, c.m = 3, c.out = Element::bf16; });
  add("few_divided_unevenly", [](QuantizedCase& c) {
    c.a = c.b = Code::int8, c.scales_a = c.scales_b = kLineScales, c.k = 65536, c.n = 50, c.m = 17, c.max_sms = 3;
  });
  // Wide tiles.
  add("few_wide", [](QuantizedCase& c) { c.n = 1500, c.m = 3, c.k = 512; });
  add("few_wide_16", [](QuantizedCase& c) {
    c.n = 1100, c.m = 12, c.b = Code::e2m1, c.scales_b = 16, c.scale_b = Scale::e4m3, c.k = 544;
  });
  add("few_wide_gate",
      [](QuantizedCase& c) { c.n = 1400, c.gate = true, c.m = 24, c.b = Code::uint8, c.scales_b = c.zeros = 64; });
  add("few_rows_of_many_tiles", [](QuantizedCase& c) {
    c.a = Code::f16, c.b = Code::uint4, c.scales_b = c.zeros = 64, c.n = 900, c.k = 1024, c.max_sms = 2, c.m = 14;
  });
  add("few_alignment_4",
      [](QuantizedCase& c) { c.alignment = 4, c.k = 1032, c.b = Code::int8, c.scales_b = kLineScales, c.m = 30; });
  add("few_gate", [](QuantizedCase& c) {
    c.n = 260, c.gate = true, c.m = 25, c.b = Code::e2m1, c.scales_b = 16, c.scale_b = Scale::e4m3, c.k = 1536;
  });
  return cases;
}

class QuantizedGemm : public testing::TestWithParam<QuantizedCase> {
 protected:
  // All of their kernels, several at once.
  static void SetUpTestSuite() {
    const auto cases = cases_of_this_suite<QuantizedCase>();
    side_by_side(cases.size(), [&](std::size_t i) {
      QuantizedProduct product(*cases[i]);
      auto error = sized<quern_error>();
      quern_quantized_gemm_prepare(context(), &product.args, &error);
    });
  }
};
INSTANTIATE_TEST_SUITE_P(Cases, QuantizedGemm, testing::ValuesIn(listed(quantized_cases())),
                         [](const testing::TestParamInfo<QuantizedCase>& test) { return test.param.name; });
TEST_P(QuantizedGemm, MatchesItsDefinition) {
  QuantizedProduct product(GetParam());
  ASSERT_NO_FATAL_FAILURE(product.run());
  product.check();
  product.check_workspace();
}

// Sums of integers are exact, whatever divides k: f32 holds them to 2^24.
TEST(QuantizedGemmNumbers, SumsOfIntegersAreExact) {
  QuantizedCase c;
  c.name = "exact", c.a = c.b = Code::int8, c.scales_b = kNoScales, c.k = 1024, c.m = 3, c.n = 140;
  QuantizedProduct product(c);
  // The largest there are.
  for (std::int64_t k = 0; k < c.k; ++k) product.a.set_bits(0x80, 1, k), product.b.set_bits(0x80, 1, k);
  ASSERT_NO_FATAL_FAILURE(product.run());
  for (std::int64_t i = 0; i < c.m; ++i) {
    for (std::int64_t j = 0; j < c.n; ++j)
      ASSERT_EQ(product.out.get(i, j), product.sum_of(i, j).exact) << i << " " << j;
  }
}

// Of many rows the kernel is another, whose sums are as exact, and are scaled in the same order: the bits are those of
// the first kernel, which is the only one with alignment 4. Sums beyond 2^24 are rounded once.
TEST(QuantizedGemmNumbers, IntegersOfManyRowsHaveTheBitsOfFewer) {
  for (const std::int64_t n : {77, 300}) {
    for (const Element out : {Element::f32, Element::bf16}) {
      QuantizedCase c;
      c.name = "bits" + std::to_string(n), c.a = c.b = Code::int8, c.scales_a = c.scales_b = kLineScales, c.out = out;
      c.m = 70, c.n = n, c.k = 1152, c.tensor_scales = true, c.relu = n == 300;
      QuantizedProduct product(c);
      for (std::int64_t k = 0; k < c.k; ++k) {
        for (std::int64_t i = 0; i < 20; ++i) product.a.set_bits(k % 31 == i ? 0x7f : 0x80, i, k);
        product.b.set_bits(0x80, 1, k), product.b.set_bits(0x7f, 2, k);
      }
      ASSERT_NO_FATAL_FAILURE(product.run());
      if (n == 77) product.check();
      const std::vector<unsigned char> many = product.out.memory();
      product.args.alignment = 4, product.args.flags = 0;
      product.out.poison();
      ASSERT_NO_FATAL_FAILURE(product.run());
      EXPECT_EQ(product.out.memory(), many) << n;
    }
  }
}

// Lines that are one and the same in memory have no tensor map; what lies behind that line is none of them.
TEST(QuantizedGemmNumbers, OneLineForMany) {
  for (const Code a : {Code::int8, Code::bf16}) {
    QuantizedCase c;
    c.name = "one line", c.a = a, c.b = Code::int8, c.scales_b = kLineScales, c.m = 90, c.n = 40;
    QuantizedProduct product(c);
    const auto set_line = [&](std::int64_t i, bool first) {
      for (std::int64_t k = 0; k < c.k; ++k) {
        if (a == Code::bf16) {
          product.a.array().set(first ? product.a.get(0, k) : 3.0, i, k);
        } else {
          product.a.set_bits(first ? static_cast<int>(product.a.get(0, k)) : 3, i, k);
        }
      }
    };
    for (std::int64_t i = 1; i < c.m; ++i) set_line(i, true);
    ASSERT_NO_FATAL_FAILURE(product.run());
    product.check();
    std::vector<double> apart;
    for (std::int64_t j = 0; j < c.n; ++j) apart.push_back(product.out.get(0, j));
    for (std::int64_t i = 1; i < c.m; ++i) set_line(i, false);
    product.a.array().box().tensor.strides[0] = 0;
    product.args.flags = 0;
    product.out.poison();
    ASSERT_NO_FATAL_FAILURE(product.run());
    for (std::int64_t i = 0; i < c.m; ++i) {
      for (std::int64_t j = 0; j < c.n; ++j) {
        const double exact = apart[static_cast<std::size_t>(j)];
        ASSERT_NEAR(product.out.get(i, j), exact, a == Code::int8 ? 0.0 : 1e-4 * std::fabs(exact) + 1e-3)
            << i << " " << j;
      }
    }
  }
}

// Results of 8 bits with a scale for each row's 128 columns, which a gate halves, too.
TEST(QuantizedGemmNumbers, ResultsWithScales) {
  for (const bool gate : {false, true}) {
    QuantizedCase plain;
    plain.name = "scales", plain.m = gate ? 20 : 9, plain.n = 600, plain.gate = gate;
    QuantizedProduct wide(plain);
    ASSERT_NO_FATAL_FAILURE(wide.run());
    QuantizedCase narrow = plain;
    narrow.out = Element::e4m3;
    QuantizedProduct product(narrow);
    const std::int64_t columns = plain.columns();
    Array scales(Element::f32, {plain.m, (columns + 127) / 128});
    scales.upload();
    product.epilogue.out_scale = scales.tensor();
    product.args.epilogue = &product.epilogue;
    ASSERT_NO_FATAL_FAILURE(product.run());
    scales.download();
    for (std::int64_t i = 0; i < plain.m; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) {
        const double scale = scales.get(i, j / 128), exact = wide.out.get(i, j);
        ASSERT_NEAR(product.out.get(i, j) * scale, exact, 0x1p-4 * std::fabs(exact) + scale * 0x1p-9) << i << " " << j;
      }
    }
  }
}

// Each code of each format by itself: a is the unit matrix, so that results are b's numbers.
TEST(QuantizedGemmNumbers, EveryCodeIsItsNumber) {
  for (const Code a : {Code::f16, Code::bf16}) {
    for (const Code b : {Code::int8, Code::e4m3, Code::int4, Code::uint4, Code::e2m1}) {
      QuantizedCase c;
      c.name = "codes", c.a = a, c.b = b, c.scales_b = kNoScales, c.m = 16, c.n = 256, c.k = 32;
      QuantizedProduct product(c);
      for (std::int64_t j = 0; j < c.n; ++j) {
        for (std::int64_t k = 0; k < c.k; ++k) {
          const auto code = static_cast<int>((j + 7 * k) % (QuantizedCase::bits(b) == 4 ? 16 : 256));
          product.b.set_bits(b == Code::e4m3 && (code & 0x7f) == 0x7f ? 0 : code, j, k);
          if (j < c.m) product.a.array().set(j == k ? 1.0 : 0.0, j, k);
        }
      }
      ASSERT_NO_FATAL_FAILURE(product.run());
      for (std::int64_t i = 0; i < c.m; ++i) {
        for (std::int64_t j = 0; j < c.n; ++j)
          ASSERT_EQ(product.out.get(i, j), product.b.get(j, i) - (b == Code::uint4 ? 8 : 0)) << i << " " << j;
      }
    }
  }
}

// A NaN of a stays in its row, one among the scales in its column; numbers that no row or column has are not read.
TEST(QuantizedGemmNumbers, NanStaysInItsRowAndColumn) {
  QuantizedCase c;
  c.name = "nan", c.out = Element::bf16;
  QuantizedProduct product(c);
  product.a.array().set(std::numeric_limits<double>::quiet_NaN(), 2, 100);
  product.scale_b.set(std::numeric_limits<double>::quiet_NaN(), 6, 1);
  ASSERT_NO_FATAL_FAILURE(product.run());
  for (std::int64_t i = 0; i < c.m; ++i) {
    for (std::int64_t j = 0; j < c.n; ++j)
      EXPECT_EQ(std::isnan(product.out.get(i, j)), i == 2 || j == 6) << i << " " << j;
  }
}

// With QUERN_CALL_BATCH_INVARIANT a row's bits depend on no other row, nor on their number, which changes the kernel.
TEST(QuantizedGemmInvariance, ARowAlone) {
  struct Kind {
    Code a, b;
    std::int64_t scales_a, scales_b;
  };
  for (const Kind kind : {Kind{Code::bf16, Code::int4, kNoScales, 128}, Kind{Code::int8, Code::int8, 0, 0}}) {
    QuantizedCase all;
    all.name = "rows", all.a = kind.a, all.b = kind.b, all.scales_a = kind.scales_a, all.scales_b = kind.scales_b;
    all.m = 150, all.n = 140, all.k = 1024, all.flags = QUERN_CALL_BATCH_INVARIANT;
    QuantizedProduct many(all);
    ASSERT_NO_FATAL_FAILURE(many.run());
    for (const std::int64_t rows : {1, 20, 50}) {
      QuantizedCase few = all;
      few.m = rows;
      QuantizedProduct some(few);  // the same b: it is drawn from a stream of the same name
      for (std::int64_t i = 0; i < rows; ++i) {
        if (kind.scales_a == kLineScales) some.scale_a.set(many.scale_a.get(i, 0), i, 0);
        for (std::int64_t k = 0; k < all.k; ++k) {
          if (kind.a == Code::bf16) {
            some.a.array().set(many.a.get(i, k), i, k);
          } else {
            some.a.set_bits(static_cast<int>(many.a.get(i, k)), i, k);
          }
        }
      }
      for (std::int64_t j = 0; j < all.n; ++j) {
        for (std::int64_t g = 0; g < some.scale_b.extent(1); ++g) some.scale_b.set(many.scale_b.get(j, g), j, g);
        for (std::int64_t k = 0; k < all.k; ++k)
          some.b.set_bits(static_cast<int>(many.b.get(j, k)) & (kind.b == Code::int4 ? 15 : 255), j, k);
      }
      ASSERT_NO_FATAL_FAILURE(some.run());
      for (std::int64_t i = 0; i < rows; ++i) {
        for (std::int64_t j = 0; j < all.n; ++j) ASSERT_EQ(some.out.get(i, j), many.out.get(i, j)) << i << " " << j;
      }
    }
  }
}

// `host`: unfair scheduling and late delivery, by seed.
TEST(QuantizedGemmScheduling, AnyOrderGivesTheSameBits) {
  if (on_cuda()) GTEST_SKIP() << "a GPU schedules as it likes: seeds are for the host target";
  for (const std::int64_t rows : {5, 40, 70, 130}) {
    QuantizedCase c;
    c.name = "unfair", c.b = Code::uint4, c.zeros = c.scales_b = 64, c.m = rows, c.n = 200, c.k = 1280;
    if (rows == 130) c.a = c.b = Code::int8, c.zeros = kNoScales, c.scales_b = kLineScales, c.out = Element::bf16;
    QuantizedProduct product(c);
    ASSERT_NO_FATAL_FAILURE(product.run());
    product.check();
    const std::vector<unsigned char> fair = product.out.memory(),
                                     poison = std::vector<unsigned char>(fair.size(), 0xff);
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      const std::uint64_t value = run_seed() * 3 + seed;
      const Context unfair = make_context([&](quern_context_options& o) {
        o.flags |= QUERN_CONTEXT_HOST_SEED;
        o.host_seed = value;
      });
      std::memcpy(product.out.box().tensor.data, poison.data(), poison.size());
      auto error = sized<quern_error>();
      ASSERT_EQ(quern_quantized_gemm(unfair.get(), &product.args, &error), QUERN_OK) << error.text;
      product.out.download();
      ASSERT_EQ(product.out.memory(), fair) << "host_seed " << value;
    }
  }
}

TEST(QuantizedGemmOnCuda, OneGraphServesManyLaunches) {
  if (!on_cuda()) GTEST_SKIP() << "needs a GPU: QUERN_TEST_DEVICE=cuda";
  QuantizedCase c;
  c.name = "graph", c.n = 4096, c.k = 2048, c.m = 3;
  QuantizedProduct product(c);
  ASSERT_NO_FATAL_FAILURE(product.run());
  const std::vector<unsigned char> once = product.out.memory();
  const Stream stream;
  auto error = sized<quern_error>();
  product.args.stream = stream.get();
  const Graph graph(stream,
                    [&] { ASSERT_EQ(quern_quantized_gemm(context(), &product.args, &error), QUERN_OK) << error.text; });
  for (int round = 0; round < 20; ++round) {
    product.out.poison(), product.out.upload();
    synchronize();
    graph.launch(stream);
    stream.synchronize();
    product.out.download();
    ASSERT_EQ(product.out.memory(), once) << round;
  }
  product.check_workspace();
}

const ForEveryTarget kLines{
    "quantized_gemm * variant=rows16 b=int4 scale_b=f16 group=128 groups_b=1",
    "quantized_gemm * variant=few16 b=int4 scale_b=f16 group=128 groups_b=1",
    "quantized_gemm * variant=few16 a=e2m1 b=e2m1 scale_a=e4m3 scale_b=e4m3 group=16 groups_a=1 groups_b=1",
    "quantized_gemm * variant=few16 a=int8 b=int8 scale_a=f32 scale_b=f32 alignment=4",
    "quantized_gemm * variant=few32 a=f16 b=uint4 scale_b=f16 group=32 groups_b=1 zeros=1 gate=1",
    "quantized_gemm * variant=few32 b=int8 scale_b=f32",
    "quantized_gemm * variant=rows32 a=f16 b=uint4 scale_b=f16 group=64 groups_b=1 zeros=1",
    "quantized_gemm * variant=rows16 b=int8 scale_b=f32",
    "quantized_gemm * variant=rows16 a=int8 b=int8 scale_a=f32 scale_b=f32",
    "quantized_gemm * variant=rows16 a=int8 b=int4 scale_a=f32 scale_b=f16 group=128 groups_b=1",
    "quantized_gemm * variant=rows16 a=e2m1 b=e2m1 scale_a=e4m3 scale_b=e4m3 group=16 groups_a=1 groups_b=1",
    "quantized_gemm * variant=rows16 b=e2m1 scale_b=ue8m0 group=32 groups_b=1 alignment=4",
    "quantized_gemm * variant=rows16 a=f16 b=e4m3 scale_b=f32 out=f16 epilogue=acc+col2 operand2=f16",
    "quantized_gemm * variant=rows32 b=uint8 scale_b=bf16 zeros=1 gate=1",
    "quantized_gemm * variant=warpgroups b=int4 scale_b=f16 group=128 groups_b=1",
    "quantized_gemm * variant=warpgroups a=f16 b=uint4 scale_b=f16 group=32 groups_b=1 zeros=1 gate=1",
    "quantized_gemm * variant=warpgroups b=e2m1 scale_b=e4m3 group=16 groups_b=1 epilogue=acc+col2 operand2=f16",
    "quantized_gemm * variant=warpgroups b=int8 scale_b=f32",
    "quantized_gemm * variant=integers columns=64 a=int8 b=int8 scale_a=f32 scale_b=f32",
    "quantized_gemm * variant=integers columns=176 a=int8 b=int8 scale_a=bf16 out=f32 epilogue=acc+col2 operand2=f16",
    "quantized_gemm * variant=integers columns=192 a=int8 b=int8 scale_b=ue8m0 out=f16",
    "quantized_gemm * variant=integers columns=256 a=int8 b=int8 scale_a=f32 scale_b=f32 gate=1",
};

}  // namespace
}  // namespace quern::test
