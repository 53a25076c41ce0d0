// What a real model's attention layers were given, and what they should have answered.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace quern::demo {

// One sequence in one layer; bf16 as its bits. `out` and `lse` (natural logarithm) are causal attention by fp64 maths.
struct Sequence {
  std::int64_t tokens = 0;
  std::vector<std::uint16_t> q;     // [tokens, heads, dim]
  std::vector<std::uint16_t> k, v;  // [tokens, kv_heads, dim]
  std::vector<float> out;           // [tokens, heads, dim]
  std::vector<float> lse;           // [tokens, heads]
};

struct Layer {
  int index = 0;  // in the model
  std::vector<Sequence> sequences;
};

struct Activations {
  std::int64_t heads = 0, kv_heads = 0, dim = 0;
  float scale = 0;
  std::vector<Layer> layers;
};

// Throws std::runtime_error naming what is missing or does not fit together.
Activations read_activations(const std::string& path);

}  // namespace quern::demo
