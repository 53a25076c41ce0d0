// AMD with MFMA and a wave of 64: gfx90a, gfx942. Compiler builtins only, no HIP header.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/types.cuh"

#define QUERN_DEVICE __attribute__((device, always_inline)) inline
#define QUERN_CALLED __attribute__((device, noinline)) inline
#define QUERN_UNROLL _Pragma("unroll")
#define QUERN_ROLLED _Pragma("nounroll")
#define QUERN_FOUR_AT_ONCE _Pragma("unroll 4")
#define QUERN_TWO_AT_ONCE _Pragma("unroll 2")
#define QUERN_PARAM const
#define QUERN_SHARED(type, name, count) __attribute__((shared)) type name[count]
// A compute unit's waves are spread over four SIMDs, for each of which the compiler is told how many must fit.
#define QUERN_KERNEL(name, threads, blocks_per_sm, ...)                                                   \
  extern "C" __attribute__((global, amdgpu_flat_work_group_size(threads, threads),                        \
                            amdgpu_waves_per_eu((((threads) + 63) / 64 * (blocks_per_sm) + 3) / 4))) void \
  name(__VA_ARGS__ QUERN_CHECKED_PARAM)
// A variable of the module, zero when it is loaded.
#define QUERN_GLOBAL __attribute__((device))

namespace q {

// ---- Execution
inline constexpr int kWarp = 64;
#ifdef __AMDGCN_WAVEFRONT_SIZE
static_assert(__AMDGCN_WAVEFRONT_SIZE == kWarp, "this backend is for a wave of 64");
#endif
QUERN_DEVICE int thread_index() { return static_cast<int>(__builtin_amdgcn_workitem_id_x()); }
QUERN_DEVICE int lane() { return thread_index() & 63; }
// Made uniform over the lanes, so that it can be kept in a scalar register.
QUERN_DEVICE int warp() { return __builtin_amdgcn_readfirstlane(thread_index() >> 6); }
QUERN_DEVICE int block_index(int d) {
  return static_cast<int>(d == 0   ? __builtin_amdgcn_workgroup_id_x()
                          : d == 1 ? __builtin_amdgcn_workgroup_id_y()
                                   : __builtin_amdgcn_workgroup_id_z());
}
QUERN_DEVICE int block_count(int d) {  // blocks are one-dimensional, the grid's size is in threads
  return static_cast<int>(d == 0   ? __builtin_amdgcn_grid_size_x() / __builtin_amdgcn_workgroup_size_x()
                          : d == 1 ? __builtin_amdgcn_grid_size_y()
                                   : __builtin_amdgcn_grid_size_z());
}
QUERN_DEVICE void sync_block() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
QUERN_DEVICE void sync_warp() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
  __builtin_amdgcn_wave_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
}

// ---- Shared memory
extern __attribute__((shared, aligned(128))) u8 quern_dynamic_shared[];
QUERN_DEVICE u8* dynamic_shared() { return quern_dynamic_shared; }
template <class T>
QUERN_DEVICE T* in_shared(T* p) {
  return p;
}

// ---- Warp
template <class T>
QUERN_DEVICE T shuffle(T v, int source) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffle takes 32-bit and 64-bit values");
  int words[sizeof(T) / 4];
  __builtin_memcpy(words, &v, sizeof(T));
  QUERN_UNROLL
  for (int& word : words) word = __builtin_amdgcn_ds_bpermute(source << 2, word);
  __builtin_memcpy(&v, words, sizeof(T));
  return v;
}
template <class T>
QUERN_DEVICE T shuffle_xor(T v, int mask) {
  return shuffle(v, lane() ^ mask);
}
template <class T>
QUERN_DEVICE T shuffle_up(T v, int delta) {
  return shuffle(v, lane() < delta ? lane() : lane() - delta);
}
QUERN_DEVICE u64 ballot(bool predicate) {
#if __has_builtin(__builtin_amdgcn_ballot_w64)
  return __builtin_amdgcn_ballot_w64(predicate);
#else
  return __builtin_amdgcn_uicmp(predicate ? 1u : 0u, 0u, 33);  // 33: not equal
#endif
}

// ---- Bits
QUERN_DEVICE u32 popcount(u32 v) { return static_cast<u32>(__builtin_popcount(v)); }
QUERN_DEVICE u32 popcount(u64 v) { return static_cast<u32>(__builtin_popcountll(v)); }
QUERN_DEVICE u32 leading_zeros(u32 v) { return v == 0 ? 32u : static_cast<u32>(__builtin_clz(v)); }
QUERN_DEVICE u32 leading_zeros(u64 v) { return v == 0 ? 64u : static_cast<u32>(__builtin_clzll(v)); }
QUERN_DEVICE u32 trailing_zeros(u32 v) { return v == 0 ? 32u : static_cast<u32>(__builtin_ctz(v)); }
QUERN_DEVICE u32 trailing_zeros(u64 v) { return v == 0 ? 64u : static_cast<u32>(__builtin_ctzll(v)); }

// ---- Bytes
template <u32 selector>
QUERN_DEVICE u32 permute_bytes(u32 low, u32 high) {
  static_assert((selector & ~0x7777u) == 0, "four numbers of bytes, 0 to 7");
  constexpr u32 kBytes =
      (selector & 7) | (selector >> 4 & 7) << 8 | (selector >> 8 & 7) << 16 | (selector >> 12 & 7) << 24;
  return __builtin_amdgcn_perm(high, low, kBytes);
}

// ---- Integers
QUERN_DEVICE i64 multiply_wide(i32 a, i32 b) { return static_cast<i64>(a) * b; }

// ---- Memory
using native_u32x4 = u32 __attribute__((ext_vector_type(4)));
QUERN_DEVICE vec16 load16(const void* p) {
  const native_u32x4 v = *static_cast<const native_u32x4*>(p);
  return {{v.x, v.y, v.z, v.w}};
}
QUERN_DEVICE vec16 load16_alone(const void* p) { return load16(p); }
QUERN_DEVICE vec16 load16_once(const void* p) {
  const native_u32x4 v = __builtin_nontemporal_load(static_cast<const native_u32x4*>(p));
  return {{v.x, v.y, v.z, v.w}};
}
QUERN_DEVICE void store16(void* p, const vec16& v) {
  *static_cast<native_u32x4*>(p) = native_u32x4{v.x[0], v.x[1], v.x[2], v.x[3]};
}
QUERN_DEVICE void store16_global(void* p, const vec16& v) { store16(p, v); }
template <class T>
QUERN_DEVICE T load_volatile(const T* p) {
  return __hip_atomic_load(p, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
template <class T>
QUERN_DEVICE T atomic_add(T* p, T v) {
  return __hip_atomic_fetch_add(p, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
QUERN_DEVICE u32 atomic_add_ordered(u32* p, u32 v) {
  return __hip_atomic_fetch_add(p, v, __ATOMIC_ACQ_REL, __HIP_MEMORY_SCOPE_AGENT);
}
template <class T>
QUERN_DEVICE T atomic_max(T* p, T v) {
  return __hip_atomic_fetch_max(p, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
template <class T>
QUERN_DEVICE T atomic_or(T* p, T v) {
  return __hip_atomic_fetch_or(p, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
template <class T>
QUERN_DEVICE T atomic_cas(T* p, T expected, T v) {
  __hip_atomic_compare_exchange_strong(p, &expected, v, __ATOMIC_RELAXED, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
  return expected;
}
QUERN_DEVICE void fence() { __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "agent"); }
QUERN_DEVICE void publish(u32* p, u32 v) {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "");
  *const_cast<volatile u32*>(p) = v;
}
QUERN_DEVICE u32 acquire(const u32* p) { return __hip_atomic_load(p, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_SYSTEM); }
QUERN_DEVICE void store_message(u64* p, u64 v) {
  __hip_atomic_store(p, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}
QUERN_DEVICE u64 load_message(const u64* p) {
  return __hip_atomic_load(p, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}

// ---- Asynchronous copies: through registers; the barrier that follows a wait makes them visible
QUERN_DEVICE void copy_async_16(void* shared, const void* global, bool take) {
  store16(shared, take ? load16(global) : vec16{});
}
QUERN_DEVICE void copy_async_4(void* shared, const void* global, bool take) {
  *static_cast<u32*>(shared) = take ? *static_cast<const u32*>(global) : 0u;
}
QUERN_DEVICE void copy_async_commit() {}
template <int n>
QUERN_DEVICE void copy_async_wait() {}

QUERN_DEVICE void prefetch_line(const void*) {}

// ---- Grid: launches of a stream follow one another
QUERN_DEVICE void wait_for_previous_grid() {}
QUERN_DEVICE void launch_next_grid() {}
template <class Params>
QUERN_DEVICE void fetch_parameters(const Params&) {}

// ---- Control
// No instruction. Not an empty asm: see without_assembly() of jit/hiprtc.cpp.
QUERN_DEVICE void stay_in_branch() { __builtin_amdgcn_wave_barrier(); }
QUERN_DEVICE void needed_here(u32) {}
QUERN_DEVICE bool laid_first(bool condition) { return condition; }

// ---- Maths
QUERN_DEVICE f32 exp2(f32 x) { return __builtin_exp2f(x); }
QUERN_DEVICE f32 log2(f32 x) { return __builtin_log2f(x); }
QUERN_DEVICE f32 rcp(f32 x) { return __builtin_amdgcn_rcpf(x); }
QUERN_DEVICE f32 rcp_approx(f32 x) { return rcp(x); }
QUERN_DEVICE f32 rsqrt(f32 x) { return __builtin_amdgcn_rsqf(x); }
QUERN_DEVICE f32 sqrt(f32 x) { return __builtin_sqrtf(x); }
QUERN_DEVICE f32 fmin(f32 a, f32 b) { return __builtin_fminf(a, b); }
QUERN_DEVICE f32 fmax(f32 a, f32 b) { return __builtin_fmaxf(a, b); }
QUERN_DEVICE f32 fabs(f32 x) { return __builtin_fabsf(x); }
QUERN_DEVICE f32 fma(f32 a, f32 b, f32 c) { return __builtin_fmaf(a, b, c); }
QUERN_DEVICE f32 infinity() { return __builtin_inff(); }
QUERN_DEVICE f32 nan() { return __builtin_bit_cast(f32, 0x7fffffffu); }

// ---- Conversion
QUERN_DEVICE u64 held(u64 v) { return v; }
QUERN_DEVICE u32 bits_of(f32 v) { return __builtin_bit_cast(u32, v); }
QUERN_DEVICE f32 f32_of(u32 v) { return __builtin_bit_cast(f32, v); }
QUERN_DEVICE f32 to_f32(bf16 v) { return f32_of(static_cast<u32>(v.bits) << 16); }
QUERN_DEVICE f32 to_f32(f16 v) { return static_cast<f32>(__builtin_bit_cast(_Float16, v.bits)); }
QUERN_DEVICE f32 to_f32(f32 v) { return v; }

using native_f32x4 = f32 __attribute__((ext_vector_type(4)));
using native_u32x2 = u32 __attribute__((ext_vector_type(2)));
template <class T>
struct Float16;  // what differs between f16 and bf16
template <>
struct Float16<f16> {
  using Operand = _Float16 __attribute__((ext_vector_type(4)));
  static QUERN_DEVICE u16 round(f32 v) { return __builtin_bit_cast(u16, static_cast<_Float16>(v)); }
  static QUERN_DEVICE native_f32x4 mma(Operand a, Operand b, native_f32x4 c) {
    return __builtin_amdgcn_mfma_f32_16x16x16f16(a, b, c, 0, 0, 0);
  }
};
template <>
struct Float16<bf16> {
  using Operand = short __attribute__((ext_vector_type(4)));
  static QUERN_DEVICE u16 round(f32 v) {
    const u32 b = bits_of(v);
    return static_cast<u16>(v != v ? 0x7fffu : (b + 0x7fffu + (b >> 16 & 1)) >> 16);
  }
  static QUERN_DEVICE native_f32x4 mma(Operand a, Operand b, native_f32x4 c) {
    return __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(a, b, c, 0, 0, 0);
  }
};
// from_f32<f32, f16, bf16>; the fp8 kinds are in convert.cuh.
template <class T>
QUERN_DEVICE T from_f32(f32 v) {
  return T{Float16<T>::round(v)};
}
template <>
QUERN_DEVICE f32 from_f32<f32>(f32 v) {
  return v;
}
template <class T>
QUERN_DEVICE u32 pack(f32 lo, f32 hi) {
  return Float16<T>::round(lo) | static_cast<u32>(Float16<T>::round(hi)) << 16;
}
template <class T>
QUERN_DEVICE u32 pack_finite(f32 lo, f32 hi) {
  const u32 v = pack<T>(lo, hi), infinite = pack<T>(infinity(), infinity()) & 0xffffu;
  const u32 low = (v & 0x7fffu) == infinite, high = (v >> 16 & 0x7fffu) == infinite;
  return v - low - (high << 16);
}
template <class T>
QUERN_DEVICE f32x2 unpack(u32 v) {
  return {to_f32(T{static_cast<u16>(v & 0xffffu)}), to_f32(T{static_cast<u16>(v >> 16)})};
}

// f16 by pairs: exact in f32, so rounded once.
QUERN_DEVICE u32 add_halves(u32 a, u32 b) {
  const f32x2 x = unpack<f16>(a), y = unpack<f16>(b);
  return pack<f16>(x.x + y.x, x.y + y.y);
}

// ---- Tile: MFMA with its operands swapped, which leaves the accumulator transposed and so laid out as operand A is
struct Accumulator {
  f32 x[4];
};
template <class T>
struct OperandA {
  u32 x[2];
};
template <class T>
struct OperandB {
  u32 x[2];
};
inline constexpr int kRowsHeld = 1;
QUERN_DEVICE constexpr int held_row(int) { return 0; }
QUERN_DEVICE constexpr int row_of(int lane, int) { return lane & 15; }
QUERN_DEVICE constexpr int column_of(int lane, int i) { return ((lane >> 4) << 2) + i; }

template <class T>
QUERN_DEVICE OperandA<T> load_a(const T* tile, int pitch) {
  static_assert(sizeof(T) == 2);
  const int l = lane();
  const native_u32x2 v = *reinterpret_cast<const native_u32x2*>(tile + (l & 15) * pitch + ((l >> 4) << 2));
  return {{v.x, v.y}};
}
template <class T>
QUERN_DEVICE OperandA<T> load_a_transposed(const T* tile, int pitch) {
  const int l = lane();
  const T* column = tile + ((l >> 4) << 2) * pitch + (l & 15);
  return {{column[0].bits | static_cast<u32>(column[pitch].bits) << 16,
           column[2 * pitch].bits | static_cast<u32>(column[3 * pitch].bits) << 16}};
}
// 8 bits: two steps of 16, each with a lane's four neighbouring k in one word; widened to f16.
template <>
QUERN_DEVICE OperandA<e4m3> load_a(const e4m3* tile, int pitch) {
  const int l = lane();
  const e4m3* row = tile + (l & 15) * pitch + ((l >> 4) << 2);
  return {{*reinterpret_cast<const u32*>(row), *reinterpret_cast<const u32*>(row + 16)}};
}
template <>
QUERN_DEVICE OperandA<e5m2> load_a(const e5m2* tile, int pitch) {
  const OperandA<e4m3> same = load_a(reinterpret_cast<const e4m3*>(tile), pitch);
  return {{same.x[0], same.x[1]}};
}
// f32: two steps of 4, in each of which a lane has one k.
template <>
QUERN_DEVICE OperandA<f32> load_a(const f32* tile, int pitch) {
  const int l = lane();
  const f32* row = tile + (l & 15) * pitch + (l >> 4);
  return {{bits_of(row[0]), bits_of(row[4])}};
}
template <>
QUERN_DEVICE OperandA<f32> load_a_transposed(const f32* tile, int pitch) {
  const int l = lane();
  const f32* column = tile + (l >> 4) * pitch + (l & 15);
  return {{bits_of(column[0]), bits_of(column[4 * pitch])}};
}
template <class T>
QUERN_DEVICE OperandB<T> load_b(const T* tile, int pitch) {
  const OperandA<T> same = load_a(tile, pitch);
  return {{same.x[0], same.x[1]}};
}
template <class T>
QUERN_DEVICE OperandB<T> load_b_transposed(const T* tile, int pitch) {
  const OperandA<T> same = load_a_transposed(tile, pitch);
  return {{same.x[0], same.x[1]}};
}

struct WideA {
  OperandA<f16> step[2];
};
struct WideB {
  OperandB<f16> step[2];
};
// pack_fp8 and unpack_fp8 are in convert.cuh.
template <class T>
QUERN_DEVICE f32x2 unpack_fp8(u16 v);
template <class T>
QUERN_DEVICE u32 widen_two(u32 codes) {
  const f32x2 v = unpack_fp8<T>(static_cast<u16>(codes));
  return pack<f16>(v.x, v.y);
}
template <class Wide, class T, template <class> class Operand>
QUERN_DEVICE Wide widen(const Operand<T>& o) {
  Wide r;
  QUERN_UNROLL for (int i = 0; i < 2; ++i) {
    r.step[i].x[0] = widen_two<T>(o.x[i] & 0xffffu);
    r.step[i].x[1] = widen_two<T>(o.x[i] >> 16);
  }
  return r;
}
template <class T>
QUERN_DEVICE OperandA<T> multiplicand(const OperandA<T>& a) {
  return a;
}
template <class T>
QUERN_DEVICE OperandB<T> multiplicand(const OperandB<T>& b) {
  return b;
}
QUERN_DEVICE WideA multiplicand(const OperandA<e4m3>& a) { return widen<WideA>(a); }
QUERN_DEVICE WideA multiplicand(const OperandA<e5m2>& a) { return widen<WideA>(a); }
QUERN_DEVICE WideB multiplicand(const OperandB<e4m3>& b) { return widen<WideB>(b); }
QUERN_DEVICE WideB multiplicand(const OperandB<e5m2>& b) { return widen<WideB>(b); }

template <class T>
QUERN_DEVICE void mma(Accumulator& c, const OperandA<T>& a, const OperandB<T>& b) {
  using Operand = typename Float16<T>::Operand;
  const native_f32x4 d = Float16<T>::mma(__builtin_bit_cast(Operand, b.x), __builtin_bit_cast(Operand, a.x),
                                         native_f32x4{c.x[0], c.x[1], c.x[2], c.x[3]});
  c = {{d.x, d.y, d.z, d.w}};
}
QUERN_DEVICE void mma(Accumulator& c, const WideA& a, const WideB& b) {
  QUERN_UNROLL for (int i = 0; i < 2; ++i) mma(c, a.step[i], b.step[i]);
}
QUERN_DEVICE void mma(Accumulator& c, const OperandA<f32>& a, const OperandB<f32>& b) {
  native_f32x4 d{c.x[0], c.x[1], c.x[2], c.x[3]};
  QUERN_UNROLL for (int i = 0; i < 2; ++i) {
    d = __builtin_amdgcn_mfma_f32_16x16x4f32(f32_of(b.x[i]), f32_of(a.x[i]), d, 0, 0, 0);
  }
  c = {{d.x, d.y, d.z, d.w}};
}
template <class T>
QUERN_DEVICE OperandA<T> to_operand(const Accumulator& c) {
  return {{pack<T>(c.x[0], c.x[1]), pack<T>(c.x[2], c.x[3])}};
}
QUERN_DEVICE f32 reduce_row_max(f32 v) {
  v = fmax(v, shuffle_xor(v, 16));
  return fmax(v, shuffle_xor(v, 32));
}
QUERN_DEVICE f32 reduce_row_sum(f32 v) {
  v += shuffle_xor(v, 16);
  return v + shuffle_xor(v, 32);
}

}  // namespace q
