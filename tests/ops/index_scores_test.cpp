// index_scores against its definition in fp64: heads, dims, lengths, pages and rows, scales and masks.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <vector>

#include "tests/ops/cuda.h"
#include "tests/ops/index_scores_fixture.h"

namespace quern::test {
namespace {

std::vector<ScoreCase> score_cases() {
  std::vector<ScoreCase> cases;
  const auto add = [&](const std::string& name, std::vector<ScoreLengths> sequences,
                       const std::function<void(ScoreCase&)>& change = {}) {
    ScoreCase c;
    c.name = name;
    c.sequences = std::move(sequences);
    if (change) change(c);
    cases.push_back(c);
  };
  const std::vector<ScoreLengths> edges = {{1, 0}, {1, 1}, {1, 63}, {1, 64}, {1, 65}, {1, 140}};
  const std::vector<ScoreLengths> mixed = {{3, 70}, {0, 30}, {1, 200}, {9, 9}, {2, 1}, {4, 0}};
  add("one_query", edges, [](ScoreCase& c) { c.one_query = true; });
  add("ragged_queries", mixed);
  add("not_causal", mixed, [](ScoreCase& c) { c.causal = false; });
  add("rows", mixed, [](ScoreCase& c) { c.ragged = true; });
  add("rows_one_query", edges, [](ScoreCase& c) { c.ragged = c.one_query = true; });
  add("prefill", {{70, 70}, {33, 190}}, [](ScoreCase& c) { c.ragged = true; });
  add("prefill_pages", {{40, 300}, {21, 21}}, [](ScoreCase& c) { c.page_size = 16; });
  add("leave_masked", mixed, [](ScoreCase& c) { c.leave_masked = true, c.more_columns = 300; });
  add("many_columns", {{2, 40}, {1, 3}}, [](ScoreCase& c) { c.more_columns = 1000; });
  add("indptr", mixed, [](ScoreCase& c) { c.indptr = true; });
  for (const int page : {1, 8, 32, 80, 128})
    add("page" + std::to_string(page), {{1, 140}, {2, 20}}, [&](ScoreCase& c) { c.page_size = page; });
  for (const int heads : {1, 3, 16, 20, 32, 128})
    add("heads" + std::to_string(heads), {{2, 70}, {5, 20}}, [&](ScoreCase& c) { c.heads = heads; });
  for (const int dim : {16, 48, 64, 256})
    add("dim" + std::to_string(dim), {{2, 70}, {5, 20}}, [&](ScoreCase& c) { c.dim = dim, c.heads = 40; });
  add("no_scales", mixed, [](ScoreCase& c) { c.q_scale = c.k_scale = ScoreScale::none; });
  add("tensor_scales", mixed, [](ScoreCase& c) { c.q_scale = c.k_scale = ScoreScale::tensor; });
  add("tensor_scales_rows", mixed, [](ScoreCase& c) { c.q_scale = c.k_scale = ScoreScale::tensor, c.ragged = true; });
  add("e5m2", mixed, [](ScoreCase& c) { c.code = Element::e5m2; });
  add("raw_bytes", mixed, [](ScoreCase& c) { c.raw_bytes = true; });
  add("heads_first", mixed, [](ScoreCase& c) { c.heads_first = true; });
  add("fused_pool", mixed, [](ScoreCase& c) { c.fused_pool = true; });
  add("alignment_4", mixed, [](ScoreCase& c) { c.alignment = 4; });
  add("few_sms", {{7, 300}, {1, 500}, {12, 64}}, [](ScoreCase& c) { c.max_sms = 1; });
  add("long", {{1, 4096}, {4, 1030}}, [](ScoreCase& c) { c.heads = 64, c.max_sms = 2; });
  add("none", {{0, 30}, {0, 0}});
  return cases;
}

class IndexScores : public testing::TestWithParam<ScoreCase> {};
INSTANTIATE_TEST_SUITE_P(Cases, IndexScores, testing::ValuesIn(score_cases()),
                         [](const testing::TestParamInfo<ScoreCase>& test) { return test.param.name; });

TEST_P(IndexScores, MatchesItsDefinition) {
  Scoring scoring(GetParam());
  ASSERT_NO_FATAL_FAILURE(scoring.run());
  scoring.check();
}

// `host`: unfair scheduling and late delivery, by seed.
class IndexScoresScheduling : public testing::TestWithParam<ScoreCase> {};
std::vector<ScoreCase> unfair_cases() {
  std::vector<ScoreCase> cases;
  const auto add = [&](const char* name, std::vector<ScoreLengths> sequences,
                       const std::function<void(ScoreCase&)>& change) {
    ScoreCase c;
    c.name = name, c.sequences = std::move(sequences);
    change(c);
    cases.push_back(c);
  };
  add("unfair_one_query", {{1, 1900}, {1, 65}, {1, 0}, {1, 128}},
      [](ScoreCase& c) { c.one_query = true, c.max_sms = 1; });
  add("unfair_two", {{2, 200}, {1, 130}, {2, 1}}, [](ScoreCase& c) { c.page_size = 16; });
  add("unfair_four", {{4, 333}, {3, 65}}, [](ScoreCase& c) { c.max_sms = 1; });
  add("unfair_shared_keys", {{20, 1300}, {9, 70}}, [](ScoreCase& c) { c.max_sms = 1; });
  add("unfair_rows", {{13, 200}, {1, 500}, {30, 30}}, [](ScoreCase& c) { c.ragged = true, c.max_sms = 2; });
  add("unfair_without_scales", {{5, 200}}, [](ScoreCase& c) { c.k_scale = ScoreScale::none, c.max_sms = 1; });
  add("unfair_portable", {{4, 300}, {1, 65}}, [](ScoreCase& c) { c.heads = 32; });
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Seeds, IndexScoresScheduling, testing::ValuesIn(unfair_cases()),
                         [](const testing::TestParamInfo<ScoreCase>& test) { return test.param.name; });
TEST_P(IndexScoresScheduling, AnyOrderGivesTheSameBits) {
  if (on_cuda()) GTEST_SKIP() << "a GPU schedules as it likes: seeds are for the host target";
  constexpr int kSeeds = 4;
  Scoring scoring(GetParam());
  ASSERT_NO_FATAL_FAILURE(scoring.run());
  scoring.check();
  const std::vector<unsigned char> fair = scoring.out.memory(), poison = std::vector<unsigned char>(fair.size(), 0xff);
  for (int seed = 0; seed < kSeeds; ++seed) {
    const std::uint64_t value = run_seed() * kSeeds + static_cast<std::uint64_t>(seed);
    const Context unfair = make_context([&](quern_context_options& o) {
      o.flags |= QUERN_CONTEXT_HOST_SEED;
      o.host_seed = value;
    });
    std::memcpy(scoring.out.box().tensor.data, poison.data(), poison.size());
    auto error = sized<quern_error>();
    ASSERT_EQ(quern_index_scores(unfair.get(), &scoring.args, &error), QUERN_OK) << error.text;
    scoring.out.download();
    ASSERT_EQ(scoring.out.memory(), fair) << "host_seed " << value;
  }
}

TEST(IndexScoresOnCuda, OneGraphServesAnyLengths) {
  if (!on_cuda()) GTEST_SKIP() << "needs a GPU: QUERN_TEST_DEVICE=cuda";
  for (const std::int64_t heads : {64, 32}) {
    ScoreCase c;
    c.name = "graph";
    c.heads = heads, c.sequences = {{4, 900}, {1, 300}, {20, 2000}, {1, 64}}, c.more_columns = 100;
    Scoring scoring(c);
    ASSERT_NO_FATAL_FAILURE(scoring.run());
    const Stream stream;
    auto error = sized<quern_error>();
    scoring.args.stream = stream.get();
    const Graph graph(stream,
                      [&] { ASSERT_EQ(quern_index_scores(context(), &scoring.args, &error), QUERN_OK) << error.text; });
    Random random("rounds");
    for (int round = 0; round < 6; ++round) {
      SCOPED_TRACE(round);
      scoring.shorten(random, c.sequences);
      synchronize();
      graph.launch(stream);
      stream.synchronize();
      scoring.out.download();
      scoring.check();
    }
  }
}

// A query's bits are its own: alone as one query of a sequence, and among others, by whichever kernel.
TEST(IndexScoresInvariance, ARowAlone) {
  ScoreCase all;
  all.name = "invariance";
  all.sequences = {{9, 150}, {3, 40}}, all.ragged = true, all.causal = false;
  Scoring many(all);
  ASSERT_NO_FATAL_FAILURE(many.run());
  ScoreCase one = all;
  one.sequences = {{1, 150}}, one.one_query = true;
  for (const std::int64_t t : {0, 5, 8}) {
    Scoring alone(one);
    for (std::int64_t h = 0; h < one.heads; ++h) {
      alone.weights.set(many.weights.get(t, h), 0, h), alone.q_scale.set(many.q_scale.get(t, h), 0, h);
      for (std::int64_t d = 0; d < one.dim; ++d) alone.q.set(many.q.get(t, h, d), 0, h, d);
    }
    for (std::int64_t j = 0; j < 150; ++j) {
      alone.k_scale.set(many.k_scale.get(j), j);
      for (std::int64_t d = 0; d < one.dim; ++d) alone.k.set(many.k.get(j, d), j, d);
    }
    ASSERT_NO_FATAL_FAILURE(alone.run());
    for (std::int64_t j = 0; j < 150; ++j) ASSERT_EQ(alone.out.get(0, j), many.out.get(t, j)) << t << " " << j;
  }
}

}  // namespace
}  // namespace quern::test
