// Every read, write, sync, truncation and opening under SQLite fails once: nothing wrong is ever handed out, and
// afterwards the file is sound.
// SPDX-License-Identifier: Apache-2.0
#include "tests/cache/fault_vfs.h"
#include "tests/cache/fixture.h"

namespace quern::cache::testing {
namespace {

struct Case {
  const char* name;
  FaultKind kind;
  bool sticky;
};

class FaultTest : public CacheTest, public ::testing::WithParamInterface<Case> {
 protected:
  void TearDown() override {
    fail_call(FaultKind::read, 0, false);
    CacheTest::TearDown();
  }
};

TEST_P(FaultTest, AtEveryCall) {
  StoreOptions small = options();
  small.limit_bytes = 900 << 10;
  fail_call(GetParam().kind, 0, false);
  {
    Store store(small);
    for (std::uint64_t number = 1; number <= 8; ++number) ASSERT_TRUE(put(store, number, 30'000));
  }
  const std::string good = read_file(file());
  int calls = 0;
  for (int n = 1;; ++n) {
    write_file(file(), good);
    std::filesystem::remove(file() + "-journal");
    bool happened;
    {
      Store store(small);
      fail_call(GetParam().kind, n, GetParam().sticky);
      for (std::uint64_t number = 1; number <= 8; number += 3) {
        Entry got;
        ASSERT_TRUE(!store.get(make_key(number), make_entry(number).text, "", &got) ||
                    same(got, make_entry(number, 30'000)))
            << n;
      }
      const bool stored = put(store, 9, 40'000);     // in the room there is
      const bool evicted = put(store, 10, 120'000);  // and in room that has to be made
      const Key key = make_key(5);
      store.touch({&key, 1});
      store.reject(make_key(2), "test");
      happened = fault_happened();
      fail_call(GetParam().kind, 0, false);
      EXPECT_NE(store.stats().state, State::damaged) << n;
      // The fault is over; the same store goes on.
      if (stored && !evicted) {
        EXPECT_TRUE(hit(store, 9, 40'000)) << n;
      }
      if (evicted) {
        EXPECT_TRUE(hit(store, 10, 120'000)) << n;
      }
      EXPECT_TRUE(put(store, 11)) << n;
      EXPECT_TRUE(hit(store, 11)) << n;
      EXPECT_TRUE(miss(store, 2)) << n;
    }
    Store again(small);
    AdminError error;
    again.verify(&error);
    ASSERT_EQ(error.what, AdminError::What::none) << n << ": " << error.text;
    if (!happened) {
      EXPECT_TRUE(again.get(make_key(10), make_entry(10).text, "", std::make_unique<Entry>().get()))
          << "without a fault all of it works";
      break;
    }
    calls = n;
  }
  EXPECT_GE(calls, 1);
  RecordProperty("calls", calls);
}

TEST_P(FaultTest, WhileMakingTheFile) {
  for (int n = 1;; ++n) {
    std::filesystem::remove_all(folder_);
    Store store(options());
    fail_call(GetParam().kind, n, GetParam().sticky);
    put(store, 1);
    const bool happened = fault_happened();
    fail_call(GetParam().kind, 0, false);
    ASSERT_TRUE(put(store, 2)) << n << ": " << store.stats().reason << (notices().empty() ? "" : notices().back());
    ASSERT_TRUE(hit(store, 2)) << n;
    AdminError error;
    store.verify(&error);
    ASSERT_EQ(error.what, AdminError::What::none) << n << ": " << error.text;
    if (!happened) break;
  }
}

TEST_P(FaultTest, WhileRebuilding) {
  fail_call(GetParam().kind, 0, false);
  {
    Store store(options());
    for (std::uint64_t number = 1; number <= 4; ++number) ASSERT_TRUE(put(store, number, 30'000));
  }
  const std::string good = read_file(file());
  TrimOptions rebuild;
  rebuild.rebuild = true;
  for (int n = 1;; ++n) {
    write_file(file(), good);
    Store store(options());
    fail_call(GetParam().kind, n, GetParam().sticky);
    TrimResult result;
    const AdminError error = store.trim(rebuild, &result);
    const bool happened = fault_happened();
    fail_call(GetParam().kind, 0, false);
    std::uint64_t hits = 0;
    for (std::uint64_t number = 1; number <= 4; ++number) hits += hit(store, number, 30'000);
    // Either the new file holds what could be read of the old one, or the old one is still in place.
    if (error.what == AdminError::What::none) {
      ASSERT_EQ(hits, result.kept) << n;
    } else if (GetParam().kind != FaultKind::read) {
      ASSERT_EQ(hits, 4u) << n << ": " << error.text;
    }
    AdminError verified;
    store.verify(&verified);
    ASSERT_EQ(verified.what, AdminError::What::none) << n << ": " << verified.text;
    if (!happened) break;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Calls, FaultTest,
    ::testing::Values(Case{"Read", FaultKind::read, false}, Case{"ReadForGood", FaultKind::read, true},
                      Case{"Write", FaultKind::write, false}, Case{"FullForGood", FaultKind::full, true},
                      Case{"Sync", FaultKind::sync, false}, Case{"SyncForGood", FaultKind::sync, true},
                      Case{"Truncate", FaultKind::truncate, false}, Case{"Open", FaultKind::open, false},
                      Case{"OpenForGood", FaultKind::open, true}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace quern::cache::testing
