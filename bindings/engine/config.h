// What a checkpoint's config.json says of its model.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "quern.h"

namespace quern::engine {

struct Config {
  std::string type;  // "llama"
  std::int64_t hidden = 0, layers = 0, heads = 0, kv_heads = 0, head_dim = 0, intermediate = 0, vocabulary = 0;
  std::int64_t positions = 0;  // the longest context it was trained for
  float eps = 1e-6f;
  bool tied = false;      // the output's weights are the embedding's
  bool qk_norm = false;   // each head of q and k is normalised (Qwen-3)
  bool qkv_bias = false;  // q, k and v have a bias (Qwen-2)
  quern_rope_options rope{};
  std::int64_t begin = -1;         // the token in front of every text; -1: none
  std::vector<std::int64_t> ends;  // the tokens that end a text

  std::int64_t q_width() const { return heads * head_dim; }
  std::int64_t kv_width() const { return kv_heads * head_dim; }
  std::int64_t qkv_width() const { return q_width() + 2 * kv_width(); }
};

// Reads FOLDER/config.json of a Llama, Mistral, Qwen-2 or Qwen-3. Throws std::runtime_error naming the file, the field
// and what is allowed.
Config read_config(const std::string& folder);

}  // namespace quern::engine
