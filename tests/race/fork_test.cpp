// After fork() the child is told so, and its exit harms nothing of the parent's.
// SPDX-License-Identifier: Apache-2.0
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "tests/race/fixture.h"

namespace quern::jit::test {
namespace {

using namespace std::chrono_literals;

// Runs `child` in a fork and returns its exit status.
template <class Child>
int forked(Child child) {
  const pid_t id = fork();
  if (id == 0) _exit(child());
  int status = -1;
  EXPECT_EQ(waitpid(id, &status, 0), id);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
}

bool says_forked(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.status() == QUERN_FORKED;
  }
  return false;
}

TEST_F(EngineTest, AChildIsToldAndAbandonsTheEngine) {
  Service service({in_folder(), {}, 2});
  auto engine = std::make_unique<Engine>(options(service, good_image));
  const Kernel* kernel = engine->ready(toy(1), Miss::compile, nullptr);
  ASSERT_NE(kernel, nullptr);
  EXPECT_EQ(forked([&] {
              if (engine->find(toy(1)) != nullptr) return 1;
              if (!says_forked([&] { engine->ready(toy(1), Miss::compile, nullptr); })) return 2;
              if (!says_forked([&] { engine->warm(toy(2), false); })) return 3;
              if (!says_forked([&] { engine->specialised(); })) return 4;
              engine.reset();
              return driver.unloads == 0 ? 0 : 5;
            }),
            0);
  EXPECT_EQ(engine->find(toy(1)), kernel) << "the parent goes on";
  EXPECT_NE(engine->ready(toy(2), Miss::compile, nullptr), nullptr);
}

// A fork in the middle of a background compilation: the child must not wait for the thread that it does not have.
TEST_F(EngineTest, AForkWhileCompilingDoesNotHangTheChild) {
  Service service({in_folder(), {}, 2});
  std::atomic<bool> begun{false}, go{false};
  auto engine = std::make_unique<Engine>(options(service, [&](const CompileJob& job) {
    begun = true;
    while (!go) std::this_thread::sleep_for(1ms);
    return good_image(job);
  }));
  EXPECT_EQ(error_of([&] { engine->ready(toy(1), Miss::background, nullptr); }).status(), QUERN_PENDING);
  while (!begun) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(forked([&] {
              alarm(20);
              if (engine->stats().pending != 0) return 1;
              engine.reset();
              return 0;
            }),
            0);
  go = true;
}

}  // namespace
}  // namespace quern::jit::test
