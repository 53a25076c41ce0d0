// The device-side layer: run on the CPU at both warp sizes, compiled for every GPU family.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "jit/sanitizer.h"
#include "tests/host/kernels.h"
#include "tests/host/layer_check.h"

namespace quern::host_tests {
namespace {

const jit::Compiled& layer_for(const std::string& target) {
  return compile(target, "layer.cuh", read_file("tests/host/layer.cuh"), "quern_layer");
}

void run_layer(const Options& options) {
  Kernel kernel(layer_for(options.warp_size == 64 ? "host64" : "host"), "quern_layer", q::layer::kDynamicBytes,
                options);
  LayerRun run;
  run.params.input = run.input.data();
  run.params.results = run.results.data();
  run.params.counters = run.counters.data();
  jit::Launch launch;
  for (int d = 0; d < 3; ++d) launch.grid[d] = static_cast<std::uint32_t>(q::layer::kGrid[d]);
  launch.block[0] = q::layer::kThreads;
  launch.shared_bytes = q::layer::kDynamicBytes;
  ASSERT_EQ(kernel.launch(launch, {&run.params}), "");
  check_layer(run, static_cast<int>(options.warp_size), options.warp_size == 32);
}

class HostLayer : public testing::TestWithParam<std::uint32_t> {};

TEST_P(HostLayer, FairAndEager) { run_layer({.warp_size = GetParam()}); }

TEST_P(HostLayer, UnfairAndLateForManySeeds) {
#ifdef QUERN_BUILT_WITH_TSAN
  constexpr std::uint64_t kSeeds = 5;  // making the fibers known to it costs a second
#else
  constexpr std::uint64_t kSeeds = 50;
#endif
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    run_layer({.warp_size = GetParam(), .seeded = true, .seed = seed});
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(WarpSizes, HostLayer, testing::Values(32u, 64u));

class LayerCompiles : public testing::TestWithParam<const char*> {};

TEST_P(LayerCompiles, WithEveryFunctionInstantiated) {
  const jit::Compiled& compiled = layer_for(GetParam());
  EXPECT_GT(compiled.image.size(), 1000u);
  EXPECT_GE(compiled.shared_bytes, 896) << "static arrays of 128 u32 and of 384 bytes";
  const jit::Compiled& conversions =
      compile(GetParam(), "conversions.cuh", read_file("tests/host/conversions.cuh"), "quern_conversions");
  EXPECT_GT(conversions.image.size(), 1000u);
}

INSTANTIATE_TEST_SUITE_P(Targets, LayerCompiles, testing::Values("sm_80", "sm_86", "sm_89", "sm_90a", "gfx90a"));

}  // namespace
}  // namespace quern::host_tests
