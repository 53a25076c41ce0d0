// What a checkpoint says of its model.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "quern.h"

namespace quern {
class Json;
}

namespace quern::engine {

struct Config {
  std::string type;  // "llama"
  std::int64_t hidden = 0, layers = 0, heads = 0, kv_heads = 0, head_dim = 0, intermediate = 0, vocabulary = 0;
  std::int64_t positions = 0;  // the longest context it was trained for
  float eps = 1e-6f;
  bool tied = false;         // the output's weights are the embedding's
  bool qk_norm = false;      // each head of q and k is normalised (Qwen-3)
  bool qkv_bias = false;     // q, k and v have a bias (Qwen-2)
  bool output_bias = false;  // and so has attention's output (Llamas with attention_bias)
  // Gemma-2's: norms multiply by 1 + weight, and what a layer's halves give is normalised, too, before it is added.
  bool norm_plus_one = false, post_norms = false;
  float embedding_scale = 1.0f;
  std::int32_t activation = QUERN_ACTIVATION_SILU;  // of the gate
  float attention_scale = 0.0f;                     // 0: 1/sqrt(head_dim)
  float attention_cap = 0.0f, logit_cap = 0.0f;     // x becomes cap * tanh(x / cap); 0: none
  std::vector<std::int64_t> windows;                // of each layer, in tokens with the query's own; 0: all
  quern_rope_options rope{};
  std::vector<float> rope_divisors;  // of each frequency, where a file has them rather than a formula
  std::int64_t begin = -1;           // the token that a text begins with; -1: none
  std::vector<std::int64_t> ends;    // the tokens that end a text

  std::int64_t q_width() const { return heads * head_dim; }
  std::int64_t kv_width() const { return kv_heads * head_dim; }
  std::int64_t qkv_width() const { return q_width() + 2 * kv_width(); }
};

// Of the config.json of a Llama, Mistral, Qwen-2, Qwen-3 or Gemma-2. Throws JsonError naming the field and what is
// allowed.
Config config_of_json(const Json& json);
// Of a generation_config.json: the tokens that end a text, where it names them. Throws as check_config.
void read_ends(const Json& json, Config* config);
// What one of `ranks` devices has of the model, each a part of the heads and of the MLP. Throws JsonError where these
// cannot be divided so.
Config part_of(const Config& config, std::int64_t ranks);
// Throws JsonError where sizes are out of all bounds or do not go together.
void check_config(const Config& config);

}  // namespace quern::engine
