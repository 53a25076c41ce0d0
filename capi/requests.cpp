// Checks of what warming and tuning are asked with.
// SPDX-License-Identifier: Apache-2.0
#include "capi/requests.h"

#include <cmath>
#include <utility>

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
                  QUERN_MODEL_KV_TOKEN_SCALES | QUERN_MODEL_LAYER_NORM | QUERN_MODEL_EMBEDDING_SCALE |
                  QUERN_MODEL_FP8_QUERIES | QUERN_MODEL_FP8_LOGITS);
  const auto need = [](const char* field, std::uint32_t value) {
    if (value == 0) throw Error(QUERN_INVALID, std::string("quern_model.") + field + " is 0; it must be given");
  };
  need("heads", model.heads);
  need("kv_heads", model.kv_heads);
  need("head_dim", model.head_dim);
  // More than any model has, and little enough for what is counted from them.
  constexpr std::uint32_t kMost = 1u << 24;
  const std::pair<const char*, std::uint32_t> counts[] = {
      {"tensor_parallel", model.tensor_parallel},
      {"hidden_size", model.hidden_size},
      {"intermediate_size", model.intermediate_size},
      {"layers", model.layers},
      {"heads", model.heads},
      {"kv_heads", model.kv_heads},
      {"head_dim", model.head_dim},
      {"v_head_dim", model.v_head_dim},
      {"vocab_size", model.vocab_size},
      {"experts", model.experts},
      {"experts_per_token", model.experts_per_token},
      {"expert_intermediate_size", model.expert_intermediate_size},
      {"kv_lora_rank", model.kv_lora_rank},
      {"q_lora_rank", model.q_lora_rank},
      {"rope_head_dim", model.rope_head_dim},
      {"page_size", model.page_size},
      {"shared_experts", model.shared_experts},
      {"rotary_dim", model.rotary_dim},
      {"index_heads", model.index_heads},
      {"index_head_dim", model.index_head_dim},
      {"index_top_k", model.index_top_k},
  };
  for (const auto& [field, value] : counts) {
    if (value > kMost) {
      throw Error(QUERN_INVALID, std::string("quern_model.") + field + " is " + std::to_string(value) + "; at most " +
                                     std::to_string(kMost) + " are allowed");
    }
  }
  for (const auto& [field, cap] :
       {std::pair{"logit_cap", model.logit_cap}, {"final_logit_cap", model.final_logit_cap}}) {
    if (!std::isfinite(cap) || cap < 0) {
      throw Error(QUERN_INVALID,
                  std::string("quern_model.") + field + " is " + std::to_string(cap) + "; 0 (none) and up are allowed");
    }
  }
}

std::string text_of_failure(std::string_view text, std::uint32_t line) {
  return line == 0 ? std::string(text) : "line " + std::to_string(line) + ": " + std::string(text);
}

}  // namespace quern::capi
