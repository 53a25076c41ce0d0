// A thread's share of a row, for norms and their gradients: a few vectors, a team's width apart, as f32.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/kernel.cuh"
#include "quantize/team.cuh"
#include "quantize/vectors.cuh"

namespace q {

inline constexpr i32 kStep = kTeam * kElements;  // columns from one of a thread's vectors to its next
inline constexpr i32 kPass = kStep * kVectors;   // columns that a team takes at once

// Which columns of a row are the thread's: `left` counts those from the first on that there are, and is not positive
// where there is none.
struct Columns {
  i32 first, left;

  QUERN_DEVICE i32 of(int vector) const { return left - vector * kStep; }
};
QUERN_DEVICE Columns columns_from(i32 first, i32 end) {
  const i32 own = first + (kTeams == 1 ? thread_index() : thread_index() % kTeam) * kElements;
  return {own, end - own};
}
QUERN_DEVICE i32 team_index() { return kTeams == 1 ? 0 : thread_index() / kTeam; }

template <class T>
struct RawValues {
  Raw<T> v[kVectors];
};
struct Values {
  Vector v[kVectors];
};

// `row` is where the row's first element lies.
template <Reuse reuse, class T>
QUERN_DEVICE RawValues<T> load_values(const T* row, const Columns& c) {
  RawValues<T> raw;
  QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
    raw.v[v] = load_vector<reuse>(row + (c.first + v * kStep), c.of(v));
  }
  return raw;
}
// What lies past the row is 0.
template <class T>
QUERN_DEVICE Values widen(const RawValues<T>& raw) {
  Values y;
  QUERN_UNROLL for (int v = 0; v < kVectors; ++v) y.v[v] = widen(raw.v[v]);
  return y;
}
template <class T>
QUERN_DEVICE void store_values(T* row, const Columns& c, const Values& y) {
  QUERN_UNROLL for (int v = 0; v < kVectors; ++v) store_vector(row + (c.first + v * kStep), y.v[v], c.of(v));
}

// y = f(y, i), i being the element's place among the thread's: vector, place in it.
template <class F>
QUERN_DEVICE void each_value(Values& y, F&& f) {
  QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
    QUERN_UNROLL for (int i = 0; i < kElements; ++i) y.v[v].x[i] = f(y.v[v].x[i], v, i);
  }
}

QUERN_DEVICE f32 sum(const Values& y) {
  f32 total = 0.0f;
  QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
    QUERN_UNROLL for (int i = 0; i < kElements; ++i) total += y.v[v].x[i];
  }
  return total;
}
QUERN_DEVICE f32 sum_of_products(const Values& a, const Values& b) {
  f32 total = 0.0f;
  QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
    QUERN_UNROLL for (int i = 0; i < kElements; ++i) total = fma(a.v[v].x[i], b.v[v].x[i], total);
  }
  return total;
}
// What lies past the row is 0, and would deviate from a mean all the same.
QUERN_DEVICE f32 sum_of_deviations(const Values& y, const Columns& c, f32 mean) {
  f32 total = 0.0f;
  QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
    const i32 left = c.of(v);
    QUERN_UNROLL for (int i = 0; i < kElements; ++i) {
      const f32 deviation = y.v[v].x[i] - mean;
      if (kTail ? i < left : left > 0) total = fma(deviation, deviation, total);
    }
  }
  return total;
}

}  // namespace q
