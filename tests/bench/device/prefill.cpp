// Prefill: arithmetic a second, causal, the invisible half not counted.
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "tests/bench/device/sections.h"

namespace quern::bench {
namespace {

struct Case {
  std::int64_t batch, heads, kv_heads, q_len, kv_len, dim;
  bool ragged;  // unpaged too, as the peers without pages have it
  double goal;  // TFLOP/s; 0: none
};

const Case kCases[] = {
    {4, 32, 32, 4096, 4096, 128, true, 300}, {1, 32, 8, 16384, 16384, 128, true, 0},
    {16, 16, 16, 1024, 1024, 128, true, 0},  {4, 32, 32, 4096, 4096, 64, true, 0},
    {2, 8, 8, 4096, 4096, 256, true, 0},     {8, 32, 8, 512, 8192, 128, false, 0},
};

}  // namespace

Json bench_prefill(Gpu& gpu, const Pools& pools, std::uint32_t seed) {
  std::printf("\nprefill, bf16, causal                                        keys        us a call   TFLOP/s\n");
  Json rows = Json::array();
  for (const Case& at : kCases) {
    for (const std::int64_t page_size : {0, 64}) {
      if (page_size == 0 && !at.ragged) continue;
      const Shape shape{at.batch, at.heads, at.kv_heads, at.q_len, at.kv_len, at.dim, page_size};
      const Problem problem(gpu, pools, shape, seed);
      problem.check();
      const double us = gpu.flushed_us([&] { problem.enqueue(); });
      const double tflops = shape.flops() / us / 1e6;
      std::printf("  b%-3lld %2lld/%-2lld heads of %-3lld  %5lld tokens after %-5lld     %-9s %11.1f %9.0f",
                  static_cast<long long>(at.batch), static_cast<long long>(at.heads),
                  static_cast<long long>(at.kv_heads), static_cast<long long>(at.dim), static_cast<long long>(at.q_len),
                  static_cast<long long>(at.kv_len - at.q_len), page_size == 0 ? "ragged" : "page 64", us, tflops);
      if (at.goal > 0) std::printf("   %s (>= %.0f)", verdict(tflops >= at.goal), at.goal);
      std::printf("\n");
      std::fflush(stdout);
      rows.push_back({{"batch", at.batch},
                      {"heads", at.heads},
                      {"kv_heads", at.kv_heads},
                      {"q_len", at.q_len},
                      {"kv_len", at.kv_len},
                      {"dim", at.dim},
                      {"page_size", page_size},
                      {"call_us", us},
                      {"tflops", tflops}});
    }
  }
  return rows;
}

}  // namespace quern::bench
