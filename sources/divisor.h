// Makes what kernels divide by: common/divisor.cuh, which says why it is right.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>

#include "sources/common/divisor.cuh"

namespace quern::ops {

// `value` is at least 1.
inline q::Divisor divisor(std::int32_t value) {
  const auto by = static_cast<std::uint64_t>(value);
  const auto log = static_cast<std::uint32_t>(std::bit_width(by - 1));
  return {value, static_cast<q::u32>(((std::uint64_t{1} << (31 + log)) + by - 1) / by), 31 + log};
}

}  // namespace quern::ops
