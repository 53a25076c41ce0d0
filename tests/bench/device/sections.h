// The parts of the benchmark. Each prints its table and returns the same as JSON; all throw std::runtime_error.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "tests/bench/device/problem.h"

namespace quern::bench {

using Json = nlohmann::ordered_json;

// A process of its own: the first calls of some kernels with the cache in this folder, reported as JSON on stdout.
inline constexpr std::string_view kFirstCallsChild = "--first-calls";
// Another: hot calls in marked regions, for system_calls.h; its kernel is in the cache.
inline constexpr std::string_view kMarkedChild = "--marked-calls";

Json first_calls(const std::string& cache);  // in the child
void marked_calls(const std::string& cache);

Json bench_cold(const std::string& own_path, const std::string& cache);
Json bench_hot(Gpu& gpu, const std::string& own_path, const std::string& cache);
Json bench_maps(Gpu& gpu);
Json bench_decode(Gpu& gpu, const Pools& pools, std::uint32_t seed);
Json bench_prefill(Gpu& gpu, const Pools& pools, std::uint32_t seed);
Json bench_quantize(Gpu& gpu, const Pools& pools);
Json bench_rmsnorm(Gpu& gpu, const Pools& pools);
Json bench_moe(Gpu& gpu, std::uint32_t seed);

// What the largest of those shapes need.
inline constexpr std::size_t kKvPool = std::size_t{1} << 30;
inline constexpr std::size_t kQueryPool = std::size_t{160} << 20;

// "ok" or "MISSED", behind a figure that has a goal.
inline const char* verdict(bool met) { return met ? "ok" : "MISSED"; }

}  // namespace quern::bench
