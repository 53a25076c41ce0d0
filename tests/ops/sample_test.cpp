// quern_sample against its definition in fp64: kept sets, log-probabilities, penalties and masks, the same token
// whatever the batch, frequencies by chi-square.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <set>

#include "tests/ops/refusal.h"
#include "tests/ops/sample_inputs.h"
#include "tests/ops/sample_problem.h"

namespace quern::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct SampleCase {
  std::int64_t vocab;
  Element element;
  bool edits, filters;
};
std::string name_case(const testing::TestParamInfo<SampleCase>& info) {
  return std::string(info.param.element.name()) + "_" + std::to_string(info.param.vocab) +
         (info.param.edits ? "_edits" : "") + (info.param.filters ? "_filters" : "");
}
class Sample : public testing::TestWithParam<SampleCase> {};

TEST_P(Sample, IsAsDefined) {
  const SampleCase& c = GetParam();
  Random random("sample " + std::to_string(c.vocab) + c.element.name() + (c.edits ? "e" : "") + (c.filters ? "f" : ""));
  const bool many = on_cuda() || std::getenv("QUERN_TEST_MANY") != nullptr;
  const int rounds = many ? 40 : c.vocab > 1000 ? 2 : 12;
  for (int round = 0; round < rounds; ++round) {
    const std::size_t rows = many ? 33 : c.vocab > 100000 ? 3 : 6;
    SampleInput in = make_input(random, c.vocab, c.element, rows);
    in.padding = static_cast<std::int64_t>(random.below(2) * random.below(9));
    in.seed = random.next(), in.offset = random.next();
    if (c.filters)
      add_filters(random, &in);
    else
      in.temperature = drawn(random, rows, {1.0f, 0.0f, 0.6f});
    if (c.edits) add_edits(random, &in);
    if (random.below(2) != 0) in.flags |= QUERN_SAMPLE_LOGPROBS_FILTERED;
    in.logprobs = random.below(4) != 0;
    if (c.filters && random.below(3) != 0) in.top_n = 1 + static_cast<std::int64_t>(random.below(128));
    in.wide_ids = random.below(2) != 0;
    if (random.below(3) == 0) in.max_sms = 1;
    if (random.below(2) != 0) {
      for (std::size_t i = 0; i < rows; ++i) in.offsets.push_back(static_cast<std::int64_t>(random.below(1000)));
    }
    SampleCall call(in);
    const SampleOutput out = call.run();
    if (HasFatalFailure()) return;
    check_sample(in, out, "round " + std::to_string(round));
    if (HasFailure()) return;
  }
}

std::vector<SampleCase> cases() {
  std::vector<SampleCase> all;
  for (const std::int64_t vocab : {1, 111, 5000, 32000, 151936}) {
    for (const bool edits : {false, true}) {
      for (const bool filters : {false, true}) all.push_back({vocab, Element::f32, edits, filters});
    }
  }
  for (const Element element : {Element::f16, Element::bf16}) {
    for (const bool filters : {false, true}) all.push_back({3001, element, true, filters});
    all.push_back({128256, element, false, true});
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(Cases, Sample, testing::ValuesIn(cases()), name_case);

// Rows alone, in any order, many blocks a row or one: bits and all.
TEST(Sample, IsTheSameWhateverTheBatch) {
  Random random("sample batches");
  const std::size_t rows = 5;
  SampleInput in = make_input(random, 20000, Element::f32, rows);
  add_filters(random, &in);
  add_edits(random, &in);
  in.output_as_counts = false;
  in.top_n = 20;
  for (std::size_t i = 0; i < rows; ++i)
    in.seeds.push_back(static_cast<std::int64_t>(random.next())),
        in.offsets.push_back(static_cast<std::int64_t>(i * 11));
  const SampleOutput all = SampleCall(in).run();
  const auto pick = [&](const std::vector<std::size_t>& which, int sms) {
    SampleInput part = in;
    part.max_sms = sms;
    part.rows.clear();
    const auto take = [&](auto& of) {
      if (of.empty()) return;
      const auto before = of;
      of.clear();
      for (const std::size_t i : which) of.push_back(before[i]);
    };
    for (auto* of : {&part.temperature, &part.top_p, &part.min_p, &part.typical_p, &part.n_sigma, &part.xtc_probability,
                     &part.xtc_threshold, &part.dynamic_range, &part.dynamic_exponent, &part.repetition, &part.presence,
                     &part.frequency})
      take(*of);
    take(part.top_k), take(part.prompt), take(part.output), take(part.banned), take(part.allowed), take(part.bias),
        take(part.seeds), take(part.offsets);
    for (const std::size_t i : which) part.rows.push_back(static_cast<std::int32_t>(i));
    const SampleOutput out = SampleCall(part).run();
    for (std::size_t j = 0; j < which.size(); ++j) {
      const std::size_t i = which[j];
      EXPECT_EQ(out.ids[j], all.ids[i]) << "row " << i;
      EXPECT_EQ(std::memcmp(&out.logprobs[j], &all.logprobs[i], 4), 0) << "row " << i;
      EXPECT_EQ(out.top_ids[j], all.top_ids[i]) << "row " << i;
      EXPECT_EQ(out.top_logprobs[j], all.top_logprobs[i]) << "row " << i;
    }
  };
  pick({3}, 0);
  pick({4, 0, 2}, 0);
  pick({1, 1, 1, 1}, 1);
  std::vector<std::size_t> many(40);
  for (std::size_t i = 0; i < many.size(); ++i) many[i] = i % rows;
  pick(many, 0);
}

TEST(Sample, RowsThatAreWrongSaySo) {
  Random random("sample mistakes");
  SampleInput in = make_input(random, 300, Element::f32, 8);
  in.logits[2].assign(300, -kInfinity);
  in.logits[3].assign(300, kNan);
  in.logits[4] = make_logits(random, LogitShape::normal, 300, Element::f32);
  in.logits[4][17] = kInfinity;
  in.rows = {0, 1, 2, 3, 4, 8, -1, 7};
  in.temperature = {1, -1, 1, 1, 1, 1, 1, 1};
  in.top_p = {1, 1, 1, 1, 0.5f, 1, 1, 2};
  in.top_n = 3;
  const SampleOutput out = SampleCall(in).run();
  const std::int32_t expected[] = {0, QUERN_SAMPLE_PARAMETER, QUERN_SAMPLE_EMPTY, QUERN_SAMPLE_EMPTY | QUERN_SAMPLE_NAN,
                                   0, QUERN_SAMPLE_INDEX,     QUERN_SAMPLE_INDEX, QUERN_SAMPLE_PARAMETER};
  for (std::size_t i = 1; i < 8; ++i) {
    EXPECT_EQ(out.status[i], expected[i]) << i;
    if (i == 4) continue;
    EXPECT_EQ(out.ids[i], -1) << i;
    EXPECT_EQ(out.top_ids[i], std::vector<std::int32_t>(3, -1)) << i;
  }
  EXPECT_EQ(out.ids[4], 17);
}

// A bias of no token, offsets that lead out of the entries, and more biases than max_bias: told by row, and no row
// beside it minds.
TEST(Sample, BiasesThatAreWrongSaySo) {
  Random random("sample biases");
  SampleInput in = make_input(random, 300, Element::f32, 4);
  for (std::vector<float>& row : in.logits) row = make_logits(random, LogitShape::normal, 300, Element::f32);
  in.temperature.assign(4, 0.0f);
  in.bias = {{{5, 1.0f}, {7, -2.0f}, {9, 0.5f}}, {{300, 1.0f}}, {{-1, 1.0f}}, {{299, 900.0f}}};
  SampleCall call(in);
  call.args.max_bias = 2;
  const SampleOutput out = call.run();
  EXPECT_EQ(out.status, (std::vector<std::int32_t>{QUERN_SAMPLE_CAPACITY, QUERN_SAMPLE_INDEX, QUERN_SAMPLE_INDEX, 0}));
  EXPECT_EQ(out.ids, (std::vector<std::int64_t>{-1, -1, -1, 299}));
}

// Without a status `host` says what is wrong with the indices, by name; what is no token of a list is passed over.
TEST(Sample, IndicesThatAreWrongAreNamedWithoutAStatus) {
  if (on_cuda()) GTEST_SKIP() << "a GPU's call does not read index data";
  Random random("sample indices");
  SampleInput in = make_input(random, 300, Element::f32, 3);
  for (std::vector<float>& row : in.logits) row = make_logits(random, LogitShape::normal, 300, Element::f32);
  in.bias = {{{5, 1.0f}, {7, -2.0f}}, {}, {{299, 3.0f}}};
  in.prompt = {{1, 2}, {3}, {}};
  in.repetition = {1.5f, 1.5f, 1.5f};
  const auto refused = [&](const std::function<void(SampleInput&)>& spoil, const std::vector<std::string_view>& words) {
    SampleInput wrong = in;
    spoil(wrong);
    SampleCall call(wrong);
    call.args.status = nullptr;
    expect_refused(words, [&](quern_error* e) { return quern_sample(context(), &call.args, e); });
  };
  refused([](SampleInput& i) { i.rows = {0, 3, 1}; }, {"rows[1]", "is 3", "0 to 2", "the rows of logits"});
  refused([](SampleInput& i) { i.rows = {0, 2, -1}; }, {"rows[2]", "is -1"});
  refused([](SampleInput& i) { i.bias[2][0].first = 300; }, {"bias_ids[2]", "is 300", "0 to 299"});
}

TEST(Sample, BadCallsAreRefused) {
  using C = SampleCall;
  const auto bad_top_p = [](float v) {
    return [v](C& c) { c.args.top_ps = nullptr, c.args.flags |= QUERN_SAMPLE_TOP_P, c.args.top_p = v; };
  };
  const std::vector<Mistake<C>> mistakes = {
      {"no logits", {"logits", "NULL"}, [](C& c) { c.args.logits = nullptr; }},
      {"no ids", {"ids", "NULL"}, [](C& c) { c.args.ids = nullptr; }},
      {"ids of another type", {"ids", "int32, int64"}, [](C& c) { c.args.ids = c.args.logprobs; }},
      {"top_p above 1", {"top_p", "1.5", "0 to 1"}, bad_top_p(1.5f)},
      {"top_p below 0", {"top_p", "-0.5", "0 to 1"}, bad_top_p(-0.5f)},
      {"min_p above 1", {"min_p", "2", "0 to 1"}, [](C& c) { c.args.min_p = 2; }},
      {"a negative temperature",
       {"temperature", "-1"},
       [](C& c) { c.args.temperatures = nullptr, c.args.flags |= QUERN_SAMPLE_TEMPERATURE, c.args.temperature = -1; }},
      {"top_k below -1", {"top_k", "-2"}, [](C& c) { c.args.top_ks = nullptr, c.args.top_k = -2; }},
      {"a mask of the wrong size", {"allowed.shape"}, [](C& c) { c.args.allowed = c.args.top_ids; }},
      {"biases without offsets", {"bias_offsets", "NULL"}, [](C& c) { c.args.bias_offsets = nullptr; }},
      {"temperatures of another length",
       {"temperatures.shape[0]"},
       [](C& c) { c.args.temperatures = c.args.bias_values; }},
      {"a repetition of nothing",
       {"repetition", "output_tokens"},
       [](C& c) { c.args.output_tokens = nullptr, c.args.output_lengths = nullptr; }},
      {"lengths without tokens",
       {"output_lengths", "output_tokens"},
       [](C& c) { c.args.output_tokens = nullptr, c.args.repetitions = nullptr; }},
      {"flags", {"flags"}, [](C& c) { c.args.flags |= 1u << 30; }},
      {"top_logprobs without top_ids",
       {"top_ids", "NULL"},
       [](C& c) {
         c.args.top_logprobs = c.args.top_logprobs != nullptr ? c.args.top_logprobs : c.args.output_tokens,
         c.args.top_ids = nullptr;
       }},
      {"too small a workspace", {"workspace_size"}, [](C& c) { c.args.workspace_size = 100; }, true},
      {"no workspace", {"workspace", "NULL"}, [](C& c) { c.args.workspace = nullptr; }, true},
  };
  Random random("sample refusals");
  SampleInput in = make_input(random, 100, Element::f32, 3);
  in.temperature = {1, 1, 1}, in.top_k = {0, 1, 2}, in.top_n = 2, in.repetition = {1, 2, 1};
  in.output = {{1}, {2, 3}, {4}}, in.bias = {{{1, 2.0f}, {5, 1.0f}}, {{2, 1.0f}, {3, 1.0f}}, {}};
  expect_all_refused(
      mistakes, ThreeCalls<quern_sample_args>{quern_sample, quern_sample_workspace, quern_sample_prepare},
      [&] {
        auto call = std::make_unique<SampleCall>(in);
        call->prepare();
        return call;
      },
      [](C& c) { return [&c, before = c.read()] { return c.read() == before; }; });
}

TEST(Sample, NoRows) {
  SampleInput in;
  in.vocab = 10;
  in.logprobs = false;
  EXPECT_TRUE(SampleCall(in).run().ids.empty());
}

// Draws of one row against its distribution. The chance that a right sampler fails is 10^-6 a case.
void check_frequencies(SampleInput in, const std::string& what) {
  const SampleRow row = [&] {
    SampleInput one = in;
    return expect_row(one, 0);
  }();
  const int calls = on_cuda() ? 50 : 1;
  const std::size_t each = on_cuda() ? 20000 : 3000;
  const auto repeat = [&](auto& of) {
    if (!of.empty()) of.assign(each, of[0]);
  };
  for (auto* of : {&in.temperature, &in.top_p, &in.min_p, &in.typical_p, &in.xtc_probability, &in.xtc_threshold,
                   &in.repetition, &in.presence, &in.frequency})
    repeat(*of);
  repeat(in.top_k), repeat(in.output), repeat(in.bias);
  in.rows.assign(each, 0);
  in.logprobs = false;
  std::vector<double> seen(row.edited.size()), expected(row.edited.size());
  for (int c = 0; c < calls; ++c) {
    in.seeds.clear(), in.offsets.clear();
    for (std::size_t i = 0; i < each; ++i)
      in.seeds.push_back(static_cast<std::int64_t>(i % 7)),
          in.offsets.push_back(static_cast<std::int64_t>(i / 7 + static_cast<std::size_t>(c) * each));
    const SampleOutput out = SampleCall(in).run();
    for (const auto id : out.ids) {
      ASSERT_GE(id, 0) << what;
      ++seen[static_cast<std::size_t>(id)];
    }
  }
  const double draws = static_cast<double>(calls) * static_cast<double>(each);
  for (std::size_t j = 0; j < row.kept.size(); ++j)
    expected[static_cast<std::size_t>(row.kept[j])] = draws * std::exp(row.logprob[j]);
  // Bins of at least 10 expected draws.
  double chi = 0, rest_seen = 0, rest_expected = 0;
  int bins = 0;
  for (std::size_t t = 0; t < seen.size(); ++t) {
    ASSERT_TRUE(expected[t] > 0 || seen[t] == 0) << what << ": token " << t << " does not stay";
    rest_seen += seen[t], rest_expected += expected[t];
    if (rest_expected < 10) continue;
    chi += std::pow(rest_seen - rest_expected, 2) / rest_expected, ++bins;
    rest_seen = rest_expected = 0;
  }
  const double freedom = std::max(bins - 1, 1);
  // Wilson and Hilferty's normal approximation: 4.75 standard deviations are one in a million.
  const double normal = (std::cbrt(chi / freedom) - (1 - 2 / (9 * freedom))) / std::sqrt(2 / (9 * freedom));
  EXPECT_LT(normal, 4.75) << what << ": chi-square " << chi << " with " << freedom << " degrees of freedom";
}
TEST(Sample, FrequenciesAreTheDistributions) {
  Random random("sample frequencies");
  SampleInput plain;
  plain.vocab = 2500;
  plain.logits = {make_logits(random, LogitShape::normal, plain.vocab, Element::f32)};
  check_frequencies(plain, "the whole");
  SampleInput in = plain;
  in.top_k = {50}, in.top_p = {0.9f}, in.temperature = {1.5f};
  check_frequencies(in, "top-k then top-p");
  in = plain;
  in.top_p = {0.97f}, in.temperature = {1.5f};
  check_frequencies(in, "top-p");
  in = plain;
  in.vocab = 111, in.logits[0].resize(111);
  in.frequency = {0.5f}, in.presence = {0.2f}, in.repetition = {1.1f}, in.output = {{1, 2, 2, 3, 3, 3, 40, 100}},
  in.bias = {{{50, 4.0f}, {3, 2.0f}}};
  check_frequencies(in, "penalties");
  in.min_p = {0.02f};
  check_frequencies(in, "penalties and min-p");
}

// XTC strikes as often as it is asked to, and then leaves the least probable of those above its threshold. False
// alarms: five standard deviations.
TEST(Sample, XtcStrikesAsOftenAsAsked) {
  constexpr std::size_t kRows = 1000;
  SampleInput in;
  in.vocab = 4;
  in.logits = {{std::log(0.5f), std::log(0.3f), std::log(0.15f), std::log(0.05f)}};
  in.rows.assign(kRows, 0);
  in.logprobs = false;
  in.xtc_threshold.assign(kRows, 0.25f);
  for (const double chance : {0.0, 0.4, 1.0}) {
    in.xtc_probability.assign(kRows, static_cast<float>(chance));
    ++in.seed;
    double largest = 0;
    for (const std::int64_t id : SampleCall(in).run().ids) largest += id == 0;
    const double expected = 0.5 * (1.0 - chance), deviation = std::sqrt(kRows * expected * (1.0 - expected));
    EXPECT_NEAR(largest, kRows * expected, 5.0 * deviation) << chance;
  }
}

// One seed for all rows: equal rows draw apart, the same again when asked the same, and otherwise with another offset.
TEST(Sample, RowsThatShareASeedDrawApart) {
  constexpr std::size_t kRows = 64;
  Random random("sample apart");
  SampleInput plain;
  plain.vocab = 2500;
  // Of 64 rows that draw apart among 2500 tokens about as likely as each other some two agree.
  plain.logits.emplace_back();
  for (int i = 0; i < plain.vocab; ++i) plain.logits[0].push_back(static_cast<float>(0.5 * random.normal()));
  plain.rows.assign(kRows, 0);
  plain.logprobs = false;
  SampleInput filtered = plain, edited = plain;
  filtered.top_p.assign(kRows, 0.97f);
  edited.bias.assign(kRows, {{50, 0.5f}, {3, 0.25f}});
  for (SampleInput in : {plain, filtered, edited}) {
    const std::vector<std::int64_t> ids = SampleCall(in).run().ids;
    EXPECT_EQ(SampleCall(in).run().ids, ids);
    EXPECT_GT(std::set<std::int64_t>(ids.begin(), ids.end()).size(), kRows / 2);
    ++in.offset;
    EXPECT_NE(SampleCall(in).run().ids, ids);
    --in.offset, ++in.seed;
    EXPECT_NE(SampleCall(in).run().ids, ids);
  }
}

}  // namespace
}  // namespace quern::test
