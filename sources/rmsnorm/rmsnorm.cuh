// Normalises rows by their root mean square: a team of threads takes a row, and the next one's elements are on their
// way while it works out the sum of squares. A row that is longer than its team can hold is read twice.
// SPDX-License-Identifier: Apache-2.0
#include "common/kernel.cuh"
#include "quantize/team.cuh"
#include "quantize/vectors.cuh"
#include "rmsnorm/params.cuh"

namespace q {

using Element = ELEMENT;
using Weight = WEIGHT;
inline constexpr bool kResidual = RESIDUAL, kHasWeight = HAS_WEIGHT, kHeld = HELD;
inline constexpr i32 kStep = kTeam * kElements;  // columns from one of a thread's vectors to its next
inline constexpr i32 kPass = kStep * kVectors;   // columns that a team takes at once

// A thread's vectors of one pass over a row, as they lie in memory.
struct Loaded {
  Raw<Element> x[kVectors], residual[kResidual ? kVectors : 1];
};
struct Weights {
  Raw<Weight> v[kHasWeight ? kVectors : 1];
};
struct Values {
  Vector v[kVectors];
};

QUERN_DEVICE i32 first_column() { return (kTeams == 1 ? thread_index() : thread_index() % kTeam) * kElements; }

// Of a row that is none, past the last, nothing is read: `left` counts the row's elements from the thread's first
// column on.
QUERN_DEVICE Loaded load_row(const RmsnormParams& p, i64 row, i32 column, i32 left) {
  Loaded loaded;
  const Element* x = static_cast<const Element*>(p.x) + (row * p.x_stride + column);
  QUERN_UNROLL for (int v = 0; v < kVectors; ++v) loaded.x[v] = load_vector<Reuse::no>(x + v * kStep, left - v * kStep);
  if constexpr (kResidual) {
    const Element* residual = static_cast<const Element*>(p.residual) + (row * p.residual_stride + column);
    QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
      loaded.residual[v] = load_vector<Reuse::no>(residual + v * kStep, left - v * kStep);
    }
  }
  return loaded;
}

QUERN_DEVICE Weights load_weights(const RmsnormParams& p, i32 column) {
  Weights weights{};
  if constexpr (kHasWeight) {
    const Weight* at = static_cast<const Weight*>(p.weight) + column;
    QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
      weights.v[v] = load_vector<Reuse::yes>(at + v * kStep, p.n - column - v * kStep);
    }
  }
  return weights;
}

// x, or x + residual in f32. What lies past the row is 0.
QUERN_DEVICE Values values_of(const Loaded& loaded) {
  Values y;
  QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
    y.v[v] = widen(loaded.x[v]);
    if constexpr (kResidual) {
      const Vector other = widen(loaded.residual[v]);
      QUERN_UNROLL for (int i = 0; i < kElements; ++i) y.v[v].x[i] += other.x[i];
    }
  }
  return y;
}

QUERN_DEVICE f32 sum_of_squares(const Values& y) {
  f32 total = 0.0f;
  QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
    QUERN_UNROLL for (int i = 0; i < kElements; ++i) total = fma(y.v[v].x[i], y.v[v].x[i], total);
  }
  return total;
}

QUERN_DEVICE void store_row(const RmsnormParams& p, i64 row, i32 column, i32 left, Values& y, const Weights& weights,
                            f32 inverse) {
  if (kResidual && p.residual_out) {
    Element* at = static_cast<Element*>(p.residual_out) + (row * p.residual_out_stride + column);
    QUERN_UNROLL for (int v = 0; v < kVectors; ++v) store_vector(at + v * kStep, y.v[v], left - v * kStep);
  }
  Element* out = static_cast<Element*>(p.out) + (row * p.out_stride + column);
  QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
    Vector by;
    if constexpr (kHasWeight) by = widen(weights.v[v]);
    QUERN_UNROLL for (int i = 0; i < kElements; ++i) {
      y.v[v].x[i] *= inverse;
      if constexpr (kHasWeight) y.v[v].x[i] *= by.x[i] + p.weight_offset;
    }
    store_vector(out + v * kStep, y.v[v], left - v * kStep);
  }
}

QUERN_DEVICE f32 inverse_of(const RmsnormParams& p, f32 squares) {
  return rsqrt(squares / static_cast<f32>(p.n) + p.eps);
}

QUERN_DEVICE void normalise_held(const RmsnormParams& p, const Weights& weights, Joiner& joiner) {
  const i32 column = first_column();
  const i64 step = static_cast<i64>(block_count(0)) * kTeams;
  const i64 team = kTeams == 1 ? 0 : thread_index() / kTeam;
  const auto left = [&](i64 row) { return row < p.rows ? p.n - column : 0; };
  i64 first = static_cast<i64>(block_index(0)) * kTeams;
  Loaded next = load_row(p, first + team, column, left(first + team));
  // All threads of a block go through the same rounds: teams without a row join the others' sums with nothing.
  QUERN_ROLLED for (; first < p.rows; first += step) {
    const i64 row = first + team;
    Values y = values_of(next);
    next = load_row(p, row + step, column, left(row + step));
    const f32 inverse = inverse_of(p, joiner.team(sum_of_squares(y), Plus()));
    store_row(p, row, column, left(row), y, weights, inverse);
  }
}

QUERN_DEVICE void normalise_long(const RmsnormParams& p, Joiner& joiner) {
  QUERN_ROLLED for (i64 row = block_index(0); row < p.rows; row += block_count(0)) {
    f32 squares = 0.0f;
    QUERN_ROLLED for (i32 column = first_column(); column < p.n; column += kPass) {
      squares += sum_of_squares(values_of(load_row(p, row, column, p.n - column)));
    }
    const f32 inverse = inverse_of(p, joiner.team(squares, Plus()));
    QUERN_ROLLED for (i32 column = first_column(); column < p.n; column += kPass) {
      Values y = values_of(load_row(p, row, column, p.n - column));
      store_row(p, row, column, p.n - column, y, load_weights(p, column), inverse);
    }
  }
}

QUERN_DEVICE void normalise_rows(const RmsnormParams& p) {
  QUERN_SHARED(f32, shared, 2 * Joiner::kWarps);
  Joiner joiner(shared);
  launch_next_grid();
  // What the grid before may still be writing is not read before it has ended; weights that nobody writes are.
  if (!p.constant_weight) wait_for_previous_grid();
  if constexpr (kHeld) {
    const Weights weights = load_weights(p, first_column());
    if (p.constant_weight) wait_for_previous_grid();
    normalise_held(p, weights, joiner);
  } else {
    if (p.constant_weight) wait_for_previous_grid();
    normalise_long(p, joiner);
  }
}

}  // namespace q

QUERN_KERNEL(quern_rmsnorm, THREADS, BLOCKS_PER_SM, QUERN_PARAM q::RmsnormParams p) { q::normalise_rows(p); }
