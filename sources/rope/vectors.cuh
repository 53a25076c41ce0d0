// A few neighbouring elements of a head, loaded and stored in one access each.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/kernel.cuh"

namespace q {

template <int kBytes>
struct Bytes;
template <>
struct Bytes<1> {
  u8 x;
};
template <>
struct alignas(2) Bytes<2> {
  u8 x[2];
};
template <>
struct alignas(4) Bytes<4> {
  u8 x[4];
};
template <>
struct alignas(8) Bytes<8> {
  u32 x[2];
};

// `kWidth` (1, 2, 4 or 8, at most 16 bytes of them) elements as they lie in memory, in words.
template <class T, int kWidth>
struct Packed {
  static constexpr int kBytes = kWidth * static_cast<int>(sizeof(T));
  static_assert(kBytes <= 16);
  u32 words[kBytes < 4 ? 1 : kBytes / 4];
};

template <class T, int kWidth>
QUERN_DEVICE Packed<T, kWidth> load_packed(const T* from) {
  Packed<T, kWidth> v;
  constexpr int kBytes = Packed<T, kWidth>::kBytes;
  const void* at = from;
  if constexpr (kBytes == 16) {
    const vec16 x = load16_once(at);
    QUERN_UNROLL for (int i = 0; i < 4; ++i) v.words[i] = x.x[i];
  } else if constexpr (kBytes == 8) {
    const Bytes<8> x = *static_cast<const Bytes<8>*>(at);
    v.words[0] = x.x[0], v.words[1] = x.x[1];
  } else if constexpr (kBytes == 4) {
    v.words[0] = *static_cast<const u32*>(at);
  } else if constexpr (kBytes == 2) {
    v.words[0] = *static_cast<const u16*>(at);
  } else {
    v.words[0] = *static_cast<const u8*>(at);
  }
  return v;
}
template <class T, int kWidth>
QUERN_DEVICE void store_packed(T* to, const Packed<T, kWidth>& v) {
  constexpr int kBytes = Packed<T, kWidth>::kBytes;
  void* at = to;
  if constexpr (kBytes == 16) {
    store16_global(at, {{v.words[0], v.words[1], v.words[2], v.words[3]}});
  } else if constexpr (kBytes == 8) {
    *static_cast<Bytes<8>*>(at) = {{v.words[0], v.words[1]}};
  } else if constexpr (kBytes == 4) {
    *static_cast<u32*>(at) = v.words[0];
  } else if constexpr (kBytes == 2) {
    *static_cast<u16*>(at) = static_cast<u16>(v.words[0]);
  } else {
    *static_cast<u8*>(at) = static_cast<u8>(v.words[0]);
  }
}

// To f32. T = f16, bf16 or f32.
template <class T, int kWidth>
QUERN_DEVICE void widen_packed(const Packed<T, kWidth>& v, f32* to) {
  if constexpr (sizeof(T) == 4) {
    QUERN_UNROLL for (int i = 0; i < kWidth; ++i) to[i] = f32_of(v.words[i]);
  } else if constexpr (kWidth == 1) {
    to[0] = unpack<T>(v.words[0]).x;
  } else {
    QUERN_UNROLL for (int i = 0; i < kWidth; i += 2) {
      const f32x2 pair = unpack<T>(v.words[i / 2]);
      to[i] = pair.x, to[i + 1] = pair.y;
    }
  }
}

// What fits of two numbers, in the low bytes. T = e4m3, e5m2 or i8.
template <class T>
QUERN_DEVICE u32 encode_two(f32 low, f32 high) {
  return pack_fp8<T>(low, high);
}
template <>
QUERN_DEVICE u32 encode_two<i8>(f32 low, f32 high) {
  return round_to_int8(low) | round_to_int8(high) << 8;
}

// From f32, rounded to nearest even; 8 bits saturate. T is any element.
template <class T, int kWidth>
QUERN_DEVICE Packed<T, kWidth> narrow_packed(const f32* from) {
  Packed<T, kWidth> v;
  if constexpr (sizeof(T) == 4) {
    QUERN_UNROLL for (int i = 0; i < kWidth; ++i) v.words[i] = bits_of(from[i]);
  } else if constexpr (sizeof(T) == 2) {
    if constexpr (kWidth == 1) {
      v.words[0] = pack<T>(from[0], 0.0f);
    } else {
      QUERN_UNROLL for (int i = 0; i < kWidth; i += 2) v.words[i / 2] = pack<T>(from[i], from[i + 1]);
    }
  } else if constexpr (kWidth == 1) {
    v.words[0] = encode_two<T>(from[0], 0.0f) & 0xffu;
  } else if constexpr (kWidth == 2) {
    v.words[0] = encode_two<T>(from[0], from[1]);
  } else {
    QUERN_UNROLL for (int i = 0; i < kWidth; i += 4) {
      v.words[i / 4] = encode_two<T>(from[i], from[i + 1]) | encode_two<T>(from[i + 2], from[i + 3]) << 16;
    }
  }
  return v;
}

// The largest number of an 8-bit element.
template <class T>
inline constexpr f32 kLargestCode = 448.0f;
template <>
inline constexpr f32 kLargestCode<e5m2> = 57344.0f;
template <>
inline constexpr f32 kLargestCode<i8> = 127.0f;

// Division by a scale, rounded to nearest once: the reciprocal as the sum of two numbers (Brisebarre, Muller and Raina,
// "Accelerating correctly rounded floating-point division when the divisor is known in advance", 2004).
struct ScaleDivisor {
  f32 high, low;
};
QUERN_DEVICE ScaleDivisor scale_divisor(f32 scale) {
  const f32 high = rcp(scale), rest = fma(-scale, high, 1.0f), low = high * rest;
  return {high, fabs(rest) < 1.0f ? fma(low, rest, low) : 0.0f};  // of 0 and infinity there is no rest
}
QUERN_DEVICE f32 divide_by(f32 value, const ScaleDivisor& by) {
  const f32 rough = value * by.high, exact = fma(value, by.high, value * by.low);
  // Where the first part overflows or is 0 the second says nothing more.
  return value != 0.0f && fabs(exact) < infinity() ? exact : rough;
}

}  // namespace q
