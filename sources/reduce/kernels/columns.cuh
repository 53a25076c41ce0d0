// Reduces where it is the elements of neighbouring rows that lie beside each other: a thread takes sixteen bytes of
// these, and goes through what is reduced; eight threads and more share that out. Those of a warp are joined by
// shuffles, the warps one after the other.
// SPDX-License-Identifier: Apache-2.0
#include "reduce/kernels/elements.cuh"

namespace q {

inline constexpr int kAcross = TEAM;                    // threads beside each other,
inline constexpr int kDown = kReduceThreads / kAcross;  // and one below the other
inline constexpr int kWarps = kReduceThreads / kWarp;
inline constexpr int kAtOnce = AT_ONCE;             // elements of each row that a thread has under way
inline constexpr bool kSegments = SEGMENTS;         // more than one dimension is reduced
inline constexpr int kColumns = kAcross * kVector;  // of a block
// Whether all of a block's states have room in shared memory, or only one column of each thread's at a time.
inline constexpr bool kJoinsAtOnce = sizeof(State) <= 16;

// Where element `number` of a row lies, from its first.
struct Offset {
  i64 x, y;
};
QUERN_DEVICE Offset offset_of(const ReduceParams& p, i32 number) {
  if constexpr (!kSegments) return {number * p.reduced[0].x, kHasY ? number * p.reduced[0].y : 0};
  Offset at{};
  QUERN_ROLLED for (int d = 0; d < p.reduced_dims; ++d) {
    const ReducedDim& dim = p.reduced[d];
    const i32 rest = d + 1 < p.reduced_dims ? number / dim.extent : 0, here = number - rest * dim.extent.value;
    at.x += here * dim.x, at.y += here * dim.y;
    number = rest;
  }
  return at;
}

// A thread's columns: `count` of them are there.
struct Columns {
  const Element *x, *y;
  i32 count;
};

QUERN_DEVICE void take_elements(const ReduceParams& p, const Columns& c, i32 number, State (&states)[kVector]) {
  const Offset at = offset_of(p, number);
  QUERN_UNROLL for (int i = 0; i < kVector; ++i) {
    if (i >= c.count) continue;
    const f32 y = kHasY ? widen_one(c.y + at.y + i * p.kept[0].y) : 0.0f;
    take_one(p, widen_one(c.x + at.x + i), y, number, states[i]);
  }
}

// A round of vectors, all of which are there or as many as there are.
template <bool all>
QUERN_DEVICE void take_round(const ReduceParams& p, const Columns& c, i32 number, i32 end, State (&states)[kVector]) {
  Loaded loaded[kAtOnce];
  QUERN_UNROLL for (int j = 0; j < kAtOnce; ++j) {
    if (!all && number + j * kDown >= end) continue;
    const Offset at = offset_of(p, number + j * kDown);
    loaded[j].x = load16_alone(c.x + at.x);
    if constexpr (kHasY) loaded[j].y = load16_alone(c.y + at.y);
  }
  QUERN_UNROLL for (int j = 0; j < kAtOnce; ++j) {
    if (!all && number + j * kDown >= end) continue;
    f32 v[kVector], w[kVector] = {};
    widen_vector(loaded[j].x, v);
    if constexpr (kHasY) widen_vector(loaded[j].y, w);
    QUERN_UNROLL for (int i = 0; i < kVector; ++i) take_one(p, v[i], w[i], number + j * kDown, states[i]);
  }
}

QUERN_DEVICE void take_columns(const ReduceParams& p, const Columns& c, i32 first, i32 end, State (&states)[kVector]) {
  const bool vectors = p.aligned != 0 && c.count == kVector;
  QUERN_ROLLED for (i32 number = first; number < end; number += kAtOnce * kDown) {
    const bool all = number + (kAtOnce - 1) * kDown < end;
    if (vectors && all) {
      take_round<true>(p, c, number, end, states);
    } else if (vectors) {
      take_round<false>(p, c, number, end, states);
    } else if (c.count > 0) {
      QUERN_ROLLED for (i32 j = 0; j < kAtOnce && number + j * kDown < end; ++j) {
        take_elements(p, c, number + j * kDown, states);
      }
    }
  }
}

// What a block found of a column.
struct Unit {
  RowPlace place;
  i32 of, column, piece;  // column: the block's first
};
QUERN_DEVICE void store_column(const ReduceParams& p, const Unit& unit, i32 column, const State& all) {
  if (p.pieces == 1) {
    RowPlace at = unit.place;
    QUERN_UNROLL for (int r = 0; r < kReduceResults; ++r) at.out[r] += column * p.kept[0].out[r];
    store_results(p, at, all);
  } else {
    const i64 row = static_cast<i64>(unit.of) * p.kept[0].extent.value + column;
    static_cast<State*>(p.partial)[row * p.pieces + unit.piece] = all;
  }
}

// A column's states of the threads below each other: those of a warp, then warp by warp.
QUERN_DEVICE void join_columns(const ReduceParams& p, const Unit& unit, State (&states)[kVector], State* shared) {
  const i32 across = thread_index() % kAcross;
  const bool first = lane() < kAcross;  // of its warp's
  const i32 left = p.kept[0].extent.value - unit.column;
  QUERN_UNROLL for (int d = kAcross; d < kWarp; d *= 2) {
    QUERN_UNROLL for (int i = 0; i < kVector; ++i) states[i].join(states[i].shuffled(d));
  }
  if constexpr (kJoinsAtOnce) {
    if (first) {
      QUERN_UNROLL for (int i = 0; i < kVector; ++i) shared[(warp() * kVector + i) * kAcross + across] = states[i];
    }
    sync_block();
    QUERN_ROLLED for (i32 column = thread_index(); column < kColumns && column < left; column += kReduceThreads) {
      const State* from = shared + column % kVector * kAcross + column / kVector;
      State all = from[0];
      QUERN_UNROLL for (int w = 1; w < kWarps; ++w) all.join(from[w * kColumns]);
      store_column(p, unit, unit.column + column, all);
    }
    sync_block();
  } else {
    QUERN_UNROLL for (int i = 0; i < kVector; ++i) {
      if (first) shared[warp() * kAcross + across] = states[i];
      sync_block();
      if (thread_index() < kAcross && across * kVector + i < left) {
        State all = states[i];
        QUERN_UNROLL for (int w = 1; w < kWarps; ++w) all.join(shared[w * kAcross + across]);
        store_column(p, unit, unit.column + across * kVector + i, all);
      }
      sync_block();
    }
  }
}

QUERN_DEVICE void reduce_columns(const ReduceParams& p) {
  QUERN_SHARED(State, shared, kWarps * kAcross * (kJoinsAtOnce ? kVector : 1));
  const i32 across = thread_index() % kAcross, down = thread_index() / kAcross;
  const i32 extent = p.kept[0].extent.value, blocks = div_up(extent, kColumns), outer = p.rows / p.kept[0].extent;
  const i64 units = static_cast<i64>(outer) * blocks * p.pieces;
  QUERN_ROLLED for (i64 unit = block_index(0); unit < units; unit += block_count(0)) {
    const i64 block = unit / p.pieces;
    const i32 piece = static_cast<i32>(unit - block * p.pieces), of = static_cast<i32>(block / blocks);
    const i32 column = static_cast<i32>(block - static_cast<i64>(of) * blocks) * kColumns + across * kVector;
    const RowPlace place = place_of_row(p, of, 1);
    Columns c;
    c.count = extent - column < kVector ? extent - column : kVector;
    c.x = static_cast<const Element*>(p.x) + (place.x + column);
    c.y = kHasY ? static_cast<const Element*>(p.y) + (place.y + column * p.kept[0].y) : nullptr;
    State states[kVector];
    QUERN_UNROLL for (int i = 0; i < kVector; ++i) states[i] = State::none();
    const i32 first = piece * p.piece, end = p.length - first < p.piece ? p.length : first + p.piece;
    take_columns(p, c, first + down, end, states);
    join_columns(p, {place, of, column - across * kVector, piece}, states, shared);
  }
}

static_assert(sizeof(State) == STATE_BYTES, "the library makes room for what a kernel stores");

}  // namespace q

QUERN_KERNEL(quern_reduce_columns, q::kReduceThreads, BLOCKS_PER_SM, QUERN_PARAM q::ReduceParams p) {
  q::launch_next_grid();
  q::wait_for_previous_grid();
  q::reduce_columns(p);
}
