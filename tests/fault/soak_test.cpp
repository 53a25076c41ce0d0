// Many processes over many keys, some of them killed, some stopped for a while, some forking: nobody ever gets a wrong
// entry, and the file is sound in the end.
// SPDX-License-Identifier: Apache-2.0
#include <signal.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include "tests/cache/fixture.h"
#include "tests/fault/launch/launcher.h"
#include "tests/fault/torture.h"

namespace quern::cache::testing {
namespace {

using Clock = std::chrono::steady_clock;

class SoakTest : public CacheTest {
 protected:
  static std::size_t size_of(std::uint64_t number) { return 200 + number * 7919 % 30'000; }

  // Works until it is killed or the time is over; returns what is wrong, 0 for nothing.
  int work(std::uint64_t seed, std::uint64_t keys, Clock::time_point end, Launcher& launcher) {
    StoreOptions small = options();
    small.notice = nullptr;
    small.limit_bytes = 4 << 20;
    Store store(small);
    Random random{seed};
    while (Clock::now() < end) {
      const std::uint64_t number = random.below(keys);
      const Entry wanted = make_entry(number, size_of(number));
      const Key key = make_key(number);
      const std::uint64_t what = random.below(21);
      if (what < 12) {
        Entry got;
        if (store.get(key, wanted.text, "", &got) && !same(got, wanted)) return 1;
      } else if (what < 16) {
        const Flight flight = store.flight(key, std::chrono::milliseconds{20});
        store.put(key, wanted);
      } else if (what == 16) {
        store.reject(key, "test");
      } else if (what == 17) {
        store.touch({&key, 1});
      } else if (what == 18) {
        AdminError error;
        for (const Listed& listed : store.list(&error))
          if (listed.entry.op != "attention" && listed.entry.op != "merge_state") return 2;
      } else if (what == 19) {
        launcher.launch(small);
        if (HasFailure()) return 4;
      } else {
        const pid_t child = fork();
        if (child == 0) {
          Store own(small);
          Entry got;
          _exit(own.get(key, wanted.text, "", &got) && !same(got, wanted) ? 1 : 0);
        }
        int status = 0;
        waitpid(child, &status, 0);
        if (WIFEXITED(status) && WEXITSTATUS(status) != 0) return 3;
      }
    }
    return 0;
  }
};

TEST_F(SoakTest, ProcessesThatAreKilledAndFrozen) {
  const bool torture = times(1) > 1;
  const std::uint64_t processes = torture ? 64 : 8, keys = torture ? 500 : 60;
  const auto end = Clock::now() + std::chrono::seconds(times(3));
  Random random{seed(1)};
  std::uint64_t kills = 0, stops = 0;
  Launcher launcher;
  std::vector<pid_t> running;
  const auto start = [&] {
    const std::uint64_t own = random.next();
    running.push_back(start_child([&, own] { return work(own, keys, end, launcher); }));
  };
  for (std::uint64_t i = 0; i < processes; ++i) start();
  while (Clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(random.below(6)));
    const std::size_t which = random.below(running.size());
    if (random.below(3) == 0) {
      kill(running[which], SIGSTOP);
      std::this_thread::sleep_for(std::chrono::milliseconds(random.below(60)));
      kill(running[which], SIGCONT);
      ++stops;
    } else {
      kill(running[which], SIGKILL);
      const int status = wait_child(running[which]);
      ASSERT_TRUE(status == 0 || status == 1000 + SIGKILL) << status;
      running.erase(running.begin() + static_cast<std::ptrdiff_t>(which));
      ++kills;
      start();
    }
  }
  for (const pid_t child : running) EXPECT_EQ(wait_child(child), 0);
  launcher.launch(options());
  EXPECT_EQ(launcher.launch(options()), 0);
  Store store(options());
  AdminError error;
  store.verify(&error);
  EXPECT_EQ(error.what, AdminError::What::none) << error.text;
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/cache-1.damaged.db")) << "a kill is no damage";
  EXPECT_TRUE(put(store, 9'999));
  std::printf("%llu processes over %llu keys: %llu kills, %llu stops, QUERN_SEED=%llu\n",
              static_cast<unsigned long long>(processes), static_cast<unsigned long long>(keys),
              static_cast<unsigned long long>(kills), static_cast<unsigned long long>(stops),
              static_cast<unsigned long long>(seed(1)));
}

}  // namespace
}  // namespace quern::cache::testing
