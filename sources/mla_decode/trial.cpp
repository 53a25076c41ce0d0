// Random calls of mla_decode for `quern verify --run`, and what they come to in double precision.
// SPDX-License-Identifier: Apache-2.0
#include <iterator>

#include "sources/ops.h"
#include "sources/verify/attending.h"
#include "sources/verify/sequences.h"

namespace quern::ops::mla_decode {
namespace {

using namespace verify;

// Few heads and many, keys enough to be cut into pieces.
constexpr struct {
  std::int64_t heads, queries, spread;
  bool invariant;
} kCalls[] = {{16, 1, 700, false}, {16, 1, 700, true},  {128, 1, 300, false}, {128, 1, 300, true},
              {16, 2, 300, false}, {64, 1, 300, false}, {64, 2, 300, false},  {8, 1, 3000, false}};

void make(const Given& given, int which, Trial& trial) {
  const auto [heads, queries, spread, invariant] = kCalls[which];
  const Dtype dtype = given.dtype("dtype");
  const std::string kind = given.text("cache", "plain"), listed = given.text("indices", "no");
  const std::int64_t latent = given.integer("d_latent", 512), rope = given.integer("d_rope", 64);
  const std::int64_t columns = latent + rope, page = given.integer("page_rows", 64), top_k = 128;
  const bool rows656 = kind == "rows656", plain = kind == "plain";
  const Sequences all(trial, 2, queries, page, spread);
  quern_mla_decode_args args{};
  const Field& q = trial.given(dtype, {all.total_q(), heads, columns});
  const std::int64_t rows = all.pages * page;
  Field& cache = plain     ? trial.given(dtype, {all.pages, page, columns})
                 : rows656 ? trial.given(Dtype::u8, {all.pages, page, 656})
                           : trial.given(Dtype::e4m3, {all.pages, page, columns});
  if (rows656) {  // codes, then four f32 scales, then numbers of bf16
    Field codes(Dtype::e4m3, {512}), scales(Dtype::f32, {4}), turned(Dtype::bf16, {64});
    std::normal_distribution<double> normal;
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t d = 0; d < 512; ++d) codes.set(d, normal(trial.random()));
      for (std::int64_t d = 0; d < 4; ++d) scales.set(d, 0.5 + 0.25 * static_cast<double>(trial.below(4)));
      for (std::int64_t d = 0; d < 64; ++d) turned.set(d, normal(trial.random()));
      auto at = cache.bytes.begin() + row * 656;
      for (const Field* part : {&codes, &scales, &turned}) at = std::copy(part->bytes.begin(), part->bytes.end(), at);
    }
  }
  const Field* scale = nullptr;
  if (kind == "e4m3_tensor") scale = &trial.uniform(Dtype::f32, {1}, 0.5, 1);
  if (kind == "e4m3_token") scale = &trial.uniform(Dtype::f32, {all.pages, page}, 0.5, 1);
  const auto key = [=, &cache](std::int64_t row, std::int64_t d) {
    if (!rows656) {
      const double by = scale == nullptr ? 1 : scale->get(scale->count() == 1 ? 0 : row);
      return by * cache.get(row * columns + d);
    }
    const auto number = [&](Dtype of, std::int64_t at) {
      Field one(of, {1});
      std::copy_n(cache.bytes.begin() + row * 656 + at, one.bytes.size(), one.bytes.begin());
      return one.get(0);
    };
    return d < 512 ? number(Dtype::e4m3, d) * number(Dtype::f32, 512 + d / 128 * 4)
                   : number(Dtype::bf16, 528 + (d - 512) * 2);
  };
  // Which keys a query sees, as rows of the pool.
  std::vector<std::vector<std::int64_t>> seen;
  std::vector<std::int64_t> indices;
  for (std::int64_t i = 0; i < all.total_q(); ++i) {
    const std::int64_t b = i / queries, last = all.lengths[static_cast<std::size_t>(b)] - queries + i % queries;
    seen.emplace_back();
    for (std::int64_t j = 0; j < (listed == "no" ? last + 1 : top_k); ++j) {
      const std::int64_t chosen = listed == "no" ? j : trial.below(last + 2) - 1;
      if (chosen >= 0) seen.back().push_back(all.row(b, chosen));
      indices.push_back(listed == "slots" && chosen >= 0 ? all.row(b, chosen) : chosen);
    }
  }
  const double slack = plain ? dtype == Dtype::bf16 ? 0x1p-6 : 0x1p-9 : 0x1p-4, factor = 1 / std::sqrt(192.0);
  Field &out = trial.result(dtype, {all.total_q(), heads, latent}, slack),
        &lse = trial.result(Dtype::f32, {all.total_q(), heads}, plain ? 0x1p-12 : 0x1p-6);
  const double cap = given.flag("cap") ? 30 : 0;
  trial.later([=, &q, &out, &lse] {
    out.unknown();
    lse.unknown();
    for (std::int64_t i = 0; i < all.total_q(); ++i) {  // a head of each query
      const std::vector<std::int64_t>& keys = seen[static_cast<std::size_t>(i)];
      const std::int64_t row = i * heads + i * 5 % heads;
      const Attending attending{
          [&](std::int64_t j) {
            double sum = 0;
            for (std::int64_t d = 0; d < columns; ++d)
              sum += q.get(row * columns + d) * key(keys[static_cast<std::size_t>(j)], d);
            return capped(sum * factor, cap);
          },
          [&](std::int64_t j, std::int64_t d) { return key(keys[static_cast<std::size_t>(j)], d); }};
      lse.truth[static_cast<std::size_t>(row)] =
          attending.apply(static_cast<std::int64_t>(keys.size()), latent, out.truth.data() + row * latent);
    }
  });
  args.q = q.tensor(), args.cache = cache.tensor(), args.out = out.tensor(), args.lse = lse.tensor();
  if (scale != nullptr) args.cache_scale = scale->tensor();
  if (rows656) args.cache_type = QUERN_MLA_CACHE_ROWS_656;
  if (listed != "no") args.indices = trial.integers({all.total_q(), top_k}, indices).tensor();
  if (listed != "slots") {
    args.lengths = trial.integers({all.batch}, all.lengths).tensor();
    args.page_table = trial.integers({all.batch, all.columns}, all.table).tensor();
    args.max_kv_len = static_cast<std::int32_t>(all.most);
    args.cu_q = trial.integers({all.batch + 1}, all.cu_q).tensor();
    args.max_q_len = static_cast<std::int32_t>(queries);
  } else {
    args.flags |= QUERN_MLA_SLOTS;
  }
  if (listed == "no") args.flags |= QUERN_MLA_CAUSAL;
  if (invariant) args.flags |= QUERN_CALL_BATCH_INVARIANT;
  args.scale = static_cast<float>(factor), args.logit_cap = static_cast<float>(cap);
  args.alignment = static_cast<std::int32_t>(given.integer("alignment", 16));
  trial.what = std::to_string(heads) + " heads, " + std::to_string(queries) + " queries, up to " +
               std::to_string(all.most) + " keys";
  trial.call(workspace, run, args);
}

}  // namespace

const OpTrials trials{make, static_cast<int>(std::size(kCalls))};

}  // namespace quern::ops::mla_decode
