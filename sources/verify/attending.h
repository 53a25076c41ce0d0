// A query's attention over some keys, in double precision, as several ops' trials need it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

#include "sources/verify/trial.h"

namespace quern::ops::verify {

// Logits of keys 0 to count - 1, and what their values are; a sink counts as a key without a value.
struct Attending {
  std::function<double(std::int64_t key)> logit;  // -inf: not seen
  std::function<double(std::int64_t key, std::int64_t d)> value;
  double sink = -kInfinity;

  // Numbers of the result, and its log-sum.
  double apply(std::int64_t keys, std::int64_t dim, double* result) const {
    std::vector<double> weights;
    double most = sink, sum = 0;
    for (std::int64_t j = 0; j < keys; ++j) weights.push_back(logit(j)), most = std::max(most, weights.back());
    for (double& weight : weights) sum += weight = std::exp(weight - most);
    if (sink > -kInfinity) sum += std::exp(sink - most);
    for (std::int64_t d = 0; d < dim; ++d) {
      double of = 0;
      for (std::int64_t j = 0; j < keys; ++j) {
        if (weights[static_cast<std::size_t>(j)] > 0) of += weights[static_cast<std::size_t>(j)] * value(j, d);
      }
      result[d] = of / sum;
    }
    return most + std::log(sum);
  }
};

inline double capped(double logit, double cap) { return cap > 0 ? cap * std::tanh(logit / cap) : logit; }

}  // namespace quern::ops::verify
