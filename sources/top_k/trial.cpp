// Random calls of top_k for `quern verify --run`, and what they come to in double precision.
// SPDX-License-Identifier: Apache-2.0
#include "sources/verify/trial.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "sources/ops.h"

namespace quern::ops::top_k {
namespace {

using namespace verify;

constexpr std::int64_t kLengths[] = {100, 1000, 8192, 32000, 128256, 262144, 600000};

void make(const Given& given, int which, Trial& trial) {
  const std::int64_t rows = 3, n = kLengths[which], k = std::min<std::int64_t>(n / 2, 300);
  quern_top_k_args args{};
  const Field& x = trial.given(given.dtype("dtype"), {rows, n});
  Field &ids = trial.result(Dtype::i32, {rows, k}), &values = trial.result(Dtype::f32, {rows, k});
  trial.later([=, &x, &ids, &values] {
    std::vector<std::int64_t> order(static_cast<std::size_t>(n));
    for (std::int64_t r = 0; r < rows; ++r) {
      std::iota(order.begin(), order.end(), 0);
      std::partial_sort(order.begin(), order.begin() + k, order.end(), [&](std::int64_t a, std::int64_t b) {
        const double left = x.get(r * n + a), right = x.get(r * n + b);
        return left != right ? left > right : a < b;
      });
      for (std::int64_t i = 0; i < k; ++i) {
        const std::int64_t id = order[static_cast<std::size_t>(i)];
        ids.truth.push_back(static_cast<double>(id)), values.truth.push_back(x.get(r * n + id));
      }
    }
  });
  args.x = x.tensor(), args.ids = ids.tensor(), args.values = values.tensor();
  args.flags = QUERN_TOP_K_SORTED;
  trial.what = std::to_string(k) + " of each of 3 rows of " + std::to_string(n);
  trial.call(workspace, run, args);
}

}  // namespace

const OpTrials trials{make, static_cast<int>(std::size(kLengths))};

}  // namespace quern::ops::top_k
