// Attention by the definition, and how far a result may be from it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "tests/ops/attention_problem.h"

namespace quern::test {

// One row (a query of one head) in the precision T, by plain loops over what capi/quern.h says.
template <class T>
struct AttentionRow {
  std::vector<T> out;
  T lse;
};
AttentionRow<double> attention_row_exactly(const AttentionProblem& problem, int sequence, int query, int head);
AttentionRow<float> attention_row_plainly(const AttentionProblem& problem, int sequence, int query, int head);

// The largest share of what they may be that errors have reached in this run, over all checks.
struct Closeness {
  double out = 0.0;
  double lse = 0.0;
};
const Closeness& worst_closeness();

}  // namespace quern::test
