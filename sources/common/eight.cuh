// Eight elements side by side, what a thread of a memory-bound kernel takes at once: as they lie in memory, and as f32.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/kernel.cuh"

namespace q {

struct Eight {
  f32 x[8];
};
// T = f16, bf16 or f32, two of the narrow ones in a word, the first in its low half; to be stored also e4m3 or e5m2, four in a word.
template <class T>
struct PackedEight {
  u32 x[2 * sizeof(T)];
};

// From memory aligned to kAlignment bytes, 16 or 4.
template <class T, int kAlignment = 16>
QUERN_DEVICE PackedEight<T> load_eight(const T* from) {
  PackedEight<T> r;
  QUERN_UNROLL for (int i = 0; i < static_cast<int>(2 * sizeof(T)); i += 4) {
    const u32* words = static_cast<const u32*>(static_cast<const void*>(from)) + i;
    if constexpr (kAlignment == 16) {
      const vec16 v = load16(words);
      QUERN_UNROLL for (int j = 0; j < 4; ++j) r.x[i + j] = v.x[j];
    } else {
      QUERN_UNROLL for (int j = 0; j < 4; ++j) r.x[i + j] = words[j];
    }
  }
  return r;
}
template <class T, int kAlignment = 16>
QUERN_DEVICE void store_eight(T* to, const PackedEight<T>& v) {
  if constexpr (sizeof(T) == 1) {
    *reinterpret_cast<u64*>(to) = v.x[0] | static_cast<u64>(v.x[1]) << 32;
  } else {
    QUERN_UNROLL for (int i = 0; i < static_cast<int>(2 * sizeof(T)); i += 4) {
      u32* words = static_cast<u32*>(static_cast<void*>(to)) + i;
      if constexpr (kAlignment == 16) {
        store16(words, {{v.x[i], v.x[i + 1], v.x[i + 2], v.x[i + 3]}});
      } else {
        QUERN_UNROLL for (int j = 0; j < 4; ++j) words[j] = v.x[i + j];
      }
    }
  }
}

template <class T>
QUERN_DEVICE Eight widen(const PackedEight<T>& v) {
  Eight r;
  if constexpr (sizeof(T) == 4) {
    QUERN_UNROLL for (int i = 0; i < 8; ++i) r.x[i] = f32_of(v.x[i]);
  } else {
    QUERN_UNROLL for (int i = 0; i < 4; ++i) {
      const f32x2 pair = unpack<T>(v.x[i]);
      r.x[2 * i] = pair.x, r.x[2 * i + 1] = pair.y;
    }
  }
  return r;
}
template <class T>
QUERN_DEVICE PackedEight<T> narrow(const Eight& v) {
  PackedEight<T> r;
  if constexpr (sizeof(T) == 4) {
    QUERN_UNROLL for (int i = 0; i < 8; ++i) r.x[i] = bits_of(v.x[i]);
  } else if constexpr (sizeof(T) == 2) {
    QUERN_UNROLL for (int i = 0; i < 4; ++i) r.x[i] = pack<T>(v.x[2 * i], v.x[2 * i + 1]);
  } else {
    QUERN_UNROLL for (int i = 0; i < 2; ++i) {
      r.x[i] = pack_fp8<T>(v.x[4 * i], v.x[4 * i + 1]) | static_cast<u32>(pack_fp8<T>(v.x[4 * i + 2], v.x[4 * i + 3])) << 16;
    }
  }
  return r;
}

}  // namespace q

// store_first(to, v, count): the first `count` of v, none if that is 0 or less, to memory that is not shared.
#ifdef QUERN_PREDICATED_STORES
#include "common/eight_cuda.cuh"
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
