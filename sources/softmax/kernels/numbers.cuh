// What the ops on rows of logits have in common: temperatures, statuses, and sums over a row's blocks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/exponential.cuh"
#include "common/reduce.cuh"
#include "softmax/kernels/slice.cuh"

namespace q {

// enum quern_sample_status
enum RowStatus : u32 { kRowEmpty = 1, kRowNan = 2, kRowParameter = 4, kRowIndex = 8 };

// 1 / temperature, finite, so that 0 times it is 0.
QUERN_DEVICE f32 inverse_temperature(f32 temperature) { return fmin(rcp(fmax(temperature, 0x1p-100f)), 0x1p100f); }
QUERN_DEVICE bool is_temperature(f32 t) { return t >= 0.0f && t < infinity(); }

// A token's place in its row's order: the logit as a key that orders as numbers do, above the complement of the index.
// No two are equal, and of equal logits the lowest index is the largest. 0 is no token's.
QUERN_DEVICE u32 key_of_number(f32 x) {
  const u32 bits = bits_of(x + 0.0f);  // -0 becomes 0: they are equal
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
QUERN_DEVICE f32 number_of_key(u32 key) { return f32_of(key & 0x80000000u ? key & 0x7fffffffu : ~key); }
QUERN_DEVICE u64 place_of_number(f32 x, i32 index) {
  return static_cast<u64>(key_of_number(x)) << 32 | static_cast<u32>(~index);
}
inline constexpr u64 kLeastPlace = u64{1} << 32;  // all that is a number lies above
QUERN_DEVICE i32 index_of_place(u64 place) { return static_cast<i32>(~static_cast<u32>(place)); }

// What the blocks of a row tell each other.
template <class T>
struct RowSlots {
  T* slots;    // [kMostRowBlocks] in shared memory
  T* scratch;  // [kWarps]

  // `op` over all threads of all blocks, in one order. All barriers of the row's are in it; another use of the same
  // slots needs one sync_row() more in between, or another set of them.
  template <class Op>
  QUERN_DEVICE T reduce(T v, Op op) const {
    v = block_reduce<kThreads>(v, op, scratch);
    const i32 blocks = row_blocks();
    if (thread_index() < blocks) tell(slots + row_block(), thread_index(), v);
    sync_row();
    v = slots[0];
    QUERN_ROLLED for (i32 b = 1; b < blocks; ++b) v = op(v, slots[b]);
    return v;
  }
};

}  // namespace q
