// What doctor is told: never a failure, always an answer.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "jit/driver.h"
#include "tests/drivers/fake/cuda.h"
#include "tests/drivers/fake/hip.h"
#include "tests/drivers/support.h"

namespace quern::jit::test {
namespace {

TEST(FindDrivers, NamesDevicesOfWhatIsThere) {
  *fake_function<cuda::fake::State*()>("cuda", "libcuda.so.1", "fake_cuda_state")() = {};
  *fake_function<hip::fake::State*()>("hip", "libamdhip64.so.6", "fake_hip_state")() = {};
  const std::vector<DriverFound> found = find_drivers({fake_folder("cuda"), fake_folder("hip")});
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].kind, "cuda");
  EXPECT_TRUE(found[0].found);
  EXPECT_EQ(found[0].path, fake_folder("cuda") + "/libcuda.so.1");
  EXPECT_EQ(found[0].version, "13.0");
  EXPECT_EQ(found[0].devices,
            (std::vector<std::string>{"0: Fake GPU 0, sm_90a, 78 SMs", "1: Fake GPU 1, sm_90a, 78 SMs"}));
  EXPECT_EQ(found[1].kind, "hip");
  EXPECT_EQ(found[1].version, "6.3.42134");
  EXPECT_EQ(found[1].devices.at(0), "0: Fake Instinct 0, gfx90a, 104 CUs");
  EXPECT_EQ(found[2].kind, "host");
  EXPECT_TRUE(found[2].found);
}

TEST(FindDrivers, SaysWhatIsMissingAndWhatToDo) {
  auto* state = fake_function<cuda::fake::State*()>("cuda", "libcuda.so.1", "fake_cuda_state")();
  *state = {};
  state->devices = 0;
  const std::vector<DriverFound> found = find_drivers({fake_folder("cuda")});
  EXPECT_FALSE(found[0].found);
  EXPECT_TRUE(contains(found[0].text, "finds no device")) << found[0].text;
  EXPECT_FALSE(found[0].hint.empty());
  *state = {};
}

TEST(FindDrivers, DoesNotFailOnThisMachine) {
  for (const DriverFound& driver : find_drivers({})) {
    EXPECT_NE(driver.found, driver.devices.empty()) << driver.kind;
    EXPECT_NE(driver.found, !driver.text.empty()) << driver.kind << ": " << driver.text;
  }
}

}  // namespace
}  // namespace quern::jit::test
