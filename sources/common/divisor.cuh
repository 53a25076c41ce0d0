// Division of non-negative numbers by a divisor that is known before the launch: a multiplication and a shift, where a
// division by an arbitrary number takes a multiprocessor some 150 cycles. The library computes the factors: divisor.h.
//
// For 1 <= d <= 2^l with d > 2^(l-1), m = ceil(2^(31+l) / d) is less than 2^32, and m d = 2^(31+l) + e with e < 2^l.
// For n < 2^31 then floor(n m / 2^(31+l)) = floor(n / d + n e / (d 2^(31+l))) = floor(n / d), since n e / 2^(31+l) < 1.
// (Granlund and Montgomery, "Division by invariant integers using multiplication", 1994.)
//
// And distances in memory, of which a kernel takes the lower 32 bits where they all fit: a compiler that is to find
// that out from 64 does not multiply 32 by 32.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/types.cuh"

namespace q {

struct Divisor {
  i32 value;
  u32 multiplier, shift;
};

QUERN_SHARED_CODE constexpr i32 operator/(i32 n, const Divisor& by) {
  return static_cast<i32>(static_cast<u64>(static_cast<u32>(n)) * by.multiplier >> by.shift);
}

struct Distance {
  i32 low, high;
};

QUERN_SHARED_CODE constexpr Distance distance(i64 bytes) {
  return {static_cast<i32>(static_cast<u32>(bytes)), static_cast<i32>(bytes >> 32)};
}
QUERN_SHARED_CODE constexpr i64 whole_of(const Distance& d) {
  return static_cast<i64>(static_cast<u64>(static_cast<u32>(d.high)) << 32 | static_cast<u32>(d.low));
}

}  // namespace q
