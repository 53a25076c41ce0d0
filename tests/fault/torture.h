// How much of a random test is run: a share in CI, all that one has time for with `./dev torture`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace quern::cache::testing {

// QUERN_TORTURE=50 makes everything fifty times as long.
inline std::uint64_t times(std::uint64_t short_run) {
  const char* const factor = std::getenv("QUERN_TORTURE");
  return factor == nullptr ? short_run : short_run * std::strtoull(factor, nullptr, 10);
}

// Printed by the test that uses it, and taken from QUERN_SEED to run that again.
inline std::uint64_t seed(std::uint64_t otherwise) {
  const char* const given = std::getenv("QUERN_SEED");
  return given == nullptr ? otherwise : std::strtoull(given, nullptr, 10);
}

// `./dev torture` runs tests that hold times alone: there they are held to the figures that are promised, in CI to such
// as hold on any machine, however busy.
inline double bound(double promised, double in_ci) {
  return std::getenv("QUERN_TORTURE") != nullptr ? promised : in_ci;
}

// Whether one of several processes that share a test (the third of eight: QUERN_SLICE=3/8) does this part of it.
inline bool is_ours(std::uint64_t part) {
  unsigned long long mine = 1, of = 1;
  if (const char* const given = std::getenv("QUERN_SLICE"); given != nullptr)
    std::sscanf(given, "%llu/%llu", &mine, &of);
  return part % of == mine - 1;
}

struct Random {
  std::uint64_t state;
  std::uint64_t next() {
    state += 0x9e3779b97f4a7c15ULL;
    std::uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  std::uint64_t below(std::uint64_t n) { return next() % n; }
};

}  // namespace quern::cache::testing
