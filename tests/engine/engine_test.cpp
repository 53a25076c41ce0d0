// Batches, chunks, shared prefixes, too few pages and cancellations change no token.
// SPDX-License-Identifier: Apache-2.0
#include "bindings/engine/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>

#include "bindings/engine/lookup.h"
#include "bindings/engine/model.h"
#include "tests/engine/golden.h"

namespace quern::test {
namespace {

using engine::Engine;
using engine::Limits;
using engine::Model;
using engine::Part;
using engine::Request;

using Tokens = std::vector<std::int32_t>;

Limits small_limits() {
  Limits limits;
  limits.sequences = 3, limits.tokens = 12, limits.context = 64, limits.page_size = 4, limits.batch_invariant = true;
  limits.graph = true;
  return limits;
}

class EngineTest : public testing::Test {
 protected:
  void make(const Limits& limits) {
    context_ = engine_context();
    model_ = std::make_unique<Model>(context_.get(), device_of(context_.get()), *checkpoint_, limits);
  }
  // Drawn, so that a logit that is another one makes another token.
  static Request request(const Tokens& prompt, std::int64_t count, Tokens* answer) {
    Request request;
    request.prompt = prompt;
    request.most_new = count;
    request.stop_at_end = false;
    request.sampling.temperature = 1.0f;
    request.sampling.seed = prompt.size();
    request.take = [answer](std::int32_t token) {
      answer->push_back(token);
      return true;
    };
    return request;
  }
  Tokens alone(const Tokens& prompt, std::int64_t count) {
    Tokens answer;
    Engine engine(*model_);
    engine.add(request(prompt, count, &answer));
    engine.run();
    return answer;
  }

  demo::Context context_;
  const std::unique_ptr<engine::Checkpoint> checkpoint_ = engine::open_checkpoint(kModel);
  std::unique_ptr<Model> model_;
  const Golden golden_ = read_golden();
};

TEST_F(EngineTest, WhatIsBesideASequenceChangesNothing) {
  make(small_limits());
  std::vector<Tokens> answers(golden_.cases.size()), expected;
  for (const GoldenCase& c : golden_.cases) expected.push_back(alone(c.ids, 5));
  Engine engine(*model_);
  for (std::size_t i = 0; i < golden_.cases.size(); ++i) engine.add(request(golden_.cases[i].ids, 5, &answers[i]));
  engine.run();
  EXPECT_EQ(answers, expected);
  EXPECT_EQ(engine.counts().answered, 25);
  EXPECT_EQ(engine.pages().free(), engine.pages().count());
}

// A replay reads what has changed since it was captured: tokens, lengths, pages, seeds.
TEST_F(EngineTest, GraphsGiveTheBitsOfPlainLaunches) {
  const demo::Context context = engine_context();
  if (device_of(context.get()).device_type != kDLCUDA) GTEST_SKIP() << "the host has no graphs";
  Limits limits = small_limits();
  for (const bool invariant : {true, false}) {
    limits.batch_invariant = invariant, limits.graph = true;
    Model graphs(context.get(), device_of(context.get()), *checkpoint_, limits);
    limits.graph = false;
    Model plain(context.get(), device_of(context.get()), *checkpoint_, limits);
    for (std::int32_t step = 0; step < 40; ++step) {
      std::vector<Part> parts;
      std::vector<Tokens> pages;
      for (std::int32_t i = 0; i <= step % 3; ++i) {
        pages.emplace_back(16);
        std::iota(pages.back().begin(), pages.back().end(), 16 * i);
        std::rotate(pages.back().begin(), pages.back().begin() + step / 3 % 16, pages.back().end());
      }
      for (std::int32_t i = 0; i <= step % 3; ++i) {
        Part& part = parts.emplace_back();
        part.tokens = {(step * 37 + i * 11) % 1024}, part.position = step,
        part.pages = &pages[static_cast<std::size_t>(i)];
        part.sampling.temperature = step % 4 == 0 ? 0.0f : 1.5f, part.sampling.top_p = step % 4 == 2 ? 0.9f : 1.0f;
        part.sampling.seed = static_cast<std::uint64_t>(step);
      }
      const auto one = graphs.step(parts), other = plain.step(parts);
      for (std::size_t i = 0; i < parts.size(); ++i) EXPECT_EQ(one[i].tokens, other[i].tokens) << step;
      EXPECT_EQ(graphs.logits(), plain.logits()) << step;
    }
  }
}

TEST_F(EngineTest, LogitsHaveTheSameBitsInAnyBatch) {
  make(small_limits());
  const Tokens first = {0, 1, 2, 3, 4}, second = {5, 6, 7, 8, 9}, third = {10, 11, 12, 13};
  const Tokens& text = golden_.cases[0].ids;
  model_->step({{text, 0, &first, {}}});
  const std::vector<float> single = model_->logits();
  model_->step({{golden_.cases[4].ids, 0, &second, {}}, {{0, 7, 9}, 0, &third, {}}});
  const Tokens beginning(text.begin(), text.begin() + 5), rest(text.begin() + 5, text.end());
  model_->step({{{0}, 6, &second, {}}, {beginning, 0, &first, {}}});
  model_->step({{{3}, 7, &second, {}}, {{8}, 3, &third, {}}, {rest, 5, &first, {}}});
  const std::vector<float> batched = model_->logits();
  const auto row = static_cast<std::ptrdiff_t>(2 * model_->config().vocabulary);
  EXPECT_EQ(single, std::vector<float>(batched.begin() + row, batched.end()));
}

// A text cut at random, beside others at random: the bits of its tokens one by one. QUERN_SOAK_REQUESTS says how often.
TEST_F(EngineTest, NoCutAndNoCompanyChangesABit) {
  const char* wanted = std::getenv("QUERN_SOAK_REQUESTS");
  const int rounds = wanted == nullptr ? 1 : std::max(1, std::atoi(wanted) / 10);
  const unsigned seed = std::random_device{}();
  std::printf("seed: %u\n", seed);
  std::mt19937 random(seed);
  Limits limits = small_limits();
  limits.sequences = 4, limits.tokens = 24, limits.context = 32;
  make(limits);
  const std::size_t length = wanted == nullptr ? 6 : 28;
  Tokens text(length);
  for (std::int32_t& token : text) token = static_cast<std::int32_t>(random() % 1024);
  Tokens pages[4];
  for (std::int32_t i = 0; i < 4; ++i) {
    pages[i].resize(8);
    std::iota(pages[i].begin(), pages[i].end(), 8 * i);
  }
  std::vector<std::vector<float>> alone;
  for (std::size_t at = 0; at < length; ++at) {
    model_->step({{{text[at]}, static_cast<std::int64_t>(at), &pages[0], {}}});
    alone.push_back(model_->logits());
  }
  for (int round = 0; round < rounds; ++round) {
    std::array<std::size_t, 3> done{};
    while (done[0] < length) {
      std::vector<Part> parts;
      std::string sizes;
      const std::size_t mine = random() % 3;  // the place of the sequence among the others
      std::vector<std::pair<std::size_t, std::size_t>> ends;
      for (std::size_t i = 0; i < 3; ++i) {
        const std::size_t which = (i + mine) % 3;
        if (done[which] == length || (which != 0 && random() % 3 == 0)) continue;
        const std::size_t count = std::min<std::size_t>(random() % 2 == 0 ? 1 : 1 + random() % 8, length - done[which]);
        const auto first = text.begin() + static_cast<std::ptrdiff_t>(done[which]);
        parts.push_back({{first, first + static_cast<std::ptrdiff_t>(count)},
                         static_cast<std::int64_t>(done[which]),
                         &pages[which + 1],
                         {}});
        sizes += " " + std::to_string(count) + " at " + std::to_string(done[which]);
        done[which] += count;
        ends.emplace_back(parts.size() - 1, done[which] - 1);
      }
      if (parts.empty()) continue;
      model_->step(parts);
      const std::vector<float> logits = model_->logits();
      for (const auto& [place, position] : ends) {
        const auto row = logits.begin() + static_cast<std::ptrdiff_t>(place * 1024);
        ASSERT_TRUE(std::equal(row, row + 1024, alone[position].begin()))
            << "round " << round << ", part " << place << " of" << sizes;
      }
    }
  }
}

TEST_F(EngineTest, WhatTwoPromptsBeginWithIsComputedOnce) {
  make(small_limits());
  Tokens first = golden_.cases[3].ids, second = first;
  second.push_back(12);
  const Tokens expected = alone(second, 4);
  Tokens answers[2];
  Engine engine(*model_);
  engine.add(request(first, 4, &answers[0]));
  engine.run();
  const std::int64_t computed = engine.counts().computed;
  engine.add(request(second, 4, &answers[1]));
  engine.run();
  EXPECT_EQ(answers[1], expected);
  EXPECT_EQ(engine.counts().shared, 8) << "two pages of four tokens";
  EXPECT_EQ(engine.counts().computed - computed, static_cast<std::int64_t>(second.size()) - 8 + 3);
}

TEST_F(EngineTest, TooFewPagesPutASequenceBackButLoseNothing) {
  Limits limits = small_limits();
  limits.pages = 9;  // of four tokens: for two of these texts, not three
  make(limits);
  std::vector<Tokens> answers(3), expected;
  for (std::size_t i = 0; i < 3; ++i) expected.push_back(alone(golden_.cases[i].ids, 8));
  Engine engine(*model_);
  for (std::size_t i = 0; i < 3; ++i) engine.add(request(golden_.cases[i].ids, 8, &answers[i]));
  engine.run();
  EXPECT_EQ(answers, expected);
  EXPECT_GT(engine.counts().preempted, 0);
  EXPECT_EQ(engine.pages().free(), 9);
}

TEST_F(EngineTest, ACancelledRequestLeavesItsPages) {
  make(small_limits());
  Tokens kept, stopped, dropped;
  Engine engine(*model_);
  engine.add(request(golden_.cases[0].ids, 4, &kept));
  Request stops = request(golden_.cases[1].ids, 30, &stopped);
  stops.take = [&](std::int32_t token) {
    stopped.push_back(token);
    return stopped.size() < 2;
  };
  engine.add(std::move(stops));
  const std::int64_t number = engine.add(request(golden_.cases[2].ids, 30, &dropped));
  for (int i = 0; i < 3; ++i) engine.step();
  engine.cancel(number);
  engine.run();
  EXPECT_EQ(kept, alone(golden_.cases[0].ids, 4));
  EXPECT_EQ(stopped.size(), 2u);
  EXPECT_LT(dropped.size(), 30u);
  EXPECT_EQ(engine.pages().free(), engine.pages().count());
}

// A text that says the same again and again: drafts are taken, and change no token.
TEST_F(EngineTest, DraftsChangeNoToken) {
  Limits limits = small_limits();
  limits.drafts = 3;
  make(limits);
  Tokens text = golden_.cases[0].ids;
  text.insert(text.end(), golden_.cases[0].ids.begin(), golden_.cases[0].ids.end());
  Tokens expected, answers[2];
  const auto greedy = [&](const Tokens& prompt, Tokens* answer) {
    Request made = request(prompt, 14, answer);
    made.sampling.temperature = 0.0f;
    return made;
  };
  {
    // Token by token, by hand.
    std::vector<std::int32_t> pages(16);
    std::iota(pages.begin(), pages.end(), 0);
    Tokens all(text.begin(), text.end());
    for (std::size_t done = 0; expected.size() < 14;) {
      const auto count = std::min<std::size_t>(all.size() - done, 12);
      const auto first = all.begin() + static_cast<std::ptrdiff_t>(done);
      const auto next = model_->step(
          {{{first, first + static_cast<std::ptrdiff_t>(count)}, static_cast<std::int64_t>(done), &pages, {}}});
      done += count;
      if (done == all.size()) all.push_back(next[0].tokens[0]), expected.push_back(next[0].tokens[0]);
    }
  }
  Engine engine(*model_);
  engine.add(greedy(text, &answers[0]));
  Tokens drawn;
  engine.add(request(golden_.cases[1].ids, 8, &drawn));
  engine.run();
  EXPECT_EQ(answers[0], expected);
  EXPECT_EQ(drawn, alone(golden_.cases[1].ids, 8));
  EXPECT_GT(engine.counts().accepted, 0);
  EXPECT_LE(engine.counts().accepted, engine.counts().drafted);
  EXPECT_EQ(engine.pages().free(), engine.pages().count());
  const std::vector<std::int32_t> pages(16);
  EXPECT_THROW(model_->step({{{1, 2, 3, 4, 5}, 0, &pages, {}, 4}}), std::runtime_error) << "more than it is ready for";
  EXPECT_THROW(model_->step({{{1, 2}, 0, &pages, {}, 2}}), std::runtime_error) << "nothing but drafts";
  EXPECT_THROW(model_->step({{{1, 2}, 0, &pages, {.temperature = 1.0f}, 1}}), std::runtime_error) << "drawn";
}

// As many tokens as rows of logits, but not the same ones.
TEST_F(EngineTest, ADraftBesideAPromptHasItsOwnRows) {
  Limits limits = small_limits();
  limits.drafts = 3;
  make(limits);
  const Tokens prompt = {5, 6, 7, 8, 9, 10}, ones = {0, 1, 2, 3}, others = {4, 5, 6, 7};
  const std::int32_t after_prompt = model_->step({{prompt, 0, &ones, {}}})[0].tokens[0];
  const std::int32_t after_one = model_->step({{{11}, 0, &others, {}}})[0].tokens[0];
  const auto next = model_->step({{prompt, 0, &ones, {}}, {{11, after_one}, 0, &others, {}, 1}});
  EXPECT_EQ(next[0].tokens, Tokens{after_prompt});
  ASSERT_EQ(next[1].tokens.size(), 2u);
  EXPECT_EQ(next[1].tokens[0], after_one);
}

TEST_F(EngineTest, AForkWritesIntoACopy) {
  make(small_limits());
  const Tokens& prompt = golden_.cases[1].ids;
  Tokens first, second, third;
  Engine engine(*model_);
  const std::int64_t number = engine.add(request(prompt, 9, &first));
  while (first.size() < 2) engine.step();
  Tokens shared = prompt;
  shared.insert(shared.end(), first.begin(), first.end());
  Request other = request({}, 6, &second);
  other.sampling.seed = 99;
  EXPECT_GT(engine.fork(number, other), number);
  const std::int64_t computed = engine.counts().computed;
  Request same = request({}, 7, &third);
  same.sampling.seed = prompt.size();
  engine.fork(number, same);
  engine.run();
  EXPECT_EQ(third, Tokens(first.begin() + 2, first.end())) << "one seed, one text";
  EXPECT_NE(second, Tokens(third.begin(), third.begin() + 6));
  EXPECT_EQ(engine.counts().computed - computed, 6 + 7 + 7) << "nothing is computed twice";
  EXPECT_EQ(engine.counts().copied, shared.size() % 4 == 1 ? 0 : 2);
  EXPECT_EQ(engine.pages().free(), engine.pages().count());
  EXPECT_EQ(engine.fork(number, other), -1);

  // The same from nothing.
  Tokens again;
  Request whole = request(shared, 6, &again);
  whole.sampling.seed = 99;
  Engine fresh(*model_);
  fresh.add(whole);
  fresh.run();
  EXPECT_EQ(again, second);
}

TEST_F(EngineTest, RefusesWhatCannotBeAnswered) {
  make(small_limits());
  Engine engine(*model_);
  Tokens none;
  EXPECT_THROW(engine.add(request({}, 4, &none)), std::runtime_error);
  EXPECT_THROW(engine.add(request({0, 1}, 63, &none)), std::runtime_error);
  EXPECT_THROW(engine.add(request({0, 1024}, 4, &none)), std::runtime_error);
  EXPECT_FALSE(engine.step());

  Request meddling = request({0, 1}, 2, &none);
  meddling.take = [&](std::int32_t) {
    EXPECT_THROW(engine.cancel(0), std::runtime_error);
    EXPECT_THROW(engine.fork(0, {}), std::runtime_error);
    return true;
  };
  engine.add(std::move(meddling));
  engine.run();
}

TEST(LookUp, FindsWhatFollowedTheLastWords) {
  using engine::look_up;
  EXPECT_EQ(look_up(Tokens{1, 2, 3, 4, 5, 1, 2, 3}, 9), (Tokens{4, 5, 1, 2, 3}));
  EXPECT_EQ(look_up(Tokens{1, 2, 3, 4, 5, 1, 2, 3}, 2), (Tokens{4, 5}));
  EXPECT_EQ(look_up(Tokens{7, 2, 3, 4, 8, 2, 3, 5, 1, 2, 3}, 1), Tokens{5}) << "the latest with two words";
  EXPECT_EQ(look_up(Tokens{1, 2, 3, 4, 8, 2, 3, 5, 1, 2, 3}, 1), Tokens{4}) << "three words before two";
  EXPECT_EQ(look_up(Tokens{6, 6, 6}, 4), Tokens{6});
  EXPECT_EQ(look_up(Tokens{1, 2, 3, 4}, 4), Tokens{});
  EXPECT_EQ(look_up(Tokens{1}, 4), Tokens{});
  EXPECT_EQ(look_up(Tokens{6, 6, 6}, 0), Tokens{});
}

}  // namespace
}  // namespace quern::test
