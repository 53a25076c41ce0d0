// Expressions over tensors, element by element, bound by memory: each thread takes `kWidth` neighbouring elements at a
// time and has the loads of `kSteps` such vectors on their way.
//
//   OPERANDS    OPERAND(number, type, along, value) each: how it is stored, how it lies along the innermost dimension,
//               whether the expressions read it as numbers (f32) or integers (i64)
//   RESULTS     RESULT(number, type, along, value, expression) likewise
//   QUICK       all results have 16 bits or fewer
//   ACROSS      of how many operands kAcross
//   SCALARS     SCALAR(number) of those that are read; INDICES likewise INDEX(number) of the places
// SPDX-License-Identifier: Apache-2.0
#include "common/elements.cuh"
#include "common/pointwise.cuh"
#include "pointwise/params.cuh"
#if QUICK
#include "pointwise/quick.cuh"
#endif

namespace q {

inline constexpr int kThreads = THREADS, kWidth = WIDTH, kSteps = STEPS, kRank = RANK;
inline constexpr bool kTail = TAIL != 0;  // vectors at the end of the innermost dimension are not full
// Offsets and counts have 32 bits where all of them fit.
#if WIDE
using Index = i64;
QUERN_DEVICE i64 divided(i64 n, const PointwiseExtent& by) { return n / by.value; }
#else
using Index = i32;
QUERN_DEVICE i32 divided(i32 n, const PointwiseExtent& by) { return n / by.by; }
#endif

enum Span { kVectors, kRows, kTiles };  // how elements that are taken one by one are shared out
inline constexpr Span kSpan = static_cast<Span>(SPAN);

// Side by side, the same for all, any distance apart; side by side in places that no vector is aligned to; of a tile
// side by side along its other dimension.
enum Along { kEach, kSame, kAny, kShifted, kAcross };

// Where a vector is: its number along each dimension, and how many of its elements there are.
struct Vector {
  Index at[kRank];
  Index first;  // element, in row-major order
  int count;
};

QUERN_DEVICE Vector vector_at(const PointwiseParams& p, Index number) {
  Vector v;
  Index rest = number;
  QUERN_UNROLL for (int d = 0; d < kRank; ++d) {
    if (d == kRank - 1) {
      v.at[d] = rest;
    } else {
      const Index next = divided(rest, p.extents[d]);
      v.at[d] = rest - next * static_cast<Index>(p.extents[d].value);
      rest = next;
    }
  }
  v.count = kWidth;
  if (kTail) {
    const Index left = static_cast<Index>(p.inner) - v.at[0] * kWidth;
    v.count = left < kWidth ? static_cast<int>(left) : kWidth;
  }
  v.first = number * kWidth;
  if (kTail && kRank > 1) v.first = divided(number, p.extents[0]) * static_cast<Index>(p.inner) + v.at[0] * kWidth;
  return v;
}

struct PointwiseTensor {
  u8* data;
  const i64* strides;
};
QUERN_DEVICE PointwiseTensor operand_of(const PointwiseParams& p, int n) {
  return {p.operands[n], p.operand_strides[n]};
}
QUERN_DEVICE PointwiseTensor result_of(const PointwiseParams& p, int n) { return {p.results[n], p.result_strides[n]}; }

template <class T, int along>
QUERN_DEVICE u8* place_of(const PointwiseTensor& t, const Vector& v) {
  u8* at = t.data;
  if (along == kEach || along == kShifted) at += static_cast<i64>(v.at[0]) * (kWidth * static_cast<int>(sizeof(T)));
  if (along == kAny || along == kAcross) at += static_cast<i64>(v.at[0]) * (t.strides[0] * kWidth);
  QUERN_UNROLL for (int d = 1; d < kRank; ++d) at += static_cast<Index>(t.strides[d]) * static_cast<i64>(v.at[d]);
  return at;
}

template <class T, int along>
using Taken = Elements<T, along == kSame ? 1 : kWidth>;

// A vector that lies over two aligned ones, both of which have elements of its row before and behind it.
template <class T>
QUERN_DEVICE Elements<T, kWidth> load_shifted(const u8* at) {
  constexpr int kBytes = Elements<T, kWidth>::kBytes, kWords = kBytes / 4;
  static_assert(kBytes >= 4);
  const int apart = static_cast<int>(reinterpret_cast<u64>(at) & (kBytes - 1));
  const Elements<T, kWidth> low = load_elements<T, kWidth>(at - apart),
                            high = load_elements<T, kWidth>(at - apart + (apart != 0 ? kBytes : 0));
  u32 w[2 * kWords];
  QUERN_UNROLL for (int i = 0; i < kWords; ++i) w[i] = low.words[i], w[kWords + i] = high.words[i];
  QUERN_UNROLL for (int step = kWords / 2; step > 0; step /= 2) {
    const bool far = (apart & 4 * step) != 0;
    QUERN_UNROLL for (int i = 0; i + step < 2 * kWords; ++i) w[i] = far ? w[i + step] : w[i];
  }
  Elements<T, kWidth> v;
  const u32 bits = 8 * (static_cast<u32>(apart) & 3);
  QUERN_UNROLL for (int i = 0; i < kWords; ++i) {
    v.words[i] = static_cast<u32>((static_cast<u64>(w[i + 1]) << 32 | w[i]) >> bits);
  }
  return v;
}

template <class T, int along, bool whole>
QUERN_DEVICE Taken<T, along> take(const PointwiseParams& p, const PointwiseTensor& t, const Vector& v) {
  const u8* at = place_of<T, along>(t, v);
  if constexpr (along == kSame) {
    return load_elements<T, 1>(at);
  } else if constexpr (along == kShifted) {
    if (v.at[0] > 0 && (static_cast<i64>(v.at[0]) + 2) * kWidth <= p.inner) return load_shifted<T>(at);
    return load_some<T, kWidth>(at, sizeof(T), v.count);
  } else if constexpr (along == kEach) {
    if constexpr (whole) return load_elements<T, kWidth, true>(at);
    return load_some<T, kWidth>(at, sizeof(T), v.count);
  } else {
    return load_some<T, kWidth>(at, t.strides[0], v.count);
  }
}

template <class T, int along, bool whole, class V>
QUERN_DEVICE void put(const PointwiseTensor& t, const Vector& v, const V* values) {
  u8* at = place_of<T, along>(t, v);
  const Elements<T, kWidth> elements = elements_of<T, kWidth>(values);
  if constexpr (along == kEach && whole) {
    store_elements<T, kWidth>(at, elements);
  } else {
    store_some<T, kWidth>(at, along == kEach ? static_cast<i64>(sizeof(T)) : t.strides[0], v.count, elements);
  }
}

// Whether all of a vector is there. The code for what is at an end stands behind that for the others.
QUERN_DEVICE bool is_whole(const Vector& v) { return !kTail || laid_first(v.count == kWidth); }

struct Operands {
#define OPERAND(n, T, along, V) Taken<T, along> x##n;
  OPERANDS
#undef OPERAND
};

template <bool whole>
QUERN_DEVICE void take_all(const PointwiseParams& p, const Vector& v, Operands& o) {
#define OPERAND(n, T, along, V) \
  if constexpr (along != kAcross) o.x##n = take<T, along, whole>(p, operand_of(p, n), v);
  OPERANDS
#undef OPERAND
}
QUERN_DEVICE void take_all(const PointwiseParams& p, const Vector& v, Operands& o) {
  if (is_whole(v)) {
    take_all<true>(p, v, o);
  } else if constexpr (kTail) {
    take_all<false>(p, v, o);
  }
}

// A tile's operands that lie side by side along its other dimension are read so, and change places in shared memory.
#if ACROSS
using Crossed = u64[kSpanSide][kSpanSide + 1];
#define OPERAND(n, T, along, V) +(along == kAcross && n < operand ? 1 : 0)
QUERN_DEVICE constexpr int place_of_crossed(int operand) { return 0 OPERANDS; }
#undef OPERAND

QUERN_DEVICE void take_crossed(const PointwiseParams& p, const Vector& v, Operands& o) {
#define OPERAND(n, T, along, V) \
  if constexpr (along == kAcross) o.x##n = take<T, along, true>(p, operand_of(p, n), v);
  OPERANDS
#undef OPERAND
}
template <class T>
QUERN_DEVICE u8* crossed_at(Crossed* shared, int operand, int row, int column) {
  u8* const tile = reinterpret_cast<u8*>(shared + place_of_crossed(operand));
  return tile + (row * (kSpanSide + 1) + column) * static_cast<int>(sizeof(T));
}
QUERN_DEVICE void put_crossed(const Operands& o, Crossed* shared, int row, int column) {
#define OPERAND(n, T, along, V) \
  if constexpr (along == kAcross) store_elements<T, 1>(crossed_at<T>(shared, n, row, column), o.x##n);
  OPERANDS
#undef OPERAND
}
QUERN_DEVICE void get_crossed(Operands& o, Crossed* shared, int row, int column) {
#define OPERAND(n, T, along, V) \
  if constexpr (along == kAcross) o.x##n = load_elements<T, 1>(crossed_at<T>(shared, n, row, column));
  OPERANDS
#undef OPERAND
}
#endif

// Where formulas look for what they name.
namespace formulas {
#if QUICK
using quick::gelu;
using quick::gelu_tanh;
using quick::sigmoid;
using quick::silu;
#endif

QUERN_DEVICE void compute(const PointwiseParams& p, const Vector& v, const Operands& o) {
#define SCALAR(n) const f32 s##n = p.scalars[n];
  SCALARS
#undef SCALAR
#define OPERAND(n, T, along, V)            \
  V all_x##n[along == kSame ? 1 : kWidth]; \
  values_of<T>(o.x##n, all_x##n);
  OPERANDS
#undef OPERAND
#define RESULT(n, T, along, V, expression) V result##n[kWidth];
  RESULTS
#undef RESULT
  QUERN_UNROLL for (int e = 0; e < kWidth; ++e) {
#define OPERAND(n, T, along, V) const V x##n = all_x##n[along == kSame ? 0 : e];
    OPERANDS
#undef OPERAND
    const Index element = v.first + e;
    const i64 place = element;
    static_cast<void>(place);
#define INDEX(n)                                       \
  const Index whole##n = divided(element, p.below[n]); \
  const i64 index##n = whole##n - divided(whole##n, p.own[n]) * static_cast<Index>(p.own[n].value);
    INDICES
#undef INDEX
#define RESULT(n, T, along, V, expression) result##n[e] = expression;
    RESULTS
#undef RESULT
  }
  if (is_whole(v)) {
#define RESULT(n, T, along, V, expression) put<T, along, true>(result_of(p, n), v, result##n);
    RESULTS
#undef RESULT
  } else if constexpr (kTail) {
#define RESULT(n, T, along, V, expression) put<T, along, false>(result_of(p, n), v, result##n);
    RESULTS
#undef RESULT
  }
}

}  // namespace formulas

// By units of a span: element j of a thread. Of a tile with `crossed` the element that it has where its two dimensions
// change places.
QUERN_DEVICE Vector element_of(const PointwiseParams& p, const Vector& unit, int j, bool crossed = false) {
  Vector v = unit;
  const int thread = thread_index();
  if constexpr (kSpan == kTiles) {
    constexpr int kAtOnce = kThreads / kSpanSide;
    const int own = thread % kSpanSide, other = thread / kSpanSide + j * kAtOnce;
    v.at[0] = unit.at[0] * kSpanSide + (crossed ? other : own);
    v.at[1] = unit.at[1] * kSpanSide + (crossed ? own : other);
    v.count = v.at[0] < static_cast<Index>(p.inner) && v.at[1] < static_cast<Index>(p.outer) ? 1 : 0;
  } else {
    const int within = j * kThreads + thread;
    v.at[0] = unit.at[0] * static_cast<Index>(p.tile) + within;
    v.count = within < static_cast<int>(p.tile) && v.at[0] < static_cast<Index>(p.inner) ? 1 : 0;
  }
  return v;
}
QUERN_DEVICE void pointwise_by_units(const PointwiseParams& p) {
#if ACROSS
  QUERN_SHARED(Crossed, crossed, ACROSS);
#endif
  const Index units = static_cast<Index>(p.vectors);
  QUERN_ROLLED for (Index number = block_index(0); number < units; number += block_count(0)) {
    const Vector unit = vector_at(p, number);
    Operands held[kSteps];
    QUERN_UNROLL for (int j = 0; j < kSteps; ++j) {
      const Vector v = element_of(p, unit, j);
      if (v.count > 0) take_all(p, v, held[j]);
#if ACROSS
      const Vector c = element_of(p, unit, j, true);
      if (c.count > 0) take_crossed(p, c, held[j]);
#endif
    }
#if ACROSS
    const int own = thread_index() % kSpanSide, other = thread_index() / kSpanSide;
    constexpr int kAtOnce = kThreads / kSpanSide;
    QUERN_UNROLL for (int j = 0; j < kSteps; ++j) put_crossed(held[j], crossed, other + j * kAtOnce, own);
    sync_block();
    QUERN_UNROLL for (int j = 0; j < kSteps; ++j) get_crossed(held[j], crossed, own, other + j * kAtOnce);
    sync_block();  // until all have what the next tile overwrites
#endif
    QUERN_UNROLL for (int j = 0; j < kSteps; ++j) {
      const Vector v = element_of(p, unit, j);
      if (v.count > 0) formulas::compute(p, v, held[j]);
    }
  }
}

QUERN_DEVICE void pointwise(const PointwiseParams& p) {
  const Index vectors = static_cast<Index>(p.vectors), tile = static_cast<Index>(p.tile);
  const Index step = static_cast<Index>(block_count(0)) * tile;
  QUERN_ROLLED for (Index begin = block_index(0) * tile; begin < vectors; begin += step) {
    const Index end = begin + tile < vectors ? begin + tile : vectors;
    Operands held[kSteps];
    QUERN_UNROLL for (int j = 0; j < kSteps; ++j) {
      const Index at = begin + j * kThreads + thread_index();
      if (at < end) take_all(p, vector_at(p, at), held[j]);
    }
    QUERN_UNROLL for (int j = 0; j < kSteps; ++j) {
      const Index at = begin + j * kThreads + thread_index();
      if (at < end) formulas::compute(p, vector_at(p, at), held[j]);
    }
  }
}

}  // namespace q

QUERN_KERNEL(quern_pointwise, THREADS, BLOCKS_PER_SM, QUERN_PARAM q::PointwiseParams p) {
  q::launch_next_grid();
  q::wait_for_previous_grid();
  if constexpr (q::kSpan == q::kVectors) {
    q::pointwise(p);
  } else {
    q::pointwise_by_units(p);
  }
}
