// The CUDA driver against a fake libcuda: what it asks for, in which context, and what it makes of every answer.
// SPDX-License-Identifier: Apache-2.0
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "jit/driver.h"
#include "tests/drivers/fake/bench.h"
#include "tests/drivers/fake/cuda.h"
#include "tests/drivers/support.h"

namespace quern::jit::test {
namespace {

using cuda::fake::context_of;
using cuda::fake::State;
using cuda::fake::stream_of;

class CudaDriver : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    state = fake_function<State*()>(GetParam(), "libcuda.so.1", "fake_cuda_state")();
    *state = State{};
    set_current = fake_function<void(cuda::Context)>(GetParam(), "libcuda.so.1", "fake_cuda_set_current");
    current = fake_function<cuda::Context()>(GetParam(), "libcuda.so.1", "fake_cuda_current");
    capture_mode = fake_function<int()>(GetParam(), "libcuda.so.1", "fake_cuda_capture_mode");
    set_current(nullptr);
  }
  std::unique_ptr<Driver> open(int device = 0) { return open_cuda(device, {fake_folder(GetParam())}); }

  State* state = nullptr;
  void (*set_current)(cuda::Context) = nullptr;
  cuda::Context (*current)() = nullptr;
  int (*capture_mode)() = nullptr;
};

INSTANTIATE_TEST_SUITE_P(Fake, CudaDriver, testing::Values("cuda", "cuda-12.0"),
                         [](const auto& version) { return version.index == 0 ? "Newest" : "Oldest"; });

TEST_P(CudaDriver, TellsWhatTheDeviceItselfReports) {
  const auto driver = open(1);
  const DeviceInfo& info = driver->device();
  EXPECT_EQ(info.limits.target.name(), "sm_90a");
  EXPECT_EQ(info.limits.shared_per_block, 232448u);
  EXPECT_EQ(info.limits.shared_per_sm, 233472u);
  EXPECT_EQ(info.limits.registers_per_sm, 65536u);
  EXPECT_EQ(info.limits.warp_size, 32u);
  EXPECT_TRUE(info.limits.async_copy);
  EXPECT_EQ(info.device_type, kDLCUDA);
  EXPECT_EQ(info.device_id, 1);
  EXPECT_EQ(info.sm_count, 78u) << "never a constant: slices and virtual GPUs have fewer";
  EXPECT_EQ(info.l2_bytes, 50u << 20);
  EXPECT_EQ(info.memory_bytes, std::uint64_t{80} << 30);
  EXPECT_EQ(info.driver_version, 13000u);
  EXPECT_EQ(info.name, "Fake GPU 1");
}

TEST_P(CudaDriver, NamesTheTargetAfterTheComputeCapability) {
  const struct {
    int major, minor;
    const char* target;
  } cases[] = {{8, 0, "sm_80"},    {8, 9, "sm_89"},    {9, 0, "sm_90a"},
               {10, 0, "sm_100a"}, {12, 0, "sm_120a"}, {12, 1, "sm_121a"}};
  for (const auto& each : cases) {
    state->major = each.major;
    state->minor = each.minor;
    EXPECT_EQ(open()->device().limits.target.name(), each.target);
  }
}

// Kernels for what Hopper has not alone run on a Hopper; those of another major version, or of a later chip, do not.
TEST_P(CudaDriver, TakesATargetWhoseCodeTheDeviceRuns) {
  const auto for_target = [&](const char* name) {
    return open_cuda(0, {fake_folder(GetParam())}, Target::parse(name));
  };
  state->major = 9, state->minor = 0;
  const auto driver = for_target("sm_90");
  const TargetInfo& limits = driver->device().limits;
  EXPECT_EQ(limits.target.name(), "sm_90");
  EXPECT_TRUE(limits.tensor_maps);
  EXPECT_FALSE(limits.warpgroups);
  EXPECT_EQ(limits.shared_per_block, 232448u);
  EXPECT_TRUE(for_target("sm_90a")->device().limits.warpgroups);
  for (const char* refused : {"sm_80", "sm_100", "sm_103a", "host"}) {
    const Error error = error_of([&] { for_target(refused); });
    EXPECT_EQ(error.status(), QUERN_INVALID);
    for (const char* part : {refused, "sm_90a", "leave target NULL"})
      EXPECT_NE(error.text().find(part), std::string::npos) << part << " is not in: " << error.text();
  }
  state->major = 8, state->minor = 9;
  EXPECT_EQ(for_target("sm_86")->device().limits.target.name(), "sm_86");
  // Which has more shared memory: its tiles would not fit.
  EXPECT_EQ(error_of([&] { for_target("sm_80"); }).status(), QUERN_INVALID);
}

TEST_P(CudaDriver, HoldsThePrimaryContextFromOpenToClose) {
  {
    const auto driver = open();
    EXPECT_EQ(state->retained, 1);
    EXPECT_EQ(state->released, 0);
  }
  EXPECT_EQ(state->released, 1);
}

TEST_P(CudaDriver, SaysWhyItCannotBeOpened) {
  Error error = error_of([&] { open(2); });
  EXPECT_EQ(error.status(), QUERN_NOT_FOUND);
  EXPECT_TRUE(contains(error.text(), "device_id is 2") && contains(error.text(), "0 to 1")) << error.text();
  EXPECT_EQ(error_of([&] { open(-1); }).status(), QUERN_NOT_FOUND);

  state->devices = 0;
  error = error_of([&] { open(); });
  EXPECT_EQ(error.status(), QUERN_NOT_FOUND);
  EXPECT_EQ(error.native(), cuda::kNoDevice);
  EXPECT_TRUE(contains(error.text(), "finds no device") && contains(error.text(), fake_folder(GetParam())))
      << error.text();

  state->devices = 1;
  state->init = cuda::kStubLibrary;
  error = error_of([&] { open(); });
  EXPECT_EQ(error.status(), QUERN_NOT_FOUND);
  EXPECT_EQ(error.native(), cuda::kStubLibrary);
}

TEST_P(CudaDriver, LoadsInItsContextUnderRelaxedCaptureMode) {
  const auto driver = open();
  set_current(context_of(1));
  Loaded loaded = driver->load(cubin(), "kernel", 65536);
  EXPECT_EQ(state->mode_at_load, cuda::kCaptureModeRelaxed);
  EXPECT_EQ(capture_mode(), 0) << "put back";
  EXPECT_EQ(current(), context_of(1)) << "put back";
  EXPECT_EQ(state->dynamic_shared, 65536);
  EXPECT_EQ(loaded.registers, 64);
  EXPECT_EQ(loaded.parameters, std::string(GetParam()) == "cuda-12.0" ? -1 : 3) << "an older driver does not say";
  EXPECT_EQ(loaded.shared_bytes, 16);
  EXPECT_EQ(loaded.local_bytes, 48);
  EXPECT_EQ(loaded.max_threads, 1024);
  driver->unload(loaded);
  EXPECT_EQ(state->unloaded, 1);
  EXPECT_EQ(loaded.module, nullptr);
  driver->unload(loaded);
  EXPECT_EQ(state->unloaded, 1) << "once";
}

TEST_P(CudaDriver, AnImageForAnotherDeviceIsUnsupported) {
  const auto driver = open();
  for (const int code : {200, 209, 218, 222}) {
    state->library_load = code;
    state->jit_log = "ptxas: line 3";
    const Error error = error_of([&] { driver->load(cubin(), "kernel", 0); });
    EXPECT_EQ(error.status(), QUERN_UNSUPPORTED) << code;
    EXPECT_EQ(error.native(), code);
    EXPECT_TRUE(contains(error.text(), "`kernel`") && contains(error.text(), "ptxas: line 3")) << error.text();
  }
  state->library_load = 0;
  // Where loading is lazy, the driver notices only now.
  state->kernel_function = 209;
  EXPECT_EQ(error_of([&] { driver->load(cubin(), "kernel", 0); }).status(), QUERN_UNSUPPORTED);
  EXPECT_EQ(state->unloaded, 1) << "nothing is left loaded";
}

TEST_P(CudaDriver, BytesThatAreNoImageNeverReachTheDriver) {
  const auto driver = open();
  for (const std::string& image : {std::string(), std::string("garbage"), cubin().substr(0, 80), code_object()}) {
    EXPECT_EQ(error_of([&] { driver->load(image, "kernel", 0); }).status(), QUERN_UNSUPPORTED);
  }
  EXPECT_EQ(state->mode_at_load, -1);
}

TEST_P(CudaDriver, OtherLoadFailuresAreTheDriversOrTheCallers) {
  const auto driver = open();
  state->library_kernel = cuda::kNotFound;
  EXPECT_EQ(error_of([&] { driver->load(cubin(), "nobody", 0); }).status(), QUERN_NOT_FOUND);
  state->library_kernel = 2;  // out of memory
  EXPECT_EQ(error_of([&] { driver->load(cubin(), "kernel", 0); }).status(), QUERN_DRIVER);
  state->library_kernel = 0;
  state->set_function_attribute = cuda::kInvalidValue;
  const Error error = error_of([&] { driver->load(cubin(), "kernel", 300000); });
  EXPECT_EQ(error.status(), QUERN_INVALID);
  EXPECT_TRUE(contains(error.text(), "300000") && contains(error.text(), "232448")) << error.text();
  EXPECT_EQ(state->unloaded, 3);
  state->library_load = 700;
  EXPECT_EQ(error_of([&] { driver->load(cubin(), "kernel", 0); }).status(), QUERN_STICKY);
}

TEST_P(CudaDriver, PlainLaunchesGoThePlainWay) {
  const auto driver = open();
  const Loaded loaded = driver->load(cubin(), "kernel", 0);
  EXPECT_EQ(state->dynamic_shared, 0) << "nothing to set";
  set_current(context_of(0));
  const int pushed = state->pushed;
  Launch launch;
  launch.grid[0] = 132;
  launch.shared_bytes = 1024;
  int value = 5;
  void* args[] = {&value};
  EXPECT_EQ(driver->launch(loaded, launch, args, 1), 0);
  EXPECT_EQ(state->launched, 1);
  EXPECT_EQ(state->launched_ex, 0);
  EXPECT_EQ(state->grid_x, 132u);
  EXPECT_EQ(state->shared_bytes, 1024u);
  EXPECT_EQ(state->parameters, args);
  EXPECT_EQ(state->pushed, pushed) << "the context was current";
}

TEST_P(CudaDriver, ClustersAndProgrammaticLaunchesCarryAttributes) {
  const auto driver = open();
  const Loaded loaded = driver->load(cubin(), "kernel", 0);
  Launch launch;
  launch.cluster[0] = 2;
  launch.programmatic = true;
  EXPECT_EQ(driver->launch(loaded, launch, nullptr, 0), 0);
  EXPECT_EQ(state->launched_ex, 1);
  ASSERT_EQ(state->attribute_count, 2u);
  EXPECT_EQ(state->attributes[0].id, cuda::kClusterDimension);
  EXPECT_EQ(state->attributes[0].value.cluster.x, 2u);
  EXPECT_EQ(state->attributes[0].value.cluster.y, 1u);
  EXPECT_EQ(state->attributes[1].id, cuda::kProgrammaticStreamSerialization);
  EXPECT_EQ(state->attributes[1].value.programmatic, 1);
  EXPECT_EQ(current(), nullptr) << "pushed and popped";
}

TEST_P(CudaDriver, ProgrammaticLaunchIsLeftOutBelowSm90) {
  state->major = 8;
  const auto driver = open();
  const Loaded loaded = driver->load(cubin(), "kernel", 0);
  Launch launch;
  launch.programmatic = true;
  EXPECT_EQ(driver->launch(loaded, launch, nullptr, 0), 0);
  EXPECT_EQ(state->launched, 1);
}

TEST_P(CudaDriver, CodesBecomeErrors) {
  const auto driver = open();
  const Loaded loaded = driver->load(cubin(), "kernel", 0);
  state->launch = 700;
  const int code = driver->launch(loaded, Launch{}, nullptr, 0);
  EXPECT_EQ(code, 700);
  const Error sticky = error_of([&] { driver->fail(code, "launching attention"); });
  EXPECT_EQ(sticky.status(), QUERN_STICKY);
  EXPECT_EQ(sticky.native(), 700);
  EXPECT_TRUE(contains(sticky.text(), "CUDA_ERROR_ILLEGAL_ADDRESS (700)") &&
              contains(sticky.text(), "before this call"))
      << sticky.text();
  for (const int each : {709, 710, 714, 715, 716, 717, 718, 719}) {
    EXPECT_EQ(error_of([&] { driver->fail(each, "x"); }).status(), QUERN_STICKY) << each;
  }
  const Error other = error_of([&] { driver->fail(1, "launching attention"); });
  EXPECT_EQ(other.status(), QUERN_DRIVER);
  EXPECT_TRUE(contains(other.text(), "launching attention") && contains(other.text(), "as told by a test"))
      << other.text();
}

TEST_P(CudaDriver, KnowsWhichStreamIsCaptured) {
  const auto driver = open();
  state->captured = stream_of(0);
  EXPECT_TRUE(driver->capturing(stream_of(0)));
  EXPECT_FALSE(driver->capturing(stream_of(1)));
  EXPECT_FALSE(driver->capturing(nullptr));
  // What the driver says of the default stream while another one is captured.
  state->stream_is_capturing = cuda::kCaptureImplicit;
  EXPECT_FALSE(driver->capturing(nullptr));
}

TEST_P(CudaDriver, KnowsAStreamOfAnotherDevice) {
  const auto driver = open(0);
  EXPECT_EQ(driver->stream_device_mismatch(stream_of(0)), 0);
  EXPECT_EQ(driver->stream_device_mismatch(stream_of(1)), 2);
  for (const std::uintptr_t implicit : {0, 1, 2}) {
    EXPECT_EQ(driver->stream_device_mismatch(reinterpret_cast<void*>(implicit)), 0)
        << "default streams are the context's own";
  }
  EXPECT_EQ(current(), nullptr);
}

// What watches the calls of a program tells of each that fails.
TEST_P(CudaDriver, IsNotAskedForParametersThatTheImageTells) {
  const auto driver = open();
  const Loaded loaded = driver->load(cubin_with_notes(5), "kernel", 0);
  EXPECT_EQ(loaded.parameters, 5);
  EXPECT_EQ(state->parameters_asked, 0);
}

TEST_P(CudaDriver, AsksNothingThatEndsACapture) {
  const auto driver = open(0);
  const Loaded loaded = driver->load(cubin(), "kernel", 0);
  for (const int device : {0, 1}) {
    state->captured = stream_of(device);
    Launch launch;
    launch.stream = stream_of(device);
    EXPECT_EQ(driver->stream_device_mismatch(launch.stream), 0);
    EXPECT_EQ(driver->launch(loaded, launch, nullptr, 0), device == 0 ? 0 : cuda::fake::kInvalidHandle);
  }
  EXPECT_EQ(state->captures_ended, 0);
}

TEST_P(CudaDriver, WorksFromAnyThread) {
  const auto driver = open();
  const Loaded loaded = driver->load(cubin(), "kernel", 0);
  std::thread other([&] {
    EXPECT_EQ(driver->launch(loaded, Launch{}, nullptr, 0), 0);
    EXPECT_EQ(current(), nullptr);
  });
  other.join();
}

TEST_P(CudaDriver, RefusesAfterFork) {
  auto driver = open();
  Loaded loaded = driver->load(cubin(), "kernel", 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto forked = [](auto call) {
      try {
        call();
      } catch (const Error& error) {
        return error.status() == QUERN_FORKED;
      }
      return false;
    };
    int wrong = 0;
    const int code = driver->launch(loaded, Launch{}, nullptr, 0);
    if (!forked([&] { driver->fail(code, "launching"); })) wrong = 1;
    if (!forked([&] { driver->load(cubin(), "kernel", 0); })) wrong = 2;
    TensorMap map;
    if (!forked([&] { driver->encode_tensor_map({}, map); })) wrong = 3;
    driver->unload(loaded);
    driver.reset();
    if (state->launched != 0 || state->unloaded != 0 || state->released != 0) wrong = 4;
    _exit(wrong);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

class NewestCudaDriver : public CudaDriver {};
INSTANTIATE_TEST_SUITE_P(Fake, NewestCudaDriver, testing::Values("cuda"));

TEST_P(NewestCudaDriver, EncodesTensorMaps) {
  const auto driver = open();
  TensorMapDesc desc;
  desc.rank = 2;
  desc.extent[0] = 128;
  desc.extent[1] = 77;
  desc.stride[0] = 264;
  desc.box[0] = 64;
  desc.box[1] = 8;
  TensorMap map{};
  driver->encode_tensor_map(desc, map);
  EXPECT_EQ(state->map_rank, 2u);
  EXPECT_EQ(map.bytes[127], 0xab);
  state->encode = cuda::kInvalidValue;
  const Error error = error_of([&] { driver->encode_tensor_map(desc, map); });
  EXPECT_EQ(error.status(), QUERN_INVALID);
  EXPECT_TRUE(contains(error.text(), "77 in boxes of 8 at a stride of 264 bytes")) << error.text();
  state->major = 8;
  EXPECT_EQ(error_of([&] { open()->encode_tensor_map(desc, map); }).status(), QUERN_UNSUPPORTED);
}

TEST_P(NewestCudaDriver, AFunctionThatDoesNotLoadIsUnloaded) {
  const auto driver = open();
  state->function_load = 209;
  EXPECT_EQ(error_of([&] { driver->load(cubin(), "kernel", 0); }).status(), QUERN_UNSUPPORTED);
  EXPECT_EQ(state->unloaded, 1);
}

TEST(OldCuda, WithoutTensorMapsSaysSo) {
  *fake_function<State*()>("cuda-12.0", "libcuda.so.1", "fake_cuda_state")() = State{};
  const auto driver = open_cuda(0, {fake_folder("cuda-12.0")});
  TensorMap map;
  EXPECT_EQ(error_of([&] { driver->encode_tensor_map({}, map); }).status(), QUERN_UNSUPPORTED);
}

TEST(OldCuda, ADriverThatIsTooOldIsNamedWithWhatItLacks) {
  const Error error = error_of([] { open_cuda(0, {fake_folder("cuda-11")}); });
  EXPECT_EQ(error.status(), QUERN_NOT_FOUND);
  EXPECT_TRUE(contains(error.text(), "too old") && contains(error.text(), "cuLibraryLoadData")) << error.text();
}

TEST_P(CudaDriver, MeasuresAndGivesEverythingBack) {
  const auto driver = open();
  expect_bench_gives_back(*driver, *state, stream_of(2));
}

}  // namespace
}  // namespace quern::jit::test
