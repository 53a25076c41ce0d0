// One case of a matrix product, whichever of the three ops it is for: everything that a call is given, but for the
// numbers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "tests/ops/element.h"

namespace quern::test {

enum class Product {
  gemm,
  fp8,
  contiguous,  // grouped, rows sorted by expert
  masked       // grouped, a capacity of rows an expert
};

enum class Scaling { tensor, lines, blocks };  // lines: one for each row of a, or row of b

// What an epilogue's formula is made of: acc, or with a gate its two halves; operands and scalars by their numbers.
struct Terms {
  double acc = 0.0, gate = 0.0, up = 0.0;
  double x[8] = {};
  double s[8] = {};
};

struct EpilogueOperand {
  enum Kind { row, column, tensor, unused } kind;  // unused: NULL
  Element element = Element::f32;
  bool leads = false;  // a column operand with a vector for each batch or expert
};

struct GemmCase {
  std::string name;
  Product product = Product::fp8;
  int m = 5;  // rows: of out; of a batch; of an expert's capacity
  int n = 40;
  int k = 144;
  int batch = 0;          // gemm: 0 goes without that dimension
  bool shared_b = false;  // gemm: a batch stride of 0
  Element a = Element::e4m3, b = Element::e4m3, out = Element::bf16;
  bool transposed_a = false, transposed_b = false;  // gemm: stored [k][m], [k][n]
  bool tf32 = false;
  bool short_numbers = false;  // f32 operands of so few digits that TF32 holds them
  double gain = 1.0;           // results grow by it
  Scaling scale_a = Scaling::lines, scale_b = Scaling::lines;
  bool scales_by_row = false;  // blocks: scale_a is row-major; else m is contiguous, round_up(m, 4) apart

  std::vector<int> counts;  // grouped: rows of each expert
  int expected_rows = 0;    // grouped
  int first_offset = 0;     // contiguous: rows before the first expert's
  bool gathered = false;    // contiguous: by indices
  int tokens = 0;           // rows of a, where they are gathered

  bool gate = false;
  int activation = QUERN_ACTIVATION_DEFAULT;
  std::optional<Element> bias, c;
  bool bias_leads = false;  // one for each batch or expert
  bool c_is_out = false;
  std::string expression;
  std::function<double(const Terms&)> formula;  // the same in C++
  std::vector<EpilogueOperand> operands;
  std::vector<float> scalars;
  bool out_scale = false;
  bool power_of_two = false;

  std::uint32_t flags = 0;  // enum quern_call_flags
  int max_sms = 0;
  int alignment = 0;
  int offset = 0;       // byte_offset of every tensor that may have one
  int padding = 0;      // bytes between lines of a and b
  int out_padding = 0;  // elements between rows of out, and of whatever the epilogue reads
  std::vector<int>
      numbers;  // which numbers each row gets, so that it can be met again in other company; empty: 0, 1, ...

  bool grouped() const { return product == Product::contiguous || product == Product::masked; }
  bool is_fp8() const { return product != Product::gemm; }
  int columns() const { return gate ? n / 2 : n; }
  // Extents of the dimension in front of a, out and c; and in front of b.
  int groups() const { return product == Product::masked ? experts() : batch > 0 ? batch : 1; }
  int experts() const { return static_cast<int>(counts.size()); }
  int weights() const { return grouped() ? experts() : groups(); }
  bool leads() const { return product == Product::masked || batch > 0; }
  int rows_of_a() const { return gathered ? tokens : m; }
};

inline void PrintTo(const GemmCase& c, std::ostream* out) { *out << c.name; }

}  // namespace quern::test
