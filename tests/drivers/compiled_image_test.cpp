// What real compilers make must pass for an image: a check that is too strict would refuse every kernel.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "jit/compiler.h"
#include "jit/gpu_image.h"

namespace quern::jit::test {
namespace {

// A kernel with what puts sections into an image: constants, static shared memory, a call that is not inlined.
constexpr const char* kSource = R"(
__constant__ float table[16] = {1, 2, 3};
__device__ __attribute__((noinline)) float twice(float x) { return 2 * x; }
struct Large {
  int numbers[300];
};
extern "C" __global__ void none() {}
extern "C" __global__ void k(float* p, Large unused, char also) {
  __shared__ float s[64];
  s[threadIdx.x] = p[threadIdx.x] * table[threadIdx.x % 16];
  __syncthreads();
  p[threadIdx.x] = twice(s[63 - threadIdx.x]);
}
)";

std::string image_for(const char* target) {
  Compilers compilers({});
  return compilers.compile({Target::parse(target), kSource, "k", {}}).image;
}

TEST(CompiledImage, NvrtcsCubinsPass) {
  for (const char* target : {"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a"}) {
    const std::string image = image_for(target);
    EXPECT_TRUE(is_cuda_image(image)) << target;
    EXPECT_FALSE(is_hip_image(image)) << target;
    EXPECT_EQ(cuda_parameters(image, "k"), 3) << target;
    EXPECT_EQ(cuda_parameters(image, "none"), 0) << target;
    EXPECT_FALSE(is_cuda_image(std::string_view(image).substr(0, image.size() - 1))) << target << " cut by a byte";
  }
}

TEST(CompiledImage, HiprtcsCodeObjectsPass) {
  const std::string image = image_for("gfx90a");
  EXPECT_TRUE(is_hip_image(image));
  EXPECT_FALSE(is_cuda_image(image));
}

}  // namespace
}  // namespace quern::jit::test
