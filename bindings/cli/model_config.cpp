// A model's config.json, as Hugging Face repositories carry it, to the quern_model that `warm` asks the library with.
// SPDX-License-Identifier: Apache-2.0
#include "bindings/cli/model_config.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>

#include "bindings/cli/config_reader.h"
#include "bindings/cli/failure.h"
#include "bindings/cli/format.h"
#include "bindings/cli/library.h"
#include "bindings/cli/model_families.h"
#include "bindings/cli/model_weights.h"

namespace quern::cli {
namespace {

struct NamedType {
  std::string_view name;
  DLDataType dtype;
};
constexpr NamedType kTypes[] = {
    {"bf16", {kDLBfloat, 16, 1}},     {"f16", {kDLFloat, 16, 1}}, {"e4m3", {kDLFloat8_e4m3fn, 8, 1}},
    {"e5m2", {kDLFloat8_e5m2, 8, 1}}, {"int8", {kDLInt, 8, 1}},
};

std::uint32_t fallback(const ConfigReader& reader, const Field& field, const quern_model& model) {
  switch (field.absent) {
    case Absent::number:
      return field.number;
    case Absent::as_heads:
      return model.heads;
    case Absent::four_times_hidden:
      return 4 * model.hidden_size;
    case Absent::hidden_over_heads:
      if (model.heads != 0 && model.hidden_size % model.heads == 0) return model.hidden_size / model.heads;
      reader.fail("field head_dim: missing, and the hidden size " + std::to_string(model.hidden_size) +
                  " is no multiple of the heads, " + std::to_string(model.heads) +
                  "; allowed: a whole number from 1 on");
    case Absent::refused:
      break;
  }
  reader.fail("field " + std::string(field.name) + ": missing; allowed: a whole number from 1 to " +
              std::to_string(field.most));
}

// Of a width that all shared experts have together, their number.
void read_shared(const ConfigReader& reader, quern_model& model) {
  if (model.shared_experts == 0) return;
  if (model.shared_experts % model.expert_intermediate_size != 0) {
    reader.fail("field shared_expert_intermediate_size: " + std::to_string(model.shared_experts) +
                " given; allowed: a multiple of moe_intermediate_size, " +
                std::to_string(model.expert_intermediate_size));
  }
  model.shared_experts /= model.expert_intermediate_size;
}

void read_window(const ConfigReader& reader, Window rule, quern_model& model) {
  if (rule == Window::none) return;
  if (rule == Window::switched && !reader.truth("use_sliding_window")) return;
  const Json* window = reader.find("sliding_window");
  if (window != nullptr) model.sliding_window = reader.whole("sliding_window", *window, kMostPositions);
}

// 0 where there is none.
float read_cap(const ConfigReader& reader, const char* name) {
  const Json* cap = reader.find(name);
  if (cap == nullptr) return 0.0f;
  const double value = cap->is_number() ? cap->number() : -1;
  if (!(value >= 0 && value <= 1e6)) reader.fail(name, *cap, "a number from 0 (none) to 1000000, or null");
  return static_cast<float>(value);
}

// How much of a head turns: a share of it, in the file or, as newer ones have it, among its rope's parameters; rounded
// down to whole dimensions, as transformers does.
void read_rotary(const ConfigReader& reader, float otherwise, quern_model& model) {
  if ((model.flags & (QUERN_MODEL_MLA | QUERN_MODEL_NO_ROPE)) != 0) return;
  static constexpr const char* kName = "partial_rotary_factor";
  const Json* factor = reader.find(kName);
  if (const Json* rope = reader.find("rope_parameters"); factor == nullptr && rope != nullptr && rope->is_object()) {
    factor = rope->find(kName);
  }
  double value = otherwise;
  if (factor != nullptr && !factor->is_null()) value = factor->is_number() ? factor->number() : -1;
  const auto turning = static_cast<std::uint32_t>(std::clamp(value, 0.0, 1.0) * model.head_dim);
  if (!(value > 0 && value <= 1) || turning < 2 || turning % 2 != 0) {
    reader.fail(kName, factor != nullptr ? *factor : Json(value),
                "a number above 0 and up to 1 by which an even number of a head's " + std::to_string(model.head_dim) +
                    " dimensions turn");
  }
  if (turning != model.head_dim) model.rotary_dim = turning;
}

void read_dtype(const ConfigReader& reader, const ModelOptions& options, quern_model& model) {
  model.dtype = dtype_named("bf16");
  if (options.dtype) {
    model.dtype = *options.dtype;
  } else {
    const char* name = reader.find("torch_dtype") != nullptr ? "torch_dtype" : "dtype";
    const std::string given = reader.string(name);
    if (given == "float16") {
      model.dtype = dtype_named("f16");
    } else if (!given.empty() && given != "bfloat16") {
      reader.fail(name, given, "bfloat16, float16; or say with --dtype what the engine computes in");
    }
  }
  model.kv_dtype = options.kv_dtype.value_or(model.dtype);
}

// What else is of 8 bits by the command line, where what it goes with is.
void read_eights(const ConfigReader& reader, const ModelOptions& options, quern_model& model) {
  if (options.q_fp8) {
    if (model.kv_dtype.code != kDLFloat8_e4m3fn || (model.flags & QUERN_MODEL_MLA) != 0) {
      reader.fail(std::string("--q-dtype: e4m3 given for a KV cache ") +
                  ((model.flags & QUERN_MODEL_MLA) != 0 ? "of latents" : "of " + dtype_name(model.kv_dtype)) +
                  "; allowed: with keys and values of --kv-dtype e4m3");
    }
    model.flags |= QUERN_MODEL_FP8_QUERIES;
  }
  if (options.logits_fp8) {
    if ((model.flags & (QUERN_MODEL_FP8 | QUERN_MODEL_BLOCK_FP8)) == 0) {
      reader.fail("--logits: fp8 given for weights of " + dtype_name(model.dtype) +
                  "; allowed: with weights of fp8 or fp8-block");
    }
    model.flags |= QUERN_MODEL_FP8_LOGITS;
  }
}

void check_heads(const ConfigReader& reader, const quern_model& model) {
  const auto text = [](std::uint32_t number) { return std::to_string(number); };
  if (model.heads % model.kv_heads != 0) {
    reader.fail("field num_key_value_heads: " + text(model.kv_heads) + " given; allowed: a divisor of the " +
                text(model.heads) + " attention heads");
  }
  if (model.heads % model.tensor_parallel != 0) {
    reader.fail("--tp: " + text(model.tensor_parallel) + " given; allowed: a divisor of the model's " +
                text(model.heads) + " attention heads");
  }
  // Where there are fewer KV heads than ranks, every rank holds a copy of one. The latent of MLA is on every rank
  // anyway.
  const bool latent = (model.flags & QUERN_MODEL_MLA) != 0;
  if (!latent && model.kv_heads % model.tensor_parallel != 0 && model.tensor_parallel % model.kv_heads != 0) {
    reader.fail("--tp: " + text(model.tensor_parallel) + " given; allowed: a divisor or a multiple of the model's " +
                text(model.kv_heads) + " key and value heads");
  }
}

// What nobody looked at may make another model of it: its name is told, for whoever knows.
void tell_not_asked_for(const ConfigReader& reader, ModelConfig& config) {
  std::string names;
  for (const std::string& name : reader.not_asked_for()) names += (names.empty() ? "" : ", ") + name;
  if (!names.empty()) config.notes.push_back("not looked at: " + shorten(names, 400));
}

}  // namespace

ModelConfig read_model_config(std::string_view text, const std::string& path, const ModelOptions& options) {
  const ConfigReader reader(text, path);
  std::vector<std::string> notes;
  const Family& family = family_of(reader, options.model_type, notes);
  ModelConfig config{sized<quern_model>(), family.model_type, std::move(notes), {}, ""};
  if (const std::string own = reader.string("model_type"); !options.model_type.empty() && own != options.model_type) {
    config.notes.push_back("read as " + options.model_type +
                           (own.empty() ? "" : ", model_type is " + shorten(own, 40)));
  }
  quern_model& model = config.model;
  model.flags = family.flags;
  // A family that is known by its name has what it has; one that is read by its fields has what they say.
  const bool by_fields = !config.notes.empty();
  if (by_fields) {
    if (reader.truth("attention_bias")) model.flags |= QUERN_MODEL_BIAS;
    if (reader.truth("qk_layernorm") || reader.truth("use_qk_norm")) model.flags |= QUERN_MODEL_QK_NORM;
  }
  if (options.kv_token_scales) model.flags |= QUERN_MODEL_KV_TOKEN_SCALES;
  model.tensor_parallel = options.tensor_parallel;
  model.page_size = options.page_size;
  for (const std::span<const Field> group : family.groups) {
    for (const Field& field : group) {
      const Json* value = *field.name == '\0' ? nullptr : reader.find(field.name);
      model.*field.member =
          value != nullptr ? reader.whole(field.name, *value, field.most, field.least) : fallback(reader, field, model);
    }
  }
  if ((family.flags & QUERN_MODEL_MLA) != 0) model.head_dim += model.rope_head_dim;
  if (states_shared_width(family)) read_shared(reader, model);
  read_window(reader, family.window, model);
  read_rotary(reader, family.rotary, model);
  if (family.caps) {
    model.logit_cap = read_cap(reader, "attn_logit_softcapping");
    model.final_logit_cap = read_cap(reader, "final_logit_softcapping");
  }
  read_dtype(reader, options, model);
  read_activation(reader, family.activation, config);
  read_weights(reader, options.weights, config);
  read_eights(reader, options, model);
  check_heads(reader, model);
  if (by_fields) tell_not_asked_for(reader, config);
  return config;
}

Json model_to_json(const quern_model& model) {
  static constexpr struct {
    Member member;
    const char* name;
  } kNumbers[] = {
      {&quern_model::tensor_parallel, "tensor_parallel"},
      {&quern_model::hidden_size, "hidden_size"},
      {&quern_model::intermediate_size, "intermediate_size"},
      {&quern_model::layers, "layers"},
      {&quern_model::heads, "heads"},
      {&quern_model::kv_heads, "kv_heads"},
      {&quern_model::head_dim, "head_dim"},
      {&quern_model::v_head_dim, "v_head_dim"},
      {&quern_model::vocab_size, "vocab_size"},
      {&quern_model::max_positions, "max_positions"},
      {&quern_model::sliding_window, "sliding_window"},
      {&quern_model::experts, "experts"},
      {&quern_model::experts_per_token, "experts_per_token"},
      {&quern_model::expert_intermediate_size, "expert_intermediate_size"},
      {&quern_model::shared_experts, "shared_experts"},
      {&quern_model::kv_lora_rank, "kv_lora_rank"},
      {&quern_model::q_lora_rank, "q_lora_rank"},
      {&quern_model::rope_head_dim, "rope_head_dim"},
      {&quern_model::rotary_dim, "rotary_dim"},
      {&quern_model::index_heads, "index_heads"},
      {&quern_model::index_head_dim, "index_head_dim"},
      {&quern_model::index_top_k, "index_top_k"},
      {&quern_model::page_size, "page_size"},
  };
  static constexpr struct {
    std::uint32_t flag;
    const char* name;
  } kFlags[] = {
      {QUERN_MODEL_SINKS, "sinks"},
      {QUERN_MODEL_MLA, "mla"},
      {QUERN_MODEL_GATED_MLP, "gated_mlp"},
      {QUERN_MODEL_BLOCK_FP8, "block_fp8"},
      {QUERN_MODEL_FP8, "fp8"},
      {QUERN_MODEL_BIAS, "bias"},
      {QUERN_MODEL_QK_NORM, "qk_norm"},
      {QUERN_MODEL_ROPE_INTERLEAVED, "rope_interleaved"},
      {QUERN_MODEL_NO_ROPE, "no_rope"},
      {QUERN_MODEL_KV_TOKEN_SCALES, "kv_token_scales"},
      {QUERN_MODEL_LAYER_NORM, "layer_norm"},
      {QUERN_MODEL_EMBEDDING_SCALE, "embedding_scale"},
      {QUERN_MODEL_FP8_QUERIES, "fp8_queries"},
      {QUERN_MODEL_FP8_LOGITS, "fp8_logits"},
  };
  Json json;
  for (const auto& number : kNumbers) json[number.name] = model.*number.member;
  json["logit_cap"] = model.logit_cap;
  json["final_logit_cap"] = model.final_logit_cap;
  json["activation"] = activation_name(model.activation);
  json["dtype"] = dtype_name(model.dtype);
  json["kv_dtype"] = dtype_name(model.kv_dtype);
  for (const auto& flag : kFlags) json[flag.name] = (model.flags & flag.flag) != 0;
  return json;
}

DLDataType dtype_named(std::string_view name) {
  const auto* const found =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](const NamedType& t) { return t.name == name; });
  if (found == std::end(kTypes)) throw Failure(QUERN_INTERNAL, "no dtype is named '" + std::string(name) + "'");
  return found->dtype;
}

std::string dtype_name(DLDataType dtype) {
  for (const NamedType& type : kTypes) {
    if (type.dtype.code == dtype.code && type.dtype.bits == dtype.bits) return std::string(type.name);
  }
  return "?";
}

}  // namespace quern::cli
