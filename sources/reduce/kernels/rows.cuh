// Reduces rows whose elements lie beside each other, or are too few or too far apart for anything better: a team of
// threads takes a row, or a piece of one. Rows begin anywhere: they are taken in vectors from the last 16-byte boundary
// at or before their first element, of which those at the two ends are not whole.
// SPDX-License-Identifier: Apache-2.0
#include "reduce/kernels/elements.cuh"

namespace q {

inline constexpr int kThreads = kReduceThreads;
inline constexpr int kTeam = TEAM;       // threads of a row
inline constexpr int kAtOnce = AT_ONCE;  // vectors that a thread has under way
inline constexpr int kTeams = kThreads / kTeam;
inline constexpr bool kSegments = SEGMENTS;  // a row is more than one run of elements

// One run of a row's elements, and a vector of it.
struct Step {
  const Element *x, *y;
  i64 place;     // of the vector's first element in the row; negative where that is before the row
  i32 from, to;  // the vector's elements that are the run's
  QUERN_DEVICE bool whole() const { return from == 0 && to == kVector; }
};

class Row {
 public:
  QUERN_DEVICE Row(const ReduceParams& p, const RowPlace& place)
      : p_(p),
        x_(static_cast<const Element*>(p.x) + place.x),
        y_(kHasY ? static_cast<const Element*>(p.y) + place.y : nullptr) {}

  QUERN_DEVICE Step step(i32 number) const {
    const Element *x = x_, *y = y_;
    i64 place = 0;
    if constexpr (kSegments) {
      const i32 segment = number / p_.steps;
      number -= segment * p_.steps.value;
      place = segment * p_.run;
      i32 left = segment;
      QUERN_ROLLED for (int d = 1; d < p_.reduced_dims; ++d) {
        const ReducedDim& dim = p_.reduced[d];
        const i32 rest = d + 1 < p_.reduced_dims ? left / dim.extent : 0, here = left - rest * dim.extent.value;
        x += here * dim.x;
        if constexpr (kHasY) y += here * dim.y;
        left = rest;
      }
    }
    i64 first = static_cast<i64>(number) * kVector;
    if constexpr (kVector > 1) first -= static_cast<i64>((reinterpret_cast<u64>(x) & 15) / sizeof(Element));
    const i64 left = p_.run - first;
    Step s;
    if (kSegments && p_.aligned)
      return {x + first, kHasY ? y + first * p_.reduced[0].y : nullptr, place + first, 0, kVector};
    s.x = x + first * (kVector > 1 ? 1 : p_.reduced[0].x);
    s.y = kHasY ? y + first * p_.reduced[0].y : nullptr;
    s.place = place + first;
    s.from = first < 0 ? static_cast<i32>(-first) : 0;
    s.to = left < kVector ? static_cast<i32>(left) : kVector;
    return s;
  }

 private:
  const ReduceParams& p_;
  const Element *x_, *y_;
};

QUERN_DEVICE bool loads_y(const ReduceParams& p, const Step& s) {
  return kVector == 1 || (p.reduced[0].y == 1 && is_aligned(s.y));
}

// One vector at a time, whole or not.
QUERN_DEVICE void take_step(const ReduceParams& p, const Row& row, i32 number, State& state) {
  const Step s = row.step(number);
  Elements<kVector> t;
  t.place = s.place, t.from = s.from, t.to = s.to;
  if (s.whole() && (!kHasY || loads_y(p, s))) {
    widen_whole(load_whole(s.x), t.v);
    if constexpr (kHasY) widen_whole(load_whole(s.y), t.y);
  } else {
    load_some(s.x, s.y, p.reduced[0].y, t);
  }
  prepare(p, t);
  state.take<false>(t);
}

QUERN_DEVICE void take_loaded(const ReduceParams& p, const Loaded& loaded, i64 place, State& state) {
  Elements<kVector> t;
  t.place = place, t.from = 0, t.to = kVector;
  widen_whole(loaded.x, t.v);
  if constexpr (kHasY) widen_whole(loaded.y, t.y);
  prepare(p, t);
  state.take<true>(t);
}

// The last vectors of a row, which are fewer than a round's: at once where all are whole.
QUERN_DEVICE bool take_last(const ReduceParams& p, const Row& row, i32 number, i32 end, State& state) {
  Step steps[kAtOnce];
  bool whole = true;
  QUERN_UNROLL for (int i = 0; i < kAtOnce - 1; ++i) {
    steps[i] = row.step(number + i * kTeam);
    whole = whole && (number + i * kTeam >= end || (steps[i].whole() && (!kHasY || loads_y(p, steps[i]))));
  }
  if (!whole) return false;
  Loaded loaded[kAtOnce];
  QUERN_UNROLL for (int i = 0; i < kAtOnce - 1; ++i) {
    if (number + i * kTeam >= end) continue;
    loaded[i].x = load_whole(steps[i].x);
    if constexpr (kHasY) loaded[i].y = load_whole(steps[i].y);
  }
  QUERN_UNROLL for (int i = 0; i < kAtOnce - 1; ++i) {
    if (number + i * kTeam < end) take_loaded(p, loaded[i], steps[i].place, state);
  }
  return true;
}

QUERN_DEVICE void take_row(const ReduceParams& p, const Row& row, i32 first, i32 end, State& state) {
  QUERN_ROLLED for (i32 number = first; number < end; number += kAtOnce * kTeam) {
    Step steps[kAtOnce];
    const bool all = number + (kAtOnce - 1) * kTeam < end;
    bool whole = all;
    QUERN_UNROLL for (int i = 0; i < kAtOnce; ++i) {
      steps[i] = row.step(number + i * kTeam);
      whole = whole && steps[i].whole() && (!kHasY || loads_y(p, steps[i]));
    }
    if (whole) {
      Loaded loaded[kAtOnce];
      QUERN_UNROLL for (int i = 0; i < kAtOnce; ++i) {
        loaded[i].x = load_whole(steps[i].x);
        if constexpr (kHasY) loaded[i].y = load_whole(steps[i].y);
      }
      QUERN_UNROLL for (int i = 0; i < kAtOnce; ++i) take_loaded(p, loaded[i], steps[i].place, state);
    } else if (all || !take_last(p, row, number, end, state)) {
      QUERN_ROLLED for (i32 i = 0; i < kAtOnce && number + i * kTeam < end; ++i) {
        take_step(p, row, number + i * kTeam, state);
      }
    }
  }
}

// The team's first thread has the result.
QUERN_DEVICE void join_team(State& state, [[maybe_unused]] State* shared) {
  if constexpr (kTeam <= kWarp) {
    join_lanes<kTeam>(state);
  } else {
    constexpr int kWarps = kTeam / kWarp;
    join_lanes<kWarp>(state);
    if (lane() == 0) shared[warp()] = state;
    sync_block();
    if (thread_index() % kTeam == 0) {
      QUERN_UNROLL for (int w = 1; w < kWarps; ++w) state.join(shared[warp() + w]);
    }
    sync_block();
  }
}

// Rows that lie evenly, by code of their own: few take little longer than their code is fetched.
QUERN_DEVICE void reduce_brief(const ReduceParams& p, State* shared) {
  constexpr int kBrief =
      kTeam < kThreads && kAtOnce == 4 && !kHasY ? 8 : kAtOnce;  // what the longest rows of a team have
  const i32 own = thread_index() % kTeam, row = block_index(0) * kTeams + thread_index() / kTeam;
  const bool there = row < p.rows;
  const KeptDim& dim = p.kept[0];
  State state = State::none();
  const Element* x = static_cast<const Element*>(p.x) + row * dim.x;
  const Element* y = kHasY ? static_cast<const Element*>(p.y) + row * dim.y : nullptr;
  const i32 end = there ? p.length : 0;
  QUERN_ROLLED for (i32 number = own; number < end; number += kBrief * kTeam) {
    Loaded loaded[kBrief];
    QUERN_UNROLL for (int i = 0; i < kBrief; ++i) {
      const i32 at = number + i * kTeam;
      if (at >= end) continue;
      loaded[i].x = load_whole(x + at * kVector);
      if constexpr (kHasY) loaded[i].y = load_whole(y + at * kVector);
    }
    QUERN_UNROLL for (int i = 0; i < kBrief; ++i) {
      const i32 at = number + i * kTeam;
      if (at < end) take_loaded(p, loaded[i], static_cast<i64>(at) * kVector, state);
    }
  }
  join_team(state, shared);
  RowPlace place{};
  QUERN_UNROLL for (int i = 0; i < kReduceResults; ++i) place.out[i] = row * dim.out[i];
  if (there && own == 0) store_results(p, place, state);
}

// Such rows of a whole block, or pieces of them: it goes from one to the next, whose vectors are on their way
// meanwhile.
QUERN_DEVICE void reduce_one_by_one(const ReduceParams& p, State* shared) {
  const KeptDim& dim = p.kept[0];
  const i32 own = thread_index(), step = block_count(0), units = p.rows * p.pieces;
  struct Unit {
    i32 row, begin, end;  // its vectors, in the row
  };
  const auto unit_of = [&](i32 number) {
    const i32 row = p.pieces == 1 ? number : number / p.by_pieces, begin = (number - row * p.pieces) * p.piece;
    return Unit{row, begin, p.length - begin < p.piece ? p.length : begin + p.piece};
  };
  const auto load = [&](const Unit& unit, i32 first, Loaded(&to)[kAtOnce]) {
    const Element* x = static_cast<const Element*>(p.x) + unit.row * dim.x;
    const Element* y = kHasY ? static_cast<const Element*>(p.y) + unit.row * dim.y : nullptr;
    QUERN_UNROLL for (int i = 0; i < kAtOnce; ++i) {
      const i32 at = first + own + i * kTeam;
      if (at >= unit.end) continue;
      to[i].x = load_whole(x + static_cast<i64>(at) * kVector);
      if constexpr (kHasY) to[i].y = load_whole(y + static_cast<i64>(at) * kVector);
    }
  };
  i32 number = block_index(0);
  if (number >= units) return;
  Unit unit = unit_of(number);
  i32 first = unit.begin;  // the first vector of a round
  Loaded next[kAtOnce];
  load(unit, first, next);
  State state = State::none();
  QUERN_ROLLED while (number < units) {
    const Unit here = unit;
    const i32 from = first, own_number = number;
    first += kAtOnce * kTeam;
    const bool done = first >= unit.end;
    if (done) {
      number += step;
      if (number < units) unit = unit_of(number), first = unit.begin;
    }
    Loaded loaded[kAtOnce];
    QUERN_UNROLL for (int i = 0; i < kAtOnce; ++i) loaded[i] = next[i];
    if (number < units) load(unit, first, next);
    QUERN_UNROLL for (int i = 0; i < kAtOnce; ++i) {
      const i32 at = from + own + i * kTeam;
      if (at < here.end) take_loaded(p, loaded[i], static_cast<i64>(at) * kVector, state);
    }
    if (!done) continue;
    join_team(state, shared);
    RowPlace place{};
    QUERN_UNROLL for (int i = 0; i < kReduceResults; ++i) place.out[i] = here.row * dim.out[i];
    if (own == 0 && p.pieces == 1) store_results(p, place, state);
    if (own == 0 && p.pieces > 1) static_cast<State*>(p.partial)[own_number] = state;
    state = State::none();
  }
}

QUERN_CALLED i64 quotient(i64 n, i64 by) { return n / by; }

QUERN_DEVICE void reduce_rows(const ReduceParams& p) {
  QUERN_SHARED(State, shared, kTeam > kWarp ? kThreads / kWarp : 1);
  if constexpr (kVector > 1 && !kSegments) {
    if (laid_first(p.brief == kReduceOnce)) return reduce_brief(p, shared);
    if constexpr (kTeam == kThreads) {
      if (p.brief == kReduceOneByOne) return reduce_one_by_one(p, shared);
    }
  }
  const i32 own = thread_index() % kTeam, team = thread_index() / kTeam;
  const i64 units = static_cast<i64>(p.rows) * p.pieces;
  // All threads of a block go through the same rounds.
  QUERN_ROLLED for (i64 round = static_cast<i64>(block_index(0)) * kTeams; round < units;
                    round += static_cast<i64>(block_count(0)) * kTeams) {
    const i64 unit = round + team;
    const bool there = unit < units;
    i32 row = there ? static_cast<i32>(unit) : 0, piece = 0;
    if (!laid_first(p.pieces == 1) && there) {
      row = static_cast<i32>(quotient(unit, p.pieces));
      piece = static_cast<i32>(unit - static_cast<i64>(row) * p.pieces);
    }
    const RowPlace place = place_of_row(p, row, 0);
    State state = State::none();
    if (there) {
      const i32 first = piece * p.piece, end = p.length - first < p.piece ? p.length : first + p.piece;
      take_row(p, Row(p, place), first + own, end, state);
    }
    join_team(state, shared);
    if (laid_first(p.pieces == 1)) {
      if (there && own == 0) store_results(p, place, state);
      continue;
    }
    if (there && own == 0) static_cast<State*>(p.partial)[unit] = state;
  }
}

// The pieces of a row, whose states lie side by side: a thread takes few of them, a warp more and a block many; each
// thread some, and then thread by thread.
QUERN_DEVICE void join_pieces(const ReduceParams& p) {
  QUERN_SHARED(State, shared, kThreads / kWarp);
  const State* partial = static_cast<const State*>(p.partial);
  if (p.pieces <= kFewPieces) {
    QUERN_ROLLED for (i64 row = static_cast<i64>(block_index(0)) * kThreads + thread_index(); row < p.rows;
                      row += static_cast<i64>(block_count(0)) * kThreads) {
      State state = partial[row * p.pieces];
      QUERN_FOUR_AT_ONCE for (i32 piece = 1; piece < p.pieces; ++piece) state.join(partial[row * p.pieces + piece]);
      store_results(p, place_of_row(p, static_cast<i32>(row), 0), state);
    }
    return;
  }
  const bool whole = p.pieces > kManyPieces;
  const i32 teams = whole ? 1 : kThreads / kWarp, team = whole ? 0 : warp();
  const i32 own = whole ? thread_index() : lane(), threads = whole ? kThreads : kWarp;
  QUERN_ROLLED for (i64 round = static_cast<i64>(block_index(0)) * teams; round < p.rows;
                    round += static_cast<i64>(block_count(0)) * teams) {
    const i64 row = round + team;
    State state = State::none();
    if (row < p.rows) {
      QUERN_FOUR_AT_ONCE for (i32 piece = own; piece < p.pieces; piece += threads) {
        state.join(partial[row * p.pieces + piece]);
      }
    }
    join_lanes<kWarp>(state);
    if (whole) {
      if (lane() == 0) shared[warp()] = state;
      sync_block();
      if (thread_index() == 0) {
        QUERN_ROLLED for (int w = 1; w < kThreads / kWarp; ++w) state.join(shared[w]);
      }
      sync_block();
    }
    if (row < p.rows && own == 0) store_results(p, place_of_row(p, static_cast<i32>(row), 0), state);
  }
}

static_assert(sizeof(State) == STATE_BYTES, "the library makes room for what a kernel stores");

}  // namespace q

QUERN_KERNEL(quern_reduce, q::kReduceThreads, BLOCKS_PER_SM, QUERN_PARAM q::ReduceParams p) {
  q::launch_next_grid();
  q::wait_for_previous_grid();
  if constexpr (JOIN) {
    q::join_pieces(p);
  } else {
    q::reduce_rows(p);
  }
}
