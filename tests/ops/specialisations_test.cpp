// How many kernels a model needs: as many as its warming names, and no call makes another.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <set>
#include <tuple>

#include "tests/ops/attention_problem.h"
#include "tests/ops/coded_attention.h"
#include "tests/ops/kv_append_fixture.h"
#include "tests/ops/manifest.h"

namespace quern::test {
namespace {

// Llama-3.1-70B on eight GPUs, bf16: one KV head and eight query heads each.
quern_model llama_70b() {
  auto model = sized<quern_model>();
  model.tensor_parallel = 8;
  model.hidden_size = 8192;
  model.intermediate_size = 28672;
  model.layers = 80;
  model.heads = 64;
  model.kv_heads = 8;
  model.head_dim = 128;
  model.vocab_size = 128256;
  model.max_positions = 131072;
  model.dtype = dtype_of(Format::bf16);
  return model;
}

AttentionCase llama_call() {
  AttentionCase c;
  c.kv_heads = 1;
  c.group = 8;
  c.dim_k = 128;
  c.causal = true;
  return c;
}

TEST(Specialisations, WhatAModelNeedsIsListedAndLittle) {
  const Context fresh = make_context();
  const quern_model model = llama_70b();
  const std::set<std::string> listed = listed_by_warm(fresh.get(), model);
  std::printf("Llama-3.1-70B at tensor parallel 8, bf16: %zu kernels\n", listed.size());
  EXPECT_LE(listed.size(), 61u);
  EXPECT_GE(listed.size(), 4u);

  // Requests of all kinds, as an engine makes them.
  Random random("requests");
  auto error = sized<quern_error>();
  for (int round = 0; round < 400; ++round) {
    AttentionCase c = llama_call();
    const int batch = random.between(1, 300);
    const bool decode = random.below(2) == 0;
    for (int i = 0; i < batch; ++i) {
      const int q = decode ? 1 : random.between(0, 300);
      c.sequences.push_back({q, q + random.between(0, 4000)});
    }
    c.one_query = decode && random.below(2) == 0;
    c.page_size = random.below(2) == 0 ? 16 : 64;
    c.layout = random.below(2) == 0 ? Layout::nhd : Layout::hnd;
    c.indptr = random.below(2) == 0;
    c.lse = random.below(2) == 0;
    c.causal = random.below(4) != 0;
    if (random.below(4) == 0) c.left = random.between(0, 5000);
    if (random.below(8) == 0) c.right = random.between(0, 100);
    c.scale = random.below(2) == 0 ? 0.0f : static_cast<float>(random.uniform() + 0.01);
    c.max_sms = random.below(4) == 0 ? random.between(1, 200) : 0;
    c.spare_rows = random.between(0, 50);
    c.max_kv_len = c.longest() + random.between(0, 100000);
    c.flags = random.below(5) == 0 ? QUERN_CALL_BATCH_INVARIANT : 0;
    AttentionTensors tensors(c, 8);
    ASSERT_EQ(quern_attention_prepare(fresh.get(), &tensors.args, &error), QUERN_OK) << error.text;
  }
  for (const std::string& line : manifest_of(fresh.get())) {
    EXPECT_EQ(listed.count(line), 1u) << "made by a call, but not named by warming: " << line;
  }
  EXPECT_LE(manifest_of(fresh.get()).size(), 60u);
}

// With the calls' own parameters: sixteen real ones.
TEST(Specialisations, CallsMakeNoKernelThatWarmingDidNotName) {
  const Context fresh = make_context();
  const std::set<std::string> listed = listed_by_warm(fresh.get(), llama_70b());
  Random random("calls");
  for (int round = 0; round < 16; ++round) {
    AttentionCase c = llama_call();
    for (int i = random.between(1, 5); i > 0; --i) {
      const int q = random.between(1, 12);
      c.sequences.push_back({q, q + random.between(0, 90)});
    }
    c.page_size = random.below(2) == 0 ? 16 : 64;
    if (random.below(3) == 0) c.left = random.between(0, 60);
    c.scale = static_cast<float>(random.uniform() * 0.1 + 0.05);
    c.flags = random.below(4) == 0 ? QUERN_CALL_BATCH_INVARIANT : 0;
    AttentionProblem problem(c, Random("numbers"));
    ASSERT_NO_FATAL_FAILURE(problem.make_workspace(fresh.get()));
    ASSERT_NO_FATAL_FAILURE(problem.call(fresh.get()));
    problem.check();
  }
  const std::vector<std::string> made = manifest_of(fresh.get());
  EXPECT_GE(made.size(), 2u);
  for (const std::string& line : made) EXPECT_EQ(listed.count(line), 1u) << line;
}

// Flags that ask for 8 bits beside what has 16 are told rather than passed over.
TEST(Specialisations, EightBitsBesideSixteenAreTold) {
  const Context fresh = make_context();
  const auto told = [&](std::uint32_t flags, std::optional<Element> cache, const char* need) {
    quern_model model = llama_70b();
    model.flags |= flags;
    if (cache) model.kv_dtype = cache->type();
    std::string texts;
    for (const Warmed& each : warm(fresh.get(), {}, "", &model, QUERN_WARM_LIST_ONLY | QUERN_WARM_ALLOW_UNSERVED)) {
      if (each.outcome == QUERN_WARM_UNSERVED && each.op == need) texts += each.text;
    }
    return texts;
  };
  EXPECT_EQ(told(QUERN_MODEL_FP8_QUERIES, Element::e4m3, "attention"), "");
  EXPECT_EQ(
      told(QUERN_MODEL_FP8_QUERIES, Element::e5m2, "attention"),
      "attention with heads of 128: queries are to be e4m3, and the KV cache is e5m2; allowed: with a cache of keys "
      "and values in e4m3");
  EXPECT_EQ(told(QUERN_MODEL_FP8_LOGITS | QUERN_MODEL_BLOCK_FP8, {}, "fp8_gemm"), "");
  EXPECT_EQ(told(QUERN_MODEL_FP8_LOGITS, {}, "fp8_gemm"),
            "logits by a product of 8 bits, with weights of 16 bits; allowed: with weights of e4m3");
}

// What models' attention and caches differ by, each as its family has it, over caches of every kind.
struct Served {
  const char* name;
  std::uint32_t heads, kv_heads, head_dim, flags = 0, rotary_dim = 0, sliding_window = 0;
  float logit_cap = 0.0f;
};
constexpr Served kServed[] = {
    {"Llama-3", 8, 1, 128},
    {"Qwen-3", 32, 8, 128, QUERN_MODEL_QK_NORM},
    {"Gemma-2", 16, 8, 256, 0, 0, 4096, 50.0f},
    {"GPT-OSS", 64, 8, 64, QUERN_MODEL_SINKS, 0, 128},
    {"GLM-4", 32, 2, 128, QUERN_MODEL_ROPE_INTERLEAVED, 64},
    {"Phi-4-mini", 24, 8, 128, 0, 96},
};
struct Stored {
  const char* name;
  std::optional<Element> element;
  bool by_token = false, queries = false;  // queries: of prompts, likewise of 8 bits
};
const Stored kStored[] = {{"bf16", {}},
                          {"e4m3", Element::e4m3},
                          {"e4m3_token", Element::e4m3, true},
                          {"e4m3_queries", Element::e4m3, false, true},
                          {"e4m3_token_queries", Element::e4m3, true, true},
                          {"e5m2", Element::e5m2},
                          {"int8", Element::i8},
                          {"int8_token", Element::i8, true}};

class ServedModel : public testing::TestWithParam<std::tuple<Served, Stored>> {
 protected:
  const Served& served() const { return std::get<0>(GetParam()); }
  const Stored& stored() const { return std::get<1>(GetParam()); }

  quern_model model() const {
    auto model = sized<quern_model>();
    model.flags = QUERN_MODEL_GATED_MLP | served().flags | (stored().by_token ? QUERN_MODEL_KV_TOKEN_SCALES : 0);
    if (stored().queries) model.flags |= QUERN_MODEL_FP8_QUERIES;
    model.hidden_size = 1024, model.intermediate_size = 2048, model.layers = 2, model.vocab_size = 1024;
    model.max_positions = 8192;
    model.heads = served().heads, model.kv_heads = served().kv_heads, model.head_dim = served().head_dim;
    model.rotary_dim = served().rotary_dim, model.sliding_window = served().sliding_window;
    model.logit_cap = served().logit_cap;
    model.dtype = Element(Element::bf16).type();
    if (stored().element) model.kv_dtype = stored().element->type();
    return model;
  }

  void prepare_attention(quern_context* context, Random& random) const {
    std::vector<Lengths> sequences;
    for (int i = random.between(1, 4); i > 0; --i) {
      const int q = random.below(2) == 0 ? 1 : random.between(1, 90);
      sequences.push_back({q, q + random.between(0, 40)});
    }
    const std::optional<int> left = served().sliding_window != 0 && random.below(2) == 0
                                        ? std::optional<int>(static_cast<int>(served().sliding_window) - 1)
                                        : std::nullopt;
    auto error = sized<quern_error>();
    if (stored().element) {
      CodedCase c;
      c.name = served().name;
      c.cache = stored().element;
      c.scale = stored().by_token ? CacheScale::token : random.below(2) == 0 ? CacheScale::tensor : CacheScale::head;
      c.sequences = sequences;
      const bool prompts =
          std::any_of(sequences.begin(), sequences.end(), [](const Lengths& one) { return one.q > 1; });
      if (stored().queries && prompts) c.queries = stored().element, c.q_scale = CacheScale::token;
      c.dim = served().head_dim, c.kv_heads = served().kv_heads, c.group = served().heads / served().kv_heads;
      c.page_size = random.below(2) == 0 ? 16 : 64;
      c.hnd = random.below(2) == 0;
      c.cap = served().logit_cap, c.left = left;
      CodedAttention attention(c);
      Array sinks(Element::f32, {served().heads});
      if ((served().flags & QUERN_MODEL_SINKS) != 0) attention.args.sinks = sinks.tensor();
      ASSERT_EQ(quern_attention_prepare(context, &attention.args, &error), QUERN_OK) << error.text;
      return;
    }
    AttentionCase c;
    c.sequences = sequences;
    c.dim_k = static_cast<int>(served().head_dim);
    c.kv_heads = static_cast<int>(served().kv_heads), c.group = static_cast<int>(served().heads / served().kv_heads);
    c.page_size = random.below(2) == 0 ? 16 : 64;
    c.layout = random.below(2) == 0 ? Layout::nhd : Layout::hnd;
    c.causal = true;
    c.cap = served().logit_cap, c.left = left;
    c.sinks = (served().flags & QUERN_MODEL_SINKS) != 0;
    AttentionTensors tensors(c, 64);
    ASSERT_EQ(quern_attention_prepare(context, &tensors.args, &error), QUERN_OK) << error.text;
  }

  void prepare_append(quern_context* context, Random& random) const {
    AppendCase c;
    c.name = served().name;
    c.cache = stored().element;
    if (stored().element) {
      c.scale = stored().by_token ? Scale::token : random.below(2) == 0 ? Scale::tensor : Scale::head;
    }
    c.heads = served().heads, c.kv_heads = served().kv_heads, c.dim = served().head_dim;
    c.by = random.below(2) == 0 ? By::slots : By::table;
    c.positions = c.by == By::slots || random.below(2) == 0;
    c.queries = random.below(2) == 0;
    c.q_in_place = c.queries && random.below(2) == 0;
    if (stored().queries && c.queries && !c.q_in_place) c.q_out = stored().element, c.q_scale = Scale::token;
    // What follows from no formula, such as a divisor of each frequency, is in a table.
    const std::int64_t turning = served().rotary_dim != 0 ? served().rotary_dim : served().head_dim;
    Array table(Element::f32, {64, turning});
    if (c.queries && random.below(4) == 0) c.options.table = table.tensor();
    c.k_norm = (served().flags & QUERN_MODEL_QK_NORM) != 0;
    c.q_norm = c.k_norm && c.queries;
    c.options.rotary_dim = static_cast<std::int32_t>(served().rotary_dim);
    if ((served().flags & QUERN_MODEL_ROPE_INTERLEAVED) != 0) c.options.flags = QUERN_ROPE_INTERLEAVED;
    KvAppending appending(c);
    auto error = sized<quern_error>();
    ASSERT_EQ(quern_kv_append_prepare(context, &appending.args, &error), QUERN_OK) << error.text;
  }
};

TEST_P(ServedModel, NoCallMakesAKernelThatWarmingDidNotName) {
  const Context fresh = make_context();
  const std::set<std::string> listed = listed_by_warm(fresh.get(), model());
  Random random(std::string(served().name) + stored().name);
  for (int round = 0; round < 12; ++round) {
    ASSERT_NO_FATAL_FAILURE(prepare_attention(fresh.get(), random));
    ASSERT_NO_FATAL_FAILURE(prepare_append(fresh.get(), random));
  }
  const std::vector<std::string> made = manifest_of(fresh.get());
  EXPECT_GE(made.size(), 3u);
  for (const std::string& line : made) EXPECT_EQ(listed.count(line), 1u) << "made, but not named: " << line;
}
INSTANTIATE_TEST_SUITE_P(Models, ServedModel, testing::Combine(testing::ValuesIn(kServed), testing::ValuesIn(kStored)),
                         [](const testing::TestParamInfo<ServedModel::ParamType>& test) {
                           std::string name =
                               std::string(std::get<0>(test.param).name) + "_" + std::get<1>(test.param).name;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace quern::test
