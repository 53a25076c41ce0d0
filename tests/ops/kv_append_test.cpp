// kv_append against its formulas in fp64: places, norms, rope and quantisation in every combination.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "tests/ops/kv_append_fixture.h"

namespace quern::test {
namespace {

std::vector<AppendCase> append_cases() {
  std::vector<AppendCase> cases;
  const auto add = [&](const std::string& name, const std::function<void(AppendCase&)>& change) {
    AppendCase c;
    c.name = name;
    change(c);
    cases.push_back(c);
  };
  add("plain", [](AppendCase& c) { c.queries = c.rope = false; });
  add("plain_f32", [](AppendCase& c) { c.queries = c.rope = false, c.element = Element::f32; });
  add("rope", [](AppendCase& c) { c.queries = false; });
  add("queries", [](AppendCase&) {});
  add("queries_in_place", [](AppendCase& c) { c.q_in_place = true; });
  add("table", [](AppendCase& c) { c.by = By::table; });
  add("table_lengths", [](AppendCase& c) { c.by = By::table, c.positions = false; });
  add("indices", [](AppendCase& c) { c.by = By::indices; });
  add("indices_lengths", [](AppendCase& c) { c.by = By::indices, c.positions = false; });
  add("one_each",
      [](AppendCase& c) { c.by = By::table, c.positions = false, c.one_each = true, c.q_lens = {1, 1, 1, 1, 1}; });
  add("wide", [](AppendCase& c) { c.wide = true; });
  add("hnd", [](AppendCase& c) { c.hnd = true; });
  add("page_5", [](AppendCase& c) { c.page_size = 5, c.lengths = {1, 16, 7, 9, 20}, c.by = By::table; });
  add("page_1", [](AppendCase& c) { c.page_size = 1, c.q_lens = {1, 2, 1}, c.lengths = {1, 4, 3}; });
  // Few blocks behind another launch go through their work once on no head.
  add("rehearsed", [](AppendCase& c) {
    c.flags = QUERN_CALL_PROGRAMMATIC, c.cache = Element::e4m3, c.scale = Scale::token, c.q_lens = {1, 2},
    c.lengths = {1, 9};
  });
  add("norms", [](AppendCase& c) { c.q_norm = c.k_norm = true; });
  add("norm_of_keys_f32", [](AppendCase& c) { c.k_norm = c.norm_f32 = true, c.queries = false; });
  add("norms_plus_one",
      [](AppendCase& c) { c.q_norm = c.k_norm = true, c.flags = QUERN_KV_APPEND_WEIGHT_PLUS_ONE, c.rope = false; });
  for (const Element cache : {Element(Element::e4m3), Element(Element::e5m2), Element(Element::i8)}) {
    const std::string name = cache.name();
    add(name + "_tensor", [&](AppendCase& c) { c.cache = cache, c.scale = Scale::tensor, c.hnd = true; });
    add(name + "_head", [&](AppendCase& c) { c.cache = cache, c.scale = Scale::head; });
    add(name + "_token", [&](AppendCase& c) { c.cache = cache, c.scale = Scale::token; });
    add(name + "_token_norms",
        [&](AppendCase& c) { c.cache = cache, c.scale = Scale::token, c.q_norm = c.k_norm = true, c.dim = 128; });
  }
  add("raw_bytes", [](AppendCase& c) { c.cache = Element::e5m2, c.raw_bytes = true, c.scale = Scale::tensor; });
  add("q_e4m3_token", [](AppendCase& c) {
    c.q_out = Element::e4m3, c.q_scale = Scale::token, c.cache = Element::e4m3, c.scale = Scale::token;
  });
  add("q_e4m3_head", [](AppendCase& c) { c.q_out = Element::e4m3, c.q_scale = Scale::head; });
  add("q_e5m2_tensor", [](AppendCase& c) {
    c.q_out = Element::e5m2, c.q_scale = Scale::tensor, c.cache = Element::i8, c.scale = Scale::token;
  });
  add("interleaved",
      [](AppendCase& c) { c.options.flags = QUERN_ROPE_INTERLEAVED, c.cache = Element::i8, c.scale = Scale::token; });
  add("partial", [](AppendCase& c) { c.options.rotary_dim = 24, c.dim = 80, c.k_norm = c.q_norm = true; });
  add("yarn", [](AppendCase& c) {
    c.options.scaling = QUERN_ROPE_YARN, c.options.factor = 8.0, c.options.original_positions = 16;
  });
  add("dims_192_128", [](AppendCase& c) { c.dim = 192, c.dim_v = 128, c.page_size = 8, c.lengths = {1, 8, 7, 9, 16}; });
  add("dims_24_256", [](AppendCase& c) {
    c.dim = 24, c.dim_v = 256, c.cache = Element::e4m3, c.scale = Scale::token, c.page_size = 8,
    c.lengths = {1, 8, 7, 9, 16};
  });
  add("dim_512", [](AppendCase& c) {
    c.dim = 512, c.options.rotary_dim = 64, c.k_norm = true, c.page_size = 8, c.lengths = {1, 8, 7, 9, 16};
  });
  add("dim_8", [](AppendCase& c) { c.dim = 8, c.scale = Scale::token, c.cache = Element::e4m3; });
  add("alignment_4", [](AppendCase& c) { c.alignment = 4, c.cache = Element::i8, c.scale = Scale::token; });
  add("few_sms", [](AppendCase& c) { c.max_sms = 1, c.q_lens = {30, 40, 10}, c.lengths = {31, 64, 20}; });
  add("no_tokens", [](AppendCase& c) { c.q_lens = {}, c.lengths = {}, c.one_each = true; });
  return cases;
}

class KvAppend : public testing::TestWithParam<AppendCase> {};
INSTANTIATE_TEST_SUITE_P(Cases, KvAppend, testing::ValuesIn(append_cases()),
                         [](const testing::TestParamInfo<AppendCase>& test) { return test.param.name; });

TEST_P(KvAppend, MatchesItsFormula) {
  KvAppending appending(GetParam());
  ASSERT_NO_FATAL_FAILURE(appending.run());
  appending.check();
}

// Cosines and sines from a table, which has a row for each position: those of another theta than the call's own would
// be, so that a table that is not read is seen.
TEST(KvAppendTable, TurnsAsTheTableSays) {
  AppendCase c;
  c.name = "rope_table";
  c.element = Element::f32, c.dim = 64, c.options.rotary_dim = 48, c.k_norm = c.q_norm = true;
  quern_rope_options tabled = c.options;
  tabled.theta = 500.0;
  Array cosines(Element::f32, {64, 48});
  for (std::int64_t p = 0; p < 64; ++p) {
    for (std::int64_t i = 0; i < 24; ++i) {
      const auto angle =
          static_cast<double>(static_cast<long double>(p) * rope_frequency(tabled, 48, static_cast<int>(i)));
      cosines.set(std::cos(angle), p, i);
      cosines.set(std::sin(angle), p, 24 + i);
    }
  }
  cosines.upload();
  KvAppending by_table(c);
  by_table.options.table = cosines.tensor();
  ASSERT_NO_FATAL_FAILURE(by_table.run());
  by_table.options.table = nullptr, by_table.options.theta = tabled.theta;  // what it is held against is computed
  by_table.check();
}

// What is no number: of int8 it becomes 0, of the others it stays; infinities become the largest number and do not
// count in a scale.
TEST(KvAppendNumbers, NanAndInfinity) {
  for (const Element cache : {Element(Element::e4m3), Element(Element::e5m2), Element(Element::i8)}) {
    AppendCase c;
    c.name = "numbers";
    c.cache = cache, c.scale = Scale::token, c.rope = c.queries = false;
    c.q_lens = {1}, c.lengths = {1}, c.by = By::table, c.positions = false, c.one_each = true;
    KvAppending appending(c);
    appending.v.set(std::numeric_limits<double>::quiet_NaN(), 0, 0, 3);
    appending.v.set(std::numeric_limits<double>::infinity(), 0, 0, 4);
    appending.v.set(-std::numeric_limits<double>::infinity(), 0, 0, 5);
    for (std::int64_t d = 0; d < 64; ++d) appending.v.set(0.0, 0, 1, d);
    ASSERT_NO_FATAL_FAILURE(appending.run());
    appending.v_cache.download(), appending.v_scale.download();
    const std::int64_t page = appending.table.integer(0, 0);
    const auto at = [&](std::int64_t d) { return appending.v_cache.get(page, 0, 0, d); };
    EXPECT_TRUE(cache.kind() == Element::i8 ? at(3) == 0.0 : std::isnan(at(3))) << cache.name();
    EXPECT_EQ(at(4), cache.largest()) << cache.name();
    EXPECT_EQ(at(5), -cache.largest()) << cache.name();
    double largest = 0.0;
    for (std::int64_t d = 0; d < 64; ++d) {
      const double value = std::abs(appending.v.get(0, 0, d));
      if (std::isfinite(value)) largest = std::max(largest, value);
    }
    EXPECT_NEAR(appending.v_scale.get(page, 0, 0) * cache.largest(), largest, 1e-5 * largest) << cache.name();
    EXPECT_EQ(appending.v_scale.get(page, 0, 1), 1.0) << cache.name();
    EXPECT_EQ(appending.v_cache.get(page, 0, 1, 7), 0.0) << cache.name();
  }
}

}  // namespace
}  // namespace quern::test
