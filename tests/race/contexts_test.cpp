// Several contexts of one process: what one has compiled the others need not.
// SPDX-License-Identifier: Apache-2.0
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include "tests/race/fixture.h"

namespace quern::jit::test {
namespace {

using namespace std::chrono_literals;

class ContextsTest : public EngineTest {
 protected:
  // One of several contexts: an engine of its own, and what the process has.
  struct Context {
    template <class MakeOptions>
    Context(const cache::StoreOptions& in, const MakeOptions& make)
        : service(Service::shared({in, {}, 2}, &found)), engine(make(*service)) {}
    bool found = false;
    std::shared_ptr<Service> service;
    Engine engine;
  };
  std::unique_ptr<Context> make(const cache::StoreOptions& in) {
    auto compile = [this](const CompileJob& job) {
      compiled++;
      std::this_thread::sleep_for(20ms);
      return good_image(job);
    };
    return std::make_unique<Context>(in, [&](Service& service) { return options(service, compile); });
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

// What cannot be stored is kept for the others, the latest of it.
TEST_F(ContextsTest, WhatIsKeptIsBounded) {
  cache::StoreOptions none;
  none.no_file = true;
  Service service({none, {}, 2});
  cache::Entry image;
  image.image.assign(Service::kMostKept / 8, 'x');
  constexpr std::uint64_t kImages = 20;
  for (std::uint64_t i = 0; i < kImages; ++i) service.keep({0, i}, image);
  std::uint64_t there = 0;
  for (std::uint64_t i = 0; i < kImages; ++i) there += service.kept({0, i}) != nullptr;
  EXPECT_EQ(there, 8U);
  EXPECT_EQ(service.kept({0, 0}), nullptr);
  EXPECT_NE(service.kept({0, kImages - 1}), nullptr);
  // One that is kept again counts once; one that is forgotten leaves its room to others.
  service.keep({0, kImages - 1}, image);
  EXPECT_NE(service.kept({0, kImages - 8}), nullptr);
  service.forget({0, kImages - 1});
  service.keep({0, 99}, image);
  EXPECT_NE(service.kept({0, kImages - 8}), nullptr);
  image.image.assign(Service::kMostKept + 1, 'x');
  service.keep({0, 100}, image);
  EXPECT_EQ(service.kept({0, 100}), nullptr);
  EXPECT_NE(service.kept({0, 99}), nullptr);
}

// A bundle that was replaced by another file under its path is that file to whoever comes later.
TEST_F(ContextsTest, ANewContextSeesTheBundleThatIsThere) {
  cache::StoreOptions first = in_folder();
  auto filled = make(first);
  ASSERT_NE(filled->engine.ready(toy(1), Miss::compile, nullptr), nullptr);
  const std::string bundle = folder.path + "/kernels.db", other = folder.path + "/other.db";
  std::uint64_t count = 0;
  const auto none = [](const cache::Listed&) { return false; };
  ASSERT_EQ(filled->service->store().export_bundle(bundle, none, &count).what, cache::AdminError::What::none);
  ASSERT_EQ(filled->service->store().export_bundle(other, nullptr, &count).what, cache::AdminError::What::none);
  ASSERT_EQ(count, 1U);
  cache::StoreOptions with;
  with.no_file = true, with.bundles = {bundle};
  auto before = make(with), beside = make(with);
  EXPECT_TRUE(beside->found);
  EXPECT_NE(before->engine.ready(toy(1), Miss::compile, nullptr), nullptr);
  EXPECT_EQ(compiled, 2) << "the first bundle is empty";
  std::filesystem::rename(other, bundle);
  auto after = make(with);
  EXPECT_FALSE(after->found);
  EXPECT_NE(after->engine.ready(toy(1), Miss::cached_only, nullptr), nullptr);
  EXPECT_EQ(compiled, 2);
  auto later = make(with);
  EXPECT_TRUE(later->found);
  EXPECT_EQ(later->service, after->service);
  // So is one whose file was written to in its place.
  std::filesystem::last_write_time(bundle, std::filesystem::last_write_time(bundle) + 1s);
  EXPECT_FALSE(make(with)->found);
}

TEST_F(ContextsTest, AForkedChildWaitsForNobodysCompilation) {
  cache::StoreOptions none;
  none.no_file = true;
  Service service({none, {}, 2});
  std::atomic<bool> begun{false}, go{false};
  Engine engine(options(service, [&](const CompileJob& job) {
    begun = true;
    while (!go) std::this_thread::sleep_for(1ms);
    return good_image(job);
  }));
  std::thread compiling([&] { engine.ready(toy(1), Miss::compile, nullptr); });
  while (!begun) std::this_thread::sleep_for(1ms);
  const pid_t child = fork();
  if (child == 0) {
    alarm(10);
    Service own({none, {}, 2});
    Engine fresh(options(own, good_image));
    _exit(fresh.ready(toy(1), Miss::compile, nullptr) != nullptr ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  go = true;
  compiling.join();
}

TEST_F(ContextsTest, EqualOptionsAreOneServiceAndOthersAreNot) {
  bool found = true;
  const Service::Options first{in_folder(), {}, 2};
  const std::shared_ptr<Service> one = Service::shared(first, &found);
  EXPECT_FALSE(found);
  // Who is told does not matter.
  Service::Options same = first;
  same.store.notice = [](std::string_view) {};
  EXPECT_EQ(Service::shared(same, &found), one);
  EXPECT_TRUE(found);
  std::vector<Service::Options> others(8, first);
  others[0].store.folder += "2";
  others[1].store.read_only = true;
  others[2].store.limit_bytes++;
  others[3].store.bundles = {"/a.quern"};
  others[4].store.mac_key.emplace();
  others[5].compilers.nvrtc_in_helper = true;
  others[6].compilers.search_dirs = {"/a"};
  others[7].compile_threads = 3;
  for (const Service::Options& other : others) {
    EXPECT_NE(Service::shared(other, &found), one);
    EXPECT_FALSE(found);
  }
}

TEST_F(ContextsTest, ANoticeGoesToTheContextWhoseCallFoundItOut) {
  cache::StoreOptions in = in_folder();
  in.bundles = {folder.path + "/not-there.quern"};  // told of at the first look
  bool found = false;
  const std::shared_ptr<Service> service = Service::shared({in, {}, 2}, &found);
  std::vector<std::string> told[2];
  auto listening = [&](int who) {
    EngineOptions mine = options(*service, good_image);
    mine.notice = [&told, who](std::string_view text) { told[who].emplace_back(text); };
    return mine;
  };
  Engine first(listening(0)), second(listening(1));
  EXPECT_NE(second.ready(toy(1), Miss::compile, nullptr), nullptr);
  EXPECT_NE(first.ready(toy(1), Miss::compile, nullptr), nullptr);
  EXPECT_TRUE(told[0].empty());
  ASSERT_EQ(told[1].size(), 1U);
  EXPECT_TRUE(contains(told[1][0], "not-there.quern")) << told[1][0];
}

TEST_F(ContextsTest, CompilationsAtOnceAreCountedOverAllContexts) {
  bool found = false;
  const std::shared_ptr<Service> service = Service::shared({in_folder(), {}, 2}, &found);
  std::atomic<int> now{0}, most{0};
  const auto compile = [&](const CompileJob& job) {
    most = std::max<int>(most, ++now);
    std::this_thread::sleep_for(20ms);
    --now;
    return good_image(job);
  };
  std::vector<std::unique_ptr<Engine>> engines;
  for (int i = 0; i < 4; ++i) engines.push_back(std::make_unique<Engine>(options(*service, compile)));
  std::vector<std::thread> threads;
  for (std::uint32_t i = 0; i < 8; ++i)
    threads.emplace_back([&, i] { engines[i % 4]->ready(toy(i), Miss::compile, nullptr); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(most, 2);
}

}  // namespace
}  // namespace quern::jit::test
