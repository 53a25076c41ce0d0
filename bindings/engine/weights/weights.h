// A model's weights on the device, in the order in which a layer's products take them: q, k and v as one matrix, gate
// and up as one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "bindings/demo/memory.h"
#include "bindings/engine/checkpoint/checkpoint.h"
#include "quern.h"

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
  Matrix output;                        // [hidden, q_width]
  void* output_bias = nullptr;          // [hidden], or none: of several devices the first has it
  void* attention_post_norm = nullptr;  // [hidden], or none: of what attention gives
  void* mlp_norm = nullptr;             // [hidden]
  Matrix gate_up;                       // [2 intermediate, hidden]
  Matrix down;                          // [hidden, intermediate]
  void* mlp_post_norm = nullptr;
};

struct Weights {
  std::unique_ptr<demo::Memory> memory;  // where all of them are
  void* embedding = nullptr;             // [vocabulary, hidden]
  std::vector<LayerWeights> layers;
  void* norm = nullptr;  // [hidden]
  Matrix logits;         // [vocabulary, hidden]; the embedding where they are tied and bf16
};

// Puts numbers on a device, as its products take them.
class Placer {
 public:
  // Matrices become e4m3 where `fp8` says so.
  Placer(quern_context* context, const quern_device_info& device, bool fp8);

  void* plain(std::span<const std::uint16_t> bf16);
  Matrix matrix(std::span<const std::uint16_t> bf16, std::int64_t rows, std::int64_t columns);
  bool fp8() const { return fp8_; }
  // What has been placed; to be kept as long as that is used.
  std::unique_ptr<demo::Memory> take() { return std::move(memory_); }

 private:
  quern_context* context_;
  quern_device_info device_;
  bool fp8_;
  std::unique_ptr<demo::Memory> memory_;
};

// Which part of a model: one of so many devices'.
struct Shard {
  std::int64_t rank = 0, size = 1;
};

// Of the whole model's config, this part of its weights. Throws std::runtime_error naming what is missing or of another
// shape.
Weights load_weights(const Checkpoint& checkpoint, const Config& config, Placer placer, Shard shard = {});

}  // namespace quern::engine
