// Manifests and the results of warming, as the tests of specialisations read them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>
#include <vector>

#include "tests/ops/device.h"

namespace quern::test {

struct Warmed {
  int outcome;  // enum quern_warm_outcome
  std::string op, target, key, spec, text;
  double milliseconds;
};

// Warms what the manifest and the model ask for, for the targets; none: the context's own.
std::vector<Warmed> warm(quern_context* context, const std::vector<std::string>& targets, const std::string& manifest,
                         const quern_model* model = nullptr, std::uint32_t flags = 0);

// The lines that a model's needs are, on the context's own target.
std::set<std::string> listed_by_warm(quern_context* context, const quern_model& model);

// The lines of everything that a context has specialised.
std::vector<std::string> manifest_of(const quern_context* context);

}  // namespace quern::test
