// NumberedVectors on NVIDIA's GPUs: element i of vector n is the kernel's register quern_vector<n>_<i>, and
// quern_read<n>_<i> that of a value that is read to be added to it. Each statement costs the compiler time, so each
// handles four vectors. Included by numbered_vectors.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/kernel.cuh"

#define QUERN_VECTOR(of, n) "{quern_" of "%" n "_0,quern_" of "%" n "_1,quern_" of "%" n "_2,quern_" of "%" n "_3}"
// DO for vectors n to n + 3, whose numbers are the statement's first operands; DO's other operands belong to one vector
// each.
#define QUERN_EACH_VECTOR(DO) DO("0", "4") DO("1", "5") DO("2", "6") DO("3", "7")
#define QUERN_NUMBERS(n) "n"(n), "n"(n + 1), "n"(n + 2), "n"(n + 3)

namespace q {

template <int kCount>
class NumberedVectors {
 public:
  QUERN_DEVICE NumberedVectors() { declare<0>(); }
  NumberedVectors(const NumberedVectors&) = delete;
  NumberedVectors& operator=(const NumberedVectors&) = delete;

  QUERN_DEVICE void clear() { clear_from<0>(); }
  template <int apart>
  QUERN_DEVICE void add(const f32* from) {
    read<0, apart * 4>(from);
    add_read<0>();
  }
  template <int columns, int down, int across>
  QUERN_DEVICE void store(f32* to) const {
    store_from<0, columns, down * 4, across * 4>(shared_address(to));
  }
  template <int columns, int down, int across, int apart>
  static QUERN_DEVICE void move(const f32* from, f32* to) {
    move_from<0, columns, down * 4, across * 4, apart * 4>(shared_address(from), to);
  }

 private:
  static_assert(kCount % 4 == 0);

  template <int n>
  static QUERN_DEVICE void declare() {
#define QUERN_DECLARE(n, other) ".reg .f32 quern_vector%" n "_<4>;\n.reg .f32 quern_read%" n "_<4>;\n"
    asm volatile(QUERN_EACH_VECTOR(QUERN_DECLARE)::QUERN_NUMBERS(n));
#undef QUERN_DECLARE
    if constexpr (n + 4 < kCount) declare<n + 4>();
  }
  template <int n>
  static QUERN_DEVICE void clear_from() {
#define QUERN_ZERO(n, i) "mov.f32 quern_vector%" n "_" #i ", 0f00000000;\n"
#define QUERN_CLEAR(n, other) QUERN_ZERO(n, 0) QUERN_ZERO(n, 1) QUERN_ZERO(n, 2) QUERN_ZERO(n, 3)
    asm volatile(QUERN_EACH_VECTOR(QUERN_CLEAR)::QUERN_NUMBERS(n));
#undef QUERN_CLEAR
#undef QUERN_ZERO
    if constexpr (n + 4 < kCount) clear_from<n + 4>();
  }
  template <int n, int bytes>
  static QUERN_DEVICE void read(const f32* from) {
#define QUERN_READ(n, at) "ld.global.v4.f32 " QUERN_VECTOR("read", n) ", [%8+%" at "];\n"
    asm volatile(QUERN_EACH_VECTOR(QUERN_READ)::QUERN_NUMBERS(n), "n"(n * bytes), "n"((n + 1) * bytes),
                 "n"((n + 2) * bytes), "n"((n + 3) * bytes), "l"(from)
                 : "memory");
#undef QUERN_READ
    if constexpr (n + 4 < kCount) read<n + 4, bytes>(from);
  }
  template <int n>
  static QUERN_DEVICE void add_read() {
#define QUERN_GAIN(n, i) "add.f32 quern_vector%" n "_" #i ", quern_vector%" n "_" #i ", quern_read%" n "_" #i ";\n"
#define QUERN_ADD(n, other) QUERN_GAIN(n, 0) QUERN_GAIN(n, 1) QUERN_GAIN(n, 2) QUERN_GAIN(n, 3)
    asm volatile(QUERN_EACH_VECTOR(QUERN_ADD)::QUERN_NUMBERS(n));
#undef QUERN_ADD
#undef QUERN_GAIN
    if constexpr (n + 4 < kCount) add_read<n + 4>();
  }
  // Distances in bytes.
  template <int n, int columns, int down, int across>
  static constexpr int kSpread = n / columns * down + n % columns * across;

  template <int n, int columns, int down, int across>
  static QUERN_DEVICE void store_from(u32 to) {
#define QUERN_STORE(n, at) "st.shared.v4.f32 [%8+%" at "], " QUERN_VECTOR("vector", n) ";\n"
    asm volatile(QUERN_EACH_VECTOR(QUERN_STORE)::QUERN_NUMBERS(n), "n"(kSpread<n, columns, down, across>),
                 "n"(kSpread<n + 1, columns, down, across>), "n"(kSpread<n + 2, columns, down, across>),
                 "n"(kSpread<n + 3, columns, down, across>), "r"(to)
                 : "memory");
#undef QUERN_STORE
    if constexpr (n + 4 < kCount) store_from<n + 4, columns, down, across>(to);
  }
  template <int n, int columns, int down, int across, int apart>
  static QUERN_DEVICE void move_from(u32 from, f32* to) {
#define QUERN_MOVE(to, at) \
  "ld.shared.v4.b32 {v0,v1,v2,v3}, [%8+%" at "];\nst.global.v4.b32 [%9+%" to "], {v0,v1,v2,v3};\n"
    asm volatile("{.reg .b32 v<4>;\n" QUERN_EACH_VECTOR(QUERN_MOVE) "}" ::"n"(n * apart), "n"((n + 1) * apart),
                 "n"((n + 2) * apart), "n"((n + 3) * apart), "n"(kSpread<n, columns, down, across>),
                 "n"(kSpread<n + 1, columns, down, across>), "n"(kSpread<n + 2, columns, down, across>),
                 "n"(kSpread<n + 3, columns, down, across>), "r"(from), "l"(to)
                 : "memory");
#undef QUERN_MOVE
    if constexpr (n + 4 < kCount) move_from<n + 4, columns, down, across, apart>(from, to);
  }
};

}  // namespace q

#undef QUERN_VECTOR
#undef QUERN_EACH_VECTOR
#undef QUERN_NUMBERS
