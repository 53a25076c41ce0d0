// Random inputs of quern_sample: logits of many shapes, filters, edits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <vector>

#include "tests/ops/sample_problem.h"

namespace quern::test {

enum class LogitShape { normal, peaked, equal, two, staircase, denormal, huge, offset, rising, holes, one, heaps };
std::vector<float> make_logits(Random& random, LogitShape shape, std::int64_t vocab, Element element);
// n values of those given.
template <class T>
std::vector<T> drawn(Random& random, std::size_t n, std::initializer_list<T> from) {
  std::vector<T> out;
  for (std::size_t i = 0; i < n; ++i) out.push_back(from.begin()[random.below(from.size())]);
  return out;
}
// Rows of any shape.
SampleInput make_input(Random& random, std::int64_t vocab, Element element, std::size_t rows);
// Every filter may be given, each with values that are off among them.
void add_filters(Random& random, SampleInput* in);
// Penalties by lists, mask or counts; bans, masks and biases.
void add_edits(Random& random, SampleInput* in);

}  // namespace quern::test
