// Runs the blocks of a grid on one CPU thread: fibers, their order, and what they wait for.
// SPDX-License-Identifier: Apache-2.0
#include "jit/host/block.h"

#include <bit>
#include <utility>

namespace quern::jit::host {
namespace {

// A block stays on one thread, so whoever runs on a fiber finds its runner here. Asked for at every barrier and
// shuffle: the model spares a call each time, for 8 bytes of what a library loaded late may have.
__thread Runner* runner __attribute__((tls_model("initial-exec"))) = nullptr;

}  // namespace

// ---- From the kernel
struct Calls {
  // Constant over the life of a fiber, unlike everything else here.
  static const q::host::Thread* self() { return &runner->views_[runner->current_]; }
  static void sync_block() { runner->arrive(0, runner->threads_); }
  static void sync_named(unsigned id, unsigned threads) {
    Runner& r = *runner;
    if (id == 0 || id >= kBarriers) {
      r.failure_ = r.name_of(r.current_) + ": sync_named of barrier " + std::to_string(id) + "; allowed are 1 to 15";
      r.abandon();
    }
    if (threads == 0 || threads > r.threads_ || threads % r.warp_size_ != 0) {
      r.failure_ = r.name_of(r.current_) + ": sync_named of " + std::to_string(threads) + " threads for barrier " +
                   std::to_string(id) + "; allowed are whole warps, at most the block's " + std::to_string(r.threads_);
      r.abandon();
    }
    r.arrive(id, threads);
  }
  static void sync_warp() {
    Runner::Warp& w = r_warp();
    char* order = &w.order[w.parity];
    release(order);
    runner->join(Wait::warp, [](Runner::Warp&) {});
    acquire(order);
  }
  static unsigned long long shuffle(unsigned long long value, unsigned source) {
    Runner::Warp& w = r_warp();
    auto& values = w.value[w.parity];
    values[self()->lane] = value;
    runner->join(Wait::shuffle, [](Runner::Warp&) {});
    return w.all >> source & 1 ? values[source] : ~0ULL;
  }
  static unsigned long long ballot(unsigned predicate) {
    Runner::Warp& w = r_warp();
    const auto& result = w.ballot[w.parity];
    w.votes |= std::uint64_t{predicate != 0} << self()->lane;
    runner->join(Wait::ballot, [](Runner::Warp& all) {
      all.ballot[all.parity] = all.votes;
      all.votes = 0;
    });
    return result;
  }
  static void together(q::host::Together, void* mine, void (*run)(void* const* lanes)) {
    Runner::Warp& w = r_warp();
    w.brought[self()->lane] = mine;
    // The last lane reads and writes what lies on the stacks of the others.
    char* order = &w.order[w.parity];
    release(order);
    runner->join(Wait::mma, [=](Runner::Warp& all) {
      acquire(order);
      run(all.brought);
      release(order);
    });
    acquire(order);
  }
  static void yield() { runner->yield(); }
  static void copy(void* shared, const void* global, unsigned bytes, unsigned take) {
    runner->transfers_.copy(runner->current_, shared, global, bytes, take != 0);
    runner->reschedule();
  }
  static void copy_commit() { runner->transfers_.commit(runner->current_); }
  static void copy_wait(unsigned groups_left) {
    runner->reschedule();
    runner->transfers_.wait(runner->current_, groups_left);
  }
  static Runner::Warp& r_warp() { return runner->warp_[self()->warp]; }
};

const q::host::Table& table() {
  static constexpr q::host::Table kTable = {&Calls::self,    &Calls::sync_block,  &Calls::sync_named, &Calls::sync_warp,
                                            &Calls::shuffle, &Calls::ballot,      &Calls::together,   &Calls::yield,
                                            &Calls::copy,    &Calls::copy_commit, &Calls::copy_wait};
  return kTable;
}

// ---- The life of a block
Runner::~Runner() {
  if (fibers_ == nullptr) return;
  for (std::uint32_t t = 0; t < kMaxThreads; ++t) forget_fiber(fibers_[t].watched);
}

void Runner::begin_grid(const Grid& grid) {
  grid_ = grid;
  threads_ = grid.program->kernel->threads;
  warps_ = (threads_ + warp_size_ - 1) / warp_size_;
  if (fibers_ == nullptr) {
    views_ = std::make_unique<q::host::Thread[]>(kMaxThreads);
    fibers_ = std::make_unique<Fiber[]>(kMaxThreads);
    warp_ = std::make_unique<Warp[]>(kMaxWarps);
    for (std::uint32_t t = 0; t < kMaxThreads; ++t) views_[t] = {&block_, t, t % warp_size_, t / warp_size_};
  }
  stacks_.reserve(threads_);
  arena_.lay_out(grid.program->image, grid.program->module.shared, grid.program->placed_bytes, grid.dynamic_bytes);
}

void Runner::start_block(std::uint32_t x, std::uint32_t y, std::uint32_t z) {
  block_ = {{x, y, z},
            {grid_.blocks[0], grid_.blocks[1], grid_.blocks[2]},
            arena_.dynamic_part(),
            arena_.static_part(),
            grid_.seeded ? 1u : 0u};
  arena_.poison();
  for (std::uint32_t t = 0; t < threads_; ++t) {
    Fiber& f = fibers_[t];
    f.wait = Wait::nothing;
    stacks_.arm(t);
    watch_fiber(f.watched, stacks_.bottom(t), stacks_.bytes());
    f.suspended = make_fiber(stacks_.top(t), &Runner::fiber_main);
  }
  ready_ = 0;
  for (std::uint32_t w = 0; w < warps_; ++w) {
    const std::uint32_t lanes = threads_ - w * warp_size_ < warp_size_ ? threads_ - w * warp_size_ : warp_size_;
    warp_[w].all = lanes == kMaxLanes ? ~0ULL : (1ULL << lanes) - 1;
    warp_[w].arrived = warp_[w].votes = warp_[w].runnable = 0;
    make_runnable(w, warp_[w].all);
  }
  for (Barrier& b : barriers_) {
    for (std::uint32_t w = 0; w < warps_; ++w) b.arrived[w] = 0;
    b.count = 0;
  }
  returned_ = 0;
  current_ = 0;
  if (grid_.seeded) {
    random_ = Random(grid_.seed, (std::uint64_t{z} * grid_.blocks[1] + y) * grid_.blocks[0] + x);
    for (std::uint32_t w = 0; w < warps_; ++w) priority_[w] = static_cast<std::uint8_t>(w);
    for (std::uint32_t w = warps_; w > 1; --w) std::swap(priority_[w - 1], priority_[random_.below(w)]);
    // From never to often: some mistakes show only when one warp is favoured throughout, others when it is not.
    constexpr std::uint32_t kRedraw[] = {0, 256, 32, 4};
    redraw_ = kRedraw[random_.below(4)];
    lane_order_ = random_.below(3);
    transfers_.begin_block(threads_, random_.below(2) != 0 ? Delivery::random : Delivery::last_in_first_out);
  }
}

std::string Runner::run(std::uint32_t x, std::uint32_t y, std::uint32_t z) {
  failure_.clear();
  start_block(x, y, z);
  runner = this;
  watch_thread(watched_thread_);
  release(&begun_);
  first_step_ = true;
  current_ = grid_.seeded ? pick() : 0;
  Fiber& first = fibers_[current_];
  before_switch(watched_thread_, first.watched, false);
  quern_switch_fiber(&thread_, first.suspended);
  after_switch(watched_thread_);
  runner = nullptr;
  acquire(&ended_);
  if (failure_.empty()) {
    failure_ = arena_.overrun();
  } else {
    // Fibers were left in the midst of the kernel.
    for (std::uint32_t t = 0; t < threads_; ++t) forget_fiber(fibers_[t].watched);
  }
  return failure_.empty() ? failure_ : describe_block() + ": " + failure_;
}

void Runner::fiber_main() {
  enter_fiber(runner->watched_thread_, std::exchange(runner->first_step_, false));
  acquire(&runner->begun_);
  runner->grid_.program->kernel->entry(runner->grid_.args);
  release(&runner->ended_);
  runner->finish_fiber();
}

void Runner::finish_fiber() {
  Fiber& f = fibers_[current_];
  if (!stacks_.intact(current_)) {
    failure_ = name_of(current_) + " has overflowed its stack";
    abandon();
  }
  f.wait = Wait::returned;
  ++returned_;
  Warp& w = warp_[views_[current_].warp];
  w.runnable &= ~(1ULL << views_[current_].lane);
  if (w.runnable == 0) ready_ &= ~(1ULL << views_[current_].warp);
  const std::uint32_t next = pick();
  if (next == kNone) {
    if (returned_ != threads_) deadlock();
    leave_for_thread(true);
  } else {
    const std::uint32_t from = std::exchange(current_, next);
    before_switch(fibers_[from].watched, fibers_[next].watched, true);
    quern_switch_fiber(&f.suspended, fibers_[next].suspended);
  }
  __builtin_unreachable();
}

void Runner::leave_for_thread(bool for_ever) {
  Fiber& f = fibers_[current_];
  before_switch(f.watched, watched_thread_, for_ever);
  quern_switch_fiber(&f.suspended, thread_);
}

void Runner::deadlock() {
  failure_ = "deadlock: " + describe_waits();
  abandon();
}

// No destructor runs on this stack any more, so nothing that owns memory may be alive.
void Runner::abandon() {
  leave_for_thread(false);
  __builtin_unreachable();
}

// ---- Whose turn it is
std::uint32_t Runner::pick_fair(std::uint32_t after) const {
  if (ready_ == 0) return kNone;
  std::uint32_t warp = views_[after].warp;
  const std::uint64_t behind = warp_[warp].runnable & (~1ULL << views_[after].lane);
  if (behind != 0) return index_of(warp, static_cast<std::uint32_t>(std::countr_zero(behind)));
  if (warp_[warp].runnable == 0) {
    const std::uint64_t later = ready_ & (~1ULL << warp);
    warp = static_cast<std::uint32_t>(std::countr_zero(later != 0 ? later : ready_));
  }
  return index_of(warp, static_cast<std::uint32_t>(std::countr_zero(warp_[warp].runnable)));
}

std::uint32_t Runner::pick_seeded(bool any_lane) {
  transfers_.some(random_);
  if (ready_ == 0) return kNone;
  if (warps_ > 1 && random_.once_in(redraw_)) std::swap(priority_[0], priority_[random_.below(warps_)]);
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
  const q::host::Thread& me = views_[current_];
  if ((warp_[me.warp].runnable &= ~(1ULL << me.lane)) == 0) ready_ &= ~(1ULL << me.warp);
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
    if (warps_ > 1 && random_.once_in(2)) std::swap(priority_[random_.below(warps_)], priority_[random_.below(warps_)]);
    return switch_to(pick_seeded(true));
  }
  // Lane after lane and then to the next warp: the rest of a warp that polls together must not keep others from
  // running.
  const std::uint32_t warp = views_[current_].warp;
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
void Runner::arrive(std::uint32_t id, std::uint32_t expected) {
  Barrier& b = barriers_[id];
  if (b.count != 0 && b.expected != expected) {
    failure_ = name_of(current_) + ": sync_named of " + std::to_string(expected) + " threads for barrier " +
               std::to_string(id) + ", where others wait for " + std::to_string(b.expected);
    abandon();
  }
  char* order = &b.order[b.parity];
  release(order);
  b.expected = expected;
  b.arrived[views_[current_].warp] |= 1ULL << views_[current_].lane;
  if (++b.count == expected) {
    b.count = 0;
    b.parity ^= 1;
    for (std::uint32_t w = 0; w < warps_; ++w) {
      if (b.arrived[w] != 0) make_runnable(w, std::exchange(b.arrived[w], 0));
    }
    reschedule();
  } else {
    wait(id == 0 ? Wait::block : Wait::named, id);
  }
  acquire(order);
}

template <class AtLast>
void Runner::join(Wait what, AtLast at_last) {
  const q::host::Thread& me = views_[current_];
  Warp& w = warp_[me.warp];
  if (w.arrived != 0 && w.collective != what) {
    // Every lane that waits here waits for the same thing.
    const auto other = index_of(me.warp, static_cast<std::uint32_t>(std::countr_zero(w.arrived)));
    fibers_[current_].wait = what;
    failure_ = "a warp's lanes have parted: " + name_of(current_) + " " + state_of(current_) + " while " +
               name_of(other) + " is " + state_of(other);
    abandon();
  }
  w.collective = what;
  w.arrived |= 1ULL << me.lane;
  if (w.arrived == w.all) {
    at_last(w);
    w.arrived = 0;
    w.parity ^= 1;
    make_runnable(me.warp, w.all);
    reschedule();
  } else {
    wait(what, 0);
  }
}

}  // namespace quern::jit::host
