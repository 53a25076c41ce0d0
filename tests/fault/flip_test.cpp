// One bit of the file changed, anywhere: never a wrong entry, and the next process has a cache that works.
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "tests/cache/fixture.h"
#include "tests/fault/torture.h"

namespace quern::cache::testing {
namespace {

class FlipTest : public CacheTest {
 protected:
  static constexpr std::uint64_t kEntries = 3;
  std::string make() {
    {
      Store store(options());
      for (std::uint64_t number = 1; number <= kEntries; ++number) EXPECT_TRUE(put(store, number, 600));
    }
    return read_file(file());
  }
  std::uint64_t hits = 0, twice = 0;

  void check(const std::string& good, std::size_t bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    write_file(file(), bad);
    std::filesystem::remove(file() + "-journal");
    StoreOptions quiet = options();
    quiet.notice = nullptr;
    Store store(quiet);
    for (std::uint64_t number = 1; number <= kEntries; ++number) {
      Entry got;
      if (!store.get(make_key(number), make_entry(number).text, "", &got)) continue;
      ASSERT_TRUE(same(got, make_entry(number, 600))) << "bit " << bit;
      ++hits;
    }
    ASSERT_TRUE(put(store, 9)) << "bit " << bit << ": " << store.stats().reason;
    if (hit(store, 9)) return;
    // Written into a page whose header was wrong, it was damaged in turn: that costs a second compilation, and no more.
    ++twice;
    ASSERT_TRUE(put(store, 9)) << "bit " << bit << ": " << store.stats().reason;
    ASSERT_TRUE(hit(store, 9)) << "bit " << bit;
  }
};

// All bits with `./dev torture`, one in some hundreds otherwise.
TEST_F(FlipTest, AnyBitOfASmallFile) {
  const std::string good = make();
  ASSERT_LT(good.size(), 200'000u);
  const std::uint64_t wanted = times(1'500), bits = 8 * good.size();
  Random random{seed(3)};
  std::uint64_t done = 0;
  for (std::size_t bit = 0; bit < bits; ++bit) {
    if (wanted < bits && random.below(bits) >= wanted) continue;
    check(good, bit);
    ++done;
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(hits, 2 * done) << "most bits matter to one entry at most";
  EXPECT_LE(twice, 1 + done / 1000);
  std::printf("%llu of %llu bits, %llu hits, %llu stored twice\n", static_cast<unsigned long long>(done),
              static_cast<unsigned long long>(bits), static_cast<unsigned long long>(hits),
              static_cast<unsigned long long>(twice));
}

}  // namespace
}  // namespace quern::cache::testing
