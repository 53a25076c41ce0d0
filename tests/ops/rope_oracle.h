// Rotary positions by their formulas, in fp64.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

#include "capi/quern.h"

namespace quern::test {

// Radians from one position to the next, of pair i.
inline long double rope_frequency(const quern_rope_options& o, int rotary, int pair) {
  const long double base = o.theta != 0.0 ? o.theta : 10000.0, factor = o.factor != 0.0 ? o.factor : 1.0;
  const long double length = o.original_positions, tau = 2.0L * std::numbers::pi_v<long double>;
  const auto plain = [&](long double theta) { return std::pow(theta, -2.0L * pair / rotary); };
  switch (o.scaling) {
    case QUERN_ROPE_LINEAR:
      return plain(base) / factor;
    case QUERN_ROPE_NTK:
      return plain(base * std::pow(factor, rotary / (rotary - 2.0L)));
    case QUERN_ROPE_YARN: {
      const long double fast = o.beta_fast != 0.0 ? o.beta_fast : 32.0, slow = o.beta_slow != 0.0 ? o.beta_slow : 1.0;
      const auto turning = [&](long double turns) {
        return rotary * std::log(length / (turns * tau)) / (2.0 * std::log(base));
      };
      long double low = turning(fast), high = turning(slow);
      if ((o.flags & QUERN_ROPE_EXACT_RAMP) == 0) low = std::floor(low), high = std::ceil(high);
      low = std::max(low, 0.0L), high = std::min(high, rotary - 1.0L);
      const long double ramp = std::clamp((pair - low) / (high == low ? 0.001L : high - low), 0.0L, 1.0L);
      return plain(base) * (1.0 - ramp) + plain(base) / factor * ramp;
    }
    case QUERN_ROPE_LLAMA3: {
      const long double low = o.low_freq_factor != 0.0 ? o.low_freq_factor : 1.0,
                        high = o.high_freq_factor != 0.0 ? o.high_freq_factor : 4.0;
      const long double wavelength = tau / plain(base);
      if (wavelength < length / high) return plain(base);
      if (wavelength > length / low) return plain(base) / factor;
      const long double smooth = (length / wavelength - low) / (high - low);
      return (1.0 - smooth) * plain(base) / factor + smooth * plain(base);
    }
    default:
      return plain(base);
  }
}

inline double rope_attention_factor(const quern_rope_options& o) {
  if (o.attention_factor != 0.0) return o.attention_factor;
  return o.scaling == QUERN_ROPE_YARN && o.factor > 1.0 ? 0.1 * std::log(o.factor) + 1.0 : 1.0;
}

// Turns a head in place.
inline void rope_exactly(const quern_rope_options& o, std::int64_t position, std::vector<double>& x) {
  const int rotary = o.rotary_dim != 0 ? o.rotary_dim : static_cast<int>(x.size());
  for (int i = 0; i < rotary / 2; ++i) {
    const bool interleaved = (o.flags & QUERN_ROPE_INTERLEAVED) != 0;
    double& a = x[static_cast<std::size_t>(interleaved ? 2 * i : i)];
    double& b = x[static_cast<std::size_t>(interleaved ? 2 * i + 1 : i + rotary / 2)];
    const long double angle = static_cast<long double>(position) * rope_frequency(o, rotary, i);
    const double m = rope_attention_factor(o);
    const auto cosine = static_cast<double>(m * std::cos(angle)), sine = static_cast<double>(m * std::sin(angle));
    const double old = a;
    a = old * cosine - b * sine;
    b = b * cosine + old * sine;
  }
}

}  // namespace quern::test
