// A model on several devices: two contexts of the host whose sums go through memory that both see.
// SPDX-License-Identifier: Apache-2.0
#include "bindings/engine/parallel/ranks.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <barrier>
#include <bit>
#include <stdexcept>

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
  void all_reduce(void* data, std::int64_t count, void*) override {
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
  }

 private:
  Meeting& meeting_;
  std::int64_t rank_;
};

// Greedy tokens of two prompts at once, in chunks; equal where the two largest logits are not within 0.02.
TEST(Ranks, WriteTheTokensOfOneDevice) {
  const demo::Context first = engine_context(), second = engine_context();
  if (device_of(first.get()).device_type != kDLCPU) GTEST_SKIP() << "the sums of this test are the host's";
  Meeting meeting;
  Together one(meeting, 0), other(meeting, 1);
  engine::Limits limits;
  limits.sequences = 2, limits.tokens = 16, limits.context = 64;
  const std::unique_ptr<engine::Checkpoint> checkpoint = engine::open_checkpoint(kModel);
  engine::Ranks ranks({{first.get(), device_of(first.get()), &one}, {second.get(), device_of(second.get()), &other}},
                      *checkpoint, limits);
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
  EXPECT_EQ(meeting.calls, engine.counts().steps * 2 * checkpoint->config().layers * static_cast<int>(kRanks));
}

TEST(Ranks, RefuseWhatCannotBeDivided) {
  const engine::Config config = engine::open_checkpoint(kModel)->config();
  EXPECT_THROW(engine::part_of(config, 3), JsonError);
  EXPECT_THROW(engine::part_of(config, 4), JsonError) << "there are two KV heads";
  EXPECT_EQ(engine::part_of(config, 2).kv_heads, 1);
}

}  // namespace
}  // namespace quern::test
