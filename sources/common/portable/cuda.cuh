// NVIDIA, sm_80 and up: PTX stays in this file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/types.cuh"

#define QUERN_DEVICE __device__ __forceinline__
#define QUERN_CALLED __device__ __noinline__
#define QUERN_UNROLL _Pragma("unroll")
#define QUERN_ROLLED _Pragma("unroll 1")
#define QUERN_FOUR_AT_ONCE _Pragma("unroll 4")
#define QUERN_TWO_AT_ONCE _Pragma("unroll 2")
#define QUERN_PARAM const __grid_constant__
#define QUERN_SHARED(type, name, count) __shared__ type name[count]
#define QUERN_KERNEL(name, threads, blocks_per_sm, ...) \
  extern "C" __global__ void __launch_bounds__(threads, blocks_per_sm) name(__VA_ARGS__ QUERN_CHECKED_PARAM)
// A variable of the module, zero when it is loaded.
#define QUERN_GLOBAL __device__

namespace q {

// ---- Execution
inline constexpr int kWarp = 32;
QUERN_DEVICE int thread_index() { return static_cast<int>(threadIdx.x); }
QUERN_DEVICE int lane() { return static_cast<int>(threadIdx.x) & 31; }
QUERN_DEVICE int warp() { return static_cast<int>(threadIdx.x) >> 5; }
QUERN_DEVICE int block_index(int d) { return static_cast<int>(d == 0 ? blockIdx.x : d == 1 ? blockIdx.y : blockIdx.z); }
QUERN_DEVICE int block_count(int d) { return static_cast<int>(d == 0 ? gridDim.x : d == 1 ? gridDim.y : gridDim.z); }
QUERN_DEVICE void sync_block() { __syncthreads(); }
QUERN_DEVICE void sync_warp() { __syncwarp(); }
#define QUERN_NAMED_BARRIERS 1
QUERN_DEVICE void sync_named(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// ---- Shared memory
extern __shared__ __align__(128) u8 quern_dynamic_shared[];
QUERN_DEVICE u8* dynamic_shared() { return quern_dynamic_shared; }
// common/shared_place.cuh: places are addresses.
#define QUERN_SHARED_ADDRESSES 1
QUERN_DEVICE u32 shared_address(const void* p) { return static_cast<u32>(__cvta_generic_to_shared(p)); }
// There and back alone would be taken for nothing.
template <class T>
QUERN_DEVICE T* in_shared(T* p) {
  u32 address = shared_address(p);
  asm("" : "+r"(address));
  return static_cast<T*>(__cvta_shared_to_generic(address));
}

// common/eight.cuh: of eight elements the first few are stored in one statement.
#define QUERN_PREDICATED_STORES 1

// ---- Warp
template <class T>
QUERN_DEVICE T shuffle(T v, int source) {
  return __shfl_sync(0xffffffffu, v, source);
}
template <class T>
QUERN_DEVICE T shuffle_xor(T v, int mask) {
  return __shfl_xor_sync(0xffffffffu, v, mask);
}
template <class T>
QUERN_DEVICE T shuffle_up(T v, int delta) {
  return __shfl_up_sync(0xffffffffu, v, delta);
}
// For common/reduce.cuh.
#define QUERN_WARP_EXTREMA 1
QUERN_DEVICE u32 warp_largest(u32 v) { return __reduce_max_sync(0xffffffffu, v); }
QUERN_DEVICE u32 warp_smallest(u32 v) { return __reduce_min_sync(0xffffffffu, v); }
QUERN_DEVICE u32 warp_added(u32 v) { return __reduce_add_sync(0xffffffffu, v); }
QUERN_DEVICE u64 ballot(bool predicate) { return __ballot_sync(0xffffffffu, predicate); }

// ---- Bits
QUERN_DEVICE u32 popcount(u32 v) { return static_cast<u32>(__popc(v)); }
QUERN_DEVICE u32 popcount(u64 v) { return static_cast<u32>(__popcll(v)); }
QUERN_DEVICE u32 leading_zeros(u32 v) { return static_cast<u32>(__clz(static_cast<int>(v))); }
QUERN_DEVICE u32 leading_zeros(u64 v) { return static_cast<u32>(__clzll(static_cast<long long>(v))); }
QUERN_DEVICE u32 trailing_zeros(u32 v) { return static_cast<u32>(__clz(static_cast<int>(__brev(v)))); }
QUERN_DEVICE u32 trailing_zeros(u64 v) { return static_cast<u32>(__clzll(static_cast<long long>(__brevll(v)))); }

// ---- Bytes
template <u32 selector>
QUERN_DEVICE u32 permute_bytes(u32 low, u32 high) {
  static_assert((selector & ~0x7777u) == 0, "four numbers of bytes, 0 to 7");
  return __byte_perm(low, high, selector);
}

// ---- Integers
QUERN_DEVICE i64 multiply_wide(i32 a, i32 b) {
  i64 r;
  asm("mul.wide.s32 %0, %1, %2;" : "=l"(r) : "r"(a), "r"(b));
  return r;
}

// ---- Memory
QUERN_DEVICE vec16 load16(const void* p) {
  const uint4 v = *static_cast<const uint4*>(p);
  return {{v.x, v.y, v.z, v.w}};
}
// Without a place in L1 (L1::no_allocate) a stream of these beside as many stores is 3 to 8 % slower on an H200; one
// that is read alone, by all lanes of a warp side by side, is 2 to 6 % faster: load16_alone.
QUERN_DEVICE vec16 load16_once(const void* p) {
  vec16 v;
  asm volatile("ld.global.L2::128B.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x[0]), "=r"(v.x[1]), "=r"(v.x[2]), "=r"(v.x[3])
               : "l"(p));
  return v;
}
QUERN_DEVICE vec16 load16_alone(const void* p) {
  vec16 v;
  asm volatile("ld.global.L1::no_allocate.L2::128B.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x[0]), "=r"(v.x[1]), "=r"(v.x[2]), "=r"(v.x[3])
               : "l"(p));
  return v;
}
QUERN_DEVICE void store16(void* p, const vec16& v) {
  *static_cast<uint4*>(p) = make_uint4(v.x[0], v.x[1], v.x[2], v.x[3]);
}
// By an instruction of its own: NVVM takes some stores through generic pointers apart into four.
QUERN_DEVICE void store16_global(void* p, const vec16& v) {
  asm volatile("st.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(p), "r"(v.x[0]), "r"(v.x[1]), "r"(v.x[2]), "r"(v.x[3])
               : "memory");
}
template <class T>
QUERN_DEVICE T load_volatile(const T* p) {
  return *static_cast<const volatile T*>(p);
}
template <class T>
QUERN_DEVICE T atomic_add(T* p, T v) {
  return atomicAdd(p, v);
}
QUERN_DEVICE u32 atomic_add_ordered(u32* p, u32 v) {
  u32 before;
  asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], %2;"
               : "=r"(before)
               : "l"(__cvta_generic_to_global(p)), "r"(v)
               : "memory");
  return before;
}
template <class T>
QUERN_DEVICE T atomic_max(T* p, T v) {
  return atomicMax(p, v);
}
template <class T>
QUERN_DEVICE T atomic_or(T* p, T v) {
  return atomicOr(p, v);
}
template <class T>
QUERN_DEVICE T atomic_cas(T* p, T expected, T v) {
  return atomicCAS(p, expected, v);
}
QUERN_DEVICE void fence() { __threadfence(); }
QUERN_DEVICE void publish(u32* p, u32 v) {
#if __CUDA_ARCH__ >= 700
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
#else
  __threadfence_system();
  *const_cast<volatile u32*>(p) = v;
#endif
}
QUERN_DEVICE u32 acquire(const u32* p) {
  u32 v;
#if __CUDA_ARCH__ >= 700
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
#else
  v = load_volatile(p);
  __threadfence_system();
#endif
  return v;
}

QUERN_DEVICE void store_message(u64* p, u64 v) { *static_cast<volatile u64*>(p) = v; }
QUERN_DEVICE u64 load_message(const u64* p) { return load_volatile(p); }

// ---- Asynchronous copies
QUERN_DEVICE void copy_async_16(u32 shared, const void* global, bool take) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(shared), "l"(global), "r"(take ? 16 : 0)
               : "memory");
}
QUERN_DEVICE void copy_async_16(void* shared, const void* global, bool take) {
  copy_async_16(shared_address(shared), global, take);
}
QUERN_DEVICE void copy_async_4(u32 shared, const void* global, bool take) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared), "l"(global), "r"(take ? 4 : 0) : "memory");
}
QUERN_DEVICE void copy_async_4(void* shared, const void* global, bool take) {
  copy_async_4(shared_address(shared), global, take);
}
QUERN_DEVICE void copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int n>
QUERN_DEVICE void copy_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory");
}

QUERN_DEVICE void prefetch_line(const void* global) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(global) : "memory");
}

// ---- Grid
QUERN_DEVICE void wait_for_previous_grid() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
QUERN_DEVICE void launch_next_grid() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Parameters lie in lines of 64 bytes of constant memory. What is read must be of use, or else the assembler leaves it
// out: a sleep of no time where all bits are set.
template <class Params>
QUERN_DEVICE void fetch_parameters(const Params& p) {
#if __CUDA_ARCH__ >= 900
  u32 all = 0;
  QUERN_UNROLL for (u32 i = 0; i < sizeof(Params) / 4; i += 16) all |= reinterpret_cast<const u32*>(&p)[i];
  asm volatile(
      "{\n"
      ".reg .pred used;\n"
      "setp.eq.u32 used, %0, 0xffffffff;\n"
      "@used nanosleep.u32 0;\n"
      "}" ::"r"(all)
      : "memory");
#else
  (void)p;
#endif
}

// ---- Control
QUERN_DEVICE void stay_in_branch() { asm volatile(""); }
// As in fetch_parameters.
QUERN_DEVICE void needed_here(u32 value) {
  asm volatile(
      "{\n"
      ".reg .pred used;\n"
      "setp.eq.u32 used, %0, 0xffffffff;\n"
      "@used nanosleep.u32 0;\n"
      "}" ::"r"(value)
      : "memory");
}
// The assembler places first the code of a branch that is not taken, and the compiler branches where a number is 0: the
// asm hides the number's value from it.
QUERN_DEVICE bool laid_first(bool condition) {
  u32 taken;
  asm("mov.u32 %0, %1;" : "=r"(taken) : "r"(static_cast<u32>(condition)));
  return taken != 0;
}

// ---- Maths
QUERN_DEVICE f32 exp2(f32 x) {
  f32 y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
QUERN_DEVICE f32 log2(f32 x) {
  f32 y;
  asm("lg2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
QUERN_DEVICE f32 rcp(f32 x) { return __frcp_rn(x); }
// Unlike __frcp_rn it has no slow path to call: a kernel with a call in it takes a tenth longer to compile.
QUERN_DEVICE f32 rcp_approx(f32 x) {
  f32 y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
QUERN_DEVICE f32 rsqrt(f32 x) { return rsqrtf(x); }
QUERN_DEVICE f32 sqrt(f32 x) { return __fsqrt_rn(x); }
QUERN_DEVICE f32 fmin(f32 a, f32 b) { return fminf(a, b); }
QUERN_DEVICE f32 fmax(f32 a, f32 b) { return fmaxf(a, b); }
QUERN_DEVICE f32 fabs(f32 x) { return fabsf(x); }
QUERN_DEVICE f32 fma(f32 a, f32 b, f32 c) { return fmaf(a, b, c); }
QUERN_DEVICE f32 infinity() { return __int_as_float(0x7f800000); }
QUERN_DEVICE f32 nan() { return __int_as_float(0x7fffffff); }

// ---- Conversion
// The compiler would load a parameter anew for each use, which costs a pass for each address that lanes differ in.
QUERN_DEVICE u64 held(u64 v) {
  asm volatile("" : "+l"(v));
  return v;
}
QUERN_DEVICE u32 bits_of(f32 v) { return __float_as_uint(v); }
QUERN_DEVICE f32 f32_of(u32 v) { return __uint_as_float(v); }
QUERN_DEVICE f32 to_f32(bf16 v) { return __uint_as_float(static_cast<u32>(v.bits) << 16); }
QUERN_DEVICE f32 to_f32(f16 v) {
  f32 r;
  asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(v.bits));
  return r;
}
QUERN_DEVICE f32 to_f32(f32 v) { return v; }

template <class T>
struct Float16;  // what differs between f16 and bf16
template <>
struct Float16<f16> {
  static QUERN_DEVICE u32 pack(f32 lo, f32 hi) {
    u32 r;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
    return r;
  }
  static QUERN_DEVICE u32 pack_finite(f32 lo, f32 hi) {
    u32 r;
    asm("cvt.rn.satfinite.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
    return r;
  }
  static QUERN_DEVICE void mma(f32* c, const u32* a, const u32* b) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
};
template <>
struct Float16<bf16> {
  static QUERN_DEVICE u32 pack(f32 lo, f32 hi) {
    u32 r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
    return r;
  }
  static QUERN_DEVICE u32 pack_finite(f32 lo, f32 hi) {
    u32 r;
    asm("cvt.rn.satfinite.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
    return r;
  }
  static QUERN_DEVICE void mma(f32* c, const u32* a, const u32* b) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
};

template <class T>
QUERN_DEVICE u32 pack(f32 lo, f32 hi) {
  return Float16<T>::pack(lo, hi);
}
template <class T>
QUERN_DEVICE u32 pack_finite(f32 lo, f32 hi) {
  return Float16<T>::pack_finite(lo, hi);
}
template <class T>
QUERN_DEVICE f32x2 unpack(u32 v) {
  return {to_f32(T{static_cast<u16>(v & 0xffffu)}), to_f32(T{static_cast<u16>(v >> 16)})};
}
// from_f32<f32, f16, bf16>; the fp8 kinds are in convert.cuh.
template <class T>
QUERN_DEVICE T from_f32(f32 v) {
  return T{static_cast<u16>(Float16<T>::pack(v, 0.0f) & 0xffffu)};
}
template <>
QUERN_DEVICE f32 from_f32<f32>(f32 v) {
  return v;
}

QUERN_DEVICE u32 add_halves(u32 a, u32 b) {
  u32 r;
  asm("add.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
  return r;
}

// For convert.cuh.
#if __CUDA_ARCH__ >= 890
#define QUERN_NATIVE_FP8 1
// As a move of halves the second conversion joins them; shifted and or-ed they would take an instruction of their own.
QUERN_DEVICE u32 join_halves(u16 low, u16 high) {
  u32 r;
  asm("mov.b32 %0, {%1, %2};" : "=r"(r) : "h"(low), "h"(high));
  return r;
}
template <class T>
struct NativeFp8;
template <>
struct NativeFp8<e4m3> {
  static QUERN_DEVICE u16 encode(f32 lo, f32 hi) {
    u16 r;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(r) : "f"(hi), "f"(lo));
    return r;
  }
  static QUERN_DEVICE u32 decode(u16 v) {
    u32 r;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(r) : "h"(v));
    return r;
  }
};
template <>
struct NativeFp8<e5m2> {
  static QUERN_DEVICE u16 encode(f32 lo, f32 hi) {
    u16 r;
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(r) : "f"(hi), "f"(lo));
    return r;
  }
  static QUERN_DEVICE u32 decode(u16 v) {
    u32 r;
    asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(r) : "h"(v));
    return r;
  }
};
#endif

// common/registers/tile_sums.cuh and numbered_sums.cuh: sums are registers with names.
#define QUERN_NAMED_TILE_SUMS 1

// ---- Tile: two products of 16 x 8 side by side. A row of an operand's step is 32 bytes whatever the type, so one
// ldmatrix serves all of them
struct Accumulator {
  f32 x[8];
};
template <class T>
struct OperandA {
  u32 x[4];
};
template <class T>
struct OperandB {
  u32 x[4];
};
inline constexpr int kRowsHeld = 2;
QUERN_DEVICE constexpr int held_row(int i) { return (i >> 1) & 1; }
QUERN_DEVICE constexpr int row_of(int lane, int held) { return (lane >> 2) + 8 * held; }
QUERN_DEVICE constexpr int column_of(int lane, int i) { return ((lane & 3) << 1) + (i & 1) + ((i >> 2) << 3); }

QUERN_DEVICE void load_matrices(u32* x, u32 row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(row));
}
QUERN_DEVICE void load_matrices(u32* x, const void* row) { load_matrices(x, shared_address(row)); }
QUERN_DEVICE void load_matrices_transposed(u32* x, u32 row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(row));
}
QUERN_DEVICE void load_matrices_transposed(u32* x, const void* row) {
  load_matrices_transposed(x, shared_address(row));
}
template <class T>
QUERN_DEVICE OperandA<T> load_a(const T* tile, int pitch) {
  const int l = lane();
  OperandA<T> r;
  load_matrices(r.x, tile + (l & 15) * pitch + (l >> 4) * (16 / sizeof(T)));
  return r;
}
template <class T>
QUERN_DEVICE OperandB<T> load_b(const T* tile, int pitch) {
  const int l = lane();
  OperandB<T> r;
  load_matrices(r.x, tile + ((l & 7) + ((l >> 4) << 3)) * pitch + ((l >> 3) & 1) * (16 / sizeof(T)));
  return r;
}
template <class T>
QUERN_DEVICE OperandA<T> load_a_transposed(const T* tile, int pitch) {
  const int l = lane();
  OperandA<T> r;
  if constexpr (sizeof(T) == 4) {
    QUERN_UNROLL for (int i = 0; i < 4; ++i) r.x[i] =
        bits_of(tile[((l & 3) + 4 * (i >> 1)) * pitch + (l >> 2) + 8 * (i & 1)]);
  } else {
    load_matrices_transposed(r.x, tile + ((l & 7) + ((l >> 4) << 3)) * pitch + ((l >> 3) & 1) * 8);
  }
  return r;
}
template <class T>
QUERN_DEVICE OperandB<T> load_b_transposed(const T* tile, int pitch) {
  const int l = lane();
  OperandB<T> r;
  if constexpr (sizeof(T) == 4) {
    QUERN_UNROLL for (int i = 0; i < 4; ++i) r.x[i] =
        bits_of(tile[((l & 3) + 4 * (i & 1)) * pitch + (l >> 2) + 8 * (i >> 1)]);
  } else {
    load_matrices_transposed(r.x, tile + (l & 15) * pitch + (l >> 4) * 8);
  }
  return r;
}
template <class T>
QUERN_DEVICE void mma(Accumulator& c, const OperandA<T>& a, const OperandB<T>& b) {
  Float16<T>::mma(c.x, a.x, b.x);
  Float16<T>::mma(c.x + 4, a.x, b.x + 2);
}
template <class T>
QUERN_DEVICE OperandA<T> to_operand(const Accumulator& c) {
  return {{pack<T>(c.x[0], c.x[1]), pack<T>(c.x[2], c.x[3]), pack<T>(c.x[4], c.x[5]), pack<T>(c.x[6], c.x[7])}};
}

QUERN_DEVICE f32 reduce_row_max(f32 v) {
  v = fmax(v, shuffle_xor(v, 1));
  return fmax(v, shuffle_xor(v, 2));
}
QUERN_DEVICE f32 reduce_row_sum(f32 v) {
  v += shuffle_xor(v, 1);
  return v + shuffle_xor(v, 2);
}

}  // namespace q
