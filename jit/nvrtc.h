// NVRTC's interface as far as it is called here, declared by ourselves so that building needs no toolkit.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace quern::jit {

// The numbers are NVRTC's (nvrtcResult).
enum NvrtcResult : int {
  kNvrtcSuccess = 0,
  kNvrtcOutOfMemory = 1,
  kNvrtcInvalidOption = 5,
  kNvrtcCompilation = 6,
};

using NvrtcProgram = struct NvrtcProgramOpaque*;

// X(function, its parameters); every one returns an nvrtcResult.
#define QUERN_NVRTC_FUNCTIONS(X)                                                                         \
  X(nvrtcVersion, (int* major, int* minor))                                                              \
  X(nvrtcGetNumSupportedArchs, (int* count))                                                             \
  X(nvrtcGetSupportedArchs, (int* archs))                                                                \
  X(nvrtcCreateProgram, (NvrtcProgram * program, const char* source, const char* name, int header_count, \
                         const char* const* headers, const char* const* header_names))                   \
  X(nvrtcDestroyProgram, (NvrtcProgram * program))                                                       \
  X(nvrtcCompileProgram, (NvrtcProgram program, int option_count, const char* const* options))           \
  X(nvrtcGetProgramLogSize, (NvrtcProgram program, std::size_t* size))                                   \
  X(nvrtcGetProgramLog, (NvrtcProgram program, char* log))                                               \
  X(nvrtcGetCUBINSize, (NvrtcProgram program, std::size_t* size))                                        \
  X(nvrtcGetCUBIN, (NvrtcProgram program, char* image))                                                  \
  X(nvrtcGetPTXSize, (NvrtcProgram program, std::size_t* size))                                          \
  X(nvrtcGetPTX, (NvrtcProgram program, char* text))

// Asked for where it is there (12.8): nvrtcSetFlowCallback(program, callback, its second parameter), called now and
// then during a compilation, which ends when it returns 1.
using NvrtcSetFlowCallback = int(NvrtcProgram program, int (*callback)(void* own, void* theirs), void* own);

// Besides, returning a string: const char* nvrtcGetErrorString(nvrtcResult).
using NvrtcGetErrorString = const char*(int result);

struct NvrtcFunctions {
#define QUERN_DECLARE(name, parameters) int(*name) parameters = nullptr;  // NOLINT(bugprone-macro-parentheses)
  QUERN_NVRTC_FUNCTIONS(QUERN_DECLARE)
#undef QUERN_DECLARE
  NvrtcGetErrorString* nvrtcGetErrorString = nullptr;
  NvrtcSetFlowCallback* nvrtcSetFlowCallback = nullptr;  // may be null
};

}  // namespace quern::jit
