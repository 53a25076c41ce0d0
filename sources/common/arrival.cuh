// Who comes last: blocks, or teams of threads, that count at a counter in memory what they have done.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/kernel.cuh"

namespace q {

// Called by all threads of a team, of which `first` is one and which meet in sync(). True in all of them when theirs is
// the last of `count` teams to call it: what the others had written before is then there to read, and the counter is
// zero again. `flag` is the team's own shared memory.
//
// All threads fence. One thread's fences, behind and in front of the barriers, would do, and so would weaker ones; they
// save nothing on an H200, and attention's decoding over 8-bit caches is 4 % slower with them.
template <class Flag, class Sync>
QUERN_DEVICE bool arrived_last(u32* counter, u32 count, bool first, Flag* flag, Sync sync) {
  fence();
  sync();
  if (first) {
    const bool last = atomic_add(counter, 1u) + 1 == count;
    if (last) *counter = 0;
    *flag = last;
  }
  sync();
  fence();
  return *flag != 0;
}

}  // namespace q
