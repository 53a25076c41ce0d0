// SPDX-License-Identifier: Apache-2.0
#include "bindings/cli/model_weights.h"

#include <algorithm>
#include <iterator>

#include "bindings/cli/format.h"
#include "bindings/cli/quantised_weights.h"

namespace quern::cli {
namespace {

struct NamedActivation {
  std::string_view name;  // in config.json; the first of a kind is our own
  std::int32_t activation;
};
constexpr NamedActivation kActivations[] = {
    {"silu", QUERN_ACTIVATION_SILU},
    {"swish", QUERN_ACTIVATION_SILU},
    {"gelu", QUERN_ACTIVATION_GELU},
    {"gelu_tanh", QUERN_ACTIVATION_GELU_TANH},
    {"gelu_new", QUERN_ACTIVATION_GELU_TANH},
    {"gelu_fast", QUERN_ACTIVATION_GELU_TANH},
    {"gelu_pytorch_tanh", QUERN_ACTIVATION_GELU_TANH},
    {"relu", QUERN_ACTIVATION_RELU},
    {"none", QUERN_ACTIVATION_NONE},
};

// Where files name it; the first that is there holds.
constexpr const char* kActivationFields[] = {"hidden_activation", "hidden_act", "activation_function"};

// Null where a member is missing, or the value is no object.
Json member(const Json& json, const char* name) {
  const Json* found = json.find(name);
  return found == nullptr ? Json() : *found;
}

// Whether every group of a compressed-tensors file stores weights in 8-bit floating point, a scale per tensor or
// channel.
bool is_channel_fp8(const Json& groups) {
  if (!groups.is_object() || groups.members().empty()) return false;
  return std::all_of(groups.members().begin(), groups.members().end(), [](const Json::Member& group) {
    const Json weights = member(group.value, "weights");
    const Json strategy = member(weights, "strategy");
    return member(weights, "num_bits") == Json(8) && member(weights, "type") == Json("float") &&
           (strategy == Json("tensor") || strategy == Json("channel"));
  });
}

// Nothing where no kernel reads such weights.
std::optional<Weights> stored(const Json& quantisation) {
  const Json method = member(quantisation, "quant_method");
  const Json block = member(quantisation, "weight_block_size");
  if (method == Json("fp8")) {
    const Json format = member(quantisation, "fmt");
    if (!format.is_null() && !(format == Json("e4m3"))) return {};
    if (block.is_null()) return Weights::fp8;
    return block == Json::array({128, 128}) ? std::optional(Weights::fp8_block) : std::nullopt;
  }
  if (method == Json("fbgemm_fp8")) return Weights::fp8;
  if (method == Json("modelopt") && member(quantisation, "quant_algo") == Json("FP8")) return Weights::fp8;
  if (method == Json("compressed-tensors") && is_channel_fp8(member(quantisation, "config_groups")))
    return Weights::fp8;
  return {};
}

}  // namespace

void read_activation(const ConfigReader& reader, const char* missing, ModelConfig& config) {
  std::string name = missing;
  const char* field = nullptr;
  for (const char* candidate : kActivationFields) {
    const std::string given = reader.string(candidate);
    if (given.empty()) continue;
    name = given;
    field = candidate;
    break;
  }
  const auto* const known = std::find_if(std::begin(kActivations), std::end(kActivations),
                                         [&](const NamedActivation& one) { return one.name == name; });
  config.model.activation = known == std::end(kActivations) ? QUERN_ACTIVATION_NONE : known->activation;
  if (known == std::end(kActivations)) {
    config.unserved.push_back(
        "field " + std::string(field) + ": '" + shorten(name, 40) +
        "': no kernel applies it, so projections are made without (known: silu, gelu, gelu_tanh, relu "
        "and what they are also called)");
  }
}

void read_weights(const ConfigReader& reader, std::optional<Weights> forced, ModelConfig& config) {
  if (reader.truth("attention_bias") || reader.truth("mlp_bias")) config.model.flags |= QUERN_MODEL_BIAS;
  std::optional<Weights> weights = Weights::dense;
  if (const Json* quantisation = reader.find("quantization_config")) {
    if (!quantisation->is_object()) reader.fail("quantization_config", *quantisation, "an object or null");
    weights = stored(*quantisation);
    if (!weights && !forced && !read_quantised(*quantisation, config)) {
      config.unserved.push_back("quantization_config: quant_method " +
                                shorten(member(*quantisation, "quant_method").dump(), 40) + ", weight_block_size " +
                                shorten(member(*quantisation, "weight_block_size").dump(), 40) +
                                ": no kernels are made for these weights, those of 16 bits are listed instead (known: "
                                "fp8 with a scale per tensor, channel or [128,128]; awq and gptq of 4 bits; "
                                "compressed-tensors of int4 or of int8 with activations of int8; NVFP4; mxfp4 of "
                                "experts; --weights says otherwise)");
    }
  }
  if (forced) weights = forced;
  if (weights == Weights::fp8) config.model.flags |= QUERN_MODEL_FP8;
  if (weights == Weights::fp8_block) config.model.flags |= QUERN_MODEL_BLOCK_FP8;
}

std::string activation_name(std::int32_t activation) {
  for (const NamedActivation& one : kActivations) {
    if (one.activation == activation) return std::string(one.name);
  }
  return "?";
}

}  // namespace quern::cli
