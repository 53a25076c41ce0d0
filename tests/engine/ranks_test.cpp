// A model on several devices: two GPUs, or two contexts of the host whose sums go through memory that both see.
// SPDX-License-Identifier: Apache-2.0
#include "bindings/engine/parallel/ranks.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <barrier>
#include <bit>
#include <memory>
#include <stdexcept>
#include <utility>

#include "bindings/engine/checkpoint/numbers.h"
#include "bindings/engine/engine.h"
#include "bindings/json/json.h"
#include "tests/engine/golden.h"

namespace quern::test {
namespace {

using engine::Communicator;
using Tokens = std::vector<std::int32_t>;

constexpr std::size_t kRanks = 2;

// What the ranks' calls meet in. A call of one while another is not there waits for it.
struct Meeting {
  std::barrier<> all{kRanks};
  std::array<const std::uint16_t*, kRanks> given{};
  std::atomic<int> calls = 0;
};

class Together final : public Communicator {
 public:
  Together(Meeting& meeting, std::int64_t rank) : meeting_(meeting), rank_(rank) {}
  std::int64_t rank() const override { return rank_; }
  std::int64_t size() const override { return kRanks; }
  const char* how() const override { return "this test"; }
  void meet() override {}
  bool all_reduce(void* data, std::int64_t count, void*) override {
    auto* own = static_cast<std::uint16_t*>(data);
    meeting_.given[static_cast<std::size_t>(rank_)] = own;
    meeting_.all.arrive_and_wait();
    std::vector<std::uint16_t> sums(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < sums.size(); ++i) {
      float sum = 0.0f;
      for (const std::uint16_t* each : meeting_.given)
        sum += std::bit_cast<float>(static_cast<std::uint32_t>(each[i]) << 16);
      sums[i] = engine::bf16_of(sum);
    }
    meeting_.all.arrive_and_wait();
    std::copy(sums.begin(), sums.end(), own);
    meeting_.calls++;
    return false;
  }

 private:
  Meeting& meeting_;
  std::int64_t rank_;
};

// Two prompts at once, in chunks; greedy tokens, equal where the two largest logits are not within 0.02. How many sums
// were asked for.
std::int64_t write_golden_tokens(const std::vector<engine::Rank>& given, bool graph) {
  engine::Limits limits;
  limits.sequences = 2, limits.tokens = 16, limits.context = 64, limits.graph = graph;
  const std::unique_ptr<engine::Checkpoint> checkpoint = engine::open_checkpoint(kModel);
  engine::Ranks ranks(given, *checkpoint, limits);
  EXPECT_EQ(ranks.model(0).config().heads, 2);
  EXPECT_EQ(ranks.config().heads, 4);
  engine::Engine engine(ranks);
  const Golden golden = read_golden();
  std::vector<Tokens> answers(2);
  constexpr std::size_t kTokens = 8;
  for (std::size_t i = 0; i < 2; ++i) {
    engine::Request request;
    request.prompt = golden.cases[i].ids;
    request.most_new = kTokens, request.stop_at_end = false;
    request.take = [&answers, i](std::int32_t token) {
      answers[i].push_back(token);
      return true;
    };
    engine.add(std::move(request));
  }
  engine.run();
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(answers[i], Tokens(golden.cases[i].greedy.begin(),
                                 golden.cases[i].greedy.begin() + static_cast<std::ptrdiff_t>(kTokens)));
  }
  return engine.counts().steps * 2 * checkpoint->config().layers * static_cast<std::int64_t>(kRanks);
}

class Ranks : public testing::Test {
 protected:
  void SetUp() override {
    for (std::size_t i = 0; i < kRanks; ++i) {
      contexts_.push_back(engine_context(static_cast<std::int32_t>(i)));
      if (contexts_.back() == nullptr) GTEST_SKIP() << "needs two GPUs";
      devices_.push_back(device_of(contexts_.back().get()));
      ordinals_.push_back(devices_.back().device_id);
    }
  }
  bool on_host() const { return devices_[0].device_type == kDLCPU; }
  // What sums but through each other's memory.
  std::vector<std::unique_ptr<Communicator>> others() {
    if (!on_host()) return engine::open_nccl(ordinals_);
    std::vector<std::unique_ptr<Communicator>> made;
    for (std::size_t i = 0; i < kRanks; ++i)
      made.push_back(std::make_unique<Together>(meeting_, static_cast<std::int64_t>(i)));
    return made;
  }
  std::vector<engine::Rank> ranks(const std::vector<std::unique_ptr<Communicator>>& communicators) const {
    std::vector<engine::Rank> made;
    for (std::size_t i = 0; i < kRanks; ++i) made.push_back({contexts_[i].get(), devices_[i], communicators[i].get()});
    return made;
  }

  std::vector<demo::Context> contexts_;
  std::vector<quern_device_info> devices_;
  std::vector<int> ordinals_;
  Meeting meeting_;
};

TEST_F(Ranks, WriteTheTokensOfOneDevice) {
  const auto communicators = others();
  for (const bool graph : {false, true}) {
    meeting_.calls = 0;
    const std::int64_t summed = write_golden_tokens(ranks(communicators), graph);
    if (!on_host()) continue;
    EXPECT_EQ(meeting_.calls, summed);
    break;  // it has no graphs
  }
}

// The same by a kernel that sums through each other's memory.
TEST_F(Ranks, WriteTheSameThroughEachOthersMemory) {
  std::vector<engine::PeerEnd> ends;
  auto below = others();
  for (std::size_t i = 0; i < kRanks; ++i) ends.push_back({contexts_[i].get(), devices_[i], std::move(below[i])});
  const auto communicators = engine::open_peers(std::move(ends));
  for (const bool graph : {false, true}) {
    write_golden_tokens(ranks(communicators), graph);
    if (on_host()) break;
  }
  EXPECT_EQ(meeting_.calls, 0);
}

TEST(RanksOfAModel, RefuseWhatCannotBeDivided) {
  const engine::Config config = engine::open_checkpoint(kModel)->config();
  EXPECT_THROW(engine::part_of(config, 3), JsonError);
  EXPECT_THROW(engine::part_of(config, 4), JsonError) << "there are two KV heads";
  EXPECT_EQ(engine::part_of(config, 2).kv_heads, 1);
}

}  // namespace
}  // namespace quern::test
