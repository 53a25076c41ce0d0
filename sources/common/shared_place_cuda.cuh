// Places in shared memory on NVIDIA's GPUs: a reader's has the lane's part of the addresses in it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/kernel.cuh"

namespace q {

struct SharedPlace {
  u32 at;
  QUERN_DEVICE explicit SharedPlace(const void* p) : SharedPlace(shared_address(p)) { asm volatile("" : "+r"(at)); }
  QUERN_DEVICE explicit SharedPlace(u32 address) : at(address) {}
  QUERN_DEVICE SharedPlace operator+(i32 bytes) const { return SharedPlace(at + static_cast<u32>(bytes)); }
};
QUERN_DEVICE void copy_async_16(SharedPlace to, const void* global, bool take) { copy_async_16(to.at, global, take); }
QUERN_DEVICE void copy_async_4(SharedPlace to, const void* global, bool take) { copy_async_4(to.at, global, take); }

QUERN_DEVICE u32 load_shared(u32 address) {
  u32 v;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(address) : "memory");
  return v;
}

template <class T, bool of_b>
struct ReadOperand {
  using Type = OperandA<T>;
};
template <class T>
struct ReadOperand<T, true> {
  using Type = OperandB<T>;
};

// Where a lane reads, in elements from the tile's beginning on: rows `line` and k, or the other way round.
template <class T, int pitch, bool transposed, bool of_b>
class Reader {
 public:
  QUERN_DEVICE explicit Reader(SharedPlace tile) : at_(tile.at) {
    const int l = lane();
    int element;
    if constexpr (transposed && sizeof(T) == 4) {
      element = (l & 3) * pitch + (l >> 2);
    } else if constexpr (transposed != of_b) {
      element = ((l & 7) + ((l >> 4) << 3)) * pitch + ((l >> 3) & 1) * static_cast<int>(16 / sizeof(T));
    } else {
      element = (l & 15) * pitch + (l >> 4) * static_cast<int>(16 / sizeof(T));
    }
    at_ += static_cast<u32>(element) * static_cast<u32>(sizeof(T));
    asm volatile("" : "+r"(at_));
  }
  QUERN_DEVICE Reader operator+(i32 bytes) const {
    Reader r = *this;
    r.at_ += static_cast<u32>(bytes);
    return r;
  }
  QUERN_DEVICE auto read(i32 bytes) const {
    const u32 from = at_ + static_cast<u32>(bytes);
    typename ReadOperand<T, of_b>::Type r;
    if constexpr (transposed && sizeof(T) == 4) {
      // Of a, rows come first; of b, k.
      QUERN_UNROLL for (int i = 0; i < 4; ++i) {
        const int k = 4 * (of_b ? i & 1 : i >> 1), line = 8 * (of_b ? i >> 1 : i & 1);
        r.x[i] = load_shared(from + static_cast<u32>((k * pitch + line) * 4));
      }
    } else if constexpr (transposed) {
      load_matrices_transposed(r.x, from);
    } else {
      load_matrices(r.x, from);
    }
    return r;
  }

 private:
  u32 at_;
};

// Pieces of 16 bytes lie at their number ^ the row's last three bits: another step's are found by ^, other rows' and stages' by +.
template <class T, bool of_b>
class SwizzledReader {
 public:
  QUERN_DEVICE explicit SwizzledReader(SharedPlace tile) {
    const int l = lane(), row = of_b ? (l & 7) + ((l >> 4) << 3) : l & 15, piece = of_b ? (l >> 3) & 1 : l >> 4;
    at_ = tile.at + static_cast<u32>(row * 128 + (piece ^ (l & 7)) * 16);
    asm volatile("" : "+r"(at_));
  }
  QUERN_DEVICE SwizzledReader operator+(i32 bytes) const {
    SwizzledReader r = *this;
    r.at_ += static_cast<u32>(bytes);
    return r;
  }
  QUERN_DEVICE auto read(i32 step, i32 bytes) const {
    typename ReadOperand<T, of_b>::Type r;
    load_matrices(r.x, (at_ ^ static_cast<u32>(step * 32)) + static_cast<u32>(bytes));
    return r;
  }

 private:
  u32 at_;
};

}  // namespace q
