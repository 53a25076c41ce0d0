// All that a request may say of how its tokens are chosen, several requests in one batch: each gets what it asked for,
// and what it would get alone.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <stdexcept>

#include "bindings/engine/engine.h"
#include "bindings/engine/model.h"
#include "tests/engine/golden.h"

namespace quern::test {
namespace {

using engine::Engine;
using engine::Limits;
using engine::Model;
using engine::Next;
using engine::Request;
using Tokens = std::vector<std::int32_t>;

constexpr std::int64_t kTokens = 4;

class SamplingTest : public testing::Test {
 protected:
  static Limits limits() {
    Limits limits;
    limits.sequences = 12, limits.tokens = 48, limits.context = 32, limits.batch_invariant = limits.graph = true;
    return limits;
  }
  struct Asked {
    const char* what;
    Request request;
    Tokens answer;
    std::vector<Next> seen;
  };
  Asked& ask(const char* what) {
    Asked& asked = *asked_.emplace_back(std::make_unique<Asked>());
    asked.what = what;
    asked.request.prompt = prompt_, asked.request.most_new = kTokens, asked.request.stop_at_end = false;
    return asked;
  }
  void run(const std::vector<Asked*>& some) {
    Engine engine(model_);
    for (Asked* asked : some) {
      asked->answer.clear(), asked->seen.clear();
      Request request = asked->request;
      request.take = [asked](std::int32_t token) {
        asked->answer.push_back(token);
        return true;
      };
      request.look = [asked](const Next& next) { asked->seen.push_back(next); };
      engine.add(std::move(request));
    }
    engine.run();
    barren_ = engine.counts().barren;
    EXPECT_EQ(engine.pages().free(), engine.pages().count());
  }

  const demo::Context context_ = engine_context();
  Model model_{context_.get(), device_of(context_.get()), *engine::open_checkpoint(kModel), limits()};
  const Tokens prompt_ = [] {
    Tokens ids = read_golden().cases[0].ids;
    ids.resize(4);
    return ids;
  }();
  std::vector<std::unique_ptr<Asked>> asked_;
  std::int64_t barren_ = 0;
};

TEST_F(SamplingTest, EachRequestGetsWhatItAskedFor) {
  Asked& greedy = ask("greedy");
  run({&greedy});
  ASSERT_EQ(greedy.answer.size(), std::size_t{kTokens});
  const std::int32_t first = greedy.answer[0];

  Asked& banned = ask("banned");
  banned.request.sampling.banned = {first};
  Asked& biased = ask("biased");
  biased.request.sampling.bias = {{7, 1000.0f}, {9, -1000.0f}};
  Asked& frequency = ask("frequency");
  frequency.request.sampling.bias = {{7, 500.0f}, {8, 400.0f}};
  frequency.request.sampling.frequency = 1000.0f;
  Asked& presence = ask("presence");
  presence.request.sampling.bias = {{7, 500.0f}};
  presence.request.sampling.presence = 1000.0f;
  Asked& repetition = ask("repetition");
  repetition.request.prompt = {7, 8, 9, 10};
  repetition.request.sampling.repetition = 1e6f;
  Asked& allowed = ask("allowed");
  allowed.request.allow = [](std::span<const std::int32_t> text) {
    std::vector<std::uint32_t> bits(1024 / 32);
    bits[0] = text.size() % 2 == 0 ? 1u << 5 : 1u << 6;
    return bits;
  };
  Asked& one = ask("top-k 1");
  one.request.sampling.temperature = 5.0f, one.request.sampling.top_k = 1;
  Asked& sigma = ask("n_sigma");
  sigma.request.sampling.temperature = 1.0f, sigma.request.sampling.n_sigma = 1e-6f;
  Asked& typical = ask("all that is rare");
  typical.request.sampling.temperature = 1.0f, typical.request.sampling.seed = 3;
  typical.request.sampling.typical_p = 0.9f, typical.request.sampling.xtc_probability = 1.0f;
  typical.request.sampling.xtc_threshold = 0.05f, typical.request.sampling.dynamic_range = 0.5f;
  Asked& logprobs = ask("log-probabilities");
  logprobs.request.sampling.top_logprobs = 3;
  Asked& none = ask("none allowed");
  none.request.allow = [](std::span<const std::int32_t>) { return std::vector<std::uint32_t>(1024 / 32); };

  std::vector<Asked*> all;
  for (const auto& each : asked_) all.push_back(each.get());
  const Tokens alone = greedy.answer;
  run(all);
  EXPECT_EQ(barren_, 1);
  EXPECT_TRUE(none.answer.empty());
  EXPECT_EQ(greedy.answer, alone);
  EXPECT_EQ(std::count(banned.answer.begin(), banned.answer.end(), first), 0);
  EXPECT_EQ(banned.answer.size(), std::size_t{kTokens});
  EXPECT_EQ(biased.answer, Tokens(kTokens, 7));
  EXPECT_EQ(Tokens(frequency.answer.begin(), frequency.answer.begin() + 2), (Tokens{7, 8}));
  EXPECT_EQ(std::set<std::int32_t>(frequency.answer.begin(), frequency.answer.end()).size(), std::size_t{kTokens});
  EXPECT_EQ(presence.answer[0], 7);
  EXPECT_EQ(std::set<std::int32_t>(presence.answer.begin(), presence.answer.end()).size(), std::size_t{kTokens});
  Tokens repeated = repetition.request.prompt;
  repeated.insert(repeated.end(), repetition.answer.begin(), repetition.answer.end());
  EXPECT_EQ(std::set<std::int32_t>(repeated.begin(), repeated.end()).size(), 4 + std::size_t{kTokens});
  EXPECT_EQ(allowed.answer, (Tokens{5, 6, 5, 6}));
  EXPECT_EQ(one.answer, alone);
  EXPECT_EQ(sigma.answer, alone);
  EXPECT_EQ(logprobs.answer, alone);
  ASSERT_EQ(logprobs.seen.size(), std::size_t{kTokens});
  for (const Next& next : logprobs.seen) {
    ASSERT_EQ(next.top.size(), 3u);
    EXPECT_EQ(next.top[0].first, next.tokens[0]);
    EXPECT_NEAR(next.top[0].second, next.logprob, 1e-5f);
    EXPECT_GE(next.top[0].second, next.top[1].second);
    EXPECT_LT(next.logprob, 0.0f);
  }
  EXPECT_TRUE(greedy.seen.empty());

  // The rarest options alone: the same tokens.
  const Tokens beside = typical.answer;
  run({&typical});
  EXPECT_EQ(typical.answer, beside);
}

// Between two tokens that are as likely as each other, each place of a text has a draw of its own.
TEST_F(SamplingTest, EachPlaceIsDrawnApart) {
  for (const std::uint64_t seed : {5, 6}) {
    Asked& two = ask("two tokens");
    two.request.most_new = 20;
    two.request.sampling.temperature = 1e4f, two.request.sampling.seed = seed;
    two.request.allow = [](std::span<const std::int32_t>) {
      std::vector<std::uint32_t> bits(1024 / 32);
      bits[0] = 1u << 5 | 1u << 6;
      return bits;
    };
  }
  run({asked_[0].get(), asked_[1].get()});
  const Tokens &one = asked_[0]->answer, &other = asked_[1]->answer;
  EXPECT_EQ(one.size(), 20u);
  EXPECT_EQ(std::set<std::int32_t>(one.begin(), one.end()), (std::set<std::int32_t>{5, 6}));
  EXPECT_EQ(std::set<std::int32_t>(other.begin(), other.end()), (std::set<std::int32_t>{5, 6}));
  EXPECT_NE(one, other);
}

TEST_F(SamplingTest, RefusesMoreThanAStepHasRoomFor) {
  Engine engine(model_);
  const auto refused = [&](const auto& change) -> std::string {
    Request request;
    request.prompt = prompt_, request.most_new = 2;
    change(request.sampling);
    try {
      engine.add(std::move(request));
      return "";
    } catch (const std::runtime_error& error) {
      return error.what();
    }
  };
  using S = engine::Sampling;
  EXPECT_EQ(refused([](S& s) { s.bias.resize(257); }), "biases are 257; allowed: at most 256");
  EXPECT_EQ(refused([](S& s) { s.banned.resize(300); }), "banned tokens are 300; allowed: at most 256");
  EXPECT_EQ(refused([](S& s) { s.top_logprobs = 21; }), "log-probabilities are 21; allowed: at most 20");
  EXPECT_EQ(refused([](S& s) { s.bias = {{1024, 1.0f}}; }), "a bias is of token 1024, which is not of the vocabulary");
  EXPECT_EQ(refused([](S& s) { s.bias = {{5, 1.0f}, {6, 1.0f}, {5, 2.0f}}; }), "token 5 has two biases; allowed: one");
  EXPECT_EQ(refused([](S& s) { s.banned = {-1}; }), "token -1 is banned, which is not of the vocabulary");
}

TEST_F(SamplingTest, RefusesNumbersOutOfRange) {
  Engine engine(model_);
  using S = engine::Sampling;
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInfinite = std::numeric_limits<float>::infinity();
  const auto refused = [&](const auto& change) -> std::string {
    Request request;
    request.prompt = prompt_, request.most_new = 2;
    change(request.sampling);
    try {
      engine.add(request);
      return "";
    } catch (const std::runtime_error& error) {
      const Tokens pages = {0, 1};
      EXPECT_THROW(model_.step({{prompt_, 0, &pages, request.sampling}}), std::runtime_error) << error.what();
      return error.what();
    }
  };
  EXPECT_EQ(refused([](S& s) { s.temperature = -1.0f; }), "temperature is -1; allowed: 0 and more");
  EXPECT_EQ(refused([](S& s) { s.top_p = 7.0f; }), "top_p is 7; allowed: 0 to 1");
  EXPECT_EQ(refused([](S& s) { s.top_k = -2; }), "top_k is -2; allowed: -1 and more");
  EXPECT_EQ(refused([&](S& s) { s.bias = {{5, kNan}}; }), "the bias of token 5 is nan; allowed: a finite number");
  // Every number has its range, and its bounds are within it.
  for (const engine::SamplingRange& range : engine::kSamplingRanges) {
    const std::string words = range.range;
    const auto taken = [&](float value) { return refused([&](S& s) { s.*range.number = value; }).empty(); };
    EXPECT_FALSE(taken(kNan)) << range.name;
    EXPECT_FALSE(taken(kInfinite)) << range.name;
    EXPECT_TRUE(taken(1.0f)) << range.name;
    EXPECT_EQ(taken(0.0f), words != "above 0") << range.name;
    EXPECT_EQ(taken(-0.5f), words == "a finite number") << range.name;
    EXPECT_EQ(taken(1.5f), words != "0 to 1") << range.name;
  }
}

}  // namespace
}  // namespace quern::test
