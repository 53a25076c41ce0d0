// Stores that do not store, images that the driver refuses, memory that runs out.
// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <new>

#include "tests/race/fixture.h"

namespace quern::jit::test {
namespace {

TEST_F(EngineTest, AStoreThatTakesNothingLosesNoKernel) {
  cache::StoreOptions nothing;
  nothing.no_file = true;
  Service service({nothing, {}, 2});
  Engine engine(options(service, good_image));
  EXPECT_NE(engine.ready(toy(1), Miss::compile, nullptr), nullptr);
  EXPECT_EQ(engine.stats().stored, 0u);
  EXPECT_EQ(engine.stats().store_errors, 0u) << "nothing was meant to be written";
  const Error error = error_of([&] { engine.warm(toy(2), false); });
  EXPECT_EQ(error.status(), QUERN_IO) << "warming is for the store: " << error.text();
}

TEST_F(EngineTest, AStoreThatCannotBeOpenedLosesNoKernel) {
  cache::StoreOptions bad;
  bad.folder = "/proc/quern-cannot-be-made";
  Service service({bad, {}, 2});
  Engine engine(options(service, good_image));
  EXPECT_NE(engine.ready(toy(1), Miss::compile, nullptr), nullptr);
  EXPECT_NE(engine.ready(toy(2), Miss::compile, nullptr), nullptr);
}

class RefusedImage : public EngineTest, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    Service service({in_folder(), {}, 2});
    Engine engine(options(service, [](const CompileJob& job) {
      Compiled compiled = good_image(job);
      compiled.image = GetParam();
      return compiled;
    }));
    ASSERT_EQ(engine.warm(toy(1), false).outcome, Outcome::compiled);
  }
};

TEST_P(RefusedImage, IsRejectedAndCompiledAnewOnce) {
  std::atomic<int> compiled{0};
  const auto compile = [&](const CompileJob& job) {
    compiled++;
    return good_image(job);
  };
  {
    Service service({in_folder(), {}, 2});
    Engine engine(options(service, compile));
    EXPECT_NE(engine.ready(toy(1), Miss::compile, nullptr), nullptr);
    EXPECT_EQ(compiled, 1);
    EXPECT_EQ(engine.stats().rejected, 1u);
    EXPECT_EQ(engine.stats().cache_hits, 0u);
    EXPECT_EQ(count_events(QUERN_EVENT_REJECTED), 1);
  }
  Service service({in_folder(), {}, 2});
  Engine engine(options(service, compile));
  EXPECT_NE(engine.ready(toy(1), Miss::cached_only, nullptr), nullptr) << "the good image took its place";
  EXPECT_EQ(compiled, 1);
}

TEST_P(RefusedImage, IsAMissWhereCompilingIsForbidden) {
  Service service({in_folder(), {}, 2});
  Engine engine(options(service, good_image));
  EXPECT_EQ(error_of([&] { engine.ready(toy(1), Miss::cached_only, nullptr); }).status(), QUERN_MISS);
  EXPECT_EQ(engine.stats().rejected, 1u);
  EXPECT_EQ(engine.stats().compiled, 0u);
}

INSTANTIATE_TEST_SUITE_P(Images, RefusedImage, testing::Values("for sm_80", "empty"),
                         [](const auto& image) { return image.index == 0 ? "OtherDevice" : "WithoutTheKernel"; });

// A row with another row's image, and a checksum that fits: refused and compiled anew, never launched.
TEST_F(EngineTest, ASwappedRowIsRefusedWhateverItsChecksumSays) {
  std::atomic<int> compiled{0};
  const auto compile = [&](const CompileJob& job) {
    compiled++;
    return good_image(job);
  };
  cache::Key keys[2];
  {
    Service service({in_folder(), {}, 2});
    Engine engine(options(service, compile));
    for (std::uint32_t n = 0; n < 2; ++n) keys[n] = engine.warm(toy(n + 1), false).key;
    cache::Listed first, second;
    ASSERT_EQ(service.store().inspect(keys[0], &first).what, cache::AdminError::What::none);
    ASSERT_EQ(service.store().inspect(keys[1], &second).what, cache::AdminError::What::none);
    first.entry.image = second.entry.image;
    ASSERT_EQ(service.store().put(keys[0], first.entry), cache::Put::stored);
  }
  Service service({in_folder(), {}, 2});
  Engine engine(options(service, compile));
  EXPECT_EQ(error_of([&] { engine.ready(toy(1), Miss::cached_only, nullptr); }).status(), QUERN_MISS);
  EXPECT_EQ(engine.stats().rejected, 1u);
  EXPECT_EQ(count_events(QUERN_EVENT_REJECTED), 1);
  EXPECT_NE(engine.ready(toy(1), Miss::compile, nullptr), nullptr);
  EXPECT_NE(engine.ready(toy(2), Miss::cached_only, nullptr), nullptr);
  EXPECT_EQ(compiled, 3);
}

// A device without memory says nothing about the image: the row stays, and the next load hits.
TEST_F(EngineTest, ADeviceOutOfMemoryBlamesNoImage) {
  std::atomic<int> compiled{0};
  const auto compile = [&](const CompileJob& job) {
    compiled++;
    return good_image(job);
  };
  Service service({in_folder(), {}, 2});
  {
    Engine engine(options(service, compile));
    engine.warm(toy(1), false);
  }
  Engine engine(options(service, compile));
  driver.poor = true;
  EXPECT_EQ(error_of([&] { engine.ready(toy(1), Miss::compile, nullptr); }).status(), QUERN_NO_MEMORY);
  driver.poor = false;
  EXPECT_NE(engine.ready(toy(1), Miss::cached_only, nullptr), nullptr);
  EXPECT_EQ(engine.stats().rejected, 0u);
  EXPECT_EQ(engine.stats().cache_hits, 1u);
  EXPECT_EQ(compiled, 1);
}

TEST_F(EngineTest, AFreshImageThatIsRefusedIsAnErrorNotALoop) {
  Service service({in_folder(), {}, 2});
  std::atomic<int> compiled{0};
  Engine engine(options(service, [&](const CompileJob& job) {
    compiled++;
    Compiled bad = good_image(job);
    bad.image = "for sm_80";
    return bad;
  }));
  EXPECT_EQ(error_of([&] { engine.ready(toy(1), Miss::compile, nullptr); }).status(), QUERN_UNSUPPORTED);
  EXPECT_EQ(compiled, 1);
  EXPECT_EQ(error_of([&] { engine.ready(toy(1), Miss::compile, nullptr); }).status(), QUERN_UNSUPPORTED);
  EXPECT_EQ(compiled, 2);
}

TEST_F(EngineTest, WhatCannotBeCompiledIsNotCompiledAtEveryCall) {
  Service service({in_folder(), {}, 2});
  std::atomic<int> compiled{0};
  Engine engine(options(service, [&](const CompileJob& job) -> Compiled {
    compiled++;
    throw Error(QUERN_COMPILE, "no such type, said of " + job.entry, 6);
  }));
  for (int call = 0; call < 100; ++call) {
    const Error error = error_of([&] { engine.ready(toy(1), Miss::compile, nullptr); });
    EXPECT_EQ(error.status(), QUERN_COMPILE);
    EXPECT_EQ(error.text(), "no such type, said of toy_kernel");
    EXPECT_EQ(error.native(), 6);
  }
  EXPECT_EQ(compiled, 2) << "once more at once, and then after a while";
  EXPECT_EQ(error_of([&] { engine.ready(toy(2), Miss::compile, nullptr); }).status(), QUERN_COMPILE);
  EXPECT_EQ(compiled, 3) << "another kernel is another matter";
}

TEST_F(EngineTest, WarmingCompilesNothingThatCannotBeKept) {
  for (const char* what : {"no file", "read only", "refused"}) {
    cache::StoreOptions options = in_folder();
    if (what == std::string("no file")) options.no_file = true;
    if (what == std::string("read only")) options.read_only = true;
    if (what == std::string("refused")) {
      options.folder = folder.path + "/link";
      ASSERT_EQ(symlink("/tmp", options.folder.c_str()), 0);
    }
    Service service({options, {}, 2});
    int compiled = 0;
    Engine engine(this->options(service, [&](const CompileJob& job) {
      ++compiled;
      return good_image(job);
    }));
    EXPECT_EQ(error_of([&] { engine.warm(toy(1), false); }).status(), QUERN_IO) << what;
    EXPECT_EQ(compiled, 0) << what;
  }
}

TEST_F(EngineTest, OutOfMemoryWhileCompilingLeavesTheEngineUsable) {
  Service service({in_folder(), {}, 2});
  std::atomic<bool> poor{true};
  Engine engine(options(service, [&](const CompileJob& job) {
    if (poor) throw std::bad_alloc();
    return good_image(job);
  }));
  EXPECT_THROW(engine.ready(toy(1), Miss::compile, nullptr), std::bad_alloc);
  poor = false;
  EXPECT_NE(engine.ready(toy(1), Miss::compile, nullptr), nullptr);
}

TEST_F(EngineTest, AnUnknownSpecIsItsOpsError) {
  Service service({in_folder(), {}, 2});
  EngineOptions mine = options(service, good_image);
  mine.describe = [](const Spec&) -> Unit { throw Error(QUERN_INVALID, "no such op"); };
  Engine engine(std::move(mine));
  for (const Miss miss : {Miss::compile, Miss::cached_only, Miss::background}) {
    EXPECT_EQ(error_of([&] { engine.ready(toy(1), miss, nullptr); }).text(), "no such op");
  }
  EXPECT_EQ(error_of([&] { engine.warm(toy(1), false); }).text(), "no such op");
}

}  // namespace
}  // namespace quern::jit::test
