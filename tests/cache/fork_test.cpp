// fork(): a child neither uses nor harms what its parent has open, and can open its own.
// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <atomic>
#include <memory>
#include <thread>

#include "cache/signature.h"
#include "tests/cache/fixture.h"
#include "tests/cache/sql.h"

#ifdef __SANITIZE_THREAD__
// A forked child ends without having joined its parent's threads, which it does not have.
extern "C" __attribute__((visibility("default"))) const char* __tsan_default_options() {
  return "report_thread_leaks=0";
}
#endif

namespace quern::cache::testing {
namespace {

class ForkTest : public CacheTest {};

TEST_F(ForkTest, TheChildMissesAndTheParentGoesOn) {
  auto store = std::make_unique<Store>(options());
  ASSERT_TRUE(put(*store, 1));
  ASSERT_TRUE(hit(*store, 1));
  EXPECT_EQ(in_child([&] {
              if (!miss(*store, 1)) return 1;
              if (put(*store, 2)) return 2;
              const Key key = make_key(1);
              store->touch({&key, 1});
              store->reject(key, "test");
              if (store->flight(key, std::chrono::milliseconds{0}).state() != Flight::State::alone) return 3;
              const StoreStats stats = store->stats();
              if (stats.state != State::off || stats.reason.find("fork") == std::string::npos) return 4;
              AdminError error;
              if (!store->list(&error).empty() || error.what != AdminError::What::refused) return 5;
              if (store->trim({}, nullptr).what != AdminError::What::refused) return 6;
              if (store->export_bundle(root_ + "/b", nullptr, nullptr).what != AdminError::What::refused) return 7;
              store.reset();
              return 0;
            }),
            0);
  EXPECT_TRUE(hit(*store, 1));
  EXPECT_TRUE(put(*store, 2));
  EXPECT_TRUE(hit(*store, 2));
}

TEST_F(ForkTest, TheChildOpensItsOwn) {
  Store store(options());
  ASSERT_TRUE(put(store, 1));
  EXPECT_EQ(in_child([&] {
              Store own(options());
              return hit(own, 1) && put(own, 2) && hit(own, 2) ? 0 : 1;
            }),
            0);
  EXPECT_TRUE(hit(store, 2));
  EXPECT_EQ(store.stats().entries, 2u);
}

TEST_F(ForkTest, ForkingInTheMiddleOfEverything) {
  Store store(options());
  ASSERT_TRUE(put(store, 1));
  std::atomic<bool> stop{false};
  std::vector<std::thread> busy;
  for (std::uint64_t t = 0; t < 2; ++t)
    busy.emplace_back([&, t] {
      for (std::uint64_t i = 0; !stop; ++i) {
        put(store, 100 * (t + 1) + i % 10);
        hit(store, 1);
        const Flight flight = store.flight(make_key(t), std::chrono::milliseconds{0});
      }
    });
  // A child made while a thread was inside SQLite would hang on a mutex that nobody lets go of.
  for (int i = 0; i < 15; ++i)
    EXPECT_EQ(in_child([&] {
                alarm(30);
                StoreOptions quiet;
                quiet.folder = folder_;
                Store own(quiet);
                return hit_at_last(own, 1) && put_at_last(own, 2) ? 0 : 1;
              }),
              0);
  stop = true;
  for (std::thread& thread : busy) thread.join();
  AdminError error;
  store.verify(&error);
  EXPECT_EQ(error.what, AdminError::What::none) << error.text;
}

// In a process that has checked none before: libsodium gets itself ready behind a mutex of its own.
TEST_F(ForkTest, WhileASignatureIsCheckedForTheFirstTime) {
  for (int round = 0; round < 60; ++round) {
    EXPECT_EQ(in_child([&] {
                std::atomic<bool> begun{false};
                std::thread first([&] {
                  begun = true;
                  is_signed({}, {}, "");
                });
                while (!begun) continue;
                for (std::atomic<int> pause = 0; pause < 40 * round;) ++pause;
                const int status = in_child([] {
                  alarm(5);
                  is_signed({}, {}, "");
                  return 0;
                });
                first.join();
                return status;
              }),
              0)
        << round;
  }
}

}  // namespace
}  // namespace quern::cache::testing
