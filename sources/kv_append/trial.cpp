// Random calls of kv_append for `quern verify --run`, and what they come to in double precision.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "sources/ops.h"
#include "sources/verify/sequences.h"

namespace quern::ops::kv_append {
namespace {

using namespace verify;

constexpr double kEps = 0x1p-17;
constexpr int kAlignments[] = {16, 8, 4, 2};

bool is_coded(Dtype dtype) { return dtype == Dtype::e4m3 || dtype == Dtype::e5m2 || dtype == Dtype::i8; }

// A head as it is before it is stored: normalised where there is a weight, then turned.
std::vector<double> head_of(const Field& from, std::int64_t at, std::int64_t dim, const Field* weight,
                            const Turning& turning, std::int64_t position) {
  std::vector<double> head;
  double squares = 0;
  for (std::int64_t d = 0; d < dim; ++d) head.push_back(from.get(at + d)), squares += head.back() * head.back();
  if (weight != nullptr) {
    const double scale = 1 / std::sqrt(squares / static_cast<double>(dim) + kEps);
    for (std::int64_t d = 0; d < dim; ++d) head[static_cast<std::size_t>(d)] *= scale * weight->get(d);
  }
  turning.apply(head.data(), position);
  return head;
}

// What stands in a store, row by row: as it is, or divided by a scale that is found where there is a place for it.
void store(Field& to, Field* scale, std::int64_t row, const std::vector<double>& head) {
  double by = 1;
  if (scale != nullptr) {
    double most = 0;
    for (const double value : head) most = std::max(most, std::abs(value));
    scale->truth[static_cast<std::size_t>(row)] = by = found_scale(most, to.dtype);
  }
  const double limit = is_coded(to.dtype) ? largest_of(to.dtype) : kInfinity;
  for (std::size_t d = 0; d < head.size(); ++d)
    to.truth[static_cast<std::size_t>(row) * head.size() + d] = std::clamp(head[d] / by, -limit, limit);
}

void make(const Given& given, int which, Trial& trial) {
  constexpr std::int64_t kTokens = 13, kHeads = 3, kKvHeads = 2, kPages = 7, kPageSize = 4;
  const Dtype dtype = given.dtype("dtype"), cache = given.dtype("cache", dtype);
  const std::int64_t dim_k = given.integer("dim_k"), dim_v = given.integer("dim_v", dim_k);
  quern_kv_append_args args{};
  Turning turning;
  args.rope = turning_of(given, given.integer("rotary_dim"), trial, &turning);
  const Field *weight = nullptr, *q = nullptr;
  if (const Dtype norm = given.dtype("norm"); norm != Dtype::other) weight = &trial.given(norm, {dim_k});
  const Field &k = trial.given(dtype, {kTokens, kKvHeads, dim_k}), &v = trial.given(dtype, {kTokens, kKvHeads, dim_v});
  const double slack = 0x1p-14;
  const auto poisoned = [&](Dtype of, std::vector<std::int64_t> shape) -> Field& {
    Field& field = trial.result(of, std::move(shape), slack).rounded(of == Dtype::i8 ? 1 : 0);
    field.unknown();
    return field;
  };
  Field &k_cache = poisoned(cache, {kPages, kPageSize, kKvHeads, dim_k}),
        &v_cache = poisoned(cache, {kPages, kPageSize, kKvHeads, dim_v});
  Field *k_scale = nullptr, *v_scale = nullptr, *q_out = nullptr, *q_scale = nullptr;
  if (given.text("scale") == "token") {
    k_scale = &poisoned(Dtype::f32, {kPages, kPageSize, kKvHeads});
    v_scale = &poisoned(Dtype::f32, {kPages, kPageSize, kKvHeads});
    args.k_scale = k_scale->tensor(), args.v_scale = v_scale->tensor();
  }
  if (const Dtype queries = given.dtype("q"); queries != Dtype::other) {
    q = &trial.given(dtype, {kTokens, kHeads, dim_k}), q_out = &poisoned(queries, {kTokens, kHeads, dim_k});
    if (given.text("q_scale") == "token") q_scale = &poisoned(Dtype::f32, {kTokens, kHeads});
    args.q = q->tensor(), args.q_out = q_out->tensor();
    if (q_scale != nullptr) args.q_scale = q_scale->tensor();
    if (weight != nullptr) args.q_weight = weight->tensor();
  }
  const std::vector<std::int64_t> slots = random_slots(trial, kTokens, kPages * kPageSize);
  std::vector<std::int64_t> positions;
  for (std::int64_t t = 0; t < kTokens; ++t) positions.push_back(trial.below(1000));
  trial.later([=, &k, &v, &k_cache, &v_cache] {
    for (std::int64_t t = 0; t < kTokens; ++t) {
      const std::int64_t slot = slots[static_cast<std::size_t>(t)], position = positions[static_cast<std::size_t>(t)];
      if (slot < 0) continue;
      for (std::int64_t h = 0; h < kKvHeads; ++h) {
        const std::int64_t row = slot * kKvHeads + h, from = t * kKvHeads + h;
        store(k_cache, k_scale, row, head_of(k, from * dim_k, dim_k, weight, turning, position));
        store(v_cache, v_scale, row, head_of(v, from * dim_v, dim_v, nullptr, {}, 0));
      }
      for (std::int64_t h = 0; q != nullptr && h < kHeads; ++h)
        store(*q_out, q_scale, t * kHeads + h, head_of(*q, (t * kHeads + h) * dim_k, dim_k, weight, turning, position));
    }
  });
  args.k = k.tensor(), args.v = v.tensor(), args.k_cache = k_cache.tensor(), args.v_cache = v_cache.tensor();
  if (weight != nullptr) args.k_weight = weight->tensor();
  args.slots = trial.integers({kTokens}, slots).tensor();
  args.positions = trial.integers({kTokens}, positions).tensor();
  args.eps = kEps, args.alignment = kAlignments[which];
  trial.what = "13 tokens";
  trial.call(workspace, run, args);
}

}  // namespace

const OpTrials trials{make, 4};

}  // namespace quern::ops::kv_append
