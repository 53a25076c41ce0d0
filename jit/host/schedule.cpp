// Whose turn it is: which fiber runs next, who waits, and the barriers of a block.
// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <utility>

#include "jit/host/collective.h"

namespace quern::jit::host {

std::uint32_t Runner::pick_fair(std::uint32_t after) const {
  if (ready_ == 0) return kNone;
  std::uint32_t warp = fibers_[after].warp;
  const std::uint64_t behind = warp_[warp].runnable & (~1ULL << views_[after].lane);
  if (behind != 0) return index_of(warp, static_cast<std::uint32_t>(std::countr_zero(behind)));
  if (warp_[warp].runnable == 0) {
    const std::uint64_t later = ready_ & (~1ULL << warp);
    warp = static_cast<std::uint32_t>(std::countr_zero(later != 0 ? later : ready_));
  }
  return index_of(warp, static_cast<std::uint32_t>(std::countr_zero(warp_[warp].runnable)));
}

std::uint32_t Runner::pick_seeded(bool any_lane) {
  deliver_transfers();
  if (transfers_.arrivals_under_way() || bulk_.under_way() || remote_stores_.under_way() || products_.under_way())
    deliver();
  if (ready_ == 0) return kNone;
  const std::uint32_t warps = cluster_blocks_ * warps_;
  if (warps > 1 && random_.once_in(redraw_)) std::swap(priority_[0], priority_[random_.below(warps)]);
  std::uint32_t i = 0;
  while ((ready_ >> priority_[i] & 1) == 0) ++i;
  const std::uint32_t warp = priority_[i];
  std::uint64_t lanes = warp_[warp].runnable;
  if (lane_order_ == 1 && !any_lane) return index_of(warp, 63 - static_cast<std::uint32_t>(std::countl_zero(lanes)));
  if (lane_order_ == 2 || any_lane) {
    for (auto skip = random_.below(static_cast<std::uint32_t>(std::popcount(lanes))); skip > 0; --skip)
      lanes &= lanes - 1;
  }
  return index_of(warp, static_cast<std::uint32_t>(std::countr_zero(lanes)));
}

std::uint32_t Runner::pick() { return grid_.seeded ? pick_seeded(false) : pick_fair(current_); }

void Runner::switch_to(std::uint32_t next) {
  if (next == current_) return;
  if (fibers_[next].warp != fenced_) show_fenced();
  Fiber& from = fibers_[std::exchange(current_, next)];
  before_switch(from.watched, fibers_[next].watched, false);
  quern_switch_fiber(&from.suspended, fibers_[next].suspended);
  after_switch(from.watched);
}

void Runner::make_runnable(std::uint32_t warp, std::uint64_t lanes) {
  warp_[warp].runnable |= lanes;
  ready_ |= 1ULL << warp;
}

void Runner::wait(Wait what, std::uint32_t barrier) {
  Fiber& f = fibers_[current_];
  f.wait = what;
  f.barrier = static_cast<std::uint8_t>(barrier);
  if ((warp_[f.warp].runnable &= ~(1ULL << views_[current_].lane)) == 0) ready_ &= ~(1ULL << f.warp);
  const std::uint32_t next = pick();
  if (next == kNone) deadlock();
  switch_to(next);
  f.wait = Wait::nothing;
}

// In a seeded run, a place where another thread may come in between.
void Runner::reschedule() {
  if (grid_.seeded) switch_to(pick_seeded(false));
}

void Runner::yield() {
  if (grid_.seeded) {
    // Whoever polls, however favoured, must not keep what it polls for from happening.
    const std::uint32_t warps = cluster_blocks_ * warps_;
    if (warps > 1 && random_.once_in(2)) std::swap(priority_[random_.below(warps)], priority_[random_.below(warps)]);
    return switch_to(pick_seeded(true));
  }
  // Lane after lane and then to the next warp: the rest of a warp that polls together must not keep others from
  // running.
  const std::uint32_t warp = fibers_[current_].warp;
  const std::uint32_t lane = views_[current_].lane;
  const std::uint64_t lanes = warp_[warp].runnable & (~1ULL << lane);
  const std::uint64_t later = ready_ & (~1ULL << warp);
  if (lanes != 0) {
    switch_to(index_of(warp, static_cast<std::uint32_t>(std::countr_zero(lanes))));
  } else {
    const auto next = static_cast<std::uint32_t>(std::countr_zero(later != 0 ? later : ready_));
    switch_to(index_of(next, static_cast<std::uint32_t>(std::countr_zero(warp_[next].runnable))));
  }
}

// ---- Barriers and collectives
void Runner::check_named(const char* what, std::uint32_t id, std::uint32_t threads) {
  if (id == 0 || id >= kBarriers)
    fail([&] { return std::string(what) + " of barrier " + std::to_string(id) + "; allowed are 1 to 15"; });
  if (threads == 0 || threads > threads_ || threads % warp_size_ != 0) {
    fail([&] {
      return std::string(what) + " of " + std::to_string(threads) + " threads for barrier " + std::to_string(id) +
             "; allowed are whole warps, at most the block's " + std::to_string(threads_);
    });
  }
}

void Runner::arrive(std::uint32_t id, std::uint32_t expected, bool waits) {
  const Fiber& f = fibers_[current_];
  Barrier& b = barriers_[f.block * kBarriers + id];
  if (b.count != 0 && b.expected != expected) {
    fail([&] {
      return "sync_named of " + std::to_string(expected) + " threads for barrier " + std::to_string(id) +
             ", where others wait for " + std::to_string(b.expected);
    });
  }
  char* order = &b.order[b.parity];
  release(order);
  b.expected = expected;
  const std::uint32_t first = f.block * warps_;
  if (waits) b.arrived[f.warp - first] |= 1ULL << views_[current_].lane;
  if (++b.count == expected) {
    show_fenced();
    b.count = 0;
    b.parity ^= 1;
    for (std::uint32_t w = 0; w < warps_; ++w) {
      if (b.arrived[w] != 0) make_runnable(first + w, std::exchange(b.arrived[w], 0));
    }
    reschedule();
  } else if (waits) {
    wait(id == 0 ? Wait::block : Wait::named, id);
  } else {
    return reschedule();
  }
  if (waits) acquire(order);
}

}  // namespace quern::jit::host
