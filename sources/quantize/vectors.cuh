// A few neighbouring elements of a row, as a thread takes them: loaded in as few accesses as their alignment allows,
// widened to f32, and stored again. Where a row's length is no multiple of their number, its last ones are taken one by
// one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/kernel.cuh"

namespace q {

inline constexpr int kAccess = ACCESS;  // bytes that rows are aligned to, as far as it matters: 16, 8, 4 or 2
inline constexpr int kElements = kAccess == 16 ? 8 : 4;  // of a vector
inline constexpr bool kTail = TAIL;                      // rows may end within a vector

struct Vector {
  f32 x[kElements];
};

template <class T>
inline constexpr bool kIsInt8 = false;
template <>
inline constexpr bool kIsInt8<i8> = true;

// A vector as it lies in memory.
template <class T>
struct Raw {
  u32 words[kElements * sizeof(T) / 4];
};

struct alignas(8) vec8 {
  u32 x[2];
};

enum class Reuse { no, yes };  // whether what is loaded is worth keeping in L1

template <Reuse reuse, int kWords>
QUERN_DEVICE void load_words(u32 (&to)[kWords], const void* from) {
  if constexpr (kAccess == 16 && kWords % 4 == 0) {
    QUERN_UNROLL for (int i = 0; i < kWords / 4; ++i) {
      const void* at = static_cast<const u8*>(from) + 16 * i;
      const vec16 v = reuse == Reuse::yes ? load16(at) : load16_once(at);
      QUERN_UNROLL for (int j = 0; j < 4; ++j) to[4 * i + j] = v.x[j];
    }
  } else if constexpr (kAccess >= 8 && kWords % 2 == 0) {
    QUERN_UNROLL for (int i = 0; i < kWords / 2; ++i) {
      const vec8 v = static_cast<const vec8*>(from)[i];
      to[2 * i] = v.x[0], to[2 * i + 1] = v.x[1];
    }
  } else if constexpr (kAccess >= 4) {
    QUERN_UNROLL for (int i = 0; i < kWords; ++i) to[i] = static_cast<const u32*>(from)[i];
  } else {
    QUERN_UNROLL for (int i = 0; i < kWords; ++i) {
      const u16* halves = static_cast<const u16*>(from) + 2 * i;
      to[i] = halves[0] | static_cast<u32>(halves[1]) << 16;
    }
  }
}

template <int kWords>
QUERN_DEVICE void store_words(void* to, const u32 (&from)[kWords]) {
  if constexpr (kAccess == 16 && kWords % 4 == 0) {
    QUERN_UNROLL for (int i = 0; i < kWords; i += 4) {
      store16(static_cast<u8*>(to) + 4 * i, {{from[i], from[i + 1], from[i + 2], from[i + 3]}});
    }
  } else if constexpr (kAccess >= 8 && kWords % 2 == 0) {
    QUERN_UNROLL for (int i = 0; i < kWords / 2; ++i) { static_cast<vec8*>(to)[i] = {{from[2 * i], from[2 * i + 1]}}; }
  } else if constexpr (kAccess >= 4) {
    QUERN_UNROLL for (int i = 0; i < kWords; ++i) static_cast<u32*>(to)[i] = from[i];
  } else {
    QUERN_UNROLL for (int i = 0; i < kWords; ++i) {
      u16* halves = static_cast<u16*>(to) + 2 * i;
      halves[0] = static_cast<u16>(from[i]), halves[1] = static_cast<u16>(from[i] >> 16);
    }
  }
}

template <class T>
QUERN_DEVICE u32 bits_at(const T* from) {
  return from->bits;
}
QUERN_DEVICE u32 bits_at(const f32* from) { return bits_of(*from); }
QUERN_DEVICE u32 bits_at(const i8* from) { return static_cast<u8>(*from); }
template <class T>
QUERN_DEVICE T element_of(u32 bits) {
  if constexpr (sizeof(T) == 4) {
    return f32_of(bits);
  } else if constexpr (sizeof(T) == 2) {
    return {static_cast<u16>(bits)};
  } else if constexpr (kIsInt8<T>) {
    return static_cast<i8>(bits);
  } else {
    return {static_cast<u8>(bits)};
  }
}

// The first `count` elements, 0 for the others.
template <Reuse reuse, class T>
QUERN_DEVICE Raw<T> load_vector(const T* from, i32 count) {
  Raw<T> raw{};
  if (count >= kElements) {
    load_words<reuse>(raw.words, from);
  } else if (kTail && count > 0) {
    // There are fewer than all, and a first one, which is read for those that there are not: no branches.
    QUERN_UNROLL for (int i = 0; i < kElements - 1; ++i) {
      const u32 bits = bits_at(from + (i < count ? i : 0));
      raw.words[i * sizeof(T) / 4] |= (i < count ? bits : 0) << 8 * (i * sizeof(T) % 4);
    }
  }
  return raw;
}

template <class T>
QUERN_DEVICE Vector widen(const Raw<T>& raw) {
  Vector v;
  if constexpr (sizeof(T) == 4) {
    QUERN_UNROLL for (int i = 0; i < kElements; ++i) v.x[i] = f32_of(raw.words[i]);
  } else if constexpr (kIsInt8<T>) {
    QUERN_UNROLL for (int i = 0; i < kElements; ++i) v.x[i] =
        static_cast<f32>(static_cast<i8>(raw.words[i / 4] >> 8 * (i % 4)));
  } else {
    QUERN_UNROLL for (int i = 0; i < kElements; i += 2) {
      f32x2 pair;
      if constexpr (sizeof(T) == 2) {
        pair = unpack<T>(raw.words[i / 2]);
      } else {
        pair = unpack_fp8<T>(static_cast<u16>(raw.words[i / 4] >> 8 * (i % 4)));
      }
      v.x[i] = pair.x, v.x[i + 1] = pair.y;
    }
  }
  return v;
}

template <class T>
QUERN_DEVICE Raw<T> narrow(const Vector& v) {
  Raw<T> raw{};
  if constexpr (sizeof(T) == 4) {
    QUERN_UNROLL for (int i = 0; i < kElements; ++i) raw.words[i] = bits_of(v.x[i]);
  } else if constexpr (sizeof(T) == 2) {
    QUERN_UNROLL for (int i = 0; i < kElements; i += 2) raw.words[i / 2] = pack<T>(v.x[i], v.x[i + 1]);
  } else if constexpr (kIsInt8<T>) {
    QUERN_UNROLL for (int i = 0; i < kElements; ++i) raw.words[i / 4] |= round_to_int8(v.x[i]) << 8 * (i % 4);
  } else {
    QUERN_UNROLL for (int i = 0; i < kElements; i += 4) {
      raw.words[i / 4] = pack_fp8<T>(v.x[i], v.x[i + 1]) | static_cast<u32>(pack_fp8<T>(v.x[i + 2], v.x[i + 3])) << 16;
    }
  }
  return raw;
}

// Rounds the first `count` elements and stores them.
template <class T>
QUERN_DEVICE void store_vector(T* to, const Vector& v, i32 count) {
  const Raw<T> raw = narrow<T>(v);
  if (count >= kElements) {
    store_words(to, raw.words);
  } else if (kTail && count > 0) {
    QUERN_UNROLL for (int i = 0; i < kElements - 1; ++i) {
      if (i < count) to[i] = element_of<T>(raw.words[i * sizeof(T) / 4] >> 8 * (i * sizeof(T) % 4));
    }
  }
}

}  // namespace q
