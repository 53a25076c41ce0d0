// Places in shared memory that loops return to: each is computed once, and constants are added to it.
//
//   SharedPlace(p)                        of dynamic_shared() or beyond; place + bytes
//   copy_async_16(place, global, take)    and copy_async_4: as those to a pointer
//   count_one(place)                      adds 1 to the u32 there, atomically among the block's threads
//   ReaderOfA<T, pitch, transposed>(tile) and ReaderOfB: of tiles around `tile` whose rows are `pitch` elements apart.
//                                         A reader loads the operand of the tile so many `bytes` further on, as load_a,
//                                         load_b and the transposed ones load it, for NumberedOperands
//                                         (common/registers/numbered_operands.cuh); reader + bytes is that of a tile
//                                         there
//   SwizzledReaderOfA<T>(tile)            and SwizzledReaderOfB: of rows of 128 bytes with a swizzle of 128 bytes, as
//                                         TMA copies leave them; `tile` and what is added are multiples of 1024 bytes.
//                                         Loads the operand of tensor-core step `step`, 0 to 3, so many `bytes` further
//                                         on
//
// On NVIDIA's GPUs a place is an address of 32 bits that the compiler cannot take apart. From pointers it would compute
// each address anew, beginning with the shared window: a third of a product's instructions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/kernel.cuh"

#ifdef QUERN_SHARED_ADDRESSES
#include "common/portable/shared_place_cuda.cuh"
#else

namespace q {

struct SharedPlace {
  u8* at;
  QUERN_DEVICE explicit SharedPlace(u8* p) : at(p) {}
  QUERN_DEVICE SharedPlace operator+(i32 bytes) const { return SharedPlace(at + bytes); }
};
QUERN_DEVICE void copy_async_16(SharedPlace to, const void* global, bool take) { copy_async_16(to.at, global, take); }
QUERN_DEVICE void copy_async_4(SharedPlace to, const void* global, bool take) { copy_async_4(to.at, global, take); }
QUERN_DEVICE void count_one(SharedPlace at) { atomic_add(reinterpret_cast<u32*>(at.at), 1u); }

template <class T, int pitch, bool transposed, bool of_b>
struct Reader {
  SharedPlace tile;
  QUERN_DEVICE explicit Reader(SharedPlace at) : tile(at) {}
  QUERN_DEVICE Reader operator+(i32 bytes) const { return Reader(tile + bytes); }
  QUERN_DEVICE auto read(i32 bytes) const {
    const T* from = reinterpret_cast<const T*>(tile.at + bytes);
    if constexpr (of_b && transposed) {
      return load_b_transposed(from, pitch);
    } else if constexpr (of_b) {
      return load_b(from, pitch);
    } else if constexpr (transposed) {
      return load_a_transposed(from, pitch);
    } else {
      return load_a(from, pitch);
    }
  }
};

template <class T, bool of_b>
struct SwizzledReader {
  SharedPlace tile;
  QUERN_DEVICE explicit SwizzledReader(SharedPlace at) : tile(at) {}
  QUERN_DEVICE SwizzledReader operator+(i32 bytes) const { return SwizzledReader(tile + bytes); }
  QUERN_DEVICE auto read(i32 step, i32 bytes) const {
    constexpr i32 kRows = 16, kPieces = 2;  // of 16 bytes
    vec16 rows[kRows][kPieces];
    for (i32 row = 0; row < kRows; ++row) {
      for (i32 piece = 0; piece < kPieces; ++piece)
        rows[row][piece] = load16(tile.at + bytes + row * 128 + ((kPieces * step + piece) ^ (row & 7)) * 16);
    }
    const T* from = reinterpret_cast<const T*>(rows);
    if constexpr (of_b) {
      return load_b(from, kTileK<T>);
    } else {
      return load_a(from, kTileK<T>);
    }
  }
};

}  // namespace q

#endif

namespace q {

template <class T, int pitch, bool transposed>
using ReaderOfA = Reader<T, pitch, transposed, false>;
template <class T, int pitch, bool transposed>
using ReaderOfB = Reader<T, pitch, transposed, true>;
template <class T>
using SwizzledReaderOfA = SwizzledReader<T, false>;
template <class T>
using SwizzledReaderOfB = SwizzledReader<T, true>;

}  // namespace q
