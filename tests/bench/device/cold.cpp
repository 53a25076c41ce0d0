// How long a process waits for its first kernels: compiled, and from the disk cache.
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <stdexcept>
#include <vector>

#include "bindings/demo/process.h"
#include "tests/bench/device/sections.h"

namespace quern::bench {
namespace {

struct Kernel {
  const char* name;
  Shape shape;
};

// Four kernels of Llama-3-8B. Little data: launching is part of a first call, computing is not the matter.
const Kernel kKernels[] = {
    {"decode, page 16", {1, 32, 8, 1, 256, 128, 16}},
    {"8 query tokens, page 16", {1, 32, 8, 8, 256, 128, 16}},
    {"128 query tokens, page 16", {1, 32, 8, 128, 256, 128, 16}},
    {"decode, page 64", {1, 32, 8, 1, 256, 128, 64}},
};

Json run_child(const std::string& own_path, const std::string& cache) {
  const demo::Finished child = demo::run_process({own_path, std::string(kFirstCallsChild), cache}, true);
  if (child.code != 0)
    throw std::runtime_error("the process of first calls ended with code " + std::to_string(child.code));
  return Json::parse(child.output);
}

}  // namespace

Json first_calls(const std::string& cache) {
  Gpu gpu(cache);
  const Pools pools(gpu, std::size_t{4} << 20, std::size_t{4} << 20, 0);
  Json result;
  result["context_ms"] = gpu.opening_ms();
  for (const Kernel& kernel : kKernels) {
    const Problem problem(gpu, pools, kernel.shape, 1);
    result["calls"].push_back(milliseconds_of([&] {
      problem.enqueue();
      gpu.synchronise();
    }));
  }
  const quern_stats stats = demo::stats_of(gpu.context());
  result["compiled"] = stats.compiled;
  result["compile_ms"] = stats.compile_ms;
  result["load_ms"] = stats.load_ms;
  return result;
}

Json bench_cold(const std::string& own_path, const std::string& cache) {
  const Json cold = run_child(own_path, cache), cached = run_child(own_path, cache);
  if (cold["compiled"] != std::size(kKernels)) throw std::runtime_error("the cache for cold calls was not empty");
  if (cached["compiled"] != 0) throw std::runtime_error("the second process compiled: " + cached.dump());
  std::printf("\nfirst calls in a new process, ms, launched and finished   empty cache   from the cache\n");
  std::printf("  %-54s %12.1f %16.1f\n", "opening the context: driver, device, cache", cold["context_ms"].get<double>(),
              cached["context_ms"].get<double>());
  Json rows = Json::array();
  for (std::size_t i = 0; i < std::size(kKernels); ++i) {
    const double compiled = cold["calls"][i].get<double>(), loaded = cached["calls"][i].get<double>();
    const double goal = i == 0 ? 700 : 400;
    std::printf("  %-54s %12.1f %16.3f   %s (<= %.0f), %s (<= 1)\n", kKernels[i].name, compiled, loaded,
                verdict(compiled <= goal), goal, verdict(loaded <= 1));
    rows.push_back({{"kernel", kKernels[i].name}, {"compiled_ms", compiled}, {"cached_ms", loaded}});
  }
  std::printf("  %-54s %12.1f %16.3f\n", "of which: compiling", cold["compile_ms"].get<double>(),
              cached["compile_ms"].get<double>());
  std::printf("  %-54s %12.1f %16.3f\n", "of which: loading into the driver", cold["load_ms"].get<double>(),
              cached["load_ms"].get<double>());
  std::fflush(stdout);
  return {{"empty", cold}, {"cached", cached}, {"rows", rows}};
}

}  // namespace quern::bench
