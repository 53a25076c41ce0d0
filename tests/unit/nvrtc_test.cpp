// NVRTC: images for every target, PTX for a GPU it does not know, logs that name the real line.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>

#include "jit/compile_log.h"
#include "jit/unit.h"
#include "tests/unit/compilers.h"

namespace quern::jit {
namespace {

class NvrtcTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override { demand("nvrtc"); }
  static CompilerOptions options() {
    CompilerOptions made;
    made.nvrtc_in_helper = GetParam();
    return made;
  }
};

INSTANTIATE_TEST_SUITE_P(Where, NvrtcTest, testing::Bool(),
                         [](const auto& where) { return where.param ? "Helper" : "InProcess"; });

TEST_P(NvrtcTest, CompilesForEveryTarget) {
  Compilers compilers(options());
  for (const char* target : {"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a"}) {
    const Compiled compiled = compilers.compile(job_for(target, kGpuKernel));
    EXPECT_EQ(compiled.image.substr(0, 4),
              "\x7f"
              "ELF")
        << target;
    EXPECT_TRUE(contains(compiled.image, "k")) << target;
    EXPECT_EQ(compiled.compiler_kind, "nvrtc");
    EXPECT_EQ(compiled.log, "") << target;
    EXPECT_GT(compiled.registers, 0) << target;
    EXPECT_EQ(compiled.shared_bytes % 1024, 128) << target;  // sm_100 and up reserve a KiB more
    EXPECT_EQ(compiled.local_bytes, 0) << target;
    EXPECT_GT(compiled.milliseconds, 0);
    std::printf("%s: %zu bytes, %.1f ms\n", target, compiled.image.size(), compiled.milliseconds);
  }
}

TEST_P(NvrtcTest, SpillsAndStackAreTold) {
  Compilers compilers(options());
  const Compiled compiled = compilers.compile(job_for("sm_90a",
                                                      "extern \"C\" __global__ void k(float* p, int n) {\n"
                                                      "  float a[100];\n"
                                                      "  for (int i = 0; i < 100; ++i) a[i] = p[i];\n"
                                                      "  p[threadIdx.x] = a[n];\n"
                                                      "}\n"));
  EXPECT_EQ(compiled.local_bytes, 400);
  EXPECT_EQ(compiled.shared_bytes, 0);
}

TEST_P(NvrtcTest, AGpuNewerThanTheCompilerGetsPtx) {
  Compilers compilers(options());
  const Compiled compiled = compilers.compile(job_for("sm_130", kGpuKernel));
  EXPECT_TRUE(contains(compiled.image, ".target sm_")) << compiled.image;
  EXPECT_TRUE(contains(compiled.image, ".entry k(")) << compiled.image;
  EXPECT_EQ(compiled.image.back(), '\0');
  EXPECT_TRUE(contains(compiled.log, "PTX for compute_")) << compiled.log;
  EXPECT_TRUE(contains(compiled.log, "does not know sm_130")) << compiled.log;
}

TEST_P(NvrtcTest, AnErrorNamesTheFileAndLine) {
  Unit unit;
  unit.target = Target::parse("sm_80");
  unit.entry = "k";
  unit.constants = {{"WIDTH", "4"}};
  unit.source = {
      "op/k.cuh",
      "// one\n#include \"common/a.cuh\"\n#include \"common/b.cuh\"\nextern \"C\" __global__ void k(int* p) {\n"
      "  *p = missing_here;\n}\n"};
  const std::string_view b =
      "#pragma once\n#include \"common/a.cuh\"\n\n__device__ int f() { return missing_there; }\n";
  unit.headers = {{"common/a.cuh", "#pragma once\n__device__ int a() { return 1; }\n"}, {"common/b.cuh", b}};
  Compilers compilers(options());
  CompileJob job;
  job.target = unit.target;
  job.entry = unit.entry;
  job.source = render(unit).text;
  const Error error = error_of([&] { compilers.compile(job); });
  EXPECT_EQ(error.status(), QUERN_COMPILE);
  EXPECT_TRUE(contains(error.text(), "op/k.cuh(5)")) << error.text();
  EXPECT_TRUE(contains(error.text(), "common/b.cuh(4)")) << error.text();
  EXPECT_TRUE(contains(error.text(), "nvrtc ")) << error.text();
  EXPECT_TRUE(contains(error.text(), "'k' for sm_80")) << error.text();
}

TEST_P(NvrtcTest, WarningsStayInTheLog) {
  Compilers compilers(options());
  const Compiled compiled =
      compilers.compile(job_for("sm_80", "extern \"C\" __global__ void k() { int unused_variable = 3; }\n"));
  EXPECT_TRUE(contains(compiled.log, "unused_variable")) << compiled.log;
}

TEST_P(NvrtcTest, ThereIsNoIncludePath) {
  Compilers compilers(options());
  for (const char* header : {"cuda_fp16.h", "cstdint", "stdio.h"}) {
    const std::string source = std::string("#include <") + header + ">\n" + kGpuKernel;
    const Error error = error_of([&] { compilers.compile(job_for("sm_80", source.c_str())); });
    EXPECT_EQ(error.status(), QUERN_COMPILE);
    EXPECT_TRUE(contains(error.text(), header)) << error.text();
  }
}

TEST_P(NvrtcTest, ATargetThatDoesNotExistIsUnsupported) {
  Compilers compilers(options());
  const Error error = error_of([&] { compilers.compile(job_for("sm_80a", kGpuKernel)); });
  EXPECT_EQ(error.status(), QUERN_UNSUPPORTED) << error.text();
  EXPECT_TRUE(contains(error.text(), "sm_80a")) << error.text();
}

TEST_P(NvrtcTest, AMissingEntryIsNamed) {
  Compilers compilers(options());
  CompileJob job = job_for("sm_80", kGpuKernel);
  job.entry = "other";
  const Error error = error_of([&] { compilers.compile(job); });
  EXPECT_EQ(error.status(), QUERN_COMPILE);
  EXPECT_TRUE(contains(error.text(), "'other'")) << error.text();
  EXPECT_TRUE(contains(error.text(), "it has: k")) << error.text();
}

TEST_P(NvrtcTest, AHugeLogKeepsBothEnds) {
  std::string source = kGpuKernel;
  for (int i = 0; i < 3000; ++i)
    source += "__device__ int f" + std::to_string(i) + "() { int unused_variable; return 0; }\n";
  Compilers compilers(options());
  const Compiled compiled = compilers.compile(job_for("sm_80", source.c_str()));
  EXPECT_LE(compiled.log.size(), kLogLimit);
  EXPECT_TRUE(contains(compiled.log, "bytes of the log are left out here"));
  EXPECT_TRUE(contains(compiled.log, "f0()")) << compiled.log.substr(0, 300);
  EXPECT_TRUE(contains(compiled.log, "f2999()")) << compiled.log.substr(compiled.log.size() - 300);
}

TEST_P(NvrtcTest, SeveralThreadsAtOnce) {
  Compilers compilers(options());
  std::vector<std::string> images(8);
  std::vector<std::thread> threads;
  for (std::string& image : images) {
    threads.emplace_back([&] { image = compilers.compile(job_for("sm_90a", kGpuKernel)).image; });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(images[0].empty());
  EXPECT_EQ(std::count(images.begin(), images.end(), images[0]), 8);
}

TEST_P(NvrtcTest, TheJobsOwnStandardReplacesOurs) {
  Compilers compilers(options());
  CompileJob job = job_for("sm_80", "template <class T> concept C = true;\nextern \"C\" __global__ void k() {}\n");
  EXPECT_EQ(error_of([&] { compilers.compile(job); }).status(), QUERN_COMPILE);
  job.options = {"-std=c++20", "-use_fast_math"};
  EXPECT_EQ(compilers.compile(job).log, "");
}

TEST(Nvrtc, DoctorTellsItsTargets) {
  demand("nvrtc");
  Compilers compilers{CompilerOptions{}};
  for (const CompilerFound& found : compilers.doctor()) {
    if (found.kind != "nvrtc") continue;
    EXPECT_TRUE(contains(found.targets, "sm_80,")) << found.targets;
    EXPECT_EQ(found.path.front(), '/');
    std::printf("nvrtc %s at %s: %s\n", found.build.c_str(), found.path.c_str(), found.targets.c_str());
  }
}

}  // namespace
}  // namespace quern::jit
