// The options by which a command is given a model.
// SPDX-License-Identifier: Apache-2.0
#include "bindings/cli/model_arguments.h"

#include <array>
#include <utility>

#include "bindings/cli/failure.h"
#include "bindings/cli/files.h"
#include "bindings/cli/format.h"
#include "bindings/cli/gguf_config.h"
#include "bindings/cli/validators.h"

namespace quern::cli {
namespace {

// The largest that are published, with a table of every layer's form, have some hundred KB.
constexpr std::size_t kMostConfig = std::size_t{4} << 20;

constexpr std::array<std::string_view, 2> kDtypes = {"bf16", "f16"};
constexpr std::array<std::string_view, 5> kKvDtypes = {"bf16", "f16", "e4m3", "e5m2", "int8"};
constexpr std::array<std::string_view, 2> kKvScales = {"tensor", "token"};
constexpr std::array<std::string_view, 2> kQDtypes = {"bf16", "e4m3"};
constexpr std::array<std::string_view, 3> kWeights = {"bf16", "fp8", "fp8-block"};
constexpr std::array<std::string_view, 2> kLogits = {"bf16", "fp8"};

std::string weights_name(const quern_model& model) {
  if ((model.flags & QUERN_MODEL_BLOCK_FP8) != 0) return "fp8-block";
  return (model.flags & QUERN_MODEL_FP8) != 0 ? "fp8" : dtype_name(model.dtype);
}

}  // namespace

void ModelArguments::declare(Arguments& arguments, const char* config_help, bool with_attention) {
  arguments.text("--config", config_, "FILE", config_help, not_empty());
  arguments.text("--model-type", model_type_, "NAME",
                 "With --config: read the file as one of this family, such as llama (its model_type)", not_empty());
  arguments.number("--tp", tensor_parallel_, "N", "With --config: ranks that the heads are divided over (1)",
                   whole_number(1, 1024));
  arguments.text("--dtype", dtype_, "TYPE", "With --config: of activations, bf16 or f16 (the file's)", one_of(kDtypes));
  arguments.text("--weights", weights_, "TYPE",
                 "With --config: how weights are stored, bf16 (as activations), fp8 or fp8-block (the file's)",
                 one_of(kWeights));
  arguments.text("--logits", logits_, "TYPE",
                 "With weights of 8 bits: how the logits' are stored, bf16 (as activations) or fp8 (as the others)",
                 one_of(kLogits));
  if (!with_attention) return;
  arguments.text("--kv-dtype", kv_dtype_, "TYPE",
                 "With --config: of the KV cache, bf16, f16, e4m3, e5m2 or int8 (as --dtype)", one_of(kKvDtypes));
  arguments.text("--kv-scales", kv_scales_, "KIND",
                 "With --kv-dtype of 8 bits: a scale a tensor or head (tensor), or a token and head (token)",
                 one_of(kKvScales));
  arguments.text("--q-dtype", q_dtype_, "TYPE",
                 "With --kv-dtype e4m3: queries of prompts and drafts, bf16 (as activations) or e4m3",
                 one_of(kQDtypes));
  arguments.number("--page-size", page_size_, "N", "With --config: tokens a page of the KV cache (16 and 64)",
                   whole_number(1, 65536));
}

std::optional<ModelConfig> ModelArguments::read(const Session& session) const {
  if (config_.empty()) {
    const std::pair<const char*, bool> needs_config[] = {
        {"--tp", tensor_parallel_ != 0},      {"--dtype", !dtype_.empty()},     {"--kv-dtype", !kv_dtype_.empty()},
        {"--weights", !weights_.empty()},     {"--page-size", page_size_ != 0}, {"--model-type", !model_type_.empty()},
        {"--kv-scales", !kv_scales_.empty()}, {"--q-dtype", !q_dtype_.empty()}, {"--logits", !logits_.empty()},
    };
    for (const auto& [option, given] : needs_config) {
      if (given)
        throw Failure(QUERN_INVALID,
                      std::string(option) + ": given without --config; allowed: with --config FILE only");
    }
    return {};
  }
  ModelOptions options;
  options.tensor_parallel = tensor_parallel_ == 0 ? 1 : static_cast<std::uint32_t>(tensor_parallel_);
  options.page_size = static_cast<std::uint32_t>(page_size_);
  options.model_type = model_type_;
  if (!dtype_.empty()) options.dtype = dtype_named(dtype_);
  if (!kv_dtype_.empty()) options.kv_dtype = dtype_named(kv_dtype_);
  if (!kv_scales_.empty() && (!options.kv_dtype || options.kv_dtype->bits != 8)) {
    throw Failure(QUERN_INVALID, "--kv-scales: given for a KV cache of " +
                                     (kv_dtype_.empty() ? "the activations' type" : kv_dtype_) +
                                     "; allowed: with --kv-dtype e4m3, e5m2 or int8");
  }
  options.kv_token_scales = kv_scales_ == "token";
  options.q_fp8 = q_dtype_ == "e4m3";
  options.logits_fp8 = logits_ == "fp8";
  if (!weights_.empty()) {
    options.weights = weights_ == "fp8" ? Weights::fp8 : weights_ == "bf16" ? Weights::dense : Weights::fp8_block;
  }
  const std::string text = is_gguf(config_) ? config_of_gguf(config_, model_type_) : read_input(config_, kMostConfig);
  ModelConfig config = read_model_config(text, config_, options);
  const quern_model& model = config.model;
  session.console.detail("model: " + config.model_type + ", " + format_count(model.layers, "layer") + ", " +
                         std::to_string(model.heads) + '/' + std::to_string(model.kv_heads) + " heads of " +
                         std::to_string(model.head_dim) + ", " + dtype_name(model.dtype) + ", KV " +
                         dtype_name(model.kv_dtype) + ", weights " + weights_name(model) + ", tensor parallel " +
                         std::to_string(model.tensor_parallel));
  for (const std::string& note : config.notes) session.console.note(config_ + ": " + printable(note));
  session.result["model"] = model_to_json(model);
  session.result["model"]["model_type"] = config.model_type;
  session.result["notes"] = Json(config.notes);
  return config;
}

}  // namespace quern::cli
