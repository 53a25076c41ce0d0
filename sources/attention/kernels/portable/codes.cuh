// Rows of keys and values of 8 bits in shared memory are widened there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attention/kernels/shared/widen.cuh"

namespace q {

// Whether one of eight elements is infinite or NaN.
QUERN_DEVICE bool is_finite(const vec16& v) {
  constexpr u32 kExponent = kIsF16<Element> ? 0x7c00u : 0x7f80u;
  bool finite = true;
  QUERN_UNROLL for (int i = 0; i < 4; ++i) {
    finite = finite && (v.x[i] & kExponent) != kExponent && (v.x[i] >> 16 & kExponent) != kExponent;
  }
  return finite;
}

// Widens rows of codes in shared memory, shared out among kThreadCount threads of which `thread` is one. With `check`,
// calls not_finite(row) for rows in which there is a number that is not finite, and writes zeros for it and its
// neighbours.
template <int kRowCount, int kDim, int kThreadCount, class NotFinite>
QUERN_DEVICE void widen_rows(const CacheElement* from, int from_pitch, Element* to, int to_pitch, int thread,
                             bool check, const NotFinite& not_finite) {
  constexpr int kChunks = kDim / 8;
  QUERN_TWO_AT_ONCE for (int i = thread; i < kRowCount * kChunks; i += kThreadCount) {
    const int row = i / kChunks, column = i % kChunks * 8;
    const void* source = from + row * from_pitch + column;
    vec16 v = widen_codes<CacheElement>(*static_cast<const Codes*>(source));
    if (check && !is_finite(v)) not_finite(row), v = {};
    store16(to + row * to_pitch + column, v);
  }
}

// The same for rows that need no widening.
template <int kRowCount, int kDim, int kThreadCount, class NotFinite>
QUERN_DEVICE void clear_not_finite(Element* rows, int pitch, int thread, const NotFinite& not_finite) {
  constexpr int kChunks = kDim / 8;
  QUERN_ROLLED for (int i = thread; i < kRowCount * kChunks; i += kThreadCount) {
    const int row = i % kRowCount, column = i / kRowCount * 8;
    if (is_finite(load16(rows + row * pitch + column))) continue;
    not_finite(row);
    store16(rows + row * pitch + column, {});
  }
}

}  // namespace q
