// Decode: how near to the memory's speed the KV cache is read, and what a loose bound costs.
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "tests/bench/device/sections.h"

namespace quern::bench {
namespace {

struct Case {
  std::int64_t batch, heads, kv_heads, context;
  double goal;  // GB/s from above, or us from below; 0: none
  enum { kNone, kGbps, kCallUs, kGraphUs } kind;
};

const Case kCases[] = {
    {64, 32, 8, 4096, 3600, Case::kGbps}, {1, 32, 8, 32768, 60, Case::kCallUs}, {1, 32, 4, 1024, 12, Case::kGraphUs},
    {16, 64, 8, 8192, 0, Case::kNone},    {32, 32, 8, 4096, 0, Case::kNone},    {8, 32, 8, 1024, 0, Case::kNone},
    {128, 32, 32, 1024, 0, Case::kNone},  {256, 32, 8, 1024, 0, Case::kNone},
};

std::string goal_text(const Case& at, double call_us, double graph_us, double gbps) {
  char text[64] = "";
  if (at.kind == Case::kGbps) std::snprintf(text, sizeof text, "%s (>= %.0f GB/s)", verdict(gbps >= at.goal), at.goal);
  if (at.kind == Case::kCallUs)
    std::snprintf(text, sizeof text, "%s (<= %.0f us)", verdict(call_us <= at.goal), at.goal);
  if (at.kind == Case::kGraphUs)
    std::snprintf(text, sizeof text, "%s (<= %.0f us as graph)", verdict(graph_us <= at.goal), at.goal);
  return text;
}

// The same call captured with two bounds on the length; the lengths themselves lie on the device.
Json bench_bound(Gpu& gpu, const Pools& pools, std::uint32_t seed, std::int64_t batch) {
  constexpr std::int64_t kLoose = 131072;
  Shape tight{batch, 32, 8, 1, 1024, 128, 16};
  Shape loose = tight;
  loose.max_kv_len = kLoose;
  const Problem a(gpu, pools, tight, seed), b(gpu, pools, loose, seed);
  b.check();
  const double tight_us = gpu.graph_us([&] { a.enqueue(); }), loose_us = gpu.graph_us([&] { b.enqueue(); });
  const double ratio = loose_us / tight_us;
  std::printf(
      "  b%-4lld 32/8   context 1024: as graph %8.2f us bound 1024 %8.2f us bound %lld   %.3f x: %s (<= 1.05)\n",
      static_cast<long long>(batch), tight_us, loose_us, static_cast<long long>(kLoose), ratio, verdict(ratio <= 1.05));
  std::fflush(stdout);
  return {{"batch", batch}, {"tight_us", tight_us}, {"loose_us", loose_us}, {"ratio", ratio}};
}

}  // namespace

Json bench_decode(Gpu& gpu, const Pools& pools, std::uint32_t seed) {
  std::printf("\ndecode, bf16, dim 128                    page   us a call   GB/s     us as graph   GB/s\n");
  Json rows = Json::array();
  for (const Case& at : kCases) {
    for (const std::int64_t page_size : {16, 64}) {
      const Shape shape{at.batch, at.heads, at.kv_heads, 1, at.context, 128, page_size};
      const Problem problem(gpu, pools, shape, seed);
      problem.check();
      const double call_us = gpu.flushed_us([&] { problem.enqueue(); });
      const double graph_us = gpu.graph_us([&] { problem.enqueue(); });
      const double gbps = shape.kv_bytes() / call_us / 1e3, graph_gbps = shape.kv_bytes() / graph_us / 1e3;
      std::printf("  b%-4lld %2lld/%-2lld heads, context %-8lld     %6lld %11.1f %6.0f %15.1f %6.0f   %s\n",
                  static_cast<long long>(at.batch), static_cast<long long>(at.heads),
                  static_cast<long long>(at.kv_heads), static_cast<long long>(at.context),
                  static_cast<long long>(page_size), call_us, gbps, graph_us, graph_gbps,
                  goal_text(at, call_us, graph_us, gbps).c_str());
      std::fflush(stdout);
      rows.push_back({{"batch", at.batch},
                      {"heads", at.heads},
                      {"kv_heads", at.kv_heads},
                      {"context", at.context},
                      {"page_size", page_size},
                      {"call_us", call_us},
                      {"call_gbps", gbps},
                      {"graph_us", graph_us},
                      {"graph_gbps", graph_gbps}});
    }
  }
  Json bounds = Json::array();
  std::printf("captured at a bound far above the lengths\n");
  for (const std::int64_t batch : {1, 8, 64}) bounds.push_back(bench_bound(gpu, pools, seed, batch));
  return {{"rows", rows}, {"bounds", bounds}};
}

}  // namespace quern::bench
