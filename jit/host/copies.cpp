// Bulk copies, and barriers in shared memory that count them, as kernels call them.
// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "jit/host/hopper_calls.h"

namespace quern::jit::host {
namespace {

// A second's worth or so, during which no barrier in shared memory has seen anybody arrive.
constexpr std::uint32_t kMostPolls = 1u << 24;

}  // namespace

void HopperCalls::bulk(const q::host::BulkCopy* copy) {
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
    const std::uint8_t readers = Mbarriers::kCopies | (rank == block() ? 0 : Mbarriers::kOtherBlocks);
    check(name, what.barrier, r.mbarriers_.reach(what.barrier, readers));
    check(name, what.barrier, r.bulk_.load(what, r.current_, r.random_));
  }
  r.wake();
  r.reschedule();
}

void HopperCalls::fence_async() {
  if (runner->fenced_ != fiber().warp) runner->show_fenced();
  runner->fenced_ = fiber().warp;
  runner->mbarriers_.fence(runner->current_, Mbarriers::kCopies);
  runner->reschedule();
}

void HopperCalls::bulk_commit() { runner->bulk_.commit(runner->current_); }

void HopperCalls::bulk_wait(unsigned groups_left, unsigned read_only) {
  runner->reschedule();
  runner->bulk_.wait(runner->current_, groups_left, read_only != 0);
}

void HopperCalls::copy_arrive(void* barrier) {
  constexpr const char* kWhat = "copy_async_arrive";
  offset_of(kWhat, barrier, 8, 8);
  check(kWhat, barrier, runner->mbarriers_.promise(barrier));
  runner->transfers_.arrive(runner->current_, barrier);
  runner->reschedule();
}

void HopperCalls::mbarrier_init(void* barrier, unsigned arrivals) {
  offset_of("mbarrier_init", barrier, 8, 8);
  check("mbarrier_init", barrier, runner->mbarriers_.init(barrier, arrivals, runner->current_));
}

void HopperCalls::fence_mbarrier_init() {
  runner->mbarriers_.fence(runner->current_, Mbarriers::kCopies | Mbarriers::kOtherBlocks);
}

void HopperCalls::mbarrier_invalidate(void* barrier) {
  offset_of("mbarrier_invalidate", barrier, 8, 8);
  check("mbarrier_invalidate", barrier, runner->mbarriers_.invalidate(barrier));
}

void HopperCalls::arrive(const char* what, void* barrier, unsigned arrivals, unsigned bytes) {
  check(what, barrier, runner->mbarriers_.arrive(barrier, arrivals, bytes));
  runner->wake();
  runner->reschedule();
}

void HopperCalls::mbarrier_arrive(void* barrier, unsigned arrivals, unsigned bytes) {
  const char* const what = arrivals == 0 ? "mbarrier_expect"
                           : bytes == 0  ? "mbarrier_arrive"
                                         : "mbarrier_arrive_expect";
  offset_of(what, barrier, 8, 8);
  arrive(what, barrier, arrivals, bytes);
}

void HopperCalls::mbarrier_arrive_remote(void* barrier, unsigned rank, unsigned relaxed) {
  constexpr const char* kWhat = "mbarrier_arrive_remote";
  const std::uint32_t at = offset_of(kWhat, barrier, 8, 8);
  if (relaxed == 0) release_block();
  void* const there_at = there(live_block(kWhat, rank), at);
  if (rank != block()) check(kWhat, there_at, runner->mbarriers_.reach(there_at, Mbarriers::kOtherBlocks));
  arrive(kWhat, there_at, 1, 0);
}

std::uint32_t HopperCalls::parity(const char* what, void* barrier, unsigned phase) {
  offset_of(what, barrier, 8, 8);
  check(what, barrier, runner->mbarriers_.check(barrier));
  if (phase > 1) check(what, barrier, "a phase's parity is 0 or 1");
  return phase;
}

unsigned HopperCalls::mbarrier_try_wait(void* barrier, unsigned phase) {
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

void HopperCalls::mbarrier_wait(void* barrier, unsigned phase) {
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

}  // namespace quern::jit::host
