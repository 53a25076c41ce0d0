// Tensor-core tiles on a CPU: the lane-to-element map of mma.sync at a warp of 32, of MFMA with its operands swapped at
// 64. Included by host.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace q {

struct Accumulator {
  f32 x[256 / kWarp];
};
template <class T>
struct OperandA {
  u32 x[128 / kWarp];
};
template <class T>
struct OperandB {
  u32 x[128 / kWarp];
};
inline constexpr int kRowsHeld = kWarp == 32 ? 2 : 1;
QUERN_DEVICE constexpr int held_row(int i) { return kWarp == 32 ? (i >> 1) & 1 : 0; }
QUERN_DEVICE constexpr int row_of(int lane, int held) { return kWarp == 32 ? (lane >> 2) + 8 * held : lane & 15; }
QUERN_DEVICE constexpr int column_of(int lane, int i) {
  return kWarp == 32 ? ((lane & 3) << 1) + (i & 1) + ((i >> 2) << 3) : ((lane >> 4) << 2) + i;
}
namespace host {
// Where element i of operand B of 16 bits lies. Operand A's are where the accumulator's are.
QUERN_DEVICE constexpr int b_column(int lane, int i) { return kWarp == 32 ? (lane >> 2) + ((i >> 2) << 3) : lane & 15; }
QUERN_DEVICE constexpr int b_k(int lane, int i) {
  return kWarp == 32 ? ((lane & 3) << 1) + (i & 1) + ((i >> 1 & 1) << 3) : ((lane >> 4) << 2) + i;
}
// Only mma knows the layout of 8-bit and f32 operands: the tile in order, spread over the lanes.
template <class T>
struct Spread {
  static constexpr int kHeld = 16 * kTileK<T> / kWarp;
  T x[kHeld];
  static QUERN_DEVICE int line(int lane, int i) { return (lane * kHeld + i) / kTileK<T>; }
  static QUERN_DEVICE int k(int lane, int i) { return (lane * kHeld + i) % kTileK<T>; }
  QUERN_DEVICE void load(const T* tile, int line_pitch, int k_pitch) {
    const int l = q::lane();
    for (int i = 0; i < kHeld; ++i) x[i] = tile[line(l, i) * line_pitch + k(l, i) * k_pitch];
  }
};
}  // namespace host
template <>
struct OperandA<e4m3> : host::Spread<e4m3> {};
template <>
struct OperandA<e5m2> : host::Spread<e5m2> {};
template <>
struct OperandA<f32> : host::Spread<f32> {};
template <>
struct OperandB<e4m3> : host::Spread<e4m3> {};
template <>
struct OperandB<e5m2> : host::Spread<e5m2> {};
template <>
struct OperandB<f32> : host::Spread<f32> {};
namespace host {
template <class T>
QUERN_DEVICE T element(const u32* x, int i) {
  return T{static_cast<u16>(x[i >> 1] >> 16 * (i & 1))};
}
template <class T>
QUERN_DEVICE OperandA<T> load_a(const T* tile, int m_pitch, int k_pitch) {
  OperandA<T> r{};
  if constexpr (sizeof(T) != 2) {
    r.load(tile, m_pitch, k_pitch);
  } else {
    const int l = lane();
    for (int i = 0; i < 256 / kWarp; ++i) {
      const T v = tile[row_of(l, held_row(i)) * m_pitch + column_of(l, i) * k_pitch];
      r.x[i >> 1] |= static_cast<u32>(v.bits) << 16 * (i & 1);
    }
  }
  return r;
}
template <class T>
QUERN_DEVICE OperandB<T> load_b(const T* tile, int n_pitch, int k_pitch) {
  OperandB<T> r{};
  if constexpr (sizeof(T) != 2) {
    r.load(tile, n_pitch, k_pitch);
  } else {
    const int l = lane();
    for (int i = 0; i < 256 / kWarp; ++i) {
      r.x[i >> 1] |= static_cast<u32>(tile[b_column(l, i) * n_pitch + b_k(l, i) * k_pitch].bits) << 16 * (i & 1);
    }
  }
  return r;
}

// To nearest, halves away from zero, as NVIDIA's cvt.rna makes it.
QUERN_DEVICE f32 to_tf32(f32 v) { return v - v != 0.0f ? v : f32_of((bits_of(v) + 0x1000u) & ~0x1fffu); }
}  // namespace host
QUERN_DEVICE f32 to_f32(e4m3 v);  // in convert.cuh
QUERN_DEVICE f32 to_f32(e5m2 v);
namespace host {
// Writes what a lane holds of an operand to where it belongs, [line][k].
template <class T, template <class> class Operand>
QUERN_DEVICE void spread_out(const Operand<T>& o, int l, bool is_b, f32 (*to)[kTileK<T>]) {
  if constexpr (sizeof(T) != 2) {
    for (int i = 0; i < Operand<T>::kHeld; ++i) {
      f32 v;
      if constexpr (sizeof(T) == 4) {
        v = to_tf32(o.x[i]);
      } else {
        v = to_f32(o.x[i]);
      }
      to[o.line(l, i)][o.k(l, i)] = v;
    }
  } else {
    for (int i = 0; i < 256 / kWarp; ++i) {
      const int line = is_b ? b_column(l, i) : row_of(l, held_row(i)), k = is_b ? b_k(l, i) : column_of(l, i);
      to[line][k] = to_f32(element<T>(o.x, i));
    }
  }
}

template <class A, class B>
struct MmaLane {
  f32* c;
  const OperandA<A>* a;
  const OperandB<B>* b;
};
// Products of two 16-bit or smaller floats are exact in f32, so the sums are those of a fused multiply-add, k
// ascending.
template <class A, class B>
void mma_warp(void* const* lanes) {
  f32 a[16][kTileK<A>], b[16][kTileK<B>], c[16][16];
  for (int l = 0; l < kWarp; ++l) {
    const auto& lane = *static_cast<const MmaLane<A, B>*>(lanes[l]);
    spread_out<A, OperandA>(*lane.a, l, false, a);
    spread_out<B, OperandB>(*lane.b, l, true, b);
    for (int i = 0; i < 256 / kWarp; ++i) c[row_of(l, held_row(i))][column_of(l, i)] = lane.c[i];
  }
  f32 turned[kTileK<B>][16];
  for (int n = 0; n < 16; ++n) {
    for (int k = 0; k < kTileK<B>; ++k) turned[k][n] = b[n][k];
  }
  for (int m = 0; m < 16; ++m) {
    for (int k = 0; k < kTileK<A>; ++k) {
      for (int n = 0; n < 16; ++n) c[m][n] += a[m][k] * turned[k][n];
    }
  }
  for (int l = 0; l < kWarp; ++l) {
    const auto& lane = *static_cast<const MmaLane<A, B>*>(lanes[l]);
    for (int i = 0; i < 256 / kWarp; ++i) lane.c[i] = c[row_of(l, held_row(i))][column_of(l, i)];
  }
}
}  // namespace host

template <class T>
QUERN_DEVICE OperandA<T> load_a(const T* tile, int pitch) {
  return host::load_a(tile, pitch, 1);
}
template <class T>
QUERN_DEVICE OperandA<T> load_a_transposed(const T* tile, int pitch) {
  return host::load_a(tile, 1, pitch);
}
template <class T>
QUERN_DEVICE OperandB<T> load_b(const T* tile, int pitch) {
  return host::load_b(tile, pitch, 1);
}
template <class T>
QUERN_DEVICE OperandB<T> load_b_transposed(const T* tile, int pitch) {
  return host::load_b(tile, 1, pitch);
}
template <class T>
QUERN_DEVICE const OperandA<T>& multiplicand(const OperandA<T>& a) {
  return a;
}
template <class T>
QUERN_DEVICE const OperandB<T>& multiplicand(const OperandB<T>& b) {
  return b;
}
template <class A, class B>
QUERN_DEVICE void mma(Accumulator& c, const OperandA<A>& a, const OperandB<B>& b) {
  host::MmaLane<A, B> mine{c.x, &a, &b};
  host::table->together(host::Together::mma, &mine, host::mma_warp<A, B>);
}
template <class T>
QUERN_DEVICE OperandA<T> to_operand(const Accumulator& c) {
  OperandA<T> r;
  for (int i = 0; i < 128 / kWarp; ++i) r.x[i] = pack<T>(c.x[2 * i], c.x[2 * i + 1]);
  return r;
}
QUERN_DEVICE f32 reduce_row_max(f32 v) {
  v = fmax(v, shuffle_xor(v, kWarp == 32 ? 1 : 16));
  return fmax(v, shuffle_xor(v, kWarp == 32 ? 2 : 32));
}
QUERN_DEVICE f32 reduce_row_sum(f32 v) {
  v += shuffle_xor(v, kWarp == 32 ? 1 : 16);
  return v + shuffle_xor(v, kWarp == 32 ? 2 : 32);
}

}  // namespace q
