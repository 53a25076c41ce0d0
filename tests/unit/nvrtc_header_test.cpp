// Our declarations of NVRTC against those of its header: checked by the compiler, function by function.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <nvrtc.h>

#include <type_traits>

#include "jit/nvrtc.h"

namespace quern::jit {
namespace {

// Equal once the header's handle and result types are replaced by ours.
template <class T>
struct Ours {
  using type = T;
};
template <>
struct Ours<nvrtcProgram> {
  using type = NvrtcProgram;
};
template <>
struct Ours<nvrtcProgram*> {
  using type = NvrtcProgram*;
};
template <class... P>
auto translate(nvrtcResult (*)(P...)) -> int (*)(typename Ours<P>::type...);

#define QUERN_COMPARE(name, parameters)                                          \
  static_assert(std::is_same_v<decltype(translate(&::name)), int(*) parameters>, \
                #name " is declared otherwise in nvrtc.h");
QUERN_NVRTC_FUNCTIONS(QUERN_COMPARE)
#undef QUERN_COMPARE
static_assert(std::is_same_v<decltype(&::nvrtcGetErrorString), const char* (*)(nvrtcResult)>);
static_assert(sizeof(nvrtcResult) == sizeof(int) && sizeof(nvrtcProgram) == sizeof(NvrtcProgram));

TEST(NvrtcHeader, ResultsHaveTheSameNumbers) {
  EXPECT_EQ(static_cast<int>(kNvrtcSuccess), NVRTC_SUCCESS);
  EXPECT_EQ(static_cast<int>(kNvrtcOutOfMemory), NVRTC_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(static_cast<int>(kNvrtcInvalidOption), NVRTC_ERROR_INVALID_OPTION);
  EXPECT_EQ(static_cast<int>(kNvrtcCompilation), NVRTC_ERROR_COMPILATION);
}

}  // namespace
}  // namespace quern::jit
