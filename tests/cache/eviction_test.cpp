// The size limit: file and journal together, least recently used first.
// SPDX-License-Identifier: Apache-2.0
#include "cache/eviction.h"

#include <atomic>
#include <thread>

#include "cache/eviction.h"
#include "tests/cache/fixture.h"
#include "tests/cache/sql.h"

namespace quern::cache::testing {
namespace {

class EvictionTest : public CacheTest {
 protected:
  std::uint64_t size_on_disk() const {
    std::error_code error;
    std::uint64_t total = 0;
    for (const std::string& path : {file(), file() + "-journal"}) {
      const auto size = std::filesystem::file_size(path, error);
      if (!error) total += size;
    }
    return total;
  }
  // Makes every row look used on another day, so that touching it counts again.
  void let_a_day_pass() { sql(file(), R"(UPDATE uses SET day = day - 1)"); }
};

TEST_F(EvictionTest, TheOldestGoFirstAndTheLimitHoldsAtEveryMoment) {
  StoreOptions small = options();
  small.limit_bytes = 3 << 20;
  Store store(small);
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> most{0};
  std::thread watcher([&] {
    while (!stop) {
      const std::uint64_t now = size_on_disk();
      if (now > most) most = now;
    }
  });
  for (std::uint64_t number = 1; number <= 60; ++number) EXPECT_TRUE(put(store, number, 150'000)) << number;
  stop = true;
  watcher.join();
  EXPECT_LE(most, small.limit_bytes);
  EXPECT_GT(most, small.limit_bytes / 2) << "much of the room went unused";
  EXPECT_TRUE(hit(store, 60, 150'000));
  std::uint64_t first = 60;
  while (first > 1 && hit(store, first - 1, 150'000)) --first;
  EXPECT_LT(first, 52u);
  for (std::uint64_t number = 1; number < first; ++number) EXPECT_TRUE(miss(store, number)) << number;
}

// Of all sizes, up to the edge: what the journal may take is kept free of entries.
TEST_F(EvictionTest, MixedSizesFilledToTheEdge) {
  StoreOptions small = options();
  small.limit_bytes = 8 << 20;
  Store store(small);
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> most{0};
  std::thread watcher([&] {
    while (!stop) {
      const std::uint64_t now = size_on_disk();
      if (now > most) most = now;
    }
  });
  std::uint64_t state = 7;
  for (std::uint64_t number = 1; number <= 400; ++number) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    const std::size_t size = 500 + (state >> 33) % (number % 7 == 0 ? 600'000 : 40'000);
    EXPECT_TRUE(put(store, number, size)) << number;
    if (number % 20 == 0) put(store, number - 10, 300'000);  // one that is there, anew and larger
    const std::int64_t used =
        sql(file(), "SELECT page_count - freelist_count FROM pragma_page_count, pragma_freelist_count");
    EXPECT_LE(static_cast<std::uint64_t>(used) * 16384 + journal_reserve(small.limit_bytes), small.limit_bytes)
        << number;
  }
  stop = true;
  watcher.join();
  EXPECT_LE(most, small.limit_bytes);
  EXPECT_GT(most, small.limit_bytes * 3 / 4);
}

TEST_F(EvictionTest, SmallEntriesToo) {
  StoreOptions small = options();
  small.limit_bytes = 1 << 20;
  Store store(small);
  for (std::uint64_t number = 1; number <= 150; ++number) {
    ASSERT_TRUE(put(store, number, 6'000)) << number;
    ASSERT_LE(size_on_disk(), small.limit_bytes);
  }
  EXPECT_TRUE(hit(store, 150, 6'000));
  EXPECT_TRUE(miss(store, 1));
  EXPECT_GT(store.stats().entries, 30u);
}

TEST_F(EvictionTest, UseKeepsAnEntry) {
  StoreOptions small = options();
  small.limit_bytes = 3 << 20;
  {
    Store store(small);
    for (std::uint64_t number = 1; number <= 10; ++number) ASSERT_TRUE(put(store, number, 150'000));
  }
  let_a_day_pass();
  Store store(small);
  const std::vector<Key> used = {make_key(1), make_key(3)};
  store.touch(used);
  for (std::uint64_t number = 11; number <= 22; ++number) ASSERT_TRUE(put(store, number, 150'000));
  EXPECT_TRUE(hit(store, 1, 150'000));
  EXPECT_TRUE(miss(store, 2));
  EXPECT_TRUE(hit(store, 3, 150'000));
  EXPECT_TRUE(miss(store, 4));
}

TEST_F(EvictionTest, UseIsWrittenAtMostDaily) {
  Store store(options());
  ASSERT_TRUE(put(store, 1));
  const Key key = make_key(1);
  const auto tick = [&] { return sql(file(), R"(SELECT tick FROM uses)"); };
  const auto changes = [&] { return read_file(file()).substr(24, 4); };
  const std::int64_t first = tick();
  const std::string counter = changes();
  for (int i = 0; i < 5; ++i) store.touch({&key, 1});
  EXPECT_EQ(tick(), first) << "putting counts as the day's use";
  EXPECT_EQ(changes(), counter) << "nothing was written at all";
  let_a_day_pass();
  Store next_day(options());
  for (int i = 0; i < 5; ++i) next_day.touch({&key, 1});
  EXPECT_EQ(tick(), first + 1);
  const Key unknown = make_key(99);
  next_day.touch({&unknown, 1});
  next_day.touch({});
  EXPECT_EQ(sql(file(), R"(SELECT count(*) FROM uses)"), 1);
}

TEST_F(EvictionTest, AClockSetBackOnlyMarksAgain) {
  Store store(options());
  for (std::uint64_t number = 1; number <= 3; ++number) ASSERT_TRUE(put(store, number));
  // As if written in the year 2255 or before 1970.
  for (const char* when : {R"(UPDATE uses SET day = 104000)", R"(UPDATE uses SET day = -5)"}) {
    sql(file(), when);
    Store now(options());
    const Key key = make_key(1);
    now.touch({&key, 1});
    EXPECT_TRUE(hit(now, 1));
    const std::vector<Listed> rows = now.list(nullptr);
    ASSERT_EQ(rows.size(), 3u);
    for (const Listed& row : rows) EXPECT_LE(row.last_use, rows[0].key == key ? rows[0].last_use : 1000u);
    EXPECT_EQ(sql(file(), R"(SELECT id FROM uses ORDER BY tick DESC LIMIT 1)"), 1);
  }
}

TEST_F(EvictionTest, AnEntryLargerThanTheLimitIsNotStored) {
  StoreOptions small = options();
  small.limit_bytes = 1 << 20;
  Store store(small);
  ASSERT_TRUE(put(store, 1));
  EXPECT_FALSE(put(store, 2, 2 << 20));
  EXPECT_TRUE(hit(store, 1)) << "nothing was evicted for it";
  EXPECT_TRUE(told("does not fit the limit"));
  std::string why_not;
  EXPECT_EQ(store.put(make_key(2), make_entry(2, 2 << 20), &why_not), Put::not_stored);
  EXPECT_NE(why_not.find("does not fit the limit"), std::string::npos) << why_not;
  StoreOptions none = options();
  none.folder = root_ + "/none";
  none.limit_bytes = 1;
  Store tiny(none);
  EXPECT_FALSE(put(tiny, 1));
}

TEST_F(EvictionTest, NothingIsEvictedForARowThatIsTooLong) {
  StoreOptions large = options();
  large.limit_bytes = std::uint64_t{1} << 32;
  Store store(large);
  ASSERT_TRUE(put(store, 1));
  Entry huge;
  huge.image.resize(std::size_t{300} << 20);
  EXPECT_EQ(store.put(make_key(2), huge), Put::not_stored);
  EXPECT_TRUE(hit(store, 1));
  EXPECT_EQ(store.stats().state, State::ready);
}

TEST_F(EvictionTest, NothingIsEvictedForWhatDoesNotFitInTheEnd) {
  StoreOptions small = options();
  small.limit_bytes = 1 << 20;
  Store store(small);
  for (std::size_t size = 100'000; size < small.limit_bytes; size += 20'000) {
    ASSERT_TRUE(put(store, 1));
    if (!put(store, 2, size)) {
      EXPECT_TRUE(hit(store, 1)) << size;
    } else {
      EXPECT_TRUE(hit(store, 2, size)) << size;
    }
  }
}

TEST_F(EvictionTest, AFileLongerThanANewLimitShrinksInSteps) {
  {
    Store store(options());
    for (std::uint64_t number = 1; number <= 40; ++number) ASSERT_TRUE(put(store, number, 150'000));
  }
  ASSERT_GT(size_on_disk(), 5u << 20);
  StoreOptions small = options();
  small.limit_bytes = 3 << 20;
  Store store(small);
  for (std::uint64_t number = 41; number <= 50; ++number) ASSERT_TRUE(put(store, number, 150'000));
  EXPECT_LE(size_on_disk(), small.limit_bytes);
  EXPECT_TRUE(hit(store, 50, 150'000));
}

TEST_F(EvictionTest, AnImageInUseMayGo) {
  StoreOptions small = options();
  small.limit_bytes = 1 << 20;
  Store store(small);
  ASSERT_TRUE(put(store, 1, 200'000));
  Entry held;
  ASSERT_TRUE(store.get(make_key(1), make_entry(1).text, "", &held));
  for (std::uint64_t number = 2; number <= 12; ++number) ASSERT_TRUE(put(store, number, 200'000));
  EXPECT_TRUE(miss(store, 1));
  EXPECT_TRUE(same(held, make_entry(1, 200'000))) << "what was handed out is a copy";
}

}  // namespace
}  // namespace quern::cache::testing
