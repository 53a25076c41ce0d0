// Random calls of attention for `quern verify --run`, and what they come to in double precision.
// SPDX-License-Identifier: Apache-2.0
#include <iterator>

#include "sources/ops.h"
#include "sources/verify/attending.h"
#include "sources/verify/sequences.h"

namespace quern::ops::attention {
namespace {

using namespace verify;

constexpr std::int64_t kQueries[] = {1, 2, 7, 20, 70, 150};
constexpr std::int64_t kGroup = 128;  // results that share a scale

bool is_coded(Dtype dtype) { return bytes_of(dtype) == 1; }

void make(const Given& given, int which, Trial& trial) {
  const Dtype dtype = given.dtype("dtype"), q_type = given.dtype("q", dtype), cache = given.dtype("cache", dtype),
              result = given.dtype("out", dtype);
  const std::int64_t dim_k = given.integer("dim_k"), dim_v = given.integer("dim_v", dim_k),
                     group = given.integer("group", 1), kv_heads = 2, heads = group * kv_heads,
                     queries = kQueries[which];
  const std::string paging = given.text("page_size", "0");
  const bool ragged = paging == "ragged", tokens = given.text("scales", "head") == "token", masked = given.flag("mask");
  const Sequences all(trial, 3, queries, ragged ? 0 : paging == "0" ? 24 : given.integer("page_size"), 400);
  quern_attention_args args{};
  using Shape = std::vector<std::int64_t>;
  const auto pool = [&](std::int64_t dim) {
    Shape shape = ragged ? Shape{all.total_kv(), kv_heads} : Shape{all.pages, all.page_size, kv_heads};
    if (dim != 0) shape.push_back(dim);
    return shape;
  };
  const Field &q = trial.given(q_type, {all.total_q(), heads, dim_k}), &k = trial.given(cache, pool(dim_k)),
              &v = trial.given(cache, pool(dim_v));
  const auto scales = [&](bool coded, Shape shape) -> const Field* {
    return coded ? &trial.uniform(Dtype::f32, std::move(shape), 0.05, 0.1) : nullptr;
  };
  const Field *const q_scale = scales(is_coded(q_type), {heads}),
                     *const k_scale = scales(is_coded(cache), tokens ? pool(0) : Shape{kv_heads}),
                     *const v_scale = scales(is_coded(cache), tokens ? pool(0) : Shape{kv_heads});
  const Field *const slopes = given.flag("alibi") ? &trial.uniform(Dtype::f32, {heads}, 0, 0.1) : nullptr,
                     *const sinks = given.flag("sinks") ? &trial.given(Dtype::f32, {heads}) : nullptr;
  // The mask is about a sequence's last keys, as many as it has queries; a query sees its own.
  const std::int64_t row_bytes = (queries + 7) / 8;
  const Field* mask = nullptr;
  if (masked) {
    Shape bits(static_cast<std::size_t>(all.total_q() * row_bytes)), from, keys;
    for (std::int64_t i = 0; i < all.total_q() * row_bytes; ++i) {
      const std::int64_t own = i / row_bytes % queries;
      bits[static_cast<std::size_t>(i)] = trial.below(256) | (i % row_bytes == own / 8 ? 1 << own % 8 : 0);
    }
    for (std::int64_t b = 0; b <= all.batch; ++b) from.push_back(b * queries * row_bytes);
    for (std::int64_t b = 0; b < all.batch; ++b) keys.push_back(queries);
    mask = &trial.integers({all.total_q() * row_bytes}, bits, Dtype::u8);
    args.mask = mask->tensor(), args.mask_indptr = trial.integers({all.batch + 1}, from).tensor();
    args.mask_keys = trial.integers({all.batch}, keys).tensor();
  }
  // Probabilities are rounded to the dtype before they are multiplied with the values.
  const bool codes = q_type != dtype || cache != dtype;
  const double slack = codes ? 0x1p-4 : dtype == Dtype::bf16 ? 0x1p-6 : 0x1p-9;
  Field &out = trial.result(result, {all.total_q(), heads, dim_v}, slack),
        *const out_scale =
            is_coded(result) ? &trial.result(Dtype::f32, {all.total_q(), heads * dim_v / kGroup}, slack) : nullptr,
        &lse = trial.result(Dtype::f32, {all.total_q(), heads}, codes ? 0x1p-6 : 0x1p-12);
  const double cap = given.flag("cap") ? 30 : 0;
  trial.later([=, &q, &k, &v, &out, &lse] {
    out.unknown();
    lse.unknown();
    if (out_scale != nullptr) out_scale->unknown();
    for (std::int64_t i = 0; i < all.total_q(); ++i) {  // a head of each query
      const std::int64_t b = i / queries, length = all.lengths[static_cast<std::size_t>(b)];
      const std::int64_t own = length - queries + i % queries, h = i * 5 % heads, kv = h / group, row = i * heads + h;
      const auto scaled = [&](const Field* scale, std::int64_t at) {
        return scale == nullptr ? 1 : scale->get(tokens ? at * kv_heads + kv : kv);
      };
      Attending attending{[&](std::int64_t j) {
                            const std::int64_t t = j - (length - queries), bit = i * row_bytes * 8 + t;
                            if (mask != nullptr && t >= 0 && (static_cast<int>(mask->get(bit / 8)) >> bit % 8 & 1) == 0)
                              return -kInfinity;
                            const std::int64_t at = all.row(b, j);
                            double sum = 0;
                            for (std::int64_t d = 0; d < dim_k; ++d)
                              sum += q.get(row * dim_k + d) * k.get((at * kv_heads + kv) * dim_k + d);
                            sum *= scaled(k_scale, at) * (q_scale != nullptr ? q_scale->get(h) : 1) /
                                   std::sqrt(static_cast<double>(dim_k));
                            sum = capped(sum, cap);
                            return slopes == nullptr ? sum : sum + slopes->get(h) * static_cast<double>(j - own);
                          },
                          [&](std::int64_t j, std::int64_t d) {
                            const std::int64_t at = all.row(b, j);
                            return scaled(v_scale, at) * v.get((at * kv_heads + kv) * dim_v + d);
                          }};
      if (sinks != nullptr) attending.sink = sinks->get(h);
      double* const results = out.truth.data() + row * dim_v;
      lse.truth[static_cast<std::size_t>(row)] = attending.apply(own + 1, dim_v, results);
      if (out_scale == nullptr) continue;
      for (std::int64_t first = 0; first < dim_v; first += kGroup) {
        double largest = 0;
        for (std::int64_t d = first; d < first + kGroup; ++d) largest = std::max(largest, std::abs(results[d]));
        const double by = found_scale(largest, result);
        out_scale->truth[static_cast<std::size_t>((row * dim_v + first) / kGroup)] = by;
        for (std::int64_t d = first; d < first + kGroup; ++d) results[d] /= by;
      }
    }
  });
  args.q = q.tensor(), args.k = k.tensor(), args.v = v.tensor(), args.out = out.tensor(), args.lse = lse.tensor();
  if (out_scale != nullptr) args.out_scale = out_scale->tensor();
  if (q_scale != nullptr) args.q_scale = q_scale->tensor();
  if (k_scale != nullptr) args.k_scale = k_scale->tensor(), args.v_scale = v_scale->tensor();
  if (slopes != nullptr) args.alibi_slopes = slopes->tensor();
  if (sinks != nullptr) args.sinks = sinks->tensor();
  if (ragged)
    args.cu_kv = trial.integers({all.batch + 1}, all.cu_kv).tensor();
  else
    args.page_table = trial.integers({all.batch, all.columns}, all.table).tensor();
  args.lengths = trial.integers({all.batch}, all.lengths).tensor();
  args.cu_q = trial.integers({all.batch + 1}, all.cu_q).tensor();
  args.logit_cap = static_cast<float>(cap), args.flags = QUERN_ATTENTION_CAUSAL;
  args.alignment = static_cast<std::int32_t>(given.integer("alignment", 16));
  args.max_kv_len = static_cast<std::int32_t>(all.most), args.max_q_len = static_cast<std::int32_t>(queries);
  trial.what =
      "3 sequences of " + std::to_string(queries) + " queries each, up to " + std::to_string(all.most) + " keys";
  trial.call(workspace, run, args);
}

}  // namespace

const OpTrials trials{make, static_cast<int>(std::size(kQueries))};

}  // namespace quern::ops::attention
