// The 8-bit floating-point types, as OCP defines them: from f32 they round to nearest even, saturate at the largest
// finite value (infinities too) and make every NaN 0x7f. A backend with instructions for it defines QUERN_NATIVE_FP8
// and NativeFp8<T>::encode(lo, hi) -> u16, NativeFp8<T>::decode(pair) -> two f16 as u32.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/backend.cuh"

namespace q {

template <class T>
struct Fp8;
template <>
struct Fp8<e4m3> {
  static constexpr u32 kMantissa = 3;           // bits
  static constexpr u32 kRebias = 127 - 7;       // between the exponents of f32 and this type
  static constexpr u32 kLargest = 0x7e;         // 448
  static constexpr f32 kUnit = 0x1p-9f;         // the smallest subnormal
  static constexpr f32 kUnitSpacing = 0x1p14f;  // where f32 values lie kUnit apart
};
template <>
struct Fp8<e5m2> {
  static constexpr u32 kMantissa = 2;
  static constexpr u32 kRebias = 127 - 15;
  static constexpr u32 kLargest = 0x7b;  // 57344
  static constexpr f32 kUnit = 0x1p-16f;
  static constexpr f32 kUnitSpacing = 0x1p7f;
};

// No f32 subnormal occurs in between, so flushing them to zero changes nothing.
template <class T>
QUERN_DEVICE u8 round_to_fp8(f32 v) {
  constexpr u32 kDropped = 23 - Fp8<T>::kMantissa;
  const u32 sign = bits_of(v) >> 24 & 0x80u;
  const u32 magnitude = bits_of(v) & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 0x7f;
  u32 code;
  if (magnitude < (Fp8<T>::kRebias + 1) << 23) {
    code = bits_of(f32_of(magnitude) + Fp8<T>::kUnitSpacing) - bits_of(Fp8<T>::kUnitSpacing);
  } else {
    const u32 half = (1u << (kDropped - 1)) - 1 + (magnitude >> kDropped & 1);
    code = (magnitude - (Fp8<T>::kRebias << 23) + half) >> kDropped;
    code = code < Fp8<T>::kLargest ? code : Fp8<T>::kLargest;
  }
  return static_cast<u8>(sign | code);
}

template <class T>
QUERN_DEVICE f32 widen_fp8(u8 bits) {
  constexpr u32 kShift = 23 - Fp8<T>::kMantissa;
  const u32 sign = (bits & 0x80u) << 24;
  const u32 code = bits & 0x7fu;
  u32 magnitude = bits_of(static_cast<f32>(code) * Fp8<T>::kUnit);
  if (code >= 1u << Fp8<T>::kMantissa) magnitude = (code << kShift) + (Fp8<T>::kRebias << 23);
  // e5m2 keeps its topmost exponent for infinity and NaN, e4m3 only its very last code for NaN.
  if (code > Fp8<T>::kLargest) magnitude = 0x7f800000u | (Fp8<T>::kMantissa == 2 ? code << kShift : 0x7fffffu);
  return f32_of(sign | (magnitude & 0x7fffffffu));
}

// Two values, the first in the low byte.
template <class T>
QUERN_DEVICE u16 pack_fp8(f32 lo, f32 hi) {
#ifdef QUERN_NATIVE_FP8
  return NativeFp8<T>::encode(lo, hi);
#else
  return static_cast<u16>(round_to_fp8<T>(lo) | round_to_fp8<T>(hi) << 8);
#endif
}
// Four of them, the first in the lowest byte.
template <class T>
QUERN_DEVICE u32 pack_four_fp8(f32 a, f32 b, f32 c, f32 d) {
#ifdef QUERN_NATIVE_FP8
  return join_halves(pack_fp8<T>(a, b), pack_fp8<T>(c, d));
#else
  return static_cast<u32>(pack_fp8<T>(a, b)) | static_cast<u32>(pack_fp8<T>(c, d)) << 16;
#endif
}
template <class T>
QUERN_DEVICE f32x2 unpack_fp8(u16 v) {
#ifdef QUERN_NATIVE_FP8
  return unpack<f16>(NativeFp8<T>::decode(v));
#else
  return {widen_fp8<T>(static_cast<u8>(v & 0xff)), widen_fp8<T>(static_cast<u8>(v >> 8))};
#endif
}
// The same as two f16, in which every value is exact.
template <class T>
QUERN_DEVICE u32 fp8_to_f16x2(u16 v) {
#ifdef QUERN_NATIVE_FP8
  return NativeFp8<T>::decode(v);
#else
  const f32x2 two = unpack_fp8<T>(v);
  return pack<f16>(two.x, two.y);
#endif
}

QUERN_DEVICE f32 to_f32(e4m3 v) { return unpack_fp8<e4m3>(v.bits).x; }
QUERN_DEVICE f32 to_f32(e5m2 v) { return unpack_fp8<e5m2>(v.bits).x; }
template <>
QUERN_DEVICE e4m3 from_f32<e4m3>(f32 v) {
  return {static_cast<u8>(pack_fp8<e4m3>(v, 0.0f) & 0xff)};
}
template <>
QUERN_DEVICE e5m2 from_f32<e5m2>(f32 v) {
  return {static_cast<u8>(pack_fp8<e5m2>(v, 0.0f) & 0xff)};
}

// The nearest of -127 to 127, ties to even, of any number; 0 of NaN.
QUERN_DEVICE u32 round_to_int8(f32 v) {
  // 1.5 * 2^23: added to it, a small number is rounded to an integer, which then stands in the low bits.
  const f32 bounded = fmin(fmax(v, -127.0f), 127.0f);
  return v == v ? bits_of(bounded + 12582912.0f) & 0xffu : 0u;
}

}  // namespace q
