// A value that is not a number harms the queries that see its key, and no others that share a tile or a block with
// them.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "tests/ops/attention_problem.h"

namespace quern::test {
namespace {

constexpr std::uint16_t kNaN = 0x7fc0;  // bf16

std::uint16_t* element(const DLTensor& t, const std::vector<std::int64_t>& at) {
  auto* place = reinterpret_cast<std::uint16_t*>(static_cast<char*>(t.data) + t.byte_offset);
  std::int64_t compact = 1;  // without strides a tensor is
  for (std::size_t i = at.size(); i-- > 0;) {
    place += at[i] * (t.strides != nullptr ? t.strides[i] : compact);
    compact *= t.shape[i];
  }
  return place;
}

float to_float(std::uint16_t bf16) {
  const std::uint32_t bits = static_cast<std::uint32_t>(bf16) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

std::vector<float> row_of(const AttentionProblem& problem, const DLTensor& out, int query, int head) {
  std::vector<float> row;
  for (int d = 0; d < problem.description().v(); ++d) row.push_back(to_float(*element(out, {query, head, d})));
  return row;
}

void expect_harm_where_seen(AttentionCase c, int key = 280) {
  SCOPED_TRACE(c.name);
  constexpr int kPage = 16;
  c.sequences = {{100, 300}, {70, 170}};
  c.causal = true;
  AttentionProblem problem(c, Random(c.name));
  ASSERT_NO_FATAL_FAILURE(problem.run(context()));
  const DLTensor &out = *problem.args().out, &v = *problem.args().v, &table = *problem.args().page_table;
  std::vector<std::vector<float>> before;
  const int heads = c.heads(), queries = c.used_rows();
  for (int i = 0; i < queries * heads; ++i) before.push_back(row_of(problem, out, i / heads, i % heads));

  const auto* pages = reinterpret_cast<const std::int32_t*>(static_cast<const char*>(table.data) + table.byte_offset);
  *element(v, {pages[key / kPage], key % kPage, 0, 3}) = kNaN;
  problem.poison_outputs();
  ASSERT_NO_FATAL_FAILURE(problem.call(context()));
  for (int i = 0; i < queries * heads; ++i) {
    const int query = i / heads, head = i % heads;
    const int position = 200 + query;
    const bool sees = query < 100 && position >= key && position - c.left.value_or(300) <= key && head < c.group;
    const std::vector<float> row = row_of(problem, out, query, head);
    for (std::size_t d = 0; d < row.size(); ++d) {
      const float was = before[static_cast<std::size_t>(i)][d];
      if (sees ? std::isnan(row[d]) : std::fabs(row[d] - was) <= 0.02f * std::fmax(1.0f, std::fabs(was))) continue;
      if (sees && d != 3) continue;  // the rest of a row that is harmed may be so or not
      FAIL() << "query " << query << ", head " << head << ", element " << d << " is " << row[d] << ", was " << was;
    }
  }
}

TEST(AttentionNaN, HarmsOnlyTheQueriesThatSeeIt) {
  if (on_cuda()) GTEST_SKIP() << "writes the cache in place, which is the host's memory";
  AttentionCase c;
  c.name = "nan_whole";
  expect_harm_where_seen(c);
  c.name = "nan_many_pieces";
  c.max_sms = 1;
  expect_harm_where_seen(c);
  c.name = "nan_invariant";
  c.max_sms = 0;
  c.flags = QUERN_CALL_BATCH_INVARIANT;
  expect_harm_where_seen(c);
  c.name = "nan_with_cap_and_slopes";
  c.flags = 0;
  c.cap = 4.0f;
  c.alibi = c.sinks = true;
  c.left = 90;
  expect_harm_where_seen(c);
  c = {};
  c.name = "nan_wide";
  c.dim_k = 512;
  c.left = 140;
  expect_harm_where_seen(c, 100);  // later blocks of the same tile are looked through too
}

}  // namespace
}  // namespace quern::test
