// The gradient of a norm's rows, and what each part of them adds to the gradients of weight and bias. A team of threads
// holds a row in registers; the next one's numbers are on their way meanwhile. A block takes a part of the rows, and
// each thread sums its own columns over them.
// SPDX-License-Identifier: Apache-2.0
#include "common/kernel.cuh"
#include "norm/values.cuh"
#include "norm_backward/params.cuh"

namespace q {

using Element = ELEMENT;
using Weight = WEIGHT;
inline constexpr bool kCentred = CENTRED;  // a layer norm's
inline constexpr bool kHasWeight = HAS_WEIGHT, kHasAdd = HAS_ADD;
inline constexpr bool kSums = SUMS;    // those of weight and bias are wanted
inline constexpr bool kAhead = AHEAD;  // there are registers for the next row's numbers

QUERN_DEVICE const Element* row_of(const void* matrix, i32 row, i64 stride) {
  return static_cast<const Element*>(matrix) + row * stride;
}

struct Loaded {
  RawValues<Element> x, dout;
};
QUERN_DEVICE Loaded load_row(const NormBackwardParams& p, i32 row, const Columns& c) {
  return {load_values<Reuse::no>(row_of(p.x, row, p.x_stride), c),
          load_values<Reuse::no>(row_of(p.dout, row, p.dout_stride), c)};
}

// y in place of x. Returns the inverse of the deviation. What lies past the row stays 0, as dout is there.
QUERN_DEVICE f32 normalise(const NormBackwardParams& p, const Columns& c, Values& x, Joiner& joiner) {
  const f32 count = static_cast<f32>(p.n);
  f32 mean = 0.0f, squares;
  if constexpr (kCentred) {
    mean = joiner.team(sum(x), Plus()) / count;
    squares = joiner.team(sum_of_deviations(x, c, mean), Plus());
  } else {
    squares = joiner.team(sum_of_products(x, x), Plus());
  }
  const f32 inverse = rsqrt(squares / count + p.eps);
  each_value(x, [&](f32 value, int, int) { return (kCentred ? value - mean : value) * inverse; });
  return inverse;
}

// dx from y and g = dout * weight.
QUERN_DEVICE void store_gradient(const NormBackwardParams& p, i32 row, const Columns& c, const Values& y, Values& g,
                                 f32 inverse, Joiner& joiner) {
  const f32 count = static_cast<f32>(p.n);
  RawValues<Element> add;
  if constexpr (kHasAdd) add = load_values<Reuse::no>(row_of(p.add, row, p.add_stride), c);
  const f32 along = joiner.team(sum_of_products(g, y), Plus()) / count;
  f32 mean = 0.0f;
  if constexpr (kCentred) mean = joiner.team(sum(g), Plus()) / count;
  each_value(g, [&](f32 value, int v, int i) { return inverse * (fma(-along, y.v[v].x[i], value) - mean); });
  if constexpr (kHasAdd) {
    const Values other = widen(add);
    each_value(g, [&](f32 value, int v, int i) { return value + other.v[v].x[i]; });
  }
  store_values(static_cast<Element*>(p.dx) + row * p.dx_stride, c, g);
}

// A part's sums: of one team as they are, of several through shared memory, one team after the other.
QUERN_DEVICE void store_sums(f32* to, const NormBackwardParams& p, i32 part, const Values& sums, f32* shared) {
  f32* const row = to + static_cast<i64>(part) * p.n;
  if constexpr (kTeams == 1) {
    const Columns c = columns_from(0, p.n);
    QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
      QUERN_UNROLL for (int i = 0; i < kElements; ++i) {
        if (i < c.of(v)) row[c.first + v * kStep + i] = sums.v[v].x[i];
      }
    }
  } else {
    f32* own = shared + thread_index() / kTeam * kPass + thread_index() % kTeam * kElements;
    sync_block();
    QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
      QUERN_UNROLL for (int i = 0; i < kElements; ++i) own[v * kStep + i] = sums.v[v].x[i];
    }
    sync_block();
    QUERN_ROLLED for (i32 column = thread_index(); column < p.n; column += kThreads) {
      f32 total = shared[column];
      QUERN_UNROLL for (int team = 1; team < kTeams; ++team) total += shared[team * kPass + column];
      row[column] = total;
    }
  }
}

QUERN_DEVICE void take_part(const NormBackwardParams& p, i32 part, f32* shared, Joiner& joiner) {
  const i32 first = part * p.each, end = p.rows - first < p.each ? p.rows : first + p.each;
  const auto columns = [&](i32 row) { return columns_from(0, row < end ? p.n : -kPass); };
  Values dweight{}, dbias{};
  Loaded next;
  if constexpr (kAhead) next = load_row(p, first + team_index(), columns(first + team_index()));
  // All threads of a block go through the same rounds: teams without a row join the others' sums with nothing.
  QUERN_ROLLED for (i32 rounds = div_up(end - first, kTeams), row = first + team_index(); rounds > 0;
                    --rounds, row += kTeams) {
    const Columns c = columns(row);
    if constexpr (!kAhead) next = load_row(p, row, c);
    Values y = widen(next.x), g = widen(next.dout);
    if constexpr (kAhead) next = load_row(p, row + kTeams, columns(row + kTeams));
    // It stays in L1: there are no registers to keep it in.
    RawValues<Weight> weight;
    if constexpr (kHasWeight) weight = load_values<Reuse::yes>(static_cast<const Weight*>(p.weight), c);
    const f32 inverse = normalise(p, c, y, joiner);
    if constexpr (kSums) {
      // Past the row dout is 0; y need not be.
      each_value(dweight, [&](f32 value, int v, int i) { return fma(g.v[v].x[i], y.v[v].x[i], value); });
      if constexpr (kCentred) each_value(dbias, [&](f32 value, int v, int i) { return value + g.v[v].x[i]; });
    }
    if (p.dx == nullptr) continue;
    if constexpr (kHasWeight) {
      const Values by = widen(weight);
      each_value(g, [&](f32 value, int v, int i) { return value * (by.v[v].x[i] + p.weight_offset); });
    }
    store_gradient(p, row, c, y, g, inverse, joiner);
  }
  if constexpr (kSums) {
    if (p.dweight != nullptr) store_sums(p.dweight, p, part, dweight, shared);
    if (kCentred && p.dbias != nullptr) store_sums(p.dbias, p, part, dbias, shared);
  }
}

QUERN_DEVICE void differentiate(const NormBackwardParams& p) {
  QUERN_SHARED(f32, joined, 2 * Joiner::kWarps);
  QUERN_SHARED(f32, shared, kSums && kTeams > 1 ? kTeams * kPass : 1);
  Joiner joiner(joined);
  QUERN_ROLLED for (i32 part = block_index(0); part < p.parts; part += block_count(0)) {
    take_part(p, part, shared, joiner);
  }
}

}  // namespace q

QUERN_KERNEL(quern_norm_backward, THREADS, BLOCKS_PER_SM, QUERN_PARAM q::NormBackwardParams p) {
  q::launch_next_grid();
  q::wait_for_previous_grid();
  q::differentiate(p);
}
