// WarpgroupSums on NVIDIA's GPUs: element i is the kernel's register quern_warpgroup<kFirst + i / 32>_<i % 32>.
// Included by warpgroup_sums.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/sm90/warpgroup.cuh"

// The text of the registers of the group whose number is operand `group` of the statement.
#define QUERN_ELEMENT(group, i) "quern_warpgroup%" group "_" #i
#define QUERN_FOUR(group, i, j, k, l) \
  QUERN_ELEMENT(group, i) "," QUERN_ELEMENT(group, j) "," QUERN_ELEMENT(group, k) "," QUERN_ELEMENT(group, l)
#define QUERN_FIRST_4(group) QUERN_FOUR(group, 0, 1, 2, 3)
#define QUERN_FIRST_8(group) QUERN_FIRST_4(group) "," QUERN_FOUR(group, 4, 5, 6, 7)
#define QUERN_FIRST_12(group) QUERN_FIRST_8(group) "," QUERN_FOUR(group, 8, 9, 10, 11)
#define QUERN_FIRST_16(group) QUERN_FIRST_12(group) "," QUERN_FOUR(group, 12, 13, 14, 15)
#define QUERN_FIRST_20(group) QUERN_FIRST_16(group) "," QUERN_FOUR(group, 16, 17, 18, 19)
#define QUERN_FIRST_24(group) QUERN_FIRST_20(group) "," QUERN_FOUR(group, 20, 21, 22, 23)
#define QUERN_FIRST_28(group) QUERN_FIRST_24(group) "," QUERN_FOUR(group, 24, 25, 26, 27)
#define QUERN_FIRST_32(group) QUERN_FIRST_28(group) "," QUERN_FOUR(group, 28, 29, 30, 31)
// For each count of elements: the n of wgmma, and the text of all registers, of the groups whose numbers are operands 5
// to 8.
#define QUERN_EACH_COUNT(DO)                                                                                  \
  DO(8, "16", QUERN_FIRST_8("5"))                                                                             \
  DO(12, "24", QUERN_FIRST_12("5"))                                                                           \
  DO(16, "32", QUERN_FIRST_16("5"))                                                                           \
  DO(20, "40", QUERN_FIRST_20("5"))                                                                           \
  DO(24, "48", QUERN_FIRST_24("5"))                                                                           \
  DO(28, "56", QUERN_FIRST_28("5"))                                                                           \
  DO(32, "64", QUERN_FIRST_32("5"))                                                                           \
  DO(36, "72", QUERN_FIRST_32("5") "," QUERN_FIRST_4("6"))                                                    \
  DO(40, "80", QUERN_FIRST_32("5") "," QUERN_FIRST_8("6"))                                                    \
  DO(44, "88", QUERN_FIRST_32("5") "," QUERN_FIRST_12("6"))                                                   \
  DO(48, "96", QUERN_FIRST_32("5") "," QUERN_FIRST_16("6"))                                                   \
  DO(52, "104", QUERN_FIRST_32("5") "," QUERN_FIRST_20("6"))                                                  \
  DO(56, "112", QUERN_FIRST_32("5") "," QUERN_FIRST_24("6"))                                                  \
  DO(60, "120", QUERN_FIRST_32("5") "," QUERN_FIRST_28("6"))                                                  \
  DO(64, "128", QUERN_FIRST_32("5") "," QUERN_FIRST_32("6"))                                                  \
  DO(68, "136", QUERN_FIRST_32("5") "," QUERN_FIRST_32("6") "," QUERN_FIRST_4("7"))                           \
  DO(72, "144", QUERN_FIRST_32("5") "," QUERN_FIRST_32("6") "," QUERN_FIRST_8("7"))                           \
  DO(76, "152", QUERN_FIRST_32("5") "," QUERN_FIRST_32("6") "," QUERN_FIRST_12("7"))                          \
  DO(80, "160", QUERN_FIRST_32("5") "," QUERN_FIRST_32("6") "," QUERN_FIRST_16("7"))                          \
  DO(84, "168", QUERN_FIRST_32("5") "," QUERN_FIRST_32("6") "," QUERN_FIRST_20("7"))                          \
  DO(88, "176", QUERN_FIRST_32("5") "," QUERN_FIRST_32("6") "," QUERN_FIRST_24("7"))                          \
  DO(92, "184", QUERN_FIRST_32("5") "," QUERN_FIRST_32("6") "," QUERN_FIRST_28("7"))                          \
  DO(96, "192", QUERN_FIRST_32("5") "," QUERN_FIRST_32("6") "," QUERN_FIRST_32("7"))                          \
  DO(100, "200", QUERN_FIRST_32("5") "," QUERN_FIRST_32("6") "," QUERN_FIRST_32("7") "," QUERN_FIRST_4("8"))  \
  DO(104, "208", QUERN_FIRST_32("5") "," QUERN_FIRST_32("6") "," QUERN_FIRST_32("7") "," QUERN_FIRST_8("8"))  \
  DO(108, "216", QUERN_FIRST_32("5") "," QUERN_FIRST_32("6") "," QUERN_FIRST_32("7") "," QUERN_FIRST_12("8")) \
  DO(112, "224", QUERN_FIRST_32("5") "," QUERN_FIRST_32("6") "," QUERN_FIRST_32("7") "," QUERN_FIRST_16("8")) \
  DO(116, "232", QUERN_FIRST_32("5") "," QUERN_FIRST_32("6") "," QUERN_FIRST_32("7") "," QUERN_FIRST_20("8")) \
  DO(120, "240", QUERN_FIRST_32("5") "," QUERN_FIRST_32("6") "," QUERN_FIRST_32("7") "," QUERN_FIRST_24("8")) \
  DO(124, "248", QUERN_FIRST_32("5") "," QUERN_FIRST_32("6") "," QUERN_FIRST_32("7") "," QUERN_FIRST_28("8")) \
  DO(128, "256", QUERN_FIRST_32("5") "," QUERN_FIRST_32("6") "," QUERN_FIRST_32("7") "," QUERN_FIRST_32("8"))
#define QUERN_DO_4(DO) DO(0) DO(1) DO(2) DO(3)
#define QUERN_DO_8(DO) QUERN_DO_4(DO) DO(4) DO(5) DO(6) DO(7)
#define QUERN_DO_12(DO) QUERN_DO_8(DO) DO(8) DO(9) DO(10) DO(11)
#define QUERN_DO_16(DO) QUERN_DO_12(DO) DO(12) DO(13) DO(14) DO(15)
#define QUERN_DO_20(DO) QUERN_DO_16(DO) DO(16) DO(17) DO(18) DO(19)
#define QUERN_DO_24(DO) QUERN_DO_20(DO) DO(20) DO(21) DO(22) DO(23)
#define QUERN_DO_28(DO) QUERN_DO_24(DO) DO(24) DO(25) DO(26) DO(27)
#define QUERN_DO_32(DO) QUERN_DO_28(DO) DO(28) DO(29) DO(30) DO(31)
// Of a group of so many elements, those of a thread's upper row and of its lower row, first half and second half.
#define QUERN_UPPER_8(DO, first, second) DO(0, first) DO(1, first) DO(4, second) DO(5, second)
#define QUERN_LOWER_8(DO, first, second) DO(2, first) DO(3, first) DO(6, second) DO(7, second)
#define QUERN_UPPER_16(DO, first, second) \
  QUERN_UPPER_8(DO, first, first) DO(8, second) DO(9, second) DO(12, second) DO(13, second)
#define QUERN_LOWER_16(DO, first, second) \
  QUERN_LOWER_8(DO, first, first) DO(10, second) DO(11, second) DO(14, second) DO(15, second)
#define QUERN_UPPER_32(DO, first, second) \
  QUERN_UPPER_16(DO, first, first)        \
  DO(16, second)                          \
  DO(17, second) DO(20, second) DO(21, second) DO(24, second) DO(25, second) DO(28, second) DO(29, second)
#define QUERN_LOWER_32(DO, first, second) \
  QUERN_LOWER_16(DO, first, first)        \
  DO(18, second)                          \
  DO(19, second) DO(22, second) DO(23, second) DO(26, second) DO(27, second) DO(30, second) DO(31, second)

// Stores four 8x8 matrices of a group, to the lane's row of the box that is operand 2. Each statement computes the
// address: kept over a loop it would take registers from the accumulators.
#define QUERN_PLACE                                                                                          \
  "{.reg .b32 p<4>,l,row,chunk;\nmov.u32 l, %%laneid;\nand.b32 row, l, 15;\nmad.lo.u32 row, row, 128, %2;\n" \
  "and.b32 chunk, l, 7;\nshr.b32 l, l, 4;\nxor.b32 chunk, chunk, l;\nshl.b32 chunk, chunk, 4;\n"
#define QUERN_PACK(p, i, j) "cvt.rn.%1.f32 p" #p ", " QUERN_ELEMENT("0", j) ", " QUERN_ELEMENT("0", i) ";\n"
#define QUERN_STORE(n, i0, i1, i2, i3, i4, i5, i6, i7) \
  QUERN_PACK(0, i0, i1)                                \
  QUERN_PACK(1, i2, i3)                                \
  QUERN_PACK(2, i4, i5)                                \
  QUERN_PACK(3, i6, i7)                                \
  "xor.b32 l, chunk, 32*" #n ";\nadd.u32 l, l, row;\nstmatrix.sync.aligned.m8n8.x4.shared.b16 [l], {p0,p1,p2,p3};\n"
// The scales of the thread's columns, from operand 1 on; those of its rows are operands 2 and 3.
#define QUERN_COLUMNS \
  "{.reg .f32 c<4>,f<8>;\n.reg .b32 l;\nmov.u32 l, %%laneid;\nand.b32 l, l, 3;\nmad.lo.u32 l, l, 8, %1;\n"
#define QUERN_LOAD(n) "ld.shared.v2.f32 {c0,c1}, [l+64*" #n "];\nld.shared.v2.f32 {c2,c3}, [l+64*" #n "+32];\n"
#define QUERN_TIMES(i, scale) "mul.f32 " QUERN_ELEMENT("0", i) ", " QUERN_ELEMENT("0", i) ", " scale ";\n"
// clang-format off
#define QUERN_BY_COLUMNS(n, i0, i1, i2, i3, i4, i5, i6, i7)                                                  \
  QUERN_LOAD(n)                                                                                              \
  QUERN_TIMES(i0, "c0") QUERN_TIMES(i1, "c1") QUERN_TIMES(i2, "c0") QUERN_TIMES(i3, "c1")                    \
  QUERN_TIMES(i4, "c2") QUERN_TIMES(i5, "c3") QUERN_TIMES(i6, "c2") QUERN_TIMES(i7, "c3")
#define QUERN_FACTOR(f, row, c) "mul.f32 f" #f ", %" #row ", c" #c ";\n"
#define QUERN_BY_BOTH(n, i0, i1, i2, i3, i4, i5, i6, i7)                                                     \
  QUERN_LOAD(n)                                                                                              \
  QUERN_FACTOR(0, 2, 0) QUERN_FACTOR(1, 2, 1) QUERN_FACTOR(2, 3, 0) QUERN_FACTOR(3, 3, 1)                    \
  QUERN_FACTOR(4, 2, 2) QUERN_FACTOR(5, 2, 3) QUERN_FACTOR(6, 3, 2) QUERN_FACTOR(7, 3, 3)                    \
  QUERN_TIMES(i0, "f0") QUERN_TIMES(i1, "f1") QUERN_TIMES(i2, "f2") QUERN_TIMES(i3, "f3")                    \
  QUERN_TIMES(i4, "f4") QUERN_TIMES(i5, "f5") QUERN_TIMES(i6, "f6") QUERN_TIMES(i7, "f7")
// clang-format on
// The elements of a group, eight at a time.
#define QUERN_EIGHTS_2(DO) DO(0, 0, 1, 2, 3, 4, 5, 6, 7) DO(1, 8, 9, 10, 11, 12, 13, 14, 15)
#define QUERN_EIGHTS_3(DO) QUERN_EIGHTS_2(DO) DO(2, 16, 17, 18, 19, 20, 21, 22, 23)
#define QUERN_EIGHTS_4(DO) QUERN_EIGHTS_3(DO) DO(3, 24, 25, 26, 27, 28, 29, 30, 31)

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
#define QUERN_PRODUCT(count, n, registers)                                                                  \
  if constexpr (kUsed == count) {                                                                           \
    asm volatile(                                                                                           \
        "{.reg .pred p;\nsetp.ne.b32 p, %2, 0;\n"                                                           \
        "wgmma.mma_async.sync.aligned.m64n" n "%3 {" registers "}, %0, %1, p, 1, 1%4;}" ::"l"(a),           \
        "l"(b), "r"(static_cast<int>(accumulate)), "C"(WgmmaText<A, B>::kind),                              \
        "C"(WgmmaMajors<sizeof(A), a_major, b_major>::both), "n"(kFirst), "n"(kFirst + 1), "n"(kFirst + 2), \
        "n"(kFirst + 3));                                                                                   \
  } else
    QUERN_EACH_COUNT(QUERN_PRODUCT) static_assert(kUsed < 0, "there is no such product");
#undef QUERN_PRODUCT
  }
  QUERN_DEVICE void clear() { clear_from<0>(); }
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
    static_assert(first % 2 == 0);
    asm volatile("mov.f32 %0, quern_warpgroup%2_%3;\nmov.f32 %1, quern_warpgroup%2_%4;"
                 : "=f"(x[0]), "=f"(x[1])
                 : "n"(kFirst + first / 32), "n"(first % 32), "n"(first % 32 + 1));
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
    read_eight<first>(x + first);
    if constexpr (first + 8 < kCount) read_from<first + 8>(x);
  }
  template <int first>
  static QUERN_DEVICE void declare() {
    asm volatile(".reg .f32 quern_warpgroup%0_<32>;" ::"n"(kFirst + first / 32));
    if constexpr (first + 32 < kCount) declare<first + 32>();
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
