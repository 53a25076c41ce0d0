// What a miss does under each policy, under capture, and when warming.
// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <thread>

#include "tests/race/fixture.h"

namespace quern::jit::test {
namespace {

using namespace std::chrono_literals;

Compiled must_not_compile(const CompileJob&) { throw Error(QUERN_INTERNAL, "the compiler was called"); }

TEST_F(EngineTest, CachedOnlyNamesWhatIsMissingAndTouchesNoCompiler) {
  cache::Store store(in_folder());
  Engine engine(options(store, must_not_compile));
  const Error error = error_of([&] { engine.ready(toy(123), Miss::cached_only, nullptr); });
  EXPECT_EQ(error.status(), QUERN_MISS);
  const std::string key = cache::to_hex(engine.warm(toy(123), /*list_only=*/true).key);
  for (const std::string& part : {std::string("toy"), std::string("N=123"), std::string("host"), key}) {
    EXPECT_NE(error.text().find(part), std::string::npos) << part << " in: " << error.text();
  }
  EXPECT_EQ(engine.stats().cache_misses, 1u);
}

TEST_F(EngineTest, WarmedKernelsLoadUnderEveryPolicyWithoutACompiler) {
  {
    cache::Store store(in_folder());
    Engine engine(options(store, good_image));
    EXPECT_EQ(engine.warm(toy(1), true).outcome, Outcome::absent);
    EXPECT_EQ(engine.warm(toy(1), false).outcome, Outcome::compiled);
    EXPECT_EQ(engine.warm(toy(1), false).outcome, Outcome::hit);
    EXPECT_EQ(engine.warm(toy(1), true).outcome, Outcome::hit);
    EXPECT_EQ(engine.specialised(), std::vector<Spec>{toy(1)});
    EXPECT_EQ(engine.find(toy(1)), nullptr) << "warming loads nothing";
    EXPECT_EQ(driver.loads, 0);
  }
  for (const Miss miss : {Miss::compile, Miss::cached_only, Miss::background}) {
    cache::Store store(in_folder());
    Engine engine(options(store, must_not_compile));
    const Kernel* kernel = engine.ready(toy(1), miss, nullptr);
    ASSERT_NE(kernel, nullptr);
    EXPECT_EQ(kernel->loaded.registers, 42) << "what the driver does not tell comes from the cache";
    EXPECT_EQ(engine.ready(toy(1), miss, nullptr), kernel);
    EXPECT_EQ(engine.stats().cache_hits, 1u);
  }
  EXPECT_EQ(count_events(QUERN_EVENT_LOADED), 3);
  EXPECT_EQ(driver.loads, 3);
  EXPECT_EQ(driver.unloads, 3);
}

TEST_F(EngineTest, ACallThatMustNotCompileDoesNotWaitForOneThatDoes) {
  cache::Store store(in_folder());
  std::atomic<bool> begun{false}, go{false};
  Engine engine(options(store, [&](const CompileJob& job) {
    begun = true;
    while (!go) std::this_thread::sleep_for(1ms);
    return good_image(job);
  }));
  std::thread compiling([&] { engine.ready(toy(1), Miss::compile, nullptr); });
  while (!begun) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(error_of([&] { engine.ready(toy(1), Miss::cached_only, nullptr); }).status(), QUERN_MISS);
  EXPECT_EQ(error_of([&] { engine.ready(toy(1), Miss::background, nullptr); }).status(), QUERN_PENDING);
  go = true;
  compiling.join();
  EXPECT_NE(engine.ready(toy(1), Miss::cached_only, nullptr), nullptr);
}

TEST_F(EngineTest, BackgroundIsPendingAndThenReady) {
  cache::Store store(in_folder());
  std::atomic<int> compiled{0};
  std::atomic<bool> go{false};
  Engine engine(options(store, [&](const CompileJob& job) {
    compiled++;
    while (!go) std::this_thread::sleep_for(1ms);
    return good_image(job);
  }));
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(error_of([&] { engine.ready(toy(1), Miss::background, nullptr); }).status(), QUERN_PENDING);
  }
  EXPECT_EQ(engine.stats().pending, 1u);
  go = true;
  const Kernel* kernel = nullptr;
  while (kernel == nullptr) {
    try {
      kernel = engine.ready(toy(1), Miss::background, nullptr);
    } catch (const Error& error) {
      ASSERT_EQ(error.status(), QUERN_PENDING) << error.text();
      std::this_thread::sleep_for(1ms);
    }
  }
  EXPECT_EQ(compiled, 1);
}

TEST_F(EngineTest, AFailureInTheBackgroundIsToldOnceAndTriedAgain) {
  cache::Store store(in_folder());
  std::atomic<bool> broken{true};
  Engine engine(options(store, [&](const CompileJob& job) {
    if (broken) throw Error(QUERN_COMPILE, "broken template");
    return good_image(job);
  }));
  const auto settle = [&] {
    while (engine.stats().pending != 0) std::this_thread::sleep_for(1ms);
  };
  EXPECT_EQ(error_of([&] { engine.ready(toy(1), Miss::background, nullptr); }).status(), QUERN_PENDING);
  settle();
  const Error told = error_of([&] { engine.ready(toy(1), Miss::background, nullptr); });
  EXPECT_EQ(told.status(), QUERN_COMPILE);
  EXPECT_EQ(told.text(), "broken template");
  broken = false;
  EXPECT_EQ(error_of([&] { engine.ready(toy(1), Miss::background, nullptr); }).status(), QUERN_PENDING);
  settle();
  EXPECT_NE(engine.ready(toy(1), Miss::background, nullptr), nullptr);
}

TEST_F(EngineTest, DestructionWaitsForWhatRunsInTheBackground) {
  cache::Store store(in_folder());
  std::atomic<int> begun{0}, finished{0};
  {
    Engine engine(options(store, [&](const CompileJob& job) {
      begun++;
      std::this_thread::sleep_for(50ms);
      finished++;
      return good_image(job);
    }));
    for (std::uint32_t n = 0; n < 20; ++n) {
      EXPECT_EQ(error_of([&] { engine.ready(toy(n), Miss::background, nullptr); }).status(), QUERN_PENDING);
    }
    while (begun == 0) std::this_thread::sleep_for(1ms);
  }
  EXPECT_EQ(begun, finished);
  EXPECT_LT(finished, 20);
  EXPECT_EQ(driver.loads, driver.unloads);
}

TEST_F(EngineTest, AMissUnderCaptureIsRefusedAndAHitIsNot) {
  cache::Store store(in_folder());
  Engine engine(options(store, good_image));
  const Error error = error_of([&] { engine.ready(toy(1), Miss::compile, driver.captured_stream); });
  EXPECT_EQ(error.status(), QUERN_CAPTURING);
  EXPECT_NE(error.text().find("N=1"), std::string::npos) << error.text();
  EXPECT_EQ(driver.loads, 0);
  const Kernel* kernel = engine.ready(toy(1), Miss::compile, nullptr);
  EXPECT_EQ(engine.ready(toy(1), Miss::compile, driver.captured_stream), kernel);
}

TEST_F(EngineTest, WithoutADeviceItWarmsAndDoesNotLoad) {
  cache::Store store(in_folder());
  EngineOptions warming = options(store, good_image);
  warming.driver = nullptr;
  Engine engine(std::move(warming));
  EXPECT_EQ(engine.warm(toy(1), false).outcome, Outcome::compiled);
  EXPECT_EQ(error_of([&] { engine.ready(toy(1), Miss::compile, nullptr); }).status(), QUERN_INVALID);
}

TEST_F(EngineTest, AKernelForAnotherFamilyIsWarmedButNotLoaded) {
  cache::Store store(in_folder());
  Engine engine(options(store, good_image));
  Spec foreign = toy(1);
  foreign.target = Target::parse("sm_90a").tag();
  EXPECT_EQ(engine.warm(foreign, false).outcome, Outcome::compiled);
  const Error error = error_of([&] { engine.ready(foreign, Miss::compile, nullptr); });
  EXPECT_EQ(error.status(), QUERN_UNSUPPORTED);
  EXPECT_NE(error.text().find("sm_90a"), std::string::npos) << error.text();
}

TEST_F(EngineTest, ACallbackMayCallTheEngine) {
  cache::Store store(in_folder());
  Engine* self = nullptr;
  std::atomic<int> found{0};
  EngineOptions mine = options(store, good_image);
  mine.event = [&](const Event& event) {
    if (event.kind != QUERN_EVENT_COMPILED) return;
    found += self->ready(toy(1), Miss::compile, nullptr) != nullptr;
    throw 1;  // its own affair
  };
  Engine engine(std::move(mine));
  self = &engine;
  EXPECT_NE(engine.ready(toy(1), Miss::compile, nullptr), nullptr);
  EXPECT_EQ(found, 1);
}

TEST_F(EngineTest, EventsSayWhatHappened) {
  cache::Store store(in_folder());
  Engine engine(options(store, good_image));
  engine.ready(toy(9), Miss::compile, nullptr);
  const std::vector<Event> told = events();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].kind, QUERN_EVENT_COMPILED);
  EXPECT_EQ(told[0].op, "toy");
  EXPECT_EQ(told[0].target, "host");
  EXPECT_EQ(told[0].key, cache::to_hex(engine.find(toy(9))->key));
  EXPECT_EQ(told[0].milliseconds, 2.0);
  EXPECT_EQ(told[0].status, QUERN_OK);
}

}  // namespace
}  // namespace quern::jit::test
