// SPDX-License-Identifier: Apache-2.0
#include "bindings/cli/gguf_config.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "bindings/cli/failure.h"
#include "bindings/cli/format.h"
#include "bindings/engine/checkpoint/gguf.h"
#include "bindings/json/json.h"

namespace quern::cli {
namespace {

struct Name {
  const char* file;  // behind the architecture and a dot
  const char* config;
};
constexpr Name kNeeded[] = {
    {"embedding_length", "hidden_size"},           {"feed_forward_length", "intermediate_size"},
    {"block_count", "num_hidden_layers"},          {"attention.head_count", "num_attention_heads"},
    {"context_length", "max_position_embeddings"},
};
// Experts have two names, by the family.
constexpr Name kOthers[] = {
    {"attention.head_count_kv", "num_key_value_heads"},
    {"attention.key_length", "head_dim"},
    {"attn_logit_softcapping", "attn_logit_softcapping"},
    {"final_logit_softcapping", "final_logit_softcapping"},
    {"expert_count", "num_experts"},
    {"expert_count", "num_local_experts"},
    {"expert_used_count", "num_experts_per_tok"},
    {"expert_feed_forward_length", "moe_intermediate_size"},
    {"expert_shared_feed_forward_length", "shared_expert_intermediate_size"},
};
// Architectures, and what transformers calls them. Mistral's models are stored as Llamas, and Mixtral's as such with
// experts.
constexpr std::array<std::pair<std::string_view, const char*>, 10> kArchitectures = {{{"llama", "llama"},
                                                                                      {"qwen2", "qwen2"},
                                                                                      {"qwen2moe", "qwen2_moe"},
                                                                                      {"qwen3", "qwen3"},
                                                                                      {"qwen3moe", "qwen3_moe"},
                                                                                      {"gemma2", "gemma2"},
                                                                                      {"gemma3", "gemma3_text"},
                                                                                      {"phi3", "phi3"},
                                                                                      {"glm4", "glm4"},
                                                                                      {"granite", "granite"}}};

class Values {
 public:
  explicit Values(const engine::Gguf& file)
      : file_(file), architecture_(text_of("general.architecture", file.at("general.architecture"))) {}

  const std::string& architecture() const { return architecture_; }
  const Json* find(const char* name) const { return file_.find(architecture_ + "." + name); }
  const Json& at(const char* name) const { return file_.at(architecture_ + "." + name); }
  std::uint64_t whole(const char* name, std::uint64_t otherwise) const {
    const Json* found = find(name);
    if (found == nullptr) return otherwise;
    if (!found->is_unsigned()) fail(architecture_ + "." + name + " is " + shorten(found->dump(), 60) + ", no number");
    return found->whole();
  }
  std::uint64_t tokens() const {
    constexpr const char* kName = "tokenizer.ggml.tokens";
    const Json& found = file_.at(kName);
    if (!found.is_array()) fail(std::string(kName) + " is " + shorten(found.dump(), 60) + ", no array");
    return found.items().size();
  }
  [[noreturn]] void fail(const std::string& what) const { throw BadInput(file_.path() + ": " + printable(what)); }

 private:
  std::string text_of(const char* name, const Json& value) const {
    if (!value.is_string()) fail(std::string(name) + " is " + shorten(value.dump(), 60) + ", no text");
    return value.string();
  }

  const engine::Gguf& file_;
  std::string architecture_;
};

std::string type_of(const Values& values, const std::string& asked) {
  if (!asked.empty()) return asked;
  if (values.architecture() == "llama" && values.whole("expert_count", 0) != 0) return "mixtral";
  const auto* const found = std::find_if(kArchitectures.begin(), kArchitectures.end(),
                                         [&](const auto& known) { return known.first == values.architecture(); });
  if (found != kArchitectures.end()) return found->second;
  std::string known;
  for (const auto& each : kArchitectures) known += (known.empty() ? "" : ", ") + std::string(each.first);
  values.fail("general.architecture is " + shorten(values.architecture(), 40) + "; known: " + known +
              "; --model-type NAME reads it as one of them");
}

}  // namespace

bool is_gguf(const std::string& path) {
  std::array<char, 4> first{};
  std::ifstream file(path, std::ios::binary);
  return file.read(first.data(), first.size()) && std::string_view(first.data(), first.size()) == "GGUF";
}

std::string config_of_gguf(const std::string& path, const std::string& model_type) {
  try {
    const engine::Gguf file(path);
    const Values values(file);
    Json config = Json::object();
    config["model_type"] = type_of(values, model_type);
    for (const Name& name : kNeeded) config[name.config] = values.at(name.file);
    for (const Name& name : kOthers) {
      if (const Json* found = values.find(name.file)) config[name.config] = *found;
    }
    config["vocab_size"] = values.tokens();
    config["attention_bias"] = file.tensor("blk.0.attn_q.bias") != nullptr;
    // 0 says that there is none. Where a file has one it is in use.
    if (const std::uint64_t window = values.whole("attention.sliding_window", 0); window != 0) {
      config["sliding_window"] = window;
      config["use_sliding_window"] = true;
    }
    const std::uint64_t heads = values.whole("attention.head_count", 0),
                        dim = values.whole("attention.key_length",
                                           heads == 0 ? 0 : values.whole("embedding_length", 0) / heads),
                        turning = values.whole("rope.dimension_count", dim);
    // As a share it is rounded down to whole dimensions.
    if (dim != 0 && turning == dim) {
      config["partial_rotary_factor"] = 1.0;
    } else if (dim != 0) {
      config["partial_rotary_factor"] = (static_cast<double>(turning) + 0.5) / static_cast<double>(dim);
    }
    if (values.architecture() == "gemma2") {  // older files leave out what all of them have
      if (values.find("attn_logit_softcapping") == nullptr) config["attn_logit_softcapping"] = 50.0;
      if (values.find("final_logit_softcapping") == nullptr) config["final_logit_softcapping"] = 30.0;
    }
    return config.dump();
  } catch (const BadInput&) {
    throw;
  } catch (const std::runtime_error& error) {
    throw BadInput(printable(error.what()));
  }
}

}  // namespace quern::cli
