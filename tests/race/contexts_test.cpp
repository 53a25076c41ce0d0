// Several contexts of one process: what one has compiled the others need not.
// SPDX-License-Identifier: Apache-2.0
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "tests/race/fixture.h"

namespace quern::jit::test {
namespace {

using namespace std::chrono_literals;

class ContextsTest : public EngineTest {
 protected:
  // One of several contexts: a store and an engine of its own.
  struct Context {
    template <class MakeOptions>
    Context(const cache::StoreOptions& in, const MakeOptions& make) : store(in), engine(make(store)) {}
    cache::Store store;
    Engine engine;
  };
  std::unique_ptr<Context> make(const cache::StoreOptions& in) {
    auto compile = [this](const CompileJob& job) {
      compiled++;
      std::this_thread::sleep_for(20ms);
      return good_image(job);
    };
    return std::make_unique<Context>(in, [&](cache::Store& store) { return options(store, compile); });
  }
  void all_at_once(const cache::StoreOptions& in) {
    std::vector<std::unique_ptr<Context>> contexts;
    for (int i = 0; i < 8; ++i) contexts.push_back(make(in));
    std::vector<std::thread> threads;
    for (const auto& context : contexts)
      threads.emplace_back([&] { EXPECT_NE(context->engine.ready(toy(1), Miss::compile, nullptr), nullptr); });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(compiled, 1);
    auto later = make(in);
    EXPECT_NE(later->engine.ready(toy(1), Miss::compile, nullptr), nullptr);
    EXPECT_EQ(compiled, 1);
  }
  std::atomic<int> compiled{0};
};

TEST_F(ContextsTest, EightCompileAKernelOnceWithAFile) { all_at_once(in_folder()); }

TEST_F(ContextsTest, EightCompileAKernelOnceWithoutOne) {
  cache::StoreOptions none;
  none.no_file = true;
  all_at_once(none);
  // With the last of them what they had is gone.
  auto fresh = make(none);
  EXPECT_NE(fresh->engine.ready(toy(1), Miss::compile, nullptr), nullptr);
  EXPECT_EQ(compiled, 2);
}

TEST_F(ContextsTest, AForkedChildWaitsForNobodysCompilation) {
  cache::StoreOptions none;
  none.no_file = true;
  cache::Store store(none);
  std::atomic<bool> begun{false}, go{false};
  Engine engine(options(store, [&](const CompileJob& job) {
    begun = true;
    while (!go) std::this_thread::sleep_for(1ms);
    return good_image(job);
  }));
  std::thread compiling([&] { engine.ready(toy(1), Miss::compile, nullptr); });
  while (!begun) std::this_thread::sleep_for(1ms);
  const pid_t child = fork();
  if (child == 0) {
    alarm(10);
    cache::Store own(none);
    Engine fresh(options(own, good_image));
    _exit(fresh.ready(toy(1), Miss::compile, nullptr) != nullptr ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  go = true;
  compiling.join();
}

}  // namespace
}  // namespace quern::jit::test
