// norm with results of 8 bits, which are quantize's.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/ops/norm_fixture.h"

namespace quern::test {
namespace {

// 8 bits are the quantiser's, to the bit.
TEST(NormCodes, AreThoseOfQuantize) {
  for (const int kind : {QUERN_NORM_LAYER, QUERN_NORM_RMS}) {
    for (const int scales : {QUERN_SCALE_STATIC, QUERN_SCALE_TENSOR, QUERN_SCALE_TOKEN, QUERN_SCALE_GROUP}) {
      SCOPED_TRACE(kind * 10 + scales);
      QuantizeCase q;
      q.name = "codes", q.rows = 5, q.n = 256, q.kind = scales, q.weight = Parameter::like_x, q.residual = true;
      q.front = kind == QUERN_NORM_RMS ? QUERN_FRONT_RMSNORM : QUERN_FRONT_LAYERNORM;
      q.bias = kind == QUERN_NORM_RMS ? Parameter::none : Parameter::like_x;
      q.sum = Where::own, q.dense = Where::own;
      if (scales != QUERN_SCALE_STATIC) q.flags = QUERN_QUANTIZE_POWER_OF_TWO;
      QuantizeProblem problem(q, Random("codes"));
      ASSERT_NO_FATAL_FAILURE(problem.run(context()));
      const std::vector<unsigned char> expected = problem.results();
      auto args = sized<quern_norm_args>();
      const quern_quantize_args& given = problem.args;
      args.x = given.x, args.residual = given.residual, args.weight = given.weight, args.bias = given.bias;
      args.out = given.out, args.residual_out = given.residual_out, args.out_scale = given.scale;
      args.dense = given.dense, args.kind = kind, args.scale_kind = scales, args.eps = given.eps;
      if (scales != QUERN_SCALE_STATIC) args.flags = QUERN_NORM_POWER_OF_TWO;
      auto error = sized<quern_error>();
      std::uint64_t bytes = 0;
      ASSERT_EQ(quern_norm_workspace(context(), &args, &bytes, &error), QUERN_OK) << error.text;
      Buffer workspace(bytes, 0);
      args.workspace = workspace.data(), args.workspace_size = bytes;
      problem.put();
      ASSERT_EQ(quern_norm(context(), &args, &error), QUERN_OK) << error.text;
      synchronize();
      problem.get();
      EXPECT_EQ(problem.results(), expected);
    }
  }
}

// What quantize has no front for is what it makes of the norm's rows in f32, to the bit.
TEST(NormCodes, AreThoseOfTheRows) {
  struct Kind {
    const char* name;
    int kind, scales;
    bool bias, modulated;
    std::int64_t n;
  };
  for (const Kind& k : {Kind{"adaln_tokens", QUERN_NORM_LAYER, QUERN_SCALE_TOKEN, false, true, 256},
                        Kind{"adaln_groups", QUERN_NORM_LAYER, QUERN_SCALE_GROUP, true, true, 320},
                        Kind{"l2_tensor", QUERN_NORM_L2, QUERN_SCALE_TENSOR, false, false, 256},
                        Kind{"rms_static_pieces", QUERN_NORM_RMS, QUERN_SCALE_STATIC, true, false, 20000}}) {
    SCOPED_TRACE(k.name);
    NormCase c;
    c.name = k.name, c.rows = 4, c.n = k.n, c.kind = k.kind, c.out = Element::f32, c.residual = true;
    c.sum = Where::own, c.weight = Parameter::like_x, c.bias = k.bias ? Parameter::like_x : Parameter::none;
    if (k.modulated) c.scale = c.shift = Parameter::f32, c.m = 2;
    Norm norm(c);
    ASSERT_NO_FATAL_FAILURE(norm.run(context()));
    const std::vector<unsigned char> sum = norm.sum.all_found();
    // Both ways into tensors of their own.
    const std::int64_t scales = k.scales == QUERN_SCALE_TOKEN   ? c.rows
                                : k.scales == QUERN_SCALE_GROUP ? c.rows * ((c.n + 127) / 128)
                                                                : 1;
    Matrix codes[2], found[2];
    for (int way = 0; way < 2; ++way) {
      codes[way].set(Element::e4m3, c.rows, c.n, c.n);
      found[way].set(Element::f32, 1, scales, scales);
      TensorBox& box = found[way].box;
      if (k.scales == QUERN_SCALE_GROUP) {
        box.shape[0] = c.rows, box.shape[1] = scales / c.rows, box.strides[0] = scales / c.rows;
      } else {
        box.tensor.ndim = 1, box.shape[0] = scales, box.strides[0] = 1;
      }
      for (std::int64_t i = 0; i < scales; ++i) found[way].put(0, i, 0.01);
      found[way].upload();
      codes[way].poison();
    }
    auto error = sized<quern_error>();
    std::uint64_t bytes = 0;
    auto rows = sized<quern_quantize_args>();
    rows.x = norm.out.box.get(), rows.out = codes[0].box.get(), rows.scale = found[0].box.get();
    rows.scale_kind = k.scales;
    ASSERT_EQ(quern_quantize_workspace(context(), &rows, &bytes, &error), QUERN_OK) << error.text;
    Buffer first(bytes, 0);
    rows.workspace = first.data(), rows.workspace_size = bytes;
    ASSERT_EQ(quern_quantize(context(), &rows, &error), QUERN_OK) << error.text;
    quern_norm_args args = norm.args;
    args.flags = 0, args.out = codes[1].box.get(), args.out_scale = found[1].box.get(), args.scale_kind = k.scales;
    ASSERT_EQ(quern_norm_workspace(context(), &args, &bytes, &error), QUERN_OK) << error.text;
    Buffer second(bytes, 0);
    args.workspace = second.data(), args.workspace_size = bytes;
    ASSERT_EQ(quern_norm_prepare(context(), &args, &error), QUERN_OK) << error.text;
    args.flags = QUERN_CALL_CACHED_ONLY;
    norm.sum.poison();
    for (int round = 0; round < 2; ++round) {
      ASSERT_EQ(quern_norm(context(), &args, &error), QUERN_OK) << error.text;
      synchronize();
      for (int way = 0; way < 2; ++way) codes[way].download(), found[way].download();
      norm.sum.download();
      EXPECT_EQ(codes[1].all_found(), codes[0].all_found());
      EXPECT_EQ(found[1].all_found(), found[0].all_found());
      EXPECT_EQ(norm.sum.all_found(), sum);
    }
  }
}

}  // namespace
}  // namespace quern::test
