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
  Service service({in_folder(), {}, 2});
  Engine engine(options(service, must_not_compile));
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
    Service service({in_folder(), {}, 2});
    Engine engine(options(service, good_image));
    EXPECT_EQ(engine.warm(toy(1), true).outcome, Outcome::absent);
    EXPECT_EQ(engine.warm(toy(1), false).outcome, Outcome::compiled);
    EXPECT_EQ(engine.warm(toy(1), false).outcome, Outcome::hit);
    EXPECT_EQ(engine.warm(toy(1), true).outcome, Outcome::hit);
    EXPECT_EQ(engine.specialised(), std::vector<Spec>{toy(1)});
    EXPECT_EQ(engine.find(toy(1)), nullptr) << "warming loads nothing";
    EXPECT_EQ(driver.loads, 0);
  }
  for (const Miss miss : {Miss::compile, Miss::cached_only, Miss::background}) {
    Service service({in_folder(), {}, 2});
    Engine engine(options(service, must_not_compile));
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
  Service service({in_folder(), {}, 2});
  std::atomic<bool> begun{false}, go{false};
  Engine engine(options(service, [&](const CompileJob& job) {
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
  Service service({in_folder(), {}, 2});
  std::atomic<int> compiled{0};
  std::atomic<bool> go{false};
  Engine engine(options(service, [&](const CompileJob& job) {
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
  Service service({in_folder(), {}, 2});
  std::atomic<bool> broken{true};
  Engine engine(options(service, [&](const CompileJob& job) {
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

// One has compiled it, another finds it in the cache: both load, and one of the two has loaded for nothing.
TEST_F(EngineTest, WhoComesSecondWithAKernelUnloadsIt) {
  Service service({in_folder(), {}, 2});
  std::atomic<int> loading{0};
  driver.while_loading = [&] {
    ++loading;
    for (int i = 0; i < 5'000 && loading < 2; ++i) std::this_thread::sleep_for(1ms);
  };
  {
    Engine engine(options(service, good_image));
    const Kernel* compiled = nullptr;
    std::thread compiling([&] { compiled = engine.ready(toy(1), Miss::compile, nullptr); });
    while (loading == 0) std::this_thread::sleep_for(1ms);
    const Kernel* const cached = engine.ready(toy(1), Miss::cached_only, nullptr);
    compiling.join();
    EXPECT_EQ(cached, compiled);
    EXPECT_EQ(driver.loads, 2);
    EXPECT_EQ(driver.unloads, 1);
    EXPECT_EQ(engine.stats().kernels_loaded, 1u);
  }
  EXPECT_EQ(driver.unloads, 2);
}

// What find() gives is whole, from the first moment on.
TEST_F(EngineTest, AKernelIsPublishedWithItsNumbers) {
  cache::StoreOptions memory = in_folder();
  memory.no_file = true;
  Service service({memory, {}, 2});
  Engine engine(options(service, good_image));
  constexpr std::uint32_t kKernels = 200;
  std::atomic<std::uint32_t> next{0};
  std::thread reading([&] {
    for (std::uint32_t n = 0; n < kKernels; ++n) {
      const Kernel* kernel = nullptr;
      next = n + 1;
      while (kernel == nullptr) kernel = engine.find(toy(n));
      const std::int32_t registers = kernel->loaded.registers;
      EXPECT_EQ(registers, 42);
    }
  });
  for (std::uint32_t n = 0; n < kKernels; ++n) {
    while (next <= n) std::this_thread::yield();
    engine.ready(toy(n), Miss::compile, nullptr);
  }
  reading.join();
}

TEST_F(EngineTest, WaitingEndsWithTheLastCompilationInTheBackground) {
  Service service({in_folder(), {}, 2});
  std::atomic<bool> go{false};
  Engine engine(options(service, [&](const CompileJob& job) {
    while (!go) std::this_thread::sleep_for(1ms);
    if (job.source.find("N 2") != std::string::npos) throw Error(QUERN_COMPILE, "broken template");
    return good_image(job);
  }));
  EXPECT_EQ(engine.wait(0ms), 0u);
  for (std::uint32_t n = 0; n < 3; ++n)
    EXPECT_EQ(error_of([&] { engine.ready(toy(n), Miss::background, nullptr); }).status(), QUERN_PENDING);
  EXPECT_EQ(engine.wait(0ms), 3u);
  EXPECT_EQ(engine.wait(20ms), 3u);
  std::thread later([&] {
    std::this_thread::sleep_for(20ms);
    go = true;
  });
  EXPECT_EQ(engine.wait(1h), 0u);
  later.join();
  for (std::uint32_t n = 0; n < 2; ++n) EXPECT_NE(engine.find(toy(n)), nullptr);
}

TEST_F(EngineTest, CancellingDropsWhatHasNotBegun) {
  Service service({in_folder(), {}, 1});
  std::atomic<bool> go{false};
  std::atomic<int> begun{0};
  EngineOptions one = options(service, [&](const CompileJob& job) {
    ++begun;
    while (!go) std::this_thread::sleep_for(1ms);
    return good_image(job);
  });
  Engine engine(std::move(one));
  for (std::uint32_t n = 0; n < 6; ++n)
    EXPECT_EQ(error_of([&] { engine.ready(toy(n), Miss::background, nullptr); }).status(), QUERN_PENDING);
  while (begun == 0) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(engine.cancel(), 5u);
  EXPECT_EQ(engine.cancel(), 0u);
  EXPECT_EQ(engine.stats().pending, 1u);
  // Asked for again while the queue still holds what was dropped: compiled once.
  EXPECT_EQ(error_of([&] { engine.ready(toy(3), Miss::background, nullptr); }).status(), QUERN_PENDING);
  go = true;
  EXPECT_EQ(engine.wait(1h), 0u);
  EXPECT_EQ(begun, 2);
  EXPECT_NE(engine.find(toy(0)), nullptr);
  EXPECT_NE(engine.find(toy(3)), nullptr);
  EXPECT_EQ(engine.find(toy(1)), nullptr);
}

TEST_F(EngineTest, UnloadedKernelsAreLoadedAnew) {
  Service service({in_folder(), {}, 2});
  Engine engine(options(service, good_image));
  std::vector<const Kernel*> before;
  for (std::uint32_t n = 0; n < 100; ++n) before.push_back(engine.ready(toy(n), Miss::compile, nullptr));
  EXPECT_EQ(engine.unload([](const Kernel& kernel) { return kernel.spec.words[0] % 2 == 0; }), 50u);
  EXPECT_EQ(driver.unloads, 50);
  EXPECT_EQ(engine.stats().kernels_loaded, 50u);
  for (std::uint32_t n = 0; n < 100; ++n) EXPECT_EQ(engine.find(toy(n)), n % 2 == 0 ? nullptr : before[n]);
  const Kernel* const again = engine.ready(toy(4), Miss::cached_only, nullptr);
  EXPECT_NE(again, before[4]) << "who still has the old one must be able to tell";
  EXPECT_EQ(before[4]->loaded.module, nullptr);
  EXPECT_NE(again->loaded.module, nullptr);
  EXPECT_EQ(engine.unload([](const Kernel&) { return true; }), 51u);
  EXPECT_EQ(engine.unload([](const Kernel&) { return true; }), 0u);
  EXPECT_EQ(driver.loads, driver.unloads);
}

TEST_F(EngineTest, NoMoreKernelsAreLoadedThanAllowed) {
  Service service({in_folder(), {}, 2});
  EngineOptions few = options(service, good_image);
  few.max_kernels = 2;
  Engine engine(std::move(few));
  engine.ready(toy(1), Miss::compile, nullptr);
  engine.ready(toy(2), Miss::compile, nullptr);
  const Error error = error_of([&] { engine.ready(toy(3), Miss::compile, nullptr); });
  EXPECT_EQ(error.status(), QUERN_NO_MEMORY);
  EXPECT_TRUE(contains(error.text(), "max_kernels")) << error.text();
  EXPECT_NE(engine.ready(toy(2), Miss::compile, nullptr), nullptr);
  engine.unload([](const Kernel& kernel) { return kernel.spec.words[0] == 1; });
  EXPECT_NE(engine.ready(toy(3), Miss::cached_only, nullptr), nullptr) << "it was stored, though not loaded";
  EXPECT_EQ(count_events(QUERN_EVENT_REJECTED), 0);
}

// The second try may succeed where the first was the machine's fault; after that a failure is told without a compiler.
TEST_F(EngineTest, WhatIsRefusedTwiceIsNotCompiledAtEveryCall) {
  Service service({in_folder(), {}, 2});
  std::atomic<int> compiled{0};
  Engine engine(options(service, [&](const CompileJob&) -> Compiled {
    ++compiled;
    throw Error(QUERN_COMPILE, "broken template");
  }));
  for (int i = 0; i < 5; ++i) {
    const Error error = error_of([&] { engine.ready(toy(1), Miss::compile, nullptr); });
    EXPECT_EQ(error.status(), QUERN_COMPILE);
    EXPECT_EQ(error.text(), "broken template");
  }
  EXPECT_EQ(compiled, 2);
}

TEST_F(EngineTest, FailuresAreKeptWhole) {
  Service service({in_folder(), {}, 2});
  const std::string log = "error: " + std::string(100'000, 'x');
  std::atomic<bool> broken{true};
  Engine engine(options(service, [&](const CompileJob& job) {
    if (broken) throw Error(QUERN_COMPILE, log);
    return good_image(job);
  }));
  EXPECT_TRUE(engine.failures().empty());
  error_of([&] { engine.ready(toy(5), Miss::compile, nullptr); });
  const std::vector<CompileFailure> failures = engine.failures();
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_EQ(failures[0].text, log);
  EXPECT_EQ(failures[0].status, QUERN_COMPILE);
  EXPECT_EQ(failures[0].key, engine.warm(toy(5), true).key);
  EXPECT_TRUE(contains(failures[0].name, "N=5")) << failures[0].name;
  broken = false;
  engine.ready(toy(5), Miss::compile, nullptr);
  EXPECT_TRUE(engine.failures().empty());
}

// A compiler that is asked to stop when its context goes: nobody waits for what it would make.
TEST_F(EngineTest, DestructionEndsTheCompilersThatCanBeEnded) {
  Service service({in_folder(), {}, 2});
  std::atomic<int> begun{0}, ended{0};
  {
    Engine engine(options(service, [&](const CompileJob& job) -> Compiled {
      ++begun;
      for (int i = 0; i < 10'000 && !*job.cancelled; ++i) std::this_thread::sleep_for(1ms);
      ended += *job.cancelled;
      throw Error(QUERN_COMPILE, "ended");
    }));
    error_of([&] { engine.ready(toy(1), Miss::background, nullptr); });
    while (begun == 0) std::this_thread::sleep_for(1ms);
  }
  EXPECT_EQ(ended, 1);
}

TEST_F(EngineTest, DestructionWaitsForWhatRunsInTheBackground) {
  Service service({in_folder(), {}, 2});
  std::atomic<int> begun{0}, finished{0};
  {
    Engine engine(options(service, [&](const CompileJob& job) {
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
  Service service({in_folder(), {}, 2});
  Engine engine(options(service, good_image));
  const Error error = error_of([&] { engine.ready(toy(1), Miss::compile, driver.captured_stream); });
  EXPECT_EQ(error.status(), QUERN_CAPTURING);
  EXPECT_NE(error.text().find("N=1"), std::string::npos) << error.text();
  EXPECT_EQ(driver.loads, 0);
  const Kernel* kernel = engine.ready(toy(1), Miss::compile, nullptr);
  EXPECT_EQ(engine.ready(toy(1), Miss::compile, driver.captured_stream), kernel);
}

TEST_F(EngineTest, WithoutADeviceItWarmsAndDoesNotLoad) {
  Service service({in_folder(), {}, 2});
  EngineOptions warming = options(service, good_image);
  warming.driver = nullptr;
  Engine engine(std::move(warming));
  EXPECT_EQ(engine.warm(toy(1), false).outcome, Outcome::compiled);
  EXPECT_EQ(error_of([&] { engine.ready(toy(1), Miss::compile, nullptr); }).status(), QUERN_INVALID);
}

TEST_F(EngineTest, AKernelForAnotherFamilyIsWarmedButNotLoaded) {
  Service service({in_folder(), {}, 2});
  Engine engine(options(service, good_image));
  Spec foreign = toy(1);
  foreign.target = Target::parse("sm_90a").tag();
  EXPECT_EQ(engine.warm(foreign, false).outcome, Outcome::compiled);
  const Error error = error_of([&] { engine.ready(foreign, Miss::compile, nullptr); });
  EXPECT_EQ(error.status(), QUERN_UNSUPPORTED);
  EXPECT_NE(error.text().find("sm_90a"), std::string::npos) << error.text();
}

TEST_F(EngineTest, ACallbackMayCallTheEngine) {
  Service service({in_folder(), {}, 2});
  Engine* self = nullptr;
  std::atomic<int> found{0};
  EngineOptions mine = options(service, good_image);
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
  Service service({in_folder(), {}, 2});
  Engine engine(options(service, good_image));
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
