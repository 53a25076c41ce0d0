// From numbers of 4, 8 or 16 bits, eight of which follow one another along k (common/runs.cuh), to what tensor cores
// multiply: f16 or bf16, which hold each of them exactly, or bytes where both operands are integers.
//
// Integers become floating point without a conversion: their bits are put under the exponent of 1024 in f16 (of 128 in
// bf16), whose last place is 1, and that number is subtracted, a zero point with it.
//
// Where one operand has 4 bits, the eight of both stand in the order in which masks take them out of a word: pairs are
// k and k + 4, and bytes are the even k and the odd k.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/runs.cuh"

namespace q {

struct Int4 {};
struct Uint4 {};
struct E2m1 {};

template <class Code>
inline constexpr i32 kBitsOf = 8 * static_cast<i32>(sizeof(Code));
template <>
inline constexpr i32 kBitsOf<Int4> = 4;
template <>
inline constexpr i32 kBitsOf<Uint4> = 4;
template <>
inline constexpr i32 kBitsOf<E2m1> = 4;

template <class Code>
inline constexpr bool kUnsigned = false;  // less a zero point
template <>
inline constexpr bool kUnsigned<u8> = true;
template <>
inline constexpr bool kUnsigned<Uint4> = true;

template <class Code>
inline constexpr bool kIsE2m1 = false;
template <>
inline constexpr bool kIsE2m1<E2m1> = true;
template <class Code>
inline constexpr bool kIsInt4 = false;
template <>
inline constexpr bool kIsInt4<Int4> = true;
template <class Code>
inline constexpr bool kIsFp8 = false;
template <>
inline constexpr bool kIsFp8<e4m3> = true;

// What T's numbers stand for, where they are not the numbers themselves.
template <class Code, class T>
inline constexpr f32 kUnitOf = kIsInt4<Code> && sizeof(T) == 1 ? 0.0625f : 1.0f;

// Eight numbers as they lie in memory.
template <class Code>
struct Packed {
  u32 x[kBitsOf<Code> / 4];
};
template <class Code>
QUERN_DEVICE Packed<Code> load_packed(const u8* from) {
  if constexpr (kBitsOf<Code> == 4) {
    return {{*reinterpret_cast<const u32*>(from)}};
  } else if constexpr (kBitsOf<Code> == 8) {
    const u64 v = *reinterpret_cast<const u64*>(from);
    return {{static_cast<u32>(v), static_cast<u32>(v >> 32)}};
  } else {
    const vec16 v = load16(from);
    return {{v.x[0], v.x[1], v.x[2], v.x[3]}};
  }
}

// Two equal numbers.
template <class T>
QUERN_DEVICE u32 both(f32 v) {
  return pack<T>(v, v);
}

// From codes to the numbers of type T; with `paired` k and k + 4 meet. `zero` is what zero_word() makes of a zero
// point.
template <class Code, class T, bool paired>
struct Decode {
  static constexpr u32 kBase = kIsBf16<T> ? 0x43004300u : 0x64006400u;  // 128 or 1024
  static constexpr f32 kBaseValue = kIsBf16<T> ? 128.0f : 1024.0f;
  // Bytes of f32 are put under the exponent of 2^23 where bf16 has not the bits.
  static constexpr bool kByF32 = kIsBf16<T> && kUnsigned<Code> && kBitsOf<Code> == 8;

  static QUERN_DEVICE u32 zero_word(i32 zero) {
    if constexpr (sizeof(T) == 1) return static_cast<u32>(zero) * 0x01010101u;
    if constexpr (kByF32) return bits_of(-8388608.0f - static_cast<f32>(zero));
    if constexpr (sizeof(T) == 2) return both<T>(-kBaseValue - static_cast<f32>(zero));
  }

  // The bytes of two words in the order of the pairs.
  static QUERN_DEVICE u32 first_bytes(u32 low, u32 high) { return paired ? permute_bytes<0x5140>(low, high) : low; }
  static QUERN_DEVICE u32 last_bytes(u32 low, u32 high) { return paired ? permute_bytes<0x7362>(low, high) : high; }

  // Two bytes of `bytes`, the lower or the upper ones.
  template <bool upper>
  static QUERN_DEVICE u32 two(u32 bytes, u32 zero) {
    if constexpr (kByF32) {
      const u32 low = permute_bytes<upper ? 0x7552u : 0x7550u>(bytes, 0x4b000000u),
                high = permute_bytes<upper ? 0x7553u : 0x7551u>(bytes, 0x4b000000u);
      return pack<T>(f32_of(low) + f32_of(zero), f32_of(high) + f32_of(zero));
    } else if constexpr (kUnsigned<Code>) {
      const u32 based = permute_bytes<upper ? 0x4342u : 0x4140u>(bytes, 0x64u);
      return fma_pairs<T>(based, both<T>(1.0f), zero);
    } else if constexpr (kBitsOf<Code> == 8 && !kIsBf16<T>) {  // int8, its sign turned into an offset of 128
      const u32 based = permute_bytes<upper ? 0x4342u : 0x4140u>(bytes ^ 0x80808080u, 0x64u);
      return fma_pairs<T>(based, both<T>(1.0f), both<T>(-1152.0f));
    } else {
      // 128 + its low seven bits, less 128 or, where it is negative, 256.
      const u32 spread = permute_bytes<upper ? 0x4342u : 0x4140u>(bytes, 0u);
      const u32 low = masked_and_turned(spread, 0x007f007fu, kBase),
                sign = masked_and_turned(spread, 0x00800080u, kBase);
      return fma_pairs<T>(sign, both<T>(-1.0f), low);
    }
  }
  static QUERN_DEVICE u32 two_fp8(u32 codes) {
    if constexpr (kIsBf16<T>) {
      const f32x2 v = unpack_fp8<e4m3>(static_cast<u16>(codes));
      return pack<T>(v.x, v.y);
    } else {
      return fp8_to_f16x2<e4m3>(static_cast<u16>(codes));
    }
  }

  // E2m1's exponent and mantissa at the place of T's, four bits of each half of a word from bit 4 j on: the number,
  // short of a power of two.
  template <i32 j>
  static QUERN_DEVICE u32 small(u32 word) {
    constexpr i32 kMantissa = kIsBf16<T> ? 6 : 9, kLeft = kMantissa - 4 * j, kSign = 12 - 4 * j;
    constexpr u32 kMagnitude = 0x00070007u << kMantissa;
    const u32 moved = kLeft >= 0 ? word << (kLeft & 31) : word >> (-kLeft & 31);
    const u32 sign = word << kSign;
    return masked_and_turned(sign, 0x80008000u, moved & kMagnitude);
  }
  // Numbers of E2m1 times scales of e4m3 by one multiplication a pair: the products are numbers of T, kScaledUnit times
  // as small as they should be. scale_word() is what a scale becomes. In f16 the smallest product that is not zero,
  // 2^-10, is 2^-24, its smallest number; in bf16 the largest scale, 448, is 2^126.8.
  static constexpr f32 kScaledUnit = kIsBf16<T> ? 0x1p8f : 0x1p14f;
  static QUERN_DEVICE u32 scale_word(f32 scale) { return both<T>(kIsBf16<T> ? scale * 0x1p118f : scale); }
  static QUERN_DEVICE void scaled_run(const Packed<Code>& from, u32 scale, u32 (&to)[2 * sizeof(T)]) {
    const u32 x = from.x[0];
    to[0] = fma_pairs<T>(small<0>(x), scale, 0u), to[1] = fma_pairs<T>(small<1>(x), scale, 0u);
    to[2] = fma_pairs<T>(small<2>(x), scale, 0u), to[3] = fma_pairs<T>(small<3>(x), scale, 0u);
  }

  // Four bits of each half of a word, from bit 4 j on.
  template <i32 j>
  static QUERN_DEVICE u32 nibbles(u32 word, u32 zero) {
    if constexpr (kIsE2m1<Code>) {
      return fma_pairs<T>(small<j>(word), both<T>(kIsBf16<T> ? 0x1p126f : 0x1p14f), 0u);
    } else {
      // One exclusive or puts the base there and turns the sign.
      constexpr u32 kTurned = kUnsigned<Code> ? kBase : kBase | 0x00080008u;
      const u32 offset = kUnsigned<Code> ? zero : both<T>(-kBaseValue - 8.0f);
      return fma_pairs<T>(masked_and_turned(word >> 4 * j, 0x000f000fu, kTurned), both<T>(1.0f), offset);
    }
  }
  // Integers of 4 bits in f16: the odd ones are taken where they are, as sixteen times the number under the same base,
  // which saves every other shift. bf16 has not the bits for it.
  static QUERN_DEVICE void two_nibbles(u32 word, u32 zero, u32& even, u32& odd) {
    even = nibbles<0>(word, zero);
    constexpr u32 kTurned = kUnsigned<Code> ? kBase : kBase | 0x00800080u;
    const u32 offset = kUnsigned<Code> ? fma_pairs<T>(zero, both<T>(1.0f), both<T>(960.0f)) : both<T>(-72.0f);
    odd = fma_pairs<T>(masked_and_turned(word, 0x00f000f0u, kTurned), both<T>(0.0625f), offset);
  }
  static QUERN_DEVICE void run(const Packed<Code>& from, u32 zero, u32 (&to)[2 * sizeof(T)]) {
    const u32* x = from.x;
    if constexpr (sizeof(T) == 1) {
      if constexpr (kBitsOf<Code> == 8) {
        to[0] = paired ? permute_bytes<0x6420>(x[0], x[1]) : x[0];
        to[1] = paired ? permute_bytes<0x7531>(x[0], x[1]) : x[1];
      } else if constexpr (kUnsigned<Code>) {
        // The topmost bit keeps bytes from borrowing of one another.
        to[0] = (((x[0] & 0x0f0f0f0fu) | 0x80808080u) - zero) ^ 0x80808080u;
        to[1] = (((x[0] >> 4 & 0x0f0f0f0fu) | 0x80808080u) - zero) ^ 0x80808080u;
      } else {  // sixteen times the number: kUnitOf
        to[0] = x[0] << 4 & 0xf0f0f0f0u;
        to[1] = x[0] & 0xf0f0f0f0u;
      }
    } else if constexpr (kBitsOf<Code> == 4 && !kIsE2m1<Code> && !kIsBf16<T>) {
      two_nibbles(x[0], zero, to[0], to[1]);
      two_nibbles(x[0] >> 8, zero, to[2], to[3]);
    } else if constexpr (kBitsOf<Code> == 4) {
      to[0] = nibbles<0>(x[0], zero), to[1] = nibbles<1>(x[0], zero);
      to[2] = nibbles<2>(x[0], zero), to[3] = nibbles<3>(x[0], zero);
    } else if constexpr (kBitsOf<Code> == 16) {
      to[0] = paired ? permute_bytes<0x5410>(x[0], x[2]) : x[0];
      to[1] = paired ? permute_bytes<0x7632>(x[0], x[2]) : x[1];
      to[2] = paired ? permute_bytes<0x5410>(x[1], x[3]) : x[2];
      to[3] = paired ? permute_bytes<0x7632>(x[1], x[3]) : x[3];
    } else {
      const u32 low = first_bytes(x[0], x[1]), high = last_bytes(x[0], x[1]);
      if constexpr (kIsFp8<Code>) {
        to[0] = two_fp8(low), to[1] = two_fp8(low >> 16), to[2] = two_fp8(high), to[3] = two_fp8(high >> 16);
      } else {
        to[0] = two<false>(low, zero), to[1] = two<true>(low, zero);
        to[2] = two<false>(high, zero), to[3] = two<true>(high, zero);
      }
    }
  }
};

}  // namespace q
