// One step of decoding on `host`: paged attention of two sequences, then a product with a weight. The numbers are made
// so that the right answer is known: keys of zeros weigh all values alike, and the values of key j are j.
// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cmath>
#include <cstdio>
#include <limits>
#include <quern.hpp>
#include <vector>

namespace {

constexpr std::int64_t kBatch = 2, kHeads = 4, kKvHeads = 2, kDim = 64, kPageSize = 4, kPages = 8, kMaxPages = 3;
constexpr std::int64_t kColumns = 8, kWidth = kHeads * kDim;

quern::bfloat16_bits bf16(float value) {
  return {static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16)};
}

// The error path: what is wrong comes back as a value, with its text; nothing has run.
bool refuses_another_width(const quern::Context& context, const quern::Tensor& a) {
  std::vector<quern::bfloat16_bits> narrow(kColumns * 32);
  std::vector<float> out(kBatch * kColumns);
  const quern::Tensor b(narrow, {kColumns, 32}), c(out, {kBatch, kColumns});
  const auto outcome = context.run(quern::Gemm{.a = a, .b = b, .out = c});
  if (outcome) return false;
  std::printf("refused, as it should be: %s: %s\n", quern_status_name(outcome.error().status),
              outcome.error().text.c_str());
  return outcome.error().status == QUERN_INVALID && outcome.error().text.find("b.shape[1]") != std::string::npos;
}

int decode() {
  const auto context = quern::Context::host().value();
  std::vector<quern::bfloat16_bits> q(kBatch * kWidth, bf16(1)), k(kPages * kPageSize * kKvHeads * kDim, bf16(0));
  std::vector<quern::bfloat16_bits> v(k.size(), bf16(std::numeric_limits<float>::quiet_NaN())), attended(q.size());
  std::vector<std::int32_t> lengths = {5, 9}, table = {6, 1, 0, 3, 7, 2};
  for (std::int64_t b = 0; b < kBatch; ++b) {
    for (std::int64_t j = 0; j < lengths[b]; ++j) {
      const std::int64_t slot = table[b * kMaxPages + j / kPageSize] * kPageSize + j % kPageSize;
      for (std::int64_t i = 0; i < kKvHeads * kDim; ++i) {
        v[slot * kKvHeads * kDim + i] = bf16(static_cast<float>(j + 10 * (i / kDim)));
      }
    }
  }
  std::vector<quern::bfloat16_bits> weight(kColumns * kWidth);
  for (std::int64_t n = 0; n < kColumns; ++n) {
    for (std::int64_t i = 0; i < kWidth; ++i) weight[n * kWidth + i] = bf16(static_cast<float>(n + 1) / kWidth);
  }
  std::vector<float> out(kBatch * kColumns);

  quern::HostWorkspace workspace;
  const quern::Tensor queries(q, {kBatch, kHeads, kDim}), result(attended, {kBatch, kHeads, kDim});
  const quern::Tensor keys(k, {kPages, kPageSize, kKvHeads, kDim}), values(v, {kPages, kPageSize, kKvHeads, kDim});
  const quern::Tensor counts(lengths, {kBatch}), pages(table, {kBatch, kMaxPages});
  context
      .run(quern::Attention{.flags = QUERN_ATTENTION_CAUSAL,
                            .q = queries,
                            .k = keys,
                            .v = values,
                            .out = result,
                            .lengths = counts,
                            .page_table = pages,
                            .max_kv_len = kMaxPages * kPageSize},
           workspace)
      .value();

  const quern::Tensor rows(attended, {kBatch, kWidth}), matrix(weight, {kColumns, kWidth}),
      sums(out, {kBatch, kColumns});
  context.run(quern::Gemm{.a = rows, .b = matrix, .out = sums}, workspace).value();

  for (std::int64_t b = 0; b < kBatch; ++b) {
    const float mean = static_cast<float>(lengths[b] - 1) / 2 + 5;  // of the keys' numbers, and of 0 and 10 by KV head
    for (std::int64_t n = 0; n < kColumns; ++n) {
      const float got = out[b * kColumns + n], wanted = mean * static_cast<float>(n + 1);
      if (!(std::abs(got - wanted) <= 1e-3F * wanted)) {
        std::printf("out[%d][%d] is %f, it should be %f\n", static_cast<int>(b), static_cast<int>(n), got, wanted);
        return 1;
      }
    }
  }
  if (!refuses_another_width(context, rows)) return 1;
  std::printf("decode step: %.1f and %.1f, as they should be\n", out[0], out[kColumns]);
  return 0;
}

}  // namespace

int main() {
  try {
    return decode();
  } catch (const quern::Failure& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
  }
}
