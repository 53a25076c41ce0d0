// A model's weights on the device, in the order in which a layer's products take them: q, k and v as one matrix, gate
// and up as one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "bindings/demo/memory.h"
#include "bindings/engine/checkpoint.h"

namespace quern::engine {

// A product's weights [out, in]: bf16, or e4m3 with a scale for each 128x128 of them.
struct Matrix {
  void* data = nullptr;
  void* scales = nullptr;  // f32 [ceil(out/128), ceil(in/128)]; none: bf16
};

// Addresses on the device; vectors are bf16.
struct LayerWeights {
  void* attention_norm = nullptr;  // [hidden]
  Matrix qkv;                      // [qkv_width, hidden]
  void* qkv_bias = nullptr;        // [qkv_width], or none
  void* q_norm = nullptr;          // [head_dim], or none
  void* k_norm = nullptr;
  Matrix output;             // [hidden, q_width]
  void* mlp_norm = nullptr;  // [hidden]
  Matrix gate_up;            // [2 intermediate, hidden]
  Matrix down;               // [hidden, intermediate]
};

struct Weights {
  void* embedding = nullptr;  // [vocabulary, hidden]
  std::vector<LayerWeights> layers;
  void* norm = nullptr;    // [hidden]
  void* logits = nullptr;  // [vocabulary, hidden]; the embedding where they are tied
};

// Puts a matrix of bf16 where products find it, in whatever form.
using PlaceMatrix =
    std::function<Matrix(const std::vector<std::uint16_t>& values, std::int64_t rows, std::int64_t columns)>;

// Throws std::runtime_error naming what is missing or of another shape.
Weights load_weights(const Checkpoint& checkpoint, const Config& config, demo::Memory& memory,
                     const PlaceMatrix& place_matrix);

}  // namespace quern::engine
