// quantize against its definition in fp64: every front, kind of scale and dtype, with tails, strides, aliases and odd
// values.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "tests/ops/compiled.h"
#include "tests/ops/manifest.h"
#include "tests/ops/quantize_problem.h"

namespace quern::test {
namespace {

class Cases {
 public:
  QuantizeCase& add(const char* name, int front, int kind, std::int64_t rows, std::int64_t n) {
    QuantizeCase c;
    c.name = name, c.front = front, c.kind = kind, c.rows = rows, c.n = n;
    cases_.push_back(c);
    return cases_.back();
  }
  std::vector<QuantizeCase*> each() {
    std::vector<QuantizeCase*> all;
    for (QuantizeCase& c : cases_) all.push_back(&c);
    return all;
  }
  std::vector<QuantizeCase> take() { return std::move(cases_); }

 private:
  std::vector<QuantizeCase> cases_;
};

constexpr std::uint32_t kPowerOfTwo = QUERN_QUANTIZE_POWER_OF_TWO;

std::vector<QuantizeCase> plain() {
  Cases all;
  const int front = QUERN_FRONT_NONE;
  {
    QuantizeCase& c = all.add("group", front, QUERN_SCALE_GROUP, 5, 384);
    c.odd_values = true, c.padding = 16, c.scale_columns_first = true;
  }
  all.add("group_of_one", front, QUERN_SCALE_GROUP, 1, 128);
  all.add("group_rehearsed", front, QUERN_SCALE_GROUP, 3, 400).flags = QUERN_CALL_PROGRAMMATIC;
  all.add("group_pow2", front, QUERN_SCALE_GROUP, 9, 256).flags = kPowerOfTwo;
  {
    QuantizeCase& c = all.add("group_tail", front, QUERN_SCALE_GROUP, 6, 100);
    c.odd_values = true, c.alignment = 4;
  }
  {
    QuantizeCase& c = all.add("group_tail_aligned", front, QUERN_SCALE_GROUP, 3, 300);
    c.padding = 4, c.dense = Where::own;
  }
  {
    QuantizeCase& c = all.add("group_7", front, QUERN_SCALE_GROUP, 7, 7);
    c.alignment = 4, c.padding = 1, c.x = Element::f16, c.out = Element::e5m2;
  }
  {
    QuantizeCase& c = all.add("group_7168", front, QUERN_SCALE_GROUP, 3, 7168);
    c.scale_columns_first = true, c.flags = QUERN_CALL_PROGRAMMATIC | QUERN_CALL_BATCH_INVARIANT;
  }
  {
    QuantizeCase& c = all.add("group_pieces", front, QUERN_SCALE_GROUP, 2, 9008);
    c.x = Element::f32, c.dense = Where::x;
  }
  {
    QuantizeCase& c = all.add("group_few_blocks", front, QUERN_SCALE_GROUP, 90, 640);
    c.x = Element::f32, c.out = Element::e5m2, c.odd_values = true, c.max_sms = 1, c.alignment = 8,
    c.flags = kPowerOfTwo;
  }
  // From the smallest number there is to the largest: a scale is never subnormal.
  for (const bool power_of_two : {false, true}) {
    QuantizeCase& c = all.add(power_of_two ? "group_sizes_pow2" : "group_sizes", front, QUERN_SCALE_GROUP, 60, 128);
    c.x = Element::f32, c.size_least = -150, c.size_most = 127, c.odd_values = true,
    c.flags = power_of_two ? kPowerOfTwo : 0;
  }
  all.add("group_none", front, QUERN_SCALE_GROUP, 0, 256);
  all.add("token", front, QUERN_SCALE_TOKEN, 9, 64).odd_values = true;
  {
    QuantizeCase& c = all.add("token_tail", front, QUERN_SCALE_TOKEN, 5, 1001);
    c.alignment = 4, c.padding = 3, c.odd_values = true, c.bytes = true;
  }
  {
    QuantizeCase& c = all.add("token_7168", front, QUERN_SCALE_TOKEN, 3, 7168);
    c.flags = kPowerOfTwo, c.out = Element::e5m2, c.bytes = true;
  }
  all.add("token_long", front, QUERN_SCALE_TOKEN, 2, 40000).odd_values = true;
  {
    QuantizeCase& c = all.add("static", front, QUERN_SCALE_STATIC, 6, 512);
    c.odd_values = true, c.x = Element::f16;
  }
  {
    QuantizeCase& c = all.add("static_negative", front, QUERN_SCALE_STATIC, 2, 512);
    c.given_scale = -0.01, c.odd_values = true;
  }
  {
    QuantizeCase& c = all.add("tensor", front, QUERN_SCALE_TENSOR, 70, 320);
    c.odd_values = true, c.padding = 64, c.flags = QUERN_CALL_PROGRAMMATIC;
  }
  {
    QuantizeCase& c = all.add("tensor_pieces", front, QUERN_SCALE_TENSOR, 3, 16640);
    c.flags = kPowerOfTwo, c.dense = Where::x;
  }
  all.add("tensor_none", front, QUERN_SCALE_TENSOR, 0, 320);
  {
    QuantizeCase& c = all.add("block", front, QUERN_SCALE_BLOCK, 300, 384);
    c.odd_values = true, c.padding = 16, c.dense = Where::own;
  }
  {
    QuantizeCase& c = all.add("block_tail", front, QUERN_SCALE_BLOCK, 129, 203);
    c.alignment = 4, c.padding = 1, c.odd_values = true, c.x = Element::f32, c.flags = kPowerOfTwo, c.max_sms = 1;
  }
  {
    QuantizeCase& c = all.add("block_small", front, QUERN_SCALE_BLOCK, 3, 128);
    c.x = Element::f16, c.out = Element::e5m2;
  }
  return all.take();
}

std::vector<QuantizeCase> norms() {
  Cases all;
  // Few blocks behind another launch go through their work once on no row.
  for (const int kind : {QUERN_SCALE_GROUP, QUERN_SCALE_TOKEN, QUERN_SCALE_NONE}) {
    QuantizeCase& c = all.add(kind == QUERN_SCALE_GROUP   ? "rms_rehearsed_group"
                              : kind == QUERN_SCALE_TOKEN ? "rms_rehearsed_token"
                                                          : "rms_rehearsed",
                              QUERN_FRONT_RMSNORM, kind, 2, kind == QUERN_SCALE_TOKEN ? 256 : 4096);
    c.residual = true, c.sum = Where::residual, c.weight = Parameter::like_x, c.flags = QUERN_CALL_PROGRAMMATIC;
    if (kind == QUERN_SCALE_NONE) c.dense = Where::own;
  }
  {
    QuantizeCase& c = all.add("rms_group", QUERN_FRONT_RMSNORM, QUERN_SCALE_GROUP, 4, 5120);
    c.residual = true, c.sum = Where::own, c.weight = Parameter::like_x, c.scale_columns_first = true;
  }
  {
    QuantizeCase& c = all.add("rms_group_in_place", QUERN_FRONT_RMSNORM, QUERN_SCALE_GROUP, 5, 1024);
    c.residual = true, c.sum = Where::residual, c.weight = Parameter::f32, c.dense = Where::x, c.padding = 8;
    c.flags = QUERN_QUANTIZE_WEIGHT_PLUS_ONE | kPowerOfTwo, c.x = Element::f16, c.alignment = 8;
  }
  {
    QuantizeCase& c = all.add("rms_token", QUERN_FRONT_RMSNORM, QUERN_SCALE_TOKEN, 9, 128);
    c.residual = true, c.sum = Where::x, c.weight = Parameter::like_x;
  }
  {
    QuantizeCase& c = all.add("rms_token_tail", QUERN_FRONT_RMSNORM, QUERN_SCALE_TOKEN, 3, 2301);
    c.residual = true, c.dense = Where::own, c.alignment = 4, c.padding = 3, c.eps = 0.01f;
  }
  {
    QuantizeCase& c = all.add("rms_long", QUERN_FRONT_RMSNORM, QUERN_SCALE_TOKEN, 2, 33008);
    c.residual = true, c.sum = Where::residual, c.dense = Where::x, c.weight = Parameter::like_x;
  }
  {
    QuantizeCase& c = all.add("rms_dense", QUERN_FRONT_RMSNORM, QUERN_SCALE_NONE, 3, 896);
    c.dense = Where::own, c.weight = Parameter::like_x;
  }
  {
    QuantizeCase& c = all.add("rms_tensor", QUERN_FRONT_RMSNORM, QUERN_SCALE_TENSOR, 40, 528);
    c.residual = true, c.sum = Where::x, c.weight = Parameter::like_x;
  }
  {
    QuantizeCase& c = all.add("rms_static_f32", QUERN_FRONT_RMSNORM, QUERN_SCALE_STATIC, 3, 4096);
    c.x = Element::f32, c.weight = Parameter::f32, c.given_scale = 0.011;
  }
  {
    QuantizeCase& c = all.add("layer_token", QUERN_FRONT_LAYERNORM, QUERN_SCALE_TOKEN, 3, 3004);
    c.padding = 4;
    c.residual = true, c.sum = Where::own, c.weight = Parameter::like_x, c.bias = Parameter::like_x;
  }
  {
    QuantizeCase& c = all.add("layer_group_tail", QUERN_FRONT_LAYERNORM, QUERN_SCALE_GROUP, 7, 333);
    c.alignment = 4, c.padding = 3, c.weight = Parameter::f32, c.bias = Parameter::f32, c.x = Element::f32,
    c.out = Element::e5m2;
  }
  {
    QuantizeCase& c = all.add("layer_small", QUERN_FRONT_LAYERNORM, QUERN_SCALE_STATIC, 11, 40);
    c.padding = 8;
    c.bias = Parameter::f32, c.dense = Where::own;
  }
  {
    QuantizeCase& c = all.add("layer_long", QUERN_FRONT_LAYERNORM, QUERN_SCALE_GROUP, 2, 16912);
    c.x = Element::f32, c.weight = Parameter::f32, c.bias = Parameter::f32, c.residual = true, c.sum = Where::x,
    c.dense = Where::own;
  }
  {
    QuantizeCase& c = all.add("layer_long_tensor", QUERN_FRONT_LAYERNORM, QUERN_SCALE_TENSOR, 2, 16390);
    c.alignment = 4, c.weight = Parameter::like_x, c.padding = 2;
  }
  return all.take();
}

std::vector<QuantizeCase> products() {
  Cases all;
  {
    QuantizeCase& c = all.add("silu_group", QUERN_FRONT_SILU_MUL, QUERN_SCALE_GROUP, 5, 2048);
    c.odd_values = true, c.scale_columns_first = true;
  }
  {
    QuantizeCase& c = all.add("silu_token", QUERN_FRONT_SILU_MUL, QUERN_SCALE_TOKEN, 3, 9216);
    c.dense = Where::own;
  }
  {
    QuantizeCase& c = all.add("silu_odd", QUERN_FRONT_SILU_MUL, QUERN_SCALE_GROUP, 5, 201);
    c.alignment = 4, c.padding = 3, c.odd_values = true;
  }
  {
    QuantizeCase& c = all.add("silu_half_aligned", QUERN_FRONT_SILU_MUL, QUERN_SCALE_STATIC, 4, 260);
    c.padding = 12, c.given_scale = 0.02;
  }
  {
    QuantizeCase& c = all.add("silu_tensor", QUERN_FRONT_SILU_MUL, QUERN_SCALE_TENSOR, 30, 512);
    c.x = Element::f16, c.out = Element::e5m2;
  }
  {
    QuantizeCase& c = all.add("gelu_group", QUERN_FRONT_GELU_MUL, QUERN_SCALE_GROUP, 4, 640);
    c.x = Element::f32;
  }
  all.add("gelu_tanh_token", QUERN_FRONT_GELU_TANH_MUL, QUERN_SCALE_TOKEN, 4, 640).flags = kPowerOfTwo;
  for (const auto& [name, front] :
       {std::pair{"silu_dense_f16", QUERN_FRONT_SILU_MUL}, {"gelu_dense_f16", QUERN_FRONT_GELU_MUL}}) {
    QuantizeCase& c = all.add(name, front, QUERN_SCALE_NONE, 12, 2048);
    c.x = Element::f16, c.dense = Where::own, c.size_least = -6, c.size_most = 3;
  }
  all.add("gelu_group_bf16", QUERN_FRONT_GELU_MUL, QUERN_SCALE_GROUP, 6, 1024).dense = Where::own;
  all.add("gelu_tanh_dense", QUERN_FRONT_GELU_TANH_MUL, QUERN_SCALE_NONE, 4, 384).dense = Where::own;
  return all.take();
}

// Symmetric int8, by every kind of scale.
std::vector<QuantizeCase> integers() {
  Cases all;
  all.add("int8_group", QUERN_FRONT_NONE, QUERN_SCALE_GROUP, 5, 384).odd_values = true;
  all.add("int8_group_pow2", QUERN_FRONT_NONE, QUERN_SCALE_GROUP, 9, 256).flags = kPowerOfTwo;
  QuantizeCase& token = all.add("int8_token", QUERN_FRONT_NONE, QUERN_SCALE_TOKEN, 9, 7168);
  token.odd_values = true, token.x = Element::f16;
  QuantizeCase& tail = all.add("int8_token_tail", QUERN_FRONT_NONE, QUERN_SCALE_TOKEN, 5, 1001);
  tail.alignment = 4, tail.padding = 3, tail.odd_values = true, tail.dense = Where::own;
  all.add("int8_token_long", QUERN_FRONT_NONE, QUERN_SCALE_TOKEN, 2, 40000).x = Element::f32;
  QuantizeCase& tensor = all.add("int8_tensor", QUERN_FRONT_NONE, QUERN_SCALE_TENSOR, 70, 320);
  tensor.odd_values = true, tensor.padding = 64;
  all.add("int8_tensor_none", QUERN_FRONT_NONE, QUERN_SCALE_TENSOR, 0, 320);
  QuantizeCase& block = all.add("int8_block", QUERN_FRONT_NONE, QUERN_SCALE_BLOCK, 300, 390);
  block.odd_values = true, block.padding = 10;
  // Most of its numbers are too large for it.
  QuantizeCase& given = all.add("int8_static", QUERN_FRONT_NONE, QUERN_SCALE_STATIC, 6, 512);
  given.odd_values = true, given.given_scale = 0.004, given.x = Element::f32;
  QuantizeCase& norm = all.add("int8_rms_token", QUERN_FRONT_RMSNORM, QUERN_SCALE_TOKEN, 4, 5120);
  norm.residual = true, norm.sum = Where::own, norm.weight = Parameter::like_x;
  QuantizeCase& layer = all.add("int8_layer_group", QUERN_FRONT_LAYERNORM, QUERN_SCALE_GROUP, 7, 333);
  layer.alignment = 4, layer.padding = 3, layer.weight = layer.bias = Parameter::f32, layer.x = Element::f32;
  QuantizeCase& product = all.add("int8_silu_token", QUERN_FRONT_SILU_MUL, QUERN_SCALE_TOKEN, 5, 2048);
  product.odd_values = true;
  for (QuantizeCase* const c : all.each()) c->out = Element::i8;
  return all.take();
}

const ForEveryTarget kTemplates = {
    "quantize * x=bf16 out=int8 scale=token columns=4096",
    "quantize * x=f32 out=int8 scale=group columns=512 tail=1",
    "quantize * x=f16 out=int8 scale=block",
    "dequantize * x=int8 out=bf16",
};

class Quantize : public testing::TestWithParam<QuantizeCase> {};
std::string name_of(const testing::TestParamInfo<QuantizeCase>& c) { return c.param.name; }
INSTANTIATE_TEST_SUITE_P(Plain, Quantize, testing::ValuesIn(plain()), name_of);
INSTANTIATE_TEST_SUITE_P(Norms, Quantize, testing::ValuesIn(norms()), name_of);
INSTANTIATE_TEST_SUITE_P(Integers, Quantize, testing::ValuesIn(integers()), name_of);
INSTANTIATE_TEST_SUITE_P(Products, Quantize, testing::ValuesIn(products()), name_of);

TEST_P(Quantize, IsWhatItsDefinitionSays) {
  QuantizeProblem problem(GetParam(), Random(GetParam().name));
  ASSERT_NO_FATAL_FAILURE(problem.run(context()));
  problem.check();
}

// A row's bits are the same whatever else is in the call, unless rows share a scale.
class QuantizeRow : public testing::TestWithParam<QuantizeCase> {};
INSTANTIATE_TEST_SUITE_P(Alone, QuantizeRow, testing::ValuesIn([] {
                           Cases all;
                           all.add("group", QUERN_FRONT_NONE, QUERN_SCALE_GROUP, 7, 384);
                           QuantizeCase& rms = all.add("rms_token", QUERN_FRONT_RMSNORM, QUERN_SCALE_TOKEN, 7, 5120);
                           rms.residual = true, rms.sum = Where::own, rms.weight = Parameter::like_x;
                           all.add("silu", QUERN_FRONT_SILU_MUL, QUERN_SCALE_GROUP, 7, 2048);
                           QuantizeCase& small = all.add("small", QUERN_FRONT_RMSNORM, QUERN_SCALE_TOKEN, 20, 128);
                           small.weight = Parameter::like_x;
                           return all.take();
                         }()),
                         name_of);

TEST_P(QuantizeRow, IsTheSameAlone) {
  QuantizeCase c = GetParam();
  c.flags |= QUERN_CALL_BATCH_INVARIANT;
  QuantizeProblem problem(c, Random(c.name));
  ASSERT_NO_FATAL_FAILURE(problem.run(context()));
  std::vector<Matrix*> written = {&problem.out, &problem.scale}, all = {&problem.x, &problem.out, &problem.scale};
  if (c.residual) written.push_back(&problem.residual_out);
  for (Matrix* m : {&problem.residual, &problem.residual_out}) {
    if (m->given()) all.push_back(m);
  }
  std::vector<std::vector<unsigned char>> together;
  for (const Matrix* m : written) together.push_back(m->all_found());
  for (const std::int64_t row : {std::int64_t{0}, c.rows / 2, c.rows - 1}) {
    for (Matrix* m : all) {
      m->box.shape[0] = 1;
      m->box.tensor.byte_offset = static_cast<std::uint64_t>(row * m->pitch()) * m->element().bytes();
    }
    ASSERT_NO_FATAL_FAILURE(problem.call(context()));
    for (std::size_t i = 0; i < written.size(); ++i) {
      const auto bytes =
          static_cast<std::ptrdiff_t>(written[i]->pitch() * static_cast<std::int64_t>(written[i]->element().bytes()));
      const unsigned char *here = written[i]->all_found().data() + row * bytes,
                          *there = together[i].data() + row * bytes;
      EXPECT_TRUE(std::equal(here, here + bytes, there)) << "row " << row << " of output " << i;
    }
  }
}

// `host` in an unfair order, by seed: a missing barrier gives other bits.
class QuantizeScheduling : public testing::TestWithParam<QuantizeCase> {};
INSTANTIATE_TEST_SUITE_P(Seeds, QuantizeScheduling, testing::ValuesIn([] {
                           Cases all;
                           QuantizeCase& rms = all.add("unfair_rms", QUERN_FRONT_RMSNORM, QUERN_SCALE_TOKEN, 7, 2048);
                           rms.residual = true, rms.sum = Where::x, rms.weight = Parameter::like_x, rms.max_sms = 1;
                           QuantizeCase& layer =
                               all.add("unfair_layer", QUERN_FRONT_LAYERNORM, QUERN_SCALE_GROUP, 19, 1536);
                           layer.bias = Parameter::like_x, layer.max_sms = 1;
                           QuantizeCase& longer =
                               all.add("unfair_long", QUERN_FRONT_RMSNORM, QUERN_SCALE_TOKEN, 1, 34000);
                           longer.dense = Where::x;
                           all.add("unfair_tensor", QUERN_FRONT_NONE, QUERN_SCALE_TENSOR, 40, 512);
                           QuantizeCase& block = all.add("unfair_block", QUERN_FRONT_NONE, QUERN_SCALE_BLOCK, 150, 300);
                           block.max_sms = 1, block.padding = 4;
                           return all.take();
                         }()),
                         name_of);

TEST_P(QuantizeScheduling, AnyOrderGivesTheSameBits) {
  if (on_cuda()) GTEST_SKIP() << "a GPU schedules as it likes: seeds are for the host target";
  QuantizeProblem problem(GetParam(), Random(GetParam().name));
  ASSERT_NO_FATAL_FAILURE(problem.run(context()));
  problem.check();
  const std::vector<unsigned char> fair = problem.results();
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const std::uint64_t value = run_seed() * 10 + seed;
    const Context unfair = make_context([&](quern_context_options& o) {
      o.flags |= QUERN_CONTEXT_HOST_SEED;
      o.host_seed = value;
    });
    problem.args.flags &= ~QUERN_CALL_CACHED_ONLY;
    ASSERT_NO_FATAL_FAILURE(problem.call(unfair.get()));
    ASSERT_EQ(problem.results(), fair) << "host_seed " << value;
  }
}

// A model's kernels, and what an engine calls for it.
class QuantizeModel : public testing::TestWithParam<std::uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Weights, QuantizeModel, testing::Values(0u, QUERN_MODEL_BLOCK_FP8, QUERN_MODEL_FP8));

TEST_P(QuantizeModel, IsListedWithWhatItsLayersCall) {
  auto model = sized<quern_model>();
  model.flags = QUERN_MODEL_GATED_MLP | GetParam();
  model.tensor_parallel = 2;
  model.hidden_size = 512, model.intermediate_size = 3072;
  model.layers = 2, model.heads = 8, model.kv_heads = 2, model.head_dim = 64;
  model.vocab_size = 1000, model.max_positions = 4096;
  model.experts = 8, model.experts_per_token = 2, model.expert_intermediate_size = 768, model.shared_experts = 1;
  const Context fresh = make_context();
  const std::set<std::string> listed = listed_by_warm(fresh.get(), model);
  std::size_t own = 0;
  for (const std::string& line : listed) own += line.starts_with("quantize ");
  if (GetParam() == 0) {
    EXPECT_EQ(own, 0u);
    return;
  }
  std::printf("a mixture of experts with 8-bit weights: %zu kernels quantise\n", own);
  EXPECT_LE(own, 8u);
  Cases calls;
  const int kind = GetParam() == QUERN_MODEL_FP8 ? QUERN_SCALE_TOKEN : QUERN_SCALE_GROUP;
  calls.add("attention", QUERN_FRONT_NONE, kind, 3, 256);
  calls.add("first", QUERN_FRONT_RMSNORM, kind, 70, 512).weight = Parameter::like_x;
  QuantizeCase& layer = calls.add("layer", QUERN_FRONT_RMSNORM, kind, 1, 512);
  layer.weight = Parameter::like_x, layer.residual = true, layer.sum = Where::residual, layer.dense = Where::own;
  calls.add("mlp", QUERN_FRONT_SILU_MUL, kind, 5, 1536).scale_columns_first = kind == QUERN_SCALE_GROUP;
  calls.add("expert", QUERN_FRONT_SILU_MUL, kind, 5, 384).flags = QUERN_CALL_BATCH_INVARIANT;
  auto error = sized<quern_error>();
  for (const QuantizeCase& c : calls.take()) {
    const QuantizeProblem problem(c, Random(c.name));
    ASSERT_EQ(quern_quantize_prepare(fresh.get(), &problem.args, &error), QUERN_OK) << error.text;
  }
  for (const std::string& line : manifest_of(fresh.get()))
    EXPECT_EQ(listed.count(line), 1u) << "called, but not listed: " << line;
}

}  // namespace
}  // namespace quern::test
