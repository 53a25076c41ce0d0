// Elements of x and y as they are taken: sixteen bytes at once where they lie beside each other, or one by one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reduce/kernels/states.cuh"

namespace q {

inline constexpr int kVector = VECTOR;  // elements taken at once: sixteen bytes of them, or 1

QUERN_DEVICE f32 widen_one(const Element* at) {
  if constexpr (IS_INT8) {
    return static_cast<f32>(*reinterpret_cast<const i8*>(at));
  } else {
    return to_f32(*at);
  }
}

QUERN_DEVICE void widen_vector(const vec16& raw, f32* v) {
  QUERN_UNROLL for (int w = 0; w < 4; ++w) {
    const u32 word = raw.x[w];
    if constexpr (IS_INT8) {
      // A byte in the mantissa of 2^23 is 2^23 and itself: no conversion, of which there are few in a cycle.
      const u32 bytes = word ^ 0x80808080u;
      QUERN_UNROLL for (int b = 0; b < 4; ++b) {
        v[4 * w + b] = f32_of(0x4b000000u | (bytes >> 8 * b & 0xffu)) - 8388736.0f;
      }
    } else if constexpr (sizeof(Element) == 1) {
      const f32x2 low = unpack_fp8<Element>(static_cast<u16>(word)),
                  high = unpack_fp8<Element>(static_cast<u16>(word >> 16));
      v[4 * w] = low.x, v[4 * w + 1] = low.y, v[4 * w + 2] = high.x, v[4 * w + 3] = high.y;
    } else if constexpr (sizeof(Element) == 2) {
      const f32x2 pair = unpack<Element>(word);
      v[2 * w] = pair.x, v[2 * w + 1] = pair.y;
    } else {
      v[w] = f32_of(word);
    }
  }
}

// What has been loaded, not yet widened.
struct Loaded {
  vec16 x, y;
};
QUERN_DEVICE bool is_aligned(const Element* at) { return (reinterpret_cast<u64>(at) & 15) == 0; }

// kVector neighbours that are all there, aligned where they are a vector; one alone is widened at once.
QUERN_DEVICE vec16 load_whole(const Element* at) {
  if constexpr (kVector == 1) {
    return {{bits_of(widen_one(at)), 0, 0, 0}};
  } else {
    // Lanes of few in a row share lines, which are then worth their place in L1.
    return TEAM < kWarp ? load16_once(at) : load16_alone(at);
  }
}
QUERN_DEVICE void widen_whole(const vec16& raw, f32* v) {
  if constexpr (kVector == 1) {
    v[0] = f32_of(raw.x[0]);
  } else {
    widen_vector(raw, v);
  }
}

// Applies the formula in front to what has been put into t.
QUERN_DEVICE void prepare(const ReduceParams& p, Elements<kVector>& t) {
  QUERN_UNROLL for (int i = 0; i < kVector; ++i) t.v[i] = before(p, t.v[i], t.y[kHasY ? i : 0]);
}

// Elements from..to-1 of the kVector at x, which need not be aligned, and of those at y.
QUERN_DEVICE void load_some(const Element* x, const Element* y, i64 y_step, Elements<kVector>& t) {
  QUERN_UNROLL for (int i = 0; i < kVector; ++i) {
    const bool there = i >= t.from && i < t.to;
    t.v[i] = there ? widen_one(x + i) : 0.0f;
    if constexpr (kHasY) t.y[i] = there ? widen_one(y + i * y_step) : 0.0f;
  }
}

// One element, which is number `place` of its column.
QUERN_DEVICE void take_one(const ReduceParams& p, f32 x, f32 y, i64 place, State& state) {
  Elements<1> t;
  t.v[0] = before(p, x, y), t.y[0] = y, t.place = place, t.from = 0, t.to = 1;
  state.take<true>(t);
}

}  // namespace q
