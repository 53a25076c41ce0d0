// Accumulators of a warpgroup's products, in registers that are numbered at compile time.
//
// WarpgroupSums<kFirst, kCount> holds elements 0 .. kCount - 1 of a thread, as wgmma of n = 2 kCount lays them out
// (common/sm90/layout.cuh). It is constructed at the beginning of the kernel, outside of every loop and branch, and
// passed on by reference. It takes the number kFirst and one more for each further group of 32 elements, whole or not;
// the numbers of a kernel's accumulators must differ. Initially they are undefined. All threads of the warpgroup must
// call:
//
//   multiply<A, B, a_major, b_major, count>(a, b, accumulate)
//                             wgmma of these matrix descriptors, of n = 2 count, to the first `count` elements (kCount
//                             where it is left out), asynchronous. `count` is 8 to 128 by 4
//
//   multiply_steps<A, B, b_major, b_bytes, first, count, fresh>(a, b)
//                             adds products of operand A in registers, an array of u32[steps][4]: of each step those
//                             of common/sm90/wgmma.cuh, with `b` b_bytes further on; to elements `first`, a multiple of
//                             32, to first + count - 1 (0 and kCount where they are left out); `count` is 4 to
//                             128 by 4. With `fresh` (false) the first step's take the place of what was there.
//                             Asynchronous
//
// Each thread by itself, while no product of these accumulators is in flight:
//
//   clear()                   sets all to zero
//   integers_to_f32()         of products of integers: sums become f32, which everything else takes them for
//   scale_rows(rows)          multiplies by rows[h] in row h of the thread's two
//   add<first>(part)          element first + i += element i of `part`; first is a multiple of 32
//   add_some<first, count>(part)  the same of the first `count` elements of `part`, a multiple of 4
//   add_scaled<first>(part, scale_of)
//                             the same times scale_of(i, h) in row h of the thread's two; called once for each half of
//                             a group and each row, i being the half's first element; not if the last group has 24
//                             elements
//   read<first>(x)            copies elements from `first` on, a multiple of the count, to an array of 2 or 8 f32
//   read_all(x)               copies all, to an array of as many, a multiple of 4
//   write<first>(x)           sets 8 elements from `first` on
//
// A group is elements 32 group .. 32 group + 31, or as many as are left, at least 16: 64 columns of a warp's 16 rows.
// All lanes of the warp must call:
//
//   scale<group>(columns)     multiplies by columns[c], in shared memory aligned to 8 bytes, in column c of the group
//   scale<group>(columns, rows)   multiplies by that and by rows[h] in row h of the thread's two
//   rotate<group>()           element i becomes what element i + 8 was; the first eight become the last
//   store<T, group>(box)      stores as T, f16 or bf16, to 16 rows of 128 bytes in shared memory, swizzled by 128
//                             bytes; `box` is a multiple of 1024
//
// On NVIDIA's GPUs they are PTX registers with names of their own, for the reason that common/registers/tile_sums.cuh
// gives.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/sm90/warpgroup.cuh"

#ifdef QUERN_NAMED_TILE_SUMS
#include "common/registers/warpgroup_sums_cuda.cuh"
#else

namespace q {

template <int kFirst, int kCount>
class WarpgroupSums {
 public:
  static constexpr int kElements = kCount;

  QUERN_DEVICE WarpgroupSums() {}
  WarpgroupSums(const WarpgroupSums&) = delete;
  WarpgroupSums& operator=(const WarpgroupSums&) = delete;

  template <class A, class B, Major a_major, Major b_major, int kUsed = kCount>
  QUERN_DEVICE void multiply(u64 a, u64 b, bool accumulate) {
    static_assert(kUsed <= kCount && kUsed >= 8 && kUsed % 4 == 0);
    wgmma<A, B, a_major, b_major>(reinterpret_cast<f32(&)[kUsed]>(x_), a, b, accumulate);
  }
  template <class A, class B, Major b_major, int b_bytes, int kFrom = 0, int kUsed = kCount, bool kFresh = false,
            int steps>
  QUERN_DEVICE void multiply_steps(const u32 (&a)[steps][4], u64 b) {
    static_assert(kFrom % 32 == 0 && kFrom + kUsed <= kCount);
    for (u32 i = 0; i < steps; ++i) {
      wgmma<A, B, Major::k, b_major>(reinterpret_cast<f32(&)[kUsed]>(x_[kFrom]), a[i], advanced(b, i * b_bytes),
                                     !kFresh || i > 0);
    }
  }
  QUERN_DEVICE void clear() {
    for (f32& x : x_) x = 0.0f;
  }
  QUERN_DEVICE void integers_to_f32() {
    for (f32& x : x_) x = static_cast<f32>(static_cast<i32>(bits_of(x)));
  }
  QUERN_DEVICE void scale_rows(const f32 (&rows)[2]) {
    for (int i = 0; i < kCount; ++i) x_[i] *= rows[i >> 1 & 1];
  }
  template <int first, class Part>
  QUERN_DEVICE void add(const Part& part) {
    add_some<first, Part::kElements>(part);
  }
  template <int first, int count, class Part>
  QUERN_DEVICE void add_some(const Part& part) {
    static_assert(first % 32 == 0 && first + count <= kCount && count <= Part::kElements && count % 4 == 0);
    for (int i = 0; i < count; ++i) x_[first + i] += part.x_[i];
  }
  template <int first, class Part, class ScaleOf>
  QUERN_DEVICE void add_scaled(const Part& part, const ScaleOf& scale_of) {
    static_assert(first % 32 == 0 && first + Part::kElements <= kCount && Part::kElements % 32 != 24);
    for (int i = 0; i < Part::kElements; ++i) {
      const int group = i / 32 * 32, left = Part::kElements - group, half = (left < 32 ? left : 32) / 2;
      x_[first + i] = fma(part.x_[i], scale_of(group + (i - group) / half * half, i >> 1 & 1), x_[first + i]);
    }
  }
  template <int first, int count>
  QUERN_DEVICE void read(f32 (&x)[count]) const {
    static_assert((count == 2 || count == 8) && first % count == 0);
    for (int i = 0; i < count; ++i) x[i] = x_[first + i];
  }
  QUERN_DEVICE void read_all(f32 (&x)[kCount]) const {
    for (int i = 0; i < kCount; ++i) x[i] = x_[i];
  }
  template <int first>
  QUERN_DEVICE void write(const f32 (&x)[8]) {
    static_assert(first % 8 == 0);
    for (int i = 0; i < 8; ++i) x_[first + i] = x[i];
  }
  template <int group>
  QUERN_DEVICE void scale(const f32* columns) {
    for (int i = 0; i < size_of<group>(); ++i) x_[group * 32 + i] *= columns[wgmma_column(lane(), i)];
  }
  template <int group>
  QUERN_DEVICE void scale(const f32* columns, const f32 (&rows)[2]) {
    for (int i = 0; i < size_of<group>(); ++i)
      x_[group * 32 + i] *= rows[i >> 1 & 1] * columns[wgmma_column(lane(), i)];
  }
  template <int group>
  QUERN_DEVICE void rotate() {
    f32 before[32];
    for (int i = 0; i < size_of<group>(); ++i) before[i] = x_[group * 32 + i];
    for (int i = 0; i < size_of<group>(); ++i) x_[group * 32 + i] = before[(i + 8) % size_of<group>()];
  }
  template <class T, int group>
  QUERN_DEVICE void store(u8* box) const {
    const int l = lane();
    for (int first = 0; first < size_of<group>(); first += 8) {
      const f32* x = x_ + group * 32 + first;
      const u32 packed[4] = {pack<T>(x[0], x[1]), pack<T>(x[2], x[3]), pack<T>(x[4], x[5]), pack<T>(x[6], x[7])};
      store_matrix<false>(box + l % 16 * 128 + ((first / 4 + l / 16 ^ l % 8) << 4), packed);
    }
  }

 private:
  template <int, int>
  friend class WarpgroupSums;

  template <int group>
  static constexpr int size_of() {
    constexpr int kLeft = kCount - group * 32;
    static_assert(kLeft >= 16 && kLeft % 8 == 0);
    return kLeft < 32 ? kLeft : 32;
  }

  f32 x_[kCount];
};

}  // namespace q

#endif
