// One process's run of attention, and its report.
// SPDX-License-Identifier: Apache-2.0
#include "bindings/demo/run_result.h"

#include <unistd.h>

#include <chrono>
#include <stdexcept>

#include "bindings/demo/call.h"
#include "bindings/json/json.h"

namespace quern::demo {

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

Json of_phase(const Phase& phase) {
  return {{"calls", phase.calls},
          {"tokens", phase.tokens},
          {"milliseconds", phase.milliseconds},
          {"out_error", phase.out_error},
          {"lse_error", phase.lse_error}};
}

Phase to_phase(const Json& json) {
  Phase phase;
  phase.calls = static_cast<decltype(phase.calls)>(json.at("calls").whole());
  phase.tokens = static_cast<decltype(phase.tokens)>(json.at("tokens").whole());
  phase.milliseconds = json.at("milliseconds").number();
  phase.out_error = json.at("out_error").number();
  phase.lse_error = json.at("lse_error").number();
  return phase;
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
  result.target = device.target;
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

std::string to_json(const RunResult& result) {
  return Json{
      {"process", result.process},        {"device", result.device},         {"target", result.target},
      {"why_no_gpu", result.why_no_gpu},  {"context_ms", result.context_ms}, {"ready_ms", result.ready_ms},
      {"compiled", result.compiled},      {"from_cache", result.from_cache}, {"prefill", of_phase(result.prefill)},
      {"decode", of_phase(result.decode)}}
      .dump();
}

RunResult from_json(std::string_view text) {
  try {
    const Json json = Json::parse(text);
    RunResult result;
    result.process = static_cast<std::int64_t>(json.at("process").whole());
    result.device = json.at("device").string();
    result.target = json.at("target").string();
    result.why_no_gpu = json.at("why_no_gpu").string();
    result.context_ms = json.at("context_ms").number();
    result.ready_ms = json.at("ready_ms").number();
    result.compiled = json.at("compiled").whole();
    result.from_cache = json.at("from_cache").whole();
    result.prefill = to_phase(json.at("prefill"));
    result.decode = to_phase(json.at("decode"));
    return result;
  } catch (const JsonError& error) {
    throw std::runtime_error("the other process's report cannot be read: " + std::string(error.what()));
  }
}

}  // namespace quern::demo
