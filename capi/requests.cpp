// Checks of what warming and tuning are asked with.
// SPDX-License-Identifier: Apache-2.0
#include "capi/requests.h"

#include <cmath>

#include "capi/abi.h"

namespace quern::capi {

void check_request(const char* manifest, std::uint64_t manifest_length, const quern_model* model, const char* verb) {
  if (manifest == nullptr && manifest_length != 0) {
    throw Error(QUERN_INVALID, "manifest is NULL with a manifest_length of " + std::to_string(manifest_length));
  }
  if (manifest == nullptr && model == nullptr) {
    throw Error(QUERN_INVALID, std::string("neither manifest nor model is given; there is nothing to ") + verb);
  }
}

void check_model(const quern_model& model) {
  check_flags("quern_model.flags", model.flags,
              QUERN_MODEL_SINKS | QUERN_MODEL_MLA | QUERN_MODEL_GATED_MLP | QUERN_MODEL_BLOCK_FP8 | QUERN_MODEL_FP8 |
                  QUERN_MODEL_BIAS | QUERN_MODEL_QK_NORM | QUERN_MODEL_ROPE_INTERLEAVED | QUERN_MODEL_NO_ROPE |
                  QUERN_MODEL_KV_TOKEN_SCALES | QUERN_MODEL_LAYER_NORM);
  const auto need = [](const char* field, std::uint32_t value) {
    if (value == 0) throw Error(QUERN_INVALID, std::string("quern_model.") + field + " is 0; it must be given");
  };
  need("heads", model.heads);
  need("kv_heads", model.kv_heads);
  need("head_dim", model.head_dim);
  if (!std::isfinite(model.logit_cap) || model.logit_cap < 0) {
    throw Error(QUERN_INVALID,
                "quern_model.logit_cap is " + std::to_string(model.logit_cap) + "; 0 (none) and up are allowed");
  }
}

std::string text_of_failure(std::string_view text, std::uint32_t line) {
  return line == 0 ? std::string(text) : "line " + std::to_string(line) + ": " + std::string(text);
}

}  // namespace quern::capi
