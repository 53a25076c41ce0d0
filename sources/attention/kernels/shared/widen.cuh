// Keys, values and queries of 8 bits become what is multiplied, exactly: every code of e4m3, e5m2 and int8 is a number
// of f16 and of bf16. Their scales are applied to logits, weights and results.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attention/kernels/shared/problem.cuh"

namespace q {

template <class T>
inline constexpr bool kIsF16 = false;
template <>
inline constexpr bool kIsF16<f16> = true;

template <class T>
inline constexpr bool kIsInteger = false;
template <>
inline constexpr bool kIsInteger<i8> = true;

// Eight codes as they lie in memory.
struct alignas(8) Codes {
  u32 x[2];
};
// From memory that is aligned to 8 bytes, or to 4.
template <class T>
QUERN_DEVICE Codes load_codes(const T* from) {
  const void* at = from;
  if constexpr (COPY_BYTES == 16) {
    return *static_cast<const Codes*>(at);
  } else {
    return {{static_cast<const u32*>(at)[0], static_cast<const u32*>(at)[1]}};
  }
}

// Two codes, in the low bytes, to two elements.
template <class Code>
QUERN_DEVICE u32 widen_two_codes(u32 codes) {
  if constexpr (sizeof(Code) != 1) {
    return codes;
  } else {
#ifdef QUERN_NATIVE_FP8
    const u16 both = static_cast<u16>(codes);
    if constexpr (kIsF16<Element>) return NativeFp8<Code>::decode(both);
#endif
    const f32x2 v = unpack_fp8<Code>(static_cast<u16>(codes));
    return pack<Element>(v.x, v.y);
  }
}
// int8: with its sign turned the code is a number from 0 to 255, which stands in the low bits of 2^23 and itself.
template <>
QUERN_DEVICE u32 widen_two_codes<i8>(u32 codes) {
  const u32 turned = codes ^ 0x8080u;
  const f32 low = f32_of(0x4b000000u | (turned & 0xffu)), high = f32_of(0x4b000000u | (turned >> 8 & 0xffu));
  return pack<Element>(low - 8388736.0f, high - 8388736.0f);
}

template <class Code>
QUERN_DEVICE vec16 widen_codes(const Codes& v) {
  return {{widen_two_codes<Code>(v.x[0] & 0xffffu), widen_two_codes<Code>(v.x[0] >> 16),
           widen_two_codes<Code>(v.x[1] & 0xffffu), widen_two_codes<Code>(v.x[1] >> 16)}};
}

}  // namespace q
