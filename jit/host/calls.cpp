// The functions that kernels call on any target: barriers, warp collectives, asynchronous copies.
// SPDX-License-Identifier: Apache-2.0
#include "jit/host/collective.h"
#include "jit/host/hopper.h"

namespace quern::jit::host {

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

namespace {
const q::host::Table kTable = [] {
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
}  // namespace

const q::host::Table& table() { return kTable; }

}  // namespace quern::jit::host
