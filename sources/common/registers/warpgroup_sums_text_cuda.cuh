// WarpgroupSums on NVIDIA's GPUs, as text: the registers that instructions name, element by element. Included by
// warpgroup_sums_cuda.cuh, which takes these names back at its end.
// SPDX-License-Identifier: Apache-2.0
#pragma once

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
  DO(4, "8", QUERN_FIRST_4("5"))                                                                              \
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
// The first so many elements of a group, each with which of the thread's rows it is in: operand 1 or 2.
#define QUERN_ROWS_4(DO) DO(0, "1") DO(1, "1") DO(2, "2") DO(3, "2")
#define QUERN_ROWS_8(DO) QUERN_ROWS_4(DO) DO(4, "1") DO(5, "1") DO(6, "2") DO(7, "2")
#define QUERN_ROWS_12(DO) QUERN_ROWS_8(DO) DO(8, "1") DO(9, "1") DO(10, "2") DO(11, "2")
#define QUERN_ROWS_16(DO) QUERN_ROWS_12(DO) DO(12, "1") DO(13, "1") DO(14, "2") DO(15, "2")
#define QUERN_ROWS_20(DO) QUERN_ROWS_16(DO) DO(16, "1") DO(17, "1") DO(18, "2") DO(19, "2")
#define QUERN_ROWS_24(DO) QUERN_ROWS_20(DO) DO(20, "1") DO(21, "1") DO(22, "2") DO(23, "2")
#define QUERN_ROWS_28(DO) QUERN_ROWS_24(DO) DO(24, "1") DO(25, "1") DO(26, "2") DO(27, "2")
#define QUERN_ROWS_32(DO) QUERN_ROWS_28(DO) DO(28, "1") DO(29, "1") DO(30, "2") DO(31, "2")
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
