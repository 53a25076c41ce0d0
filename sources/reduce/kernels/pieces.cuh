// Rows that are cut into pieces, whose states lie side by side: how these are joined, by a launch of their own or by
// the last block of the row that has come to its end. In what order is a matter of how many there are: a thread takes
// few of them, a warp more and a block many; each thread some, and then thread by thread.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reduce/kernels/states.cuh"

namespace q {

QUERN_DEVICE const State* pieces_of(const ReduceParams& p, i64 row) {
  return static_cast<const State*>(p.partial) + row * p.pieces;
}

// By one thread.
QUERN_DEVICE State join_few(const ReduceParams& p, i64 row) {
  const State* from = pieces_of(p, row);
  State state = from[0];
  QUERN_FOUR_AT_ONCE for (i32 piece = 1; piece < p.pieces; ++piece) state.join(from[piece]);
  return state;
}

// By a warp, or all warps of a block: what each warp's first lane has.
QUERN_DEVICE State join_own(const ReduceParams& p, i64 row, i32 own, i32 threads) {
  const State* from = pieces_of(p, row);
  State state = State::none();
  QUERN_FOUR_AT_ONCE for (i32 piece = own; piece < p.pieces; piece += threads) state.join(from[piece]);
  join_lanes<kWarp>(state);
  return state;
}

// The warps' states into the first one's. All threads of the block call it.
QUERN_DEVICE void join_warps(State& state, State* shared) {
  if (lane() == 0) shared[warp()] = state;
  sync_block();
  if (thread_index() == 0) {
    QUERN_ROLLED for (int w = 1; w < kReduceThreads / kWarp; ++w) state.join(shared[w]);
  }
  sync_block();
}

// Whether a block is the last of p.pieces that have come to their end with what is counted there, and all that they
// have stored can be read. The counter is then zero again. All threads of the block call it.
QUERN_DEVICE bool arrived_last(const ReduceParams& p, u32* counter) {
  QUERN_SHARED(u32, last, 1);
  fence();
  sync_block();
  if (thread_index() == 0) {
    last[0] = atomic_add(counter, 1u) + 1 == static_cast<u32>(p.pieces) ? 1 : 0;
    if (last[0] != 0) *counter = 0;
  }
  sync_block();
  fence();
  return last[0] != 0;
}

// A row by a block. All of its threads call it.
QUERN_DEVICE void finish_row(const ReduceParams& p, i64 row, const RowPlace& place, State* shared) {
  if (p.pieces <= kFewPieces) {
    if (thread_index() == 0) store_results(p, place, join_few(p, row));
    return;
  }
  const bool many = p.pieces > kManyPieces;
  State state = State::none();
  if (many || warp() == 0) state = join_own(p, row, many ? thread_index() : lane(), many ? kReduceThreads : kWarp);
  if (many) join_warps(state, shared);
  if (thread_index() == 0) store_results(p, place, state);
}

}  // namespace q
