// Power fails at every operation of a cache's life: what was stored before is there, and the file is whole.
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "tests/cache/fixture.h"
#include "tests/fault/launch/launcher.h"
#include "tests/fault/power_vfs.h"

namespace quern::cache::testing {
namespace {

class PowerTest : public CacheTest {};

TEST_F(PowerTest, AtEveryOperation) {
  const std::uint64_t from = seed(1);
  StoreOptions small = options();
  small.limit_bytes = 1 << 20;  // so that entries go and pages are given back, too
  struct Step {
    std::uint64_t number;
    std::size_t done;  // operations, once it was stored
  };
  constexpr std::size_t kSizes[] = {3'000, 60'000, 20'000, 130'000, 1'000, 90'000, 40'000, 200'000};
  std::vector<Step> steps;
  Launcher launcher;
  std::size_t launched = 0, launched_long_ago = 0;  // operations, once the kernel was stored and two entries after it
  record_power();
  {
    Store store(small);
    for (std::uint64_t number = 1; number <= 16; ++number) {
      ASSERT_TRUE(put(store, number, kSizes[number % 8]));
      steps.push_back({number, noted_power()});
      if (number % 5 == 0) store.reject(make_key(number - 1), "test");
      if (number == 8) {
        ASSERT_EQ(launcher.launch(small), 1);
        launched = noted_power();
      }
      if (number == 10) launched_long_ago = noted_power();
    }
  }
  const std::size_t operations = stop_power();
  const std::uint64_t trials = times(1);
  std::uint64_t states = 0, hits = 0, launches = 0, compiled = 0;
  for (std::size_t count = 1; count <= operations; ++count) {
    for (std::uint64_t trial = 0; trial < trials; ++trial) {
      Random random{from + count * 1'000'003 + trial};
      const std::map<std::string, std::string> left = after_power_failure(count, random);
      make_folder(left);
      ++states;
      const std::string where = "after " + std::to_string(count) + " operations, trial " + std::to_string(trial) +
                                ", QUERN_SEED=" + std::to_string(from);
      Store store(small);
      for (std::uint64_t number = 1; number <= 16; ++number) {
        Entry got;
        if (!store.get(make_key(number), make_entry(number).text, "", &got)) continue;
        ASSERT_TRUE(same(got, make_entry(number, kSizes[number % 8]))) << where;
        ++hits;
      }
      // The last one that was stored is there for good.
      std::uint64_t last = 0;
      for (const Step& step : steps)
        if (step.done <= count) last = step.number;
      if (last != 0) {
        ASSERT_TRUE(hit(store, last, kSizes[last % 8])) << where;
      }
      ASSERT_FALSE(std::filesystem::exists(folder_ + "/cache-1.damaged.db")) << where;
      ASSERT_TRUE(put(store, 99)) << where << ": " << store.stats().reason;
      AdminError error;
      store.verify(&error);
      ASSERT_EQ(error.what, AdminError::What::none) << where << ": " << error.text;
      if (count % 20 != 0) continue;
      // The first to come is one who wants a kernel.
      make_folder(left);
      const int cost = launcher.launch(small);
      ASSERT_TRUE(cost == 0 || count < launched || count > launched_long_ago) << where;
      ASSERT_EQ(launcher.launch(small), 0) << where;
      ASSERT_FALSE(HasFailure()) << where;
      launches += 2, compiled += static_cast<std::uint64_t>(cost);
    }
  }
  EXPECT_GT(hits, states);
  std::printf("%llu states of %zu operations, %llu launches for %llu compilations\n",
              static_cast<unsigned long long>(states), operations, static_cast<unsigned long long>(launches),
              static_cast<unsigned long long>(compiled));
}

}  // namespace
}  // namespace quern::cache::testing
