// What one step of a model calls, as problems: a decode of so many sequences, or a prefill of so many tokens each.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "quern.h"

namespace quern::cli {

struct ModelStep {
  std::string what;     // "attention", "gate and up projection"
  std::string line;     // the problem, as problem.h reads it
  std::uint32_t count;  // times a step
};

struct StepShape {
  std::int64_t batch = 16;
  std::int64_t context = 4096;  // keys of each sequence, this step's included
  std::int64_t queries = 1;     // new tokens of each sequence
};

// Of one rank of the model's tensor parallelism. `left_out` is told what the model needs and no problem here stands
// for.
std::vector<ModelStep> model_steps(const quern_model& model, const StepShape& shape,
                                   std::vector<std::string>& left_out);

}  // namespace quern::cli
