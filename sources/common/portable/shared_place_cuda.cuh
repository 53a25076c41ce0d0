// Places in shared memory on NVIDIA's GPUs: a reader's place includes the lane's offset.
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
QUERN_DEVICE void count_one(SharedPlace at) { asm volatile("red.shared.add.u32 [%0], 1;" ::"r"(at.at) : "memory"); }

// How operands are loaded: as matrices of 16-byte rows, as such matrices with k going down (transposed), or word by
// word.
enum class Reads { matrices, matrices_transposed, words };

// Where a lane reads, in elements from the tile's beginning: at row `line` and k, or transposed.
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
  QUERN_DEVICE u32 address(i32 bytes) const { return at_ + static_cast<u32>(bytes); }
  static constexpr Reads kReads = !transposed      ? Reads::matrices
                                  : sizeof(T) == 4 ? Reads::words
                                                   : Reads::matrices_transposed;
  // Bytes to word i of an operand that is read word by word. In a the rows come first, in b the k.
  static QUERN_DEVICE constexpr i32 word(i32 i) {
    const i32 k = 4 * (of_b ? i & 1 : i >> 1), line = 8 * (of_b ? i >> 1 : i & 1);
    return (k * pitch + line) * 4;
  }

 private:
  u32 at_;
};

// A swizzled row has piece number i of 16 bytes at i ^ the row's last three bits. So another tensor-core step is
// reached by ^, other rows and stages by +.
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
  QUERN_DEVICE u32 address(i32 step, i32 bytes) const {
    return (at_ ^ static_cast<u32>(step * 32)) + static_cast<u32>(bytes);
  }
  static constexpr Reads kReads = Reads::matrices;

 private:
  u32 at_;
};

}  // namespace q
