// What sm_90a alone has, on the CPU: handed to the executor (jit/host), which knows what is asynchronous.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/kernel.cuh"

namespace q {

// ---- Products
namespace host {
template <class T>
inline constexpr Number kNumber = Number::bf16;
template <>
inline constexpr Number kNumber<f16> = Number::f16;
template <>
inline constexpr Number kNumber<e4m3> = Number::e4m3;
template <>
inline constexpr Number kNumber<e5m2> = Number::e5m2;
template <>
inline constexpr Number kNumber<i8> = Number::i8;

template <class A, class B, Major a_major, Major b_major, int count>
QUERN_DEVICE void product(f32 (&d)[count], const u32* a_registers, u64 a, u64 b, bool accumulate) {
  check_wgmma<A, B, a_major, b_major, count>();
  const Product mine{d,           count, kNumber<A>, kNumber<B>, static_cast<u32>(a_major), static_cast<u32>(b_major),
                     a_registers, a,     b,          accumulate};
  table->product(&mine);
}
}  // namespace host
template <class A, class B = A, Major a_major = Major::k, Major b_major = Major::k, int count>
QUERN_DEVICE void wgmma(f32 (&d)[count], u64 a, u64 b, bool accumulate) {
  host::product<A, B, a_major, b_major>(d, nullptr, a, b, accumulate);
}
template <class A, class B = A, Major a_major = Major::k, Major b_major = Major::k, int count>
QUERN_DEVICE void wgmma(f32 (&d)[count], const u32 (&a)[4], u64 b, bool accumulate) {
  static_assert(a_major == Major::k, "an operand in registers has one layout");
  host::product<A, B, a_major, b_major>(d, a, 0, b, accumulate);
}
template <int a_bytes, int b_bytes, class A, class B = A, Major a_major = Major::k, Major b_major = Major::k, int count>
QUERN_DEVICE void wgmma_four(f32 (&d)[count], u64 a, u64 b, bool accumulate) {
  for (u32 i = 0; i < 4; ++i) {
    wgmma<A, B, a_major, b_major>(d, advanced(a, i * a_bytes), advanced(b, i * b_bytes), accumulate || i > 0);
  }
}
QUERN_DEVICE void wgmma_fence() { host::table->product_fence(); }
QUERN_DEVICE void wgmma_commit() { host::table->product_commit(); }
template <int n, class... D>
QUERN_DEVICE void wgmma_wait(D&...) {
  host::table->product_wait(n);
}

QUERN_DEVICE void settle(f32) {}
QUERN_DEVICE bool any_lane(bool predicate) { return ballot(predicate) != 0; }

// ---- Bytes
QUERN_DEVICE u32 permute_bytes_by(u32 low, u32 high, u32 selector) {
  const u64 both = static_cast<u64>(high) << 32 | low;
  u32 v = 0;
  for (int i = 0; i < 4; ++i) v |= static_cast<u32>(both >> 8 * (selector >> 4 * i & 7) & 0xff) << 8 * i;
  return v;
}

// ---- Registers
QUERN_DEVICE u32 thread_index_anew() { return static_cast<u32>(thread_index()); }
template <int n>
QUERN_DEVICE void registers_grow() {
  static_assert(n >= 24 && n <= 256 && n % 8 == 0, "a warp has 24 to 256 registers a thread, by 8");
  host::table->registers(n, 1);
}
template <int n>
QUERN_DEVICE void registers_shrink() {
  static_assert(n >= 24 && n <= 256 && n % 8 == 0, "a warp has 24 to 256 registers a thread, by 8");
  host::table->registers(n, 0);
}

}  // namespace q
