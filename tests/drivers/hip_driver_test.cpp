// The HIP driver against a fake libamdhip64, and against a real one without a device where that is installed.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "jit/driver.h"
#include "tests/drivers/fake/bench.h"
#include "tests/drivers/fake/hip.h"
#include "tests/drivers/support.h"

namespace quern::jit::test {
namespace {

using hip::fake::State;
using hip::fake::stream_of;
using namespace std::string_view_literals;

class HipDriver : public testing::Test {
 protected:
  void SetUp() override {
    state = fake_function<State*()>("hip", "libamdhip64.so.6", "fake_hip_state")();
    *state = State{};
  }
  static std::unique_ptr<Driver> open(int device = 0) { return open_hip(device, {fake_folder("hip")}); }
  State* state = nullptr;
};

TEST_F(HipDriver, TellsWhatTheDeviceItselfReports) {
  const auto driver = open(1);
  const DeviceInfo& info = driver->device();
  EXPECT_EQ(info.limits.target.name(), "gfx90a") << "without its features";
  EXPECT_EQ(info.limits.warp_size, 64u);
  EXPECT_EQ(info.limits.shared_per_block, 65536u);
  EXPECT_EQ(info.limits.shared_per_sm, 65536u) << "a release that does not tell: that of a block";
  EXPECT_FALSE(info.limits.async_copy);
  EXPECT_EQ(info.device_type, kDLROCM);
  EXPECT_EQ(info.device_id, 1);
  EXPECT_EQ(info.sm_count, 104u);
  EXPECT_EQ(info.l2_bytes, 8u << 20);
  EXPECT_EQ(info.memory_bytes, std::uint64_t{64} << 30);
  EXPECT_EQ(info.name, "Fake Instinct 1");
}

TEST_F(HipDriver, SaysWhyItCannotBeOpened) {
  EXPECT_TRUE(contains(error_of([] { open(2); }).text(), "device_id is 2"));
  state->arch = "";
  EXPECT_EQ(error_of([] { open(); }).status(), QUERN_UNSUPPORTED) << "no architecture name";
  state->devices = 0;
  const Error error = error_of([] { open(); });
  EXPECT_EQ(error.status(), QUERN_NOT_FOUND);
  EXPECT_TRUE(contains(error.text(), "hipErrorNoDevice (100)")) << error.text();
}

TEST_F(HipDriver, LoadsLaunchesAndUnloads) {
  const auto driver = open(1);
  Loaded loaded = driver->load(code_object(), "kernel", 65536);
  EXPECT_EQ(state->mode_at_load, hip::kCaptureModeRelaxed);
  EXPECT_EQ(loaded.registers, 96);
  Launch launch;
  launch.grid[0] = 104;
  launch.programmatic = true;
  EXPECT_EQ(driver->launch(loaded, launch, nullptr, 0), 0);
  EXPECT_EQ(state->grid_x, 104u);
  EXPECT_EQ(state->device_at_launch, 1);
  launch.cluster[0] = 2;
  EXPECT_EQ(driver->launch(loaded, launch, nullptr, 0), hip::kNotSupported) << "there are no clusters";
  EXPECT_EQ(state->launched, 1);
  driver->unload(loaded);
  EXPECT_EQ(state->unloaded, 1);
}

TEST_F(HipDriver, MapsFailures) {
  const auto driver = open();
  EXPECT_EQ(error_of([&] { driver->load(cubin(), "kernel", 0); }).status(), QUERN_UNSUPPORTED) << "CUDA's machine";
  EXPECT_EQ(error_of([&] { driver->load(code_object(), "kernel", 65537); }).status(), QUERN_INVALID);
  state->module_load = 209;
  EXPECT_EQ(error_of([&] { driver->load(code_object(), "kernel", 0); }).status(), QUERN_UNSUPPORTED);
  state->module_load = 2;
  EXPECT_EQ(error_of([&] { driver->load(code_object(), "kernel", 0); }).status(), QUERN_DRIVER);
  state->module_load = 0;
  state->module_function = hip::kNotFound;
  EXPECT_EQ(error_of([&] { driver->load(code_object(), "kernel", 0); }).status(), QUERN_NOT_FOUND);
  EXPECT_EQ(state->unloaded, 1);
  EXPECT_EQ(error_of([&] { driver->fail(719, "x"); }).status(), QUERN_STICKY);
  TensorMap map;
  EXPECT_EQ(error_of([&] { driver->encode_tensor_map({}, map); }).status(), QUERN_UNSUPPORTED);
}

TEST_F(HipDriver, KnowsStreams) {
  const auto driver = open();
  state->captured = stream_of(0);
  EXPECT_TRUE(driver->capturing(stream_of(0)));
  EXPECT_FALSE(driver->capturing(nullptr));
  EXPECT_EQ(driver->stream_device_mismatch(stream_of(0)), 0);
  EXPECT_EQ(driver->stream_device_mismatch(stream_of(1)), 2);
  EXPECT_EQ(driver->stream_device_mismatch(nullptr), 0);
  const Loaded loaded = driver->load(code_object(), "kernel", 0);
  Launch launch;
  launch.stream = stream_of(1);
  EXPECT_EQ(driver->launch(loaded, launch, nullptr, 0), hip::kInvalidHandle);
  EXPECT_EQ(state->launched, 0);
}

TEST(HipTarget, IsFoundWhereverItStands) {
  EXPECT_EQ(hip::find_target("name\0\0\0gfx942:sramecc+:xnack-\0\1\2"sv).name(), "gfx942");
  EXPECT_EQ(hip::find_target("\0gfx\0gfxabc is no name\0gfx1100\0"sv).name(), "gfx1100");
  EXPECT_EQ(hip::find_target("name\0gfx90a"sv).name(), "gfx90a");
  EXPECT_EQ(hip::find_target(std::string_view()), Target());
  EXPECT_EQ(hip::find_target("a\0b\0gf"sv), Target());
}

// Whatever of ROCm is or is not here: a driver with a device, or a clear refusal; never a crash.
TEST(RealHip, OpensOrRefusesCleanly) {
  try {
    const auto driver = open_hip(0, {});
    EXPECT_EQ(driver->device().limits.target.family(), Family::hip);
    EXPECT_GT(driver->device().sm_count, 0u);
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), QUERN_NOT_FOUND) << error.text();
    EXPECT_TRUE(contains(error.text(), "libamdhip64")) << error.text();
  }
}

TEST_F(HipDriver, MeasuresAndGivesEverythingBack) {
  const auto driver = open();
  expect_bench_gives_back(*driver, *state, stream_of(2));
}

}  // namespace
}  // namespace quern::jit::test
