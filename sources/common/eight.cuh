// Eight elements side by side, what a thread of a memory-bound kernel takes at once: as they lie in memory, and as f32.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/kernel.cuh"

namespace q {

struct Eight {
  f32 x[8];
};
// T = f16, bf16 or f32, two of the narrow ones in a word, the first in its low half.
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
  QUERN_UNROLL for (int i = 0; i < static_cast<int>(2 * sizeof(T)); i += 4) {
    u32* words = static_cast<u32*>(static_cast<void*>(to)) + i;
    if constexpr (kAlignment == 16) {
      store16(words, {{v.x[i], v.x[i + 1], v.x[i + 2], v.x[i + 3]}});
    } else {
      QUERN_UNROLL for (int j = 0; j < 4; ++j) words[j] = v.x[i + j];
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
  } else {
    QUERN_UNROLL for (int i = 0; i < 4; ++i) r.x[i] = pack<T>(v.x[2 * i], v.x[2 * i + 1]);
  }
  return r;
}

}  // namespace q
