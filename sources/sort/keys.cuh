// Keys as numbers without a sign, in the order that they are to be in.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/kernel.cuh"

namespace q {

using Key = KEY;  // a key's bits
inline constexpr int kKeyBits = 8 * static_cast<int>(sizeof(Key));
inline constexpr Key kSign = static_cast<Key>(Key{1} << (kKeyBits - 1));
inline constexpr bool kSigned = SIGNED != 0;     // or floating point
inline constexpr u64 kInfinity = INFINITY_BITS;  // 0: no floating point

// NaNs are all the largest, zeros all 0.
QUERN_DEVICE Key in_order(Key bits, i32 descending) {
  Key key = kSigned ? static_cast<Key>(bits ^ kSign) : bits;
  if constexpr (kInfinity != 0) {
    const Key magnitude = static_cast<Key>(bits & ~kSign);
    if (bits & kSign) key = magnitude == 0 ? kSign : static_cast<Key>(~bits);
    if (magnitude > static_cast<Key>(kInfinity)) key = static_cast<Key>(~Key{0});
  }
  return descending ? static_cast<Key>(~key) : key;
}
QUERN_DEVICE u32 digit_of(Key bits, i32 shift, i32 descending) {
  return static_cast<u32>(in_order(bits, descending) >> shift) & 255u;
}

}  // namespace q
