// SPDX-License-Identifier: Apache-2.0
#include "bindings/engine/checkpoint/config.h"

#include <cmath>
#include <utility>

#include "bindings/json/json.h"

namespace quern::engine {
namespace {

std::int64_t whole(const Json& config, const char* name) { return static_cast<std::int64_t>(config.at(name).whole()); }
std::int64_t whole(const Json& config, const char* name, std::int64_t otherwise) {
  const Json* found = config.find(name);
  return found == nullptr || found->is_null() ? otherwise : static_cast<std::int64_t>(found->whole());
}
double number(const Json& config, const char* name, double otherwise) {
  const Json* found = config.find(name);
  return found == nullptr || found->is_null() ? otherwise : found->number();
}
bool boolean(const Json& config, const char* name, bool otherwise) {
  const Json* found = config.find(name);
  return found == nullptr || found->is_null() ? otherwise : found->boolean();
}

// How much of a head turns, the first dimensions of it.
void read_turning(const Json& json, const Json* scaling, Config* config) {
  const char* const name = "partial_rotary_factor";
  double factor = number(json, name, 1.0);
  if (scaling != nullptr) factor = number(*scaling, name, factor);
  const bool in_range = factor > 0.0 && factor <= 1.0;
  const auto turning = static_cast<std::int64_t>(in_range ? factor * static_cast<double>(config->head_dim) : 0.0);
  if (turning < 2 || turning % 2 != 0)
    throw JsonError(std::string(name) + " is " + Json(factor).dump() +
                    "; allowed: above 0 to 1, so that an even number of a head's " + std::to_string(config->head_dim) +
                    " dimensions turn");
  if (turning != config->head_dim) config->rope.rotary_dim = static_cast<std::int32_t>(turning);
}

// Of newer checkpoints everything is in rope_parameters, of older ones theta stands beside rope_scaling.
void read_rope(const Json& json, Config* config) {
  quern_rope_options* rope = &config->rope;
  rope->size = sizeof *rope;
  rope->theta = number(json, "rope_theta", 10000.0);
  const Json* scaling = json.find("rope_parameters");
  if (scaling == nullptr || scaling->is_null()) scaling = json.find("rope_scaling");
  if (scaling != nullptr && scaling->is_null()) scaling = nullptr;
  read_turning(json, scaling, config);
  if (scaling == nullptr) return;
  rope->theta = number(*scaling, "rope_theta", rope->theta);
  const Json* type = scaling->find("rope_type");
  if (type == nullptr) type = scaling->find("type");
  const std::string kind = type == nullptr ? "default" : type->string();
  rope->factor = number(*scaling, "factor", 0.0);
  if (kind == "linear") {
    rope->scaling = QUERN_ROPE_LINEAR;
  } else if (kind == "llama3") {
    rope->scaling = QUERN_ROPE_LLAMA3;
    rope->low_freq_factor = number(*scaling, "low_freq_factor", 0.0);
    rope->high_freq_factor = number(*scaling, "high_freq_factor", 0.0);
    rope->original_positions = static_cast<std::int32_t>(whole(*scaling, "original_max_position_embeddings"));
  } else if (kind == "yarn") {
    rope->scaling = QUERN_ROPE_YARN;
    rope->original_positions = static_cast<std::int32_t>(whole(*scaling, "original_max_position_embeddings"));
    rope->attention_factor = number(*scaling, "attention_factor", 0.0);
    rope->beta_fast = number(*scaling, "beta_fast", 0.0);
    rope->beta_slow = number(*scaling, "beta_slow", 0.0);
  } else if (kind != "default") {
    throw JsonError("the rope type is " + kind + "; allowed: default, linear, llama3, yarn");
  }
}

void read_gemma(const Json& json, Config* config) {
  config->norm_plus_one = config->post_norms = true;
  config->activation = QUERN_ACTIVATION_GELU_TANH;
  config->embedding_scale = std::sqrt(static_cast<float>(config->hidden));
  config->attention_scale =
      static_cast<float>(1.0 / std::sqrt(number(json, "query_pre_attn_scalar", static_cast<double>(config->head_dim))));
  config->attention_cap = static_cast<float>(number(json, "attn_logit_softcapping", 0.0));
  config->logit_cap = static_cast<float>(number(json, "final_logit_softcapping", 0.0));
}

// The key is there, as null or switched off, in models that have no window. Gemma-2 has one in every other layer, the
// first one of them; newer files name the layers.
void read_windows(const Json& json, Config* config) {
  const Json* window = json.find("sliding_window");
  if (window == nullptr || window->is_null()) return;
  if (!boolean(json, "use_sliding_window", config->type == "mistral" || config->type == "gemma2")) return;
  if (config->type != "mistral" && config->type != "gemma2")
    throw JsonError("use_sliding_window is true; allowed of " + config->type + ": false");
  if (window->whole() < 1 || window->whole() > std::uint64_t{1} << 22)
    throw JsonError("sliding_window is " + window->dump() + "; allowed: null, 1 to 4194304");
  const Json* types = json.find("layer_types");
  if (types != nullptr && !types->is_null() && types->items().size() != static_cast<std::size_t>(config->layers))
    throw JsonError("layer_types are not as many as the layers");
  for (std::int64_t i = 0; i < config->layers; ++i) {
    bool has = config->type == "mistral" || i % 2 == 0;
    if (types != nullptr && !types->is_null())
      has = types->items()[static_cast<std::size_t>(i)].string() == "sliding_attention";
    config->windows.push_back(has ? static_cast<std::int64_t>(window->whole()) : 0);
  }
}

}  // namespace

void read_ends(const Json& json, Config* config) {
  const Json* end = json.find("eos_token_id");
  if (end != nullptr && !end->is_null()) {
    config->ends.clear();
    if (end->is_array()) {
      for (const Json& each : end->items()) config->ends.push_back(static_cast<std::int64_t>(each.whole()));
    } else {
      config->ends.push_back(static_cast<std::int64_t>(end->whole()));
    }
  }
  check_config(*config);
}

Config config_of_json(const Json& json) {
  Config config;
  config.type = json.at("model_type").string();
  config.qk_norm = config.type == "qwen3";
  // A Mistral has none, whatever it says; a Qwen-2 has those of q, k and v without saying it.
  const bool biased = config.type != "mistral" && config.type != "qwen2" && boolean(json, "attention_bias", false);
  config.qkv_bias = config.type == "qwen2" || biased;
  config.output_bias = biased;
  if (boolean(json, "mlp_bias", false)) throw JsonError("mlp_bias is true; allowed: false");
  const bool gemma = config.type == "gemma2";
  if (config.type != "llama" && config.type != "mistral" && !config.qk_norm && config.type != "qwen2" && !gemma)
    throw JsonError("model_type is " + config.type + "; allowed: llama, mistral, qwen2, qwen3, gemma2");
  const std::string wanted = gemma ? "gelu_pytorch_tanh" : "silu";
  if (const Json* activation = json.find(gemma ? "hidden_activation" : "hidden_act");
      activation != nullptr && !activation->is_null() && activation->string() != wanted)
    throw JsonError("the activation is " + activation->string() + "; allowed: " + wanted);
  config.hidden = whole(json, "hidden_size");
  config.layers = whole(json, "num_hidden_layers");
  config.heads = whole(json, "num_attention_heads");
  config.kv_heads = whole(json, "num_key_value_heads", config.heads);
  config.head_dim = whole(json, "head_dim", config.heads > 0 ? config.hidden / config.heads : 0);
  config.intermediate = whole(json, "intermediate_size");
  config.vocabulary = whole(json, "vocab_size");
  config.positions = whole(json, "max_position_embeddings", 4096);
  config.eps = static_cast<float>(number(json, "rms_norm_eps", 1e-6));
  config.tied = boolean(json, "tie_word_embeddings", gemma);
  if (gemma) read_gemma(json, &config);
  config.begin = whole(json, "bos_token_id", -1);
  read_ends(json, &config);
  read_rope(json, &config);
  read_windows(json, &config);
  return config;
}

Config part_of(const Config& config, std::int64_t ranks) {
  Config part = config;
  for (std::int64_t* count : {&part.heads, &part.kv_heads, &part.intermediate}) {
    if (*count % ranks != 0) {
      throw JsonError("the heads, KV heads and the intermediate size are " + std::to_string(config.heads) + ", " +
                      std::to_string(config.kv_heads) + " and " + std::to_string(config.intermediate) +
                      ", not all of them multiples of " + std::to_string(ranks) + " devices");
    }
    *count /= ranks;
  }
  return part;
}

void check_config(const Config& config) {
  constexpr std::int64_t kMost = 1 << 22;
  const std::pair<const char*, std::int64_t> sizes[] = {
      {"hidden size", config.hidden},           {"number of layers", config.layers},
      {"number of heads", config.heads},        {"number of KV heads", config.kv_heads},
      {"head dimension", config.head_dim},      {"intermediate size", config.intermediate},
      {"vocabulary's size", config.vocabulary}, {"number of positions", config.positions}};
  for (const auto& [name, size] : sizes) {
    if (size < 1 || size > kMost)
      throw JsonError(std::string("the ") + name + " is " + std::to_string(size) + "; allowed: 1 to 4194304");
  }
  if (config.heads % config.kv_heads != 0) {
    throw JsonError("the number of heads is " + std::to_string(config.heads) + ", no multiple of the KV heads' " +
                    std::to_string(config.kv_heads));
  }
  if (config.head_dim % 2 != 0)
    throw JsonError("the head dimension is " + std::to_string(config.head_dim) + ", not even");
  for (const std::int64_t end : config.ends) {
    if (end < 0 || end >= config.vocabulary)
      throw JsonError("the token " + std::to_string(end) + " ends a text, but is not of the vocabulary");
  }
  if (config.begin >= config.vocabulary)
    throw JsonError("the token " + std::to_string(config.begin) + " begins a text, but is not of the vocabulary");
}

}  // namespace quern::engine
