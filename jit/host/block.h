// Runs the clusters of a grid, one after the other, on one CPU thread: a fiber for each GPU thread, and all that makes
// one wait for another. A launch without clusters has clusters of one block.
//
// A fiber runs until it must wait; the next one is then chosen and switched to directly. In a fair run that is the next
// lane of the same warp, then the next warp. In a seeded run the warp of highest priority goes first, priorities being
// drawn anew now and then: a warp may run far ahead of another, which is what shows a missing barrier.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "jit/host/arena.h"
#include "jit/host/async.h"
#include "jit/host/bulk.h"
#include "jit/host/fiber.h"
#include "jit/host/late.h"
#include "jit/host/mbarriers.h"
#include "jit/host/products.h"
#include "jit/host/random.h"
#include "jit/host/registers.h"
#include "jit/host/remote_stores.h"
#include "jit/host/sanitizer.h"
#include "jit/host/shared_view.h"
#include "sources/common/portable/host_abi.cuh"

namespace quern::jit::host {

inline constexpr std::uint32_t kMaxThreads = 1024;  // of a block
inline constexpr std::uint32_t kMaxBlockWarps = kMaxThreads / 32;
inline constexpr std::uint32_t kMaxBlocks = 16;  // of a cluster
inline constexpr std::uint32_t kMaxWarps = 64;   // of a cluster
inline constexpr std::uint32_t kMaxSlots = 2048;
inline constexpr std::uint32_t kMaxLanes = 64;
inline constexpr std::uint32_t kBarriers = 16;  // 0 is the block's

// A kernel of a loaded image.
struct Program {
  std::uint64_t image = 0;  // a number no other has
  const q::host::Kernel* kernel = nullptr;
  q::host::Module module{};
  std::uint64_t placed_bytes = 0;  // Arena
  std::uint64_t static_bytes = 0;
  std::uint32_t max_dynamic_bytes = 0;
  std::string name;
};

struct Grid {
  const Program* program;
  void** args;
  std::uint32_t blocks[3];
  std::uint32_t cluster[3];  // blocks, a divisor of `blocks` each way
  std::uint32_t dynamic_bytes;
  bool seeded;
  std::uint64_t seed;
  bool programmatic;  // it may begin before the launch in front of it has ended
  Late* late;         // what that may be writing; null: nothing is known of it
};

// What a fiber waits for; report.cpp has the words. From `warp` to `elect`: the other lanes of its warp.
enum class Wait : std::uint8_t {
  nothing,
  block,
  named,
  warp,
  shuffle,
  ballot,
  mma,
  load_matrix,
  store_matrix,
  wgmma,
  registers,
  elect,
  mbarrier,         // a phase of a barrier in shared memory
  products,         // the other warps of its warpgroup
  grown_registers,  // registers that other warps give up
  cluster,
  returned
};

const q::host::Table& table();

class Runner {
 public:
  explicit Runner(std::uint32_t warp_size) : warp_size_(warp_size) {}
  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  // Readies stacks and shared memory. Throws std::bad_alloc.
  void begin_grid(const Grid& grid);
  // Runs the cluster whose first block this is. Empty, or what went wrong: a sentence that names block, threads and
  // what they wait for.
  std::string run(std::uint32_t x, std::uint32_t y, std::uint32_t z);
  // Whether a thread of the grid, as far as it was run here, has called wait_for_previous_grid.
  bool has_waited() const { return has_waited_; }

 private:
  friend struct Calls;  // the functions of the table
  friend struct HopperCalls;

  struct Fiber {
    Suspended suspended = nullptr;
    Watched watched;
    Wait wait = Wait::nothing;
    std::uint8_t barrier = 0;  // its number, or the phase of one in shared memory
    std::uint8_t warp = 0;     // of the cluster
    std::uint8_t block = 0;    // of the cluster
  };
  struct Warp {
    std::uint64_t all = 0;       // its lanes
    std::uint64_t runnable = 0;  // of which these could go on
    std::uint64_t arrived = 0;   // in the collective under way
    std::uint64_t votes = 0;
    std::uint64_t ballot[2] = {};  // those indexed by `parity` serve two collectives in a row: a lane that has
    std::uint64_t value[2][kMaxLanes] = {};  // not yet fetched the one's result and a lane already in the next
    void* brought[kMaxLanes] = {};
    char order[2] = {};  // addresses that a race detector's ordering is tied to
    std::uint8_t parity = 0;
    Wait collective = Wait::nothing;
  };
  struct Barrier {
    std::uint64_t arrived[kMaxBlockWarps] = {};  // and wait
    std::uint32_t count = 0;
    std::uint32_t expected = 0;
    char order[2] = {};
    std::uint8_t parity = 0;
  };
  // Of all threads of the cluster, in two halves.
  struct ClusterBarrier {
    std::uint32_t arrived = 0;
    std::uint32_t live = 0;  // threads that have not returned
    char order[2] = {};
    std::uint8_t phase = 0;
  };
  // A thread's part in that, and where it waits.
  struct Standing {
    const void* mbarrier = nullptr;
    bool arrived = false;  // at the cluster's barrier, and has not waited since
    std::uint8_t phase = 0;
  };
  static constexpr std::uint32_t kNone = ~0u;

  static void fiber_main();

  void lay_out_cluster();
  // What asynchronous work the kernel has left behind, as a sentence; empty when none.
  std::string unfinished();
  void start_cluster(std::uint32_t x, std::uint32_t y, std::uint32_t z);
  std::uint32_t pick();
  std::uint32_t pick_fair(std::uint32_t after) const;
  std::uint32_t pick_seeded(bool any_lane);
  // A fiber's number, its slot, counts through the cluster; a block's last warp takes up whole warps of them.
  std::uint32_t index_of(std::uint32_t warp, std::uint32_t lane) const { return warp * warp_size_ + lane; }
  template <class Visit>
  void for_each_slot(Visit visit) const {
    for (std::uint32_t b = 0; b < cluster_blocks_; ++b) {
      for (std::uint32_t t = 0; t < threads_; ++t) visit(b * block_slots_ + t, b, t);
    }
  }
  // What was written before a fence is seen from then on. It is shown once for the lanes of a warp, before any other
  // warp goes on, a barrier opens or somebody looks.
  void show_fenced() {
    if (fenced_ != kNone) async_view_.show(std::exchange(fenced_, kNone) / warps_);
  }
  void switch_to(std::uint32_t next);
  void leave_for_thread(bool for_ever);
  void make_runnable(std::uint32_t warp, std::uint64_t lanes);
  void wait(Wait what, std::uint32_t barrier);
  void reschedule();
  void yield();
  [[noreturn]] void finish_fiber();
  // Counts this thread at a barrier of its block, and waits there unless told otherwise.
  void arrive(std::uint32_t id, std::uint32_t expected, bool waits);
  void check_named(const char* what, std::uint32_t id, std::uint32_t threads);
  // 1 where the thread has arrived at the cluster's barrier in the phase under way.
  std::uint32_t at_cluster_barrier(std::uint32_t slot) const {
    return standing_[slot].arrived && standing_[slot].phase == cluster_barrier_.phase;
  }
  void complete_cluster_barrier();
  // After whatever may have ended a phase: who waited for it goes on.
  void wake();
  void wake_warpgroup(std::uint32_t group);
  // Delivers asynchronous work as the seed has it; where nobody can run, as much as lets somebody.
  void deliver();
  void deliver_transfers();
  // Until all lanes of the warp are here; true in the last, before the others go on.
  template <class AtLast>
  void join(Wait what, AtLast at_last);
  // Ends the cluster with what failure_ says.
  [[noreturn]] void abandon();
  // The same, with this thread's name before the text, which text() gives: what it was made of is gone by then. Strings
  // that it takes from outside must be left empty.
  template <class Text>
  [[noreturn]] void fail(Text text);
  [[noreturn]] void deadlock();

  std::string describe_block() const;
  std::string describe_waits() const;
  std::string name_of(std::uint32_t slot) const;
  std::string state_of(std::uint32_t slot) const;
  std::string where(const void* shared) const;  // an address of shared memory

  const std::uint32_t warp_size_;
  Grid grid_{};
  std::uint32_t threads_ = 0, warps_ = 0;  // of a block
  std::uint32_t cluster_blocks_ = 1;
  std::uint32_t block_slots_ = 0;
  std::uint64_t ready_ = 0;  // warps with a runnable lane
  std::uint32_t current_ = 0;
  std::uint32_t returned_ = 0;
  q::host::Block blocks_[kMaxBlocks] = {};
  std::uint32_t live_[kMaxBlocks] = {};  // threads of each that have not returned
  std::unique_ptr<q::host::Thread[]> views_;
  std::unique_ptr<Fiber[]> fibers_;
  std::unique_ptr<Warp[]> warp_;
  std::unique_ptr<Standing[]> standing_;
  std::vector<Barrier> barriers_;  // kBarriers a block
  ClusterBarrier cluster_barrier_;
  Stacks stacks_;
  std::unique_ptr<Arena> arenas_[kMaxBlocks];
  Mbarriers mbarriers_;
  Transfers transfers_{mbarriers_};
  SharedView async_view_;         // what copies and products see
  SharedView released_view_;      // what other blocks of the cluster see
  std::uint32_t fenced_ = kNone;  // the warp whose fence_async() has not been shown yet: all its lanes call it
  std::uint32_t stored_to_[kMaxBlocks] = {};  // by each block since it last released: a bit for each rank
  BulkCopies bulk_{mbarriers_, async_view_};
  RemoteStores remote_stores_{mbarriers_, async_view_};
  Products products_{async_view_};
  std::vector<Products::Window> windows_;
  RegisterFile registers_;
  std::uint32_t elected_ = 0;  // lane
  std::uint32_t polls_ = 0;    // in vain, one after the other

  Random random_;
  std::uint8_t priority_[kMaxWarps] = {};  // warps, the most favoured first
  std::uint32_t redraw_ = 0;               // priorities are drawn anew once in so many choices
  std::uint32_t lane_order_ = 0;           // 0 ascending, 1 descending, 2 random

  Suspended thread_ = nullptr;  // whoever called run()
  Watched watched_thread_;
  bool first_step_ = false;
  bool has_waited_ = false;
  char begun_ = 0, ended_ = 0;  // as Warp::order
  std::string failure_;
};

}  // namespace quern::jit::host
