// What sm_90a alone has, as PTX.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/kernel.cuh"

namespace q {

// ---- Products
// What differs between types, as text in the instruction.
template <class A, class B>
struct WgmmaText;
template <>
struct WgmmaText<bf16, bf16> {
  static constexpr char kind[] = "k16.f32.bf16.bf16";
};
template <>
struct WgmmaText<f16, f16> {
  static constexpr char kind[] = "k16.f32.f16.f16";
};
template <>
struct WgmmaText<e4m3, e4m3> {
  static constexpr char kind[] = "k32.f32.e4m3.e4m3";
};
template <>
struct WgmmaText<e4m3, e5m2> {
  static constexpr char kind[] = "k32.f32.e4m3.e5m2";
};
template <>
struct WgmmaText<e5m2, e4m3> {
  static constexpr char kind[] = "k32.f32.e5m2.e4m3";
};
template <>
struct WgmmaText<e5m2, e5m2> {
  static constexpr char kind[] = "k32.f32.e5m2.e5m2";
};
template <>
struct WgmmaText<i8, i8> {
  static constexpr char kind[] = "k32.s32.s8.s8";
};
// What follows the operands: the signs of both, which integers have not, and the transpositions, which only 16-bit
// types have, of both operands or of B alone.
template <int bytes, bool integers, Major a, Major b>
struct WgmmaTailText {
  static constexpr char both[] = ",1,1";
  static constexpr char last[] = ",1,1";
};
template <int bytes, Major a, Major b>
struct WgmmaTailText<bytes, true, a, b> {
  static constexpr char both[] = "";
  static constexpr char last[] = "";
};
template <Major a, Major b>
struct WgmmaTailText<2, false, a, b> {
  static constexpr char both[] = {',', '1', ',', '1', ',', '0' + static_cast<int>(a), ',', '0' + static_cast<int>(b),
                                  0};
  static constexpr char last[] = {',', '1', ',', '1', ',', '0' + static_cast<int>(b), 0};
};
template <class A, Major a, Major b>
using WgmmaTail = WgmmaTailText<static_cast<int>(sizeof(A)), kIntegerSums<A>, a, b>;

QUERN_DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
QUERN_DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// The compiler takes d for finished where its wgmma stands: passed through here, it is not read sooner.
template <int count>
QUERN_DEVICE void pin(f32 (&d)[count]) {
  QUERN_UNROLL
  for (int i = 0; i < count; ++i) asm volatile("" : "+f"(d[i])::"memory");
}
template <int n, class... D>
QUERN_DEVICE void wgmma_wait(D&... d) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(n) : "memory");
  (pin(d), ...);
}

// A branch that is never taken: ptxas moves the instruction that waits ahead of arithmetic, but not into another block.
QUERN_DEVICE void settle(f32 v) {
  asm volatile("{.reg .pred p; setp.lt.f32 p, %0, 0f00000000; @p nanosleep.u32 0;}" ::"f"(v) : "memory");
}
QUERN_DEVICE bool any_lane(bool predicate) { return __any_sync(0xffffffffu, predicate) != 0; }

// ---- Bytes
QUERN_DEVICE u32 permute_bytes_by(u32 low, u32 high, u32 selector) { return __byte_perm(low, high, selector); }

// ---- Registers
QUERN_DEVICE u32 thread_index_anew() {
  u32 i;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(i));
  return i;
}
template <int n>
QUERN_DEVICE void registers_grow() {
  static_assert(n >= 24 && n <= 256 && n % 8 == 0, "a warp has 24 to 256 registers a thread, by 8");
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(n));
}
template <int n>
QUERN_DEVICE void registers_shrink() {
  static_assert(n >= 24 && n <= 256 && n % 8 == 0, "a warp has 24 to 256 registers a thread, by 8");
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(n));
}

}  // namespace q
