// A pinned compiler: of what is read, of what is made, and of what others have made.
// SPDX-License-Identifier: Apache-2.0
#include "tests/race/fixture.h"

namespace quern::jit::test {
namespace {

class PinTest : public EngineTest {
 protected:
  // An engine whose compiler is of this build.
  EngineOptions of_build(Service& service, const std::string& build, const std::string& pin, int* compiled) {
    EngineOptions made = options(service, [build, compiled](const CompileJob& job) {
      ++*compiled;
      Compiled image = good_image(job);
      image.compiler_kind = "toycc";
      image.compiler_build = build;
      return image;
    });
    made.compiler_pin = pin;
    return made;
  }
};

TEST_F(PinTest, AnotherCompilerMakesNothing) {
  Service service({in_folder(), {}, 2});
  int compiled = 0;
  Engine engine(of_build(service, "2", "toycc 1", &compiled));
  const Error error = error_of([&] { engine.ready(toy(1), Miss::compile, nullptr); });
  EXPECT_EQ(error.status(), QUERN_NOT_FOUND);
  EXPECT_TRUE(contains(error.text(), "\"toycc 1\"") && contains(error.text(), "\"toycc 2\"")) << error.text();
  EXPECT_EQ(error_of([&] { engine.warm(toy(1), false); }).status(), QUERN_NOT_FOUND);
  EXPECT_EQ(service.store().stats().entries, 0u);
  EXPECT_EQ(engine.stats().compile_errors, 2u);
}

TEST_F(PinTest, TwoHostsWithDifferentPinsKeepARowEach) {
  int compiled = 0;
  for (int round = 0; round < 3; ++round) {
    for (const char* build : {"1", "2"}) {
      Service service({in_folder(), {}, 2});
      Engine engine(of_build(service, build, std::string("toycc ") + build, &compiled));
      EXPECT_NE(engine.ready(toy(1), Miss::compile, nullptr), nullptr);
    }
  }
  EXPECT_EQ(compiled, 2) << "each once, whoever came between";
}

// What another build of the compiler made is as good: a toolkit that is upgraded, or gone back, compiles nothing.
TEST_F(PinTest, WithoutOneAnUpgradedToolkitCompilesNothing) {
  int compiled = 0;
  for (const char* build : {"12.9", "13.0", "12.8"}) {
    Service service({in_folder(), {}, 2});
    Engine engine(of_build(service, build, "", &compiled));
    EXPECT_NE(engine.ready(toy(1), Miss::compile, nullptr), nullptr) << build;
  }
  EXPECT_EQ(compiled, 1);
}

TEST_F(PinTest, WhatAnUnpinnedHostMadeWithThatCompilerServes) {
  int compiled = 0;
  {
    Service service({in_folder(), {}, 2});
    Engine engine(of_build(service, "1", "", &compiled));
    engine.warm(toy(1), false);
  }
  Service service({in_folder(), {}, 2});
  Engine same(of_build(service, "1", "toycc 1", &compiled));
  EXPECT_NE(same.ready(toy(1), Miss::cached_only, nullptr), nullptr);
  Engine other(of_build(service, "2", "toycc 2", &compiled));
  EXPECT_EQ(error_of([&] { other.ready(toy(1), Miss::cached_only, nullptr); }).status(), QUERN_MISS);
  EXPECT_NE(other.ready(toy(1), Miss::compile, nullptr), nullptr);
  EXPECT_EQ(compiled, 2);
  Engine unpinned(of_build(service, "3", "", &compiled));
  EXPECT_NE(unpinned.ready(toy(1), Miss::cached_only, nullptr), nullptr);
  EXPECT_EQ(compiled, 2) << "and its row is still its own";
}

}  // namespace
}  // namespace quern::jit::test
