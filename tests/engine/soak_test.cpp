// Requests of random lengths that come, go, are cancelled and forked, on a cache with too few pages for all of them: no
// page is lost, and every text is the one that its prompt gives alone. QUERN_SOAK_REQUESTS says how many (60).
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <random>
#include <tuple>

#include "bindings/engine/engine.h"
#include "bindings/engine/model.h"
#include "tests/engine/golden.h"

namespace quern::test {
namespace {

using engine::Engine;
using engine::Limits;
using engine::Model;
using engine::Next;
using engine::Part;
using engine::Request;
using engine::Steps;
using Tokens = std::vector<std::int32_t>;

constexpr std::size_t kLongest = 5;  // of an answer

// What a request says alone, all of kLongest tokens.
class Alone {
 public:
  explicit Alone(Steps& model) : model_(model) {}
  const Tokens& answer(const Tokens& prompt, float temperature, std::uint64_t seed) {
    Tokens& known = known_[{prompt, temperature, seed}];
    if (!known.empty()) return known;
    Engine engine(model_);
    Request request;
    request.prompt = prompt;
    request.most_new = kLongest;
    request.stop_at_end = false;
    request.sampling.temperature = temperature, request.sampling.seed = seed;
    request.take = [&](std::int32_t token) {
      known.push_back(token);
      return true;
    };
    engine.add(std::move(request));
    engine.run();
    return known;
  }

 private:
  Steps& model_;
  std::map<std::tuple<Tokens, float, std::uint64_t>, Tokens> known_;
};

// Of this process, in bytes.
std::size_t resident() {
  std::ifstream file("/proc/self/statm");
  std::size_t all = 0, pages = 0;
  file >> all >> pages;
  return pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

void soak(Steps& model, int count, std::mt19937& random) {
  const auto draw = [&](std::size_t most) { return static_cast<std::size_t>(random()) % most; };
  Engine engine(model);
  Alone alone(model);

  // Few texts, so that prompts begin alike and each is asked more than once; some say everything twice.
  std::vector<Tokens> prompts;
  for (const GoldenCase& c : read_golden().cases) {
    const auto length = static_cast<std::ptrdiff_t>(std::min<std::size_t>(c.ids.size(), 9));
    prompts.emplace_back(c.ids.begin(), c.ids.begin() + length);
    if (prompts.size() < 3) prompts.back().insert(prompts.back().end(), c.ids.begin(), c.ids.begin() + length);
  }
  prompts.push_back(prompts[0]);
  prompts.back().resize(11);
  struct Asked {
    Tokens prompt;
    float temperature;
    std::uint64_t seed;
    std::size_t most, stop;  // tokens; at `stop` of them it is cancelled by what takes them
    Tokens answer;
    std::int64_t number;
    bool cancelled = false;  // from outside
  };
  std::vector<std::unique_ptr<Asked>> all;
  const auto ask = [&](Tokens prompt, std::int64_t from) {
    auto asked = std::make_unique<Asked>();
    asked->prompt = std::move(prompt);
    asked->temperature = draw(3) > 0 ? 0.0f : 1.0f, asked->seed = 1;
    asked->most = 1 + draw(kLongest), asked->stop = draw(6) == 0 ? 1 + draw(asked->most) : kLongest;
    Request request;
    request.prompt = asked->prompt;
    request.most_new = static_cast<std::int64_t>(asked->most);
    request.stop_at_end = false;
    request.sampling.temperature = asked->temperature, request.sampling.seed = asked->seed;
    request.take = [to = asked.get()](std::int32_t token) {
      to->answer.push_back(token);
      return to->answer.size() < to->stop;
    };
    asked->number = from < 0 ? engine.add(std::move(request)) : engine.fork(from, std::move(request));
    if (asked->number >= 0) all.push_back(std::move(asked));
  };

  const auto goes_on = [&](const Asked& asked) {
    return !asked.cancelled && !asked.answer.empty() && asked.answer.size() < std::min(asked.most, asked.stop);
  };
  std::size_t early = 0;  // what was resident when half of the requests had come
  for (int asked = 0; asked < count || engine.step();) {
    if (early == 0 && asked > count / 2) early = resident();
    for (std::size_t more = draw(4); more > 0 && asked < count; --more, ++asked) ask(prompts[draw(prompts.size())], -1);
    if (asked < count) engine.step();
    const auto some = std::find_if(all.begin(), all.end(), [&](const auto& each) { return goes_on(*each); });
    if (some == all.end()) continue;
    Asked& old = **some;
    const std::size_t what = draw(8);
    if (what == 0) {
      engine.cancel(old.number);
      old.cancelled = true;
    } else if (what < 3 && asked < count && old.prompt.size() <= 18) {
      Tokens so_far = old.prompt;
      so_far.insert(so_far.end(), old.answer.begin(), old.answer.end());
      ask(std::move(so_far), old.number);
      ++asked;
    }
  }

  const Engine::Counts& counts = engine.counts();
  std::printf(
      "%zu requests, %lld steps; tokens: %lld computed, %lld shared, %lld drafted, %lld accepted; %lld sequences put "
      "back, "
      "%lld pages copied\n",
      all.size(), static_cast<long long>(counts.steps), static_cast<long long>(counts.computed),
      static_cast<long long>(counts.shared), static_cast<long long>(counts.drafted),
      static_cast<long long>(counts.accepted), static_cast<long long>(counts.preempted),
      static_cast<long long>(counts.copied));
  EXPECT_EQ(engine.pages().free(), engine.pages().count()) << "pages are lost";
  constexpr std::size_t kMore = std::size_t{8} << 20;  // the requests themselves, a sanitizer's quarantine
  EXPECT_LT(resident(), early + kMore) << "memory grows: " << early << " bytes when half of the requests had come";
  for (const auto& asked : all) {
    const Tokens& expected = alone.answer(asked->prompt, asked->temperature, asked->seed);
    const std::size_t length = asked->cancelled ? asked->answer.size() : std::min(asked->most, asked->stop);
    EXPECT_EQ(asked->answer, Tokens(expected.begin(), expected.begin() + static_cast<std::ptrdiff_t>(length)))
        << "request " << asked->number;
  }
}

Limits soak_limits() {
  Limits limits;
  limits.sequences = 5, limits.tokens = 32, limits.context = 40, limits.page_size = 4, limits.drafts = 3;
  limits.pages = 16;  // five of the longest take twice as many
  limits.batch_invariant = true, limits.graph = true;
  // "graph", "programmatic", "drafts": what it is to do without, where one wants to know whose fault it is.
  const char* given = std::getenv("QUERN_SOAK_WITHOUT");
  const std::string without = given == nullptr ? "" : given;
  if (without.find("graph") != std::string::npos) limits.graph = false;
  if (without.find("programmatic") != std::string::npos) limits.programmatic = false;
  if (without.find("drafts") != std::string::npos) limits.drafts = 0;
  return limits;
}

std::mt19937 seeded() {
  const char* given = std::getenv("QUERN_TEST_SEED");
  const auto seed = given == nullptr ? std::random_device{}() : static_cast<unsigned>(std::atol(given));
  std::printf("seed: QUERN_TEST_SEED=%u\n", seed);
  return std::mt19937(seed);
}

TEST(Soak, EveryTextIsItsOwnAndNoPageIsLost) {
  const char* wanted = std::getenv("QUERN_SOAK_REQUESTS");
  const int count = wanted == nullptr ? 60 : std::max(1, std::atoi(wanted));
  std::mt19937 random = seeded();
  const demo::Context context = engine_context();
  const std::unique_ptr<engine::Checkpoint> checkpoint = engine::open_checkpoint(kModel);
  Model model(context.get(), device_of(context.get()), *checkpoint, soak_limits());
  soak(model, count, random);
}

// Many more of them, on what has no layers: its cache holds the tokens themselves, and what follows a text is a hash of
// all that it finds there.
class Echo final : public Steps {
 public:
  Echo() : limits_(soak_limits()), slots_(static_cast<std::size_t>(limits_.pages * limits_.page_size), -1) {
    config_.vocabulary = 1024;
  }
  std::vector<Next> step(const std::vector<Part>& parts) override {
    std::vector<Next> all;
    for (const Part& part : parts) {
      for (std::size_t i = 0; i < part.tokens.size(); ++i)
        slot(part, part.position + static_cast<std::int64_t>(i)) = part.tokens[i];
    }
    for (const Part& part : parts) {
      Next& next = all.emplace_back();
      const auto end = part.position + static_cast<std::int64_t>(part.tokens.size());
      for (std::int64_t draft = part.drafts; draft >= 0; --draft) {
        next.tokens.push_back(follow(part, end - draft));
        if (draft > 0 && next.tokens.back() != slot(part, end - draft)) break;
      }
    }
    return all;
  }
  void repeat(std::int64_t) override {}
  void leave_out(const char*) override {}
  void copy_pages(const std::vector<std::pair<std::int32_t, std::int32_t>>& pairs) override {
    for (const auto& [from, to] : pairs)
      std::copy_n(slots_.begin() + from * limits_.page_size, limits_.page_size,
                  slots_.begin() + to * limits_.page_size);
  }
  const engine::Config& config() const override { return config_; }
  const Limits& limits() const override { return limits_; }

 private:
  std::int32_t& slot(const Part& part, std::int64_t position) {
    const auto page = static_cast<std::size_t>(position / limits_.page_size);
    return slots_[static_cast<std::size_t>(part.pages->at(page) * limits_.page_size + position % limits_.page_size)];
  }
  // Repeats itself, as texts do, so that drafts are right now and then.
  std::int32_t follow(const Part& part, std::int64_t length) {
    std::uint64_t hash = part.sampling.temperature > 0.0f ? part.sampling.seed + 7 : 1;
    for (std::int64_t i = 0; i < length; ++i)
      hash = (hash ^ static_cast<std::uint64_t>(slot(part, i))) * 0x9e3779b97f4a7c15 % 0xfffffffb;
    return length > 3 && hash % 3 != 0 ? slot(part, length - 3) : static_cast<std::int32_t>(hash % 1024);
  }

  Limits limits_;
  engine::Config config_;
  std::vector<std::int32_t> slots_;
};

TEST(Soak, EveryTextOfAnEchoIsItsOwn) {
  std::mt19937 random = seeded();
  Echo echo;
  soak(echo, 20000, random);
}

}  // namespace
}  // namespace quern::test
