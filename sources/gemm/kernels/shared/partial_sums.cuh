// Partial sums in the workspace, where several blocks of threads contribute to a tile: they are written from and read
// back to a slice of the tile's rows that is staged in shared memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/registers/numbered_vectors.cuh"
#include "gemm/kernels/shared/store.cuh"
#include "gemm/kernels/shared/stream_k.cuh"

namespace q {

// How the threads divide a staged slice: each has vectors of four neighbouring sums, kDown rows and kAcross vectors
// apart. Where the slice is small some threads have none.
class SliceOfThread {
  static constexpr i32 kVector = 4, kAcross = 16, kDown = kThreads / kAcross;
  static constexpr bool kIdle = kDown > kSliceRows;
  static constexpr i32 kRows = kIdle ? 1 : kSliceRows / kDown, kColumns = kTileN / (kAcross * kVector);
  static_assert((kIdle || kRows * kDown == kSliceRows) && kColumns * kAcross * kVector == kTileN);
  static constexpr i32 kHeld = kRows * kColumns;
  static constexpr i32 kLines = kIdle ? kSliceRows : kDown;  // rows that lie next to each other among the threads
  static constexpr i64 kSlot = static_cast<i64>(kTileM) * kTileN;
  // A thread with few vectors reads those of several blocks at once, since each read takes about a microsecond.
  static constexpr i32 kAtOnce = kHeld < 4 ? 4 / kHeld : 1;
  static constexpr bool kNumbered = kHeld % 4 == 0;  // summed in numbered registers
  static constexpr i32 kDownward = kLines * kStagedPitch, kAcrossward = kAcross * kVector,
                       kApart = kLines * kAcross * kVector;

 public:
  // The registers that gather() sums in.
  using Vectors = NumberedVectors<kNumbered ? kHeld : 4>;

  QUERN_DEVICE SliceOfThread(const GemmParams& p, f32* staged, i32 slice)
      : staged_(staged + thread_index() / kAcross * kStagedPitch + thread_index() % kAcross * kVector),
        slots_(p.partials + slice * (kSliceRows * kTileN) + thread_index() * kVector) {}
  QUERN_DEVICE void write_partial(i64 slot) const {
    if (idle()) return;
    f32* to = slots_ + slot * kSlot;
    if constexpr (kNumbered) {
      Vectors::template move<kColumns, kDownward, kAcrossward, kApart>(staged_, to);
    } else {
      QUERN_UNROLL for (i32 i = 0; i < kHeld; ++i) store16(to + i * kApart, load16(place(i)));
    }
  }
  // Sums the contributions of all blocks, in the order of their k blocks, into the staged slice.
  QUERN_DEVICE void gather(const Contributors& contributors, Vectors& sums) const {
    if (idle()) return;
    if constexpr (kNumbered) {
      sums.clear();
      QUERN_ROLLED for (i32 block = contributors.first; block <= contributors.last; ++block) {
        sums.template add<kApart>(slots_ + contributors.slot_of(block) * kSlot);
      }
      sums.template store<kColumns, kDownward, kAcrossward>(staged_);
    } else {
      gather_as_values(contributors);
    }
  }
  // Adds to the staged slice the `count` - 1 slices that follow it, `apart` floats from one to the next, in their
  // order.
  template <i32 count, i32 apart>
  QUERN_DEVICE void add_up() const {
    if (idle()) return;
    QUERN_UNROLL for (i32 i = 0; i < kHeld; ++i) {
      vec16 sum = load16(place(i));
      QUERN_UNROLL for (i32 n = 1; n < count; ++n) add(sum, load16(place(i) + n * apart));
      store16(place(i), sum);
    }
  }

 private:
  QUERN_DEVICE void gather_as_values(const Contributors& contributors) const {
    vec16 sums[kHeld]{};
    QUERN_ROLLED for (i32 block = contributors.first; block <= contributors.last; block += kAtOnce) {
      const i32 left = contributors.last - block;
      vec16 v[kAtOnce][kHeld];
      QUERN_UNROLL for (i32 there = 0; there < kAtOnce; ++there) {
        const f32* from = slots_ + contributors.slot_of(block + (there < left ? there : left)) * kSlot;
        QUERN_UNROLL for (i32 i = 0; i < kHeld; ++i) v[there][i] = load16(from + i * kApart);
      }
      QUERN_UNROLL for (i32 there = 0; there < kAtOnce; ++there) {
        if (there <= left) {
          QUERN_UNROLL for (i32 i = 0; i < kHeld; ++i) add(sums[i], v[there][i]);
        }
      }
    }
    QUERN_UNROLL for (i32 i = 0; i < kHeld; ++i) store16(place(i), sums[i]);
  }
  static QUERN_DEVICE bool idle() { return kIdle && thread_index() >= kSliceRows * kAcross; }
  static QUERN_DEVICE void add(vec16& sum, const vec16& v) {
    QUERN_UNROLL for (i32 e = 0; e < kVector; ++e) sum.x[e] = bits_of(f32_of(sum.x[e]) + f32_of(v.x[e]));
  }
  QUERN_DEVICE f32* place(i32 i) const { return staged_ + i / kColumns * kDownward + i % kColumns * kAcrossward; }
  f32 *staged_, *slots_;
};

}  // namespace q
