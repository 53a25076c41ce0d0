// One compilation of a key at a time, between processes.
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>

#include <atomic>
#include <thread>

#include "cache/file_lock.h"
#include "tests/cache/fixture.h"

namespace quern::cache::testing {
namespace {

using std::chrono::milliseconds;

class FlightTest : public CacheTest {
 protected:
  // Two ends of a pipe: one process tells another that it has come so far.
  struct Signal {
    int ends[2] = {-1, -1};
    Signal() { EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0); }
    ~Signal() {
      close(ends[0]);
      close(ends[1]);
    }
    Signal(const Signal&) = delete;
    Signal& operator=(const Signal&) = delete;
    void give() const { EXPECT_EQ(write(ends[1], "x", 1), 1); }
    bool take() const {
      char byte;
      return read(ends[0], &byte, 1) == 1;
    }
  };
};

TEST_F(FlightTest, TheFirstLeads) {
  Store store(options());
  const Flight flight = store.flight(make_key(1), milliseconds{0});
  EXPECT_EQ(flight.state(), Flight::State::leader);
  const Flight other_key = store.flight(make_key(2), milliseconds{0});
  EXPECT_EQ(other_key.state(), Flight::State::leader);
}

TEST_F(FlightTest, ASecondProcessWaitsAndFollows) {
  const Signal leading, may_end;
  const pid_t leader = start_child([&] {
    Store store(options());
    const Flight flight = store.flight(make_key(1), milliseconds{0});
    leading.give();
    may_end.take();
    usleep(30'000);
    return put(store, 1) && flight.state() == Flight::State::leader ? 0 : 1;
  });
  ASSERT_TRUE(leading.take());
  Store store(options());
  EXPECT_EQ(store.flight(make_key(1), milliseconds{20}).state(), Flight::State::alone) << "past the deadline";
  EXPECT_EQ(store.flight(make_key(2), milliseconds{0}).state(), Flight::State::leader) << "another key is free";
  may_end.give();
  const Flight flight = store.flight(make_key(1), milliseconds{10'000});
  EXPECT_EQ(flight.state(), Flight::State::follower);
  EXPECT_TRUE(hit(store, 1)) << "what the leader stored is there";
  EXPECT_EQ(wait_child(leader), 0);
}

TEST_F(FlightTest, ADeadLeaderLetsGo) {
  const Signal leading;
  const pid_t leader = start_child([&] {
    Store store(options());
    const Flight flight = store.flight(make_key(1), milliseconds{0});
    leading.give();
    pause();
    return 0;
  });
  ASSERT_TRUE(leading.take());
  ASSERT_EQ(kill(leader, SIGKILL), 0);
  Store store(options());
  EXPECT_NE(store.flight(make_key(1), milliseconds{10'000}).state(), Flight::State::alone);
  EXPECT_EQ(wait_child(leader), 1000 + SIGKILL);
}

TEST_F(FlightTest, TwoFlightsOfOneProcessExcludeEachOther) {
  Store store(options()), other(options());
  Flight first = store.flight(make_key(1), milliseconds{0});
  EXPECT_EQ(store.flight(make_key(1), milliseconds{5}).state(), Flight::State::alone);
  EXPECT_EQ(other.flight(make_key(1), milliseconds{5}).state(), Flight::State::alone);
  std::thread waiter(
      [&] { EXPECT_EQ(other.flight(make_key(1), milliseconds{10'000}).state(), Flight::State::follower); });
  usleep(20'000);
  first = Flight();
  waiter.join();
  EXPECT_EQ(store.flight(make_key(1), milliseconds{0}).state(), Flight::State::leader);
}

TEST_F(FlightTest, MovingKeepsTheLock) {
  Store store(options());
  Flight first = store.flight(make_key(1), milliseconds{0});
  Flight second(std::move(first));
  EXPECT_EQ(second.state(), Flight::State::leader);
  EXPECT_EQ(store.flight(make_key(1), milliseconds{0}).state(), Flight::State::alone);
  Flight third = store.flight(make_key(3), milliseconds{0});
  third = std::move(second);
  EXPECT_EQ(store.flight(make_key(3), milliseconds{0}).state(), Flight::State::leader)
      << "what was assigned over is let go";
  EXPECT_EQ(store.flight(make_key(1), milliseconds{0}).state(), Flight::State::alone);
}

TEST_F(FlightTest, AForkedChildDoesNotHoldItsParentsFlight) {
  Store store(options());
  const Signal may_end;
  pid_t child;
  {
    const Flight flight = store.flight(make_key(1), milliseconds{0});
    child = start_child([&] { return may_end.take() ? 0 : 1; });
  }
  EXPECT_EQ(store.flight(make_key(1), milliseconds{0}).state(), Flight::State::leader) << "while the child still lives";
  may_end.give();
  EXPECT_EQ(wait_child(child), 0);
}

// The leader has no time to let go: what its living child has inherited must not hold the lock for it.
TEST_F(FlightTest, AKilledLeadersChildDoesNotGoOnLeading) {
  const Signal leads, child_runs;
  const pid_t leader = start_child([&] {
    Store store(options());
    const Flight flight = store.flight(make_key(1), milliseconds{0});
    const pid_t child = fork();
    if (child == 0) {
      child_runs.give();  // until it has got a processor it could not let go of anything
      alarm(60);
      pause();
      _exit(0);
    }
    write_file(root_ + "/child", std::to_string(child));
    leads.give();
    pause();
    return 0;
  });
  ASSERT_TRUE(leads.take());
  ASSERT_TRUE(child_runs.take());
  kill(leader, SIGKILL);
  EXPECT_EQ(wait_child(leader), 1000 + SIGKILL);
  Store store(options());
  EXPECT_EQ(store.flight(make_key(1), milliseconds{0}).state(), Flight::State::leader);
  kill(static_cast<pid_t>(std::stol(read_file(root_ + "/child"))), SIGKILL);
}

// A lock file that is a link to nothing: what it names must not be made.
TEST_F(FlightTest, LockFilesAreNoLinks) {
  {
    Store store(options());
    ASSERT_TRUE(put(store, 1));
  }
  for (const char* name : {"/cache-1.lock", "/cache-1.flights"}) {
    const std::string target = root_ + "/made-by-the-link";
    std::filesystem::remove(folder_ + name);
    std::filesystem::create_symlink(target, folder_ + name);
    Store store(options());
    put(store, 2);
    const Flight flight = store.flight(make_key(1), milliseconds{0});
    EXPECT_FALSE(std::filesystem::exists(target)) << name;
    std::filesystem::remove(folder_ + name);
  }
}

TEST_F(FlightTest, AForkedChildThatEndsAFlightDoesNotEndItsParents) {
  Store store(options());
  Flight flight = store.flight(make_key(1), milliseconds{0});
  EXPECT_EQ(in_child([&] {
              // The number of the descriptor that fork() closed may be this file's now.
              const int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
              flight = Flight();
              return file >= 0 && fcntl(file, F_GETFD) >= 0 ? 0 : 1;
            }),
            0);
  Store other(options());
  EXPECT_EQ(other.flight(make_key(1), milliseconds{0}).state(), Flight::State::alone);
}

TEST_F(FlightTest, SixteenColdProcessesAndOneCompilation) {
  std::vector<pid_t> children;
  const std::string log = root_ + "/compilations";
  for (int i = 0; i < 16; ++i)
    children.push_back(start_child([&] {
      Store store(options());
      if (hit(store, 1)) return 0;
      const Flight flight = store.flight(make_key(1), milliseconds{20'000});
      if (flight.state() == Flight::State::alone) return 1;
      if (hit(store, 1)) return 0;
      const int file = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
      if (write(file, "c", 1) != 1) return 2;
      usleep(50'000);
      return put(store, 1) ? 0 : 3;
    }));
  for (const pid_t child : children) EXPECT_EQ(wait_child(child), 0);
  EXPECT_EQ(read_file(log), "c");
}

TEST_F(FlightTest, LocksOutliveOtherDescriptorsOfTheSameFile) {
  // A second copy of the library in this process opens and closes the same files; POSIX locks would be gone after that.
  Store store(options());
  ASSERT_TRUE(put(store, 1));
  const Flight flight = store.flight(make_key(1), milliseconds{0});
  Sidecar sidecar;
  ASSERT_EQ(sidecar.acquire(folder_ + "/cache-1.lock", true, true, 0600, {}), Locked::held);
  for (const char* name : {"/cache-1.lock", "/cache-1.flights", "/cache-1.db"}) read_file(folder_ + name);
  EXPECT_EQ(in_child([&] {
              StoreOptions impatient = options();
              impatient.busy_timeout = milliseconds{10};
              Store other(impatient);
              if (!miss(other, 1)) return 1;
              return other.flight(make_key(1), milliseconds{0}).state() == Flight::State::alone ? 0 : 2;
            }),
            0);
}

TEST_F(FlightTest, WaitsSpareTheWallClock) {
  // The deadline is on the steady clock: a wait for somebody who never lets go ends, and not too early.
  Store store(options()), other(options());
  const Flight flight = store.flight(make_key(1), milliseconds{0});
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(other.flight(make_key(1), milliseconds{60}).state(), Flight::State::alone);
  const auto waited = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(waited, milliseconds{60});
  EXPECT_LT(waited, milliseconds{5'000});
}

TEST_F(FlightTest, ALockOnARemovedSidecarIsNotTrusted) {
  std::filesystem::create_directory(folder_);
  const std::string path = folder_ + "/lock";
  const auto soon = [] { return std::chrono::steady_clock::now() + milliseconds{10}; };
  Sidecar first, second;
  ASSERT_EQ(first.acquire(path, true, true, 0600, soon()), Locked::held);
  first.release();
  std::filesystem::remove(path);
  ASSERT_EQ(second.acquire(path, true, true, 0600, soon()), Locked::held);
  EXPECT_EQ(first.acquire(path, false, true, 0600, soon()), Locked::busy) << "it must be the new file that is locked";
  second.release();
  EXPECT_NE(first.acquire(path, false, true, 0600, soon()), Locked::busy);
  EXPECT_NE(second.acquire(path, false, true, 0600, soon()), Locked::busy) << "readers share";
}

}  // namespace
}  // namespace quern::cache::testing
