// What one process that runs attention reports to the one that started it: JSON on its standard output.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "bindings/demo/attention_run.h"

namespace quern::demo {

struct RunResult {
  std::int64_t process = 0;
  std::string device;      // "NVIDIA H200 (sm_90a, 132 SMs)"
  std::string target;      // "sm_90a"
  std::string why_no_gpu;  // where the device is the host
  double context_ms = 0;   // opening the device and the cache
  double ready_ms = 0;     // from there to every kernel loaded
  std::uint64_t compiled = 0;
  std::uint64_t from_cache = 0;
  Phase prefill, decode;
};

// Runs every layer of `path` on the best device there is, with its kernels in the folder `cache`, and returns what
// happened. Throws std::runtime_error.
RunResult run_attention(const std::string& path, const std::string& cache);

std::string to_json(const RunResult& result);
// Throws std::runtime_error for anything else.
RunResult from_json(std::string_view text);

}  // namespace quern::demo
