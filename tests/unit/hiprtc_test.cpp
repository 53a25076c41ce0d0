// hipRTC in the helper: images for AMD, and a clear error where it aborts its process.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "tests/unit/compilers.h"

namespace quern::jit {
namespace {

class HiprtcTest : public testing::Test {
 protected:
  void SetUp() override { demand("hiprtc"); }
  Compilers compilers{CompilerOptions{}};
};

TEST_F(HiprtcTest, CompilesForGfx90a) {
  const Compiled compiled = compilers.compile(job_for("gfx90a", kGpuKernel));
  EXPECT_EQ(compiled.image.substr(0, 4),
            "\x7f"
            "ELF");
  EXPECT_EQ(compiled.compiler_kind, "hiprtc");
  EXPECT_FALSE(compiled.compiler_build.empty());
  EXPECT_EQ(compiled.shared_bytes, 128);
  EXPECT_GT(compiled.registers, 0);
  EXPECT_GE(compiled.local_bytes, 0);
  std::printf("hiprtc %s: %zu bytes, %.1f ms\n", compiled.compiler_build.c_str(), compiled.image.size(),
              compiled.milliseconds);
}

// Every release either compiles for gfx942 or is found not to know it; which of the two is printed.
TEST_F(HiprtcTest, Gfx942CompilesOrIsClearlyUnsupported) {
  try {
    const Compiled compiled = compilers.compile(job_for("gfx942", kGpuKernel));
    EXPECT_EQ(compiled.image.substr(0, 4),
              "\x7f"
              "ELF");
    std::printf("hiprtc %s compiles for gfx942\n", compiled.compiler_build.c_str());
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), QUERN_UNSUPPORTED) << error.text();
    EXPECT_TRUE(contains(error.text(), "gfx942")) << error.text();
    EXPECT_TRUE(contains(error.text(), "hiprtc ")) << error.text();
    std::printf("%s\n", error.text().c_str());
  }
}

TEST_F(HiprtcTest, ATargetThatNoReleaseKnowsIsUnsupported) {
  const Error error = error_of([&] { compilers.compile(job_for("gfx999", kGpuKernel)); });
  EXPECT_EQ(error.status(), QUERN_UNSUPPORTED) << error.text();
  EXPECT_TRUE(contains(error.text(), "gfx999")) << error.text();
}

TEST_F(HiprtcTest, AnErrorNamesTheFileAndLine) {
  const Error error = error_of([&] {
    compilers.compile(
        job_for("gfx90a", "#line 7 \"op/k.cuh\"\nextern \"C\" __global__ void k(int* p) { *p = missing; }\n"));
  });
  EXPECT_EQ(error.status(), QUERN_COMPILE);
  EXPECT_TRUE(contains(error.text(), "op/k.cuh:7:")) << error.text();
  EXPECT_TRUE(contains(error.text(), "'k' for gfx90a")) << error.text();
}

TEST_F(HiprtcTest, TheSystemsHeadersAreOutOfReach) {
  const std::string source = std::string("#include <stdio.h>\n") + kGpuKernel;
  EXPECT_EQ(error_of([&] { compilers.compile(job_for("gfx90a", source.c_str())); }).status(), QUERN_COMPILE);
}

}  // namespace
}  // namespace quern::jit
