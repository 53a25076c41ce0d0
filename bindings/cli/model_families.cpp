// A new family is a row of kFamilies, and a group of fields where its names are new.
// SPDX-License-Identifier: Apache-2.0
#include "bindings/cli/model_families.h"

#include "bindings/cli/failure.h"
#include "bindings/cli/format.h"

namespace quern::cli {
namespace {

constexpr std::uint32_t kMostHeads = 1u << 16;
constexpr std::uint32_t kMostShared = 1u << 10;

// In an order in which what a default is made from comes first.
constexpr Field kSizes[] = {
    {&quern_model::hidden_size, "hidden_size"},
    {&quern_model::intermediate_size, "intermediate_size"},
    {&quern_model::layers, "num_hidden_layers"},
    {&quern_model::heads, "num_attention_heads", Absent::refused, kMostHeads},
    {&quern_model::kv_heads, "num_key_value_heads", Absent::as_heads, kMostHeads},
    {&quern_model::vocab_size, "vocab_size"},
    {&quern_model::max_positions, "max_position_embeddings", Absent::refused, kMostPositions},
};
constexpr Field kHeadDim[] = {{&quern_model::head_dim, "head_dim", Absent::hidden_over_heads}};
constexpr Field kGpt2[] = {
    {&quern_model::hidden_size, "n_embd"},
    {&quern_model::intermediate_size, "n_inner", Absent::four_times_hidden},
    {&quern_model::layers, "n_layer"},
    {&quern_model::heads, "n_head", Absent::refused, kMostHeads},
    {&quern_model::kv_heads, "", Absent::as_heads},
    {&quern_model::head_dim, "", Absent::hidden_over_heads},
    {&quern_model::vocab_size, "vocab_size"},
    {&quern_model::max_positions, "n_positions", Absent::refused, kMostPositions},
};
constexpr Field kMixtralExperts[] = {
    {&quern_model::experts, "num_local_experts"},
    {&quern_model::experts_per_token, "num_experts_per_tok"},
    {&quern_model::expert_intermediate_size, "intermediate_size"},
};
constexpr Field kQwenExperts[] = {
    {&quern_model::experts, "num_experts"},
    {&quern_model::experts_per_token, "num_experts_per_tok"},
    {&quern_model::expert_intermediate_size, "moe_intermediate_size"},
};
constexpr Field kDeepseekExperts[] = {
    {&quern_model::experts, "n_routed_experts"},
    {&quern_model::experts_per_token, "num_experts_per_tok"},
    {&quern_model::expert_intermediate_size, "moe_intermediate_size"},
    {&quern_model::shared_experts, "n_shared_experts", Absent::number, kMostShared, 0},
};
// Where Gemma 3's files leave out what transformers has as its default.
constexpr Field kGemma3[] = {
    {&quern_model::hidden_size, "hidden_size", Absent::number, 1u << 24, 1, 2304},
    {&quern_model::intermediate_size, "intermediate_size", Absent::number, 1u << 24, 1, 9216},
    {&quern_model::layers, "num_hidden_layers", Absent::number, 1u << 24, 1, 26},
    {&quern_model::heads, "num_attention_heads", Absent::number, kMostHeads, 1, 8},
    {&quern_model::kv_heads, "num_key_value_heads", Absent::number, kMostHeads, 1, 4},
    {&quern_model::head_dim, "head_dim", Absent::number, 1u << 16, 1, 256},
    {&quern_model::vocab_size, "vocab_size", Absent::number, 1u << 24, 1, 262208},
    {&quern_model::max_positions, "max_position_embeddings", Absent::number, kMostPositions, 1, 131072},
};
// Every expert is as wide as intermediate_size, and one is shared; layers without experts are wider.
constexpr Field kLlama4Experts[] = {
    {&quern_model::intermediate_size, "intermediate_size_mlp"},
    {&quern_model::experts, "num_local_experts"},
    {&quern_model::experts_per_token, "num_experts_per_tok", Absent::number, 1u << 10, 1, 1},
    {&quern_model::expert_intermediate_size, "intermediate_size"},
    {&quern_model::shared_experts, "", Absent::number, kMostShared, 0, 1},
};
// The shared expert's width is stated; read_shared makes a number of experts of it.
constexpr Field kQwen2Experts[] = {
    {&quern_model::experts, "num_experts"},
    {&quern_model::experts_per_token, "num_experts_per_tok"},
    {&quern_model::expert_intermediate_size, "moe_intermediate_size"},
    {&quern_model::shared_experts, "shared_expert_intermediate_size", Absent::number, 1u << 24, 0},
};
// head_dim becomes the width of a query head: the part without rope, read here, and the part with it.
constexpr Field kLatent[] = {
    {&quern_model::head_dim, "qk_nope_head_dim"},
    {&quern_model::rope_head_dim, "qk_rope_head_dim"},
    {&quern_model::v_head_dim, "v_head_dim"},
    {&quern_model::kv_lora_rank, "kv_lora_rank"},
    {&quern_model::q_lora_rank, "q_lora_rank", Absent::number},
};
// What chooses the keys that are attended to.
constexpr Field kIndexer[] = {
    {&quern_model::index_heads, "index_n_heads"},
    {&quern_model::index_head_dim, "index_head_dim"},
    {&quern_model::index_top_k, "index_topk"},
};

// What a family has whatever its file says: qwen2's and gpt_oss' projections add biases, as gpt2's; qwen3's and
// gemma3's queries and keys are normalised, and Gemmas' embeddings are scaled; glm4's, llama4's and deepseek's turn
// pairs of neighbours.
constexpr std::uint32_t kGated = QUERN_MODEL_GATED_MLP;
constexpr std::uint32_t kBiased = kGated | QUERN_MODEL_BIAS;
constexpr std::uint32_t kNormed = kGated | QUERN_MODEL_QK_NORM;
constexpr std::uint32_t kScaled = kGated | QUERN_MODEL_EMBEDDING_SCALE;
constexpr std::uint32_t kInterleaved = kGated | QUERN_MODEL_ROPE_INTERLEAVED;
constexpr const char* kTanh = "gelu_pytorch_tanh";
constexpr std::uint32_t kLatentFlags = kInterleaved | QUERN_MODEL_MLA;
constexpr Family kFamilies[] = {
    {"llama", "LlamaForCausalLM", {kSizes, kHeadDim}},
    {"mistral", "MistralForCausalLM", {kSizes, kHeadDim}, kGated, Window::stated},
    {"mixtral", "MixtralForCausalLM", {kSizes, kHeadDim, kMixtralExperts}, kGated, Window::stated},
    {"qwen2", "Qwen2ForCausalLM", {kSizes, kHeadDim}, kBiased, Window::switched},
    {"qwen2_moe", "Qwen2MoeForCausalLM", {kSizes, kHeadDim, kQwen2Experts}, kBiased, Window::switched},
    {"qwen3", "Qwen3ForCausalLM", {kSizes, kHeadDim}, kNormed, Window::switched},
    {"qwen3_moe", "Qwen3MoeForCausalLM", {kSizes, kHeadDim, kQwenExperts}, kNormed, Window::switched},
    {"gemma2", "Gemma2ForCausalLM", {kSizes, kHeadDim}, kScaled, Window::stated, true, kTanh},
    {"gemma3_text", "Gemma3ForCausalLM", {kGemma3}, kScaled | QUERN_MODEL_QK_NORM, Window::stated, true, kTanh},
    {"gemma3", "Gemma3ForConditionalGeneration", {kGemma3}, kScaled | QUERN_MODEL_QK_NORM, Window::stated, true, kTanh},
    {"phi3", "Phi3ForCausalLM", {kSizes, kHeadDim}, kGated, Window::stated},
    {"glm4", "Glm4ForCausalLM", {kSizes, kHeadDim}, kInterleaved, Window::none, false, "silu", 0.5f},
    {"granite", "GraniteForCausalLM", {kSizes, kHeadDim}},
    {"llama4_text", "Llama4ForCausalLM", {kSizes, kHeadDim, kLlama4Experts}, kInterleaved},
    {"llama4", "Llama4ForConditionalGeneration", {kSizes, kHeadDim, kLlama4Experts}, kInterleaved},
    {"gpt_oss", "GptOssForCausalLM", {kSizes, kHeadDim, kMixtralExperts}, kBiased | QUERN_MODEL_SINKS, Window::stated},
    {"gpt2",
     "GPT2LMHeadModel",
     {kGpt2},
     QUERN_MODEL_BIAS | QUERN_MODEL_NO_ROPE | QUERN_MODEL_LAYER_NORM,
     Window::none,
     false,
     "gelu_new"},
    {"deepseek_v2", "DeepseekV2ForCausalLM", {kSizes, kLatent, kDeepseekExperts}, kLatentFlags},
    {"deepseek_v3", "DeepseekV3ForCausalLM", {kSizes, kLatent, kDeepseekExperts}, kLatentFlags},
    {"deepseek_v32", "DeepseekV32ForCausalLM", {kSizes, kLatent, kDeepseekExperts, kIndexer}, kLatentFlags},
    {"kimi_k2", "KimiK2ForCausalLM", {kSizes, kLatent, kDeepseekExperts}, kLatentFlags},
};

std::string known_families() {
  std::string known;
  for (const Family& family : kFamilies) known += (known.empty() ? "" : ", ") + std::string(family.model_type);
  return known;
}

const Family* family_named(const std::string& type, const std::string& architecture) {
  for (const Family& family : kFamilies) {
    if (type.empty() ? !architecture.empty() && architecture == family.architecture : type == family.model_type)
      return &family;
  }
  return nullptr;
}

// What fields say of a model whose name says nothing: which family's fields they are. Null where it is no transformer
// as those are.
const Family* family_by_fields(const ConfigReader& reader) {
  const auto has = [&](const char* name) { return reader.find(name) != nullptr; };
  // Layers that are no attention, and attention that is none of ours: a guess would warm the wrong kernels.
  for (const char* other : {"ssm_cfg", "state_size", "mamba_d_state", "linear_key_head_dim", "rwkv_version"}) {
    if (has(other)) return nullptr;
  }
  const char* name = "llama";
  if (has("kv_lora_rank")) {
    name = has("index_n_heads") ? "deepseek_v32" : "deepseek_v3";
  } else if (has("n_embd") && has("n_head")) {
    name = "gpt2";
  } else if (has("num_local_experts")) {
    name = "mixtral";
  } else if (has("num_experts") && has("moe_intermediate_size")) {
    name = has("shared_expert_intermediate_size") ? "qwen2_moe" : "qwen3_moe";
  }
  const Family* family = family_named(name, "");
  for (const std::span<const Field> group : family->groups) {
    for (const Field& field : group) {
      if (field.absent == Absent::refused && !has(field.name)) return nullptr;
    }
  }
  return family;
}

// Fields that make another model of one, and that a family read by its fields does not look at.
std::vector<std::string> not_understood(const ConfigReader& reader) {
  static constexpr const char* kFields[] = {"alibi",       "attention_chunk_size", "attn_config",    "clip_qkv",
                                            "layer_types", "multi_query",          "no_rope_layers", "parallel_attn",
                                            "rotary_dim",  "rotary_pct",           "vision_config"};
  std::vector<std::string> found;
  for (const char* name : kFields) {
    const Json* value = reader.find(name);
    if (value != nullptr && !(value->is_boolean() && !value->boolean())) found.emplace_back(name);
  }
  return found;
}

}  // namespace

const Family& family_of(const ConfigReader& reader, const std::string& asked, std::vector<std::string>& notes) {
  if (!asked.empty()) {
    if (const Family* family = family_named(asked, "")) return *family;
    throw Failure(QUERN_INVALID, "--model-type: '" + printable(asked) + "' given; known: " + known_families());
  }
  const std::string type = reader.string("model_type");
  std::string architecture;
  if (const Json* architectures = reader.find("architectures")) {
    if (!architectures->is_array() || architectures->items().empty() || !architectures->items().front().is_string()) {
      reader.fail("architectures", *architectures, "an array of strings");
    }
    architecture = architectures->items().front().string();
  }
  // A text_config may name a type of its own that is as good as the file's.
  for (const std::string& name : {type, reader.outer_string("model_type")}) {
    if (name.empty()) continue;
    if (const Family* family = family_named(name, "")) return *family;
  }
  if (type.empty()) {
    if (const Family* family = family_named("", architecture)) return *family;
  }
  const std::string known = known_families();
  if (const Family* family = family_by_fields(reader)) {
    const std::string named =
        !type.empty() ? "model_type '" + type + "'" : "this file's architecture '" + architecture + "'";
    notes.push_back((type.empty() && architecture.empty() ? "no model_type" : shorten(named, 60) + " is not known") +
                    ": read by its fields as " + family->model_type + "; --model-type NAME reads it as another");
    for (const std::string& field : not_understood(reader)) {
      notes.push_back("left out: field " + field + ", of which " + family->model_type + " knows nothing");
    }
    return *family;
  }
  if (type.empty() && architecture.empty()) reader.fail("field model_type: missing; known: " + known);
  reader.fail(
      "unknown model: " +
      (type.empty() ? "architectures names '" + printable(architecture) : "model_type is '" + printable(type)) +
      "'; known: " + known +
      "; others are read by their fields, where hidden_size, num_hidden_layers, num_attention_heads and the rest "
      "of a Llama's are there; --model-type llama reads it as one");
}

bool states_shared_width(const Family& family) { return family.groups[2].data() == kQwen2Experts; }

}  // namespace quern::cli
