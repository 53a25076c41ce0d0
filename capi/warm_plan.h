// What a call of quern_warm asks for, before anything is compiled.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "capi/list.h"
#include "capi/quern.h"
#include "jit/spec.h"
#include "jit/target.h"

namespace quern::capi {

// One specialisation to be made, or a line or op that could not say which.
struct WarmItem {
  std::optional<jit::Spec> spec;  // none: `row` already holds the failure
  WarmRow row;
  bool done = false;
};

// The targets of the call: those given, else `own`. Throws Error(QUERN_INVALID) naming the one that is unknown.
std::vector<jit::Target> read_targets(const quern_warm_options& options, std::optional<jit::Target> own);

// The manifest's lines in order, then what the model needs; each specialisation once. A bad line, or an op that refuses
// the model, becomes an item that has failed. In the checked form the kernel that walks index tensors comes after them,
// for each target once. Throws Error(QUERN_INVALID) when the model itself is no model.
std::vector<WarmItem> plan_warm(const quern_warm_options& options, const std::vector<jit::Target>& targets,
                                bool checked);

}  // namespace quern::capi
