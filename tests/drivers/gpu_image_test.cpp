// What is let through to a driver that takes a pointer without a length.
// SPDX-License-Identifier: Apache-2.0
#include "jit/gpu_image.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/drivers/support.h"

namespace quern::jit::test {
namespace {

TEST(GpuImage, KnowsItsOwnMachine) {
  EXPECT_TRUE(is_cuda_image(cubin()));
  EXPECT_FALSE(is_cuda_image(code_object()));
  EXPECT_TRUE(is_hip_image(code_object()));
  EXPECT_FALSE(is_hip_image(cubin()));
  EXPECT_FALSE(is_cuda_image({}));
  EXPECT_FALSE(is_hip_image({}));
  EXPECT_TRUE(is_hip_image("__CLANG_OFFLOAD_BUNDLE__ and so on"));
}

TEST(GpuImage, EveryTruncationIsSeen) {
  const std::string whole = cubin();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_FALSE(is_cuda_image(std::string_view(whole).substr(0, length))) << length;
  }
}

TEST(GpuImage, PtxEndsWithItsOnlyNul) {
  const std::string ptx = "//\n.version 8.0\n.target sm_80\n";
  EXPECT_FALSE(is_cuda_image(ptx));
  EXPECT_TRUE(is_cuda_image(std::string_view(ptx.c_str(), ptx.size() + 1)));
  EXPECT_FALSE(is_cuda_image(ptx + '\0' + "more" + '\0'));
  EXPECT_FALSE(is_cuda_image(std::string("text\0", 5)));
}

TEST(GpuImage, TellsHowManyParametersAKernelHas) {
  for (const int count : {0, 1, 7}) EXPECT_EQ(cuda_parameters(cubin_with_notes(count), "kernel"), count);
  EXPECT_EQ(cuda_parameters(cubin_with_notes(3), "kern"), -1) << "another kernel's";
  EXPECT_EQ(cuda_parameters(cubin(), "kernel"), -1);
  EXPECT_EQ(cuda_parameters("//\n.version 8.0\n", "kernel"), -1);
  // Bytes of parameters, and none of them noted in the way that is known.
  std::string other = cubin_with_notes(2);
  for (std::size_t at = 0; (at = other.find("\x17\xc", at)) != std::string::npos;) other[at] = '\x45';
  EXPECT_EQ(cuda_parameters(other, "kernel"), -1);
}

// Headers of any content are read within the bytes that there are; the address sanitizer would say otherwise.
// A driver takes it for a cubin by its first bytes, and reads on wherever they point.
TEST(GpuImage, WhatBeginsAsAnElfFileIsNoPtx) {
  const std::string text = std::string("\x7f") + "ELF\n.version 8.0\n.target sm_90\n";
  EXPECT_FALSE(is_cuda_image(std::string(text.c_str(), text.size() + 1)));
  EXPECT_TRUE(is_cuda_image(std::string(text.c_str() + 4, text.size() + 1 - 4)));
}

TEST(GpuImage, DamagedHeadersAreReadWithinBounds) {
  std::mt19937 random(1);
  const std::string whole = cubin_with_notes(3);
  int let_through = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string image = whole;
    for (int flips = 0; flips < 3; ++flips) image[random() % image.size()] = static_cast<char>(random());
    // An exact copy on the heap, so that a read past its end is one past an allocation.
    const std::vector<char> bytes(image.begin(), image.end());
    let_through += is_cuda_image({bytes.data(), bytes.size()});
    EXPECT_LT(cuda_parameters({bytes.data(), bytes.size()}, "kernel"), 100);
  }
  EXPECT_GT(let_through, 0) << "damage in what is not checked passes: that is the checksum's job";
  EXPECT_LT(let_through, 20000);
}

}  // namespace
}  // namespace quern::jit::test
