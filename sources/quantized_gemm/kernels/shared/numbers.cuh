// The numbers of a product as constants tell them: how a and b are stored, what is multiplied, and how their scales are
// stored.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quantized_gemm/kernels/shared/decode.cuh"

namespace q {

using CodeA = CODE_A;
using CodeB = CODE_B;

inline constexpr i32 kGroup = GROUP;  // of k that share a scale; 0: all of k
inline constexpr bool kGroupsOfScaleA = GROUPS_A != 0, kGroupsOfScaleB = GROUPS_B != 0;
inline constexpr bool kZeros = ZEROS != 0;  // there is a tensor of zero points

// What is multiplied: bytes where both operands are integers of as many bits, else the floating-point type of a, or
// f16, which holds every other number there is.
template <bool first, class A, class B>
struct Either {
  using type = A;
};
template <class A, class B>
struct Either<false, A, B> {
  using type = B;
};
template <class Code>
inline constexpr bool kIsInteger = false;
template <>
inline constexpr bool kIsInteger<i8> = true;
template <>
inline constexpr bool kIsInteger<Int4> = true;
template <>
inline constexpr bool kIsInteger<Uint4> = true;
inline constexpr bool kIntegers = kIsInteger<CodeA> && kIsInteger<CodeB> && kGroup != 16;
using Multiplied = Either<kIntegers, i8, Either<kIsBf16<CodeA>, bf16, f16>::type>::type;
inline constexpr bool kPaired = kBitsOf<CodeA> == 4 || kBitsOf<CodeB> == 4;
using DecodeA = Decode<CodeA, Multiplied, kPaired>;
using DecodeB = Decode<CodeB, Multiplied, kPaired>;

// A stored scale of 8 bits without mantissa.
struct Ue8m0 {
  u8 bits;
};
QUERN_DEVICE f32 to_f32(Ue8m0 v) {
  // 2^-127 is a subnormal number of f32, and 255 is a NaN.
  return v.bits == 255 ? nan() : f32_of(v.bits == 0 ? 0x00400000u : static_cast<u32>(v.bits) << 23);
}
template <class Scale>
inline constexpr bool kIsUe8m0 = false;
template <>
inline constexpr bool kIsUe8m0<Ue8m0> = true;
using ScaleA = SCALE_A;
using ScaleB = SCALE_B;

// Whether a number times its scale is a number of the multiplied type.
template <class Code, class Scale>
inline constexpr bool kExactTimes = false;
template <class Code>
inline constexpr bool kExactTimes<Code, e4m3> = kBitsOf<Code> == 4;

}  // namespace q
