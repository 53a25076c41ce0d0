// A model's matrix products: what an engine calls for its layers is what warming names.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

#include "tests/ops/gemm_fixture.h"
#include "tests/ops/gemm_kinds.h"
#include "tests/ops/gemm_tensors.h"
#include "tests/ops/manifest.h"

namespace quern::test {
namespace {

const Element bf16 = Element::bf16, f32 = Element::f32;

struct ModelCalls {
  std::string name;
  quern_model model;
  std::vector<GemmCase> calls;
  std::size_t most;  // kernels of products
};

// Seven billion parameters' worth of shape; what a kernel is made for does not depend on it.
quern_model model_of(std::uint32_t flags) {
  auto model = sized<quern_model>();
  model.flags = flags;
  model.tensor_parallel = 4;
  model.hidden_size = 4096, model.intermediate_size = 14336;
  model.layers = 32, model.heads = 32, model.kv_heads = 8, model.head_dim = 128;
  model.vocab_size = 32000, model.max_positions = 8192;
  return model;
}

GemmCase in(GemmCase c, Product product) {
  c.product = product;
  if (c.grouped()) c.counts = {3, 0, 5};
  return c;
}
GemmCase gated(GemmCase c) {
  c.gate = true;
  c.n = 256;
  return c;
}
GemmCase gathered(GemmCase c) {
  c.gathered = true;
  c.tokens = 9;
  return c;
}
GemmCase in_f32(GemmCase c) {
  c.out = f32;
  return c;
}

std::vector<ModelCalls> models() {
  const GemmCase plain = gemm_of(bf16), logits = in_f32(plain);
  GemmCase vectors, blocks, biased = plain;
  blocks.scale_a = blocks.scale_b = Scaling::blocks;
  biased.bias = bf16;
  GemmCase absorbed = plain;  // latent attention's: a matrix for each head
  absorbed.batch = 3;
  GemmCase as_stored = absorbed;  // of its keys, as a checkpoint has them
  as_stored.transposed_b = true;

  std::vector<ModelCalls> all;
  all.push_back({"Llama in bf16", model_of(QUERN_MODEL_GATED_MLP), {plain, gated(plain), logits}, 60});
  all.push_back(
      {"Llama in fp8", model_of(QUERN_MODEL_GATED_MLP | QUERN_MODEL_FP8), {vectors, gated(vectors), logits}, 60});
  all.push_back({"Llama in fp8 with its logits",
                 model_of(QUERN_MODEL_GATED_MLP | QUERN_MODEL_BLOCK_FP8 | QUERN_MODEL_FP8_LOGITS),
                 {blocks, gated(blocks), in_f32(blocks)},
                 60});
  // As Qwen-2: some of its products add none.
  all.push_back({"one with a bias", model_of(QUERN_MODEL_GATED_MLP | QUERN_MODEL_BIAS), {biased, plain, logits}, 60});
  quern_model gemma = model_of(QUERN_MODEL_GATED_MLP | QUERN_MODEL_EMBEDDING_SCALE);
  gemma.final_logit_cap = 30.0f;
  GemmCase capped = logits;
  capped.expression = "scalar0 * tanh(acc / scalar0)";
  capped.formula = [](const Terms& t) { return t.s[0] * std::tanh(t.acc / t.s[0]); };
  capped.scalars = {30.0f};
  all.push_back({"Gemma in bf16", gemma, {plain, gated(plain), capped}, 60});
  quern_model mixtral = model_of(QUERN_MODEL_GATED_MLP | QUERN_MODEL_FP8);
  mixtral.experts = 8, mixtral.experts_per_token = 2, mixtral.expert_intermediate_size = 14336;
  all.push_back({"Mixtral in fp8",
                 mixtral,
                 {vectors, gathered(gated(in(vectors, Product::contiguous))), in(vectors, Product::contiguous),
                  gated(in(vectors, Product::masked)), in(vectors, Product::masked), logits},
                 50});
  quern_model deepseek = model_of(QUERN_MODEL_GATED_MLP | QUERN_MODEL_BLOCK_FP8 | QUERN_MODEL_MLA);
  deepseek.hidden_size = 7168, deepseek.intermediate_size = 18432, deepseek.heads = deepseek.kv_heads = 128;
  deepseek.head_dim = 192, deepseek.v_head_dim = 128, deepseek.rope_head_dim = 64, deepseek.kv_lora_rank = 512,
  deepseek.q_lora_rank = 1536;
  deepseek.experts = 256, deepseek.experts_per_token = 8, deepseek.expert_intermediate_size = 2048,
  deepseek.shared_experts = 1;
  all.push_back(
      {"DeepSeek-V3",
       deepseek,
       {blocks, gated(blocks), gathered(gated(in(blocks, Product::contiguous))), in(blocks, Product::contiguous),
        gated(in(blocks, Product::masked)), in(blocks, Product::masked), absorbed, as_stored, logits},
       68});
  return all;
}

class GemmModel : public testing::TestWithParam<ModelCalls> {};
void PrintTo(const ModelCalls& m, std::ostream* out) { *out << m.name; }
INSTANTIATE_TEST_SUITE_P(Models, GemmModel, testing::ValuesIn(models()),
                         [](const testing::TestParamInfo<ModelCalls>& of) {
                           std::string name = of.param.name;
                           for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
                           return name;
                         });

TEST_P(GemmModel, IsListedWithWhatItsLayersCall) {
  const Context fresh = make_context();
  const std::set<std::string> listed = listed_by_warm(fresh.get(), GetParam().model);
  const auto is_product = [](const std::string& line) { return line.find("gemm ") < line.find(' ') + 1; };
  const auto of_products = static_cast<std::size_t>(std::count_if(listed.begin(), listed.end(), is_product));
  std::printf("%s: %zu kernels, %zu of them of products\n", GetParam().name.c_str(), listed.size(), of_products);
  EXPECT_GT(of_products, 0u);
  EXPECT_LE(of_products, GetParam().most);
  // Of all other ops, so that what a model needs in all is bounded, too: sampling and its like, which are the same for
  // all models, are 12 of them. DeepSeek-V3 has the most.
  constexpr std::size_t kMostOthers = 40;
  EXPECT_LE(listed.size() - of_products, kMostOthers);
  auto error = sized<quern_error>();
  std::size_t products = 0;
  for (GemmCase c : GetParam().calls) {
    // The variants for more rows differ from this one in nothing else, but for the first call, which takes them all.
    const bool all_forms = products++ == 0;
    c.m = all_forms ? 300 : c.product == Product::masked ? 8 : 16;
    c.n = all_forms ? 1300 : c.n;
    GemmTensors tensors(c);
    ASSERT_EQ(tensors.prepare(fresh.get(), &error), QUERN_OK) << error.text;
  }
  const std::vector<std::string> made = manifest_of(fresh.get());
  EXPECT_GE(made.size(), GetParam().calls.size());
  for (const std::string& line : made) EXPECT_EQ(listed.count(line), 1u) << "called, but not listed: " << line;
}

}  // namespace
}  // namespace quern::test
