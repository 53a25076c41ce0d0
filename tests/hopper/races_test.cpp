// What ThreadSanitizer sees of asynchronous copies: nothing where a kernel waits for them, a data race where it does
// not. A report ends its process, so each has one of its own. Built with ThreadSanitizer only.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/hopper/device.h"

namespace quern::hopper_tests {
namespace {

// A kernel that is right with `wait` in the place of $, and wrong with `instead`.
struct Exchange {
  const char* name;
  std::string body;
  const char* wait;
  const char* instead;
  std::uint32_t cluster = 1;

  void run(const char* placed, Schedule schedule) const {
    std::string text = body;
    text.replace(text.find('$'), 1, placed);
    Machine machine(schedule);
    const Memory device(std::vector<float>(4096));
    void* global = device.data();
    jit::TensorMap map = encoded(machine, dense(jit::kTensorF32, 4, device.data(), {64, 64}, {32, 8}, 3));
    EXPECT_EQ(hopper_tests::run(machine, "mistakes.cuh", {{"BODY", text}}, {cluster, cluster, 16384}, {&global, &map}),
              "");
  }
};
void PrintTo(const Exchange& exchange, std::ostream* out) { *out << exchange.name; }

class HopperRace : public testing::TestWithParam<Exchange> {};

TEST_P(HopperRace, IsReportedAndOnlyThen) {
  const Exchange& exchange = GetParam();
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a process begun afresh: ThreadSanitizer does not survive fork
  setenv("TSAN_OPTIONS", "halt_on_error=1", 1);
  for (std::uint64_t seed = 0; seed < 10; ++seed) exchange.run(exchange.wait, {true, seed});
  exchange.run(exchange.wait, {});
  EXPECT_DEATH(exchange.run(exchange.instead, {}), "data race(.|\n)*mistakes.cuh");
  EXPECT_DEATH(exchange.run(exchange.instead, {true, 3}), "data race(.|\n)*mistakes.cuh");
}

const std::string kFill =
    "u8* tile = tile_shared() + t * 8; volatile u8* own = tile; *own = 1; fence_async(); sync_block(); ";
const std::string kStore = "tma_store(map, tile_shared(), CacheHint::normal, 0, 0); tma_commit(); ";
const std::string kAdd = "tma_add(map, tile_shared(), CacheHint::normal, 0, 0); tma_commit(); ";
// One of the bytes of the box that t has a part in.
const std::string kReadBack =
    "const volatile u8* back = global + t % 8 * 256 + t / 8 * 8; [[maybe_unused]] const u8 v = *back; ";

const Exchange kExchanges[] = {
    {"TileReadBeforeItHasLanded",
     "if (t == 0) { mbarrier_init(b[0], 1); fence_mbarrier_init(); } sync_block();"
     "if (t == 0) { mbarrier_arrive_expect(b[0], 1024); tma_load(tile_shared(), map, b[0], CacheHint::normal, 0, 0); }"
     "sync_block(); $ const volatile u8* at = tile_shared() + t * 8; [[maybe_unused]] const u8 v = *at;"
     "mbarrier_wait(b[0], 0);",
     "mbarrier_wait(b[0], 0);", ""},
    {"SentWordReadBeforeItHasLanded",
     "if (t == 0) { mbarrier_init(b[0], 1); mbarrier_arrive_expect(b[0], 512); } sync_cluster();"
     "const u32 to = cluster_rank() ^ 1;"
     "store_async(cluster_address(tile_shared() + t * 4, to), 1u, cluster_address(&b[0], to));"
     "$ const volatile u8* at = tile_shared() + t * 4; [[maybe_unused]] const u8 v = *at;"
     "mbarrier_wait_cluster(b[0], 0);",
     "mbarrier_wait_cluster(b[0], 0);", "", 2},
    {"CopyReadBeforeItsArrival",
     "if (t == 0) { mbarrier_init(b[0], 128); fence_mbarrier_init(); } sync_block();"
     "copy_async_4(tile_shared() + t * 4, global + t * 4, true); copy_async_arrive(b[0]);"
     "$ const volatile u8* at = tile_shared() + (t ^ 1) * 4; [[maybe_unused]] const u8 v = *at;"
     "copy_async_commit(); copy_async_wait<0>(); mbarrier_wait(b[0], 0);",
     "mbarrier_wait(b[0], 0);", ""},
    // Whoever runs while the copy of another lands has written something of its own, which that arrival says nothing
    // of.
    {"WhatAnotherWroteWhileACopyArrives",
     "if (t == 0) { mbarrier_init(b[0], 1); fence_mbarrier_init(); } sync_block();"
     "volatile u8* own = tile_shared() + 64; if (t == 32) *own = 1; $"
     "if (t == 0) { copy_async_4(tile_shared(), global, true); copy_async_arrive(b[0]); }"
     "if (t / 32 == 2) { mbarrier_wait(b[0], 0); [[maybe_unused]] const u8 v = *own; }"
     "copy_async_commit(); copy_async_wait<0>();",
     "sync_block();", ""},
    {"TileOverwrittenWhileRead",
     "if (t == 0) { mbarrier_init(b[0], 1); fence_mbarrier_init(); } " + kFill +
         "[[maybe_unused]] const u8 v = *own; $"
         "if (t == 0) { mbarrier_arrive_expect(b[0], 1024); tma_load(tile_shared(), map, b[0], CacheHint::normal, 0, "
         "0); }"
         "mbarrier_wait(b[0], 0);",
     "sync_block();", ""},
    {"StagingOverwrittenBeforeItIsRead",
     kFill + "if (t == 0) { " + kStore + "$ } sync_block(); *own = 2; if (t == 0) tma_wait<0>();",
     "tma_wait_read<0>();", ""},
    {"ResultReadBeforeItIsWritten", kFill + "if (t == 0) { " + kStore + "$ } sync_block(); " + kReadBack,
     "tma_wait<0>();", "tma_wait_read<0>();"},
    {"SumReadBeforeItIsComplete", kFill + "if (t % 64 == 0) { " + kAdd + "$ } sync_block(); " + kReadBack,
     "tma_wait<0>();", "tma_wait_read<0>();"},
};
INSTANTIATE_TEST_SUITE_P(Exchanges, HopperRace, testing::ValuesIn(kExchanges),
                         [](const testing::TestParamInfo<Exchange>& exchange) {
                           return std::string(exchange.param.name);
                         });

}  // namespace
}  // namespace quern::hopper_tests
