// The command `quern warm` with a model's file makes all that the engine asks for: a model that may compile nothing is
// made from what it left in a cache, and computes steps of every kind.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "bindings/engine/checkpoint/numbers.h"
#include "bindings/engine/model.h"
#include "bindings/json/json.h"
#include "tests/cli/process.h"
#include "tests/engine/gguf_file.h"
#include "tests/engine/golden.h"

namespace quern::test {
namespace {

using engine::Config;
using engine::Limits;

// A model whose numbers do not matter, of the sizes and the family that a file says.
class Blank final : public engine::Checkpoint {
 public:
  explicit Blank(Config config) : config_(std::move(config)) {}
  Config config() const override { return config_; }
  engine::Vocabulary vocabulary() const override { return {}; }
  std::string chat_template() const override { return ""; }
  bool has(const std::string&) const override { return true; }
  std::vector<std::uint16_t> bf16(const std::string&, const std::vector<std::int64_t>& shape) const override {
    std::int64_t count = 1;
    for (const std::int64_t extent : shape) count *= extent;
    std::vector<std::uint16_t> values;
    for (std::int64_t i = 0; i < count; ++i) values.push_back(engine::bf16_of(static_cast<float>(i % 7 - 3) / 64.0f));
    return values;
  }

 private:
  Config config_;
};

// What differs between families, at sizes that share most kernels.
Json config_of(const std::string& type) {
  Json config = {{"model_type", type},     {"hidden_size", 256},       {"intermediate_size", 512},
                 {"num_hidden_layers", 2}, {"num_attention_heads", 4}, {"num_key_value_heads", 2},
                 {"head_dim", 64},         {"vocab_size", 512},        {"max_position_embeddings", 256},
                 {"bos_token_id", 0},      {"eos_token_id", 1},        {"torch_dtype", "bfloat16"}};
  if (type == "mistral") config["head_dim"] = 128;  // whose attention hands on codes
  if (type == "gemma2") {
    config["hidden_activation"] = "gelu_pytorch_tanh";
    config["attn_logit_softcapping"] = 50.0;
    config["final_logit_softcapping"] = 30.0;
    config["sliding_window"] = 8;
  }
  return config;
}

// Tests side by side write the same file: it is there whole or not at all.
void write_whole(const std::filesystem::path& path, const std::string& bytes) {
  const std::string own = path.string() + "." + std::to_string(getpid());
  std::ofstream(own, std::ios::binary) << bytes;
  std::filesystem::rename(own, path);
}

// A Llama-3.1's values, which has a divisor of each of rope's frequencies.
void write_gguf(const std::filesystem::path& path) {
  GgufFile file;
  file.text("general.architecture", "llama");
  file.whole("llama.block_count", 2);
  file.whole("llama.context_length", 256);
  file.whole("llama.embedding_length", 256);
  file.whole("llama.feed_forward_length", 512);
  file.whole("llama.attention.head_count", 4);
  file.whole("llama.attention.head_count_kv", 2);
  file.text("tokenizer.ggml.model", "gpt2");
  file.texts("tokenizer.ggml.tokens", std::vector<std::string>(512, "a"));
  std::string divisors;
  for (int i = 0; i < 32; ++i) divisors += GgufFile::raw(i < 16 ? 1.0f : 8.0f);
  file.tensor("rope_freqs.weight", {32}, 0, divisors);
  write_whole(path, file.bytes());
}

struct Mode {
  const char* name;
  std::vector<std::string> options;  // of the command
  bool fp8_weights = false, fp8_cache = false, batch_invariant = false;
  std::int64_t ranks = 1;  // each has a part of the heads and of the MLP
};
const Mode kModes[] = {
    {"bf16", {}},
    {"batch_invariant", {}, false, false, true},
    {"fp8_cache", {"--kv-dtype", "e4m3"}, false, true},
    {"fp8_weights", {"--weights", "fp8-block", "--logits", "fp8"}, true},
    {"fp8_weights_batch_invariant", {"--weights", "fp8-block", "--logits", "fp8"}, true, false, true},
    {"fp8_both", {"--weights", "fp8-block", "--logits", "fp8", "--kv-dtype", "e4m3", "--q-dtype", "e4m3"}, true, true},
    {"two_ranks", {"--tp", "2"}, false, false, false, 2},
    {"two_ranks_fp8_both",
     {"--tp", "2", "--weights", "fp8-block", "--logits", "fp8", "--kv-dtype", "e4m3", "--q-dtype", "e4m3"},
     true,
     true,
     false,
     2},
};

void PrintTo(const Mode& mode, std::ostream* out) { *out << mode.name; }

class Warmed : public testing::TestWithParam<std::tuple<const char*, Mode>> {
 protected:
  const Mode& mode() const { return std::get<1>(GetParam()); }
  static std::filesystem::path folder() {
    const char* cache = std::getenv("QUERN_TEST_CACHE");
    return (cache != nullptr ? std::string(cache) : testing::TempDir() + "quern-engine") + "-warmed";
  }
  std::filesystem::path file() const { return folder() / (family_ + (family_ == "gguf" ? ".gguf" : ".json")); }

  // A file of the model's, and what is to be computed with.
  std::unique_ptr<engine::Checkpoint> make_file() const {
    if (family_ == "small" && mode().ranks == 1) return engine::open_checkpoint(kModel);
    if (family_ == "gguf") write_gguf(file());
    Config config;
    if (family_ == "small" || family_ == "gguf") {
      config = engine::open_checkpoint(family_ == "small" ? kModel : file().string())->config();
    } else {
      const Json json = config_of(family_);
      write_whole(file(), json.dump());
      config = engine::config_of_json(json);
    }
    return std::make_unique<Blank>(engine::part_of(config, mode().ranks));
  }

  // The lines that the command says it has made, of a model that drafts. Nothing else writes to this cache.
  std::set<std::string> warm(const std::string& target) const {
    std::vector<std::string> arguments = {QUERN_CLI_BINARY,
                                          "warm",
                                          QUERN_ENGINE_DRAFTS,
                                          "--config",
                                          family_ == "small" ? kModel + "/config.json" : file().string(),
                                          "--target",
                                          target,
                                          "--page-size",
                                          "16",
                                          "--cache",
                                          folder().string(),
                                          "--json"};
    arguments.insert(arguments.end(), mode().options.begin(), mode().options.end());
    const cli_tests::Finished finished = cli_tests::run({arguments, "", {}, ""});
    if (finished.code != 0) throw std::runtime_error(finished.out + finished.err);
    const Json told = Json::parse(finished.out);
    std::set<std::string> lines;
    for (const Json& kernel : told.at("kernels").items())
      lines.insert(kernel.at("op").string() + ' ' + kernel.at("target").string() + ' ' + kernel.at("spec").string());
    return lines;
  }

 private:
  const std::string family_ = std::get<0>(GetParam());
};

std::vector<std::string> lines_of(const quern_context* context) {
  std::uint64_t length = 0;
  quern_manifest(context, nullptr, &length, nullptr);
  std::string text(length + 1, '\0');
  length = text.size();
  demo::call([&](quern_error* error) { return quern_manifest(context, text.data(), &length, error); });
  std::vector<std::string> lines;
  for (std::size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos; at = end + 1)
    lines.push_back(text.substr(at, end - at));
  return lines;
}

TEST_P(Warmed, AModelThatMayCompileNothingComputes) {
  std::filesystem::create_directories(folder());
  const std::unique_ptr<engine::Checkpoint> checkpoint = make_file();
  const demo::Context any = engine_context();
  const quern_device_info device = device_of(any.get());
  const std::set<std::string> listed = warm(device.target);

  auto options = demo::sized<quern_context_options>();
  const std::string cache = folder().string();
  options.device_type = device.device_type, options.device_id = device.device_id;
  options.cache_path = cache.c_str();
  options.miss_policy = QUERN_MISS_CACHED_ONLY;
  const demo::Context context = demo::make_context(options);
  Limits limits;
  limits.sequences = 2, limits.tokens = 12, limits.context = 64, limits.drafts = 2;
  limits.fp8_weights = mode().fp8_weights, limits.fp8_cache = mode().fp8_cache;
  limits.batch_invariant = mode().batch_invariant, limits.graph = limits.cached_only = true;
  engine::Model model(context.get(), device, *checkpoint, limits);
  const std::vector<std::int32_t> pages = {0, 1};
  model.step({{{3, 4, 5, 6, 7}, 0, &pages, {}}});
  model.step({{{8}, 5, &pages, {}}});
  EXPECT_EQ(model.step({{{9, 10, 11}, 6, &pages, {}, 2}}).size(), 1u);
  engine::Sampling edited;
  edited.presence = 0.5f, edited.bias = {{3, 1.0f}}, edited.banned = {4};
  const std::vector<std::int32_t> text = {3, 4, 5, 6, 7, 8, 9};
  EXPECT_EQ(model.step({{{9, 10, 11}, 6, &pages, edited, 2, text, 5}}).size(), 1u);
  EXPECT_EQ(demo::stats_of(context.get()).compiled, 0u);
  // The cache may have more, from a list that was longer once.
  const std::vector<std::string> made = lines_of(context.get());
  EXPECT_GE(made.size(), 10u);
  for (const std::string& line : made) EXPECT_TRUE(listed.contains(line)) << "not named by warming: " << line;
}

std::string name_of(const testing::TestParamInfo<Warmed::ParamType>& test) {
  return std::string(std::get<0>(test.param)) + "_" + std::get<1>(test.param).name;
}
INSTANTIATE_TEST_SUITE_P(Small, Warmed, testing::Combine(testing::Values("small"), testing::ValuesIn(kModes)), name_of);
INSTANTIATE_TEST_SUITE_P(Families, Warmed,
                         testing::Combine(testing::Values("gemma2", "gguf", "mistral", "qwen2", "qwen3"),
                                          testing::Values(kModes[0], kModes[5])),
                         name_of);

}  // namespace
}  // namespace quern::test
