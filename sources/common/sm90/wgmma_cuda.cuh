// wgmma with arrays as PTX. The instruction names its registers one by one, so each n has an asm statement of its own.
// Included by wgmma.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/sm90/warpgroup.cuh"

namespace q {

// The first 4 m registers: in the text, and as operands.
// clang-format off
#define QUERN_D4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define QUERN_REGISTERS_1 "%0,%1,%2,%3"
#define QUERN_REGISTERS_2 QUERN_REGISTERS_1 "," "%4,%5,%6,%7"
#define QUERN_REGISTERS_3 QUERN_REGISTERS_2 "," "%8,%9,%10,%11"
#define QUERN_REGISTERS_4 QUERN_REGISTERS_3 "," "%12,%13,%14,%15"
#define QUERN_REGISTERS_5 QUERN_REGISTERS_4 "," "%16,%17,%18,%19"
#define QUERN_REGISTERS_6 QUERN_REGISTERS_5 "," "%20,%21,%22,%23"
#define QUERN_REGISTERS_7 QUERN_REGISTERS_6 "," "%24,%25,%26,%27"
#define QUERN_REGISTERS_8 QUERN_REGISTERS_7 "," "%28,%29,%30,%31"
#define QUERN_REGISTERS_9 QUERN_REGISTERS_8 "," "%32,%33,%34,%35"
#define QUERN_REGISTERS_10 QUERN_REGISTERS_9 "," "%36,%37,%38,%39"
#define QUERN_REGISTERS_11 QUERN_REGISTERS_10 "," "%40,%41,%42,%43"
#define QUERN_REGISTERS_12 QUERN_REGISTERS_11 "," "%44,%45,%46,%47"
#define QUERN_REGISTERS_13 QUERN_REGISTERS_12 "," "%48,%49,%50,%51"
#define QUERN_REGISTERS_14 QUERN_REGISTERS_13 "," "%52,%53,%54,%55"
#define QUERN_REGISTERS_15 QUERN_REGISTERS_14 "," "%56,%57,%58,%59"
#define QUERN_REGISTERS_16 QUERN_REGISTERS_15 "," "%60,%61,%62,%63"
#define QUERN_REGISTERS_17 QUERN_REGISTERS_16 "," "%64,%65,%66,%67"
#define QUERN_REGISTERS_18 QUERN_REGISTERS_17 "," "%68,%69,%70,%71"
#define QUERN_REGISTERS_19 QUERN_REGISTERS_18 "," "%72,%73,%74,%75"
#define QUERN_REGISTERS_20 QUERN_REGISTERS_19 "," "%76,%77,%78,%79"
#define QUERN_REGISTERS_21 QUERN_REGISTERS_20 "," "%80,%81,%82,%83"
#define QUERN_REGISTERS_22 QUERN_REGISTERS_21 "," "%84,%85,%86,%87"
#define QUERN_REGISTERS_23 QUERN_REGISTERS_22 "," "%88,%89,%90,%91"
#define QUERN_REGISTERS_24 QUERN_REGISTERS_23 "," "%92,%93,%94,%95"
#define QUERN_REGISTERS_25 QUERN_REGISTERS_24 "," "%96,%97,%98,%99"
#define QUERN_REGISTERS_26 QUERN_REGISTERS_25 "," "%100,%101,%102,%103"
#define QUERN_REGISTERS_27 QUERN_REGISTERS_26 "," "%104,%105,%106,%107"
#define QUERN_REGISTERS_28 QUERN_REGISTERS_27 "," "%108,%109,%110,%111"
#define QUERN_REGISTERS_29 QUERN_REGISTERS_28 "," "%112,%113,%114,%115"
#define QUERN_REGISTERS_30 QUERN_REGISTERS_29 "," "%116,%117,%118,%119"
#define QUERN_REGISTERS_31 QUERN_REGISTERS_30 "," "%120,%121,%122,%123"
#define QUERN_REGISTERS_32 QUERN_REGISTERS_31 "," "%124,%125,%126,%127"
#define QUERN_OPERANDS_1 QUERN_D4(0)
#define QUERN_OPERANDS_2 QUERN_OPERANDS_1, QUERN_D4(4)
#define QUERN_OPERANDS_3 QUERN_OPERANDS_2, QUERN_D4(8)
#define QUERN_OPERANDS_4 QUERN_OPERANDS_3, QUERN_D4(12)
#define QUERN_OPERANDS_5 QUERN_OPERANDS_4, QUERN_D4(16)
#define QUERN_OPERANDS_6 QUERN_OPERANDS_5, QUERN_D4(20)
#define QUERN_OPERANDS_7 QUERN_OPERANDS_6, QUERN_D4(24)
#define QUERN_OPERANDS_8 QUERN_OPERANDS_7, QUERN_D4(28)
#define QUERN_OPERANDS_9 QUERN_OPERANDS_8, QUERN_D4(32)
#define QUERN_OPERANDS_10 QUERN_OPERANDS_9, QUERN_D4(36)
#define QUERN_OPERANDS_11 QUERN_OPERANDS_10, QUERN_D4(40)
#define QUERN_OPERANDS_12 QUERN_OPERANDS_11, QUERN_D4(44)
#define QUERN_OPERANDS_13 QUERN_OPERANDS_12, QUERN_D4(48)
#define QUERN_OPERANDS_14 QUERN_OPERANDS_13, QUERN_D4(52)
#define QUERN_OPERANDS_15 QUERN_OPERANDS_14, QUERN_D4(56)
#define QUERN_OPERANDS_16 QUERN_OPERANDS_15, QUERN_D4(60)
#define QUERN_OPERANDS_17 QUERN_OPERANDS_16, QUERN_D4(64)
#define QUERN_OPERANDS_18 QUERN_OPERANDS_17, QUERN_D4(68)
#define QUERN_OPERANDS_19 QUERN_OPERANDS_18, QUERN_D4(72)
#define QUERN_OPERANDS_20 QUERN_OPERANDS_19, QUERN_D4(76)
#define QUERN_OPERANDS_21 QUERN_OPERANDS_20, QUERN_D4(80)
#define QUERN_OPERANDS_22 QUERN_OPERANDS_21, QUERN_D4(84)
#define QUERN_OPERANDS_23 QUERN_OPERANDS_22, QUERN_D4(88)
#define QUERN_OPERANDS_24 QUERN_OPERANDS_23, QUERN_D4(92)
#define QUERN_OPERANDS_25 QUERN_OPERANDS_24, QUERN_D4(96)
#define QUERN_OPERANDS_26 QUERN_OPERANDS_25, QUERN_D4(100)
#define QUERN_OPERANDS_27 QUERN_OPERANDS_26, QUERN_D4(104)
#define QUERN_OPERANDS_28 QUERN_OPERANDS_27, QUERN_D4(108)
#define QUERN_OPERANDS_29 QUERN_OPERANDS_28, QUERN_D4(112)
#define QUERN_OPERANDS_30 QUERN_OPERANDS_29, QUERN_D4(116)
#define QUERN_OPERANDS_31 QUERN_OPERANDS_30, QUERN_D4(120)
#define QUERN_OPERANDS_32 QUERN_OPERANDS_31, QUERN_D4(124)

// m, n = 8 m as text, and the numbers of the operands behind d.
#define QUERN_WGMMA_FOR_EACH_N(X) \
  X(1, "8", "%4", "%5", "%6", "%7", "%8", "%9", "%10", "%11") \
  X(2, "16", "%8", "%9", "%10", "%11", "%12", "%13", "%14", "%15") \
  X(3, "24", "%12", "%13", "%14", "%15", "%16", "%17", "%18", "%19") \
  X(4, "32", "%16", "%17", "%18", "%19", "%20", "%21", "%22", "%23") \
  X(5, "40", "%20", "%21", "%22", "%23", "%24", "%25", "%26", "%27") \
  X(6, "48", "%24", "%25", "%26", "%27", "%28", "%29", "%30", "%31") \
  X(7, "56", "%28", "%29", "%30", "%31", "%32", "%33", "%34", "%35") \
  X(8, "64", "%32", "%33", "%34", "%35", "%36", "%37", "%38", "%39") \
  X(9, "72", "%36", "%37", "%38", "%39", "%40", "%41", "%42", "%43") \
  X(10, "80", "%40", "%41", "%42", "%43", "%44", "%45", "%46", "%47") \
  X(11, "88", "%44", "%45", "%46", "%47", "%48", "%49", "%50", "%51") \
  X(12, "96", "%48", "%49", "%50", "%51", "%52", "%53", "%54", "%55") \
  X(13, "104", "%52", "%53", "%54", "%55", "%56", "%57", "%58", "%59") \
  X(14, "112", "%56", "%57", "%58", "%59", "%60", "%61", "%62", "%63") \
  X(15, "120", "%60", "%61", "%62", "%63", "%64", "%65", "%66", "%67") \
  X(16, "128", "%64", "%65", "%66", "%67", "%68", "%69", "%70", "%71") \
  X(17, "136", "%68", "%69", "%70", "%71", "%72", "%73", "%74", "%75") \
  X(18, "144", "%72", "%73", "%74", "%75", "%76", "%77", "%78", "%79") \
  X(19, "152", "%76", "%77", "%78", "%79", "%80", "%81", "%82", "%83") \
  X(20, "160", "%80", "%81", "%82", "%83", "%84", "%85", "%86", "%87") \
  X(21, "168", "%84", "%85", "%86", "%87", "%88", "%89", "%90", "%91") \
  X(22, "176", "%88", "%89", "%90", "%91", "%92", "%93", "%94", "%95") \
  X(23, "184", "%92", "%93", "%94", "%95", "%96", "%97", "%98", "%99") \
  X(24, "192", "%96", "%97", "%98", "%99", "%100", "%101", "%102", "%103") \
  X(25, "200", "%100", "%101", "%102", "%103", "%104", "%105", "%106", "%107") \
  X(26, "208", "%104", "%105", "%106", "%107", "%108", "%109", "%110", "%111") \
  X(27, "216", "%108", "%109", "%110", "%111", "%112", "%113", "%114", "%115") \
  X(28, "224", "%112", "%113", "%114", "%115", "%116", "%117", "%118", "%119") \
  X(29, "232", "%116", "%117", "%118", "%119", "%120", "%121", "%122", "%123") \
  X(30, "240", "%120", "%121", "%122", "%123", "%124", "%125", "%126", "%127") \
  X(31, "248", "%124", "%125", "%126", "%127", "%128", "%129", "%130", "%131") \
  X(32, "256", "%128", "%129", "%130", "%131", "%132", "%133", "%134", "%135")

#define QUERN_WGMMA_SHARED(m, n, p0, p1, p2, p3, p4, p5, p6, p7) \
  if constexpr (count == 4 * m) { \
    asm volatile("{.reg .pred p; setp.ne.b32 p, " p2 ", 0;\n" \
                 "wgmma.mma_async.sync.aligned.m64n" n p3 " {" QUERN_REGISTERS_##m "}, " p0 ", " p1 \
                 ", p" p4 ";}" \
                 : QUERN_OPERANDS_##m \
                 : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)), "C"(WgmmaText<A, B>::kind), \
                   "C"(WgmmaTail<A, a_major, b_major>::both)); \
  }
// One step of four; the descriptors of the first are moved on in between.
#define QUERN_WGMMA_STEP(m, n, p2, p3, p4, p) \
  "wgmma.mma_async.sync.aligned.m64n" n p3 " {" QUERN_REGISTERS_##m "}, a, b, " p p4 ";\n"
#define QUERN_WGMMA_ON(p5, p6) \
  "add.u32 al, al, " p5 "; add.u32 bl, bl, " p6 ";\n" \
  "mov.b64 a, {al, ah}; mov.b64 b, {bl, bh};\n"
#define QUERN_WGMMA_FOUR(m, n, p0, p1, p2, p3, p4, p5, p6, p7) \
  if constexpr (count == 4 * m) { \
    asm volatile("{.reg .pred p; .reg .b64 a, b; .reg .b32 al, ah, bl, bh;\n" \
                 "setp.ne.b32 p, " p2 ", 0; mov.b64 a, " p0 "; mov.b64 b, " p1 ";\n" \
                 "mov.b64 {al, ah}, a; mov.b64 {bl, bh}, b;\n" QUERN_WGMMA_STEP(m, n, p2, p3, p4, "p") \
                     QUERN_WGMMA_ON(p5, p6) QUERN_WGMMA_STEP(m, n, p2, p3, p4, "1") QUERN_WGMMA_ON(p5, p6) \
                         QUERN_WGMMA_STEP(m, n, p2, p3, p4, "1") QUERN_WGMMA_ON(p5, p6) \
                             QUERN_WGMMA_STEP(m, n, p2, p3, p4, "1") "}" \
                 : QUERN_OPERANDS_##m \
                 : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)), "C"(WgmmaText<A, B>::kind), \
                   "C"(WgmmaTail<A, a_major, b_major>::both), "n"(a_bytes / 16), "n"(b_bytes / 16)); \
  }
#define QUERN_WGMMA_REGISTERS(m, n, p0, p1, p2, p3, p4, p5, p6, p7) \
  if constexpr (count == 4 * m) { \
    asm volatile("{.reg .pred p; setp.ne.b32 p, " p5 ", 0;\n" \
                 "wgmma.mma_async.sync.aligned.m64n" n p6 " {" QUERN_REGISTERS_##m "}, {" p0 "," p1 "," p2 "," p3 \
                 "}, " p4 ", p" p7 ";}" \
                 : QUERN_OPERANDS_##m \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(accumulate)), \
                   "C"(WgmmaText<A, B>::kind), "C"(WgmmaTail<A, Major::k, b_major>::last)); \
  }
// clang-format on

template <class A, class B = A, Major a_major = Major::k, Major b_major = Major::k, int count>
QUERN_DEVICE void wgmma(f32 (&d)[count], u64 a, u64 b, bool accumulate) {
  check_wgmma<A, B, a_major, b_major, count>();
  static_assert(!kIntegerSums<A>, "arrays hold f32; common/registers/warpgroup_sums.cuh has sums of integers");
  QUERN_WGMMA_FOR_EACH_N(QUERN_WGMMA_SHARED)
}
template <int a_bytes, int b_bytes, class A, class B = A, Major a_major = Major::k, Major b_major = Major::k, int count>
QUERN_DEVICE void wgmma_four(f32 (&d)[count], u64 a, u64 b, bool accumulate) {
  check_wgmma<A, B, a_major, b_major, count>();
  static_assert(!kIntegerSums<A>, "arrays hold f32; common/registers/warpgroup_sums.cuh has sums of integers");
  QUERN_WGMMA_FOR_EACH_N(QUERN_WGMMA_FOUR)
}
template <class A, class B = A, Major a_major = Major::k, Major b_major = Major::k, int count>
QUERN_DEVICE void wgmma(f32 (&d)[count], const u32 (&a)[4], u64 b, bool accumulate) {
  check_wgmma<A, B, a_major, b_major, count>();
  static_assert(!kIntegerSums<A>, "arrays hold f32; common/registers/warpgroup_sums.cuh has sums of integers");
  static_assert(a_major == Major::k, "an operand in registers has one layout");
  QUERN_WGMMA_FOR_EACH_N(QUERN_WGMMA_REGISTERS)
}

#undef QUERN_WGMMA_SHARED
#undef QUERN_WGMMA_FOUR
#undef QUERN_WGMMA_STEP
#undef QUERN_WGMMA_ON
#undef QUERN_WGMMA_REGISTERS
#undef QUERN_WGMMA_FOR_EACH_N
#undef QUERN_D4

}  // namespace q
