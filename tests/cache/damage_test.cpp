// Damage to the file, anywhere: never a wrong byte handed out, never a failure, at worst no cache.
// SPDX-License-Identifier: Apache-2.0
#include <sqlite3.h>

#include "tests/cache/fixture.h"
#include "tests/cache/sql.h"

namespace quern::cache::testing {
namespace {

class DamageTest : public CacheTest {
 protected:
  void fill(std::uint64_t count, std::size_t image_size = 5000) {
    Store store(options());
    for (std::uint64_t number = 1; number <= count; ++number) ASSERT_TRUE(put(store, number, image_size));
  }
};

TEST_F(DamageTest, AChangeInAnyColumnIsAMissOfThatRowOnly) {
  // Each statement changes one column of the row with `id` 1 to something the column may hold.
  const char* const kChanges[] = {
      R"(UPDATE entries SET key = x'00000000000000000000000000000001' WHERE id = 1)",
      R"(UPDATE entries SET kind = 2 WHERE id = 1)",
      R"(UPDATE entries SET kind = 3 WHERE id = 1)",
      R"(UPDATE entries SET text = text || ' ' WHERE id = 1)",
      R"(UPDATE entries SET op = 'attentioo' WHERE id = 1)",
      R"(UPDATE entries SET target = 'sm_90' WHERE id = 1)",
      R"(UPDATE entries SET entry_name = 'quern_attentioo' WHERE id = 1)",
      R"(UPDATE entries SET compiler_kind = 'nvrtd' WHERE id = 1)",
      R"(UPDATE entries SET compiler_build = '13.1' WHERE id = 1)",
      R"(UPDATE entries SET compile_ms = compile_ms + 1 WHERE id = 1)",
      R"(UPDATE entries SET registers = 65 WHERE id = 1)",
      R"(UPDATE entries SET registers = registers + (1 << 40) WHERE id = 1)",
      R"(UPDATE entries SET shared_bytes = 1025 WHERE id = 1)",
      R"(UPDATE entries SET local_bytes = 1 WHERE id = 1)",
      R"(UPDATE entries SET created = created + 1 WHERE id = 1)",
      R"(UPDATE entries SET image_size = image_size + 1 WHERE id = 1)",
      R"(UPDATE entries SET checksum = zeroblob(16) WHERE id = 1)",
      R"(UPDATE entries SET checksum = x'' WHERE id = 1)",
      R"(UPDATE images SET log = 'b' || substr(log, 2) WHERE id = 1)",
      R"(UPDATE images SET image = substr(image, 1, 4999) WHERE id = 1)",
      R"(UPDATE images SET image = CAST(image || x'00' AS BLOB) WHERE id = 1)",
      R"(UPDATE images SET image = zeroblob(5000) WHERE id = 1)",
      R"(UPDATE images SET image = (SELECT image FROM images WHERE id = 2) WHERE id = 1)",
      R"(DELETE FROM images WHERE id = 1)",
      R"(UPDATE entries SET op = 'attention' || 's', target = 'm_90a' WHERE id = 1)",
  };
  fill(2);
  const std::string good = read_file(file());
  for (const char* change : kChanges) {
    write_file(file(), good);
    sql(file(), change);
    {
      Store store(options());
      EXPECT_TRUE(miss(store, 1)) << change;
      EXPECT_TRUE(hit(store, 2)) << change;
      EXPECT_EQ(store.stats().state, State::ready) << change;
      AdminError error;
      std::size_t bad = 0;
      for (const Finding& finding : store.verify(&error)) bad += !finding.ok;
      EXPECT_EQ(bad, 1u) << change;
      EXPECT_EQ(error.what, AdminError::What::damaged) << change;
      EXPECT_TRUE(put(store, 1)) << change;
      EXPECT_TRUE(hit(store, 1)) << change << ": what is made anew takes the place of the damaged row";
    }
  }
}

TEST_F(DamageTest, VerifyNamesTheBadRow) {
  fill(3);
  sql(file(), R"(UPDATE images SET image = zeroblob(5000) WHERE id = 2)");
  Store store(options());
  AdminError error;
  const std::vector<Finding> findings = store.verify(&error);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_FALSE(findings[0].ok);
  EXPECT_EQ(findings[0].what, to_hex(make_key(2)));
  EXPECT_NE(findings[0].hint.find("rebuild"), std::string::npos);
  EXPECT_EQ(store.export_bundle(root_ + "/bundle", nullptr, nullptr).what, AdminError::What::damaged);
  EXPECT_FALSE(std::filesystem::exists(root_ + "/bundle"));
  Listed listed;
  EXPECT_EQ(store.inspect(make_key(2), &listed).what, AdminError::What::damaged);
  EXPECT_EQ(store.inspect(make_key(1), &listed).what, AdminError::What::none);
}

TEST_F(DamageTest, AllIsWellWhereAllIsWell) {
  fill(3);
  Store store(options());
  AdminError error;
  const std::vector<Finding> findings = store.verify(&error);
  EXPECT_EQ(error.what, AdminError::What::none);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_TRUE(findings[0].ok);
}

TEST_F(DamageTest, AFlippedBitAnywhereNeverGivesAWrongEntry) {
  fill(6, 20'000);
  const std::string good = read_file(file());
  std::size_t hits = 0;
  const auto run = [&](std::size_t at, int bit) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ (1 << bit));
    write_file(file(), bad);
    Store store(options());
    for (std::uint64_t number = 1; number <= 6; ++number) {
      Entry got;
      const Entry wanted = make_entry(number, 20'000);
      if (!store.get(make_key(number), wanted.text, "", &got)) continue;
      ASSERT_TRUE(same(got, wanted)) << "byte " << at << " bit " << bit;
      ++hits;
    }
    put(store, 7);
  };
  for (std::size_t at = 0; at < 100; ++at) run(at, static_cast<int>(at % 8));
  for (std::size_t page = 0; page * 16384 < good.size(); ++page)
    for (const std::size_t offset : {0, 1, 3, 5, 7, 8, 9, 12, 300, 8000, 16000, 16300, 16350, 16383})
      run(page * 16384 + offset, page % 8);
  EXPECT_GT(hits, 100u);
}

TEST_F(DamageTest, WhoeverFindsAFileCutShortMendsItAndKeepsTheOldOne) {
  fill(20, 20'000);
  const std::string good = read_file(file());
  for (const std::size_t size :
       {std::size_t{50}, std::size_t{4096}, std::size_t{16384}, good.size() / 2, good.size() - 16384}) {
    write_file(file(), good.substr(0, size));
    Store store(options());
    const std::uint64_t kept = static_cast<std::uint64_t>(hit(store, 1, 20'000)) + hit(store, 3, 20'000);
    EXPECT_EQ(kept != 0, size >= good.size() / 2) << size;
    EXPECT_TRUE(put(store, 1)) << size;
    EXPECT_TRUE(hit(store, 1)) << size;
    EXPECT_EQ(store.stats().state, State::ready) << size;
    EXPECT_EQ(read_file(folder_ + "/cache-1.damaged.db").size(), size);
    AdminError error;
    store.verify(&error);
    EXPECT_EQ(error.what, AdminError::What::none) << size << ": " << error.text;
  }
  std::size_t told_times = 0;
  for (const std::string& notice : notices()) told_times += notice.find("was damaged") != std::string::npos;
  EXPECT_EQ(told_times, 5u);
}

TEST_F(DamageTest, DamageIsToldOnce) {
  fill(2);
  std::filesystem::resize_file(file(), 20'000);
  Store store(options());
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(miss(store, 1));
    EXPECT_TRUE(put(store, 3));
  }
  EXPECT_EQ(notices().size(), 1u);
}

// What only looks does not mend, and says so.
TEST_F(DamageTest, AdministrationTellsDamageAndLeavesItAlone) {
  fill(2);
  std::filesystem::resize_file(file(), 20'000);
  Store store(options());
  AdminError error;
  EXPECT_FALSE(store.verify(&error).empty());
  EXPECT_EQ(error.what, AdminError::What::damaged);
  EXPECT_EQ(store.trim({}, nullptr).what, AdminError::What::damaged);
  EXPECT_EQ(std::filesystem::file_size(file()), 20'000u);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/cache-1.damaged.db"));
}

// Flights need the folder, whatever the file is: sixteen processes with a file that cannot be mended compile once.
TEST_F(DamageTest, FlightsWorkWhateverTheFileIs) {
  std::filesystem::create_directory(folder_);
  std::filesystem::permissions(folder_, std::filesystem::perms::owner_all);
  write_file(file(), "a diary\n");
  std::filesystem::permissions(file(), std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  Store store(options());
  EXPECT_TRUE(miss(store, 1));
  ASSERT_EQ(store.stats().state, State::refused);
  EXPECT_EQ(store.flight(make_key(1), std::chrono::milliseconds{0}).state(), Flight::State::leader);
}

// Each of the header's words by itself, and every bit of them: the tables say whose file it is.
TEST_F(DamageTest, NoSingleBitOfTheHeaderCostsTheFile) {
  fill(3);
  const std::string good = read_file(file());
  for (std::size_t bit = 0; bit < 800; ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    write_file(file(), bad);
    Store store(options());
    for (std::uint64_t number = 1; number <= 3; ++number) EXPECT_TRUE(hit(store, number)) << "bit " << bit;
    EXPECT_TRUE(put(store, 4)) << "bit " << bit << ": " << store.stats().reason;
    EXPECT_EQ(store.stats().state, State::ready) << "bit " << bit;
  }
}

TEST_F(DamageTest, SixteenProcessesMendOnce) {
  fill(12, 20'000);
  const std::string good = read_file(file());
  std::filesystem::resize_file(file(), good.size() / 2);
  std::vector<pid_t> children;
  for (int i = 0; i < 16; ++i) {
    children.push_back(start_child([&, i] {
      Store store(options());
      const auto number = static_cast<std::uint64_t>(100 + i);
      hit(store, 1, 20'000);
      return put_at_last(store, number) ? 0 : 1;
    }));
  }
  for (const pid_t child : children) EXPECT_EQ(wait_child(child), 0);
  Store store(options());
  for (std::uint64_t number = 100; number < 116; ++number) EXPECT_TRUE(hit(store, number)) << number;
  EXPECT_EQ(std::filesystem::file_size(folder_ + "/cache-1.damaged.db"), good.size() / 2);
}

TEST_F(DamageTest, AnEmptyFileIsFilled) {
  std::filesystem::create_directory(folder_);
  std::filesystem::permissions(folder_, std::filesystem::perms::owner_all);
  write_file(file(), "");
  std::filesystem::permissions(file(), std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  Store store(options());
  EXPECT_TRUE(miss(store, 1));
  EXPECT_TRUE(put(store, 1));
  EXPECT_TRUE(hit(store, 1));
}

TEST_F(DamageTest, AForeignFileIsLeftAlone) {
  std::filesystem::create_directory(folder_);
  std::filesystem::permissions(folder_, std::filesystem::perms::owner_all);
  const auto expect_refused = [&](const char* what) {
    std::filesystem::permissions(file(), std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    const std::string before = read_file(file());
    Store store(options());
    EXPECT_TRUE(miss(store, 1)) << what;
    EXPECT_FALSE(put(store, 1)) << what;
    EXPECT_EQ(store.stats().state, State::refused) << what;
    EXPECT_NE(store.stats().reason.find("not a cache of quern"), std::string::npos) << what;
    TrimOptions rebuild;
    rebuild.rebuild = true;
    EXPECT_EQ(store.trim(rebuild, nullptr).what, AdminError::What::refused) << what;
    EXPECT_EQ(read_file(file()), before) << what;
    AdminError error;
    store.list(&error);
    EXPECT_EQ(error.what, AdminError::What::refused) << what;
  };
  write_file(file(), "a diary\n");
  expect_refused("a text");
  write_file(file(), make_bytes(1, 100'000));
  expect_refused("noise");
  std::filesystem::remove(file());
  sql(file(), R"(CREATE TABLE entries(id INTEGER PRIMARY KEY, key BLOB))");
  expect_refused("another database");
}

TEST_F(DamageTest, AFileOfANewerSchemaIsLeftAlone) {
  fill(1);
  sql(file(), R"(PRAGMA user_version = 2; ALTER TABLE entries ADD COLUMN more TEXT;)");
  Store store(options());
  EXPECT_TRUE(miss(store, 1));
  EXPECT_FALSE(put(store, 2));
  EXPECT_EQ(store.stats().state, State::refused);
  EXPECT_NE(store.stats().reason.find("newer"), std::string::npos);
  sql(file(), R"(ALTER TABLE entries DROP COLUMN more; PRAGMA user_version = 1;)");
  EXPECT_TRUE(hit(store, 1)) << "the file is looked at again";
  EXPECT_EQ(store.stats().state, State::ready);
}

TEST_F(DamageTest, OtherTablesUnderOurNameAreDamage) {
  fill(1);
  sql(file(), R"(ALTER TABLE entries RENAME COLUMN op TO operation)");
  Store store(options());
  EXPECT_TRUE(miss(store, 1));
  EXPECT_TRUE(told("was damaged"));
  EXPECT_TRUE(put(store, 1));
  EXPECT_TRUE(hit(store, 1));
}

TEST_F(DamageTest, AWriteAheadLogIsNotFollowed) {
  fill(1);
  sql(file(), R"(PRAGMA journal_mode = WAL)");
  Store store(options());
  EXPECT_TRUE(hit(store, 1));
  EXPECT_TRUE(told("its header is not whole"));
  EXPECT_EQ(store.stats().state, State::ready);
  EXPECT_FALSE(std::filesystem::exists(file() + "-shm"));
}

TEST_F(DamageTest, ATornJournalNeverGivesAWrongEntry) {
  fill(6, 20'000);
  // A transaction that has spilled into the file, and whose process ended before the commit.
  ASSERT_EQ(in_child([&] {
              sqlite3* handle = nullptr;
              if (sqlite3_open(file().c_str(), &handle) != SQLITE_OK) return 1;
              return sqlite3_exec(handle, R"(
                PRAGMA cache_size = 3; BEGIN IMMEDIATE; UPDATE images SET image = zeroblob(20000);
                UPDATE entries SET text = 'half'; DELETE FROM uses;
                INSERT INTO images VALUES (50, '', zeroblob(900000));)",
                                  nullptr, nullptr, nullptr);
            }),
            0);
  const std::string half = read_file(file()), journal = read_file(file() + "-journal");
  ASSERT_GT(journal.size(), 100'000u);
  std::size_t hits = 0;
  const auto run = [&](const std::string& torn, std::size_t at) {
    write_file(file(), half);
    write_file(file() + "-journal", torn);
    Store store(options());
    for (std::uint64_t number = 1; number <= 6; ++number) {
      Entry got;
      const Entry wanted = make_entry(number, 20'000);
      if (!store.get(make_key(number), wanted.text, "", &got)) continue;
      ASSERT_TRUE(same(got, wanted)) << at;
      ++hits;
    }
    TrimOptions rebuild;
    rebuild.rebuild = true;
    ASSERT_EQ(store.trim(rebuild, nullptr).what, AdminError::What::none) << at;
    ASSERT_TRUE(put(store, 9)) << at;
    AdminError error;
    store.verify(&error);
    ASSERT_EQ(error.what, AdminError::What::none) << at << ": " << error.text;
  };
  run(journal, 0);
  EXPECT_EQ(hits, 6u) << "a whole journal brings everything back";
  for (std::size_t cut = 1; cut <= 12; ++cut) run(journal.substr(0, journal.size() * cut / 13), cut);
  for (std::size_t at : {0, 3, 8, 11, 12, 16, 20, 24, 512, 516, 5000, 16'900, 40'000}) {
    std::string bad = journal;
    bad[at] = static_cast<char>(bad[at] ^ 0x10);
    run(bad, at);
  }
}

TEST_F(DamageTest, AnAbsurdUseTickIsForgotten) {
  fill(3);
  sql(file(), R"(UPDATE uses SET tick = 9223372036854775807 WHERE id = 2)");
  Store store(options());
  EXPECT_TRUE(put(store, 4));
  for (std::uint64_t number = 1; number <= 4; ++number) EXPECT_TRUE(hit(store, number));
}

}  // namespace
}  // namespace quern::cache::testing
