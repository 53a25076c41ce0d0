// Every function of the layer through the compilers, without a GPU.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>

#include "jit/error.h"
#include "sources/common_headers.h"
#include "tests/hopper/kernel.h"

namespace quern::hopper_tests {
namespace {

void expect_code(const Defines& defines) {
  const auto start = std::chrono::steady_clock::now();
  const jit::Compiled& compiled = compile("sm_90a", "every_function.cuh", defines);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  EXPECT_GT(compiled.image.size(), 1000u);
  EXPECT_EQ(compiled.log, "") << "such as: setmaxnreg ignored, products serialised";
  std::string what;
  for (const auto& [name, value] : defines) what += name + '=' + value + ' ';
  std::printf("%s%.0f ms, %d registers\n", what.c_str(), took.count(), compiled.registers);
}

TEST(HopperCompiles, TheInstrumentsOfOneThread) { expect_code({{"PART", "0"}}); }
TEST(HopperCompiles, EveryTypeAndMajorOfTheProducts) { expect_code({{"PART", "1"}}); }
TEST(HopperCompiles, EveryNOfTheProducts) {
  for (int n = 8; n <= 256; n += 8) {
    const Defines defines = {{"PART", "2"}, {"N", std::to_string(n)}};
    expect_code(defines);
    EXPECT_EQ(compile("sm_90a", "every_function.cuh", defines).local_bytes, 0) << "registers are spilled";
  }
}

// What a GPU is to run later must not fail there for want of compiling.
TEST(HopperCompiles, TheKernelsOfTheOtherTests) {
  const auto compiles = [](const char* file, const Defines& defines) {
    const jit::Compiled& compiled = compile("sm_90a", file, defines);
    EXPECT_EQ(compiled.log, "") << file;
    EXPECT_EQ(compiled.local_bytes, 0) << file;
  };
  for (const char* rank : {"1", "2", "3", "4", "5"}) compiles("copies.cuh", {{"RANK", rank}});
  for (const char* part : {"0", "1", "2", "3", "4"}) compiles("instruments.cuh", {{"PART", part}});
  for (const char* form_a : {"0", "1", "2"}) {
    for (const char* form_b : {"0", "1"}) {
      compiles("products.cuh", {{"TYPE_A", "bf16"},
                                {"TYPE_B", "bf16"},
                                {"A_FORM", form_a},
                                {"B_FORM", form_b},
                                {"N_FIRST", "8"},
                                {"N_STEP", "96"},
                                {"N_COUNT", "2"}});
    }
  }
  for (const char* type : {"bf16", "f16", "i8"}) {
    for (const char* count : {"8", "16", "32", "56", "64", "88", "96", "128"})
      compiles("sums.cuh", {{"TYPE", type}, {"COUNT", count}});
  }
  for (const char* type : {"bf16", "f16", "e4m3", "e5m2"}) compiles("accumulator.cuh", {{"TYPE", type}, {"N", "128"}});
  compiles("accumulator.cuh", {{"TYPE", "bf16"}, {"N", "176"}});
  compiles("pipeline.cuh", {{"BUG", "0"}});
  compiles("last_arrival.cuh", {});
  // The type, and which of both operands are mn-major.
  const char* const kinds[][3] = {{"bf16", "0", "0"}, {"e4m3", "0", "0"}, {"bf16", "1", "0"}, {"f16", "1", "1"}};
  for (const auto& [type, a_mn, b_mn] : kinds) {
    for (const char* cluster : {"1", "2"}) {
      compiles("gemm.cuh", {{"TYPE", type},
                            {"TILE_N", "128"},
                            {"STAGES", "4"},
                            {"CONSUMERS", "2"},
                            {"CLUSTER", cluster},
                            {"STORE_BY_TMA", cluster[0] == '1' ? "0" : "1"},
                            {"A_MN", a_mn},
                            {"B_MN", b_mn},
                            {"BUG", "0"}});
    }
  }
}

TEST(HopperHeaders, AreThereForTargetsThatHaveTheInstruments) {
  const auto has = [](const char* target, const char* name) {
    for (const jit::File& header : ops::common_headers(jit::Target::parse(target))) {
      if (header.name == name) return true;
    }
    return false;
  };
  for (const char* target : {"sm_90a", "host"}) {
    EXPECT_TRUE(has(target, "common/sm90/warpgroup.cuh")) << target;
    EXPECT_TRUE(has(target, "common/sm90/warpgroup_backend.cuh")) << target;
  }
  for (const char* target : {"sm_80", "sm_89", "sm_90", "sm_100a", "sm_120a", "gfx90a", "host64"})
    EXPECT_FALSE(has(target, "common/sm90/warpgroup.cuh")) << target;
  for (const char* target : {"sm_90", "sm_90a", "sm_100a", "sm_103a", "sm_120a", "host"})
    EXPECT_TRUE(has(target, "common/sm90/tma.cuh")) << target;
  for (const char* target : {"sm_80", "sm_89", "gfx90a", "host64"})
    EXPECT_FALSE(has(target, "common/sm90/tma.cuh")) << target;
  try {
    compile("sm_80", "every_function.cuh", {{"PART", "0"}});
    ADD_FAILURE() << "a kernel for Hopper was compiled for sm_80";
  } catch (const Error& error) {
    EXPECT_NE(error.text().find("\"common/sm90/wgmma.cuh\" is not among the headers"), std::string::npos)
        << error.text();
  }
}

}  // namespace
}  // namespace quern::hopper_tests
