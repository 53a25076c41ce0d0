// The blocks of a cluster among themselves: addresses of each other's shared memory, stores there, their barrier.
// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "jit/host/hopper_calls.h"

namespace quern::jit::host {

// What this block has written to its own and others' shared memory, for the cluster to see.
void HopperCalls::release_block() {
  Runner& r = *runner;
  r.mbarriers_.fence(r.current_, Mbarriers::kOtherBlocks);
  if (r.cluster_blocks_ == 1 || !r.grid_.seeded) return;
  const std::uint32_t shown = std::exchange(r.stored_to_[block()], 0) | 1u << block();
  for (std::uint32_t b = 0; b < r.cluster_blocks_; ++b)
    if ((shown >> b & 1) != 0) r.released_view_.show(b);
}

unsigned HopperCalls::cluster_address(const void* shared, unsigned rank) {
  return (live_block("cluster_address", rank) + 1) << kRankShift | offset_of("cluster_address", shared, 0, 1);
}

void* HopperCalls::cluster_pointer(unsigned address, unsigned bytes, unsigned reads) {
  constexpr const char* kWhat = "a cluster address";
  Runner& r = *runner;
  r.reschedule();
  const Place place = place_of(kWhat, address, bytes);
  if (place.rank == block() || !r.grid_.seeded) return place.at;
  const auto at = static_cast<std::uint32_t>(place.at - r.windows_[place.rank].shared);
  std::uint32_t where = 0;
  if (reads == 0) {
    r.stored_to_[block()] |= 1u << place.rank;
  } else if (!r.released_view_.sees(place.rank, at, bytes, &where)) {
    r.fail([&] {
      return std::string(kWhat) + ": it reads shared address " + hex(where) + " of rank " + std::to_string(place.rank) +
             ", which that block has written since it last released its memory to the cluster, by "
             "mbarrier_arrive_remote or cluster_arrive, and need not see it";
    });
  }
  return place.at;
}

void HopperCalls::store_async(unsigned address, const void* value, unsigned bytes, unsigned barrier) {
  constexpr const char* kWhat = "store_async";
  Runner& r = *runner;
  const Place to = place_of(kWhat, address, bytes), counts = place_of(kWhat, barrier, 8);
  if (to.rank != counts.rank) {
    r.fail([&] {
      return std::string(kWhat) + ": it goes to the block of rank " + std::to_string(to.rank) +
             " and counts on a barrier of that of rank " + std::to_string(counts.rank) + "; allowed is the same block";
    });
  }
  if (to.rank == block()) {
    r.fail([&] {
      return std::string(kWhat) + ": it goes to the block that it comes from, of rank " + std::to_string(to.rank) +
             "; allowed is another of the cluster";
    });
  }
  check(kWhat, counts.at, r.mbarriers_.check(counts.at));
  check(kWhat, counts.at, r.mbarriers_.reach(counts.at, Mbarriers::kOtherBlocks));
  check(kWhat, counts.at,
        r.remote_stores_.store(to.at, value, bytes, counts.at, r.current_, __builtin_return_address(0)));
  r.wake();
  r.reschedule();
}

void HopperCalls::cluster_arrive(unsigned relaxed) {
  Runner& r = *runner;
  Runner::Standing& mine = r.standing_[r.current_];
  Runner::ClusterBarrier& b = r.cluster_barrier_;
  if (mine.arrived) r.fail("cluster_arrive twice without a cluster_wait between");
  mine.arrived = true;
  mine.phase = b.phase;
  if (relaxed == 0) {
    release(&b.order[b.phase]);
    release_block();
  }
  ++b.arrived;
  r.complete_cluster_barrier();
  r.reschedule();
}

void HopperCalls::cluster_wait() {
  Runner& r = *runner;
  Runner::Standing& mine = r.standing_[r.current_];
  if (!mine.arrived) r.fail("cluster_wait without a cluster_arrive before it");
  while (r.cluster_barrier_.phase == mine.phase) r.wait(Wait::cluster, 0);
  acquire(&r.cluster_barrier_.order[mine.phase]);
  mine.arrived = false;
}

void Runner::complete_cluster_barrier() {
  ClusterBarrier& b = cluster_barrier_;
  if (b.arrived == 0 || b.arrived != b.live) return;
  b.arrived = 0;
  b.phase ^= 1;
  for_each_slot([&](std::uint32_t slot, std::uint32_t, std::uint32_t) {
    if (fibers_[slot].wait == Wait::cluster) make_runnable(fibers_[slot].warp, 1ULL << views_[slot].lane);
  });
}

}  // namespace quern::jit::host
