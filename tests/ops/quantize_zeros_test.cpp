// Zeros keep their sign, whatever the scale that they are divided by.
// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/compiled.h"
#include "tests/ops/rows.h"

namespace quern::test {
namespace {

constexpr ThreeCalls<quern_quantize_args> kQuantize{quern_quantize, quern_quantize_workspace, quern_quantize_prepare};

TEST(QuantizeZeros, KeepTheirSign) {
  constexpr std::int64_t kRows = 40, kColumns = 256;
  for (const std::int32_t kind : {QUERN_SCALE_TENSOR, QUERN_SCALE_TOKEN, QUERN_SCALE_GROUP}) {
    Array x(Element::f32, {kRows, kColumns}), out(Element::e4m3, {kRows, kColumns});
    Array scale = kind == QUERN_SCALE_TENSOR  ? Array(Element::f32, {1})
                  : kind == QUERN_SCALE_TOKEN ? Array(Element::f32, {kRows})
                                              : Array(Element::f32, {kRows, kColumns / 128});
    Random random("signs of zeros");
    // Scales of all kinds: of some the reciprocal's rest is negative, and of some it is not.
    for (std::int64_t r = 0; r < kRows; ++r) {
      for (std::int64_t i = 0; i < kColumns; ++i) x.set(i % 2 == 0 ? random.normal() : i % 4 == 1 ? -0.0 : 0.0, r, i);
    }
    for (Array* each : {&x, &out, &scale}) each->upload();
    auto args = sized<quern_quantize_args>();
    args.x = x.tensor(), args.out = out.tensor(), args.scale = scale.tensor(), args.scale_kind = kind;
    ASSERT_NO_FATAL_FAILURE(run_op(context(), kQuantize, args));
    out.download();
    std::int64_t wrong = 0;
    for (std::int64_t at = 0; at < kRows * kColumns; ++at) {
      const unsigned char code = out.memory()[static_cast<std::size_t>(at)];
      if (at % 2 != 0) wrong += code != (at % 4 == 1 ? 0x80 : 0x00);
    }
    EXPECT_EQ(wrong, 0) << kind << "; QUERN_TEST_SEED=" << run_seed();
  }
}

}  // namespace
}  // namespace quern::test
