// What of a model's needs no op here serves, so that whoever warms for it hears of it before the first request does.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "sources/op.h"

namespace quern::ops {

struct Unserved {
  std::string need;  // "attention", "mla_decode", "expert products": an op's name where one is for it
  std::string text;  // why, with the model's numbers and what is allowed
};

// `listed` says of every op, by tag, whether it has named kernels for the model on this target.
std::vector<Unserved> unserved(const quern_model& model, const jit::TargetInfo& target,
                               const std::vector<bool>& listed);

}  // namespace quern::ops
