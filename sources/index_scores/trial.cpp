// Random calls of index_scores for `quern verify --run`, and what they come to in double precision.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>

#include "sources/ops.h"
#include "sources/verify/sequences.h"

namespace quern::ops::index_scores {
namespace {

using namespace verify;

constexpr struct {
  std::int64_t heads, dim, queries, spread;
} kCalls[] = {{64, 128, 1, 300}, {64, 128, 4, 300}, {64, 128, 70, 300}, {32, 128, 1, 300}, {32, 128, 4, 300}};

void make(const Given& given, int which, Trial& trial) {
  auto [heads, dim, queries, spread] = kCalls[which];
  // The portable kernels have their own widths; the last rows of a tile may be no head's.
  dim = given.integer("dim", dim), heads = std::min(heads, given.integer("head_rows", heads));
  if (given.integer("head_rows", heads) > heads) heads = given.integer("head_rows");
  const bool ragged = given.flag("ragged");
  const Sequences all(trial, 2, queries, ragged ? 0 : given.integer("page_rows", 64), spread);
  const Dtype code = given.dtype("dtype", Dtype::e4m3);
  quern_index_scores_args args{};
  const Field& q = trial.given(code, {all.total_q(), heads, dim});
  const Field &q_scale = trial.uniform(Dtype::f32, {all.total_q(), heads}, 0.5, 1),
              &weights = trial.given(Dtype::f32, {all.total_q(), heads});
  const std::int64_t rows = ragged ? all.total_kv() : all.pages * all.page_size;
  const Field& k = ragged ? trial.given(code, {rows, dim}) : trial.given(code, {all.pages, all.page_size, dim});
  const Field& k_scale = ragged ? trial.uniform(Dtype::f32, {rows}, 0.5, 1)
                                : trial.uniform(Dtype::f32, {all.pages, all.page_size}, 0.5, 1);
  Field& out = trial.result(Dtype::f32, {all.total_q(), all.most}, 0x1p-12);
  trial.later([=, &q, &q_scale, &weights, &k, &k_scale, &out] {
    for (std::int64_t i = 0; i < all.total_q(); ++i) {
      const std::int64_t b = i / queries, last = all.lengths[static_cast<std::size_t>(b)] - queries + i % queries;
      for (std::int64_t j = 0; j < all.most; ++j) {
        if (j > last || (i + j) % 7 != 0) {  // a seventh of them is enough
          out.truth.push_back(j > last ? -kInfinity : kUnknown);
          continue;
        }
        const std::int64_t row = all.row(b, j);
        double sum = 0;
        for (std::int64_t h = 0; h < heads; ++h) {
          double product = 0;
          for (std::int64_t d = 0; d < dim; ++d) product += q.get((i * heads + h) * dim + d) * k.get(row * dim + d);
          sum += weights.get(i * heads + h) * q_scale.get(i * heads + h) * std::max(product, 0.0);
        }
        out.truth.push_back(sum * k_scale.get(row));
      }
    }
  });
  args.q = q.tensor(), args.q_scale = q_scale.tensor(), args.weights = weights.tensor(), args.k = k.tensor();
  args.k_scale = k_scale.tensor(), args.out = out.tensor(), args.flags = QUERN_INDEX_SCORES_CAUSAL;
  args.lengths = trial.integers({all.batch}, all.lengths).tensor();
  args.cu_q = trial.integers({all.batch + 1}, all.cu_q).tensor(), args.max_q_len = static_cast<std::int32_t>(queries);
  if (ragged)
    args.cu_kv = trial.integers({all.batch + 1}, all.cu_kv).tensor();
  else
    args.page_table = trial.integers({all.batch, all.columns}, all.table).tensor();
  args.alignment = static_cast<std::int32_t>(given.integer("alignment", 16));
  trial.what = std::to_string(heads) + " heads, " + std::to_string(queries) + " queries, up to " +
               std::to_string(all.most) + " keys";
  trial.call(workspace, run, args);
}

}  // namespace

const OpTrials trials{make, static_cast<int>(std::size(kCalls))};

}  // namespace quern::ops::index_scores
