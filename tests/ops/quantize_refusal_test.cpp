// What quantize refuses: the status, what the text names, and that nothing was written.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <memory>

#include "tests/ops/quantize_problem.h"
#include "tests/ops/refusal.h"

namespace quern::test {
namespace {

using P = QuantizeProblem&;
void expect_all_refused(const QuantizeCase& c, const std::vector<Mistake<QuantizeProblem>>& mistakes) {
  expect_all_refused(
      mistakes, ThreeCalls<quern_quantize_args>{quern_quantize, quern_quantize_workspace, quern_quantize_prepare},
      [&] { return std::make_unique<QuantizeProblem>(c, Random(c.name)); },
      [](P p) {
        return [&p] {
          bool poisoned = true;
          for (Matrix* m : {&p.out, &p.scale, &p.residual_out, &p.dense}) {
            if (!m->given()) continue;
            m->download();
            for (const unsigned char byte : m->all_found()) poisoned &= byte == 0xee;
          }
          return poisoned;
        };
      });
}

TEST(QuantizeRefuses, EveryWrongArgumentOfANorm) {
  QuantizeCase c;
  c.name = "refused norm", c.front = QUERN_FRONT_LAYERNORM, c.rows = 5, c.n = 320, c.padding = 16;
  c.residual = true, c.sum = Where::own, c.dense = Where::own, c.weight = Parameter::like_x, c.bias = Parameter::like_x;
  expect_all_refused(
      c,
      {
          {"x NULL", {"x", "NULL"}, [](P p) { p.args.x = nullptr; }},
          {"out NULL", {"out", "NULL"}, [](P p) { p.args.out = nullptr; }},
          {"scale NULL", {"scale", "NULL"}, [](P p) { p.args.scale = nullptr; }},
          {"residual_out alone", {"residual_out", "without residual"}, [](P p) { p.args.residual = nullptr; }},
          {"front", {"front", "6"}, [](P p) { p.args.front = 6; }},
          {"front negative", {"front", "-1"}, [](P p) { p.args.front = -1; }},
          {"scale_kind", {"scale_kind", "9"}, [](P p) { p.args.scale_kind = 9; }},
          {"a bias without its norm",
           {"bias", "QUERN_FRONT_LAYERNORM"},
           [](P p) { p.args.front = QUERN_FRONT_RMSNORM; }},
          {"a residual without a norm", {"residual", "front"}, [](P p) { p.args.front = QUERN_FRONT_NONE; }},
          {"a block behind a norm", {"front", "QUERN_SCALE_BLOCK"}, [](P p) { p.args.scale_kind = QUERN_SCALE_BLOCK; }},
          {"eps negative", {"eps"}, [](P p) { p.args.eps = -1.0f; }},
          {"eps NaN", {"eps"}, [](P p) { p.args.eps = std::numeric_limits<float>::quiet_NaN(); }},
          {"x's rank", {"x", "dimensions"}, [](P p) { p.x.box.tensor.ndim = 1; }},
          {"x's dtype", {"x", "e4m3"}, [](P p) { p.x.box.tensor.dtype = Element(Element::e4m3).type(); }},
          {"out's dtype", {"out", "bf16"}, [](P p) { p.out.box.tensor.dtype = dtype_of(Format::bf16); }},
          {"bytes without a type", {"type", "uint8"}, [](P p) { p.out.box.tensor.dtype = {kDLUInt, 8, 1}; }},
          {"another type", {"type"}, [](P p) { p.args.type = QUERN_FP8_E5M2; }},
          {"no such type", {"type", "3"}, [](P p) { p.args.type = 3; }},
          {"a type of int8",
           {"type", "int8"},
           [](P p) { p.out.box.tensor.dtype = {kDLInt, 8, 1}, p.args.type = QUERN_FP8_E4M3; }},
          {"residual's dtype", {"residual", "bf16"}, [](P p) { p.residual.box.tensor.dtype = dtype_of(Format::f16); }},
          {"residual_out's dtype", {"residual_out", "bf16"}, [](P p) { p.residual_out.box.tensor.dtype = kFloat32; }},
          {"dense's dtype", {"dense", "bf16"}, [](P p) { p.dense.box.tensor.dtype = kFloat32; }},
          {"weight's dtype", {"weight", "bf16", "f32"}, [](P p) { p.weight.box.tensor.dtype = dtype_of(Format::f16); }},
          {"bias unlike weight", {"bias", "bf16"}, [](P p) { p.bias.box.tensor.dtype = kFloat32; }},
          {"scale's dtype", {"scale", "f32"}, [](P p) { p.scale.box.tensor.dtype = dtype_of(Format::bf16); }},
          {"out's rows", {"out.shape[0]", "5"}, [](P p) { p.out.box.shape[0] = 4; }},
          {"out's columns", {"out.shape[1]", "320"}, [](P p) { p.out.box.shape[1] = 336; }},
          {"residual's rows", {"residual.shape[0]", "5"}, [](P p) { p.residual.box.shape[0] = 1; }},
          {"weight's length", {"weight.shape[0]", "320"}, [](P p) { p.weight.box.shape[0] = 319; }},
          {"bias's length", {"bias.shape[0]", "320"}, [](P p) { p.bias.box.shape[0] = 1; }},
          {"scale's rank", {"scale", "dimensions"}, [](P p) { p.scale.box.tensor.ndim = 1; }},
          {"scale's rows", {"scale.shape[0]", "5"}, [](P p) { p.scale.box.shape[0] = 1; }},
          {"scale's groups", {"scale.shape[1]", "3"}, [](P p) { p.scale.box.shape[1] = 2; }},
          {"scales over each other", {"scale.strides[1]", "0"}, [](P p) { p.scale.box.strides[1] = 0; }},
          {"no columns", {"x.shape[1]", "0"}, [](P p) { p.x.box.shape[1] = 0; }},
          {"a negative extent", {"x.shape[0]"}, [](P p) { p.x.box.shape[0] = -1; }},
          {"x's last stride", {"x.strides[1]", "1"}, [](P p) { p.x.box.strides[1] = 2; }},
          {"out's rows over each other", {"out.strides[0]"}, [](P p) { p.out.box.strides[0] = 160; }},
          {"dense's rows over each other", {"dense.strides[0]"}, [](P p) { p.dense.box.strides[0] = 0; }},
          {"x's alignment", {"x", "stride"}, [](P p) { p.x.box.strides[0] = 324; }},
          {"out's alignment", {"out", "stride"}, [](P p) { p.out.box.strides[0] = 328; }},
          {"weight's alignment", {"weight", "data"}, [](P p) { p.weight.box.tensor.byte_offset = 2; }, true},
          {"x's data misaligned", {"x", "data"}, [](P p) { p.x.box.tensor.byte_offset = 8; }, true},
          {"scale's data misaligned", {"scale", "data"}, [](P p) { p.scale.box.tensor.byte_offset = 2; }, true},
          {"x without data", {"x", "NULL"}, [](P p) { p.x.box.tensor.data = nullptr; }, true},
          {"scale without data", {"scale", "NULL"}, [](P p) { p.scale.box.tensor.data = nullptr; }, true},
          {"dense over residual_out", {"dense", "residual_out"}, [](P p) { p.args.dense = p.args.residual_out; }, true},
          {"in place with other rows",
           {"residual_out", "x", "apart"},
           [](P p) { p.residual_out.box.tensor.data = p.x.box.tensor.data, p.residual_out.box.strides[0] = 352; },
           true},
          {"another device",
           {"out", "ROCm"},
           [](P p) { p.out.box.tensor.device.device_type = static_cast<decltype(DLDevice::device_type)>(kDLROCM); }},
          {"alignment 2", {"alignment", "2"}, [](P p) { p.args.alignment = 2; }},
          {"max_sms negative", {"max_sms", "-1"}, [](P p) { p.args.max_sms = -1; }},
          {"a flag of another op", {"flags"}, [](P p) { p.args.flags = QUERN_ATTENTION_WINDOW_RIGHT; }},
          {"no size", {"size"}, [](P p) { p.args.size = 0; }},
      });
}

TEST(QuantizeRefuses, EveryWrongArgumentOfAProduct) {
  QuantizeCase c;
  c.name = "refused product", c.front = QUERN_FRONT_SILU_MUL, c.rows = 5, c.n = 320, c.kind = QUERN_SCALE_TOKEN;
  expect_all_refused(
      c, {
             {"an odd row", {"x.shape[1]", "639", "even"}, [](P p) { p.x.box.shape[1] = 639; }},
             {"out as wide as x", {"out.shape[1]", "320"}, [](P p) { p.out.box.shape[1] = 640; }},
             {"scale's rows", {"scale.shape[0]", "5"}, [](P p) { p.scale.box.shape[0] = 6; }},
             {"a weight", {"weight", "front"}, [](P p) { p.args.weight = p.args.scale; }},
             {"1 + no weight",
              {"QUERN_QUANTIZE_WEIGHT_PLUS_ONE", "weight"},
              [](P p) { p.args.flags = QUERN_QUANTIZE_WEIGHT_PLUS_ONE; }},
             {"no scale, but codes", {"out", "QUERN_SCALE_NONE"}, [](P p) { p.args.scale_kind = QUERN_SCALE_NONE; }},
         });
}

TEST(QuantizeRefuses, WhatATensorsScaleCannotBe) {
  QuantizeCase c;
  c.name = "refused tensor", c.rows = 5, c.n = 320, c.kind = QUERN_SCALE_TENSOR;
  expect_all_refused(
      c, {
             {"several scales", {"scale.shape[0]", "1"}, [](P p) { p.scale.box.shape[0] = 5; }},
             {"invariance", {"QUERN_CALL_BATCH_INVARIANT"}, [](P p) { p.args.flags = QUERN_CALL_BATCH_INVARIANT; }},
             {"no workspace", {"workspace_size", "0"}, [](P) {}, true},
             {"a given scale rounded",
              {"QUERN_QUANTIZE_POWER_OF_TWO"},
              [](P p) { p.args.flags = QUERN_QUANTIZE_POWER_OF_TWO, p.args.scale_kind = QUERN_SCALE_STATIC; }},
         });
}

TEST(QuantizeRefuses, NothingToWrite) {
  QuantizeCase c;
  c.name = "refused none", c.kind = QUERN_SCALE_NONE, c.dense = Where::own;
  expect_all_refused(c, {{"dense NULL", {"dense", "NULL", "QUERN_SCALE_NONE"}, [](P p) { p.args.dense = nullptr; }},
                         {"a scale", {"scale", "QUERN_SCALE_NONE"}, [](P p) { p.args.scale = p.args.x; }}});
}

}  // namespace
}  // namespace quern::test
