// WarpgroupSums on NVIDIA's GPUs: element i is the kernel's register quern_warpgroup<kFirst + i / 32>_<i % 32>.
// Included by warpgroup_sums.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/registers/warpgroup_sums_text_cuda.cuh"
#include "common/sm90/warpgroup.cuh"

namespace q {

template <class T>
struct PairText;
template <>
struct PairText<f16> {
  static constexpr char kind[] = "f16x2";
};
template <>
struct PairText<bf16> {
  static constexpr char kind[] = "bf16x2";
};

template <int kFirst, int kCount>
class WarpgroupSums {
 public:
  static constexpr int kElements = kCount, kNumber = kFirst;

  QUERN_DEVICE WarpgroupSums() { declare<0>(); }
  WarpgroupSums(const WarpgroupSums&) = delete;
  WarpgroupSums& operator=(const WarpgroupSums&) = delete;

  template <class A, class B, Major a_major, Major b_major, int kUsed = kCount>
  QUERN_DEVICE void multiply(u64 a, u64 b, bool accumulate) {
    static_assert(kUsed <= kCount);
    check_wgmma<A, B, a_major, b_major, kUsed>();
#define QUERN_PRODUCT(count, n, registers)                                                                          \
  if constexpr (kUsed == count) {                                                                                   \
    asm volatile(                                                                                                   \
        "{.reg .pred p;\nsetp.ne.b32 p, %2, 0;\n"                                                                   \
        "wgmma.mma_async.sync.aligned.m64n" n "%3 {" registers "}, %0, %1, p%4;}" ::"l"(a),                         \
        "l"(b), "r"(static_cast<int>(accumulate)), "C"(WgmmaText<A, B>::kind),                                      \
        "C"(WgmmaTail<A, a_major, b_major>::both), "n"(kFirst), "n"(kFirst + 1), "n"(kFirst + 2), "n"(kFirst + 3)); \
  } else
    QUERN_EACH_COUNT(QUERN_PRODUCT) static_assert(kUsed < 0, "there is no such product");
#undef QUERN_PRODUCT
  }
  template <class A, class B, Major b_major, int b_bytes, int kFrom = 0, int kUsed = kCount, bool kFresh = false,
            int steps>
  QUERN_DEVICE void multiply_steps(const u32 (&a)[steps][4], u64 b) {
    static_assert(kFrom % 32 == 0 && kFrom + kUsed <= kCount);
    check_wgmma<A, B, Major::k, b_major, kUsed>();
    add_product<kFrom / 32, A, B, b_major, kUsed, kFresh>(a[0], b);
    QUERN_UNROLL for (u32 i = 1; i < steps; ++i) {
      add_product<kFrom / 32, A, B, b_major, kUsed, false>(a[i], advanced(b, i * b_bytes));
    }
  }
  QUERN_DEVICE void clear() { clear_from<0>(); }
  QUERN_DEVICE void integers_to_f32() { convert_from<0>(); }
  QUERN_DEVICE void scale_rows(const f32 (&rows)[2]) { scale_from<0>(rows); }
  template <int first, class Part>
  QUERN_DEVICE void add(const Part& part) {
    add_some<first, Part::kElements>(part);
  }
  template <int first, int count, class Part>
  QUERN_DEVICE void add_some(const Part&) {
    static_assert(first % 32 == 0 && first + count <= kCount && count <= Part::kElements);
    add_from<first / 32, 0, count, Part>();
  }
  template <int first, class Part, class ScaleOf>
  QUERN_DEVICE void add_scaled(const Part&, const ScaleOf& scale_of) {
    static_assert(first % 32 == 0 && first + Part::kElements <= kCount);
    add_scaled_from<first / 32, 0, Part>(scale_of);
  }
  template <int first>
  QUERN_DEVICE void read(f32 (&x)[2]) const {
    read_two<first>(x);
  }
  template <int first>
  QUERN_DEVICE void read(f32 (&x)[8]) const {
    read_eight<first>(x);
  }
  QUERN_DEVICE void read_all(f32 (&x)[kCount]) const { read_from<0>(x); }
  template <int first>
  QUERN_DEVICE void write(const f32 (&x)[8]) {
    static_assert(first % 8 == 0);
    constexpr int i = first % 32;
#define QUERN_WRITE(element, from) "mov.f32 quern_warpgroup%0_%" #element ", %" #from ";\n"
    asm volatile(QUERN_WRITE(1, 9) QUERN_WRITE(2, 10) QUERN_WRITE(3, 11) QUERN_WRITE(4, 12) QUERN_WRITE(5, 13)
                     QUERN_WRITE(6, 14) QUERN_WRITE(7, 15) QUERN_WRITE(8, 16)::"n"(kFirst + first / 32),
                 "n"(i), "n"(i + 1), "n"(i + 2), "n"(i + 3), "n"(i + 4), "n"(i + 5), "n"(i + 6), "n"(i + 7), "f"(x[0]),
                 "f"(x[1]), "f"(x[2]), "f"(x[3]), "f"(x[4]), "f"(x[5]), "f"(x[6]), "f"(x[7]));
#undef QUERN_WRITE
  }

  template <int group>
  QUERN_DEVICE void rotate() {
    constexpr int kLeft = kCount - group * 32;
#define QUERN_FROM(to, from) "mov.f32 " QUERN_ELEMENT("0", to) ", " QUERN_ELEMENT("0", from) ";\n"
#define QUERN_EIGHT_ON(t0, t1, t2, t3, t4, t5, t6, t7, f0, f1, f2, f3, f4, f5, f6, f7) \
  QUERN_FROM(t0, f0)                                                                   \
  QUERN_FROM(t1, f1)                                                                   \
  QUERN_FROM(t2, f2) QUERN_FROM(t3, f3) QUERN_FROM(t4, f4) QUERN_FROM(t5, f5) QUERN_FROM(t6, f6) QUERN_FROM(t7, f7)
#define QUERN_SAVE(i) "mov.f32 t" #i ", " QUERN_ELEMENT("0", i) ";\n"
#define QUERN_BACK(i, t) "mov.f32 " QUERN_ELEMENT("0", i) ", t" #t ";\n"
#define QUERN_SECOND QUERN_EIGHT_ON(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
#define QUERN_THIRD QUERN_EIGHT_ON(8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23)
#define QUERN_FOURTH QUERN_EIGHT_ON(16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31)
#define QUERN_LAST(i0, i1, i2, i3, i4, i5, i6, i7) \
  QUERN_BACK(i0, 0)                                \
  QUERN_BACK(i1, 1)                                \
  QUERN_BACK(i2, 2) QUERN_BACK(i3, 3) QUERN_BACK(i4, 4) QUERN_BACK(i5, 5) QUERN_BACK(i6, 6) QUERN_BACK(i7, 7)
#define QUERN_TURN(others) \
  asm volatile("{.reg .f32 t<8>;\n" QUERN_DO_8(QUERN_SAVE) QUERN_SECOND others "}" ::"n"(kFirst + group))
    if constexpr (kLeft >= 32) {
      QUERN_TURN(QUERN_THIRD QUERN_FOURTH QUERN_LAST(24, 25, 26, 27, 28, 29, 30, 31));
    } else if constexpr (kLeft == 24) {
      QUERN_TURN(QUERN_THIRD QUERN_LAST(16, 17, 18, 19, 20, 21, 22, 23));
    } else {
      static_assert(kLeft == 16);
      QUERN_TURN(QUERN_LAST(8, 9, 10, 11, 12, 13, 14, 15));
    }
#undef QUERN_TURN
#undef QUERN_LAST
#undef QUERN_FOURTH
#undef QUERN_THIRD
#undef QUERN_SECOND
#undef QUERN_BACK
#undef QUERN_SAVE
#undef QUERN_EIGHT_ON
#undef QUERN_FROM
  }

  // As many eights as the group has.
#define QUERN_OF_GROUP(before, DO, ...)                                   \
  constexpr int kLeft = kCount - group * 32;                              \
  if constexpr (kLeft >= 32) {                                            \
    asm volatile(before QUERN_EIGHTS_4(DO) "}" ::__VA_ARGS__ : "memory"); \
  } else if constexpr (kLeft == 24) {                                     \
    asm volatile(before QUERN_EIGHTS_3(DO) "}" ::__VA_ARGS__ : "memory"); \
  } else {                                                                \
    static_assert(kLeft == 16);                                           \
    asm volatile(before QUERN_EIGHTS_2(DO) "}" ::__VA_ARGS__ : "memory"); \
  }
  template <int group>
  QUERN_DEVICE void scale(const f32* columns) {
    QUERN_OF_GROUP(QUERN_COLUMNS, QUERN_BY_COLUMNS, "n"(kFirst + group), "r"(shared_address(columns)))
  }
  template <int group>
  QUERN_DEVICE void scale(const f32* columns, const f32 (&rows)[2]) {
    QUERN_OF_GROUP(QUERN_COLUMNS, QUERN_BY_BOTH, "n"(kFirst + group), "r"(shared_address(columns)), "f"(rows[0]),
                   "f"(rows[1]))
  }
  template <class T, int group>
  QUERN_DEVICE void store(u8* box) const {
    QUERN_OF_GROUP(QUERN_PLACE, QUERN_STORE, "n"(kFirst + group), "C"(PairText<T>::kind), "r"(shared_address(box)))
  }
#undef QUERN_OF_GROUP

 private:
  template <int first>
  static QUERN_DEVICE void read_two(f32* x) {
    static_assert(first % 2 == 0);
    asm volatile("mov.f32 %0, quern_warpgroup%2_%3;\nmov.f32 %1, quern_warpgroup%2_%4;"
                 : "=f"(x[0]), "=f"(x[1])
                 : "n"(kFirst + first / 32), "n"(first % 32), "n"(first % 32 + 1));
  }
  template <int first>
  static QUERN_DEVICE void read_eight(f32* x) {
    static_assert(first % 8 == 0);
    constexpr int i = first % 32;
#define QUERN_READ(to, element) "mov.f32 %" #to ", quern_warpgroup%8_%" #element ";\n"
    asm volatile(QUERN_READ(0, 9) QUERN_READ(1, 10) QUERN_READ(2, 11) QUERN_READ(3, 12) QUERN_READ(4, 13)
                     QUERN_READ(5, 14) QUERN_READ(6, 15) QUERN_READ(7, 16)
                 : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3]), "=f"(x[4]), "=f"(x[5]), "=f"(x[6]), "=f"(x[7])
                 : "n"(kFirst + first / 32), "n"(i), "n"(i + 1), "n"(i + 2), "n"(i + 3), "n"(i + 4), "n"(i + 5),
                   "n"(i + 6), "n"(i + 7));
#undef QUERN_READ
  }
  template <int first>
  static QUERN_DEVICE void read_from(f32 (&x)[kCount]) {
    if constexpr (first + 8 <= kCount) {
      read_eight<first>(x + first);
    } else {
      read_two<first>(x + first);
      read_two<first + 2>(x + first + 2);
    }
    if constexpr (first + 8 < kCount) read_from<first + 8>(x);
  }
  template <int first>
  static QUERN_DEVICE void declare() {
    // Of no type: sums may be f32 or s32.
    asm volatile(".reg .b32 quern_warpgroup%0_<32>;" ::"n"(kFirst + first / 32));
    if constexpr (first + 32 < kCount) declare<first + 32>();
  }
  template <int group, class A, class B, Major b_major, int kUsed, bool kFresh>
  static QUERN_DEVICE void add_product(const u32 (&a)[4], u64 b) {
#define QUERN_STEP(count, n, registers)                                                                           \
  if constexpr (kUsed == count) {                                                                                 \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" n "%3 {" registers "}, {%1,%2,%9,%10}, %0, %11%4;" ::"l"(b), \
                 "r"(a[0]), "r"(a[1]), "C"(WgmmaText<A, B>::kind), "C"(WgmmaTail<A, Major::k, b_major>::last),    \
                 "n"(kFirst + group), "n"(kFirst + group + 1), "n"(kFirst + group + 2), "n"(kFirst + group + 3),  \
                 "r"(a[2]), "r"(a[3]), "n"(kFresh ? 0 : 1));                                                      \
  } else
    QUERN_EACH_COUNT(QUERN_STEP) static_assert(kUsed < 0, "there is no such product");
#undef QUERN_STEP
  }
  template <int group>
  static QUERN_DEVICE void scale_from(const f32 (&rows)[2]) {
    constexpr int kLeft = kCount - group * 32;
#define QUERN_BY_ROW(i, row) "mul.f32 " QUERN_ELEMENT("0", i) ", " QUERN_ELEMENT("0", i) ", %" row ";\n"
#define QUERN_SCALE(count)                                                                           \
  if constexpr (kLeft == count || (count == 32 && kLeft > 32)) {                                     \
    asm volatile(QUERN_ROWS_##count(QUERN_BY_ROW)::"n"(kFirst + group), "f"(rows[0]), "f"(rows[1])); \
  } else
    QUERN_SCALE(4)
    QUERN_SCALE(8)
    QUERN_SCALE(12)
    QUERN_SCALE(16)
    QUERN_SCALE(20)
    QUERN_SCALE(24)
    QUERN_SCALE(28)
    QUERN_SCALE(32) static_assert(kLeft < 0, "elements come by fours");
#undef QUERN_SCALE
#undef QUERN_BY_ROW
    if constexpr (kLeft > 32) scale_from<group + 1>(rows);
  }
  // Only the elements that exist in a group of so many.
#define QUERN_STATEMENTS(count, DO, ...)        \
  if constexpr (count >= 32) {                  \
    asm volatile(QUERN_DO_32(DO)::__VA_ARGS__); \
  } else if constexpr (count == 28) {           \
    asm volatile(QUERN_DO_28(DO)::__VA_ARGS__); \
  } else if constexpr (count == 24) {           \
    asm volatile(QUERN_DO_24(DO)::__VA_ARGS__); \
  } else if constexpr (count == 20) {           \
    asm volatile(QUERN_DO_20(DO)::__VA_ARGS__); \
  } else if constexpr (count == 16) {           \
    asm volatile(QUERN_DO_16(DO)::__VA_ARGS__); \
  } else if constexpr (count == 12) {           \
    asm volatile(QUERN_DO_12(DO)::__VA_ARGS__); \
  } else if constexpr (count == 8) {            \
    asm volatile(QUERN_DO_8(DO)::__VA_ARGS__);  \
  } else {                                      \
    static_assert(count == 4);                  \
    asm volatile(QUERN_DO_4(DO)::__VA_ARGS__);  \
  }
  template <int first>
  static QUERN_DEVICE void clear_from() {
#define QUERN_ZERO(i) "mov.f32 " QUERN_ELEMENT("0", i) ", 0f00000000;\n"
    QUERN_STATEMENTS(kCount - first, QUERN_ZERO, "n"(kFirst + first / 32))
#undef QUERN_ZERO
    if constexpr (first + 32 < kCount) clear_from<first + 32>();
  }
  template <int first>
  static QUERN_DEVICE void convert_from() {
#define QUERN_CONVERT(i) "cvt.rn.f32.s32 " QUERN_ELEMENT("0", i) ", " QUERN_ELEMENT("0", i) ";\n"
    QUERN_STATEMENTS(kCount - first, QUERN_CONVERT, "n"(kFirst + first / 32))
#undef QUERN_CONVERT
    if constexpr (first + 32 < kCount) convert_from<first + 32>();
  }
  template <int group, int first, int count, class Part>
  static QUERN_DEVICE void add_from() {
#define QUERN_ADD(i) "add.f32 " QUERN_ELEMENT("0", i) ", " QUERN_ELEMENT("0", i) ", " QUERN_ELEMENT("1", i) ";\n"
    QUERN_STATEMENTS(count - first, QUERN_ADD, "n"(kFirst + group), "n"(Part::kNumber + first / 32))
#undef QUERN_ADD
    if constexpr (first + 32 < count) add_from<group + 1, first + 32, count, Part>();
  }
#undef QUERN_STATEMENTS
  // Elements with the same scale follow one another, and instructions keep that order (jit/operand_reuse.h).
  template <int group, int first, class Part, class ScaleOf>
  static QUERN_DEVICE void add_scaled_from(const ScaleOf& scale_of) {
    constexpr int kLeft = Part::kElements - first, kSize = kLeft < 32 ? kLeft : 32;
#define QUERN_FMA(i, scale) \
  "fma.rn.f32 " QUERN_ELEMENT("0", i) ", " QUERN_ELEMENT("1", i) ", %" scale ", " QUERN_ELEMENT("0", i) ";\n"
#define QUERN_ADD_SCALED(count)                                                                                        \
  asm volatile(QUERN_UPPER_##count(QUERN_FMA, "2", "4") QUERN_LOWER_##count(QUERN_FMA, "3", "5")::"n"(kFirst + group), \
               "n"(Part::kNumber + first / 32), "f"(scale_of(first, 0)), "f"(scale_of(first, 1)),                      \
               "f"(scale_of(first + kSize / 2, 0)), "f"(scale_of(first + kSize / 2, 1)))
    if constexpr (kSize == 32) {
      QUERN_ADD_SCALED(32);
    } else if constexpr (kSize == 16) {
      QUERN_ADD_SCALED(16);
    } else {
      static_assert(kSize == 8);
      QUERN_ADD_SCALED(8);
    }
#undef QUERN_ADD_SCALED
#undef QUERN_FMA
    if constexpr (kLeft > 32) add_scaled_from<group + 1, first + 32, Part>(scale_of);
  }
};

}  // namespace q

#undef QUERN_ELEMENT
#undef QUERN_FOUR
#undef QUERN_FIRST_4
#undef QUERN_FIRST_8
#undef QUERN_FIRST_12
#undef QUERN_FIRST_16
#undef QUERN_FIRST_20
#undef QUERN_FIRST_24
#undef QUERN_FIRST_28
#undef QUERN_FIRST_32
#undef QUERN_EACH_COUNT
#undef QUERN_DO_4
#undef QUERN_DO_8
#undef QUERN_DO_12
#undef QUERN_DO_16
#undef QUERN_DO_20
#undef QUERN_DO_24
#undef QUERN_DO_28
#undef QUERN_DO_32
#undef QUERN_ROWS_4
#undef QUERN_ROWS_8
#undef QUERN_ROWS_12
#undef QUERN_ROWS_16
#undef QUERN_ROWS_20
#undef QUERN_ROWS_24
#undef QUERN_ROWS_28
#undef QUERN_ROWS_32
#undef QUERN_UPPER_8
#undef QUERN_LOWER_8
#undef QUERN_UPPER_16
#undef QUERN_LOWER_16
#undef QUERN_UPPER_32
#undef QUERN_LOWER_32
#undef QUERN_PLACE
#undef QUERN_PACK
#undef QUERN_STORE
#undef QUERN_COLUMNS
#undef QUERN_LOAD
#undef QUERN_TIMES
#undef QUERN_BY_COLUMNS
#undef QUERN_FACTOR
#undef QUERN_BY_BOTH
#undef QUERN_EIGHTS_2
#undef QUERN_EIGHTS_3
#undef QUERN_EIGHTS_4
