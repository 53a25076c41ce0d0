// A cache of many entries: opened at once, and each found at once. 100 000 of them with `./dev torture`.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "tests/cache/fixture.h"
#include "tests/fault/torture.h"

namespace quern::cache::testing {
namespace {

using Clock = std::chrono::steady_clock;

double microseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

class LargeTest : public CacheTest {};

TEST_F(LargeTest, IsOpenedAndLookedUpInAtOnce) {
  const std::uint64_t entries = std::min<std::uint64_t>(times(1'000), 100'000);
  constexpr std::size_t kBytes = 64;
  StoreOptions roomy = options();
  roomy.limit_bytes = std::uint64_t{4} << 30;
  {
    Store store(roomy);
    for (std::uint64_t number = 1; number <= entries; ++number) ASSERT_TRUE(put(store, number, kBytes));
  }
  Store store(roomy);
  const auto begin = Clock::now();
  store.open();
  const double opened = microseconds_since(begin);
  Random random{seed(1)};
  std::vector<double> took;
  for (int i = 0; i < 1'000; ++i) {
    const std::uint64_t number = 1 + random.below(entries);
    const Entry wanted = make_entry(number, kBytes);
    Entry got;
    const auto from = Clock::now();
    const bool found = store.get(make_key(number), wanted.text, "", &got);
    took.push_back(microseconds_since(from));
    ASSERT_TRUE(found && same(got, wanted));
  }
  std::sort(took.begin(), took.end());
  std::printf("%llu entries: opened in %.2f ms, looked up in %.1f us (median), %.1f us (99 of 100)\n",
              static_cast<unsigned long long>(entries), opened / 1000, took[took.size() / 2],
              took[took.size() * 99 / 100]);
  EXPECT_LT(opened, bound(5'000, 50'000));
  EXPECT_LT(took[took.size() / 2], bound(50, 1'000));
}

}  // namespace
}  // namespace quern::cache::testing
