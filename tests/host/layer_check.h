// What layer.cuh must have written, whatever the target it ran on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "tests/host/layer_layout.cuh"

namespace quern::host_tests {

// The inputs of one launch of quern_layer: grid q::layer::kGrid, block q::layer::kThreads, q::layer::kDynamicBytes of
// dynamic shared memory. The caller puts the three arrays where the device reaches them and their addresses into
// `params`.
struct LayerRun {
  LayerRun();
  std::vector<std::uint32_t> input;
  std::vector<std::uint32_t> results;
  std::vector<std::uint32_t> counters;
  q::layer::Params params{};
};

// After the launch, with `results` and `counters` as the device left them: a gtest failure for each row that is wrong.
void check_layer(const LayerRun& run, int warp_size, bool named_barriers);

}  // namespace quern::host_tests
