// One works, the others wait; and nobody waits for ever.
// SPDX-License-Identifier: Apache-2.0
#include "jit/flights.h"

#include <gtest/gtest.h>

#include <atomic>
#include <new>
#include <thread>
#include <vector>

namespace quern::jit {
namespace {

constexpr int kThreads = 16;

// Runs `call` in many threads; the work inside is to wait until all others wait for it.
template <class Call>
void together(Call call) {
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int i = 0; i < kThreads; ++i) threads.emplace_back([&call, i] { call(i); });
  for (std::thread& thread : threads) thread.join();
}

void until(const std::atomic<int>& counter, int value) {
  while (counter.load() < value) std::this_thread::yield();
}

TEST(Flights, OneWorksAndAllGetItsResult) {
  Flights<int> flights;
  std::atomic<int> worked{0}, waiting{0};
  std::vector<int> results(kThreads);
  together([&](int i) {
    results[static_cast<std::size_t>(i)] = flights.run(
        Spec{},
        [&] {
          until(waiting, kThreads - 1);
          return ++worked;
        },
        [&] { waiting++; });
  });
  EXPECT_EQ(worked, 1);
  EXPECT_EQ(results, std::vector<int>(kThreads, 1));
}

TEST(Flights, AllHearOfAFailureAndTheNextCallTriesAgain) {
  Flights<int> flights;
  std::atomic<int> waiting{0}, told{0};
  together([&](int) {
    try {
      flights.run(
          Spec{},
          [&]() -> int {
            until(waiting, kThreads - 1);
            throw Error(QUERN_COMPILE, "a syntax error", 11);
          },
          [&] { waiting++; });
    } catch (const Error& error) {
      told += error.status() == QUERN_COMPILE && error.text() == "a syntax error" && error.native() == 11;
    }
  });
  EXPECT_EQ(told, kThreads);
  EXPECT_EQ(flights.run(Spec{}, [] { return 5; }, [] {}), 5);
}

TEST(Flights, ForeignExceptionsReachTheWaitersAsErrors) {
  Flights<int> flights;
  std::atomic<int> waiting{0}, leader{0}, others{0};
  together([&](int) {
    try {
      flights.run(
          Spec{},
          [&]() -> int {
            until(waiting, kThreads - 1);
            throw std::bad_alloc();
          },
          [&] { waiting++; });
    } catch (const std::bad_alloc&) {
      leader++;
    } catch (const Error& error) {
      others += error.status() == QUERN_NO_MEMORY;
    }
  });
  EXPECT_EQ(leader, 1);
  EXPECT_EQ(others, kThreads - 1);
}

TEST(Flights, DifferentSpecsDoNotWaitForEachOther) {
  Flights<int> flights;
  Spec other;
  other.words[0] = 1;
  const int result = flights.run(Spec{}, [&] { return 10 * flights.run(other, [] { return 4; }, [] {}); }, [] {});
  EXPECT_EQ(result, 40);
}

}  // namespace
}  // namespace quern::jit
