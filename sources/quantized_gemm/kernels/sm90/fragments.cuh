// From packed weights to operand A of wgmma, in registers.
//
// Of each 16 of k a lane of wgmma holds those at 2 q, 2 q + 1, 8 + 2 q and 9 + 2 q of two lines, q being its number
// among the four lanes that hold the same lines. The activations lie in shared memory as TMA brings them, eight k by
// eight, so this order is not ours to choose: of eight weights of 4 bits, which are a word, a lane takes byte q, of
// eight of 8 bits bytes 2 q and 2 q + 1. All four lanes read the same 16 bytes, at once, and each picks its own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/sm90/warpgroup.cuh"
#include "quantized_gemm/kernels/shared/numbers.cuh"

namespace q {

// Two weights of type Code that follow one another along k, as numbers of type T, picked by selector(q).
template <class Code, class T>
struct WeightPair {
  static constexpr bool kFour = kBitsOf<Code> == 4;
  // Of 10 bits of f16's mantissa the upper number's four may lie at bit 4: the byte is taken for both halves at once.
  static constexpr bool kInBothHalves = kFour && !kIsE2m1<Code> && !kIsBf16<T>;
  // These are converted from two bytes side by side.
  static constexpr bool kSideBySide = kIsFp8<Code> || Decode<Code, T, false>::kByF32;
  using Bytes = Decode<Code, T, false>;

  static QUERN_DEVICE u32 selector(u32 quad) {
    if constexpr (kInBothHalves) return quad * 0x1111u;
    if constexpr (kFour) return 0x4440u | quad;  // the byte by itself
    if constexpr (kSideBySide) return 0x0010u + quad * 0x0022u;
    return 0x1100u + quad * 0x2222u;  // in both bytes of each half, of which masks leave what is needed
  }
  // What pair() subtracts, for a zero point of so much.
  static QUERN_DEVICE u32 zero_word(i32 zero) {
    if constexpr (kInBothHalves) return pack<T>(-1024.0f - static_cast<f32>(zero), -64.0f - static_cast<f32>(zero));
    return Bytes::zero_word(zero);
  }
  // Of the eight weights in `low`, and of 8 bits in `high`.
  static QUERN_DEVICE u32 pair(u32 low, u32 high, u32 selector, u32 zero) {
    const u32 own = permute_bytes_by(low, kInBothHalves ? low : kFour ? 0u : high, selector);
    if constexpr (kIsE2m1<Code>) {
      // Exponent and mantissa to their places in both halves by one product, the signs by another; short of a power of
      // two.
      constexpr u32 kMantissa = kIsBf16<T> ? 6 : 9, kMagnitude = 0x00070007u << kMantissa;
      const u32 magnitude = own * (1u << kMantissa | 1u << (kMantissa + 12)) & kMagnitude;
      const u32 small = masked_and_turned(own * (1u << 12 | 1u << 24), 0x80008000u, magnitude);
      return fma_pairs<T>(small, both<T>(kIsBf16<T> ? 0x1p126f : 0x1p14f), 0u);
    } else if constexpr (kInBothHalves) {
      // 1024 and the lower four bits, 64 and the upper four, whose last place there is 1/16.
      constexpr u32 kTurned = kUnsigned<Code> ? 0x54006400u : 0x54006400u | 0x00800008u;
      return fma_pairs<T>(masked_and_turned(own, 0x00f0000fu, kTurned), both<T>(1.0f), zero);
    } else if constexpr (kFour) {
      // The upper four bits to the upper half.
      constexpr u32 kTurned = kUnsigned<Code> ? Bytes::kBase : Bytes::kBase | 0x00080008u;
      return fma_pairs<T>(masked_and_turned(own * 0x1001u, 0x000f000fu, kTurned), both<T>(1.0f), zero);
    } else if constexpr (kIsFp8<Code>) {
      return Bytes::two_fp8(own);
    } else if constexpr (kSideBySide) {
      return Bytes::template two<false>(own, zero);
    } else if constexpr (kUnsigned<Code>) {
      return fma_pairs<T>(masked_and_turned(own, 0x00ff00ffu, Bytes::kBase), both<T>(1.0f), zero);
    } else if constexpr (!kIsBf16<T>) {
      return fma_pairs<T>(masked_and_turned(own, 0x00ff00ffu, Bytes::kBase | 0x00800080u), both<T>(1.0f),
                          both<T>(-1152.0f));
    } else {
      const u32 seven = masked_and_turned(own, 0x007f007fu, Bytes::kBase),
                sign = masked_and_turned(own, 0x00800080u, Bytes::kBase);
      return fma_pairs<T>(sign, both<T>(-1.0f), seven);
    }
  }
};
using WeightsOfB = WeightPair<CodeB, Multiplied>;

// How scales in groups are applied. Those of 16, and powers of two where bf16 holds every product, are multiplied into
// the weights; sums of other groups are scaled.
inline constexpr bool kScaledWeights =
    kGroupsOfScaleB && (kGroup == 16 || (kGroup == 32 && kIsUe8m0<ScaleB> && kBitsOf<CodeB> == 4 && kIsBf16<CodeA>));
inline constexpr bool kScaledSums = kGroupsOfScaleB && !kScaledWeights;
inline constexpr bool kExactWeights = kIsUe8m0<ScaleB> || kExactTimes<CodeB, ScaleB>;

// The word by which scaled_pair() multiplies.
QUERN_DEVICE u32 scale_word(f32 scale) {
  if constexpr (kScaledWeights && kExactWeights) return both<Multiplied>(scale);
  return bits_of(scale);
}
QUERN_DEVICE u32 scaled_pair(u32 pair, u32 scale) {
  if constexpr (kExactWeights) return fma_pairs<Multiplied>(pair, scale, 0u);
  const f32x2 two = unpack<Multiplied>(pair);
  return pack<Multiplied>(two.x * f32_of(scale), two.y * f32_of(scale));
}

}  // namespace q
