// Trim: mending a damaged file, and making a file smaller.
// SPDX-License-Identifier: Apache-2.0

#include "tests/cache/fixture.h"
#include "tests/cache/sql.h"

namespace quern::cache::testing {
namespace {

class RebuildTest : public CacheTest {
 protected:
  void fill(std::uint64_t count, std::size_t image_size) {
    Store store(options());
    for (std::uint64_t number = 1; number <= count; ++number) ASSERT_TRUE(put(store, number, image_size));
  }
  static TrimOptions rebuild() {
    TrimOptions options;
    options.rebuild = true;
    return options;
  }
  static std::uint64_t hits(Store& store, std::uint64_t count, std::size_t image_size) {
    std::uint64_t found = 0;
    for (std::uint64_t number = 1; number <= count; ++number) found += hit(store, number, image_size);
    return found;
  }
};

TEST_F(RebuildTest, KeepsWhatVerifies) {
  fill(10, 20'000);
  sql(file(), R"(UPDATE images SET image = zeroblob(20000) WHERE id IN (3, 4))");
  Store store(options());
  TrimResult result;
  const AdminError error = store.trim(rebuild(), &result);
  ASSERT_EQ(error.what, AdminError::What::none) << error.text;
  EXPECT_EQ(result.kept, 8u);
  EXPECT_EQ(result.removed, 2u);
  EXPECT_EQ(hits(store, 10, 20'000), 8u);
  AdminError verified;
  store.verify(&verified);
  EXPECT_EQ(verified.what, AdminError::What::none);
}

TEST_F(RebuildTest, MendsAFileCutShort) {
  fill(20, 20'000);
  std::filesystem::resize_file(file(), std::filesystem::file_size(file()) / 2 + 123);
  Store store(options());
  TrimResult result;
  const AdminError error = store.trim(rebuild(), &result);
  ASSERT_EQ(error.what, AdminError::What::none) << error.text;
  EXPECT_EQ(store.stats().state, State::ready);
  EXPECT_GE(result.kept, 5u) << "half of the file was whole";
  EXPECT_LT(result.kept, 20u);
  EXPECT_EQ(result.kept, hits(store, 20, 20'000));
  EXPECT_TRUE(put(store, 30));
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/cache-1.damaged.db")) << "something of it was lost";
}

// Rows are read through no other tree than those that hold them.
TEST_F(RebuildTest, DamageToTheOrderOfUseCostsNoEntry) {
  fill(10, 20'000);
  const auto root = static_cast<std::size_t>(sql(file(), R"(SELECT rootpage FROM sqlite_schema WHERE name = 'uses')"));
  std::string bad = read_file(file());
  bad.replace((root - 1) * 16384, 16384, make_bytes(1, 16384));
  write_file(file(), bad);
  {
    Store store(options());
    EXPECT_EQ(hits(store, 10, 20'000), 10u);
    TrimResult result;
    const AdminError error = store.trim(rebuild(), &result);
    ASSERT_EQ(error.what, AdminError::What::none) << error.text;
    EXPECT_EQ(result.kept, 10u);
    EXPECT_EQ(hits(store, 10, 20'000), 10u);
  }
  // And by itself, when something is to be stored.
  write_file(file(), bad);
  Store store(options());
  EXPECT_TRUE(put(store, 11));
  EXPECT_EQ(hits(store, 10, 20'000), 10u);
}

TEST_F(RebuildTest, MendsADamagedHeader) {
  fill(5, 20'000);
  std::string bytes = read_file(file());
  for (const std::size_t at : {0, 1, 15, 16, 18, 19, 20, 21, 28, 31}) {
    std::string bad = bytes;
    bad[at] = static_cast<char>(bad[at] ^ 2);
    write_file(file(), bad);
    Store store(options());
    const AdminError error = store.trim(rebuild(), nullptr);
    ASSERT_EQ(error.what, AdminError::What::none) << at << ": " << error.text;
    EXPECT_EQ(hits(store, 5, 20'000), 5u) << at;
  }
}

TEST_F(RebuildTest, NoiseInAnyPageCostsOnlyWhatWasThere) {
  fill(12, 20'000);
  const std::string good = read_file(file());
  std::uint64_t kept = 0, trials = 0;
  for (std::size_t page = 1; page * 16384 < good.size(); page += 2) {
    std::string bad = good;
    bad.replace(page * 16384, 16384, make_bytes(page, 16384));
    write_file(file(), bad);
    Store store(options());
    TrimResult result;
    const AdminError error = store.trim(rebuild(), &result);
    ASSERT_EQ(error.what, AdminError::What::none) << page << ": " << error.text;
    ASSERT_EQ(hits(store, 12, 20'000), result.kept) << page;
    AdminError verified;
    store.verify(&verified);
    ASSERT_EQ(verified.what, AdminError::What::none) << page << ": " << verified.text;
    kept += result.kept;
    ++trials;
  }
  EXPECT_GT(kept, trials * 12 / 2);
}

TEST_F(RebuildTest, OthersNoticeTheNewFile) {
  fill(5, 20'000);
  Store other(options());
  ASSERT_TRUE(hit(other, 1, 20'000));
  std::filesystem::resize_file(file(), 50'000);
  Store third(options());
  EXPECT_TRUE(miss(third, 1));
  {
    Store store(options());
    ASSERT_EQ(store.trim(rebuild(), nullptr).what, AdminError::What::none);
    ASSERT_TRUE(put(store, 9));
  }
  EXPECT_TRUE(hit(other, 9));
  EXPECT_TRUE(hit(third, 9));
  EXPECT_EQ(third.stats().state, State::ready);
}

TEST_F(RebuildTest, EveryChangeOfStateIsTold) {
  fill(5, 20'000);
  const std::string good = read_file(file());
  Store store(options());
  for (int round = 0; round < 3; ++round) {
    write_file(root_ + "/short", good.substr(0, 50'000));
    std::filesystem::permissions(root_ + "/short",
                                 std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    std::filesystem::rename(root_ + "/short", file());
    hit(store, 1, 20'000);
    EXPECT_TRUE(put(store, 9));
  }
  EXPECT_EQ(notices().size(), 3u);
}

TEST_F(RebuildTest, AJournalOfTheOldFileIsNotPlayedIntoTheNew) {
  fill(5, 20'000);
  write_file(file() + "-journal", make_bytes(1, 40'000));
  Store store(options());
  ASSERT_EQ(store.trim(rebuild(), nullptr).what, AdminError::What::none);
  EXPECT_FALSE(std::filesystem::exists(file() + "-journal"));
  EXPECT_EQ(hits(store, 5, 20'000), 5u);
}

// A file whose first page is noise but for the name in its header, beside a journal whose header is noise: SQLite can
// play nothing back, and both are replaced.
TEST_F(RebuildTest, AFileAndAJournalBeyondReadingAreReplaced) {
  fill(5, 20'000);
  leave_hot_journal(file());
  std::string bad = read_file(file());
  const std::string name = bad.substr(68, 4);
  bad.replace(0, 16384, make_bytes(3, 16384)).replace(68, 4, name);
  write_file(file(), bad);
  std::string journal = read_file(file() + "-journal");
  ASSERT_GT(journal.size(), 20'000u);
  journal.replace(0, 8, make_bytes(4, 8));
  write_file(file() + "-journal", journal);
  Store store(options());
  EXPECT_TRUE(put(store, 9));
  EXPECT_TRUE(hit(store, 9));
  Store again(options());
  EXPECT_TRUE(hit(again, 9));
  AdminError error;
  again.verify(&error);
  EXPECT_EQ(error.what, AdminError::What::none) << error.text;
}

TEST_F(RebuildTest, KeepsTheOrderOfUse) {
  fill(4, 20'000);
  const auto ticks = [&] {
    return sql(file(),
               R"(SELECT group_concat(tick, '') FROM (SELECT tick FROM uses JOIN entries USING (id) ORDER BY text))");
  };
  const std::int64_t before = ticks();
  Store store(options());
  ASSERT_EQ(store.trim(rebuild(), nullptr).what, AdminError::What::none);
  EXPECT_EQ(ticks(), before);
}

TEST_F(RebuildTest, TrimToALimitRemovesTheLeastRecentlyUsed) {
  fill(20, 100'000);
  Store store(options());
  TrimOptions to_half;
  to_half.limit_bytes = 1'200'000;
  TrimResult result;
  ASSERT_EQ(store.trim(to_half, &result).what, AdminError::What::none);
  EXPECT_EQ(result.kept + result.removed, 20u);
  EXPECT_GE(result.kept, 8u);
  EXPECT_LE(result.bytes_after, 1'200'000u);
  EXPECT_GT(result.bytes_before, 2'000'000u);
  EXPECT_EQ(result.bytes_after, std::filesystem::file_size(file()));
  for (std::uint64_t number = 1; number <= 20; ++number)
    EXPECT_EQ(hit(store, number, 100'000), number > result.removed) << number;
}

TEST_F(RebuildTest, TrimAllRemovesEverything) {
  fill(5, 100'000);
  Store store(options());
  TrimOptions all;
  all.all = true;
  TrimResult result;
  ASSERT_EQ(store.trim(all, &result).what, AdminError::What::none);
  EXPECT_EQ(result.removed, 5u);
  EXPECT_EQ(result.kept, 0u);
  EXPECT_LE(result.bytes_after, 10u * 16384);
  EXPECT_TRUE(miss(store, 1));
  EXPECT_TRUE(put(store, 1));
}

TEST_F(RebuildTest, TrimWithoutAFileHasNothingToDo) {
  Store store(options());
  TrimResult result;
  EXPECT_EQ(store.trim({}, &result).what, AdminError::What::none);
  EXPECT_EQ(result.bytes_before + result.bytes_after + result.kept + result.removed, 0u);
  EXPECT_FALSE(std::filesystem::exists(folder_));
}

}  // namespace
}  // namespace quern::cache::testing
