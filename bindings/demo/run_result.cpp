// One process's run of attention, and its report.
// SPDX-License-Identifier: Apache-2.0
#include "bindings/demo/run_result.h"

#include <unistd.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "bindings/demo/call.h"

namespace quern::demo {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Phase, calls, tokens, milliseconds, out_error, lse_error)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RunResult, process, device, why_no_gpu, context_ms, ready_ms, compiled, from_cache,
                                   prefill, decode)

namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// An NVIDIA GPU where one opens, else the host.
Context open_best(const std::string& cache, std::string& why_no_gpu) {
  auto options = sized<quern_context_options>();
  options.cache_path = cache.c_str();
  options.device_type = kDLCUDA;
  try {
    return make_context(options);
  } catch (const std::runtime_error& error) {
    // "QUERN_NOT_FOUND: no CUDA driver: libcuda.so.1 was not found; tried ...": what happened, without all that was
    // tried
    const std::string text = error.what();
    const std::size_t from = text.find(": ") + 2;
    why_no_gpu = text.substr(from, text.find_first_of(";\n", from) - from);
  }
  options.device_type = kDLCPU;
  return make_context(options);
}

}  // namespace

RunResult run_attention(const std::string& path, const std::string& cache) {
  const Activations activations = read_activations(path);
  RunResult result;
  result.process = getpid();

  Clock::time_point start = Clock::now();
  const Context context = open_best(cache, result.why_no_gpu);
  result.context_ms = milliseconds_since(start);
  auto device = sized<quern_device_info>();
  call([&](quern_error* error) { return quern_device(context.get(), &device, error); });
  const bool host = device.device_type == kDLCPU;
  result.device = std::string(device.name) + " (" + device.target +
                  (host ? "" : ", " + std::to_string(device.sm_count) + " SMs") + ")";

  AttentionRun run(context.get(), device, activations);
  start = Clock::now();
  run.prepare();
  result.ready_ms = milliseconds_since(start);
  unsigned seed = 1;
  for (const Layer& layer : activations.layers) run.serve(layer, seed++);

  const quern_stats stats = stats_of(context.get());
  result.compiled = stats.compiled;
  result.from_cache = stats.cache_hits;
  result.prefill = run.prefill();
  result.decode = run.decode();
  return result;
}

std::string to_json(const RunResult& result) { return nlohmann::json(result).dump(); }

RunResult from_json(std::string_view text) {
  try {
    return nlohmann::json::parse(text).get<RunResult>();
  } catch (const nlohmann::json::exception& error) {
    throw std::runtime_error("the other process's report cannot be read: " + std::string(error.what()));
  }
}

}  // namespace quern::demo
