// Trials of matrix products and attention.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include "sources/ops.h"
#include "sources/verify/trial.h"

namespace quern::ops::verify {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// ---- gemm
struct Product {
  std::int64_t m, n, k;
  bool invariant;
};
constexpr Product kProducts[] = {{1, 512, 512, false},    {8, 512, 512, false},    {16, 1024, 512, false},
                                 {33, 512, 512, false},   {64, 1024, 1024, false}, {128, 512, 512, false},
                                 {200, 1024, 256, false}, {300, 2048, 256, false}, {16, 4096, 1024, false},
                                 {64, 512, 4096, false},  {4, 256, 2048, true},    {130, 512, 512, true},
                                 {1000, 2048, 128, false}};

std::string gemm_refusal(const Given& given) {
  if (given.text("epilogue", "acc") != "acc" || given.flag("gate") || given.flag("out_scale"))
    return "no trial is made of products with an epilogue";
  if (given.text("order_a", "mk") != "mk" || given.text("order_b", "nk") != "nk")
    return "no trial is made of transposed operands";
  const std::string out = given.text("out", given.text("dtype").c_str());
  return out == "e4m3" || out == "e5m2" ? "no trial is made with results of 8 bits" : "";
}
std::unique_ptr<Trial> gemm(const Given& given, int which, Random& random) {
  auto trial = std::make_unique<Trial>(random);
  const Product& p = kProducts[which];
  const Dtype dtype = given.dtype("dtype");
  quern_gemm_args args{};
  const Field &a = trial->given(dtype, {p.m, p.k}), &b = trial->given(dtype, {p.n, p.k});
  // f32 operands are multiplied as TF32 where the device has nothing else.
  const double slack = dtype == Dtype::f32 ? 0x1p-9 : 0x1p-14;
  Field& out = trial->result(given.dtype("out", dtype), {p.m, p.n}, slack);
  out.truth.assign(static_cast<std::size_t>(p.m * p.n), kUnknown);
  for (int tries = 0; tries < 256; ++tries) {
    const auto row = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(p.m)),
               column = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(p.n));
    double sum = 0;
    for (std::int64_t i = 0; i < p.k; ++i) sum += a.get(row * p.k + i) * b.get(column * p.k + i);
    out.truth[static_cast<std::size_t>(row * p.n + column)] = sum;
  }
  args.a = a.tensor(), args.b = b.tensor(), args.out = out.tensor();
  args.alignment = static_cast<std::int32_t>(given.integer("alignment", 16));
  if (p.invariant) args.flags |= QUERN_CALL_BATCH_INVARIANT;
  trial->what = "m " + std::to_string(p.m) + ", n " + std::to_string(p.n) + ", k " + std::to_string(p.k);
  trial->call(ops::gemm::workspace, ops::gemm::run, args);
  return trial;
}

// ---- attention
constexpr std::int64_t kQueries[] = {1, 2, 7, 20, 70, 150};

std::string attention_refusal(const Given& given) {
  if (given.flag("mask")) return "no trial is made with a custom mask";
  if (given.text("scales", "head") != "head") return "no trial is made with scales of tokens";
  return "";
}

std::unique_ptr<Trial> attention(const Given& given, int which, Random& random) {
  auto trial = std::make_unique<Trial>(random);
  const Dtype dtype = given.dtype("dtype"), q_type = given.dtype("q", dtype), cache = given.dtype("cache", dtype);
  const std::int64_t dim_k = given.integer("dim_k"), dim_v = given.integer("dim_v", dim_k),
                     group = given.integer("group", 1), kv_heads = 2, heads = group * kv_heads, batch = 3,
                     queries = kQueries[which];
  const std::string paging = given.text("page_size", "0");
  const bool ragged = paging == "ragged";
  const std::int64_t page = ragged ? 0 : paging == "0" ? 24 : given.integer("page_size");
  std::vector<std::int64_t> lengths, cu_q{0}, cu_kv{0};
  for (std::int64_t i = 0; i < batch; ++i) {
    lengths.push_back(queries + static_cast<std::int64_t>(random() % 400));
    cu_q.push_back(cu_q.back() + queries), cu_kv.push_back(cu_kv.back() + lengths.back());
  }
  const std::int64_t most = *std::max_element(lengths.begin(), lengths.end()), total_q = cu_q.back();
  quern_attention_args args{};
  args.q = trial->given(q_type, {total_q, heads, dim_k}).tensor();
  if (ragged) {
    args.k = trial->given(cache, {cu_kv.back(), kv_heads, dim_k}).tensor();
    args.v = trial->given(cache, {cu_kv.back(), kv_heads, dim_v}).tensor();
    args.cu_kv = trial->integers({batch + 1}, cu_kv).tensor();
  } else {
    const std::int64_t columns = (most + page - 1) / page, pages = batch * columns;
    std::vector<std::int64_t> table;
    for (std::int64_t i = 0; i < pages; ++i) table.push_back(i);
    std::shuffle(table.begin(), table.end(), random);
    args.k = trial->given(cache, {pages, page, kv_heads, dim_k}).tensor();
    args.v = trial->given(cache, {pages, page, kv_heads, dim_v}).tensor();
    args.page_table = trial->integers({batch, columns}, table).tensor();
  }
  args.lengths = trial->integers({batch}, lengths).tensor(), args.cu_q = trial->integers({batch + 1}, cu_q).tensor();
  // Probabilities are rounded to the dtype before they are multiplied with the values.
  const bool codes = q_type != dtype || cache != dtype;
  const double slack = codes ? 0x1p-4 : dtype == Dtype::bf16 ? 0x1p-6 : 0x1p-9;
  args.out = trial->result(dtype, {total_q, heads, dim_v}, slack).tensor();
  args.lse = trial->result(Dtype::f32, {total_q, heads}, codes ? 0x1p-6 : 0x1p-12).tensor();
  if (given.flag("alibi")) args.alibi_slopes = trial->given(Dtype::f32, {heads}).tensor();
  if (given.flag("sinks")) args.sinks = trial->given(Dtype::f32, {heads}).tensor();
  if (given.flag("cap")) args.logit_cap = 30.0f;
  args.alignment = static_cast<std::int32_t>(given.integer("alignment", 16));
  args.flags = QUERN_ATTENTION_CAUSAL;
  args.max_kv_len = static_cast<std::int32_t>(most), args.max_q_len = static_cast<std::int32_t>(queries);
  trial->what = "3 sequences of " + std::to_string(queries) + " queries each, up to " + std::to_string(most) + " keys";
  trial->call(ops::attention::workspace, ops::attention::run, args);
  return trial;
}

}  // namespace

const OpTrials kGemm{"gemm", gemm_refusal, [](const Given&) { return static_cast<int>(std::size(kProducts)); }, gemm};
const OpTrials kAttention{"attention", attention_refusal,
                          [](const Given&) { return static_cast<int>(std::size(kQueries)); }, attention};

}  // namespace quern::ops::verify
