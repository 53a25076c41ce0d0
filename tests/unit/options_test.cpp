// Which compiler options a kernel may bring.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "jit/backend.h"
#include "tests/unit/compilers.h"

namespace quern::jit {
namespace {

TEST(Options, OrdinaryOnesPass) {
  EXPECT_NO_THROW(check_options({"-use_fast_math", "--use_fast_math", "-lineinfo", "-DX=a/b", "-O3", "-ffast-math",
                                 "--maxrregcount=64", "-std=c++20", "-munsafe-fp-atomics",
                                 "-fgpu-flush-denormals-to-zero", "--extra-device-vectorization"}));
}

TEST(Options, WhatReachesForFilesOrTargetsIsRefused) {
  for (const char* option : {"-I/usr/include",
                             "-I",
                             "-isystem",
                             "-include",
                             "--include-path=x",
                             "--pre-include=x",
                             "/etc/passwd",
                             "file.cpp",
                             "@options",
                             "-",
                             "-o",
                             "-lm",
                             "-L/lib",
                             "-Wl,-rpath=x",
                             "-fplugin=x",
                             "-specs=x",
                             "-arch=sm_90",
                             "--gpu-architecture=sm_90",
                             "--offload-arch=gfx90a",
                             "-march=native",
                             "-save-temps",
                             "-fprofile-use=/x",
                             "-S",
                             "-E",
                             "-c",
                             "-MD",
                             "-MF",
                             "-H",
                             "-fprofile-generate",
                             "-fdump-tree-all",
                             "-ftime-trace",
                             "-Xassembler",
                             "-Xclang",
                             "-mllvm",
                             "--coverage",
                             "-fsanitize=address",
                             "-Wl,x",
                             "-Wa,--MD=x",
                             "-mtune=native",
                             "-ffile-prefix-map=a=b",
                             "-DX=__has_include(<a>)",
                             "-DP(a,b)=a##b",
                             "-DX=__DATE__",
                             "-DX=a\nb",
                             "-D",
                             "-D=1",
                             "-Xptxas=-o,x",
                             "--ptxas-options=-v,-o=x",
                             "--ptxas-options=-dlcm=ca,-o=x",
                             ""}) {
    const Error error = error_of([&] { check_options({"-O3", option}); });
    EXPECT_EQ(error.status(), QUERN_INVALID) << option;
    EXPECT_TRUE(contains(error.text(), '\'' + std::string(option) + '\'')) << error.text();
  }
}

TEST(Options, ThatTheLibrarysOwnKernelsTakeAreAllowed) { check_options({"--ptxas-options=-O2", "-Xptxas=-dlcm=cg"}); }

TEST(Options, AreCheckedBeforeAnyCompilerIsLookedFor) {
  Compilers compilers{CompilerOptions{}};
  CompileJob job = job_for("gfx90a", kGpuKernel);
  job.options = {"-I/tmp"};
  EXPECT_EQ(error_of([&] { compilers.compile(job); }).status(), QUERN_INVALID);
}

TEST(Options, AStandardReplacesOurs) {
  EXPECT_EQ(merge_options({"-O2", "-std=c++17"}, {"-DA"}), (std::vector<std::string>{"-O2", "-std=c++17", "-DA"}));
  EXPECT_EQ(merge_options({"-O2", "-std=c++17"}, {"-std=c++20"}), (std::vector<std::string>{"-O2", "-std=c++20"}));
}

}  // namespace
}  // namespace quern::jit
