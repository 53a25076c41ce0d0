// Scales of 8-bit numbers: x = q * scale.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/kernel.cuh"

namespace q {

template <class T>
inline constexpr f32 kLargest = 0;
template <>
inline constexpr f32 kLargest<e4m3> = 448.0f;
template <>
inline constexpr f32 kLargest<e5m2> = 57344.0f;
template <>
inline constexpr f32 kLargest<i8> = 127.0f;

// The scale for values of at most this magnitude: 1 for 0, else magnitude / largest number of T, never subnormal;
// rounded up to a power of two if `power_of_two`.
template <class T>
QUERN_DEVICE f32 scale_for(f32 magnitude, bool power_of_two) {
  if (magnitude == 0.0f) return 1.0f;
  const f32 scale = fmax(magnitude / kLargest<T>, 0x1p-126f);
  if (!power_of_two) return scale;
  return f32_of((bits_of(scale) + 0x7fffffu) & 0x7f800000u);
}

}  // namespace q
