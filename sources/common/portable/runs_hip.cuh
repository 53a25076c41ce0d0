// Products of runs on AMD's GPUs: MFMA with its operands swapped, as in hip.cuh, whose lanes have four k of a line.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace q {

template <class T>
QUERN_DEVICE void mma(Accumulator& c, const Runs<T>& a, const Runs<T>& b) {
  QUERN_UNROLL for (int s = 0; s < 2; ++s) {
    mma(c, OperandA<T>{{a.x[0][2 * s], a.x[0][2 * s + 1]}}, OperandB<T>{{b.x[0][2 * s], b.x[0][2 * s + 1]}});
  }
}

using native_i32x4 = i32 __attribute__((ext_vector_type(4)));
QUERN_DEVICE void mma(IntegerAccumulator& c, const Runs<i8>& a, const Runs<i8>& b) {
  native_i32x4 d{c.x[0], c.x[1], c.x[2], c.x[3]};
#if defined(__gfx908__) || defined(__gfx90a__)
  QUERN_UNROLL for (int s = 0; s < 2; ++s) {
    d = __builtin_amdgcn_mfma_i32_16x16x16i8(static_cast<i32>(b.x[0][s]), static_cast<i32>(a.x[0][s]), d, 0, 0, 0);
  }
#else
  const auto eight = [](const u32* x) { return static_cast<long>(static_cast<u64>(x[1]) << 32 | x[0]); };
  d = __builtin_amdgcn_mfma_i32_16x16x32_i8(eight(b.x[0]), eight(a.x[0]), d, 0, 0, 0);
#endif
  c = {{d.x, d.y, d.z, d.w}};
}

template <class T>
QUERN_DEVICE u32 fma_pairs(u32 a, u32 b, u32 c) {
  const f32x2 x = unpack<T>(a), y = unpack<T>(b), z = unpack<T>(c);
  return pack<T>(fma(x.x, y.x, z.x), fma(x.y, y.y, z.y));
}

QUERN_DEVICE u32 masked_and_turned(u32 v, u32 mask, u32 turned) { return (v & mask) ^ turned; }

}  // namespace q
