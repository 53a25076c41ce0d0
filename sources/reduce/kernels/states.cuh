// What a thread knows of a row while it is being reduced: one accumulator for each of a call's reductions.
//
//   none()       of no elements
//   take(t)      further elements, whose places are above those of the ones before
//   join(other)  that of other elements
//   shuffled(m)  that of lane ^ m
//
// BEFORE and AFTER0 to AFTER3 are formulas as C++ expressions of f32 values: acc, of BEFORE also x0 (the element of y),
// sN for scalar N.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/kernel.cuh"
#include "common/pointwise.cuh"
#include "common/reduce.cuh"
#include "reduce/params.cuh"

namespace q {

using Element = ELEMENT;
inline constexpr bool kHasY = HAS_Y;     // a formula or a dot product reads y
inline constexpr bool kExact = EXACT;    // sums are those of integers
inline constexpr bool kHalves = HALVES;  // sums are rounded to f16 one by one

#define QUERN_SCALARS                                                                                    \
  [[maybe_unused]] const f32 s0 = p.scalars[0], s1 = p.scalars[1], s2 = p.scalars[2], s3 = p.scalars[3], \
                             s4 = p.scalars[4], s5 = p.scalars[5], s6 = p.scalars[6], s7 = p.scalars[7]

QUERN_DEVICE f32 before([[maybe_unused]] const ReduceParams& p, f32 acc, [[maybe_unused]] f32 x0) {
  QUERN_SCALARS;
  return BEFORE;
}
template <int number>
QUERN_DEVICE f32 after([[maybe_unused]] const ReduceParams& p, f32 acc) {
  QUERN_SCALARS;
  if constexpr (number == 0) return AFTER0;
  if constexpr (number == 1) return AFTER1;
  if constexpr (number == 2) return AFTER2;
  return AFTER3;
}
#undef QUERN_SCALARS

// A few elements of a row, neighbours, of which only those from `from` on and before `to` are there.
template <int count>
struct Elements {
  f32 v[count];
  f32 y[kHasY ? count : 1];
  i64 place;  // of the first, in the row
  i32 from, to;
};
template <bool whole, int count>
QUERN_DEVICE bool has(const Elements<count>& t, int i) {
  return whole || (i >= t.from && i < t.to);
}

template <bool integer>
struct SumType {
  using Type = f32;
};
template <>
struct SumType<true> {
  using Type = i64;
};

template <Reduction kind>
struct Sum {
  static constexpr bool kInteger = kExact && kind != Reduction::l2;
  typename SumType<kInteger>::Type total;

  QUERN_DEVICE static Sum none() { return {0}; }
  template <int count>
  QUERN_DEVICE static f32 factor(const Elements<count>& t, int i) {
    if constexpr (kind == Reduction::dot) return t.y[i];
    return kind == Reduction::l2 ? t.v[i] : 1.0f;
  }
  template <bool whole, int count>
  QUERN_DEVICE void take(const Elements<count>& t) {
    if constexpr (kInteger) {
      // Sums of a few products of 8-bit integers are exact in f32, and one conversion serves them all.
      f32 few = 0.0f;
      QUERN_UNROLL for (int i = 0; i < count; ++i) few = has<whole>(t, i) ? fma(t.v[i], factor(t, i), few) : few;
      total += static_cast<i32>(few);
    } else {
      QUERN_UNROLL for (int i = 0; i < count; ++i) {
        const f32 sum = kHalves ? total + rounded(t.v[i] * factor(t, i)) : fma(t.v[i], factor(t, i), total);
        total = has<whole>(t, i) ? rounded(sum) : total;
      }
    }
  }
  QUERN_DEVICE void join(const Sum& other) { total = rounded(total + other.total); }
  QUERN_DEVICE Sum shuffled(int mask) const { return {shuffle_xor(total, mask)}; }
  QUERN_DEVICE f32 result(const ReduceParams& p) const {
    const f32 sum = static_cast<f32>(total);
    return kind == Reduction::mean ? sum / p.count : kind == Reduction::l2 ? sqrt(sum) : sum;
  }
  QUERN_DEVICE i64 integer() const { return static_cast<i64>(total); }

 private:
  template <class T>
  QUERN_DEVICE static T rounded(T v) {
    if constexpr (kHalves && !kInteger) return to_f32(from_f32<f16>(v));
    return v;
  }
};

template <Reduction kind>
struct Extremum {
  f32 best;

  QUERN_DEVICE static f32 better(f32 a, f32 b) { return kind == Reduction::max ? max(a, b) : min(a, b); }
  QUERN_DEVICE static Extremum none() { return {kind == Reduction::max ? -infinity() : infinity()}; }
  template <bool whole, int count>
  QUERN_DEVICE void take(const Elements<count>& t) {
    QUERN_UNROLL for (int i = 0; i < count; ++i) best = has<whole>(t, i) ? better(best, t.v[i]) : best;
  }
  QUERN_DEVICE void join(const Extremum& other) { best = better(best, other.best); }
  QUERN_DEVICE Extremum shuffled(int mask) const { return {shuffle_xor(best, mask)}; }
  QUERN_DEVICE f32 result(const ReduceParams&) const { return best; }
  QUERN_DEVICE i32 integer() const { return 0; }
};

template <Reduction kind>
struct Place {
  f32 best;
  i64 at;  // negative: of no elements

  // NaN comes before all.
  QUERN_DEVICE static bool is_better(f32 a, f32 b) {
    return (kind == Reduction::argmax ? a > b : a < b) || (a != a && b == b);
  }
  QUERN_DEVICE static Place none() { return {0.0f, -1}; }
  template <bool whole, int count>
  QUERN_DEVICE void take(const Elements<count>& t) {
    int first = whole ? 0 : -1;
    f32 here = whole ? t.v[0] : 0.0f;
    QUERN_UNROLL for (int i = whole ? 1 : 0; i < count; ++i) {
      const bool better = has<whole>(t, i) && (is_better(t.v[i], here) || (!whole && first < 0));
      here = better ? t.v[i] : here;
      first = better ? i : first;
    }
    if (first < 0 || (at >= 0 && !is_better(here, best))) return;
    best = here;
    at = t.place + first;
  }
  QUERN_DEVICE void join(const Place& other) {
    if (other.at < 0) return;
    const bool tie = !is_better(other.best, best) && !is_better(best, other.best);
    if (at >= 0 && !is_better(other.best, best) && !(tie && other.at < at)) return;
    *this = other;
  }
  QUERN_DEVICE Place shuffled(int mask) const { return {shuffle_xor(best, mask), shuffle_xor(at, mask)}; }
  QUERN_DEVICE i64 integer() const { return at; }
};

// log(sum of e^v), with the largest v apart.
struct LogSumExp {
  f32 largest, sum;

  QUERN_DEVICE static LogSumExp none() { return {-infinity(), 0.0f}; }
  // What numbers are taken relative to: where the largest is infinite, 0 leaves infinities as they are.
  QUERN_DEVICE static f32 origin(f32 largest) { return fabs(largest) < infinity() ? largest : 0.0f; }
  QUERN_DEVICE static f32 exp_of(f32 v) { return exp2(v * kLog2OfE); }
  QUERN_DEVICE void move(f32 to) {
    sum = sum * exp_of(largest - origin(to));
    largest = to;
  }
  template <bool whole, int count>
  QUERN_DEVICE void take(const Elements<count>& t) {
    f32 most = largest;
    QUERN_UNROLL for (int i = 0; i < count; ++i) most = has<whole>(t, i) ? fmax(most, t.v[i]) : most;
    if (most > largest) move(most);
    const f32 from = origin(most);
    QUERN_UNROLL for (int i = 0; i < count; ++i) sum += has<whole>(t, i) ? exp_of(t.v[i] - from) : 0.0f;
  }
  QUERN_DEVICE void join(LogSumExp other) {
    const f32 most = fmax(largest, other.largest);
    move(most);
    other.move(most);
    sum += other.sum;
  }
  QUERN_DEVICE LogSumExp shuffled(int mask) const { return {shuffle_xor(largest, mask), shuffle_xor(sum, mask)}; }
  QUERN_DEVICE f32 result(const ReduceParams&) const { return log(sum) + origin(largest); }
  QUERN_DEVICE i32 integer() const { return 0; }
};

template <Reduction kind>
struct Truth {
  u32 holds;

  QUERN_DEVICE static Truth none() { return {kind == Reduction::all ? 1u : 0u}; }
  template <bool whole, int count>
  QUERN_DEVICE void take(const Elements<count>& t) {
    QUERN_UNROLL for (int i = 0; i < count; ++i) {
      if (has<whole>(t, i)) join({t.v[i] != 0.0f ? 1u : 0u});
    }
  }
  QUERN_DEVICE void join(const Truth& other) {
    holds = kind == Reduction::all ? holds & other.holds : holds | other.holds;
  }
  QUERN_DEVICE Truth shuffled(int mask) const { return {shuffle_xor(holds, mask)}; }
  QUERN_DEVICE u32 integer() const { return holds; }
};

struct Nothing {
  QUERN_DEVICE static Nothing none() { return {}; }
  template <bool whole, int count>
  QUERN_DEVICE void take(const Elements<count>&) {}
  QUERN_DEVICE void join(const Nothing&) {}
  QUERN_DEVICE Nothing shuffled(int) const { return {}; }
};

template <Reduction kind>
struct AccumulatorOf {
  using Type = Sum<kind>;
};
template <>
struct AccumulatorOf<Reduction::max> {
  using Type = Extremum<Reduction::max>;
};
template <>
struct AccumulatorOf<Reduction::min> {
  using Type = Extremum<Reduction::min>;
};
template <>
struct AccumulatorOf<Reduction::argmax> {
  using Type = Place<Reduction::argmax>;
};
template <>
struct AccumulatorOf<Reduction::argmin> {
  using Type = Place<Reduction::argmin>;
};
template <>
struct AccumulatorOf<Reduction::logsumexp> {
  using Type = LogSumExp;
};
template <>
struct AccumulatorOf<Reduction::any> {
  using Type = Truth<Reduction::any>;
};
template <>
struct AccumulatorOf<Reduction::all> {
  using Type = Truth<Reduction::all>;
};
template <>
struct AccumulatorOf<Reduction::none> {
  using Type = Nothing;
};

struct State {
  typename AccumulatorOf<Reduction::KIND0>::Type first;
  typename AccumulatorOf<Reduction::KIND1>::Type second;
  typename AccumulatorOf<Reduction::KIND2>::Type third;
  typename AccumulatorOf<Reduction::KIND3>::Type fourth;

  QUERN_DEVICE static State none() {
    return {decltype(first)::none(), decltype(second)::none(), decltype(third)::none(), decltype(fourth)::none()};
  }
  template <bool whole, int count>
  QUERN_DEVICE void take(const Elements<count>& t) {
    first.template take<whole>(t), second.template take<whole>(t);
    third.template take<whole>(t), fourth.template take<whole>(t);
  }
  QUERN_DEVICE void join(const State& other) {
    first.join(other.first), second.join(other.second), third.join(other.third), fourth.join(other.fourth);
  }
  QUERN_DEVICE State shuffled(int mask) const {
    return {first.shuffled(mask), second.shuffled(mask), third.shuffled(mask), fourth.shuffled(mask)};
  }
};

// Over `lanes` neighbouring lanes, a power of two; the first of them has the result.
template <int lanes>
QUERN_DEVICE void join_lanes(State& state) {
  QUERN_UNROLL for (int d = 1; d < lanes; d *= 2) state.join(state.shuffled(d));
}

template <class Out>
inline constexpr bool kIsInteger = false;
template <>
inline constexpr bool kIsInteger<i32> = true;
template <>
inline constexpr bool kIsInteger<i64> = true;
template <>
inline constexpr bool kIsInteger<u8> = true;

template <Reduction kind, int number, class Out, class Accumulated>
QUERN_DEVICE void store_result(const ReduceParams& p, i64 at, const Accumulated& own) {
  if constexpr (kind != Reduction::none) {
    Out* const to = static_cast<Out*>(number == 0 ? p.out : p.others[number > 0 ? number - 1 : 0]) + at;
    if constexpr (kIsInteger<Out>) {
      *to = static_cast<Out>(own.integer());
    } else if constexpr (kind == Reduction::any || kind == Reduction::all) {
      *to = from_f32<Out>(static_cast<f32>(own.integer()));
    } else {
      *to = from_f32<Out>(after<number>(p, own.result(p)));
    }
  }
}

// Where a row lies: its elements in x and y, its results.
struct RowPlace {
  i64 x, y, out[kReduceResults];
};
// `from`: the dimensions before this one are not looked at, and `row` counts without them.
QUERN_DEVICE RowPlace place_of_row(const ReduceParams& p, i32 row, int from) {
  RowPlace place{};
  if (laid_first(p.kept_dims <= from + 1)) {  // mostly one dimension
    const KeptDim& dim = p.kept[from];
    if (p.kept_dims <= from) return place;
    place.x = row * dim.x, place.y = row * dim.y;
    QUERN_UNROLL for (int i = 0; i < kReduceResults; ++i) place.out[i] = row * dim.out[i];
    return place;
  }
  QUERN_ROLLED for (int d = from; d < p.kept_dims; ++d) {
    const KeptDim& dim = p.kept[d];
    const i32 rest = d + 1 < p.kept_dims ? row / dim.extent : 0, here = row - rest * dim.extent.value;
    place.x += here * dim.x, place.y += here * dim.y;
    QUERN_UNROLL for (int i = 0; i < kReduceResults; ++i) place.out[i] += here * dim.out[i];
    row = rest;
  }
  return place;
}
QUERN_DEVICE void store_results(const ReduceParams& p, const RowPlace& place, const State& state) {
  store_result<Reduction::KIND0, 0, OUT0>(p, place.out[0], state.first);
  store_result<Reduction::KIND1, 1, OUT1>(p, place.out[1], state.second);
  store_result<Reduction::KIND2, 2, OUT2>(p, place.out[2], state.third);
  store_result<Reduction::KIND3, 3, OUT3>(p, place.out[3], state.fourth);
}

}  // namespace q
