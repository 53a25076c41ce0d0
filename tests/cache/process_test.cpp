// Many processes on one file, some of them dying.
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <random>
#include <thread>

#include "cache/file_lock.h"
#include "tests/cache/fixture.h"
#include "tests/cache/sql.h"

namespace quern::cache::testing {
namespace {

class ProcessTest : public CacheTest {
 protected:
  void expect_sound(const std::string& folder) {
    StoreOptions given = options();
    given.folder = folder;
    Store store(given);
    AdminError error;
    std::string text;
    for (const Finding& finding : store.verify(&error))
      if (!finding.ok) text += finding.what + ": " + finding.text + "\n";
    EXPECT_EQ(error.what, AdminError::What::none) << text;
    EXPECT_EQ(store.stats().state, State::ready);
  }
};
// On a disk, where syncing takes its time and a killed writer is caught in the midst of it.
class DiskTest : public ProcessTest {
 protected:
  bool on_disk() const override { return true; }
};

TEST_F(ProcessTest, SixteenPutAndGetAtOnce) {
  std::vector<pid_t> children;
  for (std::uint64_t child = 0; child < 16; ++child)
    children.push_back(start_child([&, child] {
      Store store(options());
      for (std::uint64_t i = 0; i < 10; ++i) {
        if (!put_at_last(store, 1000 + child * 10 + i)) return 1;
        if (!put_at_last(store, i)) return 2;  // and all the same ones
        if (!hit_at_last(store, i) || !hit_at_last(store, 1000 + child * 10 + i)) return 3;
      }
      return 0;
    }));
  for (const pid_t child : children) EXPECT_EQ(wait_child(child), 0);
  Store store(options());
  EXPECT_EQ(store.stats().entries, 170u);
  expect_sound(folder_);
}

TEST_F(DiskTest, KilledAtAnyMomentWhilePutting) {
  StoreOptions small = options();
  small.limit_bytes = 2 << 20;  // so that eviction is among what is interrupted
  std::minstd_rand random(20240607);
  for (int round = 0; round < 24; ++round) {
    const pid_t child = start_child([&] {
      Store store(small);
      for (std::uint64_t i = 0;; ++i)
        put(store, static_cast<std::uint64_t>(round) * 7 + i % 50, 20'000 + 1'000 * (i % 40));
      return 0;
    });
    usleep(static_cast<useconds_t>(1'000 + random() % 40'000));
    kill(child, SIGKILL);
    EXPECT_EQ(wait_child(child), 1000 + SIGKILL);
    Store store(small);
    ASSERT_TRUE(put(store, 5000)) << round;
    ASSERT_TRUE(hit(store, 5000)) << round;
    if (round % 8 == 7) expect_sound(folder_);
  }
  expect_sound(folder_);
}

TEST_F(DiskTest, AWriterThatDiedIsRolledBackByTheNextReader) {
  Store store(options());
  ASSERT_TRUE(put(store, 1));
  // A transaction larger than the page cache spills into the file; the process ends before it is committed.
  EXPECT_EQ(in_child([&] {
              sqlite3* handle = nullptr;
              if (sqlite3_open(file().c_str(), &handle) != SQLITE_OK) return 1;
              const char* statements = R"(
                PRAGMA cache_size = 5; BEGIN IMMEDIATE; UPDATE images SET image = zeroblob(5000);
                UPDATE entries SET op = 'half'; INSERT INTO images VALUES (50, '', zeroblob(2000000));)";
              if (sqlite3_exec(handle, statements, nullptr, nullptr, nullptr) != SQLITE_OK) return 2;
              return 0;
            }),
            0);
  ASSERT_GT(std::filesystem::file_size(file() + "-journal"), 0u);
  EXPECT_TRUE(hit(store, 1));
  EXPECT_EQ(std::filesystem::file_size(file() + "-journal"), 0u);
  expect_sound(folder_);
}

TEST_F(ProcessTest, BusyPastTheTimeoutIsAMiss) {
  StoreOptions impatient = options();
  impatient.busy_timeout = std::chrono::milliseconds{40};
  Store store(impatient);
  ASSERT_TRUE(put(store, 1));
  Sidecar other;
  ASSERT_EQ(other.acquire(folder_ + "/cache-1.lock", true, true, 0600, {}), Locked::held);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(miss(store, 1));
  EXPECT_FALSE(put(store, 2));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds{5});
  EXPECT_TRUE(told("in use by other processes"));
  std::string why_not;
  EXPECT_EQ(store.put(make_key(2), make_entry(2), &why_not), Put::busy) << "it may be tried again";
  EXPECT_NE(why_not.find("in use"), std::string::npos) << why_not;
  AdminError error;
  store.list(&error);
  EXPECT_EQ(error.what, AdminError::What::io);
  EXPECT_EQ(store.stats().state, State::ready) << "busy is not a state";
  std::thread waiting([&] { EXPECT_EQ(store.put_patiently(make_key(3), make_entry(3)), Put::stored); });
  std::this_thread::sleep_for(std::chrono::milliseconds{200});  // five times its timeout
  other.release();
  waiting.join();
  EXPECT_TRUE(hit(store, 3));
  EXPECT_TRUE(hit(store, 1));
  ASSERT_EQ(other.acquire(folder_ + "/cache-1.lock", false, true, 0600, {}), Locked::held);
  EXPECT_TRUE(hit(store, 1)) << "readers share";
  EXPECT_FALSE(put(store, 2));
}

TEST_F(ProcessTest, AnotherProgramInTheFileIsWaitedForAndSurvived) {
  StoreOptions impatient = options();
  Store store(impatient);
  ASSERT_TRUE(put(store, 1));
  sqlite3* stranger = nullptr;
  ASSERT_EQ(sqlite3_open(file().c_str(), &stranger), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(stranger, "BEGIN EXCLUSIVE", nullptr, nullptr, nullptr), SQLITE_OK);
  EXPECT_TRUE(miss(store, 1));
  EXPECT_FALSE(put(store, 2));
  EXPECT_EQ(store.stats().state, State::ready);
  sqlite3_close(stranger);
  EXPECT_TRUE(hit(store, 1));
  EXPECT_TRUE(put(store, 2));
}

TEST_F(ProcessTest, TheFileRemovedWhileOpen) {
  Store store(options());
  ASSERT_TRUE(put(store, 1));
  ASSERT_TRUE(hit(store, 1));
  std::filesystem::remove(file());
  EXPECT_TRUE(miss(store, 1));
  EXPECT_TRUE(put(store, 2));
  EXPECT_TRUE(std::filesystem::exists(file()));
  EXPECT_TRUE(hit(store, 2));
  std::filesystem::remove_all(folder_);
  EXPECT_TRUE(miss(store, 2));
  EXPECT_TRUE(put(store, 3));
  EXPECT_TRUE(hit(store, 3));
  std::filesystem::rename(folder_, folder_ + "-moved");
  EXPECT_TRUE(miss(store, 3));
  EXPECT_TRUE(put(store, 4));
  Store other(options());
  EXPECT_TRUE(hit(other, 4));
  EXPECT_TRUE(miss(other, 3));
}

// The journal is one that SQLite would play back: a process died while it wrote, and somebody removed the file alone.
TEST_F(ProcessTest, AJournalWithoutItsFileIsNotPlayedBack) {
  Store store(options());
  for (std::uint64_t number = 1; number <= 3; ++number) ASSERT_TRUE(put(store, number, 30'000));
  leave_hot_journal(file());
  ASSERT_GT(std::filesystem::file_size(file() + "-journal"), 20'000u);
  std::filesystem::remove(file());
  ASSERT_TRUE(put(store, 4));
  EXPECT_TRUE(hit(store, 4));
  EXPECT_EQ(std::filesystem::file_size(file() + "-journal"), 0u);
  Store again(options());
  EXPECT_TRUE(hit(again, 4));
  for (std::uint64_t number = 1; number <= 3; ++number) EXPECT_TRUE(miss(again, number)) << number;
  expect_sound(folder_);
}

TEST_F(ProcessTest, ADiskThatIsFull) {
  {
    Store store(options());
    ASSERT_TRUE(put(store, 1));
  }
  const auto size = std::filesystem::file_size(file());
  EXPECT_EQ(in_child([&] {
              signal(SIGXFSZ, SIG_IGN);
              const rlimit limit{size + 40'000, size + 40'000};
              if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
              Store store(options());
              if (!hit(store, 1)) return 2;
              if (put(store, 2, 500'000)) return 3;
              if (!hit(store, 1)) return 4;
              if (!put(store, 3, 100)) return 5;
              if (!hit(store, 3, 100)) return 6;
              if (store.stats().state != State::ready) return 7;
              if (!told("cannot be written")) return 8;
              if (store.export_bundle(root_ + "/b", nullptr, nullptr).what != AdminError::What::none) return 9;
              return 0;
            }),
            0);
  expect_sound(folder_);
  // Not a byte to spare: not even the lock file can be made with something in it, nor the database.
  EXPECT_EQ(in_child([&] {
              signal(SIGXFSZ, SIG_IGN);
              const rlimit limit{0, 0};
              if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
              StoreOptions fresh = options();
              fresh.folder = root_ + "/fresh";
              Store store(fresh);
              if (put(store, 1) || !miss(store, 1)) return 2;
              if (store.trim({}, nullptr).what == AdminError::What::damaged) return 3;
              return store.export_bundle(root_ + "/b2", nullptr, nullptr).what == AdminError::What::io ? 0 : 4;
            }),
            0);
  StoreOptions fresh = options();
  fresh.folder = root_ + "/fresh";
  Store store(fresh);
  EXPECT_TRUE(put(store, 1));
  EXPECT_TRUE(hit(store, 1));
}

TEST_F(ProcessTest, NoDescriptorsLeft) {
  {
    Store store(options());
    ASSERT_TRUE(put(store, 1));
  }
  EXPECT_EQ(in_child([&] {
              Store store(options());
              const rlimit none{0, 0};
              if (setrlimit(RLIMIT_NOFILE, &none) != 0) return 1;
              if (!miss(store, 1)) return 2;
              if (put(store, 2)) return 3;
              if (store.flight(make_key(1), std::chrono::milliseconds{0}).state() != Flight::State::alone) return 4;
              return 0;
            }),
            0);
}

TEST_F(ProcessTest, DescriptorsAreNotInheritedByOtherPrograms) {
  Store store(options());
  ASSERT_TRUE(put(store, 1));
  const Flight flight = store.flight(make_key(1), std::chrono::milliseconds{0});
  std::size_t ours = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const auto target = std::filesystem::read_symlink(entry.path(), gone);
    if (gone || target.string().find("cache-1.") == std::string::npos) continue;
    EXPECT_NE(fcntl(std::stoi(entry.path().filename()), F_GETFD) & FD_CLOEXEC, 0) << target;
    ++ours;
  }
  EXPECT_GE(ours, 3u);
}

}  // namespace
}  // namespace quern::cache::testing
