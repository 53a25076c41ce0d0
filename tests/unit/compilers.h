// What the tests of the compilers share: trivial kernels, and the demand that a compiler be there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "jit/compiler.h"
#include "jit/error.h"

namespace quern::jit {

inline constexpr const char* kGpuKernel =
    "extern \"C\" __global__ void k(float* p) {\n"
    "  __shared__ float s[32];\n"
    "  s[threadIdx.x] = p[threadIdx.x];\n"
    "  __syncthreads();\n"
    "  p[threadIdx.x] = s[31 - threadIdx.x];\n"
    "}\n";
inline constexpr const char* kHostKernel =
    "extern \"C\" __attribute__((visibility(\"default\"))) int k(int x) { return 2 * x; }\n";

inline CompileJob job_for(const char* target, const char* source) {
  CompileJob job;
  job.target = Target::parse(target);
  job.source = source;
  job.entry = "k";
  return job;
}

// The Error that `action` throws; the test fails when there is none.
inline Error error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error was thrown";
  return Error(QUERN_OK, "");
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// These tests need NVRTC, hipRTC and a C++ compiler. A machine that lacks one fails them, with what was tried and what
// to install: a compiler that goes untested must not look like one that works.
inline void demand(const char* kind) {
  Compilers compilers{CompilerOptions{}};
  for (const CompilerFound& found : compilers.doctor()) {
    if (found.kind == kind) {
      ASSERT_TRUE(found.found) << kind << " is not on this machine, so it cannot be tested.\n"
                               << found.text << '\n'
                               << found.hint;
    }
  }
}

}  // namespace quern::jit
