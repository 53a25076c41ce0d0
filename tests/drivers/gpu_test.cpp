// The CUDA driver on a real GPU, with kernels compiled here through NVRTC. Without a GPU every test of this file is
// skipped, with what was looked for as its reason.
// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstdio>
#include <optional>
#include <thread>

#include "jit/compiler.h"
#include "jit/driver.h"
#include "tests/drivers/gpu_calls.h"
#include "tests/drivers/support.h"

namespace quern::jit::test {
namespace {

// Adds the number of blocks in a cluster to every element; `tile` is dynamic shared memory.
constexpr const char* kSource = R"(
extern "C" __global__ void add(float* x, int n, float by) {
  extern __shared__ float tile[];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    tile[threadIdx.x] = x[i];
    x[i] = tile[threadIdx.x] + by;
  }
}
extern "C" __global__ void add_cluster_size(float* x) {
  unsigned size;
  asm volatile("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(size));
  if (threadIdx.x == 0) x[blockIdx.x] += (float)size;
}
extern "C" __global__ void write_null(float* x) { *x = 1; }
)";

std::string compile(const Target& target, const std::string& entry) {
  Compilers compilers({});
  std::string source = kSource;
  // Clusters are sm_90's: older targets are only compiled to be refused.
  const std::size_t from = source.find("extern \"C\" __global__ void add_cluster_size");
  const std::size_t to = source.find("extern \"C\" __global__ void write_null");
  if (target.name() == "sm_80") source.erase(from, to - from);
  return compilers.compile({target, source, entry, {}}).image;
}

class Gpu : public testing::Test {
 protected:
  void SetUp() override {
    try {
      driver = open_cuda(0, {});
      api.emplace(cuda::open_api({}));
    } catch (const Error& error) {
      GTEST_SKIP() << "no GPU to test on: " << error.text();
    }
    calls.emplace(api->path);
    // The test's own use of the device, as a host would have it.
    ASSERT_EQ(api->primary_retain(&context, 0), 0);
    ASSERT_EQ(api->context_push(context), 0);
    ASSERT_EQ(calls->stream_create(&stream, /*non-blocking*/ 1), 0);
  }
  void TearDown() override {
    if (!calls) return;
    calls->stream_destroy(stream);
    cuda::Context popped = nullptr;
    api->context_pop(&popped);
    api->primary_release(0);
  }
  Target target() const { return driver->device().limits.target; }
  Launch launch_of(std::uint32_t blocks, std::uint32_t threads) const {
    Launch launch;
    launch.grid[0] = blocks;
    launch.block[0] = threads;
    launch.stream = stream;
    return launch;
  }

  std::unique_ptr<Driver> driver;
  std::optional<cuda::Api> api;
  std::optional<GpuCalls> calls;
  cuda::Context context = nullptr;
  cuda::Stream stream = nullptr;
};

TEST_F(Gpu, TellsWhatItIs) {
  const DeviceInfo& info = driver->device();
  std::printf("%s, %s, %u SMs, %u bytes of shared memory a block, L2 %llu MiB, driver %u\n", info.name.c_str(),
              target().name().c_str(), info.sm_count, info.limits.shared_per_block,
              static_cast<unsigned long long>(info.l2_bytes >> 20), info.driver_version);
  EXPECT_EQ(target().family(), Family::cuda);
  EXPECT_GT(info.sm_count, 0u);
  EXPECT_GE(info.limits.shared_per_block, 48u << 10);
  EXPECT_GT(info.limits.shared_per_sm, info.limits.shared_per_block);
  EXPECT_GT(info.l2_bytes, 0u);
  EXPECT_GT(info.memory_bytes, 0u);
  const TargetInfo known = limits_of(target());
  EXPECT_EQ(known.shared_per_block, info.limits.shared_per_block) << "what is assumed without a device";
  EXPECT_EQ(known.shared_per_sm, info.limits.shared_per_sm);
  EXPECT_EQ(known.async_copy, info.limits.async_copy);
  EXPECT_EQ(known.warpgroups, info.limits.warpgroups);
}

TEST_F(Gpu, LoadsAndLaunches) {
  Loaded loaded = driver->load(compile(target(), "add"), "add", 4096);
  EXPECT_GT(loaded.registers, 0);
  EXPECT_GE(loaded.max_threads, 256);
  DeviceFloats x(*calls, std::vector<float>(1000, 1.5f));
  int n = 1000;
  float by = 2;
  void* args[] = {x.pointer(), &n, &by};
  Launch launch = launch_of(4, 256);
  launch.shared_bytes = 1024;
  ASSERT_EQ(driver->launch(loaded, launch, args, 3), 0);
  launch.programmatic = true;
  ASSERT_EQ(driver->launch(loaded, launch, args, 3), 0);
  ASSERT_EQ(calls->stream_synchronize(stream), 0);
  EXPECT_EQ(x.read(), std::vector<float>(1000, 5.5f));
  driver->unload(loaded);
}

TEST_F(Gpu, LaunchesClusters) {
  if (!contains(target().name(), "a")) GTEST_SKIP() << target().name() << " has no clusters";
  const Loaded loaded = driver->load(compile(target(), "add_cluster_size"), "add_cluster_size", 0);
  DeviceFloats x(*calls, std::vector<float>(8, 0));
  void* args[] = {x.pointer()};
  Launch launch = launch_of(8, 32);
  launch.cluster[0] = 4;
  ASSERT_EQ(driver->launch(loaded, launch, args, 1), 0);
  ASSERT_EQ(calls->stream_synchronize(stream), 0);
  EXPECT_EQ(x.read(), std::vector<float>(8, 4));
}

TEST_F(Gpu, GrantsAllTheSharedMemoryThereIsAndNoMore) {
  const std::string image = compile(target(), "add");
  const std::uint32_t most = driver->device().limits.shared_per_block;
  const Loaded loaded = driver->load(image, "add", most);
  DeviceFloats x(*calls, std::vector<float>(32, 1));
  int n = 32;
  float by = 1;
  void* args[] = {x.pointer(), &n, &by};
  Launch launch = launch_of(1, 32);
  launch.shared_bytes = most;
  EXPECT_EQ(driver->launch(loaded, launch, args, 3), 0);
  EXPECT_EQ(calls->stream_synchronize(stream), 0);
  EXPECT_EQ(x.read(), std::vector<float>(32, 2));
  const Error error = error_of([&] { driver->load(image, "add", most + 1); });
  EXPECT_EQ(error.status(), QUERN_INVALID);
  EXPECT_TRUE(contains(error.text(), std::to_string(most))) << error.text();
  launch.shared_bytes = most + 1;
  const int code = driver->launch(loaded, launch, args, 3);
  EXPECT_NE(code, 0);
  EXPECT_EQ(error_of([&] { driver->fail(code, "launching add"); }).status(), QUERN_DRIVER);
}

TEST_F(Gpu, RefusesImagesThatAreNotForIt) {
  if (target().name().starts_with("sm_8")) GTEST_SKIP() << target().name() << " runs the image that is to be refused";
  Error error = error_of([&] { driver->load(compile(Target::parse("sm_80"), "add"), "add", 0); });
  EXPECT_EQ(error.status(), QUERN_UNSUPPORTED) << error.text();
  const std::string image = compile(target(), "add");
  EXPECT_EQ(error_of([&] { driver->load(image.substr(0, image.size() / 2), "add", 0); }).status(), QUERN_UNSUPPORTED);
  EXPECT_EQ(error_of([&] { driver->load("garbage", "add", 0); }).status(), QUERN_UNSUPPORTED);
  error = error_of([&] { driver->load(image, "subtract", 0); });
  EXPECT_EQ(error.status(), QUERN_NOT_FOUND);
  EXPECT_TRUE(contains(error.text(), "`subtract`")) << error.text();
}

TEST_F(Gpu, LoadsPtxAndTellsWhatIsWrongWithIt) {
  using namespace std::string_view_literals;
  const Loaded loaded = driver->load(
      ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry idle()\n{\nret;\n}\n\0"sv, "idle", 0);
  EXPECT_EQ(driver->launch(loaded, launch_of(1, 1), nullptr, 0), 0);
  EXPECT_EQ(calls->stream_synchronize(stream), 0);
  const Error error = error_of([&] { driver->load(".version 7.0\n.target sm_80\nnonsense;\n\0"sv, "idle", 0); });
  EXPECT_EQ(error.status(), QUERN_UNSUPPORTED);
  EXPECT_TRUE(contains(error.text(), "line 3")) << "the assembler's own words: " << error.text();
}

// Loading in another thread leaves a capture alone, even in the mode that forbids most; a launch goes into the graph.
TEST_F(Gpu, LoadsBesideACaptureAndIsCaptured) {
  const std::string image = compile(target(), "add");
  const Loaded loaded = driver->load(image, "add", 4096);
  DeviceFloats x(*calls, std::vector<float>(256, 0));
  int n = 256;
  float by = 1;
  void* args[] = {x.pointer(), &n, &by};
  Launch launch = launch_of(1, 256);
  launch.shared_bytes = 1024;

  EXPECT_FALSE(driver->capturing(stream));
  ASSERT_EQ(calls->begin_capture(stream, /*global*/ 0), 0);
  EXPECT_TRUE(driver->capturing(stream));
  EXPECT_FALSE(driver->capturing(nullptr));
  EXPECT_EQ(driver->stream_device_mismatch(stream), 0);
  EXPECT_EQ(driver->launch(loaded, launch, args, 3), 0);
  std::thread other([&] {
    Loaded beside = driver->load(image, "add", 4096);
    EXPECT_NE(beside.function, nullptr);
    driver->unload(beside);
  });
  other.join();
  EXPECT_EQ(driver->launch(loaded, launch, args, 3), 0);
  void* graph = nullptr;
  void* executable = nullptr;
  ASSERT_EQ(calls->end_capture(stream, &graph), 0) << "the capture was not ended by the load";
  EXPECT_FALSE(driver->capturing(stream));
  EXPECT_EQ(x.read(), std::vector<float>(256, 0)) << "captured, not run";
  ASSERT_EQ(calls->graph_instantiate(&executable, graph, 0), 0);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(calls->graph_launch(executable, stream), 0);
  ASSERT_EQ(calls->stream_synchronize(stream), 0);
  EXPECT_EQ(x.read(), std::vector<float>(256, 6));
  calls->executable_destroy(executable);
  calls->graph_destroy(graph);
}

TEST_F(Gpu, WorksInAThreadWithoutAContext) {
  std::thread other([&] {
    const Loaded loaded = driver->load(compile(target(), "add"), "add", 0);
    DevicePointer none = 0;
    int n = 0;
    float by = 0;
    void* args[] = {&none, &n, &by};
    EXPECT_EQ(driver->launch(loaded, launch_of(1, 32), args, 3), 0);
    EXPECT_FALSE(driver->capturing(nullptr));
    cuda::Context current = context;
    EXPECT_EQ(api->context_current(&current), 0);
    EXPECT_EQ(current, nullptr) << "left as it was";
  });
  other.join();
  EXPECT_EQ(calls->stream_synchronize(stream), 0);
}

TEST_F(Gpu, NamesTheDeviceOfAForeignStream) {
  EXPECT_EQ(driver->stream_device_mismatch(stream), 0);
  EXPECT_EQ(driver->stream_device_mismatch(nullptr), 0);
  if (api->devices < 2) GTEST_SKIP() << "only one GPU here: a foreign stream cannot be had";
  const auto second = open_cuda(1, {});
  EXPECT_EQ(second->stream_device_mismatch(stream), 1);
  // It is asked only where a launch has failed.
  const Loaded loaded = second->load(compile(target(), "add"), "add", 0);
  DevicePointer none = 0;
  int n = 0;
  float by = 0;
  void* args[] = {&none, &n, &by};
  Launch launch = launch_of(1, 32);
  EXPECT_EQ(launch.stream, stream);
  EXPECT_NE(second->launch(loaded, launch, args, 3), 0);
  launch.programmatic = true;
  EXPECT_NE(second->launch(loaded, launch, args, 3), 0);
  EXPECT_EQ(calls->stream_synchronize(stream), 0) << "and nothing is broken by that";
}

TEST_F(Gpu, EncodesTensorMaps) {
  if (!contains(target().name(), "a")) GTEST_SKIP() << target().name() << " has no tensor maps";
  DeviceFloats x(*calls, std::vector<float>(256 * 64, 0));
  TensorMapDesc desc;
  desc.data_type = 7;  // f32
  desc.rank = 2;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the driver's device addresses are integers
  desc.address = reinterpret_cast<void*>(*x.pointer());
  desc.extent[0] = 256;
  desc.extent[1] = 64;
  desc.stride[0] = 256 * sizeof(float);
  desc.box[0] = 32;
  desc.box[1] = 64;
  desc.swizzle = 3;  // 128 bytes
  TensorMap map{};
  driver->encode_tensor_map(desc, map);
  const TensorMap empty{};
  EXPECT_NE(std::memcmp(&map, &empty, sizeof map), 0);
  TensorMap without_context{};
  std::thread([&] { driver->encode_tensor_map(desc, without_context); }).join();
  EXPECT_EQ(std::memcmp(&map, &without_context, sizeof map), 0);
  desc.stride[0] += 4;
  EXPECT_EQ(error_of([&] { driver->encode_tensor_map(desc, map); }).status(), QUERN_INVALID);
}

// In a process of its own, since it breaks the device for that process.
TEST_F(Gpu, ABrokenDeviceIsNotQuernsDoing) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const Loaded loaded = driver->load(compile(target(), "write_null"), "write_null", 0);
        DevicePointer null = 0;
        void* args[] = {&null};
        int code = driver->launch(loaded, launch_of(1, 1), args, 1);
        if (code != 0) std::_Exit(1);
        if (calls->stream_synchronize(stream) == 0) std::_Exit(2);
        code = driver->launch(loaded, launch_of(1, 1), args, 1);
        if (code == 0) std::_Exit(3);
        try {
          driver->fail(code, "launching write_null");
        } catch (const Error& error) {
          std::_Exit(error.status() == QUERN_STICKY ? 0 : 4);
        }
      },
      testing::ExitedWithCode(0), "");
}

// Figures, not bounds: machines differ. The queue is drained every few calls, so that it is never full.
TEST_F(Gpu, CostsLittleMoreThanABareLaunch) {
  const Loaded loaded = driver->load(compile(target(), "add"), "add", 0);
  DevicePointer none = 0;
  int n = 0;
  float by = 0;
  void* args[] = {&none, &n, &by};
  const Launch launch = launch_of(1, 32);
  constexpr int kRounds = 200, kCalls = 50;
  const auto nanoseconds = [&](auto call) {
    double best = 1e9;
    for (int round = 0; round < kRounds; ++round) {
      const auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < kCalls; ++i) call();
      const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
      best = std::min(best, took.count() / kCalls);
      calls->stream_synchronize(stream);
    }
    return best;
  };
  int failed = 0;
  const auto function = static_cast<cuda::Function>(loaded.function);
  const double bare =
      nanoseconds([&] { failed += api->launch_kernel(function, 1, 1, 1, 32, 1, 1, 0, stream, args, nullptr) != 0; });
  const double ours = nanoseconds([&] { failed += driver->launch(loaded, launch, args, 3) != 0; });
  Launch programmatic = launch;
  programmatic.programmatic = true;
  const double with_attribute = nanoseconds([&] { failed += driver->launch(loaded, programmatic, args, 3) != 0; });
  const double mismatch = nanoseconds([&] { failed += driver->stream_device_mismatch(stream) != 0; });
  const double capture = nanoseconds([&] { failed += driver->capturing(stream); });
  EXPECT_EQ(failed, 0);
  std::printf(
      "ns a call: bare cuLaunchKernel %.0f, launch %.0f, programmatic %.0f, stream_device_mismatch %.0f, capturing "
      "%.0f\n",
      bare, ours, with_attribute, mismatch, capture);
}

}  // namespace
}  // namespace quern::jit::test
