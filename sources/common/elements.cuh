// A few neighbouring elements of any type, as they lie in memory, and as the numbers (f32) or integers (i64) of an
// expression. T = f32, f16, bf16, e4m3, e5m2, i8, u8, i16, i32, i64 or boolean.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/divisor.cuh"
#include "common/kernel.cuh"
#include "common/whole.cuh"

namespace q {

// d * n, n having as many bits as index arithmetic.
QUERN_DEVICE i64 along(const Distance& d, i32 n) { return multiply_wide(d.low, n); }
QUERN_DEVICE i64 along(const Distance& d, i64 n) { return whole_of(d) * n; }

struct alignas(8) Bytes8 {
  u32 x[2];
};

// `kWidth` elements, a power of two of them and at most 16 bytes, the first in the low bits of the first word.
template <class T, int kWidth>
struct Elements {
  static constexpr int kBytes = kWidth * static_cast<int>(sizeof(T));
  static_assert(kBytes <= 16);
  u32 words[kBytes < 4 ? 1 : kBytes / 4];
};

// In one access, aligned to its size. `kOnce`: nothing else reads them.
template <class T, int kWidth, bool kOnce = false>
QUERN_DEVICE Elements<T, kWidth> load_elements(const u8* at) {
  Elements<T, kWidth> v;
  constexpr int kBytes = Elements<T, kWidth>::kBytes;
  const void* from = at;
  if constexpr (kBytes == 16) {
    const vec16 x = kOnce ? load16_once(from) : load16(from);
    v.words[0] = x.x[0], v.words[1] = x.x[1], v.words[2] = x.x[2], v.words[3] = x.x[3];
  } else if constexpr (kBytes == 8) {
    const Bytes8 x = *static_cast<const Bytes8*>(from);
    v.words[0] = x.x[0], v.words[1] = x.x[1];
  } else if constexpr (kBytes == 4) {
    v.words[0] = *static_cast<const u32*>(from);
  } else if constexpr (kBytes == 2) {
    v.words[0] = *static_cast<const u16*>(from);
  } else {
    v.words[0] = *static_cast<const u8*>(from);
  }
  return v;
}
template <class T, int kWidth>
QUERN_DEVICE void store_elements(u8* at, const Elements<T, kWidth>& v) {
  constexpr int kBytes = Elements<T, kWidth>::kBytes;
  void* to = at;
  if constexpr (kBytes == 16) {
    store16_global(to, {{v.words[0], v.words[1], v.words[2], v.words[3]}});
  } else if constexpr (kBytes == 8) {
    *static_cast<Bytes8*>(to) = {{v.words[0], v.words[1]}};
  } else if constexpr (kBytes == 4) {
    *static_cast<u32*>(to) = v.words[0];
  } else if constexpr (kBytes == 2) {
    *static_cast<u16*>(to) = static_cast<u16>(v.words[0]);
  } else {
    *static_cast<u8*>(to) = static_cast<u8>(v.words[0]);
  }
}

// Element i by itself, as its bits. i is known at compile time once loops are unrolled.
template <class T, int kWidth>
QUERN_DEVICE u32 bits_at(const Elements<T, kWidth>& v, int i) {
  constexpr int kPerWord = 4 / static_cast<int>(sizeof(T));
  static_assert(sizeof(T) <= 4);
  if constexpr (kPerWord == 1) {
    return v.words[i];
  } else {
    return v.words[i / kPerWord] >> i % kPerWord * (32 / kPerWord) & ((1u << 32 / kPerWord) - 1);
  }
}
template <class T, int kWidth>
QUERN_DEVICE i64 integer_at(const Elements<T, kWidth>& v, int i) {
  if constexpr (sizeof(T) == 8) {
    return static_cast<i64>(static_cast<u64>(v.words[2 * i + 1]) << 32 | v.words[2 * i]);
  } else {
    return static_cast<T>(bits_at(v, i));
  }
}

// The first `count`, `step` bytes apart; what is missing is 0.
template <class T, int kWidth>
QUERN_DEVICE Elements<T, kWidth> load_some(const u8* at, i64 step, int count) {
  Elements<T, kWidth> v{};
  QUERN_UNROLL for (int i = 0; i < kWidth; ++i) {
    if (i >= count) continue;
    const Elements<T, 1> one = load_elements<T, 1>(at + i * step);
    if constexpr (sizeof(T) == 8) {
      v.words[2 * i] = one.words[0], v.words[2 * i + 1] = one.words[1];
    } else {
      constexpr int kPerWord = 4 / static_cast<int>(sizeof(T));
      v.words[i / kPerWord] |= one.words[0] << i % kPerWord * (32 / kPerWord);
    }
  }
  return v;
}
template <class T, int kWidth>
QUERN_DEVICE void store_some(u8* at, i64 step, int count, const Elements<T, kWidth>& v) {
  QUERN_UNROLL for (int i = 0; i < kWidth; ++i) {
    if (i >= count) continue;
    if constexpr (sizeof(T) == 8) {
      store_elements<T, 1>(at + i * step, {{v.words[2 * i], v.words[2 * i + 1]}});
    } else {
      store_elements<T, 1>(at + i * step, {{bits_at(v, i)}});
    }
  }
}

template <class A, class B>
inline constexpr bool kSameType = false;
template <class A>
inline constexpr bool kSameType<A, A> = true;
template <class T>
inline constexpr bool kIsFloat = kSameType<T, f32> || kSameType<T, f16> || kSameType<T, bf16>;
template <class T>
inline constexpr bool kIsCode = kSameType<T, e4m3> || kSameType<T, e5m2>;

// As numbers: integers rounded to nearest, truth values 1 or 0.
template <class T, int kWidth>
QUERN_DEVICE void values_of(const Elements<T, kWidth>& v, f32* to) {
  if constexpr (kSameType<T, f32>) {
    QUERN_UNROLL for (int i = 0; i < kWidth; ++i) to[i] = f32_of(v.words[i]);
  } else if constexpr (kIsFloat<T> || kIsCode<T>) {
    QUERN_UNROLL for (int i = 0; i < kWidth; i += 2) {
      f32x2 pair;
      if constexpr (kIsCode<T>) {
        pair = unpack_fp8<T>(static_cast<u16>(v.words[i / 4] >> i % 4 * 8));
      } else {
        pair = unpack<T>(v.words[i / 2]);
      }
      to[i] = pair.x;
      if (i + 1 < kWidth) to[i + 1] = pair.y;
    }
  } else if constexpr (kSameType<T, boolean>) {
    QUERN_UNROLL for (int i = 0; i < kWidth; ++i) to[i] = bits_at(v, i) != 0 ? 1.0f : 0.0f;
  } else if constexpr (sizeof(T) == 8) {
    QUERN_UNROLL for (int i = 0; i < kWidth; ++i) to[i] = static_cast<f32>(integer_at(v, i));
  } else {
    QUERN_UNROLL for (int i = 0; i < kWidth; ++i) to[i] = static_cast<f32>(static_cast<T>(bits_at(v, i)));
  }
}
// As integers, of integer types and truth values.
template <class T, int kWidth>
QUERN_DEVICE void values_of(const Elements<T, kWidth>& v, i64* to) {
  QUERN_UNROLL for (int i = 0; i < kWidth; ++i) {
    if constexpr (kSameType<T, boolean>) {
      to[i] = bits_at(v, i) != 0 ? 1 : 0;
    } else {
      to[i] = integer_at(v, i);
    }
  }
}

// From numbers or integers (V = f32 or i64): floating-point types are rounded to nearest even and those of 8 bits
// saturate; integer types saturate, numbers cut towards 0; a truth value is whether it is not 0.
template <class T, int kWidth, class V>
QUERN_DEVICE Elements<T, kWidth> elements_of(const V* from) {
  Elements<T, kWidth> v{};
  if constexpr (kSameType<T, f32>) {
    QUERN_UNROLL for (int i = 0; i < kWidth; ++i) v.words[i] = bits_of(number_of(from[i]));
  } else if constexpr (kIsFloat<T>) {
    QUERN_UNROLL for (int i = 0; i < kWidth; i += 2) {
      v.words[i / 2] = pack<T>(number_of(from[i]), i + 1 < kWidth ? number_of(from[i + 1 < kWidth ? i + 1 : i]) : 0.0f);
    }
  } else if constexpr (kIsCode<T>) {
    QUERN_UNROLL for (int i = 0; i < kWidth; i += 2) {
      const f32 high = i + 1 < kWidth ? number_of(from[i + 1 < kWidth ? i + 1 : i]) : 0.0f;
      v.words[i / 4] |= static_cast<u32>(pack_fp8<T>(number_of(from[i]), high)) << i % 4 * 8;
    }
  } else if constexpr (kSameType<T, boolean>) {
    QUERN_UNROLL for (int i = 0; i < kWidth; ++i) v.words[i / 4] |= (from[i] != V{} ? 1u : 0u) << i % 4 * 8;
  } else if constexpr (sizeof(T) == 8) {
    QUERN_UNROLL for (int i = 0; i < kWidth; ++i) {
      const auto bits = static_cast<u64>(integer_of<T>(from[i]));
      v.words[2 * i] = static_cast<u32>(bits), v.words[2 * i + 1] = static_cast<u32>(bits >> 32);
    }
  } else {
    constexpr int kPerWord = 4 / static_cast<int>(sizeof(T));
    QUERN_UNROLL for (int i = 0; i < kWidth; ++i) {
      const u32 bits = static_cast<u32>(integer_of<T>(from[i]));
      if constexpr (kPerWord == 1) {
        v.words[i] = bits;
      } else {
        v.words[i / kPerWord] |= (bits & ((1u << 32 / kPerWord) - 1)) << i % kPerWord * (32 / kPerWord);
      }
    }
  }
  return v;
}

}  // namespace q
