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
inline constexpr bool kAlone = ALONE;  // and are those of all rows, which are a single part
#if ALONE
using Summed = OUT;
#else
using Summed = f32;
#endif
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

// A row's y = (x - mean) * inverse, and what the gradient of x has of g = dout * weight along y and along ones.
struct Moments {
  f32 mean, inverse, along, ones;
};

// dout * weight, element i of vector v.
QUERN_DEVICE f32 weighted(const NormBackwardParams& p, const Values& dout, const Values& weight, int v, int i) {
  return kHasWeight ? dout.v[v].x[i] * (weight.v[v].x[i] + p.weight_offset) : dout.v[v].x[i];
}

// By two joins of two sums each, or one: the mean and the sum of g do not need each other, nor do the squares of what
// deviates and g along that. dout is 0 past the row.
QUERN_DEVICE Moments moments_of(const NormBackwardParams& p, const Columns& c, const Values& x, const Values& dout,
                                const Values& weight, Joiner& joiner) {
  const f32 count = static_cast<f32>(p.n);
  Moments m{};
  f32 squares, along = 0.0f;
  if constexpr (kCentred) {
    f32 total = sum(x), ones = 0.0f;
    QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
      QUERN_UNROLL for (int i = 0; i < kElements; ++i) ones += weighted(p, dout, weight, v, i);
    }
    joiner.sum_pair(total, ones);
    m.mean = total / count, m.ones = ones / count;
    squares = sum_of_deviations(x, c, m.mean);
  } else {
    squares = sum_of_products(x, x);
  }
  QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
    QUERN_UNROLL for (int i = 0; i < kElements; ++i) {
      along = fma(weighted(p, dout, weight, v, i), kCentred ? x.v[v].x[i] - m.mean : x.v[v].x[i], along);
    }
  }
  joiner.sum_pair(squares, along);
  m.inverse = rsqrt(squares / count + p.eps);
  m.along = along * m.inverse / count;
  return m;
}

QUERN_DEVICE void store_gradient(const NormBackwardParams& p, i32 row, const Columns& c, const Values& y,
                                 const Values& dout, const Values& weight, const Moments& m) {
  RawValues<Element> add;
  if constexpr (kHasAdd) add = load_values<Reuse::no>(row_of(p.add, row, p.add_stride), c);
  Values dx = dout;
  each_value(dx, [&](f32, int v, int i) {
    return m.inverse * (fma(-m.along, y.v[v].x[i], weighted(p, dout, weight, v, i)) - m.ones);
  });
  if constexpr (kHasAdd) {
    const Values other = widen(add);
    each_value(dx, [&](f32 value, int v, int i) { return value + other.v[v].x[i]; });
  }
  store_values(static_cast<Element*>(p.dx) + row * p.dx_stride, c, dx);
}

// A part's sums: of one team as they are, of several through shared memory, one team after the other.
QUERN_DEVICE void store_sums(void* to, const NormBackwardParams& p, i32 part, const Values& sums, f32* shared) {
  Summed* const row = static_cast<Summed*>(to) + static_cast<i64>(part) * p.n;
  if constexpr (kTeams == 1) {
    const Columns c = columns_from(0, p.n);
    const bool vectors = kAlone ? kAccess == 16 && (reinterpret_cast<u64>(to) & 15) == 0 : p.n % 4 == 0;
    QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
      Summed* const own = row + c.first + v * kStep;
      const f32(&x)[kElements] = sums.v[v].x;
      if (vectors && c.of(v) >= kElements) {
        if constexpr (kAlone) {
          store_vector(own, sums.v[v], kElements);
        } else {
          QUERN_UNROLL for (int i = 0; i < kElements; i += 4) {
            store16_global(own + i, {{bits_of(x[i]), bits_of(x[i + 1]), bits_of(x[i + 2]), bits_of(x[i + 3])}});
          }
        }
        continue;
      }
      QUERN_UNROLL for (int i = 0; i < kElements; ++i) {
        if (i < c.of(v)) own[i] = from_f32<Summed>(x[i]);
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
      row[column] = from_f32<Summed>(total);
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
    Values weight;
    if constexpr (kHasWeight) weight = widen(load_values<Reuse::yes>(static_cast<const Weight*>(p.weight), c));
    const Moments m = moments_of(p, c, y, g, weight, joiner);
    each_value(y, [&](f32 value, int, int) { return (kCentred ? value - m.mean : value) * m.inverse; });
    if constexpr (kSums) {
      // Past the row dout is 0; y need not be.
      each_value(dweight, [&](f32 value, int v, int i) { return fma(g.v[v].x[i], y.v[v].x[i], value); });
      if constexpr (kCentred) each_value(dbias, [&](f32 value, int v, int i) { return value + g.v[v].x[i]; });
    }
    if (p.dx != nullptr) store_gradient(p, row, c, y, g, weight, m);
  }
  if constexpr (kSums) {
    if (p.dweight != nullptr) store_sums(p.dweight, p, part, dweight, shared);
    if (kCentred && p.dbias != nullptr) store_sums(p.dbias, p, part, dbias, shared);
  }
}

QUERN_DEVICE void differentiate(const NormBackwardParams& p) {
  QUERN_SHARED(f32, joined, 4 * Joiner::kWarps);
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
