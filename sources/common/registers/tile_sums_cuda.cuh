// TileSums on NVIDIA's GPUs: element i of tile n is the kernel's register quern_sum<n>_<i>. Only the text of a
// statement distinguishes registers, so the preprocessor enumerates the tiles.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/kernel.cuh"

// A statement costs compile time even if it is not used, so there are no more than there can be tiles.
#define QUERN_FOUR_TILES(DO) DO(0) DO(1) DO(2) DO(3)
#define QUERN_EIGHT_TILES(DO) QUERN_FOUR_TILES(DO) DO(4) DO(5) DO(6) DO(7)
#define QUERN_EACH_TILE(DO) QUERN_EIGHT_TILES(DO) DO(8) DO(9) DO(10) DO(11) DO(12) DO(13) DO(14) DO(15)
#define QUERN_TEXT_OF(x) #x
#define QUERN_TEXT(x) QUERN_TEXT_OF(x)
// The text of the registers of the tile whose number is operand `tile` of the statement.
#define QUERN_SUM(tile, i) "quern_sum%" tile "_" #i
#define QUERN_LEFT(tile) "{" QUERN_SUM(tile, 0) "," QUERN_SUM(tile, 1) "," QUERN_SUM(tile, 2) "," QUERN_SUM(tile, 3) "}"
#define QUERN_RIGHT(tile) \
  "{" QUERN_SUM(tile, 4) "," QUERN_SUM(tile, 5) "," QUERN_SUM(tile, 6) "," QUERN_SUM(tile, 7) "}"
#define QUERN_MMA(d, a, b)                                                                \
  "mma.sync.aligned.m16n8k16.row.col.f32." QUERN_TEXT(QUERN_TILE_ELEMENT) "." QUERN_TEXT( \
      QUERN_TILE_ELEMENT) ".f32 " d ", {" a "}, {" b "}, " d ";\n"
#define QUERN_PRODUCTS(tile, a) QUERN_MMA(QUERN_LEFT(tile), a, "b0,b1") QUERN_MMA(QUERN_RIGHT(tile), a, "b2,b3")
#define QUERN_LOAD_B(transposed, address) \
  "{.reg .b32 b<4>;\nldmatrix.sync.aligned.m8n8.x4" transposed ".shared.b16 {b0,b1,b2,b3}, [%" address "];\n"
#define QUERN_REGISTERS(a) "r"((a).x[0]), "r"((a).x[1]), "r"((a).x[2]), "r"((a).x[3])
// Column n of the tiles: one operand b serves every row tile.
#define QUERN_ADD_TO_ROW(n, transposed, address)                                                         \
  if constexpr (n < kColumnTiles)                                                                        \
    asm volatile(QUERN_LOAD_B(transposed, "5") QUERN_PRODUCTS("0", "%1,%2,%3,%4") "}" ::"n"(kFirst + n), \
                 QUERN_REGISTERS(a[0]), "r"(address));
#define QUERN_ADD_TO_TWO_ROWS(n, transposed, address)                              \
  if constexpr (n < kColumnTiles)                                                  \
    asm volatile(QUERN_LOAD_B(transposed, "10") QUERN_PRODUCTS("0", "%1,%2,%3,%4") \
                     QUERN_PRODUCTS("5", "%6,%7,%8,%9") "}" ::"n"(kFirst + n),     \
                 QUERN_REGISTERS(a[0]), "n"(kFirst + kColumnTiles + n), QUERN_REGISTERS(a[1]), "r"(address));

namespace q {

template <int kFirst, int kRowTiles, int kColumnTiles>
class TileSums {
  using T = QUERN_TILE_ELEMENT;
  static constexpr int kTiles = kRowTiles * kColumnTiles;
  static_assert(kRowTiles <= 2 && kTiles <= 16, "as many as are counted here");

 public:
  QUERN_DEVICE TileSums() {
#define QUERN_DO(n) \
  if constexpr (n < kTiles) asm volatile(".reg .f32 quern_sum%0_<8>;" ::"n"(kFirst + n));
    QUERN_EACH_TILE(QUERN_DO)
#undef QUERN_DO
  }
  TileSums(const TileSums&) = delete;
  TileSums& operator=(const TileSums&) = delete;

  QUERN_DEVICE void clear() {
#define QUERN_ZERO(i) "mov.f32 " QUERN_SUM("0", i) ", 0f00000000;\n"
#define QUERN_DO(n)                                                                                                \
  if constexpr (n < kTiles)                                                                                        \
    asm volatile(QUERN_ZERO(0) QUERN_ZERO(1) QUERN_ZERO(2) QUERN_ZERO(3) QUERN_ZERO(4) QUERN_ZERO(5) QUERN_ZERO(6) \
                     QUERN_ZERO(7)::"n"(kFirst + n));
    QUERN_EACH_TILE(QUERN_DO)
#undef QUERN_DO
#undef QUERN_ZERO
  }

  QUERN_DEVICE void add(const OperandA<T> (&a)[kRowTiles], const T* b, int pitch) {
    const int l = lane();
    const u32 row = shared_address(b + ((l & 7) + ((l >> 4) << 3)) * pitch + ((l >> 3) & 1) * 8);
    if constexpr (kRowTiles == 1) {
#define QUERN_DO(n) QUERN_ADD_TO_ROW(n, "", row + n * 32 * pitch)
      QUERN_EACH_TILE(QUERN_DO)
#undef QUERN_DO
    } else {
#define QUERN_DO(n) QUERN_ADD_TO_TWO_ROWS(n, "", row + n * 32 * pitch)
      QUERN_EIGHT_TILES(QUERN_DO)
#undef QUERN_DO
    }
  }
  QUERN_DEVICE void add_transposed(const OperandA<T> (&a)[kRowTiles], const T* b, int pitch) {
    const int l = lane();
    const u32 row = shared_address(b + (l & 15) * pitch + (l >> 4) * 8);
    if constexpr (kRowTiles == 1) {
#define QUERN_DO(n) QUERN_ADD_TO_ROW(n, ".trans", row + n * 32)
      QUERN_EACH_TILE(QUERN_DO)
#undef QUERN_DO
    } else {
#define QUERN_DO(n) QUERN_ADD_TO_TWO_ROWS(n, ".trans", row + n * 32)
      QUERN_EIGHT_TILES(QUERN_DO)
#undef QUERN_DO
    }
  }

  QUERN_DEVICE void multiply_rows(const f32 (&factors)[kRowTiles][kRowsHeld]) {
#define QUERN_TIMES(i, factor) "mul.f32 " QUERN_SUM("0", i) ", " QUERN_SUM("0", i) ", %" factor ";\n"
#define QUERN_DO(n)                                                                                                  \
  if constexpr (n < kTiles)                                                                                          \
    asm volatile(QUERN_TIMES(0, "1") QUERN_TIMES(1, "1") QUERN_TIMES(2, "2") QUERN_TIMES(3, "2") QUERN_TIMES(4, "1") \
                     QUERN_TIMES(5, "1") QUERN_TIMES(6, "2") QUERN_TIMES(7, "2")::"n"(kFirst + n),                   \
                 "f"(factors[n / kColumnTiles][0]), "f"(factors[n / kColumnTiles][1]));
    QUERN_EACH_TILE(QUERN_DO)
#undef QUERN_DO
#undef QUERN_TIMES
  }

  QUERN_DEVICE void read(Accumulator (&x)[kRowTiles][kColumnTiles]) const {
    static_assert(kTiles <= 4, "as many as are counted here");
#define QUERN_READ(i) "mov.f32 %" #i ", " QUERN_SUM("8", i) ";\n"
#define QUERN_DO(n)                                                                                                \
  if constexpr (n < kTiles) {                                                                                      \
    f32* const c = x[n / kColumnTiles][n % kColumnTiles].x;                                                        \
    asm volatile(QUERN_READ(0) QUERN_READ(1) QUERN_READ(2) QUERN_READ(3) QUERN_READ(4) QUERN_READ(5) QUERN_READ(6) \
                     QUERN_READ(7)                                                                                 \
                 : "=f"(c[0]), "=f"(c[1]), "=f"(c[2]), "=f"(c[3]), "=f"(c[4]), "=f"(c[5]), "=f"(c[6]), "=f"(c[7])  \
                 : "n"(kFirst + n));                                                                               \
  }
    QUERN_FOUR_TILES(QUERN_DO)
#undef QUERN_DO
#undef QUERN_READ
  }

  QUERN_DEVICE void write(const Accumulator (&x)[kRowTiles][kColumnTiles]) {
    static_assert(kTiles <= 4, "as many as are counted here");
#define QUERN_WRITE(i, operand) "mov.f32 " QUERN_SUM("0", i) ", %" operand ";\n"
#define QUERN_DO(n)                                                                                                  \
  if constexpr (n < kTiles) {                                                                                        \
    const f32* const c = x[n / kColumnTiles][n % kColumnTiles].x;                                                    \
    asm volatile(QUERN_WRITE(0, "1") QUERN_WRITE(1, "2") QUERN_WRITE(2, "3") QUERN_WRITE(3, "4") QUERN_WRITE(4, "5") \
                     QUERN_WRITE(5, "6") QUERN_WRITE(6, "7") QUERN_WRITE(7, "8")::"n"(kFirst + n),                   \
                 "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]), "f"(c[4]), "f"(c[5]), "f"(c[6]), "f"(c[7]));            \
  }
    QUERN_FOUR_TILES(QUERN_DO)
#undef QUERN_DO
#undef QUERN_WRITE
  }

  QUERN_DEVICE void keep(const u32 (&from)[kRowTiles][kRowsHeld], const u32 (&count)[kRowTiles][kRowsHeld]) {
    static_assert(kTiles <= 4, "as many as are counted here");
    const u32 own = static_cast<u32>(column_of(lane(), 0));
// The statement's operands: the tile, the places of its first column for both rows, their counts, the columns from
// there.
#define QUERN_KEEP(i, from, count, column)                                    \
  "add.u32 place, %" from ", %" column ";\nsetp.lt.u32 stays, place, %" count \
  ";\n"                                                                       \
  "selp.f32 " QUERN_SUM("0", i) ", " QUERN_SUM("0", i) ", 0fFF800000, stays;\n"
#define QUERN_DO(n)                                                                                                 \
  if constexpr (n < kTiles) {                                                                                       \
    constexpr int t = n / kColumnTiles, column = n % kColumnTiles * 16;                                             \
    asm volatile("{.reg .u32 place;\n.reg .pred stays;\n" QUERN_KEEP(0, "1", "3", "5") QUERN_KEEP(1, "1", "3", "6") \
                     QUERN_KEEP(2, "2", "4", "5") QUERN_KEEP(3, "2", "4", "6") QUERN_KEEP(4, "1", "3", "7")         \
                         QUERN_KEEP(5, "1", "3", "8") QUERN_KEEP(6, "2", "4", "7")                                  \
                             QUERN_KEEP(7, "2", "4", "8") "}" ::"n"(kFirst + n),                                    \
                 "r"(from[t][0] + own), "r"(from[t][1] + own), "r"(count[t][0]), "r"(count[t][1]), "n"(column),     \
                 "n"(column + 1), "n"(column + 8), "n"(column + 9));                                                \
  }
    QUERN_FOUR_TILES(QUERN_DO)
#undef QUERN_DO
#undef QUERN_KEEP
  }

  QUERN_DEVICE void maximum(f32 (&max)[kRowTiles][kRowsHeld]) const {
    static_assert(kTiles <= 4, "as many as are counted here");
#define QUERN_MAXIMUM(i, max) "max.f32 %" max ", %" max ", " QUERN_SUM("2", i) ";\n"
#define QUERN_DO(n)                                                                                          \
  if constexpr (n < kTiles)                                                                                  \
    asm volatile(QUERN_MAXIMUM(0, "0") QUERN_MAXIMUM(1, "0") QUERN_MAXIMUM(2, "1") QUERN_MAXIMUM(3, "1")     \
                     QUERN_MAXIMUM(4, "0") QUERN_MAXIMUM(5, "0") QUERN_MAXIMUM(6, "1") QUERN_MAXIMUM(7, "1") \
                 : "+f"(max[n / kColumnTiles][0]), "+f"(max[n / kColumnTiles][1])                            \
                 : "n"(kFirst + n));
    QUERN_FOUR_TILES(QUERN_DO)
#undef QUERN_DO
#undef QUERN_MAXIMUM
  }

  QUERN_DEVICE void to_weights(f32 factor, const f32 (&base)[kRowTiles][kRowsHeld], f32 (&sum)[kRowTiles][kRowsHeld],
                               OperandA<T> (&weights)[kColumnTiles][kRowTiles]) {
    static_assert(kTiles <= 4, "as many as are counted here");
// The statement's operands: the two rows' sums, the four pairs of weights, the tile, the factor, the two rows' bases.
#define QUERN_WEIGHT(i, sum, base)                                                              \
  "fma.rn.f32 w" #i ", " QUERN_SUM("6", i) ", %7, %" base ";\nex2.approx.ftz.f32 w" #i ", w" #i \
                                           ";\n"                                                \
                                           "add.f32 %" sum ", %" sum ", w" #i ";\n"
#define QUERN_PAIR(operand, low, high) \
  "cvt.rn." QUERN_TEXT(QUERN_TILE_ELEMENT) "x2.f32 %" operand ", w" #high ", w" #low ";\n"
#define QUERN_DO(n)                                                                                                 \
  if constexpr (n < kTiles) {                                                                                       \
    constexpr int t = n / kColumnTiles;                                                                             \
    u32* const w = weights[n % kColumnTiles][t].x;                                                                  \
    asm volatile("{.reg .f32 w<8>;\n" QUERN_WEIGHT(0, "0", "8") QUERN_WEIGHT(1, "0", "8") QUERN_WEIGHT(2, "1", "9") \
                     QUERN_WEIGHT(3, "1", "9") QUERN_WEIGHT(4, "0", "8") QUERN_WEIGHT(5, "0", "8")                  \
                         QUERN_WEIGHT(6, "1", "9") QUERN_WEIGHT(7, "1", "9") QUERN_PAIR("2", 0, 1)                  \
                             QUERN_PAIR("3", 2, 3) QUERN_PAIR("4", 4, 5) QUERN_PAIR("5", 6, 7) "}"                  \
                 : "+f"(sum[t][0]), "+f"(sum[t][1]), "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])                 \
                 : "n"(kFirst + n), "f"(factor), "f"(-base[t][0]), "f"(-base[t][1]));                               \
  }
    QUERN_FOUR_TILES(QUERN_DO)
#undef QUERN_DO
#undef QUERN_PAIR
#undef QUERN_WEIGHT
  }

  template <int kPitch>
  QUERN_DEVICE void store(f32* to) const {
    const u32 own = shared_address(to + row_of(lane(), 0) * kPitch + column_of(lane(), 0));
#define QUERN_STORE(place, i, j) "st.shared.v2.f32 [%1+%" place "], {" QUERN_SUM("0", i) "," QUERN_SUM("0", j) "};\n"
#define QUERN_DO(n)                                                                                               \
  if constexpr (n < kTiles) {                                                                                     \
    constexpr int at = (n / kColumnTiles * 16 * kPitch + n % kColumnTiles * 16) * 4, below = at + 8 * kPitch * 4; \
    asm volatile(QUERN_STORE("2", 0, 1) QUERN_STORE("3", 2, 3) QUERN_STORE("4", 4, 5)                             \
                     QUERN_STORE("5", 6, 7)::"n"(kFirst + n),                                                     \
                 "r"(own), "n"(at), "n"(below), "n"(at + 32), "n"(below + 32)                                     \
                 : "memory");                                                                                     \
  }
    QUERN_EACH_TILE(QUERN_DO)
#undef QUERN_DO
#undef QUERN_STORE
  }
};

}  // namespace q

#undef QUERN_FOUR_TILES
#undef QUERN_EIGHT_TILES
#undef QUERN_EACH_TILE
#undef QUERN_TEXT_OF
#undef QUERN_TEXT
#undef QUERN_SUM
#undef QUERN_LEFT
#undef QUERN_RIGHT
#undef QUERN_MMA
#undef QUERN_PRODUCTS
#undef QUERN_LOAD_B
#undef QUERN_REGISTERS
#undef QUERN_ADD_TO_ROW
#undef QUERN_ADD_TO_TWO_ROWS
