// Who comes last: blocks, or teams of threads, that count at a counter in memory what they have done.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/kernel.cuh"

namespace q {

// Called by all threads of a team, of which `first` is one and which meet in sync(). True in all of them when theirs is
// the last of count() teams to call it: what the others had written before is then there to read, and *counter() is
// zero again. `flag` is the team's own shared memory. Both are asked for by one thread, behind the barrier: what they
// are made of would else be in registers of all threads across it, with which attention decodes over caches of
// 8 bits 4 % slower on an H200 (tests/bench/results/2026-11-23_engine_log.md).
//
// One thread orders for all: what is behind a barrier is as its own. Fences of all threads instead, before and behind,
// take 0.1 to 0.3 us more of a short decode on an H200.
template <class Flag, class Sync, class Counter, class Count>
QUERN_DEVICE bool arrived_last(bool first, Flag* flag, Sync sync, Counter counter, Count count) {
  sync();
  if (first) {
    const u32 before = atomic_add_ordered(counter(), 1u);
    const bool last = before + 1 == count();
    if (last) *counter() = 0;
    *flag = last;
  }
  sync();
  return *flag != 0;
}

}  // namespace q
