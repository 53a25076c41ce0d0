// Measuring one problem.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "bindings/cli/bench/ceiling.h"
#include "bindings/cli/bench/machine.h"
#include "bindings/cli/bench/problem.h"
#include "bindings/cli/session.h"

namespace quern::cli {

struct Measured {
  double call = 0;   // us: one call whose operands come from memory, between two events; the median
  double graph = 0;  // us: one of twenty calls in a graph, on copies that do not fit into the L2; 0: no graphs here
  std::vector<std::string> kernels;  // what ran, as lines of a manifest
  std::string why;                   // how it was chosen
  double per_call() const { return graph > 0 ? graph : call; }
};

struct MeasureOptions {
  double milliseconds = 50;  // for each of call and graph
  std::uint64_t seed = 1;
};

// On a context of its own, so that what has been specialised there is what ran. Throws Failure.
Measured measure(const Problem& problem, const ContextOptions& context, Console& console, Machine& machine,
                 const MeasureOptions& options);

}  // namespace quern::cli
