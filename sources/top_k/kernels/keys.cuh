// A row's elements as keys that order as the numbers do, and their order: by key, and among equal ones the lower index
// first. An element's place in that order is its key above the complement of its index; no two are equal.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "softmax/kernels/numbers.cuh"

namespace q {

// 0 for what is not a number.
QUERN_DEVICE u32 key_or_none(f32 x) { return x == x ? key_of_number(x) : 0u; }

inline constexpr int kGroup = kHeld ? 8 : kEach;  // keys that are looked at in one go
inline constexpr int kGroupTiles = kGroup / kVector;

// The keys of a thread's part of a row, as key_of has them: in shared memory, where the row's blocks have room for all,
// else made of what is loaded each time. Loops over what is in shared memory need not be unrolled, as those over
// registers must: the code is short, and soon compiled.
template <u32 (*key_of)(f32)>
struct KeysBy {
  Slice s;

  QUERN_DEVICE static vec16* kept() { return reinterpret_cast<vec16*>(dynamic_shared()) + thread_index(); }

  QUERN_DEVICE explicit KeysBy(const Slice& slice) : s(slice) {
    if constexpr (kHeld) {
      f32 x[kEach];
      load_elements<Fill::nan>(s, s.first, x);
      QUERN_UNROLL for (int i = 0; i < kEach; i += 4) {
        // There is room for the groups that there are.
        if (s.first + i / kGroup * kGroupTiles >= s.last) continue;
        kept()[i / 4 * kThreads] = {{key_of(x[i]), key_of(x[i + 1]), key_of(x[i + 2]), key_of(x[i + 3])}};
      }
    }
  }
  // Any key of the block's part, by its place in that: whichever thread keeps it. A barrier lies between.
  QUERN_DEVICE u32 kept_at(i32 place) const {
    const i32 tile = place / kTile, of_warp = tile / s.each, thread = of_warp * kWarp + place % kTile / kVector,
              i = (tile - of_warp * s.each) * kVector + place % kVector;
    return reinterpret_cast<const vec16*>(dynamic_shared())[i / 4 * kThreads + thread].x[i % 4];
  }
  // The index of the first element of that.
  QUERN_DEVICE i32 first_index() const { return s.each * row_block() * kWarps * kTile - s.shift; }
  // f(tile, keys): key i of them is of index_of(tile, i). All lanes of a warp together.
  template <class F>
  QUERN_DEVICE void each(F f) const {
    QUERN_ROLLED for (i32 tile = s.first; tile < s.last; tile += kGroupTiles) {
      u32 keys[kGroup];
      if constexpr (kHeld) {
        const vec16* from = kept() + (tile - s.first) * (kVector / 4 * kThreads);
        QUERN_UNROLL for (int i = 0; i < kGroup / 4; ++i) {
          const vec16 four = from[i * kThreads];
          QUERN_UNROLL for (int w = 0; w < 4; ++w) keys[4 * i + w] = four.x[w];
        }
      } else {
        f32 x[kGroup];
        load_elements<Fill::nan>(s, tile, x);
        QUERN_UNROLL for (int i = 0; i < kGroup; ++i) keys[i] = key_of(x[i]);
      }
      f(tile, keys);
    }
  }
  QUERN_DEVICE i32 index_of(i32 tile, int i) const {
    return s.place(tile) - s.shift + i / kVector * kTile + i % kVector;
  }
};
using Keys = KeysBy<key_or_none>;

}  // namespace q
