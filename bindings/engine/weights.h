// A model's weights on the device, in the order in which a layer's products take them: q, k and v as one matrix, gate
// and up as one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "bindings/demo/memory.h"
#include "bindings/engine/checkpoint.h"

namespace quern::engine {

// Addresses on the device; all are bf16, a matrix [out, in].
struct LayerWeights {
  void* attention_norm = nullptr;  // [hidden]
  void* qkv = nullptr;             // [qkv_width, hidden]
  void* qkv_bias = nullptr;        // [qkv_width], or none
  void* q_norm = nullptr;          // [head_dim], or none
  void* k_norm = nullptr;
  void* output = nullptr;    // [hidden, q_width]
  void* mlp_norm = nullptr;  // [hidden]
  void* gate_up = nullptr;   // [2 intermediate, hidden]
  void* down = nullptr;      // [hidden, intermediate]
};

struct Weights {
  void* embedding = nullptr;  // [vocabulary, hidden]
  std::vector<LayerWeights> layers;
  void* norm = nullptr;    // [hidden]
  void* logits = nullptr;  // [vocabulary, hidden]; the embedding where they are tied
};

// Throws std::runtime_error naming what is missing or of another shape.
Weights load_weights(const Checkpoint& checkpoint, const Config& config, demo::Memory& memory);

}  // namespace quern::engine
