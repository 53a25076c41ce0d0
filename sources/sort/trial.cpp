// Random calls of sort for `quern verify --run`, and what they come to in double precision.
// SPDX-License-Identifier: Apache-2.0
#include "sources/verify/trial.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "sources/ops.h"

namespace quern::ops::sort {
namespace {

using namespace verify;

// What each class of rows takes, and segments of several tiles.
constexpr std::int64_t kLengths[] = {20, 100, 400, 3000, 10000};

Dtype key_of(const std::string& name) {
  for (const Dtype each : {Dtype::f16, Dtype::bf16, Dtype::f32, Dtype::i64})
    if (name == name_of(each)) return each;
  return Dtype::i32;  // uint32 has its bits, and is given no negative numbers
}
Dtype value_of(std::int64_t bytes) {
  return bytes == 1 ? Dtype::u8 : bytes == 2 ? Dtype::i16 : bytes == 4 ? Dtype::i32 : Dtype::i64;
}

void make(const Given& given, int which, Trial& trial) {
  const std::int64_t rows = 3, n = kLengths[which];
  const std::string name = given.text("keys", "f32");
  const std::int64_t bytes = given.integer("value_bytes", 4);
  quern_sort_args args{};
  Field& keys = trial.given(key_of(name), {rows, n});
  if (name == "uint32") {
    for (std::int64_t i = 0; i < keys.count(); ++i) keys.set(i, static_cast<double>(trial.below(1 << 30)));
  }
  Field& keys_out = trial.result(keys.dtype, {rows, n});
  const Field* const values = bytes != 0 ? &trial.given(value_of(bytes), {rows, n}) : nullptr;
  Field* const values_out = bytes != 0 ? &trial.result(values->dtype, {rows, n}) : nullptr;
  trial.later([=, &keys, &keys_out] {
    std::vector<std::int64_t> order(static_cast<std::size_t>(n));
    for (std::int64_t r = 0; r < rows; ++r) {
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(),
                       [&](std::int64_t a, std::int64_t b) { return keys.get(r * n + a) < keys.get(r * n + b); });
      for (const std::int64_t from : order) {
        keys_out.truth.push_back(keys.get(r * n + from));
        if (values != nullptr) values_out->truth.push_back(values->get(r * n + from));
      }
    }
  });
  if (name == "uint32") keys.as_unsigned(), keys_out.as_unsigned();
  args.keys = keys.tensor(), args.keys_out = keys_out.tensor();
  if (values != nullptr) args.values = values->tensor(), args.values_out = values_out->tensor();
  trial.what = "3 rows of " + std::to_string(n);
  trial.call(workspace, run, args);
}

}  // namespace

const OpTrials trials{make, static_cast<int>(std::size(kLengths))};

}  // namespace quern::ops::sort
