// What AddressSanitizer and ThreadSanitizer find in kernels. Each mistake is made in a process of its own, which the
// report ends. Built with a sanitizer only.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "jit/sanitizer.h"
#include "tests/host/kernels.h"

namespace quern::host_tests {
namespace {

class HostSanitizer : public testing::Test {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style,
                   "threadsafe");  // begins the child afresh, since the sanitizers do not survive fork
    setenv("TSAN_OPTIONS", "halt_on_error=1", 1);
  }
  static void run(const std::string& body, const Options& options = {}) {
    std::vector<unsigned> data(128, 1);
    Kernel kernel(compile_body(body), "k", 512, options);
    if (const std::string error = kernel(2, data.data()); !error.empty()) std::fprintf(stderr, "%s\n", error.c_str());
  }
};

#ifdef QUERN_BUILT_WITH_ASAN

TEST_F(HostSanitizer, FindsReadsPastTheEndOfGlobalMemory) {
  EXPECT_DEATH(run("QUERN_KERNEL(k, 64, 1, unsigned* data) { data[0] = data[128 + lane()]; }"), "heap-buffer-overflow");
}

TEST_F(HostSanitizer, FindsCopiesFromPastTheEndOfGlobalMemory) {
  const std::string body =
      "QUERN_KERNEL(k, 64, 1, unsigned* data) { copy_async_16(dynamic_shared() + 16 * lane(), data + 4 * lane() + 4, "
      "true);"
      " copy_async_commit(); copy_async_wait<0>(); }";
  EXPECT_DEATH(run(body), "heap-buffer-overflow");
  EXPECT_DEATH(run(body, {.seeded = true, .seed = 3}), "heap-buffer-overflow");
}

TEST_F(HostSanitizer, FindsOverrunsOfSharedMemory) {
  EXPECT_DEATH(run("QUERN_KERNEL(k, 64, 1, unsigned* data) { dynamic_shared()[512 + lane()] = 1; }"),
               "use-after-poison");
  EXPECT_DEATH(run("QUERN_KERNEL(k, 64, 1, unsigned* data) { QUERN_SHARED(float, s, 63); QUERN_SHARED(float, u, 63);"
                   " s[thread_index()] = u[0] = 1; }"),
               "use-after-poison");
}

TEST_F(HostSanitizer, FindsOverrunsOfAThreadsOwnArray) {
  EXPECT_DEATH(
      run("QUERN_KERNEL(k, 64, 1, unsigned* data) { volatile unsigned own[32]; own[thread_index()] = 1; sync_block();"
          " data[0] = own[data[1]]; }"),
      "stack-buffer-overflow");
}

#endif
#ifdef QUERN_BUILT_WITH_TSAN

// `mistake` is the condition under which the barrier is left out.
std::string exchange(const char* barrier) {
  return std::string(
             "QUERN_KERNEL(k, 128, 1, unsigned* data) { QUERN_SHARED(unsigned, s, 128); const int t = thread_index();"
             " for (int i = 0; i < 3; ++i) { s[t] = t; ") +
         barrier + " if (block_index(0) == 0) data[t] = s[(t + 1) % 128]; sync_block(); } }";
}

TEST_F(HostSanitizer, NamesTheLineOfAMissingBarrier) {
  EXPECT_DEATH(run(exchange("")), "data race.*(.|\n)*test.cuh");
  EXPECT_DEATH(run(exchange("sync_warp();")), "data race");
  EXPECT_DEATH(run(exchange(""), {.seeded = true, .seed = 4}), "data race");
}

TEST_F(HostSanitizer, FindsAMissingBarrierBetweenReadAndWrite) {
  EXPECT_DEATH(
      run("QUERN_KERNEL(k, 128, 1, unsigned* data) { QUERN_SHARED(unsigned, s, 128); const int t = thread_index();"
          " for (int i = 0; i < 3; ++i) { s[t] = t; sync_block(); if (s[(t + 37) % 128] == 1000) data[0] = 1; } }"),
      "data race");
}

TEST_F(HostSanitizer, DoesNotTakeAShuffleForABarrier) {
  EXPECT_DEATH(run("QUERN_KERNEL(k, 32, 1, unsigned* data) { QUERN_SHARED(unsigned, s, 32); s[lane()] = lane();"
                   " shuffle(1, 0); if (block_index(0) == 0) data[lane()] = s[lane() ^ 1]; }"),
               "data race");
}

TEST_F(HostSanitizer, FindsACopyReadByAnotherThreadWithoutBarrier) {
  EXPECT_DEATH(
      run("QUERN_KERNEL(k, 64, 1, unsigned* data) { unsigned* s = reinterpret_cast<unsigned*>(dynamic_shared());"
          " const int t = thread_index(); copy_async_4(s + t, data + t, true); copy_async_commit();"
          " copy_async_wait<0>(); if (s[t ^ 1] == 77) atomic_add(data + 100, 1u); }"),
      "data race");
}

TEST_F(HostSanitizer, ReportsNothingWhereBarriersAre) {
  run(exchange("sync_block();"));
  for (std::uint64_t seed = 0; seed < 20; ++seed) run(exchange("sync_block();"), {.seeded = true, .seed = seed});
}

#endif

}  // namespace
}  // namespace quern::host_tests
