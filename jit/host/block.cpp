// The life of a cluster: its fibers are readied, run to their ends, and what they leave behind is told.
// SPDX-License-Identifier: Apache-2.0
#include "jit/host/block.h"

#include <utility>

#include "jit/host/collective.h"

namespace quern::jit::host {

__thread Runner* runner = nullptr;

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

}  // namespace quern::jit::host
