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

// Whether one of eight elements is infinite or NaN.
QUERN_DEVICE bool is_finite(const vec16& v) {
  constexpr u32 kExponent = kIsF16<Element> ? 0x7c00u : 0x7f80u;
  bool finite = true;
  QUERN_UNROLL for (int i = 0; i < 4; ++i) {
    finite = finite && (v.x[i] & kExponent) != kExponent && (v.x[i] >> 16 & kExponent) != kExponent;
  }
  return finite;
}

// Widens rows of codes in shared memory, shared out among kThreadCount threads of which `thread` is one. With `check`,
// calls not_finite(row) for rows in which there is a number that is not finite, and writes zeros for it and its
// neighbours.
template <int kRowCount, int kDim, int kThreadCount, class NotFinite>
QUERN_DEVICE void widen_rows(const CacheElement* from, int from_pitch, Element* to, int to_pitch, int thread,
                             bool check, const NotFinite& not_finite) {
  constexpr int kChunks = kDim / 8;
  QUERN_TWO_AT_ONCE for (int i = thread; i < kRowCount * kChunks; i += kThreadCount) {
    const int row = i / kChunks, column = i % kChunks * 8;
    const void* source = from + row * from_pitch + column;
    vec16 v = widen_codes<CacheElement>(*static_cast<const Codes*>(source));
    if (check && !is_finite(v)) not_finite(row), v = {};
    store16(to + row * to_pitch + column, v);
  }
}

// The same for rows that need no widening.
template <int kRowCount, int kDim, int kThreadCount, class NotFinite>
QUERN_DEVICE void clear_not_finite(Element* rows, int pitch, int thread, const NotFinite& not_finite) {
  constexpr int kChunks = kDim / 8;
  QUERN_ROLLED for (int i = thread; i < kRowCount * kChunks; i += kThreadCount) {
    const int row = i % kRowCount, column = i / kRowCount * 8;
    if (is_finite(load16(rows + row * pitch + column))) continue;
    not_finite(row);
    store16(rows + row * pitch + column, {});
  }
}

}  // namespace q
