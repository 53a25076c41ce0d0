// Llama-3-8B's shape, which several benchmarks warm.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bindings/demo/call.h"

namespace quern::bench {

inline quern_model llama_3_8b() {
  auto model = demo::sized<quern_model>();
  model.flags = QUERN_MODEL_GATED_MLP;
  model.hidden_size = 4096;
  model.intermediate_size = 14336;
  model.layers = 32;
  model.heads = 32;
  model.kv_heads = 8;
  model.head_dim = 128;
  model.vocab_size = 128256;
  model.max_positions = 8192;
  return model;
}

}  // namespace quern::bench
