// What synchronisation costs on the `host` target, per thread that takes part.
// SPDX-License-Identifier: Apache-2.0
#include <benchmark/benchmark.h>

#include <stdexcept>
#include <string>

#include "tests/host/kernels.h"

namespace quern::host_tests {
namespace {

constexpr std::uint32_t kThreads = 128;
constexpr unsigned kRepeats = 1000;

void repeat(benchmark::State& state, const std::string& statement) {
  Options options;
  options.cpu_threads = 1;
  options.seeded = state.range(0) != 0;
  Kernel kernel(compile_body("QUERN_KERNEL(k, 128, 1, unsigned n, float* out) {\n"
                             "  float v = lane(); Accumulator c{}; OperandA<bf16> a{}; OperandB<bf16> b{};\n"
                             "  for (unsigned i = 0; i < n; ++i) { " +
                             statement + " }\n  out[thread_index()] = v + c.x[0];\n}"),
                "k", 0, options);
  float out[kThreads];
  for ([[maybe_unused]] auto _ : state) {
    if (const std::string error = kernel(1, kRepeats, &out[0]); !error.empty()) throw std::runtime_error(error);
  }
  state.counters["per_thread"] = benchmark::Counter(static_cast<double>(state.iterations()) * kRepeats * kThreads,
                                                    benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

BENCHMARK_CAPTURE(repeat, sync_block, "sync_block();")->ArgName("seeded")->Arg(0)->Arg(1);
BENCHMARK_CAPTURE(repeat, sync_warp, "sync_warp();")->ArgName("seeded")->Arg(0)->Arg(1);
BENCHMARK_CAPTURE(repeat, shuffle, "v += shuffle_xor(v, 1);")->ArgName("seeded")->Arg(0)->Arg(1);
BENCHMARK_CAPTURE(repeat, mma, "mma(c, a, b);")->ArgName("seeded")->Arg(0)->Arg(1);
BENCHMARK_CAPTURE(repeat, yield, "host::table->yield();")->ArgName("seeded")->Arg(0)->Arg(1);

void launch(benchmark::State& state) {
  Options options;
  options.cpu_threads = static_cast<std::uint32_t>(state.range(0));
  Kernel kernel(compile_body("QUERN_KERNEL(k, 128, 1) {}"), "k", 0, options);
  for ([[maybe_unused]] auto _ : state) kernel(64);
}
BENCHMARK(launch)->ArgName("cpu_threads")->Arg(1)->Arg(2);

}  // namespace
}  // namespace quern::host_tests

BENCHMARK_MAIN();
