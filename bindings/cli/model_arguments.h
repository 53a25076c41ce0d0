// The options by which a command is given a model.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "bindings/cli/arguments.h"
#include "bindings/cli/model_config.h"
#include "bindings/cli/session.h"

namespace quern::cli {

class ModelArguments {
 public:
  // What is said of --config is the command's: what it does with all of a model.
  void declare(Arguments& arguments, const char* config_help, bool with_attention);
  const std::string& path() const { return config_; }
  // None where no model is given. Says in the session what was read. Throws BadInput, and Failure for options that lack
  // their model.
  std::optional<ModelConfig> read(const Session& session) const;

 private:
  std::string config_, model_type_, dtype_, kv_dtype_, kv_scales_, q_dtype_, weights_, logits_;
  std::int64_t tensor_parallel_ = 0, page_size_ = 0;
};

}  // namespace quern::cli
