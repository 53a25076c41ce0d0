// The random numbers that scheduling and late delivery are drawn from: the same seed and block give the same run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace quern::jit::host {

// A finaliser in the manner of a 64-bit hash: every bit of the input moves every bit of the output.
constexpr std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ULL;
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ULL;
  return x ^ (x >> 32);
}

class Random {
 public:
  Random() = default;
  Random(std::uint64_t seed, std::uint64_t stream) : state_(mix(seed + 0x9e3779b97f4a7c15ULL) ^ mix(stream * 2 + 1)) {}

  std::uint32_t next() {
    state_ += 0x9e3779b97f4a7c15ULL;
    return static_cast<std::uint32_t>(mix(state_) >> 32);
  }
  // 0 .. n-1, n > 0
  std::uint32_t below(std::uint32_t n) {
    return static_cast<std::uint32_t>((static_cast<std::uint64_t>(next()) * n) >> 32);
  }
  // True once in `n` times; never for 0.
  bool once_in(std::uint32_t n) { return n != 0 && below(n) == 0; }

 private:
  std::uint64_t state_ = 0;
};

}  // namespace quern::jit::host
