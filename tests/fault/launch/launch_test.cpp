// A kernel is launched while faults happen under the cache and memory runs out: what it computes is right or an error,
// and it is compiled once at most.
// SPDX-License-Identifier: Apache-2.0
#include "tests/cache/failing_new.h"
#include "tests/cache/fault_vfs.h"
#include "tests/cache/fixture.h"
#include "tests/cache/sql.h"
#include "tests/fault/launch/launcher.h"

namespace quern::cache::testing {
namespace {

class LaunchTest : public CacheTest {
 protected:
  void SetUp() override {
    CacheTest::SetUp();
    options_.folder = folder_;
  }
  int call(bool may_fail) { return launcher_.launch(options_, may_fail); }
  void TearDown() override {
    fail_call(FaultKind::read, 0, false);
    CacheTest::TearDown();
  }

  StoreOptions options_;
  Launcher launcher_;
};

constexpr FaultKind kKinds[] = {FaultKind::read, FaultKind::write,    FaultKind::full,
                                FaultKind::sync, FaultKind::truncate, FaultKind::open};

// Whatever fails under the file, from the first call on until none is left to fail: the caller has its kernel.
TEST_F(LaunchTest, IsRightWhateverFailsUnderTheFile) {
  fail_call(FaultKind::read, 0, false);
  ASSERT_EQ(call(false), 1);
  ASSERT_EQ(call(false), 0) << "the second process finds what the first has stored";
  const std::string cached = read_file(file());
  int faults = 0;
  for (const FaultKind kind : kKinds) {
    for (const bool sticky : {false, true}) {
      for (const bool is_cached : {true, false}) {
        for (int n = 1;; ++n, ++faults) {
          make_folder({});
          if (is_cached) make_folder({{"cache-1.db", cached}});
          fail_call(kind, n, sticky);
          const int compiled = call(false);
          const bool happened = fault_happened();
          fail_call(FaultKind::read, 0, false);
          // A process after the fault: right, and compiled again only where nothing could be stored.
          ASSERT_LE(compiled + call(false), 2) << n;
          ASSERT_EQ(call(false), 0) << n;
          if (::testing::Test::HasFailure()) FAIL() << "fault " << n << " of kind " << static_cast<int>(kind);
          if (!happened) break;
        }
      }
    }
  }
  std::printf("%d faults, each with three launches\n", faults);
  EXPECT_GT(faults, 100);
}

// Whatever has become of the file: one compilation at most, and none for the next process unless the file is somebody
// else's.
TEST_F(LaunchTest, IsRightWhateverTheFileIs) {
  ASSERT_EQ(call(false), 1);
  const std::string good = read_file(file());
  Key key;
  Entry entry;
  {
    AdminError error;
    Store store(options_);
    const std::vector<Listed> all = store.list(&error);
    ASSERT_EQ(all.size(), 1u);
    key = all[0].key;
    ASSERT_TRUE(store.get(key, all[0].entry.text, "", &entry));
  }
  const auto cut = [&](std::size_t size) { return [&, size] { std::filesystem::resize_file(file(), size); }; };
  const auto done = [&](const char* statements) { return [&, statements] { sql(file(), statements); }; };
  // A row with another image under a checksum that is right.
  const auto replaced = [&](const std::function<void(std::string&)>& change) {
    return [&, change] {
      Entry other = entry;
      change(other.image);
      Store store(options_);
      store.reject(key, "test");
      EXPECT_EQ(store.put(key, other), Put::stored);
    };
  };
  struct Damage {
    const char* name;
    std::function<void()> make;
    int first, second;  // compilations
  };
  const Damage all[] = {
      {"none", [] {}, 0, 0},
      {"removed", [&] { std::filesystem::remove(file()); }, 1, 0},
      {"of no length", cut(0), 1, 0},
      {"cut in its header", cut(50), 1, 0},
      {"cut to a page", cut(16384), 1, 0},
      {"cut to half", cut(good.size() / 2), 1, 0},
      {"zeros", [&] { write_file(file(), std::string(good.size(), '\0')); }, 1, 0},
      {"a diary", [&] { write_file(file(), "a diary\n"); }, 1, 1},
      {"a newer schema", done(R"(PRAGMA user_version = 2; ALTER TABLE entries ADD COLUMN more TEXT)"), 1, 1},
      {"an older schema", done(R"(PRAGMA user_version = 0)"), 0, 0},
      {"other tables", done(R"(ALTER TABLE entries RENAME COLUMN op TO operation)"), 1, 0},
      {"a write-ahead log", done(R"(PRAGMA journal_mode = WAL)"), 0, 0},
      {"an image of zeros", done(R"(UPDATE images SET image = zeroblob(length(image)))"), 1, 0},
      {"an image gone", done(R"(DELETE FROM images)"), 1, 0},
      {"another text", done(R"(UPDATE entries SET text = text || ' ')"), 1, 0},
      {"a foreign journal", [&] { write_file(file() + "-journal", make_bytes(1, 50'000)); }, 0, 0},
      {"another architecture", replaced([](std::string& image) { image[18] = static_cast<char>(image[18] ^ 1); }), 1,
       0},
      {"no program", replaced([](std::string& image) { image = "no program"; }), 1, 0},
      {"an empty image", replaced([](std::string& image) { image.clear(); }), 1, 0},
  };
  for (const Damage& damage : all) {
    make_folder({{"cache-1.db", good}});
    damage.make();
    EXPECT_EQ(call(false), damage.first) << damage.name;
    EXPECT_EQ(call(false), damage.second) << damage.name;
  }
}

// Every allocation of the calling thread from the k-th on fails: an error with the result untouched, or the result; and
// once there is memory again, all is as it was. (A compilation's folder stays where there is no memory to remove it: in
// the test's own, here.)
TEST_F(LaunchTest, IsRightOrAnErrorWhenMemoryRunsOut) {
  const char* const given = std::getenv("TMPDIR");
  const std::string before = given == nullptr ? "" : given;
  ASSERT_EQ(setenv("TMPDIR", root_.c_str(), 1), 0);
  for (const bool is_cached : {true, false}) {
    ASSERT_EQ(call(false), 1);
    long k = 0;
    for (;; ++k) {
      if (!is_cached) std::filesystem::remove_all(folder_);
      failed = false;
      left_until_failure = k;
      call(true);
      left_until_failure = -1;
      if (::testing::Test::HasFailure()) FAIL() << "allocation " << k;
      if (!failed) break;
      if (k % 16 == 0) {
        ASSERT_LE(call(false), is_cached ? 0 : 1) << k;
        ASSERT_EQ(call(false), 0) << k;
      }
    }
    std::printf("%ld allocations\n", k);
    EXPECT_GT(k, is_cached ? 20 : 100);
    std::filesystem::remove_all(folder_);
  }
  given == nullptr ? unsetenv("TMPDIR") : setenv("TMPDIR", before.c_str(), 1);
}

}  // namespace
}  // namespace quern::cache::testing
