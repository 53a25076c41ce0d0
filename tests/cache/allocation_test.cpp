// Memory runs out at any allocation: a miss, or "not stored", and nothing worse.
// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <new>

#include "tests/cache/failing_new.h"
#include "tests/cache/fixture.h"

namespace quern::cache::testing {
namespace {

class AllocationTest : public CacheTest {
 protected:
  // Runs `work` again and again, with every allocation from the n-th on failing, until one run needs no more than there
  // are.
  template <typename Prepare, typename Work>
  void starve(Prepare&& prepare, Work&& work) {
    for (long n = 0;; ++n) {
      prepare();
      failed = false;
      left_until_failure = n;
      work();
      left_until_failure = -1;
      if (!failed) {
        EXPECT_GT(n, 0);
        return;
      }
    }
  }
};

TEST_F(AllocationTest, InEveryCallOfTheEngine) {
  StoreOptions quiet;
  quiet.folder = folder_;
  {
    Store store(quiet);
    ASSERT_TRUE(put(store, 1));
    ASSERT_EQ(store.export_bundle(root_ + "/bundle", nullptr, nullptr).what, AdminError::What::none);
  }
  const Entry wanted = make_entry(1), other = make_entry(2);
  quiet.bundles = {root_ + "/bundle"};
  std::unique_ptr<Store> store;
  const auto fresh = [&] { store = std::make_unique<Store>(quiet); };

  Entry got;
  bool found = false, ever_missed = false;
  starve(fresh, [&] {
    found = store->get(make_key(1), wanted.text, "", &got);
    ever_missed |= !found;
  });
  EXPECT_TRUE(found);
  EXPECT_TRUE(ever_missed);
  EXPECT_TRUE(same(got, wanted));

  Put stored = Put::not_stored;
  starve(fresh, [&] { stored = store->put(make_key(2), other); });
  EXPECT_EQ(stored, Put::stored);
  starve(fresh, [&] { store->reject(make_key(9), "a reason that is too long for the short-string buffer"); });
  const Key key = make_key(1);
  starve(fresh, [&] { store->touch({&key, 1}); });
  Flight::State state = Flight::State::alone;
  starve(fresh, [&] { state = store->flight(key, std::chrono::milliseconds{0}).state(); });
  EXPECT_EQ(state, Flight::State::leader);

  Store after(quiet);
  EXPECT_EQ(after.stats().state, State::ready);
  AdminError error;
  after.verify(&error);
  EXPECT_EQ(error.what, AdminError::What::none) << error.text;
}

TEST_F(AllocationTest, WhileAStoreIsMade) {
  StoreOptions given;
  given.folder = folder_ + "/with a name too long for the short-string buffer";
  std::unique_ptr<StoreOptions> copy;
  alignas(Store) unsigned char place[sizeof(Store)];
  bool usable = false;
  starve([&] { copy = std::make_unique<StoreOptions>(given); },
         [&] {
           auto* store = new (place) Store(std::move(*copy));
           const long left = left_until_failure;
           left_until_failure = -1;
           usable = store->put(make_key(1), make_entry(1)) == Put::stored;
           store->stats();
           store->list(nullptr);
           EXPECT_EQ(store->trim({}, nullptr).what == AdminError::What::none, usable);
           store->~Store();
           left_until_failure = left;
         });
  EXPECT_TRUE(usable);
}

TEST_F(AllocationTest, AdministrationThrowsBadAllocAndNothingElse) {
  {
    Store store(options());
    ASSERT_TRUE(put(store, 1));
  }
  StoreOptions quiet;
  quiet.folder = folder_;
  std::unique_ptr<Store> store;
  std::uint64_t entries = 0;
  starve([&] { store = std::make_unique<Store>(quiet); },
         [&] {
           try {
             entries = store->list(nullptr).size();
             entries += store->stats().entries;
             store->verify(nullptr);
             store->export_bundle(root_ + "/bundle", nullptr, nullptr);
           } catch (const std::bad_alloc&) {
             failed = true;
           }
         });
  EXPECT_EQ(entries, 2u);
  Store after(quiet);
  EXPECT_TRUE(hit(after, 1));
}

}  // namespace
}  // namespace quern::cache::testing
