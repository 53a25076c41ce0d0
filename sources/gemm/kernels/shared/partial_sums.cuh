// A slice of a tile's rows, staged in shared memory, on its way to the workspace and back where blocks share the tile.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/registers/numbered_vectors.cuh"
#include "gemm/kernels/shared/stream_k.cuh"
#include "gemm/kernels/shared/store.cuh"

namespace q {

// The slice as threads have it: each so many rows and columns, of four sums, apart; some of them none, where there are more threads.
class SliceOfThread {
  static constexpr i32 kFour = 4, kAcross = 16, kDown = kThreads / kAcross;
  static constexpr bool kIdle = kDown > kSliceRows;
  static constexpr i32 kRows = kIdle ? 1 : kSliceRows / kDown, kColumns = kTileN / (kAcross * kFour);
  static_assert((kIdle || kRows * kDown == kSliceRows) && kColumns * kAcross * kFour == kTileN);
  static constexpr i32 kHeld = kRows * kColumns;
  static constexpr i32 kLines = kIdle ? kSliceRows : kDown;  // rows that are one apart
  static constexpr i64 kSlot = static_cast<i64>(kTileM) * kTileN;
  // Little is read from several places at once: each answers after a microsecond.
  static constexpr i32 kAtOnce = kHeld < 4 ? 4 / kHeld : 1;
  static constexpr bool kFours = kHeld % 4 == 0;  // in named registers
  static constexpr i32 kDownward = kLines * kStagedPitch, kAcrossward = kAcross * kFour, kApart = kLines * kAcross * kFour;

 public:
  // What is gathered, if it is by fours.
  using Vectors = NumberedVectors<kFours ? kHeld : 4>;

  QUERN_DEVICE SliceOfThread(const GemmParams& p, f32* staged, i32 slice)
      : staged_(staged + thread_index() / kAcross * kStagedPitch + thread_index() % kAcross * kFour),
        slots_(p.partials + slice * (kSliceRows * kTileN) + thread_index() * kFour) {}
  QUERN_DEVICE void leave(i64 slot) const {
    if (idle()) return;
    f32* to = slots_ + slot * kSlot;
    if constexpr (kFours) {
      Vectors::template move<kColumns, kDownward, kAcrossward, kApart>(staged_, to);
    } else {
      QUERN_UNROLL for (i32 i = 0; i < kHeld; ++i) store16(to + i * kApart, load16(place(i)));
    }
  }
  // Adds up what was left, in the order of the steps.
  QUERN_DEVICE void gather(const SharingBlocks& sharing_blocks, Vectors& sums) const {
    if (idle()) return;
    if constexpr (kFours) {
      sums.clear();
      QUERN_ROLLED for (i32 block = sharing_blocks.first; block <= sharing_blocks.last; ++block) {
        sums.template add<kApart>(slots_ + sharing_blocks.slot_of(block) * kSlot);
      }
      sums.template store<kColumns, kDownward, kAcrossward>(staged_);
    } else {
      gather_as_values(sharing_blocks);
    }
  }
  // Adds to it the `count` - 1 that lie behind it, `apart` floats from one to the next, in their order.
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
  QUERN_DEVICE void gather_as_values(const SharingBlocks& sharing_blocks) const {
    vec16 sums[kHeld]{};
    QUERN_ROLLED for (i32 block = sharing_blocks.first; block <= sharing_blocks.last; block += kAtOnce) {
      const i32 left = sharing_blocks.last - block;
      vec16 v[kAtOnce][kHeld];
      QUERN_UNROLL for (i32 there = 0; there < kAtOnce; ++there) {
        const f32* from = slots_ + sharing_blocks.slot_of(block + (there < left ? there : left)) * kSlot;
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
    QUERN_UNROLL for (i32 e = 0; e < kFour; ++e) sum.x[e] = bits_of(f32_of(sum.x[e]) + f32_of(v.x[e]));
  }
  QUERN_DEVICE f32* place(i32 i) const { return staged_ + i / kColumns * kDownward + i % kColumns * kAcrossward; }
  f32 *staged_, *slots_;
};

}  // namespace q
