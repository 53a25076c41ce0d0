// A CPU: every GPU thread is a fiber of the executor (jit/host), which this file calls through a table of functions.
// Plain g++ or clang++, C++20, no system header. QUERN_HOST_WARP is the warp size, 32 unless defined.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/portable/host_abi.cuh"
#include "common/types.cuh"

#ifndef QUERN_HOST_WARP
#define QUERN_HOST_WARP 32
#endif

// Vague linkage in a shared object is shared by the whole process (STB_GNU_UNIQUE) unless hidden, and two kernels must
// not share a table or a static array.
#pragma GCC visibility push(hidden)

#define QUERN_DEVICE inline __attribute__((always_inline))
#define QUERN_CALLED inline __attribute__((noinline))
#define QUERN_UNROLL
#define QUERN_ROLLED
#define QUERN_FOUR_AT_ONCE
#define QUERN_TWO_AT_ONCE
#define QUERN_PARAM const
#define QUERN_SHARED(type, name, count)                   \
  struct name##_quern_site {};                            \
  type(&name)[count] = *reinterpret_cast<type(*)[count]>( \
      ::q::host::self()->block->static_shared +           \
      ::q::host::SharedSite<name##_quern_site, sizeof(type) * static_cast<unsigned long long>(count)>::array.offset)
#define QUERN_KERNEL(name, threads, blocks_per_sm, ...) \
  QUERN_HOST_KERNEL(name, threads, __VA_ARGS__ QUERN_CHECKED_PARAM)
#define QUERN_GLOBAL static
#define QUERN_HOST_EXPORT __attribute__((visibility("default"), used))
// The entry itself is local: of an exported one the table would name whatever the process calls by that name, and the C
// ABI has a function called quern_merge_state.
#define QUERN_HOST_KERNEL(name, threads, ...)                                                               \
  static void name##_body(__VA_ARGS__);                                                                     \
  static void name##_entry(void** args) { ::q::host::call(name##_body, args); }                             \
  extern "C" {                                                                                              \
  extern __attribute__((visibility("default"))) const ::q::host::Kernel name##_kernel;                      \
  }                                                                                                         \
  const ::q::host::Kernel name##_kernel = {name##_entry, threads, ::q::host::parameter_count(name##_body)}; \
  static void name##_body(__VA_ARGS__)

namespace q {

// ---- The executor
namespace host {
static const Table* table;
static SharedArray* shared_arrays;

QUERN_DEVICE const Thread* self() { return table->self(); }
QUERN_DEVICE bool seeded() { return self()->block->seeded != 0; }
// Atomics and polling loads are places where another thread may run in between.
QUERN_DEVICE void maybe_yield() {
  if (seeded()) table->yield();
}

struct Enlisted : SharedArray {
  explicit Enlisted(u64 size) : SharedArray{size, 0, shared_arrays} { shared_arrays = this; }
};
template <class Site, u64 bytes>
struct SharedSite {
  static Enlisted array;
};
template <class Site, u64 bytes>
Enlisted SharedSite<Site, bytes>::array(bytes);

template <u32... i>
struct Indices {};
template <u32 n, u32... i>
struct MakeIndices : MakeIndices<n - 1, n - 1, i...> {};
template <u32... i>
struct MakeIndices<0, i...> {
  using type = Indices<i...>;
};
template <class... P, u32... i>
QUERN_DEVICE void call_with(void (*body)(P...), void** args, Indices<i...>) {
  body(*static_cast<P*>(args[i])...);
}
template <class... P>
QUERN_DEVICE void call(void (*body)(P...), void** args) {
  call_with(body, args, typename MakeIndices<sizeof...(P)>::type{});
}
template <class... P>
constexpr u32 parameter_count(void (*)(P...)) {
  return sizeof...(P);
}

template <class To, class From>
QUERN_DEVICE To bits_as(const From& from) {
  To to{};
  __builtin_memcpy(&to, &from, sizeof(to) < sizeof(from) ? sizeof(to) : sizeof(from));
  return to;
}
}  // namespace host

// ---- Execution
inline constexpr int kWarp = QUERN_HOST_WARP;
static_assert(kWarp == 32 || kWarp == 64, "QUERN_HOST_WARP is 32 or 64");
QUERN_DEVICE int thread_index() { return static_cast<int>(host::self()->index); }
QUERN_DEVICE int lane() { return static_cast<int>(host::self()->lane); }
QUERN_DEVICE int warp() { return static_cast<int>(host::self()->warp); }
QUERN_DEVICE int block_index(int d) { return static_cast<int>(host::self()->block->index[d]); }
QUERN_DEVICE int block_count(int d) { return static_cast<int>(host::self()->block->count[d]); }
QUERN_DEVICE void sync_block() { host::table->sync_block(); }
QUERN_DEVICE void sync_warp() { host::table->sync_warp(); }
// A warp of 64 represents AMD, which has no named barriers.
#if QUERN_HOST_WARP == 32
#define QUERN_NAMED_BARRIERS 1
QUERN_DEVICE void sync_named(int id, int threads) {
  host::table->sync_named(static_cast<u32>(id), static_cast<u32>(threads));
}
#endif

// ---- Shared memory
QUERN_DEVICE u8* dynamic_shared() { return host::self()->block->dynamic_shared; }
template <class T>
QUERN_DEVICE T* in_shared(T* p) {
  return p;
}

// ---- Warp
template <class T>
QUERN_DEVICE T shuffle(T v, int source) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffle takes 32-bit and 64-bit values");
  return host::bits_as<T>(host::table->shuffle(host::bits_as<u64>(v), static_cast<u32>(source) & (kWarp - 1)));
}
template <class T>
QUERN_DEVICE T shuffle_xor(T v, int mask) {
  return shuffle(v, lane() ^ mask);
}
template <class T>
QUERN_DEVICE T shuffle_up(T v, int delta) {
  return shuffle(v, lane() < delta ? lane() : lane() - delta);
}
QUERN_DEVICE u64 ballot(bool predicate) { return host::table->ballot(predicate); }

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
  const u64 both = static_cast<u64>(high) << 32 | low;
  u32 v = 0;
  for (int i = 0; i < 4; ++i) v |= static_cast<u32>(both >> 8 * (selector >> 4 * i & 7) & 0xff) << 8 * i;
  return v;
}

// ---- Integers
QUERN_DEVICE i64 multiply_wide(i32 a, i32 b) { return static_cast<i64>(a) * b; }

// ---- Memory
QUERN_DEVICE vec16 load16(const void* p) { return *static_cast<const vec16*>(p); }
QUERN_DEVICE vec16 load16_alone(const void* p) { return load16(p); }
QUERN_DEVICE vec16 load16_once(const void* p) { return load16(p); }
QUERN_DEVICE void store16(void* p, const vec16& v) { *static_cast<vec16*>(p) = v; }
QUERN_DEVICE void store16_global(void* p, const vec16& v) { store16(p, v); }
template <class T>
QUERN_DEVICE T load_volatile(const T* p) {
  host::table->yield();  // a loop around this must not keep what it waits for from running
  T v;
  __atomic_load(p, &v, __ATOMIC_ACQUIRE);
  return v;
}
// Relaxed by contract, with fence() where order matters. Stronger here, because ThreadSanitizer does not understand
// fences.
template <class T>
QUERN_DEVICE T atomic_add(T* p, T v) {
  host::maybe_yield();
  return __atomic_fetch_add(p, v, __ATOMIC_ACQ_REL);
}
QUERN_DEVICE u32 atomic_add_ordered(u32* p, u32 v) { return atomic_add(p, v); }
template <>
QUERN_DEVICE f32 atomic_add<f32>(f32* p, f32 v) {
  host::maybe_yield();
  f32 old, sum;
  __atomic_load(p, &old, __ATOMIC_RELAXED);
  do {
    sum = old + v;
  } while (!__atomic_compare_exchange(p, &old, &sum, true, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
  return old;
}
template <class T>
QUERN_DEVICE T atomic_max(T* p, T v) {
  host::maybe_yield();
  T old = __atomic_load_n(p, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(p, &old, old < v ? v : old, true, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
  }
  return old;
}
template <class T>
QUERN_DEVICE T atomic_or(T* p, T v) {
  host::maybe_yield();
  return __atomic_fetch_or(p, v, __ATOMIC_ACQ_REL);
}
template <class T>
QUERN_DEVICE T atomic_cas(T* p, T expected, T v) {
  host::maybe_yield();
  __atomic_compare_exchange_n(p, &expected, v, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
  return expected;
}
QUERN_DEVICE void fence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
QUERN_DEVICE void publish(u32* p, u32 v) { __atomic_store_n(p, v, __ATOMIC_RELEASE); }
QUERN_DEVICE u32 acquire(const u32* p) { return load_volatile(p); }
QUERN_DEVICE void store_message(u64* p, u64 v) { __atomic_store_n(p, v, __ATOMIC_RELAXED); }
QUERN_DEVICE u64 load_message(const u64* p) { return load_volatile(p); }

// ---- Asynchronous copies
namespace host {
template <u32 bytes>
QUERN_DEVICE void copy_async(void* shared, const void* global, bool take) {
  if (seeded()) return table->copy(shared, global, bytes, take);
  if (take) {
    __builtin_memcpy(shared, global, bytes);
  } else {
    __builtin_memset(shared, 0, bytes);
  }
}
}  // namespace host
QUERN_DEVICE void copy_async_16(void* shared, const void* global, bool take) {
  host::copy_async<16>(shared, global, take);
}
QUERN_DEVICE void copy_async_4(void* shared, const void* global, bool take) {
  host::copy_async<4>(shared, global, take);
}
QUERN_DEVICE void copy_async_commit() {
  if (host::seeded()) host::table->copy_commit();
}
template <int n>
QUERN_DEVICE void copy_async_wait() {
  if (host::seeded()) host::table->copy_wait(n);
}

QUERN_DEVICE void prefetch_line(const void*) {}

// ---- Grid: launches are synchronous, and the executor sees whether a programmatic one waits at all
QUERN_DEVICE void wait_for_previous_grid() { host::table->waited_for_grid(); }
QUERN_DEVICE void launch_next_grid() {}
template <class Params>
QUERN_DEVICE void fetch_parameters(const Params&) {}

// ---- Control
QUERN_DEVICE void stay_in_branch() {}
QUERN_DEVICE void needed_here(u32) {}
QUERN_DEVICE bool laid_first(bool condition) { return condition; }

// ---- Maths
QUERN_DEVICE f32 exp2(f32 x) { return __builtin_exp2f(x); }
QUERN_DEVICE f32 log2(f32 x) { return __builtin_log2f(x); }
QUERN_DEVICE f32 rcp(f32 x) { return 1.0f / x; }
QUERN_DEVICE f32 rcp_approx(f32 x) { return rcp(x); }
QUERN_DEVICE f32 rsqrt(f32 x) { return 1.0f / __builtin_sqrtf(x); }
QUERN_DEVICE f32 sqrt(f32 x) { return __builtin_sqrtf(x); }
QUERN_DEVICE f32 fmin(f32 a, f32 b) { return a < b || b != b ? a : b; }
QUERN_DEVICE f32 fmax(f32 a, f32 b) { return a > b || b != b ? a : b; }
QUERN_DEVICE f32 fabs(f32 x) { return __builtin_fabsf(x); }
QUERN_DEVICE f32 fma(f32 a, f32 b, f32 c) { return __builtin_fmaf(a, b, c); }
QUERN_DEVICE f32 infinity() { return __builtin_inff(); }
QUERN_DEVICE f32 nan() { return __builtin_nanf("0x3fffff"); }

// ---- Conversion
QUERN_DEVICE u64 held(u64 v) { return v; }
QUERN_DEVICE u32 bits_of(f32 v) { return host::bits_as<u32>(v); }
QUERN_DEVICE f32 f32_of(u32 v) { return host::bits_as<f32>(v); }
QUERN_DEVICE f32 to_f32(bf16 v) { return f32_of(static_cast<u32>(v.bits) << 16); }
QUERN_DEVICE f32 to_f32(f16 v) {
  const u32 sign = (v.bits & 0x8000u) << 16;
  const u32 magnitude = v.bits & 0x7fffu;
  // The exponent is rebiased by a product, which also makes subnormals right: 2^(127 - 15).
  const u32 finite = bits_of(f32_of(magnitude << 13) * 0x1p112f);
  return f32_of(sign | (magnitude >= 0x7c00u ? 0x7f800000u | magnitude << 13 : finite));
}
QUERN_DEVICE f32 to_f32(f32 v) { return v; }

namespace host {
// Round to nearest even; NaN becomes 0x7fff, as NVIDIA's cvt makes it.
QUERN_DEVICE u16 round_to(f32 v, bf16) {
  const u32 b = bits_of(v);
  return static_cast<u16>(v != v ? 0x7fffu : (b + 0x7fffu + (b >> 16 & 1)) >> 16);
}
QUERN_DEVICE u16 round_to(f32 v, f16) {
  const u32 sign = bits_of(v) >> 16 & 0x8000u;
  const u32 magnitude = bits_of(v) & 0x7fffffffu;
  // Below 2^-14 the sum with 0.5 leaves the subnormal's units in the low bits, rounded by the addition itself.
  const u32 subnormal = bits_of(f32_of(magnitude) + 0.5f) - bits_of(0.5f);
  const u32 normal = (magnitude - (112u << 23) + 0xfffu + (magnitude >> 13 & 1)) >> 13;
  const u32 finite = magnitude < 113u << 23 ? subnormal : normal;
  return static_cast<u16>(magnitude > 0x7f800000u ? 0x7fffu : sign | (magnitude >= 143u << 23 ? 0x7c00u : finite));
}
}  // namespace host
// from_f32<f32, f16, bf16>; the fp8 kinds are in convert.cuh.
template <class T>
QUERN_DEVICE T from_f32(f32 v) {
  return T{host::round_to(v, T{})};
}
template <>
QUERN_DEVICE f32 from_f32<f32>(f32 v) {
  return v;
}
template <class T>
QUERN_DEVICE u32 pack(f32 lo, f32 hi) {
  return from_f32<T>(lo).bits | static_cast<u32>(from_f32<T>(hi).bits) << 16;
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

}  // namespace q

#include "common/portable/host_tile.cuh"

extern "C" QUERN_HOST_EXPORT inline unsigned quern_host_bind(unsigned abi, const q::host::Table* table,
                                                             q::host::Module* module) {
  if (abi == q::host::kAbi) {
    q::host::table = table;
    module->warp = q::kWarp;
    module->shared = q::host::shared_arrays;
  }
  return q::host::kAbi;
}
