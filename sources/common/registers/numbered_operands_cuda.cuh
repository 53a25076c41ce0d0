// NumberedOperands and WideOperands on NVIDIA's GPUs: word i of operand n is the kernel's register
// quern_operand<n>_<i>; word i of wide operand n is quern_wide<n>_<i>, of which the first four are the f16 operand of
// the first half of the tensor-core step's k, the others that of the second half. Included by numbered_operands.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/kernel.cuh"

// sm_89 and sm_100 and later multiply 8-bit operands by mma.sync. sm_90 would widen them to f16 in every product (only
// its wgmma is native), and earlier targets cannot. There they are widened once, after loading.
#if __CUDA_ARCH__ == 890 || __CUDA_ARCH__ >= 1000
#define QUERN_FP8_PRODUCTS 1
#endif

#define QUERN_WORDS(n) "{quern_operand%" n "_0,quern_operand%" n "_1,quern_operand%" n "_2,quern_operand%" n "_3}"

namespace q {

template <int n, int end>
QUERN_DEVICE void declare_operands() {
  asm volatile(".reg .b32 quern_operand%0_<4>;" ::"n"(n));
  if constexpr (n + 1 < end) declare_operands<n + 1, end>();
}
template <int n, int end>
QUERN_DEVICE void declare_wide() {
  asm volatile(".reg .b32 quern_wide%0_<8>;" ::"n"(n));
  if constexpr (n + 1 < end) declare_wide<n + 1, end>();
}

template <class Operand>
struct ElementOf;
template <class T>
struct ElementOf<OperandA<T>> {
  using Type = T;
  static constexpr bool kOfA = true;
};
template <class T>
struct ElementOf<OperandB<T>> {
  using Type = T;
  static constexpr bool kOfA = false;
};
// The kinds of operands that products distinguish.
template <class T>
inline constexpr int format_of = 0;
template <>
inline constexpr int format_of<f16> = 1;
template <>
inline constexpr int format_of<bf16> = 2;
template <>
inline constexpr int format_of<f32> = 3;
template <>
inline constexpr int format_of<e4m3> = 4;
template <>
inline constexpr int format_of<e5m2> = 5;
inline constexpr int kWideFormat = 6;

#ifdef QUERN_FP8_PRODUCTS
template <class Operand>
inline constexpr bool kWidens = false;
#else
template <class Operand>
inline constexpr bool kWidens = sizeof(typename ElementOf<Operand>::Type) == 1;
#endif

#if __CUDA_ARCH__ < 890
// Widens four 8-bit codes to two pairs of f16, exactly.
QUERN_DEVICE void widen_four(e5m2, u32 codes, u32& low, u32& high) {  // the upper byte of an f16
  low = __byte_perm(codes, 0, 0x1404);
  high = __byte_perm(codes, 0, 0x3424);
}
QUERN_DEVICE u32 widen_two_e4m3(u32 codes) {  // each in the upper byte of its half
  // One bit to the right the code is an f16 with an exponent too small by 8; 480, which no finite code makes, is NaN.
  u32 v, is_nan;
  const u32 small = (codes & 0x80008000u) | (codes & 0x7f007f00u) >> 1;
  asm("mul.f16x2 %0, %1, %2;" : "=r"(v) : "r"(small), "r"(0x5c005c00u));
  asm("{ .reg .b32 m;\n abs.f16x2 m, %1;\n set.eq.u32.f16x2 %0, m, %2; }" : "=r"(is_nan) : "r"(v), "r"(0x5f805f80u));
  return v | is_nan;
}
QUERN_DEVICE void widen_four(e4m3, u32 codes, u32& low, u32& high) {
  low = widen_two_e4m3(__byte_perm(codes, 0, 0x1404));
  high = widen_two_e4m3(__byte_perm(codes, 0, 0x3424));
}
#endif

template <class Operand, int first, int count>
class NumberedOperands {
 public:
  using Element = typename ElementOf<Operand>::Type;
  static constexpr int kFirst = first, kFormat = format_of<Element>;

  QUERN_DEVICE NumberedOperands() { declare_operands<first, first + count>(); }
  NumberedOperands(const NumberedOperands&) = delete;
  NumberedOperands& operator=(const NumberedOperands&) = delete;

  template <int n, class Reader, class... Place>
  QUERN_DEVICE void load(const Reader& from, Place... place) {
    const u32 at = from.address(place...);
    if constexpr (Reader::kReads == Reads::words) {
      asm volatile(
          "ld.shared.b32 quern_operand%0_0, [%1];\nld.shared.b32 quern_operand%0_1, [%1+%2];\n"
          "ld.shared.b32 quern_operand%0_2, [%1+%3];\nld.shared.b32 quern_operand%0_3, [%1+%4];" ::"n"(first + n),
          "r"(at), "n"(Reader::word(1)), "n"(Reader::word(2)), "n"(Reader::word(3)));
    } else if constexpr (Reader::kReads == Reads::matrices_transposed) {
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 " QUERN_WORDS("0") ", [%1];" ::"n"(first + n),
                   "r"(at));
    } else {
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 " QUERN_WORDS("0") ", [%1];" ::"n"(first + n), "r"(at));
    }
  }
  template <int n>
  QUERN_DEVICE void prepare() {
#define QUERN_ROUND(i) "cvt.rna.tf32.f32 quern_operand%0_" #i ", quern_operand%0_" #i ";\n"
    if constexpr (sizeof(Element) == 4)
      asm volatile(QUERN_ROUND(0) QUERN_ROUND(1) QUERN_ROUND(2) QUERN_ROUND(3)::"n"(first + n));
#undef QUERN_ROUND
  }
};

template <class Operand, int first, int count>
class WideOperands {
 public:
  static constexpr int kFirst = first, kFormat = kWideFormat;

  QUERN_DEVICE WideOperands() { declare_wide<first, first + count>(); }
  WideOperands(const WideOperands&) = delete;
  WideOperands& operator=(const WideOperands&) = delete;

  // A lane's four neighbouring k become two of the first eight and two of the last eight of a tensor-core step of 16.
  // Both operands are permuted in the same way, so the same k meet.
  template <int m, int n, class From>
  QUERN_DEVICE void widen(const From&) {
    if constexpr (ElementOf<Operand>::kOfA) {
      widen_words<first + m, From::kFirst + n, 0, 2, 1, 3, 4, 6, 5, 7>();
    } else {
      widen_words<first + m, From::kFirst + n, 0, 1, 4, 5, 2, 3, 6, 7>();
    }
  }

 private:
  // Where the first two and the last two codes of each word go.
  template <int m, int n, int low0, int high0, int low1, int high1, int low2, int high2, int low3, int high3>
  static QUERN_DEVICE void widen_words() {
    using T = typename ElementOf<Operand>::Type;
#if __CUDA_ARCH__ >= 890
    // The conversion reads either half of a register, so nothing is shifted.
#define QUERN_WIDEN_WORD(T, word, low, high)                                                   \
  "mov.b32 {first,second}, quern_operand%1_" word ";\ncvt.rn.f16x2." T "x2 quern_wide%0_%" low \
  ", first;\n"                                                                                 \
  "cvt.rn.f16x2." T "x2 quern_wide%0_%" high ", second;\n"
#define QUERN_WIDEN(T)                                                                                             \
  asm volatile("{.reg .b16 first, second;\n" QUERN_WIDEN_WORD(T, "0", "2", "3") QUERN_WIDEN_WORD(T, "1", "4", "5") \
                   QUERN_WIDEN_WORD(T, "2", "6", "7") QUERN_WIDEN_WORD(T, "3", "8", "9") "}" ::"n"(m),             \
               "n"(n), "n"(low0), "n"(high0), "n"(low1), "n"(high1), "n"(low2), "n"(high2), "n"(low3), "n"(high3))
    if constexpr (format_of<T> == format_of<e4m3>) {
      QUERN_WIDEN("e4m3");
    } else {
      QUERN_WIDEN("e5m2");
    }
#undef QUERN_WIDEN
#undef QUERN_WIDEN_WORD
#else
    widen_word<T, m, n, 0, low0, high0>();
    widen_word<T, m, n, 1, low1, high1>();
    widen_word<T, m, n, 2, low2, high2>();
    widen_word<T, m, n, 3, low3, high3>();
#endif
  }
  template <class T, int m, int n, int word, int low, int high>
  static QUERN_DEVICE void widen_word() {
    u32 codes, of_low, of_high;
    asm volatile("mov.b32 %0, quern_operand%1_%2;" : "=r"(codes) : "n"(n), "n"(word));
    widen_four(T{}, codes, of_low, of_high);
    asm volatile("mov.b32 quern_wide%0_%1, %3;\nmov.b32 quern_wide%0_%2, %4;" ::"n"(m), "n"(low), "n"(high),
                 "r"(of_low), "r"(of_high));
  }
};

}  // namespace q

#undef QUERN_WORDS
