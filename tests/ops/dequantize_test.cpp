// dequantize against x * scale for every kind of scale and dtype, and as the inverse of quantize.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "tests/ops/quantize_problem.h"
#include "tests/ops/refusal.h"

namespace quern::test {
namespace {

struct Shape {
  const char* name;
  Element x, out;
  std::int64_t rows, n;
  int kind;
  int alignment = 0;
  std::int64_t padding = 0;
  int max_sms = 0;
  bool bytes = false;
};
void PrintTo(const Shape& shape, std::ostream* out) { *out << shape.name; }

class Dequantization {
 public:
  explicit Dequantization(const Shape& s) : args(sized<quern_dequantize_args>()), s_(s) {
    Random random(s.name);
    x.set(s.x, s.rows, s.n, s.n + s.padding);
    out.set(s.out, s.rows, s.n, s.n + s.padding);
    const std::int64_t blocks = (s.rows + 127) / 128, groups = (s.n + 127) / 128;
    if (s.kind != QUERN_SCALE_NONE) {
      scale.set(Element::f32,
                s.kind == QUERN_SCALE_BLOCK    ? blocks
                : s.kind <= QUERN_SCALE_TENSOR ? 1
                                               : s.rows,
                s.kind >= QUERN_SCALE_GROUP ? groups : 1, s.kind >= QUERN_SCALE_GROUP ? groups + 2 : 1);
      if (s.kind < QUERN_SCALE_GROUP) scale.box.tensor.ndim = 1;
    }
    for (std::int64_t r = 0; r < s.rows; ++r) {
      for (std::int64_t k = 0; k < s.n; ++k) x.put(r, k, 20.0 * random.normal());
    }
    for (std::int64_t r = 0; scale.given() && r < scale.box.shape[0]; ++r) {
      for (std::int64_t k = 0; k < (s.kind >= QUERN_SCALE_GROUP ? groups : 1); ++k)
        scale.put(r, k, std::exp(random.normal()));
    }
    if (s.bytes) {
      x.box.tensor.dtype = {kDLUInt, 8, 1};
      args.type = s.x.kind() == Element::e4m3 ? QUERN_FP8_E4M3 : QUERN_FP8_E5M2;
    }
    args.x = x.box.get(), args.out = out.box.get(), args.scale = scale.given() ? scale.box.get() : nullptr;
    args.scale_kind = s.kind, args.alignment = s.alignment, args.max_sms = s.max_sms;
  }

  void run() {
    x.upload();
    if (scale.given()) scale.upload();
    out.poison();
    auto error = sized<quern_error>();
    std::uint64_t bytes = 1;
    ASSERT_EQ(quern_dequantize_workspace(context(), &args, &bytes, &error), QUERN_OK) << error.text;
    EXPECT_EQ(bytes, 0u);
    ASSERT_EQ(quern_dequantize_prepare(context(), &args, &error), QUERN_OK) << error.text;
    args.flags |= QUERN_CALL_CACHED_ONLY;
    ASSERT_EQ(quern_dequantize(context(), &args, &error), QUERN_OK) << error.text;
    synchronize();
    out.download();
  }

  void check() const {
    std::int64_t wrong = 0;
    for (std::int64_t r = 0; r < s_.rows; ++r) {
      for (std::int64_t k = 0; k < s_.n; ++k) {
        const std::int64_t row = s_.kind <= QUERN_SCALE_TENSOR ? 0 : s_.kind == QUERN_SCALE_BLOCK ? r / 128 : r;
        const double by = scale.given() ? scale.at(row, s_.kind >= QUERN_SCALE_GROUP ? k / 128 : 0) : 1.0;
        // The product rounded to f32, and that to the dtype.
        wrong += out.found(r, k) != s_.out.rounded(static_cast<float>(x.at(r, k) * by));
      }
    }
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(out.spoilt(), 0);
  }

  quern_dequantize_args args;
  Matrix x, scale, out;

 private:
  const Shape s_;
};

class Dequantize : public testing::TestWithParam<Shape> {};
INSTANTIATE_TEST_SUITE_P(
    Shapes, Dequantize,
    testing::Values(Shape{"none", Element::e4m3, Element::bf16, 3, 144, QUERN_SCALE_NONE},
                    Shape{"given", Element::e5m2, Element::f16, 5, 320, QUERN_SCALE_STATIC},
                    Shape{"tensor", Element::e4m3, Element::f32, 2, 9216, QUERN_SCALE_TENSOR},
                    Shape{"token", Element::e4m3, Element::bf16, 70, 256, QUERN_SCALE_TOKEN, 0, 16, 1},
                    Shape{"group", Element::e4m3, Element::bf16, 5, 400, QUERN_SCALE_GROUP, 0, 0, 0, true},
                    Shape{"group_tail", Element::e5m2, Element::f32, 6, 301, QUERN_SCALE_GROUP, 4, 3},
                    Shape{"block", Element::e4m3, Element::bf16, 300, 272, QUERN_SCALE_BLOCK},
                    Shape{"block_tail", Element::e4m3, Element::f16, 129, 131, QUERN_SCALE_BLOCK, 4, 1},
                    Shape{"int8_token", Element::i8, Element::bf16, 70, 256, QUERN_SCALE_TOKEN, 0, 16},
                    Shape{"int8_group_tail", Element::i8, Element::f32, 6, 301, QUERN_SCALE_GROUP, 4, 3},
                    Shape{"int8_block", Element::i8, Element::f16, 130, 144, QUERN_SCALE_BLOCK},
                    Shape{"no_rows", Element::e4m3, Element::bf16, 0, 256, QUERN_SCALE_GROUP}),
    [](const testing::TestParamInfo<Shape>& s) { return std::string(s.param.name); });

TEST_P(Dequantize, IsWhatItsDefinitionSays) {
  Dequantization problem(GetParam());
  ASSERT_NO_FATAL_FAILURE(problem.run());
  problem.check();
}

// Quantised again by the same scales, the codes come back.
TEST(DequantizeOfQuantize, GivesBackWhatWasThere) {
  QuantizeCase c;
  c.name = "there and back", c.rows = 9, c.n = 512, c.x = Element::f32;
  QuantizeProblem there(c, Random(c.name));
  ASSERT_NO_FATAL_FAILURE(there.run(context()));
  Dequantization back({"back", Element::e4m3, Element::f32, 9, 512, QUERN_SCALE_GROUP});
  back.args.x = there.args.out, back.args.scale = there.args.scale;
  auto error = sized<quern_error>();
  ASSERT_EQ(quern_dequantize(context(), &back.args, &error), QUERN_OK) << error.text;
  synchronize();
  back.out.download();
  for (std::int64_t r = 0; r < 9; ++r) {
    for (std::int64_t k = 0; k < 512; ++k) {
      const double x = there.x.at(r, k), scale = there.scale.found(r, k / 128);
      // Half a step of the code's, which at the least is the smallest subnormal's.
      EXPECT_LE(std::fabs(back.out.found(r, k) - x), std::fmax(0x1p-4 * std::fabs(x), 0x1p-10 * scale) * 1.0001)
          << r << ", " << k;
    }
  }
}

TEST(DequantizeRefuses, EveryWrongArgument) {
  using D = Dequantization&;
  const std::vector<Mistake<Dequantization>> mistakes = {
      {"x NULL", {"x", "NULL"}, [](D d) { d.args.x = nullptr; }},
      {"scale NULL", {"scale", "NULL"}, [](D d) { d.args.scale = nullptr; }},
      {"out NULL", {"out", "NULL"}, [](D d) { d.args.out = nullptr; }},
      {"a scale with none", {"scale", "QUERN_SCALE_NONE"}, [](D d) { d.args.scale_kind = QUERN_SCALE_NONE; }},
      {"scale_kind", {"scale_kind", "6"}, [](D d) { d.args.scale_kind = 6; }},
      {"x's dtype", {"x", "f32"}, [](D d) { d.x.box.tensor.dtype = kFloat32; }},
      {"out's dtype", {"out", "int32"}, [](D d) { d.out.box.tensor.dtype = kInt32; }},
      {"scale's dtype", {"scale", "f32"}, [](D d) { d.scale.box.tensor.dtype = dtype_of(Format::f16); }},
      {"bytes without a type", {"type", "uint8"}, [](D d) { d.x.box.tensor.dtype = {kDLUInt, 8, 1}; }},
      {"another type", {"type"}, [](D d) { d.args.type = QUERN_FP8_E5M2; }},
      {"x's rank", {"x", "dimensions"}, [](D d) { d.x.box.tensor.ndim = 1; }},
      {"scale's rank", {"scale", "dimensions"}, [](D d) { d.scale.box.tensor.ndim = 1; }},
      {"out's rows", {"out.shape[0]", "5"}, [](D d) { d.out.box.shape[0] = 4; }},
      {"out's columns", {"out.shape[1]", "320"}, [](D d) { d.out.box.shape[1] = 319; }},
      {"scale's rows", {"scale.shape[0]", "5"}, [](D d) { d.scale.box.shape[0] = 1; }},
      {"scale's groups", {"scale.shape[1]", "3"}, [](D d) { d.scale.box.shape[1] = 2; }},
      {"no columns", {"x.shape[1]", "0"}, [](D d) { d.x.box.shape[1] = 0; }},
      {"x's last stride", {"x.strides[1]", "1"}, [](D d) { d.x.box.strides[1] = 2; }},
      {"out's rows over each other", {"out.strides[0]"}, [](D d) { d.out.box.strides[0] = 16; }},
      {"x's alignment", {"x", "stride"}, [](D d) { d.x.box.strides[0] = 324; }},
      {"out's alignment", {"out", "data"}, [](D d) { d.out.box.tensor.byte_offset = 8; }, true},
      {"x without data", {"x", "NULL"}, [](D d) { d.x.box.tensor.data = nullptr; }, true},
      {"another device",
       {"x", "ROCm"},
       [](D d) { d.x.box.tensor.device.device_type = static_cast<decltype(DLDevice::device_type)>(kDLROCM); }},
      {"alignment 2", {"alignment", "2"}, [](D d) { d.args.alignment = 2; }},
      {"a flag of another op", {"flags"}, [](D d) { d.args.flags = QUERN_QUANTIZE_POWER_OF_TWO; }},
      {"no size", {"size"}, [](D d) { d.args.size = 0; }},
  };
  expect_all_refused(
      mistakes,
      ThreeCalls<quern_dequantize_args>{quern_dequantize, quern_dequantize_workspace, quern_dequantize_prepare},
      [] {
        return std::make_unique<Dequantization>(
            Shape{"refused", Element::e4m3, Element::bf16, 5, 320, QUERN_SCALE_GROUP});
      },
      [](D d) {
        return [&d] {
          d.out.download();
          return std::ranges::all_of(d.out.all_found(), [](unsigned char byte) { return byte == 0xee; });
        };
      });
}

}  // namespace
}  // namespace quern::test
