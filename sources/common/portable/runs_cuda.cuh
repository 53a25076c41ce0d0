// Products of runs on NVIDIA's GPUs: mma.sync, of which a lane's four registers of k and of k + 8 (of bytes: + 16) are
// filled from one run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace q {

template <class T>
QUERN_DEVICE void mma(Accumulator& c, const Runs<T>& a, const Runs<T>& b) {
  QUERN_UNROLL for (int s = 0; s < 2; ++s) {
    mma(c, OperandA<T>{{a.x[0][2 * s], a.x[1][2 * s], a.x[0][2 * s + 1], a.x[1][2 * s + 1]}},
        OperandB<T>{{b.x[0][2 * s], b.x[0][2 * s + 1], b.x[1][2 * s], b.x[1][2 * s + 1]}});
  }
}
QUERN_DEVICE void mma(IntegerAccumulator& c, const Runs<i8>& a, const Runs<i8>& b) {
  QUERN_UNROLL for (int half = 0; half < 2; ++half) {
    i32* const x = c.x + 4 * half;
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+r"(x[0]), "+r"(x[1]), "+r"(x[2]), "+r"(x[3])
        : "r"(a.x[0][0]), "r"(a.x[1][0]), "r"(a.x[0][1]), "r"(a.x[1][1]), "r"(b.x[half][0]), "r"(b.x[half][1]));
  }
}

#define QUERN_HALF_RUNS 1
template <class T>
QUERN_DEVICE void mma(HalfAccumulator& c, const Runs<T>& a, const HalfRuns<T>& b) {
  f32* const x = c.x;
  QUERN_UNROLL for (int s = 0; s < 2; ++s) {
    const u32 a0 = a.x[0][2 * s], a1 = a.x[1][2 * s], a2 = a.x[0][2 * s + 1], a3 = a.x[1][2 * s + 1];
    const u32 b0 = b.x[0][2 * s], b1 = b.x[0][2 * s + 1];
    if constexpr (kIsBf16<T>) {
      asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
          : "+f"(x[0]), "+f"(x[1]), "+f"(x[2]), "+f"(x[3])
          : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
    } else {
      asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
          : "+f"(x[0]), "+f"(x[1]), "+f"(x[2]), "+f"(x[3])
          : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
    }
  }
}
// Eight columns of sums of bytes.
QUERN_DEVICE void mma_bytes(i32 (&x)[4], const Runs<i8>& a, const u32 (&b)[2]) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+r"(x[0]), "+r"(x[1]), "+r"(x[2]), "+r"(x[3])
      : "r"(a.x[0][0]), "r"(a.x[1][0]), "r"(a.x[0][1]), "r"(a.x[1][1]), "r"(b[0]), "r"(b[1]));
}
QUERN_DEVICE void mma(IntegerHalfAccumulator& c, const Runs<i8>& a, const HalfRuns<i8>& b) {
  mma_bytes(c.x, a, b.x[0]);
}

template <class T>
QUERN_DEVICE u32 fma_pairs(u32 a, u32 b, u32 c) {
  u32 r;
  if constexpr (kIsBf16<T>) {
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
  } else {
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
  }
  return r;
}

QUERN_DEVICE u32 masked_and_turned(u32 v, u32 mask, u32 turned) {
  u32 r;
  asm("lop3.b32 %0, %1, %2, %3, 0x6a;" : "=r"(r) : "r"(v), "r"(mask), "r"(turned));
  return r;
}

}  // namespace q
