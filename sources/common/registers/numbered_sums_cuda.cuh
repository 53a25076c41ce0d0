// NumberedSums on NVIDIA's GPUs: element i of tile n is the kernel's register quern_tile<n>_<i>.
// Included by numbered_sums.cuh, which reads memory for both.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/kernel.cuh"

// The text of the registers of the tile whose number is operand `tile` of the statement, mostly the first operand.
#define QUERN_SUM_OF(tile, i) "quern_tile%" tile "_" #i
#define QUERN_SUM(i) QUERN_SUM_OF("0", i)
#define QUERN_EACH_SUM(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7)
#define QUERN_LEFT_OF(tile) \
  "{" QUERN_SUM_OF(tile, 0) "," QUERN_SUM_OF(tile, 1) "," QUERN_SUM_OF(tile, 2) "," QUERN_SUM_OF(tile, 3) "}"
#define QUERN_RIGHT_OF(tile) \
  "{" QUERN_SUM_OF(tile, 4) "," QUERN_SUM_OF(tile, 5) "," QUERN_SUM_OF(tile, 6) "," QUERN_SUM_OF(tile, 7) "}"
// Tile `tile` of the statement's operands += a b, with words i, j, k and l of each operand, named as in
// numbered_operands_cuda.cuh.
#define QUERN_TWO(of, i, j) "{quern_" of "_" #i ",quern_" of "_" #j "}"
#define QUERN_FOUR(of, i, j, k, l) "{quern_" of "_" #i ",quern_" of "_" #j ",quern_" of "_" #k ",quern_" of "_" #l "}"
#define QUERN_ADD_WORDS(tile, a, b, i, j, k, l, shape_and_types) \
  "mma.sync.aligned." shape_and_types ".f32 " QUERN_LEFT_OF(tile) ", " QUERN_FOUR(a, i, j, k, l) ", " \
  QUERN_TWO(b, i, j) ", " QUERN_LEFT_OF(tile) ";\n"                                                   \
  "mma.sync.aligned." shape_and_types ".f32 " QUERN_RIGHT_OF(tile) ", " QUERN_FOUR(a, i, j, k, l) ", " \
  QUERN_TWO(b, k, l) ", " QUERN_RIGHT_OF(tile) ";\n"
#define QUERN_ADD(tile, a, b, shape_and_types) \
  QUERN_ADD_WORDS(tile, "operand%" a, "operand%" b, 0, 1, 2, 3, shape_and_types)
#define QUERN_ADD_WIDE(tile, a, b)                                                        \
  QUERN_ADD_WORDS(tile, "wide%" a, "wide%" b, 0, 1, 2, 3, "m16n8k16.row.col.f32.f16.f16") \
  QUERN_ADD_WORDS(tile, "wide%" a, "wide%" b, 4, 5, 6, 7, "m16n8k16.row.col.f32.f16.f16")

namespace q {

template <int n, int end>
QUERN_DEVICE void declare_tiles() {
  asm volatile(".reg .f32 quern_tile%0_<8>;" ::"n"(n));
  if constexpr (n + 1 < end) declare_tiles<n + 1, end>();
}
template <int n, int end>
QUERN_DEVICE void clear_tiles() {
#define QUERN_ZERO(i) "mov.f32 " QUERN_SUM(i) ", 0f00000000;\n"
  asm volatile(QUERN_EACH_SUM(QUERN_ZERO)::"n"(n));
#undef QUERN_ZERO
  if constexpr (n + 1 < end) clear_tiles<n + 1, end>();
}
// The tile's first column is number `column` of the row.
template <int n, int end, int column, int pitch>
QUERN_DEVICE void store_tiles(u32 to) {
  constexpr int at = column * 4, below = at + 8 * pitch * 4;
#define QUERN_STORE(place, i, j) "st.shared.v2.f32 [%1+%" place "], {" QUERN_SUM(i) "," QUERN_SUM(j) "};\n"
  asm volatile(QUERN_STORE("2", 0, 1) QUERN_STORE("3", 2, 3) QUERN_STORE("4", 4, 5) QUERN_STORE("5", 6, 7)::"n"(n),
               "r"(to), "n"(at), "n"(below), "n"(at + 32), "n"(below + 32)
               : "memory");
#undef QUERN_STORE
  if constexpr (n + 1 < end) store_tiles<n + 1, end, column + 16, pitch>(to);
}

// The statement's operands: the tile, the address of its first element, bytes from element to element.
#define QUERN_WRITE(i) "st.global.f32 [%1+" #i "*%2], " QUERN_SUM(i) ";\n"
template <int n, int end, int apart>
QUERN_DEVICE void write_tiles(f32* to) {
  asm volatile(QUERN_EACH_SUM(QUERN_WRITE)::"n"(n), "l"(to), "n"(apart) : "memory");
  if constexpr (n + 1 < end) write_tiles<n + 1, end, apart>(to + 2 * apart);
}
#undef QUERN_WRITE
template <int first, int n, int end, int stride, int places>
QUERN_DEVICE void add_tiles(const f32* const (&from)[places], int there) {
  f32 v[places][8];
  read_apart<stride>(from, (n - first) * 8, v);
  QUERN_UNROLL for (int place = 0; place < places; ++place) {
    f32 x[8];
    QUERN_UNROLL for (int i = 0; i < 8; ++i) x[i] = place < there ? v[place][i] : 0.0f;
#define QUERN_GAIN(i, x) "add.f32 " QUERN_SUM(i) ", " QUERN_SUM(i) ", %" x ";\n"
    asm volatile(QUERN_GAIN(0, "1") QUERN_GAIN(1, "2") QUERN_GAIN(2, "3") QUERN_GAIN(3, "4") QUERN_GAIN(4, "5")
                     QUERN_GAIN(5, "6") QUERN_GAIN(6, "7") QUERN_GAIN(7, "8")::"n"(n),
                 "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3]), "f"(x[4]), "f"(x[5]), "f"(x[6]), "f"(x[7]));
#undef QUERN_GAIN
  }
  if constexpr (n + 1 < end) add_tiles<first, n + 1, end, stride>(from, there);
}

template <int kFirst, int kCount>
class NumberedSums {
 public:
  QUERN_DEVICE NumberedSums() { declare_tiles<kFirst, kFirst + kCount>(); }
  NumberedSums(const NumberedSums&) = delete;
  NumberedSums& operator=(const NumberedSums&) = delete;

  QUERN_DEVICE void clear() { clear_tiles<kFirst, kFirst + kCount>(); }
  // There are hundreds of these statements and each function costs the compiler time, so few functions lie between the
  // caller and the statement.
  template <int n, int i, int j, class A, class B>
  QUERN_DEVICE void add(const A&, const B&) {
#define QUERN_PRODUCT(T, U, shape_and_types)                                                                          \
  if constexpr (A::kFormat == format_of<T> && B::kFormat == format_of<U>) {                                           \
    asm volatile(QUERN_ADD("0", "1", "2", shape_and_types)::"n"(kFirst + n), "n"(A::kFirst + i), "n"(B::kFirst + j)); \
  } else
    QUERN_PRODUCT(f16, f16, "m16n8k16.row.col.f32.f16.f16")
    QUERN_PRODUCT(bf16, bf16, "m16n8k16.row.col.f32.bf16.bf16")
    QUERN_PRODUCT(f32, f32, "m16n8k8.row.col.f32.tf32.tf32")
#ifdef QUERN_FP8_PRODUCTS
    QUERN_PRODUCT(e4m3, e4m3, "m16n8k32.row.col.f32.e4m3.e4m3")
    QUERN_PRODUCT(e4m3, e5m2, "m16n8k32.row.col.f32.e4m3.e5m2")
    QUERN_PRODUCT(e5m2, e4m3, "m16n8k32.row.col.f32.e5m2.e4m3")
    QUERN_PRODUCT(e5m2, e5m2, "m16n8k32.row.col.f32.e5m2.e5m2")
#endif
#undef QUERN_PRODUCT
    {
      static_assert(A::kFormat == kWideFormat && B::kFormat == kWideFormat, "there is no such product");
      asm volatile(QUERN_ADD_WIDE("0", "1", "2")::"n"(kFirst + n), "n"(A::kFirst + i), "n"(B::kFirst + j));
    }
  }
  template <int n, int apart, int i, int j, class A, class B>
  QUERN_DEVICE void add_four(const A&, const B&) {
    static_assert(sizeof(typename A::Element) == 2 && A::kFormat == B::kFormat, "there is no such product");
#define QUERN_PRODUCT(shape_and_types)                                                                                \
  asm volatile(QUERN_ADD("0", "4", "8", shape_and_types) QUERN_ADD("1", "5", "8", shape_and_types) QUERN_ADD(         \
                   "2", "6", "8", shape_and_types) QUERN_ADD("3", "7", "8", shape_and_types)::"n"(kFirst + n),        \
               "n"(kFirst + n + apart), "n"(kFirst + n + 2 * apart), "n"(kFirst + n + 3 * apart), "n"(A::kFirst + i), \
               "n"(A::kFirst + i + 1), "n"(A::kFirst + i + 2), "n"(A::kFirst + i + 3), "n"(B::kFirst + j))
    if constexpr (A::kFormat == format_of<f16>) {
      QUERN_PRODUCT("m16n8k16.row.col.f32.f16.f16");
    } else {
      QUERN_PRODUCT("m16n8k16.row.col.f32.bf16.bf16");
    }
#undef QUERN_PRODUCT
  }
  template <int n, int m, int first, int count>
  QUERN_DEVICE void add_scaled(const NumberedSums<first, count>&, const f32 (&factors)[kRowsHeld]) {
#define QUERN_FMA(i, factor) "fma.rn.f32 " QUERN_SUM(i) ", " QUERN_SUM_OF("1", i) ", %" factor ", " QUERN_SUM(i) ";\n"
    asm volatile(QUERN_FMA(0, "2") QUERN_FMA(1, "2") QUERN_FMA(2, "3") QUERN_FMA(3, "3") QUERN_FMA(4, "2")
                     QUERN_FMA(5, "2") QUERN_FMA(6, "3") QUERN_FMA(7, "3")::"n"(kFirst + n),
                 "n"(first + m), "f"(factors[0]), "f"(factors[1]));
#undef QUERN_FMA
  }
  template <int n, int count, int pitch>
  QUERN_DEVICE void store(f32* to) const {
    store_tiles<kFirst + n, kFirst + n + count, 0, pitch>(
        shared_address(to + row_of(lane(), 0) * pitch + column_of(lane(), 0)));
  }
  template <int stride>
  QUERN_DEVICE void write_apart(f32* to) const {
    write_tiles<kFirst, kFirst + kCount, stride * 4>(to);
  }
  template <int stride, int places>
  QUERN_DEVICE void add_apart(const f32* const (&from)[places], int there) {
    add_tiles<kFirst, kFirst, kFirst + kCount, stride>(from, there);
  }
};

}  // namespace q

#undef QUERN_SUM_OF
#undef QUERN_SUM
#undef QUERN_EACH_SUM
#undef QUERN_LEFT_OF
#undef QUERN_RIGHT_OF
#undef QUERN_TWO
#undef QUERN_FOUR
#undef QUERN_ADD_WORDS
#undef QUERN_ADD
#undef QUERN_ADD_WIDE
