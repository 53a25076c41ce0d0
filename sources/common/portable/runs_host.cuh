// Products of runs on a CPU: k ascending, as host_tile.cuh adds them up.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace q {

namespace host {
template <class T, class Sum>
struct RunLane {
  Sum* c;
  const Runs<T>* a;
  const Runs<T>* b;
};
template <class T, class Number>
QUERN_DEVICE void spread_runs(const Runs<T>& runs, int l, Number (*to)[kRunK]) {
  for (int held = 0; held < kRunsHeld; ++held) {
    for (int e = 0; e < 8; ++e) {
      Number& x = to[run_line(l, held)][run_k(l) + e];
      if constexpr (sizeof(T) == 1) {
        x = static_cast<i8>(runs.x[held][e >> 2] >> 8 * (e & 3));
      } else {
        x = to_f32(element<T>(runs.x[held], e));
      }
    }
  }
}
template <class T, class Sum>
void mma_runs(void* const* lanes) {
  Sum a[16][kRunK], b[16][kRunK], c[16][16];
  for (int l = 0; l < kWarp; ++l) {
    const auto& lane = *static_cast<const RunLane<T, Sum>*>(lanes[l]);
    spread_runs(*lane.a, l, a);
    spread_runs(*lane.b, l, b);
    for (int i = 0; i < 256 / kWarp; ++i) c[row_of(l, held_row(i))][column_of(l, i)] = lane.c[i];
  }
  Sum turned[kRunK][16];
  for (int n = 0; n < 16; ++n) {
    for (int k = 0; k < kRunK; ++k) turned[k][n] = b[n][k];
  }
  for (int m = 0; m < 16; ++m) {
    for (int k = 0; k < kRunK; ++k) {
      for (int n = 0; n < 16; ++n) c[m][n] += a[m][k] * turned[k][n];
    }
  }
  for (int l = 0; l < kWarp; ++l) {
    const auto& lane = *static_cast<const RunLane<T, Sum>*>(lanes[l]);
    for (int i = 0; i < 256 / kWarp; ++i) lane.c[i] = c[row_of(l, held_row(i))][column_of(l, i)];
  }
}
}  // namespace host

template <class T>
QUERN_DEVICE void mma(Accumulator& c, const Runs<T>& a, const Runs<T>& b) {
  host::RunLane<T, f32> mine{c.x, &a, &b};
  host::table->together(host::Together::mma, &mine, host::mma_runs<T, f32>);
}
QUERN_DEVICE void mma(IntegerAccumulator& c, const Runs<i8>& a, const Runs<i8>& b) {
  host::RunLane<i8, i32> mine{c.x, &a, &b};
  host::table->together(host::Together::mma, &mine, host::mma_runs<i8, i32>);
}

// Half a product is a whole one with zeros, of a warp of 32 lanes.
#define QUERN_HALF_RUNS 1
template <class Half, class T, class Whole>
QUERN_DEVICE void mma_half(Half& c, const Runs<T>& a, const HalfRuns<T>& b, Whole whole) {
  Runs<T> runs{};
  for (int w = 0; w < 2 * static_cast<int>(sizeof(T)); ++w) runs.x[0][w] = b.x[0][w];
  for (int i = 0; i < 128 / kWarp; ++i) whole.x[i] = c.x[i];
  mma(whole, a, runs);
  for (int i = 0; i < 128 / kWarp; ++i) c.x[i] = whole.x[i];
}
template <class T>
QUERN_DEVICE void mma(HalfAccumulator& c, const Runs<T>& a, const HalfRuns<T>& b) {
  mma_half(c, a, b, Accumulator{});
}
QUERN_DEVICE void mma(IntegerHalfAccumulator& c, const Runs<i8>& a, const HalfRuns<i8>& b) {
  mma_half(c, a, b, IntegerAccumulator{});
}

template <class T>
QUERN_DEVICE u32 fma_pairs(u32 a, u32 b, u32 c) {
  const f32x2 x = unpack<T>(a), y = unpack<T>(b), z = unpack<T>(c);
  return pack<T>(fma(x.x, y.x, z.x), fma(x.y, y.y, z.y));
}

QUERN_DEVICE u32 masked_and_turned(u32 v, u32 mask, u32 turned) { return (v & mask) ^ turned; }

}  // namespace q
