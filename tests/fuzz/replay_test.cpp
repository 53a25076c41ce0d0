// Each target's good inputs, and inputs made from them by a seed (QUERN_SEED): cut, with bits turned, bytes replaced,
// parts put together. What `./dev fuzz` does for as long as it is let, led by what the code has run through.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>

#include "tests/fault/torture.h"
#include "tests/fuzz/fuzz.h"

namespace quern::fuzz {
namespace {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0xbf58476d1ce4e5b9ULL ^ 0x9e3779b97f4a7c15ULL) {}
  std::uint64_t below(std::uint64_t bound) {
    state_ ^= state_ << 13, state_ ^= state_ >> 7, state_ ^= state_ << 17;
    return state_ % bound;
  }

 private:
  std::uint64_t state_;
};

std::string changed(std::string input, const std::vector<std::string>& seeds, Random& random) {
  const std::uint64_t times = 1 + random.below(4);
  for (std::uint64_t i = 0; i < times; ++i) {
    const std::size_t at = input.empty() ? 0 : random.below(input.size());
    switch (random.below(6)) {
      case 0:
        input.resize(at);
        break;
      case 1:
        if (!input.empty()) input[at] = static_cast<char>(input[at] ^ (1 << random.below(8)));
        break;
      case 2:
        if (!input.empty()) input[at] = static_cast<char>(random.below(256));
        break;
      case 3: {  // a length or an offset of extremes
        static constexpr std::uint64_t kNumbers[] = {0, 1, 0x7fffffff, 0x80000000, 0xffffffff, ~std::uint64_t{0}};
        const std::uint64_t number = kNumbers[random.below(std::size(kNumbers))];
        if (input.size() >= at + 8) input.replace(at, 8, reinterpret_cast<const char*>(&number), 8);
        break;
      }
      case 4:
        input.insert(at, input.substr(at, random.below(16)));
        break;
      default: {
        const std::string& other = seeds[random.below(seeds.size())];
        input = input.substr(0, at) + other.substr(other.empty() ? 0 : random.below(other.size()));
      }
    }
  }
  return input;
}

class Replay : public testing::TestWithParam<const Target*> {};
INSTANTIATE_TEST_SUITE_P(Targets, Replay, testing::ValuesIn(targets().begin(), targets().end()),
                         [](const auto& target) { return std::string(target.param->name); });

TEST_P(Replay, RefusesOrTakes) {
  const std::vector<std::string> seeds = GetParam()->seeds();
  ASSERT_FALSE(seeds.empty());
  for (const std::string& seed : seeds) GetParam()->run(seed);
  const std::uint64_t from = cache::testing::seed(0);
  Random random(from);
  const bool writes_files = GetParam() == &cache_file || GetParam() == &bundle;
  // Of whose texts many are made of the library's own sources.
  const bool reads_sources = GetParam() == &key_texts;
  const std::uint64_t inputs = cache::testing::times(writes_files ? 300 : reads_sources ? 3000 : 20000);
  for (std::uint64_t i = 0; i < inputs; ++i) GetParam()->run(changed(seeds[random.below(seeds.size())], seeds, random));
  std::printf("%llu inputs, QUERN_SEED=%llu\n", static_cast<unsigned long long>(inputs),
              static_cast<unsigned long long>(from));
}

}  // namespace
}  // namespace quern::fuzz
