// The options by which a command is given a model.
// SPDX-License-Identifier: Apache-2.0
#include "bindings/cli/model_arguments.h"

#include <array>
#include <utility>

#include "bindings/cli/failure.h"
#include "bindings/cli/files.h"
#include "bindings/cli/format.h"
#include "bindings/cli/validators.h"

namespace quern::cli {
namespace {

constexpr std::array<std::string_view, 2> kDtypes = {"bf16", "f16"};
constexpr std::array<std::string_view, 5> kKvDtypes = {"bf16", "f16", "e4m3", "e5m2", "int8"};
constexpr std::array<std::string_view, 3> kWeights = {"bf16", "fp8", "fp8-block"};

std::string weights_name(const quern_model& model) {
  if ((model.flags & QUERN_MODEL_BLOCK_FP8) != 0) return "fp8-block";
  return (model.flags & QUERN_MODEL_FP8) != 0 ? "fp8" : dtype_name(model.dtype);
}

}  // namespace

void ModelArguments::declare(CLI::App& app, const char* config_help, bool with_attention) {
  app.add_option("--config", config_, config_help)->type_name("FILE")->check(not_empty());
  app.add_option("--tp", tensor_parallel_, "With --config: ranks that the heads are divided over (1)")
      ->type_name("N")
      ->check(whole_number(1, 1024));
  app.add_option("--dtype", dtype_, "With --config: of activations, bf16 or f16 (the file's)")
      ->type_name("TYPE")
      ->check(one_of(kDtypes));
  app.add_option("--weights", weights_,
                 "With --config: how weights are stored, bf16 (as activations), fp8 or fp8-block (the file's)")
      ->type_name("TYPE")
      ->check(one_of(kWeights));
  if (!with_attention) return;
  app.add_option("--kv-dtype", kv_dtype_, "With --config: of the KV cache, bf16, f16, e4m3, e5m2 or int8 (as --dtype)")
      ->type_name("TYPE")
      ->check(one_of(kKvDtypes));
  app.add_option("--page-size", page_size_, "With --config: tokens a page of the KV cache (16 and 64)")
      ->type_name("N")
      ->check(whole_number(1, 65536));
}

std::optional<ModelConfig> ModelArguments::read(const Session& session) const {
  if (config_.empty()) {
    const std::pair<const char*, bool> needs_config[] = {
        {"--tp", tensor_parallel_ != 0},  {"--dtype", !dtype_.empty()},     {"--kv-dtype", !kv_dtype_.empty()},
        {"--weights", !weights_.empty()}, {"--page-size", page_size_ != 0},
    };
    for (const auto& [option, given] : needs_config) {
      if (given)
        throw Failure(QUERN_INVALID,
                      std::string(option) + ": given without --config; allowed: with --config FILE only");
    }
    return {};
  }
  ModelOptions options;
  options.tensor_parallel = tensor_parallel_ == 0 ? 1 : tensor_parallel_;
  options.page_size = page_size_;
  if (!dtype_.empty()) options.dtype = dtype_named(dtype_);
  if (!kv_dtype_.empty()) options.kv_dtype = dtype_named(kv_dtype_);
  if (!weights_.empty()) {
    options.weights = weights_ == "fp8" ? Weights::fp8 : weights_ == "bf16" ? Weights::dense : Weights::fp8_block;
  }
  ModelConfig config = read_model_config(read_input(config_), config_, options);
  const quern_model& model = config.model;
  session.console.detail("model: " + config.model_type + ", " + format_count(model.layers, "layer") + ", " +
                         std::to_string(model.heads) + '/' + std::to_string(model.kv_heads) + " heads of " +
                         std::to_string(model.head_dim) + ", " + dtype_name(model.dtype) + ", KV " +
                         dtype_name(model.kv_dtype) + ", weights " + weights_name(model) + ", tensor parallel " +
                         std::to_string(model.tensor_parallel));
  for (const std::string& note : config.notes) session.console.note(config_ + ": " + printable(note));
  session.result["model"] = model_to_json(model);
  session.result["model"]["model_type"] = config.model_type;
  session.result["notes"] = config.notes;
  return config;
}

}  // namespace quern::cli
