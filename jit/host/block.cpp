// Runs the blocks of a grid on one CPU thread: fibers, their order, and what they wait for.
// SPDX-License-Identifier: Apache-2.0
#include "jit/host/block.h"

#include <bit>
#include <utility>

#include "jit/host/collective.h"
#include "jit/host/hopper.h"

namespace quern::jit::host {

__thread Runner* runner = nullptr;

// ---- From the kernel
struct Calls {
  // Constant over the life of a fiber, unlike everything else here.
  static const q::host::Thread* self() { return &runner->views_[runner->current_]; }
  static void waited_for_grid() {
    runner->has_waited_ = true;
    if (runner->grid_.late != nullptr) runner->grid_.late->arrive();
  }
  static void sync_block() { runner->arrive(0, runner->threads_, true); }
  static void sync_named(unsigned id, unsigned threads) {
    runner->check_named("sync_named", id, threads);
    runner->arrive(id, threads, true);
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
  static void together(q::host::Together kind, void* mine, void (*run)(void* const* lanes)) {
    constexpr Wait kWaits[] = {Wait::mma, Wait::load_matrix, Wait::store_matrix};
    Runner::Warp& w = r_warp();
    w.brought[self()->lane] = mine;
    // The last lane reads and writes what lies on the stacks of the others.
    char* order = &w.order[w.parity];
    release(order);
    runner->join(kWaits[static_cast<unsigned>(kind)], [=](Runner::Warp& all) {
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
  static Runner::Warp& r_warp() { return runner->warp_[runner->fibers_[runner->current_].warp]; }
};

const q::host::Table& table() {
  static const q::host::Table kTable = [] {
    q::host::Table t{};
    t.self = &Calls::self;
    t.waited_for_grid = &Calls::waited_for_grid;
    t.sync_block = &Calls::sync_block;
    t.sync_named = &Calls::sync_named;
    t.sync_warp = &Calls::sync_warp;
    t.shuffle = &Calls::shuffle;
    t.ballot = &Calls::ballot;
    t.together = &Calls::together;
    t.yield = &Calls::yield;
    t.copy = &Calls::copy;
    t.copy_commit = &Calls::copy_commit;
    t.copy_wait = &Calls::copy_wait;
    add_hopper_calls(t);
    return t;
  }();
  return kTable;
}

// ---- The life of a cluster
Runner::~Runner() {
  if (fibers_ == nullptr) return;
  for (std::uint32_t slot = 0; slot < kMaxSlots; ++slot) forget_fiber(fibers_[slot].watched);
}

void Runner::begin_grid(const Grid& grid) {
  grid_ = grid;
  has_waited_ = false;
  const std::uint32_t threads = grid.program->kernel->threads;
  const std::uint32_t blocks = grid.cluster[0] * grid.cluster[1] * grid.cluster[2];
  const bool other = fibers_ == nullptr || threads != threads_ || blocks != cluster_blocks_;
  threads_ = threads;
  warps_ = (threads_ + warp_size_ - 1) / warp_size_;
  cluster_blocks_ = blocks;
  block_slots_ = warps_ * warp_size_;
  if (fibers_ == nullptr) {
    views_ = std::make_unique<q::host::Thread[]>(kMaxSlots);
    fibers_ = std::make_unique<Fiber[]>(kMaxSlots);
    standing_ = std::make_unique<Standing[]>(kMaxSlots);
    warp_ = std::make_unique<Warp[]>(kMaxWarps);
  }
  if (other) lay_out_cluster();
  stacks_.reserve(cluster_blocks_ * block_slots_);
  windows_.resize(cluster_blocks_);
  async_view_.begin_grid(grid.program->image, cluster_blocks_);
  released_view_.begin_grid(grid.program->image, cluster_blocks_);
  for (std::uint32_t b = 0; b < cluster_blocks_; ++b) {
    if (arenas_[b] == nullptr) arenas_[b] = std::make_unique<Arena>();
    Arena& arena = *arenas_[b];
    arena.lay_out(grid.program->image, grid.program->module.shared, grid.program->placed_bytes, grid.dynamic_bytes);
    windows_[b] = {arena.window(), arena.window_bytes()};
  }
}

void Runner::lay_out_cluster() {
  for_each_slot([&](std::uint32_t slot, std::uint32_t b, std::uint32_t t) {
    views_[slot] = {&blocks_[b], t, t % warp_size_, t / warp_size_};
    fibers_[slot].block = static_cast<std::uint8_t>(b);
    fibers_[slot].warp = static_cast<std::uint8_t>(b * warps_ + t / warp_size_);
  });
  barriers_.clear();
  barriers_.resize(std::size_t{cluster_blocks_} * kBarriers);
}

void Runner::start_cluster(std::uint32_t x, std::uint32_t y, std::uint32_t z) {
  const std::uint32_t* cluster = grid_.cluster;
  for (std::uint32_t b = 0; b < cluster_blocks_; ++b) {
    blocks_[b] = {{x + b % cluster[0], y + b / cluster[0] % cluster[1], z + b / cluster[0] / cluster[1]},
                  {grid_.blocks[0], grid_.blocks[1], grid_.blocks[2]},
                  arenas_[b]->dynamic_part(),
                  arenas_[b]->window(),
                  grid_.seeded ? 1u : 0u,
                  b,
                  cluster_blocks_};
    // In every other unfair order, so that what reads NaN is found in the others.
    if (grid_.seeded && (grid_.seed & 1) != 0) {
      arenas_[b]->poison(grid_.seed + x + b);
    } else {
      arenas_[b]->poison();
    }
    live_[b] = threads_;
  }
  for_each_slot([&](std::uint32_t slot, std::uint32_t, std::uint32_t) {
    Fiber& f = fibers_[slot];
    f.wait = Wait::nothing;
    standing_[slot] = {};
    stacks_.arm(slot);
    watch_fiber(f.watched, stacks_.bottom(slot), stacks_.bytes());
    f.suspended = make_fiber(stacks_.top(slot), &Runner::fiber_main);
  });
  fenced_ = kNone;
  ready_ = 0;
  const std::uint32_t warps = cluster_blocks_ * warps_;
  for (std::uint32_t w = 0; w < warps; ++w) {
    const std::uint32_t before = w % warps_ * warp_size_;
    const std::uint32_t lanes = threads_ - before < warp_size_ ? threads_ - before : warp_size_;
    warp_[w].all = lanes == kMaxLanes ? ~0ULL : (1ULL << lanes) - 1;
    warp_[w].arrived = warp_[w].votes = warp_[w].runnable = 0;
    make_runnable(w, warp_[w].all);
  }
  for (Barrier& b : barriers_) {
    for (std::uint32_t w = 0; w < warps_; ++w) b.arrived[w] = 0;
    b.count = 0;
  }
  cluster_barrier_.arrived = 0;
  cluster_barrier_.live = cluster_blocks_ * threads_;
  returned_ = 0;
  current_ = 0;
  elected_ = 0;
  Delivery delivery = Delivery::random;
  if (grid_.seeded) {
    random_ = Random(grid_.seed, (std::uint64_t{z} * grid_.blocks[1] + y) * grid_.blocks[0] + x);
    for (std::uint32_t w = 0; w < warps; ++w) priority_[w] = static_cast<std::uint8_t>(w);
    for (std::uint32_t w = warps; w > 1; --w) std::swap(priority_[w - 1], priority_[random_.below(w)]);
    // From never to often: some mistakes show only when one warp is favoured throughout, others when it is not.
    constexpr std::uint32_t kRedraw[] = {0, 256, 32, 4};
    redraw_ = kRedraw[random_.below(4)];
    lane_order_ = random_.below(3);
    delivery = random_.below(2) != 0 ? Delivery::random : Delivery::last_in_first_out;
    transfers_.begin_block(cluster_blocks_ * block_slots_, delivery);
    elected_ = random_.below(warp_size_);
  }
  for (std::uint32_t b = 0; b < cluster_blocks_; ++b) {
    async_view_.begin_block(b, windows_[b].shared, windows_[b].bytes);
    if (cluster_blocks_ > 1 && grid_.seeded) released_view_.begin_block(b, windows_[b].shared, windows_[b].bytes);
    stored_to_[b] = 0;
  }
  mbarriers_.begin();
  bulk_.begin(cluster_blocks_ * block_slots_, grid_.seeded, delivery, random_);
  remote_stores_.begin(grid_.seeded, delivery, random_);
  products_.begin(windows_, (warps_ + Products::kWarps - 1) / Products::kWarps, grid_.seeded, delivery);
  registers_.begin(cluster_blocks_, warps_);
}

std::string Runner::run(std::uint32_t x, std::uint32_t y, std::uint32_t z) {
  failure_.clear();
  start_cluster(x, y, z);
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
  const bool finished = failure_.empty();
  for (std::uint32_t b = 0; b < cluster_blocks_ && failure_.empty(); ++b) failure_ = arenas_[b]->overrun();
  if (failure_.empty()) failure_ = unfinished();
  bulk_.end();
  remote_stores_.end();
  products_.end();
  if (!finished) {
    // Fibers were left in the midst of the kernel.
    for_each_slot([&](std::uint32_t slot, std::uint32_t, std::uint32_t) { forget_fiber(fibers_[slot].watched); });
  }
  return failure_.empty() ? failure_ : describe_block() + ": " + failure_;
}

std::string Runner::unfinished() {
  if (const char* copies = bulk_.finish()) return copies;
  if (const char* stores = remote_stores_.finish()) return stores;
  std::string products = products_.finish();
  return products.empty() ? registers_.finish() : products;
}

void Runner::fiber_main() {
  enter_fiber(runner->watched_thread_, std::exchange(runner->first_step_, false));
  acquire(&runner->begun_);
  runner->grid_.program->kernel->entry(runner->grid_.args);
  release(&runner->ended_);
  runner->finish_fiber();
}

void Runner::finish_fiber() {
  show_fenced();
  Fiber& f = fibers_[current_];
  if (!stacks_.intact(current_)) {
    failure_ = name_of(current_) + " has overflowed its stack";
    abandon();
  }
  f.wait = Wait::returned;
  ++returned_;
  --live_[f.block];
  if (cluster_blocks_ > 1) {
    --cluster_barrier_.live;
    cluster_barrier_.arrived -= at_cluster_barrier(current_);
    complete_cluster_barrier();
  }
  Warp& w = warp_[f.warp];
  w.runnable &= ~(1ULL << views_[current_].lane);
  if (w.runnable == 0) ready_ &= ~(1ULL << f.warp);
  const std::uint32_t next = pick();
  if (next == kNone) {
    if (returned_ != cluster_blocks_ * threads_) deadlock();
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
