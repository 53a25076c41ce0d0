// Tiles that the blocks of a cluster share: each sums some of the k steps into its own shared memory, and then finishes some of the
// rows, for which it adds up the sums of all of them in the order of the steps. So the result does not depend on who was faster,
// and no sums go through global memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/hopper.cuh"
#include "gemm/operand.cuh"
#include "gemm/tile.cuh"

namespace q {

// The pieces of `tiles` that are one block's.
template <class Tiles>
class Parts {
 public:
  QUERN_DEVICE Parts(const Tiles& tiles, i32 part, i32 parts) : tiles_(tiles), part_(part), parts_(parts) {}
  QUERN_DEVICE bool next(Work& work) {
    if (!tiles_.next(work)) return false;
    const i32 steps = work.last_step;
    work.first_step = steps * part_ / parts_;
    work.last_step = steps * (part_ + 1) / parts_;
    return true;
  }

 private:
  Tiles tiles_;
  i32 part_, parts_;
};

struct ExchangeBarriers {
  Mbarrier written, read;  // by every warp of every block
};

// Sums change hands: `staged` of every block is written, then read by all, then free again.
template <i32 warps>
class Exchange {
 public:
  static QUERN_DEVICE void init(ExchangeBarriers& barriers) {
    mbarrier_init(barriers.written, cluster_size() * warps);
    mbarrier_init(barriers.read, cluster_size() * warps);
  }
  QUERN_DEVICE explicit Exchange(ExchangeBarriers& barriers)
      : barriers_(barriers), part_(static_cast<i32>(cluster_rank())), parts_(static_cast<i32>(cluster_size())) {}

  QUERN_DEVICE i32 part() const { return part_; }
  QUERN_DEVICE i32 parts() const { return parts_; }
  // Before this block's are written, and before it returns.
  QUERN_DEVICE void wait_until_read() {
    if (parts_ > 1) {
      mbarrier_wait_cluster(barriers_.read, phase_ ^ 1);
    } else {
      sync_named(kBarrier, warps * kWarp);
    }
  }
  // This block's are written: until all are.
  QUERN_DEVICE void wait_until_written() {
    if (parts_ > 1) {
      arrive(barriers_.written);
      mbarrier_wait_cluster(barriers_.written, phase_);
    } else {
      sync_named(kBarrier, warps * kWarp);
    }
  }
  QUERN_DEVICE void release() {
    if (parts_ > 1) arrive(barriers_.read);
    phase_ ^= 1;
  }
  // Eight sums, of which every block has a part at this place.
  QUERN_DEVICE Eight sum(const f32* place) const {
    if (parts_ == 1) return load_eight(place);
    Eight sums{};
    // Some at a time, so that their loads overlap.
    QUERN_ROLLED for (i32 first = 0; first < parts_; first += kAtOnce) {
      vec16 v[kAtOnce][2];
      QUERN_UNROLL for (i32 i = 0; i < kAtOnce; ++i) {
        if (first + i < parts_) {
          const u32 there = cluster_address(place, static_cast<u32>(first + i));
          v[i][0] = load_cluster<vec16>(there), v[i][1] = load_cluster<vec16>(there + 16);
        }
      }
      QUERN_UNROLL for (i32 i = 0; i < kAtOnce; ++i) {
        if (first + i < parts_) {
          QUERN_UNROLL for (i32 e = 0; e < kEight; ++e) sums.x[e] += f32_of(v[i][e / 4].x[e % 4]);
        }
      }
    }
    return sums;
  }

 private:
  static constexpr i32 kBarrier = 1, kAtOnce = 3;
  QUERN_DEVICE void arrive(Mbarrier& barrier) const {
    sync_warp();
    if (lane() < parts_) mbarrier_arrive_remote(barrier, static_cast<u32>(lane()));
  }

  ExchangeBarriers& barriers_;
  i32 part_, parts_;
  u32 phase_ = 0;
};

}  // namespace q
