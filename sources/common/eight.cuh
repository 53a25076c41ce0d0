// Eight contiguous elements, which a thread of a memory-bound kernel handles at once: as they lie in memory, and as
// f32.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/kernel.cuh"

namespace q {

struct Eight {
  f32 x[8];
};
// T is f16, bf16 or f32. Words hold two 16-bit elements, the first in the low half. Stores also take e4m3 and e5m2,
// four in a word.
template <class T>
struct PackedEight {
  u32 x[2 * sizeof(T)];
};

// Written out by hand: in a large kernel a loop over eight elements costs the compiler a hundredth of a second,
// unrolled or not.

// Loads from memory that is aligned to kAlignment bytes, 16 or 4.
template <class T, int kAlignment = 16>
QUERN_DEVICE PackedEight<T> load_eight(const T* from) {
  if constexpr (kAlignment == 16 && sizeof(T) == 4) {
    const vec16 low = load16(from), high = load16(from + 4);
    return {{low.x[0], low.x[1], low.x[2], low.x[3], high.x[0], high.x[1], high.x[2], high.x[3]}};
  } else if constexpr (kAlignment == 16) {
    const vec16 v = load16(from);
    return {{v.x[0], v.x[1], v.x[2], v.x[3]}};
  } else {
    const u32* words = static_cast<const u32*>(static_cast<const void*>(from));
    if constexpr (sizeof(T) == 4) {
      return {{words[0], words[1], words[2], words[3], words[4], words[5], words[6], words[7]}};
    } else {
      return {{words[0], words[1], words[2], words[3]}};
    }
  }
}
// Elements of 8 bits are aligned to 8 bytes.
template <class T, int kAlignment = 16>
QUERN_DEVICE void store_eight(T* to, const PackedEight<T>& v) {
  if constexpr (sizeof(T) == 1) {
    *reinterpret_cast<u64*>(to) = v.x[0] | static_cast<u64>(v.x[1]) << 32;
  } else if constexpr (kAlignment == 16) {
    store16(to, {{v.x[0], v.x[1], v.x[2], v.x[3]}});
    if constexpr (sizeof(T) == 4) store16(to + 4, {{v.x[4], v.x[5], v.x[6], v.x[7]}});
  } else {
    u32* words = static_cast<u32*>(static_cast<void*>(to));
    words[0] = v.x[0], words[1] = v.x[1], words[2] = v.x[2], words[3] = v.x[3];
    if constexpr (sizeof(T) == 4) words[4] = v.x[4], words[5] = v.x[5], words[6] = v.x[6], words[7] = v.x[7];
  }
}

template <class T>
QUERN_DEVICE Eight widen(const PackedEight<T>& v) {
  if constexpr (sizeof(T) == 4) {
    return {{f32_of(v.x[0]), f32_of(v.x[1]), f32_of(v.x[2]), f32_of(v.x[3]), f32_of(v.x[4]), f32_of(v.x[5]),
             f32_of(v.x[6]), f32_of(v.x[7])}};
  } else {
    const f32x2 a = unpack<T>(v.x[0]), b = unpack<T>(v.x[1]), c = unpack<T>(v.x[2]), d = unpack<T>(v.x[3]);
    return {{a.x, a.y, b.x, b.y, c.x, c.y, d.x, d.y}};
  }
}
template <class T>
QUERN_DEVICE PackedEight<T> narrow(const Eight& v) {
  const f32(&x)[8] = v.x;
  if constexpr (sizeof(T) == 4) {
    return {{bits_of(x[0]), bits_of(x[1]), bits_of(x[2]), bits_of(x[3]), bits_of(x[4]), bits_of(x[5]), bits_of(x[6]),
             bits_of(x[7])}};
  } else if constexpr (sizeof(T) == 2) {
    return {{pack<T>(x[0], x[1]), pack<T>(x[2], x[3]), pack<T>(x[4], x[5]), pack<T>(x[6], x[7])}};
  } else {
    return {{pack_fp8<T>(x[0], x[1]) | static_cast<u32>(pack_fp8<T>(x[2], x[3])) << 16,
             pack_fp8<T>(x[4], x[5]) | static_cast<u32>(pack_fp8<T>(x[6], x[7])) << 16}};
  }
}

}  // namespace q

// store_first(to, v, count) stores the first `count` elements of v, none if that is 0 or less, to memory that is not
// shared.
#ifdef QUERN_PREDICATED_STORES
#include "common/portable/eight_cuda.cuh"
#else

namespace q {

template <class T>
QUERN_DEVICE void store_first(T* to, const PackedEight<T>& v, i32 count) {
  constexpr int kPerWord = 4 / static_cast<int>(sizeof(T));
  QUERN_UNROLL for (int i = 0; i < 8; ++i) {
    const u32 bits = v.x[i / kPerWord] >> i % kPerWord * 8 * static_cast<int>(sizeof(T));
    if (i >= count) continue;
    if constexpr (sizeof(T) == 4) {
      reinterpret_cast<u32*>(to)[i] = bits;
    } else if constexpr (sizeof(T) == 2) {
      reinterpret_cast<u16*>(to)[i] = static_cast<u16>(bits);
    } else {
      reinterpret_cast<u8*>(to)[i] = static_cast<u8>(bits);
    }
  }
}

}  // namespace q

#endif
