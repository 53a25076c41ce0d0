// What is told from inside: callbacks that call back, and callbacks that want a lock which a waiting caller holds.
// SPDX-License-Identifier: Apache-2.0
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "tests/race/fixture.h"

namespace quern::jit::test {
namespace {

using namespace std::chrono_literals;

// In a child, so that what hangs fails rather than hanging the tests.
int in_time(const std::function<int()>& work) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    _exit(work());
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

TEST_F(EngineTest, ANoticeOfTheStoreMayAskForTheSameKernel) {
  EXPECT_EQ(in_time([&] {
              Engine* engine = nullptr;
              int told = 0;
              cache::StoreOptions in = in_folder();
              in.bundles = {folder.path + "/not-there.quern"};  // told of at the first look
              Service service({in, {}, 2});
              EngineOptions mine = options(service, good_image);
              mine.notice = [&](std::string_view) {
                told++;
                if (engine->ready(toy(1), Miss::compile, nullptr) == nullptr) _exit(2);
              };
              Engine made(std::move(mine));
              engine = &made;
              if (made.ready(toy(1), Miss::compile, nullptr) == nullptr) return 3;
              return told > 0 ? 0 : 4;
            }),
            0);
}

TEST_F(EngineTest, AnEventMayAskForTheSameKernel) {
  EXPECT_EQ(in_time([&] {
              Engine* engine = nullptr;
              int told = 0;
              Service service({in_folder(), {}, 2});
              EngineOptions mine = options(service, good_image);
              mine.event = [&](const Event&) {
                told++;
                if (engine->ready(toy(1), Miss::compile, nullptr) == nullptr) _exit(2);
                engine->warm(toy(1), false);
              };
              Engine made(std::move(mine));
              engine = &made;
              if (made.ready(toy(1), Miss::compile, nullptr) == nullptr) return 3;
              made.warm(toy(2), false);
              return told > 0 ? 0 : 4;
            }),
            0);
}

// One thread holds its logger's mutex while it prepares, another one's notice wants it.
TEST_F(EngineTest, ANoticeMayTakeAMutexThatIsHeldAroundPrepare) {
  EXPECT_EQ(in_time([&] {
              std::mutex logger;
              std::atomic<bool> begun{false}, holding{false};
              cache::StoreOptions in = in_folder();
              in.bundles = {folder.path + "/not-there.quern"};
              Service service({in, {}, 2});
              EngineOptions mine = options(service, [&](const CompileJob& job) {
                begun = true;
                while (!holding) std::this_thread::sleep_for(1ms);
                std::this_thread::sleep_for(50ms);  // the other one is waiting for this by now
                return good_image(job);
              });
              mine.notice = [&](std::string_view) { const std::lock_guard lock(logger); };
              Engine engine(std::move(mine));
              std::thread first([&] { engine.ready(toy(1), Miss::compile, nullptr); });
              while (!begun) std::this_thread::sleep_for(1ms);
              {
                const std::lock_guard lock(logger);
                holding = true;
                if (engine.ready(toy(1), Miss::compile, nullptr) == nullptr) return 2;
              }
              first.join();
              return 0;
            }),
            0);
}

}  // namespace
}  // namespace quern::jit::test
