// SPDX-License-Identifier: Apache-2.0
#include "jit/host/hopper.h"

#include <cstdio>
#include <utility>

#include "jit/host/block.h"
#include "jit/host/collective.h"

namespace quern::jit::host {
namespace {

// An address of another block's shared memory: its rank plus one above the offset. Without a rank it is the block's
// own.
constexpr std::uint32_t kRankShift = 24;
// What the start of a matrix descriptor can say.
constexpr std::uint32_t kAddresses = 1u << 18;

// A second's worth or so, during which no barrier in shared memory has seen anybody arrive.
constexpr std::uint32_t kMostPolls = 1u << 24;

std::string hex(std::uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof(text), "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

}  // namespace

struct HopperCalls {
  static Runner::Fiber& fiber() { return runner->fibers_[runner->current_]; }
  static std::uint32_t block() { return fiber().block; }
  static std::uint32_t warp_of_block() { return fiber().warp - block() * runner->warps_; }

  // ---- Shared memory
  static std::uint32_t offset_of(const char* what, const void* shared, std::uint64_t bytes, std::uint32_t alignment) {
    const Products::Window& window = runner->windows_[block()];
    const auto at = static_cast<std::uint64_t>(static_cast<const unsigned char*>(shared) - window.shared);
    if (at > window.bytes || bytes > window.bytes - at) {
      runner->fail([&] {
        return std::string(what) + ": " + std::to_string(bytes) + " bytes at " +
               hex(reinterpret_cast<std::uintptr_t>(shared)) + " do not lie in the block's shared memory, " +
               std::to_string(window.bytes) + " bytes at " + hex(reinterpret_cast<std::uintptr_t>(window.shared));
      });
    }
    if (at % alignment != 0) {
      runner->fail([&] {
        return std::string(what) + ": shared address " + hex(at) + " must be a multiple of " +
               std::to_string(alignment);
      });
    }
    return static_cast<std::uint32_t>(at);
  }
  static unsigned char* there(std::uint32_t in_block, std::uint32_t offset) {
    return const_cast<unsigned char*>(runner->windows_[in_block].shared) + offset;
  }
  static std::uint32_t live_block(const char* what, std::uint32_t rank) {
    if (rank >= runner->cluster_blocks_) {
      runner->fail([&] {
        return std::string(what) + ": rank " + std::to_string(rank) + " of a cluster of " +
               std::to_string(runner->cluster_blocks_);
      });
    }
    if (runner->live_[rank] == 0) {
      runner->fail([&] {
        return std::string(what) + ": all threads of the block of rank " + std::to_string(rank) +
               " have returned: its shared memory is gone";
      });
    }
    return rank;
  }
  static unsigned shared_address(const void* shared) {
    return offset_of("shared_address", shared, 0, 1) & (kAddresses - 1);
  }
  static unsigned cluster_address(const void* shared, unsigned rank) {
    return (live_block("cluster_address", rank) + 1) << kRankShift | offset_of("cluster_address", shared, 0, 1);
  }
  struct Place {
    std::uint32_t rank;
    unsigned char* at;
  };
  static Place place_of(const char* what, unsigned address, unsigned bytes) {
    const std::uint32_t rank = address >> kRankShift == 0 ? block() : (address >> kRankShift) - 1;
    const std::uint32_t at = address & ((1u << kRankShift) - 1);
    live_block(what, rank);
    if (at + bytes > runner->windows_[rank].bytes || at % bytes != 0) {
      runner->fail([&] {
        return std::string(what) + ": " + std::to_string(bytes) + " bytes at " + hex(at) + " of the block of rank " +
               std::to_string(rank) + ", whose shared memory has " + std::to_string(runner->windows_[rank].bytes) +
               "; aligned they must be, too";
      });
    }
    return {rank, there(rank, at)};
  }
  // What this block has written to its own and others' shared memory, for the cluster to see.
  static void release_block() {
    Runner& r = *runner;
    if (r.cluster_blocks_ == 1 || !r.grid_.seeded) return;
    const std::uint32_t shown = std::exchange(r.stored_to_[block()], 0) | 1u << block();
    for (std::uint32_t b = 0; b < r.cluster_blocks_; ++b)
      if ((shown >> b & 1) != 0) r.released_view_.show(b);
  }
  static void* cluster_pointer(unsigned address, unsigned bytes, unsigned reads) {
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
        return std::string(kWhat) + ": it reads shared address " + hex(where) + " of rank " +
               std::to_string(place.rank) +
               ", which that block has written since it last released its memory to the cluster, by "
               "mbarrier_arrive_remote or cluster_arrive, and need not see it";
      });
    }
    return place.at;
  }
  static void store_async(unsigned address, const void* value, unsigned bytes, unsigned barrier) {
    constexpr const char* kWhat = "store_async";
    Runner& r = *runner;
    const Place to = place_of(kWhat, address, bytes), counts = place_of(kWhat, barrier, 8);
    if (to.rank != counts.rank) {
      r.fail([&] {
        return std::string(kWhat) + ": it goes to the block of rank " + std::to_string(to.rank) +
               " and counts on a barrier of that of rank " + std::to_string(counts.rank) +
               "; allowed is the same block";
      });
    }
    if (to.rank == block()) {
      r.fail([&] {
        return std::string(kWhat) + ": it goes to the block that it comes from, of rank " + std::to_string(to.rank) +
               "; allowed is another of the cluster";
      });
    }
    check(kWhat, counts.at, r.mbarriers_.check(counts.at));
    check(kWhat, counts.at,
          r.remote_stores_.store(to.at, value, bytes, counts.at, r.current_, __builtin_return_address(0)));
    r.wake();
    r.reschedule();
  }

  // ---- Bulk copies
  static void bulk(const q::host::BulkCopy* copy) {
    using q::host::CopyForm;
    Runner& r = *runner;
    constexpr const char* kNames[] = {"a bulk load", "a bulk prefetch", "a bulk store", "a bulk add"};
    const char* const name = kNames[static_cast<unsigned>(copy->form)];
    Landing what;
    what.issued_at = __builtin_return_address(0);
    if (const char* wrong = what.box.read(*copy)) r.fail([&] { return std::string(name) + ": " + wrong; });
    if (copy->form == CopyForm::prefetch) return;
    what.at = offset_of(name, copy->shared, what.box.bytes(), what.box.alignment());
    what.window = there(block(), 0);
    if (copy->form != CopyForm::load) {
      std::uint32_t where = 0;
      r.show_fenced();
      if (!r.async_view_.sees(block(), what.at, what.box.bytes(), &where)) {
        r.fail([&] { return std::string(name) + " of shared address " + hex(where) + ": " + Products::kUnseen; });
      }
      r.bulk_.store(what, copy->form == CopyForm::add, r.current_, r.random_);
      return r.reschedule();
    }
    const std::uint32_t barrier = offset_of(name, copy->barrier, 8, 8);
    const std::uint32_t ranks = copy->ranks != 0 ? copy->ranks : 1u << block();
    if (ranks >> r.cluster_blocks_ != 0) {
      r.fail([&] {
        return std::string(name) + ": ranks " + hex(ranks) + " of a cluster of " + std::to_string(r.cluster_blocks_);
      });
    }
    for (std::uint32_t rank = 0; rank < r.cluster_blocks_; ++rank) {
      if ((ranks >> rank & 1) == 0) continue;
      live_block(name, rank);
      what.window = there(rank, 0);
      what.barrier = there(rank, barrier);
      check(name, what.barrier, r.mbarriers_.check(what.barrier));
      check(name, what.barrier, r.bulk_.load(what, r.current_, r.random_));
    }
    r.wake();
    r.reschedule();
  }
  static void fence_async() {
    if (runner->fenced_ != fiber().warp) runner->show_fenced();
    runner->fenced_ = fiber().warp;
    runner->reschedule();
  }
  static void bulk_commit() { runner->bulk_.commit(runner->current_); }
  static void bulk_wait(unsigned groups_left, unsigned read_only) {
    runner->reschedule();
    runner->bulk_.wait(runner->current_, groups_left, read_only != 0);
  }

  // ---- Copies of a thread that count on a barrier once they have landed
  static void copy_arrive(void* barrier) {
    constexpr const char* kWhat = "copy_async_arrive";
    offset_of(kWhat, barrier, 8, 8);
    check(kWhat, barrier, runner->mbarriers_.promise(barrier));
    runner->transfers_.arrive(runner->current_, barrier);
    runner->reschedule();
  }

  // ---- Barriers in shared memory
  static void check(const char* what, const void* barrier, const char* wrong) {
    if (wrong == nullptr) return;
    runner->fail([&] {
      return std::string(what) + " of the barrier at shared address " + runner->where(barrier) + ": " + wrong;
    });
  }

  static void mbarrier_init(void* barrier, unsigned arrivals) {
    offset_of("mbarrier_init", barrier, 8, 8);
    check("mbarrier_init", barrier, runner->mbarriers_.init(barrier, arrivals));
  }
  static void mbarrier_invalidate(void* barrier) {
    offset_of("mbarrier_invalidate", barrier, 8, 8);
    check("mbarrier_invalidate", barrier, runner->mbarriers_.invalidate(barrier));
  }
  static void arrive(const char* what, void* barrier, unsigned arrivals, unsigned bytes) {
    check(what, barrier, runner->mbarriers_.arrive(barrier, arrivals, bytes));
    runner->wake();
    runner->reschedule();
  }
  static void mbarrier_arrive(void* barrier, unsigned arrivals, unsigned bytes) {
    const char* const what = arrivals == 0 ? "mbarrier_expect"
                             : bytes == 0  ? "mbarrier_arrive"
                                           : "mbarrier_arrive_expect";
    offset_of(what, barrier, 8, 8);
    arrive(what, barrier, arrivals, bytes);
  }
  static void mbarrier_arrive_remote(void* barrier, unsigned rank, unsigned relaxed) {
    constexpr const char* kWhat = "mbarrier_arrive_remote";
    const std::uint32_t at = offset_of(kWhat, barrier, 8, 8);
    if (relaxed == 0) release_block();
    arrive(kWhat, there(live_block(kWhat, rank), at), 1, 0);
  }
  static std::uint32_t parity(const char* what, void* barrier, unsigned phase) {
    offset_of(what, barrier, 8, 8);
    check(what, barrier, runner->mbarriers_.check(barrier));
    if (phase > 1) check(what, barrier, "a phase's parity is 0 or 1");
    return phase;
  }
  static unsigned mbarrier_try_wait(void* barrier, unsigned phase) {
    Runner& r = *runner;
    const std::uint32_t wanted = parity("mbarrier_try_wait", barrier, phase);
    if (r.mbarriers_.phase(barrier) == wanted) {
      // Who polls must not keep what it polls for from happening.
      const char* wrong = nullptr;
      if (r.grid_.seeded && r.random_.once_in(4)) r.bulk_.press(r.random_, &wrong);
      if (wrong != nullptr) r.fail([&] { return std::string("a bulk load: ") + wrong; });
      if (r.grid_.seeded && r.random_.once_in(4)) r.remote_stores_.press(r.random_, &wrong);
      if (wrong != nullptr) r.fail([&] { return std::string("an asynchronous store: ") + wrong; });
      if (r.grid_.seeded && r.random_.once_in(4)) r.transfers_.press(r.random_, &wrong);
      if (wrong != nullptr) r.fail([&] { return std::string("copy_async_arrive: ") + wrong; });
      if (r.transfers_.arrivals_under_way() || r.bulk_.under_way() || r.remote_stores_.under_way()) r.wake();
      if (++r.polls_ == kMostPolls) {
        r.failure_ = "polled without end: " + r.name_of(r.current_) + " in mbarrier_try_wait, " + r.describe_waits();
        r.abandon();
      }
      r.yield();
    }
    if (r.mbarriers_.phase(barrier) == wanted) return 0;
    Mbarriers::passed(barrier, wanted);
    return 1;
  }
  static void mbarrier_wait(void* barrier, unsigned phase) {
    Runner& r = *runner;
    const std::uint32_t wanted = parity("mbarrier_wait", barrier, phase);
    r.reschedule();
    while (r.mbarriers_.phase(barrier) == wanted) {
      r.mbarriers_.enlist(r.current_, barrier);
      r.standing_[r.current_].mbarrier = barrier;
      r.wait(Wait::mbarrier, wanted);
      check("mbarrier_wait", barrier, r.mbarriers_.check(barrier));
    }
    Mbarriers::passed(barrier, wanted);
  }

  // ---- Products
  static std::uint32_t warpgroup() {
    const std::uint32_t groups = (runner->warps_ + Products::kWarps - 1) / Products::kWarps;
    return block() * groups + warp_of_block() / Products::kWarps;
  }
  static void join_for_product() {
    if (warp_of_block() / Products::kWarps * Products::kWarps + Products::kWarps > runner->warps_ ||
        runner->threads_ % 32 != 0) {
      runner->fail("a warpgroup's instruction in a warp that is not of a whole warpgroup");
    }
  }
  static void product(const q::host::Product* mine) {
    Runner& r = *runner;
    join_for_product();
    Runner::Warp& w = r.warp_[fiber().warp];
    w.brought[r.views_[r.current_].lane] = const_cast<q::host::Product*>(mine);
    const std::uint32_t group = warpgroup(), warp = warp_of_block() % Products::kWarps;
    const void* const issued_at = __builtin_return_address(0);
    char* order = &w.order[w.parity];
    release(order);
    r.join(Wait::wgmma, [&](Runner::Warp& all) {
      acquire(order);
      r.show_fenced();
      std::string wrong = r.products_.issue(group, warp, all.brought, issued_at);
      if (!wrong.empty()) r.fail([&] { return "wgmma: " + std::exchange(wrong, {}); });
      r.wake_warpgroup(group);
    });
  }
  static void product_fence() {
    join_for_product();
    runner->join(Wait::wgmma,
                 [&](Runner::Warp&) { runner->products_.fence(warpgroup(), warp_of_block() % Products::kWarps); });
  }
  static void product_commit() {
    join_for_product();
    runner->join(Wait::wgmma,
                 [&](Runner::Warp&) { runner->products_.commit(warpgroup(), warp_of_block() % Products::kWarps); });
  }
  static void product_wait(unsigned groups_left) {
    Runner& r = *runner;
    join_for_product();
    r.join(Wait::wgmma, [](Runner::Warp&) {});
    std::string wrong;
    while (!r.products_.wait(warpgroup(), warp_of_block() % Products::kWarps, groups_left, &wrong)) {
      r.wait(Wait::products, 0);
    }
    if (!wrong.empty()) r.fail([&] { return "wgmma: " + std::exchange(wrong, {}); });
  }

  // ---- Registers, election, named barriers
  static void registers(unsigned count, unsigned grow) {
    Runner& r = *runner;
    const char* const what = grow != 0 ? "registers_grow" : "registers_shrink";
    join_for_product();
    const std::uint32_t warp = fiber().warp;
    r.join(Wait::registers, [&](Runner::Warp&) {
      if (std::string wrong = r.registers_.ask(warp, count, grow != 0); !wrong.empty()) {
        r.fail([&] { return std::string(what) + ": " + std::exchange(wrong, {}); });
      }
    });
    while (!r.registers_.take(warp, count)) r.wait(Wait::grown_registers, 0);
    if (grow != 0) return;
    r.for_each_slot([&](std::uint32_t slot, std::uint32_t, std::uint32_t) {
      if (r.fibers_[slot].wait == Wait::grown_registers)
        r.make_runnable(r.fibers_[slot].warp, 1ULL << r.views_[slot].lane);
    });
  }
  static unsigned elect() {
    runner->join(Wait::elect, [](Runner::Warp&) {});
    return runner->views_[runner->current_].lane == runner->elected_;
  }
  static void arrive_named(unsigned id, unsigned threads) {
    runner->check_named("arrive_named", id, threads);
    runner->arrive(id, threads, false);
  }

  // ---- Cluster
  static void cluster_arrive(unsigned relaxed) {
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
  static void cluster_wait() {
    Runner& r = *runner;
    Runner::Standing& mine = r.standing_[r.current_];
    if (!mine.arrived) r.fail("cluster_wait without a cluster_arrive before it");
    while (r.cluster_barrier_.phase == mine.phase) r.wait(Wait::cluster, 0);
    acquire(&r.cluster_barrier_.order[mine.phase]);
    mine.arrived = false;
  }
};

void add_hopper_calls(q::host::Table& t) {
  t.shared_address = &HopperCalls::shared_address;
  t.copy_arrive = &HopperCalls::copy_arrive;
  t.bulk = &HopperCalls::bulk;
  t.fence_async = &HopperCalls::fence_async;
  t.bulk_commit = &HopperCalls::bulk_commit;
  t.bulk_wait = &HopperCalls::bulk_wait;
  t.mbarrier_init = &HopperCalls::mbarrier_init;
  t.mbarrier_invalidate = &HopperCalls::mbarrier_invalidate;
  t.mbarrier_arrive = &HopperCalls::mbarrier_arrive;
  t.mbarrier_arrive_remote = &HopperCalls::mbarrier_arrive_remote;
  t.mbarrier_try_wait = &HopperCalls::mbarrier_try_wait;
  t.mbarrier_wait = &HopperCalls::mbarrier_wait;
  t.product = &HopperCalls::product;
  t.product_fence = &HopperCalls::product_fence;
  t.product_commit = &HopperCalls::product_commit;
  t.product_wait = &HopperCalls::product_wait;
  t.registers = &HopperCalls::registers;
  t.elect = &HopperCalls::elect;
  t.arrive_named = &HopperCalls::arrive_named;
  t.cluster_arrive = &HopperCalls::cluster_arrive;
  t.cluster_wait = &HopperCalls::cluster_wait;
  t.cluster_address = &HopperCalls::cluster_address;
  t.cluster_pointer = &HopperCalls::cluster_pointer;
  t.store_async = &HopperCalls::store_async;
}

// ---- What the runner does for them
void Runner::complete_cluster_barrier() {
  ClusterBarrier& b = cluster_barrier_;
  if (b.arrived == 0 || b.arrived != b.live) return;
  b.arrived = 0;
  b.phase ^= 1;
  for_each_slot([&](std::uint32_t slot, std::uint32_t, std::uint32_t) {
    if (fibers_[slot].wait == Wait::cluster) make_runnable(fibers_[slot].warp, 1ULL << views_[slot].lane);
  });
}

void Runner::wake() {
  polls_ = 0;
  for (const std::uint32_t slot : mbarriers_.woken()) make_runnable(fibers_[slot].warp, 1ULL << views_[slot].lane);
  mbarriers_.woken().clear();
}

void Runner::wake_warpgroup(std::uint32_t group) {
  const std::uint32_t groups = (warps_ + Products::kWarps - 1) / Products::kWarps;
  const std::uint32_t first = group / groups * warps_ + group % groups * Products::kWarps;
  for_each_slot([&](std::uint32_t slot, std::uint32_t, std::uint32_t) {
    const Fiber& f = fibers_[slot];
    if (f.wait == Wait::products && f.warp - first < Products::kWarps) make_runnable(f.warp, 1ULL << views_[slot].lane);
  });
}

void Runner::deliver_transfers() {
  if (const char* wrong = transfers_.some(random_)) {
    failure_ = std::string("copy_async_arrive: ") + wrong;
    abandon();
  }
  // It may have been the last arrival under way, after which nobody else asks who waits for it.
  if (!mbarriers_.woken().empty()) wake();
}

void Runner::deliver() {
  const char* wrong = bulk_.some(random_);
  const char* wrong_store = remote_stores_.some(random_);
  if (std::string product = products_.some(random_); !product.empty()) {
    failure_ = "wgmma: " + std::exchange(product, {});
    abandon();
  }
  wake();
  const bool ended = returned_ == cluster_blocks_ * threads_;
  const char* wrong_arrival = nullptr;
  while (ready_ == 0 && !ended && wrong_arrival == nullptr && transfers_.press(random_, &wrong_arrival)) wake();
  if (wrong_arrival != nullptr) {
    failure_ = std::string("copy_async_arrive: ") + wrong_arrival;
    abandon();
  }
  while (wrong == nullptr && wrong_store == nullptr && ready_ == 0 && !ended &&
         (bulk_.press(random_, &wrong) || remote_stores_.press(random_, &wrong_store)))
    wake();
  if (wrong == nullptr && wrong_store == nullptr) return;
  failure_ =
      wrong != nullptr ? std::string("a bulk load: ") + wrong : std::string("an asynchronous store: ") + wrong_store;
  abandon();
}

std::string Runner::where(const void* shared) const {
  for (std::uint32_t b = 0; b < cluster_blocks_; ++b) {
    const auto at = static_cast<std::uint64_t>(static_cast<const unsigned char*>(shared) - windows_[b].shared);
    if (at >= windows_[b].bytes) continue;
    return hex(at) + (cluster_blocks_ > 1 ? " of rank " + std::to_string(b) : "");
  }
  return "?";
}

}  // namespace quern::jit::host
