// The small model in a GGUF file: it is the folder's, and what such a file may say wrongly is refused.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <stdexcept>

#include "bindings/demo/safetensors.h"
#include "bindings/engine/checkpoint/checkpoint.h"
#include "bindings/engine/model.h"
#include "bindings/engine/text/tokenizer.h"
#include "tests/engine/gguf_file.h"
#include "tests/engine/golden.h"

namespace quern::test {
namespace {

using engine::Checkpoint;

// One with which everything that a file says can be wrong in turn.
void write_small_values(GgufFile& file, const engine::Config& c) {
  file.text("general.architecture", "llama");
  file.whole("llama.block_count", static_cast<std::uint32_t>(c.layers));
  file.whole("llama.context_length", static_cast<std::uint32_t>(c.positions));
  file.whole("llama.embedding_length", static_cast<std::uint32_t>(c.hidden));
  file.whole("llama.feed_forward_length", static_cast<std::uint32_t>(c.intermediate));
  file.whole("llama.attention.head_count", static_cast<std::uint32_t>(c.heads));
  file.whole("llama.attention.head_count_kv", static_cast<std::uint32_t>(c.kv_heads));
  file.number("llama.attention.layer_norm_rms_epsilon", c.eps);
  file.number("llama.rope.freq_base", static_cast<float>(c.rope.theta));
  file.text("tokenizer.ggml.model", "gpt2");
  file.text("tokenizer.ggml.pre", "gpt-2");
  file.whole("tokenizer.ggml.bos_token_id", static_cast<std::uint32_t>(c.begin));
  file.whole("tokenizer.ggml.eos_token_id", static_cast<std::uint32_t>(c.ends.at(0)));
  file.boolean("tokenizer.ggml.add_bos_token", true);
  file.text("tokenizer.chat_template", "{{ bos_token }}");
}

void write_vocabulary(GgufFile& file, const engine::Vocabulary& vocabulary) {
  std::vector<std::string> entries = vocabulary.entries, merges;
  std::vector<std::int32_t> types(entries.size(), 1);
  for (const auto& special : vocabulary.specials) {
    entries[static_cast<std::size_t>(special.token)] = special.text;
    types[static_cast<std::size_t>(special.token)] = 3;
  }
  for (const auto& [left, right] : vocabulary.merges) merges.push_back(left + " " + right);
  file.texts("tokenizer.ggml.tokens", entries);
  file.texts("tokenizer.ggml.merges", merges);
  file.wholes("tokenizer.ggml.token_type", types);
}

// The small model's weights, q and k in the order of a Llama's file.
void write_weights(GgufFile& file, const engine::Config& c) {
  const demo::Safetensors tensors(kModel + "/model.safetensors");
  const auto write = [&](const std::string& theirs, const std::string& ours, std::int64_t heads = 0) {
    const auto found = tensors.find(theirs);
    std::string bytes(found.bytes);
    if (heads > 0) {
      const std::size_t row = bytes.size() / static_cast<std::size_t>(found.shape[0]);
      const auto dim = static_cast<std::size_t>(found.shape[0] / heads);
      // Row i of a head's first half and row i of its second become neighbours.
      for (std::size_t head = 0, to = 0; head < static_cast<std::size_t>(heads); ++head) {
        for (std::size_t i = 0; i < dim / 2; ++i) {
          for (const std::size_t from : {head * dim + i, head * dim + dim / 2 + i})
            found.bytes.copy(bytes.data() + row * to++, row, row * from);
        }
      }
    }
    file.tensor(ours, found.shape, 30, bytes);
  };
  write("model.embed_tokens.weight", "token_embd.weight");
  write("model.norm.weight", "output_norm.weight");
  for (std::int64_t i = 0; i < c.layers; ++i) {
    const std::string theirs = "model.layers." + std::to_string(i) + ".", ours = "blk." + std::to_string(i) + ".";
    write(theirs + "input_layernorm.weight", ours + "attn_norm.weight");
    write(theirs + "self_attn.q_proj.weight", ours + "attn_q.weight", c.heads);
    write(theirs + "self_attn.k_proj.weight", ours + "attn_k.weight", c.kv_heads);
    write(theirs + "self_attn.v_proj.weight", ours + "attn_v.weight");
    write(theirs + "self_attn.o_proj.weight", ours + "attn_output.weight");
    write(theirs + "post_attention_layernorm.weight", ours + "ffn_norm.weight");
    write(theirs + "mlp.gate_proj.weight", ours + "ffn_gate.weight");
    write(theirs + "mlp.up_proj.weight", ours + "ffn_up.weight");
    write(theirs + "mlp.down_proj.weight", ours + "ffn_down.weight");
  }
}

TEST(GgufCheckpoint, IsTheModelOfItsFolder) {
  const std::unique_ptr<Checkpoint> folder = engine::open_checkpoint(kModel);
  const engine::Config c = folder->config();
  GgufFile made;
  write_small_values(made, c);
  write_vocabulary(made, folder->vocabulary());
  write_weights(made, c);
  const Written written(made.bytes());
  const std::unique_ptr<Checkpoint> file = engine::open_checkpoint(written.path());

  const engine::Config found = file->config();
  EXPECT_EQ(found.head_dim, 64);
  EXPECT_TRUE(found.tied && !found.qk_norm && !found.qkv_bias);
  EXPECT_EQ(found.eps, c.eps);
  EXPECT_EQ(found.rope.theta, c.rope.theta);
  EXPECT_EQ(found.ends, c.ends);
  EXPECT_EQ(file->chat_template(), "{{ bos_token }}");
  EXPECT_EQ(folder->chat_template(), "");

  const engine::Tokenizer tokenizer(file->vocabulary());
  EXPECT_EQ(tokenizer.special_of(found.begin), "<|begin|>");
  for (const GoldenCase& golden : read_golden().cases)
    EXPECT_EQ(tokenizer.encode("<|begin|>" + golden.prompt), golden.ids) << golden.prompt;

  const std::string layer = "model.layers.1.";
  const std::pair<std::string, std::vector<std::int64_t>> tensors[] = {
      {"model.embed_tokens.weight", {c.vocabulary, c.hidden}},
      {"model.norm.weight", {c.hidden}},
      {layer + "input_layernorm.weight", {c.hidden}},
      {layer + "post_attention_layernorm.weight", {c.hidden}},
      {layer + "self_attn.q_proj.weight", {c.q_width(), c.hidden}},
      {layer + "self_attn.k_proj.weight", {c.kv_width(), c.hidden}},
      {layer + "self_attn.v_proj.weight", {c.kv_width(), c.hidden}},
      {layer + "self_attn.o_proj.weight", {c.hidden, c.q_width()}},
      {layer + "mlp.gate_proj.weight", {c.intermediate, c.hidden}},
      {layer + "mlp.up_proj.weight", {c.intermediate, c.hidden}},
      {layer + "mlp.down_proj.weight", {c.hidden, c.intermediate}}};
  for (const auto& [name, shape] : tensors) EXPECT_EQ(file->bf16(name, shape), folder->bf16(name, shape)) << name;
  EXPECT_FALSE(file->has("lm_head.weight"));
  EXPECT_FALSE(file->has("model.layers.9.input_layernorm.weight"));
  EXPECT_FALSE(file->has("model.layers."));
  EXPECT_THROW(file->bf16("lm_head.weight", {1}), std::runtime_error);
  EXPECT_THROW(file->bf16("model.norm.weight", {1}), std::runtime_error);
}

// What a file has for Llama 3.1's rope is a divisor of each frequency. All of them 8 is what linear scaling by 8 does.
TEST(GgufCheckpoint, DividesFrequencies) {
  const demo::Context context = engine_context();
  const std::unique_ptr<Checkpoint> folder = engine::open_checkpoint(kModel);
  const engine::Config c = folder->config();
  engine::Limits limits;
  limits.sequences = 1, limits.tokens = 16, limits.context = 32;
  const std::vector<std::int32_t> pages = {0, 1}, text = read_golden().cases[0].ids;
  const auto logits = [&](const auto& change) {
    GgufFile made;
    write_small_values(made, c);
    write_vocabulary(made, folder->vocabulary());
    change(made);
    write_weights(made, c);
    const Written file(made.bytes());
    engine::Model model(context.get(), device_of(context.get()), *engine::open_checkpoint(file.path()), limits);
    model.step({{text, 0, &pages, {}}});
    return model.logits();
  };
  const auto apart = [](const std::vector<float>& a, const std::vector<float>& b) {
    float most = 0.0f;
    for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
    return most;
  };
  const std::vector<float> plain = logits([](GgufFile&) {}), linear = logits([](GgufFile& file) {
                                                               file.text("llama.rope.scaling.type", "linear");
                                                               file.number("llama.rope.scaling.factor", 8.0f);
                                                             });
  const std::vector<float> divided = logits([&](GgufFile& file) {
    std::string bytes;
    for (std::int64_t i = 0; i < c.head_dim / 2; ++i) bytes += GgufFile::raw(8.0f);
    file.tensor("rope_freqs.weight", {c.head_dim / 2}, 0, bytes);
  });
  EXPECT_LT(apart(divided, linear), 0.1f) << "bf16's roundings fall otherwise, no more";
  EXPECT_GT(apart(divided, plain), 0.5f);
}

// Of the small model's file one value is another, or gone.
TEST(GgufCheckpoint, RefusesWhatItWouldGetWrong) {
  const std::unique_ptr<Checkpoint> folder = engine::open_checkpoint(kModel);
  const engine::Config config = folder->config();
  const auto refused = [&](const auto& change) -> std::string {
    engine::Config c = config;
    engine::Vocabulary vocabulary = folder->vocabulary();
    GgufFile made;
    change(c, vocabulary, made);
    write_small_values(made, c);
    write_vocabulary(made, vocabulary);
    const Written written(made.bytes());
    try {
      const engine::Tokenizer tokenizer(engine::open_checkpoint(written.path())->vocabulary());
      return "";
    } catch (const std::runtime_error& error) {
      const std::string text = error.what();
      return text.substr(text.find(": ") + 2);
    }
  };
  using C = engine::Config;
  using V = engine::Vocabulary;
  EXPECT_EQ(refused([](C&, V&, GgufFile&) {}), "");
  EXPECT_EQ(refused([](C& c, V&, GgufFile&) { c.heads = 0; }), "the number of heads is 0; allowed: 1 to 4194304");
  EXPECT_EQ(refused([](C& c, V&, GgufFile&) { c.kv_heads = 3; }),
            "the number of heads is 4, no multiple of the KV heads' 3");
  EXPECT_EQ(refused([](C& c, V&, GgufFile&) { c.layers = 5000000; }),
            "the number of layers is 5000000; allowed: 1 to 4194304");
  EXPECT_EQ(refused([](C& c, V&, GgufFile&) { c.hidden = ~std::int64_t{0}; }), "there is a size of 4294967295");
  EXPECT_EQ(refused([](C& c, V&, GgufFile&) { c.begin = 1024; }),
            "the token 1024 begins a text, but is not of the vocabulary");
  EXPECT_EQ(refused([](C& c, V&, GgufFile&) { c.ends = {2000}; }),
            "the token 2000 ends a text, but is not of the vocabulary");
  EXPECT_EQ(refused([](C&, V&, GgufFile& f) { f.whole("llama.expert_count", 8); }),
            "llama.expert_count is not 0: there are no experts here");
  EXPECT_EQ(refused([](C&, V&, GgufFile& f) { f.whole("llama.rope.dimension_count", 32); }),
            "llama.rope.dimension_count is not the head dimension");
  EXPECT_EQ(refused([](C&, V&, GgufFile& f) { f.text("llama.rope.scaling.type", "longrope"); }),
            "llama.rope.scaling.type is longrope; allowed: none, linear, yarn");
  EXPECT_EQ(refused([](C&, V&, GgufFile& f) { f.tensor("rope_freqs.weight", {32}, 0, std::string(128, '\0')); }),
            "rope_freqs.weight has numbers that are not above 0");
  EXPECT_EQ(refused([](C&, V& v, GgufFile&) { v.merges[0].second = "?!"; }).substr(0, 12), "the merge of");
  EXPECT_EQ(refused([](C&, V& v, GgufFile&) { v.specials[0].text = ""; }), "the special token 0 has no text");
  EXPECT_EQ(refused([](C&, V& v, GgufFile&) { v.entries.resize(1); }).substr(0, 12), "the merge of");
}

// Cut anywhere and with any byte changed: read or refused, never worse.
TEST(GgufCheckpoint, TakesAnyBytes) {
  const std::unique_ptr<Checkpoint> folder = engine::open_checkpoint(kModel);
  engine::Vocabulary vocabulary = folder->vocabulary();
  vocabulary.entries = {"<|begin|>", "a", "b", "ab"}, vocabulary.merges = {{"a", "b"}};
  GgufFile made;
  write_small_values(made, folder->config());
  write_vocabulary(made, vocabulary);
  made.tensor("blk.0.attn_q.weight", {4, 32}, 8, std::string(4 * 34, '\1'));
  const std::string good = made.bytes();
  const auto try_it = [](const std::string& bytes) {
    const Written written(bytes);
    try {
      const std::unique_ptr<Checkpoint> file = engine::open_checkpoint(written.path());
      const engine::Tokenizer tokenizer(file->vocabulary());
      file->bf16("model.layers.0.self_attn.q_proj.weight", {4, 32});
      return true;
    } catch (const std::runtime_error&) {
      return false;
    }
  };
  EXPECT_FALSE(try_it(good)) << "heads of 64 do not fit into 4 rows";
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (std::size_t i = 0; i < good.size(); ++i) {
    EXPECT_FALSE(try_it(good.substr(0, i))) << i;
    std::string changed = good;
    changed[i] = static_cast<char>(random());
    try_it(changed);
  }
}

}  // namespace
}  // namespace quern::test
