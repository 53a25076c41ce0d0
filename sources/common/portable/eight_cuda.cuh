// store_first on NVIDIA's GPUs: predicated stores in one statement. Branches would cost the compiler a hundredth of a
// second. Included by eight.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/kernel.cuh"

// Stores element i from register `from`, at byte i * size, if there are more than i.
#define QUERN_FIRST(i, size, type, from) \
  "setp.gt.s32 p, %1, " #i ";\n@p st.global." type " [%0+" #i "*" #size "], " from ";\n"

namespace q {

template <class T>
QUERN_DEVICE void store_first(T* to, const PackedEight<T>& v, i32 count) {
  if constexpr (sizeof(T) == 4) {
#define QUERN_WORD(i, from) QUERN_FIRST(i, 4, "b32", from)
    asm volatile("{.reg .pred p;\n" QUERN_WORD(0, "%2") QUERN_WORD(1, "%3") QUERN_WORD(2, "%4") QUERN_WORD(3, "%5")
                     QUERN_WORD(4, "%6") QUERN_WORD(5, "%7") QUERN_WORD(6, "%8") QUERN_WORD(7, "%9") "}" ::"l"(to),
                 "r"(count), "r"(v.x[0]), "r"(v.x[1]), "r"(v.x[2]), "r"(v.x[3]), "r"(v.x[4]), "r"(v.x[5]), "r"(v.x[6]),
                 "r"(v.x[7])
                 : "memory");
#undef QUERN_WORD
  } else if constexpr (sizeof(T) == 2) {
#define QUERN_HALVES(i, j, word) \
  "mov.b32 {low, high}, " word ";\n" QUERN_FIRST(i, 2, "b16", "low") QUERN_FIRST(j, 2, "b16", "high")
    asm volatile("{.reg .pred p;\n.reg .b16 low, high;\n" QUERN_HALVES(0, 1, "%2") QUERN_HALVES(2, 3, "%3")
                     QUERN_HALVES(4, 5, "%4") QUERN_HALVES(6, 7, "%5") "}" ::"l"(to),
                 "r"(count), "r"(v.x[0]), "r"(v.x[1]), "r"(v.x[2]), "r"(v.x[3])
                 : "memory");
#undef QUERN_HALVES
  } else {
    // The low byte of a register is stored.
#define QUERN_BYTE(i, word, bits) "shr.u32 v, " word ", " #bits ";\n" QUERN_FIRST(i, 1, "b8", "v")
    asm volatile("{.reg .pred p;\n.reg .b32 v;\n" QUERN_BYTE(0, "%2", 0) QUERN_BYTE(1, "%2", 8) QUERN_BYTE(2, "%2", 16)
                     QUERN_BYTE(3, "%2", 24) QUERN_BYTE(4, "%3", 0) QUERN_BYTE(5, "%3", 8) QUERN_BYTE(6, "%3", 16)
                         QUERN_BYTE(7, "%3", 24) "}" ::"l"(to),
                 "r"(count), "r"(v.x[0]), "r"(v.x[1])
                 : "memory");
#undef QUERN_BYTE
  }
}

}  // namespace q

#undef QUERN_FIRST
