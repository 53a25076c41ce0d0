// Expressions over tensors, element by element, bound by memory: each thread takes `kWidth` neighbouring elements at a
// time and has the loads of `kSteps` such vectors on their way. What the innermost dimension has beyond its last whole
// vector is taken element by element, by code that stands apart.
//
//   OPERANDS    OPERAND(number, type, along, value) each: how it is stored, how it lies along the innermost dimension,
//               whether the expressions read it as numbers (f32) or integers (i64)
//   RESULTS     RESULT(number, type, along, value, expression) likewise
//   QUICK       all results have 16 bits or fewer
//   CROSSED     bytes of an element of the widest operand that is kAcross; 0: there is none
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
inline constexpr bool kTail = TAIL != 0;  // the innermost dimension may end within a vector
// Offsets and counts have 32 bits where all of them fit.
#if WIDE
using Index = i64;
QUERN_DEVICE i64 divided(i64 n, const PointwiseExtent& by) { return n / by.value; }
#else
using Index = i32;
QUERN_DEVICE i32 divided(i32 n, const PointwiseExtent& by) {
  return n / Divisor{static_cast<i32>(by.value), by.multiplier, by.shift};
}
#endif

enum Span { kVectors, kRows, kTiles };  // how elements that are taken one by one are shared out
inline constexpr Span kSpan = static_cast<Span>(SPAN);

// Side by side, the same for all, any distance apart; side by side in places that no vector is aligned to; of a tile
// side by side along its other dimension.
enum Along { kEach, kSame, kAny, kShifted, kAcross };

// Where a vector is: its number along each dimension. A single element has its own number along each.
struct Vector {
  Index at[kRank];
  Index first;  // element, in row-major order
};

QUERN_DEVICE Vector vector_at(const PointwiseParams& p, Index number) {
  Vector v;
  Index rest = number;
  QUERN_UNROLL for (int d = 0; d < kRank; ++d) {
    if (d == kRank - 1) {
      v.at[d] = rest;
    } else {
      const PointwiseExtent& extent = d == 0 ? p.innermost : p.outers[d - 1];
      const Index next = divided(rest, extent);
      v.at[d] = rest - next * static_cast<Index>(extent.value);
      rest = next;
    }
  }
  v.first = number * kWidth;
  if (kTail && kRank > 1) v.first = divided(number, p.innermost) * static_cast<Index>(p.inner) + v.at[0] * kWidth;
  return v;
}

struct PointwiseTensor {
  u8* data;
  const Distance* first_stride;  // along dimension 1
  QUERN_DEVICE const Distance& stride(int d) const {
    return first_stride[strides_at(d) * static_cast<int>(sizeof(PointwiseStrides) / sizeof(Distance))];
  }
};
QUERN_DEVICE PointwiseTensor operand_of(const PointwiseParams& p, int n) {
  u8* const data = n < 2 ? p.operands[n] : n < 4 ? p.next_operands[n - 2] : p.last_operands[n - 4];
  return {data, &p.strides[0].operands[n]};
}
QUERN_DEVICE PointwiseTensor result_of(const PointwiseParams& p, int n) {
  if (n == 0) return {p.result, &p.strides[0].result};
  return {p.results[n - 1], &p.strides[0].others[n - 1]};
}
// From one element of a row to the next.
QUERN_DEVICE i64 step_of(const PointwiseTensor& t) { return along(t.stride(0), Index{1}); }

template <class T, int lies, int width>
QUERN_DEVICE u8* place_of(const PointwiseTensor& t, const Vector& v) {
  u8* at = t.data;
  if (lies == kEach || lies == kShifted) at += static_cast<i64>(v.at[0]) * (width * static_cast<int>(sizeof(T)));
  if (lies == kAny || lies == kAcross) at += along(t.stride(0), v.at[0]) * (lies == kAny ? width : 1);
  QUERN_UNROLL for (int d = 1; d < kRank; ++d) at += along(t.stride(d), v.at[d]);
  return at;
}

template <class T, int along, int width>
using Taken = Elements<T, along == kSame ? 1 : width>;

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

template <class T, int along, int width>
QUERN_DEVICE Taken<T, along, width> take(const PointwiseParams& p, const PointwiseTensor& t, const Vector& v) {
  const u8* at = place_of<T, along, width>(t, v);
  if constexpr (along == kSame || width == 1) {
    return load_elements<T, 1>(at);
  } else if constexpr (along == kShifted) {
    if (v.at[0] > 0 && (static_cast<i64>(v.at[0]) + 2) * width <= p.inner) return load_shifted<T>(at);
    return load_some<T, width>(at, sizeof(T), width);
  } else if constexpr (along == kAny) {
    return load_some<T, width>(at, step_of(t), width);
  } else {
    return load_elements<T, width, true>(at);
  }
}

template <class T, int along, int width, class V>
QUERN_DEVICE void put(const PointwiseTensor& t, const Vector& v, const V* values) {
  u8* at = place_of<T, along, width>(t, v);
  const Elements<T, width> elements = elements_of<T, width>(values);
  if constexpr (along == kEach || width == 1) {
    store_elements<T, width>(at, elements);
  } else {
    store_some<T, width>(at, step_of(t), width, elements);
  }
}

template <int width>
struct Operands {
#define OPERAND(n, T, along, V) Taken<T, along, width> x##n;
  OPERANDS
#undef OPERAND
};

template <int width>
QUERN_DEVICE void take_all(const PointwiseParams& p, const Vector& v, Operands<width>& o) {
#define OPERAND(n, T, along, V) \
  if constexpr (along != kAcross) o.x##n = take<T, along, width>(p, operand_of(p, n), v);
  OPERANDS
#undef OPERAND
}

// Where formulas look for what they name.
namespace formulas {
#if QUICK
using quick::gelu;
using quick::gelu_tanh;
using quick::sigmoid;
using quick::silu;
#endif

template <int width>
QUERN_DEVICE void compute(const PointwiseParams& p, const Vector& v, const Operands<width>& o, bool there = true) {
#define SCALAR(n) const f32 s##n = p.scalars[n];
  SCALARS
#undef SCALAR
#define OPERAND(n, T, along, V)           \
  V all_x##n[along == kSame ? 1 : width]; \
  values_of<T>(o.x##n, all_x##n);
  OPERANDS
#undef OPERAND
#define RESULT(n, T, along, V, expression) V result##n[width];
  RESULTS
#undef RESULT
  QUERN_UNROLL for (int e = 0; e < width; ++e) {
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
#define RESULT(n, T, along, V, expression) \
  if (there) put<T, along, width>(result_of(p, n), v, result##n);
  RESULTS
#undef RESULT
}

}  // namespace formulas

// By units of a span. A tile's vectors are shared out so that a warp has some beside each other and the others below
// these, on either side of an exchange.
inline constexpr int kSide = span_side(kWidth), kBeside = kSide / kWidth;  // vectors
inline constexpr int kWarpBeside = kWidth == 1 ? 32 : kBeside < 8 ? kBeside : 8, kWarpBelow = 32 / kWarpBeside;
inline constexpr int kWarpsBeside = kBeside / kWarpBeside;

struct InTile {
  int vector, line;  // the vector's number in its line
};
QUERN_DEVICE InTile in_tile(int step) {
  const int thread = thread_index(), team = thread / 32, in_team = thread % 32;
  return {team % kWarpsBeside * kWarpBeside + in_team % kWarpBeside,
          step * (kThreads / kBeside) + team / kWarpsBeside * kWarpBelow + in_team / kWarpBeside};
}

// Vector j of a thread, and whether it is there.
struct Own {
  Vector vector;
  bool there;
};
QUERN_DEVICE Own own_of(const PointwiseParams& p, const Vector& unit, int j) {
  Own own{unit, false};
  Vector& v = own.vector;
  if constexpr (kSpan == kTiles) {
    const InTile in = in_tile(j);
    v.at[0] = unit.at[0] * kBeside + in.vector;
    v.at[1] = unit.at[1] * kSide + in.line;
    own.there = v.at[0] < static_cast<Index>(p.whole) && v.at[1] < static_cast<Index>(p.outer);
  } else {
    const int within = j * kThreads + thread_index();
    v.at[0] = unit.at[0] * static_cast<Index>(p.tile) + within;
    own.there = within < static_cast<int>(p.tile) && v.at[0] < static_cast<Index>(p.inner);
  }
  return own;
}

#if CROSSED
// A tile's operands that lie side by side along its other dimension are read so, and change places in shared memory: a
// line there has the elements of one place along the innermost dimension. Its vectors are exchanged by that place's
// vector, so that both what is put and what is fetched is spread over the banks.
using CrossedTile = vec16[kSide * kSide * CROSSED / 16];

template <class T>
QUERN_DEVICE u8* crossed_at(vec16* tile, int line, int vector) {
  constexpr int kSize = static_cast<int>(sizeof(T));
  return reinterpret_cast<u8*>(tile) + (line * kSide + (vector ^ line / kWidth % kWarpBeside) * kWidth) * kSize;
}
template <class T>
QUERN_DEVICE void put_crossed(vec16* tile, const InTile& own, const Elements<T, kWidth>& v) {
  u8* const at = crossed_at<T>(tile, own.line, own.vector);
  if constexpr (Elements<T, kWidth>::kBytes == 16) {
    *reinterpret_cast<vec16*>(at) = {{v.words[0], v.words[1], v.words[2], v.words[3]}};
  } else {
    store_elements<T, kWidth>(at, v);
  }
}
template <class T>
QUERN_DEVICE Elements<T, kWidth> get_crossed(vec16* tile, const InTile& own) {
  const u8* at = crossed_at<T>(tile, own.vector * kWidth, own.line / kWidth) + own.line % kWidth * sizeof(T);
  return load_some<T, kWidth>(at, kSide * sizeof(T), kWidth);
}

QUERN_DEVICE void take_crossed(const PointwiseParams& p, const Vector& unit, int j, Operands<kWidth>& o) {
  const InTile own = in_tile(j);
  Vector v = unit;
  v.at[0] = unit.at[0] * kSide + own.line;
  v.at[1] = unit.at[1] * kSide + own.vector * kWidth;
  if (v.at[0] >= static_cast<Index>(p.inner) || v.at[1] >= static_cast<Index>(p.outer)) return;
#define OPERAND(n, T, along, V) \
  if constexpr (along == kAcross) o.x##n = take<T, along, kWidth>(p, operand_of(p, n), v);
  OPERANDS
#undef OPERAND
}
QUERN_DEVICE void exchange(Operands<kWidth> (&held)[kSteps], vec16* tile) {
#define OPERAND(n, T, along, V)                                                                    \
  if constexpr (along == kAcross) {                                                                \
    QUERN_UNROLL for (int j = 0; j < kSteps; ++j) put_crossed<T>(tile, in_tile(j), held[j].x##n);  \
    sync_block();                                                                                  \
    QUERN_UNROLL for (int j = 0; j < kSteps; ++j) held[j].x##n = get_crossed<T>(tile, in_tile(j)); \
    sync_block(); /* until all have what is overwritten next */                                    \
  }
  OPERANDS
#undef OPERAND
}
#endif

QUERN_DEVICE void pointwise_by_units(const PointwiseParams& p) {
#if CROSSED
  QUERN_SHARED(vec16, tile, sizeof(CrossedTile) / sizeof(vec16));
#endif
  const Index units = static_cast<Index>(p.vectors);
  QUERN_ROLLED for (Index number = block_index(0); number < units; number += block_count(0)) {
    const Vector unit = vector_at(p, number);
    Operands<kWidth> held[kSteps];
    QUERN_UNROLL for (int j = 0; j < kSteps; ++j) {
      const Own own = own_of(p, unit, j);
      if (own.there) take_all(p, own.vector, held[j]);
#if CROSSED
      take_crossed(p, unit, j, held[j]);
#endif
    }
#if CROSSED
    exchange(held, tile);
#endif
    QUERN_UNROLL for (int j = 0; j < kSteps; ++j) {
      const Own own = own_of(p, unit, j);
      if (own.there) formulas::compute(p, own.vector, held[j]);
    }
  }
}

// Whether a vector is there, and whole.
QUERN_DEVICE bool is_whole(const PointwiseParams& p, Index at, Index end) {
  if constexpr (!kTail) return at < end;
  return at < end && vector_at(p, at).at[0] < static_cast<Index>(p.whole);
}

// The vectors of `begin` to `end` that are not whole.
QUERN_DEVICE void take_tails(const PointwiseParams& p, Index begin, Index end) {
  if (kRank == 1 && end <= static_cast<Index>(p.whole)) return;
  QUERN_ROLLED for (Index at = begin + thread_index(); at < end; at += p.threads) {
    if (is_whole(p, at, end)) continue;
    const Vector v = vector_at(p, at);
    const int count = static_cast<int>(p.inner - p.whole * kWidth);
    QUERN_ROLLED for (int e = 0; e < count; ++e) {
      Vector one = v;
      one.at[0] = v.at[0] * kWidth + e, one.first = v.first + e;
      Operands<1> held;
      take_all(p, one, held);
      formulas::compute(p, one, held);
    }
  }
}

// Few vectors take little longer than their code is fetched: theirs is short, laid in front, and without a branch
// before its loads. Who has no vector, or none that is whole, loads the first one of all, or of its row.
QUERN_DEVICE void pointwise_of_one(const PointwiseParams& p) {
  const Index begin = static_cast<Index>(block_index(0)) * p.threads, at = begin + thread_index();
  const Index vectors = static_cast<Index>(p.vectors);
  const bool there = at < vectors;
  Vector v = vector_at(p, there ? at : 0);
  bool whole = there;
  if constexpr (kTail) {
    whole = there && v.at[0] < static_cast<Index>(p.whole);
    v.at[0] = whole ? v.at[0] : 0;
  }
  Operands<kWidth> held;
  take_all(p, v, held);
  if (!kTail || laid_first(whole)) return formulas::compute(p, v, held, whole);
#define OPERAND(n, T, along, V) needed_here(held.x##n.words[0]);
  OPERANDS
#undef OPERAND
  take_tails(p, begin, begin + p.threads < vectors ? begin + p.threads : vectors);
}

QUERN_DEVICE void pointwise(const PointwiseParams& p) {
  if (laid_first(p.single != 0)) return pointwise_of_one(p);
  const Index vectors = static_cast<Index>(p.vectors), tile = static_cast<Index>(p.tile);
  const int threads = p.threads;
  const Index step = static_cast<Index>(block_count(0)) * tile;
  QUERN_ROLLED for (Index begin = block_index(0) * tile; begin < vectors; begin += step) {
    const Index end = begin + tile < vectors ? begin + tile : vectors;
    Operands<kWidth> held[kSteps];
    QUERN_UNROLL for (int j = 0; j < kSteps; ++j) {
      const Index at = begin + j * threads + thread_index();
      if (is_whole(p, at, end)) take_all(p, vector_at(p, at), held[j]);
    }
    QUERN_UNROLL for (int j = 0; j < kSteps; ++j) {
      const Index at = begin + j * threads + thread_index();
      if (is_whole(p, at, end)) formulas::compute(p, vector_at(p, at), held[j]);
    }
    if constexpr (kTail) take_tails(p, begin, end);
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
