// Attention by the definition, and how far a result may be from it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "tests/ops/attention_problem.h"

namespace quern::test {

// One row (a query of one head) in the precision T, by plain loops over what capi/quern.h says.
//
// Twice the error of the plain loops in f32 is what a row may be off by, and besides what any kernel may add that
// theirs has not, or had by luck not:
//
//   the result   its rounding to the working precision, of unit roundoff u: u of the largest
//   the weights  they are operands of tensor cores in the working precision, each off by up to u of itself. Together
//   never by more
//                than u sum(w |v|) / sum(w); and as their errors go in random directions, of 0.41 u each on average, by
//                no more than 3 u sqrt(sum(w^2 v^2)) / sum(w), which is seven standard deviations
//   the logits   sums of f32, each rounding 2^-24 of a partial sum. Of up to 256 terms of both signs that comes to 0.3
//   2^-24 of the
//                sum of their magnitudes on average: no more than 2^-23 of it
template <class T>
struct AttentionRow {
  std::vector<T> out;
  T lse;
  // The double's only: what the weights may do, largest over the row, in u; and the mean size of a logit, by weight,
  // the magnitudes of its terms added up.
  double by_weights = 0.0;
  double logit_size = 0.0;
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
