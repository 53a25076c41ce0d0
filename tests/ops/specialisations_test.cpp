// How many kernels a model needs: as many as its warming names, and no call makes another.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdio>
#include <set>

#include "tests/ops/attention_problem.h"
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

}  // namespace
}  // namespace quern::test
