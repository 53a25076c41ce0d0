// However many want a kernel at once, it is compiled once: by one thread of a process, by one process of a machine.
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <barrier>
#include <chrono>
#include <thread>

#include "tests/race/fixture.h"

namespace quern::jit::test {
namespace {

using namespace std::chrono_literals;

TEST_F(EngineTest, SixtyFourThreadsCompileOnce) {
  Service service({in_folder(), {}, 2});
  std::atomic<int> compiled{0};
  Engine engine(options(service, [&](const CompileJob& job) {
    compiled++;
    std::this_thread::sleep_for(50ms);
    return good_image(job);
  }));
  constexpr std::ptrdiff_t kThreads = 64;
  std::barrier start(kThreads);
  std::vector<const Kernel*> got(kThreads);
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (auto& slot : got) {
    threads.emplace_back([&] {
      start.arrive_and_wait();
      slot = engine.ready(toy(1), Miss::compile, nullptr);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(compiled, 1);
  // Who looked into the store between its being stored and its being published has loaded it, too, and unloaded it.
  EXPECT_EQ(driver.loads - driver.unloads, 1);
  EXPECT_NE(got[0], nullptr);
  EXPECT_EQ(got, std::vector<const Kernel*>(kThreads, got[0]));
  EXPECT_EQ(engine.find(toy(1)), got[0]);
  const EngineStats stats = engine.stats();
  EXPECT_EQ(stats.kernels_loaded, 1u);
  EXPECT_EQ(stats.compiled, 1u);
  EXPECT_EQ(stats.stored, 1u);
  EXPECT_EQ(stats.compile_ms, 2.0);
  EXPECT_GT(stats.flight_waits, 0u);
}

TEST_F(EngineTest, DifferentSpecsCompileSideBySideUpToTheLimit) {
  Service service({in_folder(), {}, 2});
  std::atomic<int> running{0}, most{0};
  Engine engine(options(service, [&](const CompileJob& job) {
    const int now = ++running;
    int seen = most.load();
    while (now > seen && !most.compare_exchange_weak(seen, now)) {
    }
    std::this_thread::sleep_for(20ms);
    --running;
    return good_image(job);
  }));
  std::vector<std::thread> threads;
  for (std::uint32_t n = 0; n < 12; ++n) {
    threads.emplace_back([&, n] { engine.ready(toy(n), Miss::compile, nullptr); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(most, 2) << "compile_threads is 2";
  EXPECT_EQ(engine.stats().kernels_loaded, 12u);
  EXPECT_EQ(engine.specialised().size(), 12u);
}

TEST_F(EngineTest, AllWaitersHearOfAFailureAndALaterCallSucceeds) {
  Service service({in_folder(), {}, 2});
  std::atomic<int> compiled{0};
  std::atomic<bool> broken{true};
  Engine engine(options(service, [&](const CompileJob& job) {
    compiled++;
    if (!broken) return good_image(job);
    std::this_thread::sleep_for(100ms);
    throw Error(QUERN_COMPILE, "toy.cuh:1: N is odd", 3);
  }));
  constexpr std::ptrdiff_t kThreads = 8;
  std::barrier start(kThreads);
  std::atomic<int> told{0};
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      start.arrive_and_wait();
      const Error error = error_of([&] { engine.ready(toy(1), Miss::compile, nullptr); });
      told += error.status() == QUERN_COMPILE && error.text() == "toy.cuh:1: N is odd" && error.native() == 3;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(told, kThreads);
  EXPECT_EQ(compiled, static_cast<int>(engine.stats().compile_errors));
  EXPECT_EQ(count_events(QUERN_EVENT_FAILED), compiled);
  EXPECT_EQ(engine.find(toy(1)), nullptr);

  broken = false;
  EXPECT_NE(engine.ready(toy(1), Miss::compile, nullptr), nullptr);
}

// Sixteen cold processes on one cache folder. Each compilation leaves a byte in a file.
TEST_F(EngineTest, SixteenProcessesCompileOnce) {
  constexpr int kProcesses = 16;
  const std::string log = folder.path + "/compilations";
  int gate[2];
  ASSERT_EQ(pipe(gate), 0);
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child != 0) {
      children.push_back(child);
      continue;
    }
    close(gate[1]);
    char byte;
    int status = read(gate[0], &byte, 1) == 0 ? 0 : 1;  // the end of the pipe starts all at once
    try {
      Service service({in_folder(), {}, 2});
      EngineOptions here = options(service, [&](const CompileJob& job) {
        const int file = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
        if (write(file, ".", 1) != 1) throw Error(QUERN_IO, "the log cannot be written");
        close(file);
        std::this_thread::sleep_for(200ms);
        return good_image(job);
      });
      Engine engine(std::move(here));
      if (engine.ready(toy(1), Miss::compile, nullptr) == nullptr) status = 2;
      if (driver.loads != 1) status = 3;
    } catch (const Error& error) {
      fprintf(stderr, "child: %s\n", error.what());
      status = 4;
    }
    _exit(status);
  }
  close(gate[0]);
  close(gate[1]);
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
  }
  struct stat about{};
  ASSERT_EQ(stat(log.c_str(), &about), 0);
  EXPECT_EQ(about.st_size, 1) << "compilations in all";
}

}  // namespace
}  // namespace quern::jit::test
