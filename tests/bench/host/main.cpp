// The benchmarks that need no GPU. Arguments are Google Benchmark's.
// SPDX-License-Identifier: Apache-2.0
#include <benchmark/benchmark.h>

#include <cstdio>
#include <exception>
#include <filesystem>

#include "tests/bench/host/children.h"

std::string quern::bench::own_path() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

int main(int argc, char** argv) {
  try {
    if (argc == 2 && argv[1] == quern::bench::kCompileChild) {
      std::printf("%.3f\n", quern::bench::compile_once());
      return 0;
    }
    if (argc == 3 && argv[1] == quern::bench::kCallChild) {
      quern::bench::call_marked(argv[2]);
      return 0;
    }
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
    benchmark::RunSpecifiedBenchmarks();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "quern_host_bench_library: %s\n", error.what());
    return 1;
  }
}
