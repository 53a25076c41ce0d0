// mla_append against its formulas in fp64: places, the norm, rope and every kind of cache; then MLA decode over what
// was appended.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "tests/ops/mla_append_fixture.h"

namespace quern::test {
namespace {

std::vector<LatentCase> latent_cases() {
  std::vector<LatentCase> cases;
  const auto add = [&](const std::string& name, const std::function<void(LatentCase&)>& change) {
    LatentCase c;
    c.name = name;
    change(c);
    cases.push_back(c);
  };
  const auto full = [](LatentCase& c) {
    c.d_latent = 512, c.options.flags = QUERN_ROPE_INTERLEAVED, c.options.scaling = QUERN_ROPE_YARN;
    c.options.factor = 40.0, c.options.original_positions = 4096;
  };
  add("deepseek", [&](LatentCase& c) { full(c), c.heads = 128; });
  add("deepseek_e4m3_tensor", [&](LatentCase& c) { full(c), c.cache = Cache::tensor, c.queries = false; });
  add("deepseek_e4m3_token", [&](LatentCase& c) { full(c), c.cache = Cache::token; });
  add("deepseek_rows656", [&](LatentCase& c) { full(c), c.cache = Cache::rows656; });
  add("rows656_power_of_two", [&](LatentCase& c) {
    full(c), c.cache = Cache::rows656, c.flags = QUERN_MLA_APPEND_POWER_OF_TWO, c.queries = false;
  });
  add("rows656_f16_alignment_4", [&](LatentCase& c) {
    full(c), c.cache = Cache::rows656, c.element = Element::f16, c.alignment = 4, c.norm = LatentNorm::f32;
  });
  add("rows656_alignment_8", [&](LatentCase& c) { full(c), c.cache = Cache::rows656, c.alignment = 8; });
  add("plain", [](LatentCase& c) { c.norm = LatentNorm::none, c.rope = c.queries = false; });
  add("neox", [](LatentCase&) {});
  add("norm_f32", [](LatentCase& c) { c.norm = LatentNorm::f32, c.apart = true; });
  add("apart", [](LatentCase& c) { c.apart = true, c.two_pools = true; });
  add("two_pools_token", [](LatentCase& c) { c.two_pools = true, c.cache = Cache::token; });
  add("token_power_of_two",
      [](LatentCase& c) { c.cache = Cache::token, c.flags = QUERN_MLA_APPEND_POWER_OF_TWO, c.raw_bytes = true; });
  add("results", [](LatentCase& c) { c.results = true, c.cache = Cache::token; });
  add("results_apart", [](LatentCase& c) { c.results = c.apart = true; });
  add("results_in_place", [](LatentCase& c) { c.results = c.apart = c.in_place = true; });
  add("queries_in_place", [](LatentCase& c) { c.q_in_place = true; });
  add("table", [](LatentCase& c) { c.by = By::table; });
  add("table_lengths", [](LatentCase& c) { c.by = By::table, c.positions = false; });
  add("indices", [](LatentCase& c) { c.by = By::indices; });
  add("indices_lengths", [](LatentCase& c) { c.by = By::indices, c.positions = false; });
  add("one_each",
      [](LatentCase& c) { c.by = By::table, c.positions = false, c.one_each = true, c.q_lens = {1, 1, 1, 1, 1}; });
  add("wide", [](LatentCase& c) { c.wide = true; });
  add("page_5", [](LatentCase& c) { c.page_size = 5, c.lengths = {1, 16, 7, 9, 20}, c.by = By::table; });
  add("page_1", [](LatentCase& c) { c.page_size = 1, c.q_lens = {1, 2, 1}, c.lengths = {1, 4, 3}; });
  add("partial", [](LatentCase& c) { c.options.rotary_dim = 24; });
  add("latent_256_rope_32", [](LatentCase& c) { c.d_latent = 256, c.d_rope = 32, c.cache = Cache::token; });
  add("latent_48_rope_16", [](LatentCase& c) { c.d_latent = 48, c.d_rope = 16, c.cache = Cache::tensor; });
  add("latent_400_rope_128", [](LatentCase& c) { c.d_latent = 400, c.d_rope = 128, c.element = Element::f16; });
  add("latent_alone", [](LatentCase& c) { c.d_rope = 0, c.rope = c.queries = false, c.cache = Cache::token; });
  add("alignment_4", [](LatentCase& c) { c.alignment = 4, c.cache = Cache::token, c.norm = LatentNorm::f32; });
  add("few_sms", [](LatentCase& c) { c.max_sms = 1, c.q_lens = {30, 40, 10}, c.lengths = {31, 64, 20}; });
  add("no_tokens", [](LatentCase& c) { c.q_lens = {}, c.lengths = {}, c.one_each = true; });
  return cases;
}

class MlaAppend : public testing::TestWithParam<LatentCase> {};
INSTANTIATE_TEST_SUITE_P(Cases, MlaAppend, testing::ValuesIn(latent_cases()),
                         [](const testing::TestParamInfo<LatentCase>& test) { return test.param.name; });

TEST_P(MlaAppend, MatchesItsFormula) {
  MlaAppending appending(GetParam());
  ASSERT_NO_FATAL_FAILURE(appending.run());
  appending.check();
}

// Cosines and sines from a table, which has a row for each position.
TEST(MlaAppendTable, TurnsAsTheTableSays) {
  LatentCase c;
  c.name = "cosines";
  Array cosines(Element::f32, {40, c.d_rope});
  for (std::int64_t position = 0; position < 40; ++position) {
    for (std::int64_t pair = 0; pair < c.d_rope / 2; ++pair) {
      const auto angle =
          static_cast<double>(position * rope_frequency(c.options, static_cast<int>(c.d_rope), static_cast<int>(pair)));
      cosines.set(std::cos(angle), position, pair), cosines.set(std::sin(angle), position, c.d_rope / 2 + pair);
    }
  }
  cosines.upload();
  MlaAppending by_table(c), computed(c);
  by_table.options.table = cosines.tensor();
  ASSERT_NO_FATAL_FAILURE(by_table.run());
  ASSERT_NO_FATAL_FAILURE(computed.run());
  for (MlaAppending* a : {&by_table, &computed}) a->q_out.download(), a->cache.download();
  for (std::int64_t t = 0; t < c.tokens(); ++t) {
    if (by_table.slots.integer(t) < 0) continue;
    for (std::int64_t d = 0; d < c.d_rope; ++d)
      ASSERT_NEAR(by_table.q_out.get(t, 0, d), computed.q_out.get(t, 0, d), 0.04) << t;
  }
}

// NaN stays, infinities become the largest number and do not count in a scale; a token of zeros has scale 1.
TEST(MlaAppendNumbers, NanAndInfinity) {
  LatentCase c;
  c.name = "numbers";
  c.cache = Cache::token, c.norm = LatentNorm::none, c.rope = c.queries = false;
  c.q_lens = {1, 1}, c.lengths = {1, 1}, c.by = By::table, c.positions = false, c.one_each = true;
  MlaAppending a(c);
  a.kv.set(std::numeric_limits<double>::quiet_NaN(), 0, 3);
  a.kv.set(std::numeric_limits<double>::infinity(), 0, 4);
  a.kv.set(-std::numeric_limits<double>::infinity(), 0, 150);
  for (std::int64_t d = 0; d < c.columns(); ++d) a.kv.set(0.0, 1, d);
  ASSERT_NO_FATAL_FAILURE(a.run());
  a.cache.download(), a.scale.download();
  const std::int64_t page = a.table.integer(0, 0), zeros = a.table.integer(1, 0);
  EXPECT_TRUE(std::isnan(a.cache.get(page, 0, 3)));
  EXPECT_EQ(a.cache.get(page, 0, 4), 448.0);
  EXPECT_EQ(a.cache.get(page, 0, 150), -448.0);
  EXPECT_LT(a.scale.get(page, 0) * 448.0, 200.0);
  EXPECT_EQ(a.scale.get(zeros, 0), 1.0);
  EXPECT_EQ(a.cache.get(zeros, 0, 7), 0.0);
}

// A token's bits are its own, whatever else is in the batch.
TEST(MlaAppendInvariance, ARowAlone) {
  LatentCase all;
  all.name = "invariance";
  all.cache = Cache::token, all.by = By::table, all.positions = false, all.q_lens = {9}, all.lengths = {9};
  MlaAppending many(all);
  ASSERT_NO_FATAL_FAILURE(many.run());
  many.cache.download(), many.scale.download();
  for (const std::int64_t t : {0, 5}) {
    LatentCase one = all;
    one.q_lens = {1}, one.lengths = {static_cast<int>(t) + 1}, one.one_each = true;
    MlaAppending alone(one);
    for (std::int64_t d = 0; d < one.columns(); ++d) alone.kv.set(many.kv.get(t, d), 0, d);
    for (std::int64_t d = 0; d < one.d_latent; ++d) alone.weight.set(many.weight.get(d), d);
    ASSERT_NO_FATAL_FAILURE(alone.run());
    alone.cache.download(), alone.scale.download();
    const std::int64_t here = alone.table.integer(0, 0), there = many.table.integer(0, 0);
    EXPECT_EQ(alone.scale.get(here, t), many.scale.get(there, t));
    for (std::int64_t d = 0; d < one.columns(); ++d)
      ASSERT_EQ(alone.cache.get(here, t, d), many.cache.get(there, t, d)) << d;
  }
}

// MLA decode over what was appended against decode of plain tensors that hold the same numbers, token after token.
class MlaAppendThenDecode : public testing::TestWithParam<Cache> {};
INSTANTIATE_TEST_SUITE_P(Caches, MlaAppendThenDecode,
                         testing::Values(Cache::plain, Cache::tensor, Cache::token, Cache::rows656));
TEST_P(MlaAppendThenDecode, EqualsDecodeOfPlainTensors) {
  LatentCase c;
  c.name = "then_decode";
  c.cache = GetParam();
  c.d_latent = 512, c.heads = 16, c.by = By::table, c.positions = false, c.results = true;
  c.q_lens = {33, 20}, c.lengths = {33, 20}, c.options.flags = QUERN_ROPE_INTERLEAVED;
  MlaAppending appended(c);
  ASSERT_NO_FATAL_FAILURE(appended.run());
  appended.kv_out.download(), appended.q_out.download(), appended.cache.download(), appended.scale.download();

  // The same pages, filled with the numbers that were to be stored, or that the codes stand for.
  Array plain(c.element, {kPages, c.page_size, c.columns()}), q(c.element, {2, c.heads, c.d_latent});
  Array q_rope(c.element, {2, c.heads, c.d_rope}), one(c.element, {2, c.heads, c.d_latent}),
      two(c.element, {2, c.heads, c.d_latent});
  Random random("then_decode queries");
  for (std::int64_t s = 0, first = 0; s < c.batch(); ++s) {
    const std::int64_t length = appended.lengths.integer(s);
    for (std::int64_t j = 0; j < length; ++j) {
      const std::int64_t page = appended.table.integer(s, j / c.page_size), place = j % c.page_size;
      for (std::int64_t d = 0; d < c.columns(); ++d) {
        plain.set(c.codes() ? appended.number_at(page, place, d) : appended.kv_out.get(first + j, d), page, place, d);
      }
    }
    for (std::int64_t h = 0; h < c.heads; ++h) {
      for (std::int64_t d = 0; d < c.d_latent; ++d) q.set(random.normal(), s, h, d);
      for (std::int64_t d = 0; d < c.d_rope; ++d) q_rope.set(appended.q_out.get(first + length - 1, h, d), s, h, d);
    }
    first += length;
  }
  for (Array* x : {&plain, &q, &q_rope}) x->upload();
  const auto decode = [&](const DLTensor* cache, const DLTensor* scale, std::int32_t type, Array& out) {
    auto args = sized<quern_mla_decode_args>();
    auto error = sized<quern_error>();
    args.q = q.tensor(), args.q_rope = q_rope.tensor(), args.out = out.tensor();
    args.cache = cache, args.cache_scale = scale, args.cache_type = type;
    args.lengths = appended.lengths.tensor(), args.page_table = appended.table.tensor();
    args.max_kv_len = 4 * static_cast<std::int32_t>(c.page_size);
    args.scale = 1.0f / 13.8564064605510183f;
    std::uint64_t bytes = 0;
    ASSERT_EQ(quern_mla_decode_workspace(context(), &args, &bytes, &error), QUERN_OK) << error.text;
    Buffer workspace(bytes, 0);
    args.workspace = workspace.data(), args.workspace_size = bytes;
    ASSERT_EQ(quern_mla_decode(context(), &args, &error), QUERN_OK) << error.text;
    synchronize();
    out.download();
  };
  ASSERT_NO_FATAL_FAILURE(decode(appended.args.cache, appended.args.cache_scale, appended.args.cache_type, one));
  ASSERT_NO_FATAL_FAILURE(decode(plain.tensor(), nullptr, 0, two));
  double sum = 0.0, difference = 0.0, largest = 0.0;
  for (std::int64_t s = 0; s < 2; ++s) {
    for (std::int64_t h = 0; h < c.heads; ++h) {
      for (std::int64_t d = 0; d < c.d_latent; ++d) {
        const double x = one.get(s, h, d), y = two.get(s, h, d);
        if (!c.codes()) {
          ASSERT_EQ(x, y) << s << " " << h << " " << d;
        }
        sum += y * y, difference += (x - y) * (x - y), largest = std::fmax(largest, std::fabs(x - y));
      }
    }
  }
  if (!c.codes()) return;
  // Codes times scales are rounded where tensor cores take them: each number is off by up to 2^-9 of itself, a score of
  // rope columns that are ten times as large as queries by some hundredths, a result with its weights. As a whole that
  // is 0.4 % of the results, in single ones a few times as much.
  const double size = std::sqrt(sum), count = 2.0 * static_cast<double>(c.heads * c.d_latent);
  EXPECT_LE(std::sqrt(difference), 0.01 * size);
  EXPECT_LE(largest, 0.25 * size / std::sqrt(count));
}

}  // namespace
}  // namespace quern::test
