// Normalises rows by their root mean square: a team of threads takes a row, and the next one's elements are on their
// way while it works out the sum of squares. A row that is longer than its team can hold is read twice.
// SPDX-License-Identifier: Apache-2.0
#include "common/kernel.cuh"
#include "norm/values.cuh"
#include "rmsnorm/params.cuh"

namespace q {

using Element = ELEMENT;
using Weight = WEIGHT;
inline constexpr bool kResidual = RESIDUAL, kHasWeight = HAS_WEIGHT, kHeld = HELD;

// A thread's vectors of one pass over a row, as they lie in memory.
struct Loaded {
  RawValues<Element> x, residual;
};

QUERN_DEVICE const Element* x_of(const RmsnormParams& p, i64 row) {
  return static_cast<const Element*>(p.x) + row * p.x_stride;
}
QUERN_DEVICE const Element* residual_of(const RmsnormParams& p, i64 row) {
  return static_cast<const Element*>(p.residual) + row * p.residual_stride;
}

// Of a row that is none, past the last, nothing is read.
QUERN_DEVICE Loaded load_row(const RmsnormParams& p, i64 row, const Columns& c) {
  Loaded loaded;
  loaded.x = load_values<Reuse::no>(x_of(p, row), c);
  if constexpr (kResidual) loaded.residual = load_values<Reuse::no>(residual_of(p, row), c);
  return loaded;
}

QUERN_DEVICE RawValues<Weight> load_weights(const RmsnormParams& p, const Columns& c) {
  if constexpr (!kHasWeight) return {};
  return load_values<Reuse::yes>(static_cast<const Weight*>(p.weight), c);
}

// x, or x + residual in f32. What lies past the row is 0.
QUERN_DEVICE Values values_of(const Loaded& loaded) {
  Values y = widen(loaded.x);
  if constexpr (kResidual) {
    const Values other = widen(loaded.residual);
    each_value(y, [&](f32 value, int v, int i) { return value + other.v[v].x[i]; });
  }
  return y;
}

QUERN_DEVICE void store_row(const RmsnormParams& p, i64 row, const Columns& c, Values& y,
                            const RawValues<Weight>& weights, f32 inverse) {
  if (kResidual && p.residual_out) {
    store_values(static_cast<Element*>(p.residual_out) + row * p.residual_out_stride, c, y);
  }
  Values by;
  if constexpr (kHasWeight) by = widen(weights);
  each_value(y, [&](f32 value, int v, int i) {
    value *= inverse;
    return kHasWeight ? value * (by.v[v].x[i] + p.weight_offset) : value;
  });
  store_values(static_cast<Element*>(p.out) + row * p.out_stride, c, y);
}

QUERN_DEVICE f32 inverse_of(const RmsnormParams& p, f32 squares) {
  return rsqrt(squares / static_cast<f32>(p.n) + p.eps);
}

QUERN_DEVICE void normalise_held(const RmsnormParams& p, const RawValues<Weight>& weights, Joiner& joiner) {
  const i64 begin = static_cast<i64>(block_index(0)) * kTeams, step = static_cast<i64>(block_count(0)) * kTeams;
  const auto load = [&](i64 row) { return load_row(p, row, columns_from(0, row < p.rows ? p.n : -kPass)); };
  // A multiprocessor fetches code that it has not run yet line by line, which takes longer than a row. So where blocks
  // are few one goes through it on no row, which neither reads nor writes, while there is nothing else to do.
  bool waited = p.rehearses == 0;
  if (waited && p.constant_weight) wait_for_previous_grid();
  i64 first = waited ? begin : p.rows;
  // Without a residual a block has several rows, and the next one's elements are on their way.
  Loaded next;
  if constexpr (!kResidual) next = load(first + team_index());
  // All threads of a block go through the same rounds: teams without a row join the others' sums with nothing.
  QUERN_ROLLED while (!waited || first < p.rows) {
    const i64 row = first + team_index();
    if constexpr (kResidual) next = load(row);
    Values y = values_of(next);
    if constexpr (!kResidual) next = load(row + step);
    const f32 inverse = inverse_of(p, joiner.team(sum_of_products(y, y), Plus()));
    store_row(p, row, columns_from(0, row < p.rows ? p.n : -kPass), y, weights, inverse);
    first += step;
    if (waited) continue;
    wait_for_previous_grid();
    waited = true, first = begin;
    if constexpr (!kResidual) next = load(first + team_index());
  }
}

QUERN_DEVICE void normalise_long(const RmsnormParams& p, Joiner& joiner) {
  QUERN_ROLLED for (i64 row = block_index(0); row < p.rows; row += block_count(0)) {
    f32 squares = 0.0f;
    QUERN_ROLLED for (i32 from = 0; from < p.n; from += kPass) {
      const Values y = values_of(load_row(p, row, columns_from(from, p.n)));
      squares += sum_of_products(y, y);
    }
    const f32 inverse = inverse_of(p, joiner.team(squares, Plus()));
    QUERN_ROLLED for (i32 from = 0; from < p.n; from += kPass) {
      const Columns c = columns_from(from, p.n);
      Values y = values_of(load_row(p, row, c));
      store_row(p, row, c, y, load_weights(p, c), inverse);
    }
  }
}

QUERN_DEVICE void normalise_rows(const RmsnormParams& p) {
  QUERN_SHARED(f32, shared, 2 * Joiner::kWarps);
  Joiner joiner(shared);
  launch_next_grid();
  fetch_parameters(p);
  // What the grid before may still be writing is not read before it has ended; weights that nobody writes are.
  if (!p.constant_weight) wait_for_previous_grid();
  if constexpr (kHeld) {
    const RawValues<Weight> weights = load_weights(p, columns_from(0, p.n));
    normalise_held(p, weights, joiner);
  } else {
    if (p.constant_weight) wait_for_previous_grid();
    normalise_long(p, joiner);
  }
}

}  // namespace q

QUERN_KERNEL(quern_rmsnorm, THREADS, BLOCKS_PER_SM, QUERN_PARAM q::RmsnormParams p) { q::normalise_rows(p); }
