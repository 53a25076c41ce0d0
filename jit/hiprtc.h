// hipRTC's interface as far as it is called here, declared by ourselves so that building needs no ROCm.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace quern::jit {

// The numbers are hipRTC's (hiprtcResult).
enum HiprtcResult : int {
  kHiprtcSuccess = 0,
  kHiprtcOutOfMemory = 1,
};

using HiprtcProgram = struct HiprtcProgramOpaque*;

// X(function, its parameters); every one returns a hiprtcResult.
#define QUERN_HIPRTC_FUNCTIONS(X)                                                                          \
  X(hiprtcCreateProgram, (HiprtcProgram * program, const char* source, const char* name, int header_count, \
                          const char** headers, const char** header_names))                                \
  X(hiprtcDestroyProgram, (HiprtcProgram * program))                                                       \
  X(hiprtcCompileProgram, (HiprtcProgram program, int option_count, const char** options))                 \
  X(hiprtcGetProgramLogSize, (HiprtcProgram program, std::size_t* size))                                   \
  X(hiprtcGetProgramLog, (HiprtcProgram program, char* log))                                               \
  X(hiprtcGetCodeSize, (HiprtcProgram program, std::size_t* size))                                         \
  X(hiprtcGetCode, (HiprtcProgram program, char* image))

// Besides, returning a string: const char* hiprtcGetErrorString(hiprtcResult).
using HiprtcGetErrorString = const char*(int result);

struct HiprtcFunctions {
#define QUERN_DECLARE(name, parameters) int(*name) parameters = nullptr;  // NOLINT(bugprone-macro-parentheses)
  QUERN_HIPRTC_FUNCTIONS(QUERN_DECLARE)
#undef QUERN_DECLARE
  HiprtcGetErrorString* hiprtcGetErrorString = nullptr;
};

}  // namespace quern::jit
