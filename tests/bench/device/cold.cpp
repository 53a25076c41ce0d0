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

// Four kernels of Llama-3-8B, each made ready by one more preparation. Little data: computing is not the matter.
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
    const double ready = milliseconds_of([&] { problem.prepare(); });
    const double launched = milliseconds_of([&] {
      problem.enqueue();
      gpu.synchronise();
    });
    result["kernels"].push_back({{"name", kernel.name}, {"ready_ms", ready}, {"launched_ms", launched}});
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
  std::printf("\nfirst calls in a new process, ms                       empty cache              from the cache\n");
  std::printf("%49s %12s %12s %12s\n", "ready", "first launch", "ready", "first launch");
  const auto opening = [](const Json& child) { return child["context_ms"].get<double>(); };
  std::printf("  %-34s %12.1f %25.1f\n", "opening driver, device and cache", opening(cold), opening(cached));
  for (std::size_t i = 0; i < std::size(kKernels); ++i) {
    const Json &made = cold["kernels"][i], &loaded = cached["kernels"][i];
    const double ready = made["ready_ms"], launched = made["launched_ms"];
    const double ready_again = loaded["ready_ms"], launched_again = loaded["launched_ms"];
    const double goal = i == 0 ? 700 : 400;
    std::printf("  %-34s %12.1f %12.3f %12.3f %12.3f   %s (sum <= %.0f), %s (ready <= 1)\n", kKernels[i].name, ready,
                launched, ready_again, launched_again, verdict(ready + launched <= goal), goal,
                verdict(ready_again <= 1));
  }
  const auto part = [&](const char* what, const char* field) {
    std::printf("  %-34s %12.1f %25.3f\n", what, cold[field].get<double>(), cached[field].get<double>());
  };
  part("of which compiling", "compile_ms");
  part("of which loading into the driver", "load_ms");
  std::fflush(stdout);
  return {{"empty", cold}, {"cached", cached}};
}

}  // namespace quern::bench
