// An item that was cut into two pieces is joined by whichever block of threads finishes later, while the other's
// partial result still lies in L2. Neither waits: who finds that the other has handed in joins; who does not hands in,
// and joins if the other has done the same in the meantime.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mla_decode/kernels/sm90/tasks.cuh"

namespace q {

// Called by all `threads` of the threads that multiply, of which thread 0 is one; they meet at barrier `id`. `word` is
// shared memory of their own.
struct Meeting {
  int id, threads;
  u32* word;

  // Whether the other piece's partial result is there.
  QUERN_DEVICE bool is_there(const MlaParams& p, const Task& t) const {
    if (thread_index() == 0) {
      *word = load_volatile(p.counters + t.counter);
      fence();
    }
    sync_named(id, threads);
    return *word != 0;
  }
  // Tells that this piece's is, and returns whether the other's is by now.
  QUERN_DEVICE bool hand_in(const MlaParams& p, const Task& t) const {
    sync_named(id, threads);
    if (thread_index() == 0) {
      fence();  // of all threads' stores, which the barrier has made known to this one
      *word = atomic_add(p.counters + t.counter, 1u);
      fence();
    }
    sync_named(id, threads);
    return *word != 0;
  }
  // Nobody counts any more.
  QUERN_DEVICE static void leave(const MlaParams& p, const Task& t) {
    if (thread_index() == 0) p.counters[t.counter] = 0;
  }
};

// A row of both pieces. Whoever joins them does it in the same order: the first piece, then the second.
struct Pair {
  bool own_first;
  f32 first, second;  // what the pieces are multiplied with

  QUERN_DEVICE Pair() = default;
  QUERN_DEVICE Pair(const Task& t, f32& max, f32& sum, f32 other_max, f32 other_sum) : own_first(t.index == 0) {
    const f32 joint = fmax(max, other_max), base = finite_max(joint);
    const f32 own = exp2(max - base), other = exp2(other_max - base);
    first = own_first ? own : other;
    second = own_first ? other : own;
    sum = join(sum, other_sum);
    max = joint;
  }
  QUERN_DEVICE f32 join(f32 own, f32 other) const {
    return fma(own_first ? other : own, second, (own_first ? own : other) * first);
  }
};

// A partial result that only the partner reads lies as the threads hold it: a number of each thread, then the next of
// each. (Two or four at once would ask for registers in twos or fours, which those that products add to are not free to
// be.)
template <int count>
QUERN_DEVICE void store_sums(f32* slot, const f32 (&sums)[count]) {
  QUERN_UNROLL for (int i = 0; i < count; ++i) slot[i * kConsumers + thread_index()] = sums[i];
}
QUERN_DEVICE f32 load_sum(const f32* slot, int i) { return slot[i * kConsumers + thread_index()]; }

}  // namespace q
