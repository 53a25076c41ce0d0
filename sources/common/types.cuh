// The scalar and vector types that kernels are written in. Own typedefs, because no kernel compiler here is given a
// single include path.
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Stands before a function that both the library and the kernels call. NVRTC and hipRTC take unmarked functions for
// host code and refuse them.
#if defined(__CUDACC__) || defined(__HIP__)
#define QUERN_SHARED_CODE __host__ __device__
#else
#define QUERN_SHARED_CODE
#endif

namespace q {

using i8 = signed char;
using u8 = unsigned char;
using i16 = short;
using u16 = unsigned short;
using i32 = int;
using u32 = unsigned int;
using i64 = long long;
using u64 = unsigned long long;
using f32 = float;
using f64 = double;

// Storage only: bits, no arithmetic. Arithmetic is done in f32, conversions are in the backend and convert.cuh.
struct f16 {
  u16 bits;
};
struct bf16 {
  u16 bits;
};
struct e4m3 {  // OCP: bias 7, no infinity, NaN 0x7f and 0xff
  u8 bits;
};
struct e5m2 {  // OCP: bias 15, with infinities
  u8 bits;
};

template <class T>
inline constexpr bool kIsBf16 = false;
template <>
inline constexpr bool kIsBf16<bf16> = true;

struct f32x2 {
  f32 x, y;
};

// The unit of memory traffic.
struct alignas(16) vec16 {
  u32 x[4];
};

// A value as a type, so that a generic lambda can receive it at compile time.
template <auto v>
struct Constant {
  static constexpr auto value = v;
};

}  // namespace q
