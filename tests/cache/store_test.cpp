// What the engine asks of a store when nothing is wrong.
// SPDX-License-Identifier: Apache-2.0
#include "cache/store.h"

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "tests/cache/fixture.h"
#include "tests/cache/sql.h"

namespace quern::cache::testing {
namespace {

class StoreTest : public CacheTest {};

TEST_F(StoreTest, KeysAreWrittenHighFirst) {
  EXPECT_EQ(to_hex({0x0123456789abcdefULL, 0x00000000000000ffULL}), "0123456789abcdef00000000000000ff");
}

TEST_F(StoreTest, GivesBackWhatWasPut) {
  {
    Store store(options());
    EXPECT_TRUE(miss(store, 1));
    EXPECT_FALSE(std::filesystem::exists(folder_)) << "looking made a folder";
    EXPECT_TRUE(put(store, 1));
    EXPECT_TRUE(hit(store, 1));
  }
  Store again(options());
  EXPECT_TRUE(hit(again, 1));
  EXPECT_TRUE(miss(again, 2));
  EXPECT_EQ(again.stats().state, State::ready);
  EXPECT_EQ(again.stats().path, file());
  EXPECT_TRUE(notices().empty());
}

TEST_F(StoreTest, KeepsEveryField) {
  Store store(options());
  Entry entry = make_entry(7, 100'000);
  entry.kind = Kind::tuning;
  entry.text += std::string("with a NUL \0 and \xff bytes", 25);
  entry.log = make_bytes(3, 50'000);
  entry.compile_ms = 0.1;
  entry.registers = -1;
  entry.shared_bytes = 2147483647;
  entry.local_bytes = -2147483648;
  entry.created = 1;
  ASSERT_EQ(store.put(make_key(7), entry), Put::stored);
  Entry got;
  ASSERT_TRUE(store.get(make_key(7), entry.text, "", &got));
  EXPECT_TRUE(same(got, entry));
}

TEST_F(StoreTest, KeepsEmptyFields) {
  Store store(options());
  Entry entry;
  entry.created = 5;
  ASSERT_EQ(store.put(make_key(1), entry), Put::stored);
  Entry got = make_entry(1);
  ASSERT_TRUE(store.get(make_key(1), "", "", &got));
  EXPECT_TRUE(same(got, entry));
}

TEST_F(StoreTest, NotANumberDoesNotCostTheRow) {
  Store store(options());
  Entry entry = make_entry(1);
  entry.compile_ms = std::numeric_limits<double>::quiet_NaN();
  ASSERT_EQ(store.put(make_key(1), entry), Put::stored);
  Entry got;
  EXPECT_TRUE(store.get(make_key(1), entry.text, "", &got));
  entry.compile_ms = -0.0;
  ASSERT_EQ(store.put(make_key(1), entry), Put::stored);
  EXPECT_TRUE(store.get(make_key(1), entry.text, "", &got));
  EXPECT_EQ(store.stats().state, State::ready);
}

TEST_F(StoreTest, AnotherTextIsAMiss) {
  Store store(options());
  ASSERT_TRUE(put(store, 1));
  Entry got;
  EXPECT_FALSE(store.get(make_key(1), make_entry(1).text + " ", "", &got));
  EXPECT_TRUE(got.image.empty());
  EXPECT_FALSE(told(to_hex(make_key(1)))) << "not from inside the call: others may be waiting for its caller";
  store.deliver();
  EXPECT_TRUE(told(to_hex(make_key(1))));
}

TEST_F(StoreTest, APinnedCompilerIsHeld) {
  Store store(options());
  ASSERT_TRUE(put(store, 1));
  Entry got;
  const std::string text = make_entry(1).text;
  EXPECT_TRUE(store.get(make_key(1), text, "nvrtc 13.0", &got));
  for (const char* other : {"nvrtc 13.1", "nvrtc13.0", "nvrtc 13.0 ", "nvrtc 3.0", "n", "hiprtc 13.0"})
    EXPECT_FALSE(store.get(make_key(1), text, other, &got)) << other;
}

TEST_F(StoreTest, PuttingAgainReplaces) {
  Store store(options());
  ASSERT_TRUE(put(store, 1));
  Entry other = make_entry(1, 9000);
  other.compiler_build = "13.1";
  ASSERT_EQ(store.put(make_key(1), other), Put::stored);
  Entry got;
  ASSERT_TRUE(store.get(make_key(1), other.text, "nvrtc 13.1", &got));
  EXPECT_TRUE(same(got, other));
  EXPECT_EQ(store.stats().entries, 1u);
  EXPECT_EQ(store.stats().image_bytes, 9000u);
}

TEST_F(StoreTest, ARejectedImageIsGoneUntilItIsMadeAnew) {
  Store store(options());
  ASSERT_TRUE(put(store, 1));
  store.reject(make_key(1), "wrong arch");
  EXPECT_TRUE(miss(store, 1));
  EXPECT_TRUE(told("wrong arch"));
  EXPECT_EQ(store.stats().entries, 0u);
  Store other(options());
  EXPECT_TRUE(miss(other, 1));
  ASSERT_TRUE(put(other, 1));
  EXPECT_TRUE(miss(store, 1)) << "what others put under a rejected key is not trusted in this store";
  ASSERT_TRUE(put(store, 1));
  EXPECT_TRUE(hit(store, 1));
}

TEST_F(StoreTest, RejectingAndTouchingMakeNoFile) {
  Store store(options());
  const Key key = make_key(1);
  store.reject(key, "wrong arch");
  store.touch({&key, 1});
  EXPECT_FALSE(std::filesystem::exists(folder_));
}

TEST_F(StoreTest, AbsurdPatienceIsSurvived) {
  StoreOptions patient = options();
  patient.busy_timeout = std::chrono::milliseconds::max();
  Store store(patient);
  EXPECT_TRUE(put(store, 1));
  EXPECT_EQ(store.flight(make_key(1), std::chrono::milliseconds::max()).state(), Flight::State::leader);
  EXPECT_EQ(store.flight(make_key(1), std::chrono::milliseconds::min()).state(), Flight::State::leader);
}

TEST_F(StoreTest, FilesArePrivate) {
  const mode_t old = umask(0);
  {
    Store store(options());
    put(store, 1);
    const Flight flight = store.flight(make_key(1), std::chrono::milliseconds{0});
  }
  umask(old);
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    struct stat status;
    ASSERT_EQ(stat(entry.path().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777, 0600u) << entry.path();
    ++files;
  }
  EXPECT_GE(files, 3u);
  struct stat status;
  ASSERT_EQ(stat(folder_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0700u);
}

TEST_F(StoreTest, ThreadsShareAStore) {
  Store store(options());
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < 20; ++i) {
        if (!put(store, t * 100 + i)) ++wrong;
        if (!hit(store, t * 100 + i)) ++wrong;
        const Key key = make_key(t * 100 + i);
        store.touch({&key, 1});
        store.stats();
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(store.stats().entries, 80u);
}

TEST_F(StoreTest, TwoStoresOfOneProcessShareAFile) {
  Store first(options()), second(options());
  ASSERT_TRUE(put(first, 1));
  ASSERT_TRUE(hit(second, 1));
  ASSERT_TRUE(put(second, 2));
  EXPECT_TRUE(hit(first, 2));
}

TEST_F(StoreTest, TheFileIsMadeAsItShallStay) {
  Store store(options());
  ASSERT_TRUE(put(store, 1, 100'000));
  EXPECT_EQ(sql(file(), R"(PRAGMA page_size)"), 16384);
  EXPECT_EQ(sql(file(), R"(PRAGMA auto_vacuum)"), 2) << "incremental";
  EXPECT_EQ(sql(file(), R"(SELECT count(*) FROM pragma_journal_mode WHERE journal_mode = 'wal')"), 0);
  EXPECT_EQ(sql(file(), R"(PRAGMA user_version)"), 1);
  EXPECT_EQ(std::filesystem::file_size(file() + "-journal"), 0u);
}

TEST_F(StoreTest, ListsWithoutImagesSortedByOpTargetText) {
  Store store(options());
  for (std::uint64_t number : {3, 1, 2}) {
    Entry entry = make_entry(number);
    entry.op = number == 2 ? "append" : "merge";
    ASSERT_EQ(store.put(make_key(number), entry), Put::stored);
  }
  AdminError error;
  const std::vector<Listed> rows = store.list(&error);
  EXPECT_EQ(error.what, AdminError::What::none);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].key, make_key(2));
  EXPECT_EQ(rows[1].key, make_key(1));
  EXPECT_EQ(rows[2].key, make_key(3));
  EXPECT_EQ(rows[0].image_size, 5000u);
  EXPECT_TRUE(rows[0].entry.image.empty());
  EXPECT_EQ(rows[0].entry.log, make_entry(2).log);
  EXPECT_GT(rows[0].last_use, rows[1].last_use);
  EXPECT_EQ(rows[0].layer, 0);
}

TEST_F(StoreTest, InspectsOneEntryWithItsImage) {
  Store store(options());
  ASSERT_TRUE(put(store, 1));
  Listed listed;
  ASSERT_EQ(store.inspect(make_key(1), &listed).what, AdminError::What::none);
  EXPECT_TRUE(same(listed.entry, make_entry(1)));
  EXPECT_EQ(listed.image_size, 5000u);
  const AdminError error = store.inspect(make_key(2), &listed);
  EXPECT_EQ(error.what, AdminError::What::not_found);
  EXPECT_NE(error.text.find(to_hex(make_key(2))), std::string::npos);
}

}  // namespace
}  // namespace quern::cache::testing
