// A call of quantized_gemm with random tensors, and its definition in fp64 of the same numbers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <ostream>
#include <string>
#include <vector>

#include "tests/ops/array.h"
#include "tests/ops/random.h"
#include "tests/ops/refusal.h"

namespace quern::test {

enum class QuantizedCode { f16, bf16, int8, uint8, e4m3, int4, uint4, e2m1 };
enum class QuantizedScale { f32, f16, bf16, e4m3, ue8m0 };

inline constexpr std::int64_t kNoScales = -1, kOneScale = -2, kLineScales = 0;

struct QuantizedCase {
  std::string name;
  std::int64_t m = 5, n = 33, k = 256;
  QuantizedCode a = QuantizedCode::bf16, b = QuantizedCode::int4;
  // Groups of so many k, or one of the numbers above.
  std::int64_t scales_a = kNoScales, scales_b = 128, zeros = kNoScales;
  QuantizedScale scale_a = QuantizedScale::f32, scale_b = QuantizedScale::f16;
  bool tensor_scales = false, raw_e4m3 = false, e8m0_type = false;
  Element out = Element::f32;
  bool bias = false, gate = false, relu = false, padded = false, scales_by_group = false;
  int alignment = 0, max_sms = 0;
  std::uint32_t flags = 0;

  static int bits(QuantizedCode code) {
    if (code == QuantizedCode::f16 || code == QuantizedCode::bf16) return 16;
    return code >= QuantizedCode::int4 ? 4 : 8;
  }
  bool has_unsigned() const { return b == QuantizedCode::uint8 || b == QuantizedCode::uint4; }
  std::int64_t columns() const { return gate ? n / 2 : n; }
};

inline void PrintTo(const QuantizedCase& c, std::ostream* out) { *out << c.name; }

// What a code stands for, by its definition; of unsigned ones before their zero point.
inline double value_of(QuantizedCode code, int bits) {
  constexpr double kE2m1[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  switch (code) {
    case QuantizedCode::int8:
      return bits < 128 ? bits : bits - 256;
    case QuantizedCode::e4m3: {
      const auto byte = static_cast<std::uint8_t>(bits);
      return Element(Element::e4m3).load(&byte);
    }
    case QuantizedCode::int4:
      return bits < 8 ? bits : bits - 16;
    case QuantizedCode::e2m1:
      return bits < 8 ? kE2m1[bits] : -kE2m1[bits - 8];
    default:
      return bits;
  }
}

// An operand: lines of numbers, packed where they have 4 bits.
class QuantizedOperand {
 public:
  QuantizedOperand(QuantizedCode code, std::int64_t lines, std::int64_t k, bool padded, bool raw_e4m3)
      : code_(code), array_(make(code, lines, k, padded)) {
    const bool bytes =
        code == QuantizedCode::uint8 || QuantizedCase::bits(code) == 4 || (code == QuantizedCode::e4m3 && raw_e4m3);
    if (bytes) array_.box().tensor.dtype = {kDLUInt, 8, 1};
  }
  void set_random(Random& random, std::int64_t line, std::int64_t k) {
    if (QuantizedCase::bits(code_) == 16) return array_.set(random.normal(), line, k);
    int bits = random.between(0, QuantizedCase::bits(code_) == 4 ? 15 : 255);
    // Neither NaN nor so large that a few numbers were all that counts.
    if (code_ == QuantizedCode::e4m3) bits = (bits & 0x80) | std::min(bits & 0x7f, 0x47);
    set_bits(bits, line, k);
  }
  void set_bits(int bits, std::int64_t line, std::int64_t k) {
    if (QuantizedCase::bits(code_) == 8) return array_.set_integer(bits, line, k);
    const auto old = static_cast<int>(array_.integer(line, k / 2));
    const int shift = k % 2 == 0 ? 0 : 4;
    array_.set_integer((old & ~(15 << shift)) | bits << shift, line, k / 2);
  }
  double get(std::int64_t line, std::int64_t k) const {
    if (QuantizedCase::bits(code_) == 16) return array_.get(line, k);
    if (QuantizedCase::bits(code_) == 8) return value_of(code_, static_cast<int>(array_.integer(line, k) & 0xff));
    return value_of(code_, static_cast<int>(array_.integer(line, k / 2) >> (k % 2 == 0 ? 0 : 4) & 15));
  }
  Array& array() { return array_; }

 private:
  static Array make(QuantizedCode code, std::int64_t lines, std::int64_t k, bool padded) {
    const Element element = code == QuantizedCode::f16    ? Element::f16
                            : code == QuantizedCode::bf16 ? Element::bf16
                            : code == QuantizedCode::e4m3 ? Element::e4m3
                                                          : Element::i8;
    const std::int64_t row = QuantizedCase::bits(code) == 4 ? k / 2 : k;
    return padded ? Array(element, {lines, row}, {row + 48, 1}) : Array(element, {lines, row});
  }

  QuantizedCode code_;
  Array array_;
};

class QuantizedProduct {
 public:
  explicit QuantizedProduct(const QuantizedCase& c)
      : args(sized<quern_quantized_gemm_args>()),
        epilogue(sized<quern_epilogue>()),
        c_(c),
        a(c.a, c.m, c.k, c.padded, c.raw_e4m3),
        b(c.b, c.n, c.k, c.padded, c.raw_e4m3),
        scale_a(scales_of(c.scale_a, c.scales_a, c.m, c.k, false)),
        scale_b(scales_of(c.scale_b, c.scales_b, c.n, c.k, c.scales_by_group)),
        zero_b(scales_of(QuantizedScale::ue8m0, c.zeros, c.n, c.k, c.scales_by_group)),
        tensor_a(Element::f32, {1}),
        tensor_b(Element::f32, {1}),
        bias(Element::f32, {c.n}),
        out(c.padded ? Array(c.out, {c.m, c.columns()}, {c.columns() + 3, 1}) : Array(c.out, {c.m, c.columns()})) {
    Random random(c.name);
    for (std::int64_t i = 0; i < c.m; ++i) {
      for (std::int64_t k = 0; k < c.k; ++k) a.set_random(random, i, k);
    }
    for (std::int64_t j = 0; j < c.n; ++j) {
      for (std::int64_t k = 0; k < c.k; ++k) b.set_random(random, j, k);
      bias.set(random.normal(), j);
    }
    fill(random, scale_a, c.scale_a);
    fill(random, scale_b, c.scale_b);
    for (std::int64_t j = 0; j < zero_b.extent(0); ++j) {
      for (std::int64_t g = 0; g < zero_b.extent(1); ++g)
        zero_b.set_integer(random.between(0, c.b == QuantizedCode::uint4 ? 16 : 255), j, g);
    }
    tensor_a.set(0.37, 0), tensor_b.set(1.75, 0);
    set_args();
  }

  void run() {
    upload();
    auto error = sized<quern_error>();
    std::uint64_t bytes = 5;
    ASSERT_EQ(quern_quantized_gemm_workspace(context(), &args, &bytes, &error), QUERN_OK) << error.text;
    if ((c_.flags & QUERN_CALL_BATCH_INVARIANT) != 0) {
      EXPECT_EQ(bytes, 0u);
    }
    workspace = Buffer(bytes, 0);
    args.workspace = workspace.data(), args.workspace_size = bytes;
    ASSERT_EQ(quern_quantized_gemm_prepare(context(), &args, &error), QUERN_OK) << error.text;
    args.flags |= QUERN_CALL_CACHED_ONLY;
    ASSERT_EQ(quern_quantized_gemm(context(), &args, &error), QUERN_OK) << error.text;
    synchronize();
    out.download();
  }
  // The counters are left as they were found.
  void check_workspace() const {
    const std::vector<unsigned char> left = workspace.read();
    for (std::size_t i = 0; i < std::min<std::size_t>(left.size(), 256 * 1024); ++i) ASSERT_EQ(left[i], 0) << i;
  }
  void upload() {
    for (Array* x : {&a.array(), &b.array(), &scale_a, &scale_b, &zero_b, &tensor_a, &tensor_b, &bias, &out})
      x->upload();
  }

  struct Sum {
    double exact = 0.0, size = 0.0;  // size: of its terms
    float single = 0.0f;             // as f32 has it
  };
  Sum sum_of(std::int64_t i, std::int64_t j) const {
    Sum sum;
    const double all = c_.tensor_scales ? tensor_b.get(0) * (takes_scales_of_a() ? tensor_a.get(0) : 1.0) : 1.0;
    for (std::int64_t k = 0; k < c_.k; ++k) {
      const double weight = (b.get(j, k) - zero_at(j, k)) * scale_at(scale_b, c_.scale_b, c_.scales_b, j, k);
      const double x = a.get(i, k) * scale_at(scale_a, c_.scale_a, c_.scales_a, i, k);
      // What groups of 16 are rounded to.
      const double used = rounds() ? multiplied().rounded(weight) : weight;
      const double given = rounds() ? multiplied().rounded(x) : x;
      sum.exact += all * given * used, sum.size += std::fabs(all * given * used);
      sum.single += static_cast<float>(given) * static_cast<float>(used);
    }
    sum.single *= static_cast<float>(all);
    return sum;
  }

  void check() {
    struct One {
      double given, exact, size;
    };
    std::vector<One> all;
    double usual = on_cuda() ? 0x1p-20 : 0x1p-23;
    for (std::int64_t i = 0; i < c_.m; ++i) {
      for (std::int64_t j = 0; j < c_.columns(); ++j) {
        const Sum first = sum_of(i, j);
        One one{out.get(i, j), first.exact, first.size};
        if (first.size > 0) usual = std::max(usual, std::fabs(double{first.single} - first.exact) / first.size);
        if (c_.gate) {
          const Sum up = sum_of(i, j + c_.columns());
          const double silu = first.exact / (1.0 + std::exp(-first.exact));
          one.exact = silu * up.exact;
          one.size = 1.2 * first.size * std::fabs(up.exact) + std::fabs(silu) * up.size;
        }
        if (c_.bias) one.exact += bias.get(j), one.size += std::fabs(bias.get(j));
        if (c_.relu) one.exact = std::max(one.exact, 0.0);
        all.push_back(one);
      }
    }
    double worst = 0.0;
    for (const One& one : all) {
      // Beyond what 8 bits hold is their largest number.
      const double largest = c_.out.largest();
      const double exact = c_.out.is_fp8() ? std::clamp(one.exact, -largest, largest) : one.exact;
      const double rounding = c_.out.kind() == Element::f32 ? 0.0 : 1.01 * c_.out.roundoff() * std::fabs(exact);
      const double off = std::max(std::fabs(one.given - exact) - rounding, 0.0) / std::max(one.size, 1e-30);
      worst = std::isnan(one.given) ? std::numeric_limits<double>::infinity() : std::max(worst, off);
    }
    EXPECT_LE(worst, 2.0 * usual) << c_.name << "; QUERN_TEST_SEED=" << run_seed();
  }

  quern_quantized_gemm_args args;
  quern_epilogue epilogue;

 private:
  bool takes_scales_of_a() const { return QuantizedCase::bits(c_.a) < 16; }
  Element multiplied() const { return c_.a == QuantizedCode::bf16 ? Element::bf16 : Element::f16; }
  bool rounds() const { return c_.scales_b == 16 || c_.scales_a == 16; }

  static Array scales_of(QuantizedScale kind, std::int64_t how, std::int64_t lines, std::int64_t k, bool by_group) {
    const Element element = kind == QuantizedScale::f32    ? Element::f32
                            : kind == QuantizedScale::f16  ? Element::f16
                            : kind == QuantizedScale::bf16 ? Element::bf16
                            : kind == QuantizedScale::e4m3 ? Element::e4m3
                                                           : Element::i8;
    const std::int64_t groups = how > 0 ? k / how : 1, rows = how < 0 ? 1 : lines;
    Array array = by_group ? Array(element, {rows, groups}, {1, std::max<std::int64_t>(rows, 1)})
                           : Array(element, {rows, groups});
    if (kind == QuantizedScale::ue8m0) array.box().tensor.dtype = {kDLUInt, 8, 1};
    return array;
  }
  static void fill(Random& random, Array& scales, QuantizedScale kind) {
    for (std::int64_t i = 0; i < scales.extent(0); ++i) {
      for (std::int64_t g = 0; g < scales.extent(1); ++g) {
        if (kind == QuantizedScale::ue8m0) {
          scales.set_integer(random.between(120, 130), i, g);
        } else {
          scales.set(0.125 + random.uniform(), i, g);
        }
      }
    }
  }
  static double scale_at(const Array& scales, QuantizedScale kind, std::int64_t how, std::int64_t line,
                         std::int64_t k) {
    if (how == kNoScales) return 1.0;
    const std::int64_t row = how == kOneScale ? 0 : line, group = how > 0 ? k / how : 0;
    if (kind != QuantizedScale::ue8m0) return scales.get(row, group);
    return std::ldexp(1.0, static_cast<int>(scales.integer(row, group) & 0xff) - 127);
  }
  double zero_at(std::int64_t line, std::int64_t k) const {
    if (!c_.has_unsigned()) return 0.0;
    if (c_.zeros == kNoScales) return c_.b == QuantizedCode::uint4 ? 8 : 128;
    const std::int64_t row = c_.zeros == kOneScale ? 0 : line, group = c_.zeros > 0 ? k / c_.zeros : 0;
    return static_cast<double>(zero_b.integer(row, group) & 0xff);
  }

  static std::int32_t format_of(QuantizedCode code, bool raw_e4m3) {
    if (code == QuantizedCode::int4) return QUERN_QUANTIZED_INT4;
    if (code == QuantizedCode::uint4) return QUERN_QUANTIZED_UINT4;
    if (code == QuantizedCode::e2m1) return QUERN_QUANTIZED_E2M1;
    return code == QuantizedCode::e4m3 && raw_e4m3 ? QUERN_QUANTIZED_E4M3 : QUERN_QUANTIZED_AS_TENSOR;
  }
  // One scale, or one a line, as a vector.
  static const DLTensor* given(Array& scales, std::int64_t how) {
    if (how == kNoScales) return nullptr;
    if (how <= 0) scales.box().tensor.ndim = 1;
    return scales.tensor();
  }
  static void set_type(Array& scales, QuantizedScale kind, bool e8m0_type, std::int32_t& type) {
    if (kind != QuantizedScale::ue8m0) return;
    type = e8m0_type ? QUERN_QUANTIZED_SCALE_AS_TENSOR : QUERN_QUANTIZED_SCALE_UE8M0;
    if (e8m0_type) scales.box().tensor.dtype = {kDLFloat8_e8m0fnu, 8, 1};
  }
  void set_args() {
    args.flags = c_.flags;
    args.alignment = c_.alignment, args.max_sms = c_.max_sms;
    args.a = a.array().tensor(), args.b = b.array().tensor(), args.out = out.tensor();
    args.a_format = format_of(c_.a, c_.raw_e4m3), args.b_format = format_of(c_.b, c_.raw_e4m3);
    args.scale_a = given(scale_a, c_.scales_a), args.scale_b = given(scale_b, c_.scales_b);
    set_type(scale_a, c_.scale_a, c_.e8m0_type, args.scale_a_type);
    set_type(scale_b, c_.scale_b, c_.e8m0_type, args.scale_b_type);
    args.zero_b = given(zero_b, c_.zeros);
    if (c_.tensor_scales) args.tensor_scale_b = tensor_b.tensor();
    if (c_.tensor_scales && takes_scales_of_a()) args.tensor_scale_a = tensor_a.tensor();
    if (!c_.bias && !c_.gate && !c_.relu) return;
    if (c_.bias) epilogue.bias = bias.tensor();
    if (c_.gate) epilogue.flags = QUERN_EPILOGUE_GATE;
    if (c_.relu) epilogue.activation = QUERN_ACTIVATION_RELU;
    args.epilogue = &epilogue;
  }

  QuantizedCase c_;

 public:
  QuantizedOperand a, b;
  Array scale_a, scale_b, zero_b, tensor_a, tensor_b, bias, out;
  Buffer workspace;
};

}  // namespace quern::test
