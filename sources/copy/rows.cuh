// Strided copies of up to `kParts` parts, bound by memory: each thread takes `kWidth` elements that lie side by side in
// what is written. What is read lies side by side too, or is one element for all of them; else elements are taken one
// by one, as are those behind the last whole vector of a row.
// SPDX-License-Identifier: Apache-2.0
#include "copy/convert.cuh"
#include "copy/params.cuh"

namespace q {

inline constexpr int kThreads = THREADS, kWidth = WIDTH, kSteps = STEPS, kRank = RANK, kParts = PARTS;
#if WIDE
using Index = i64;
QUERN_DEVICE i64 divided(i64 n, const CopyExtent& by) { return n / by.value; }
#else
using Index = i32;
QUERN_DEVICE i32 divided(i32 n, const CopyExtent& by) {
  return static_cast<i32>(static_cast<u64>(static_cast<u32>(n)) * by.multiplier >> by.shift);
}
#endif

struct RowsParams {
  i64 tiles;
  i32 tile, single;
  u64 fill;
  CopyPart parts[kParts];
};

struct Vector {
  i64 from, to;  // bytes
  bool whole;
};

QUERN_DEVICE Vector vector_at(const CopyPart& part, Index number) {
  Vector v{0, 0, true};
  Index rest = number;
  QUERN_UNROLL for (int d = 0; d < kRank; ++d) {
    Index at = rest;
    if (d < kRank - 1) {
      rest = divided(rest, part.extents[d]);
      at -= rest * static_cast<Index>(part.extents[d].value);
    }
    if (d == 0 && kWidth > 1) {
      v.whole = at < static_cast<Index>(part.whole);
      v.from += part.repeated ? 0 : static_cast<i64>(at) * (kWidth * static_cast<int>(sizeof(From)));
      v.to += static_cast<i64>(at) * (kWidth * static_cast<int>(sizeof(To)));
    } else {
      v.from += static_cast<Index>(part.from_strides[d]) * static_cast<i64>(at);
      v.to += static_cast<Index>(part.to_strides[d]) * static_cast<i64>(at);
    }
  }
  return v;
}

// One element for all of a vector.
template <class T>
QUERN_DEVICE Elements<T, kWidth> repeated(u64 bits) {
  Elements<T, kWidth> v;
  constexpr int kWords = static_cast<int>(sizeof(v.words) / 4);
  QUERN_UNROLL for (int i = 0; i < kWords; ++i) {
    if constexpr (sizeof(T) == 8) {
      v.words[i] = static_cast<u32>(i % 2 == 0 ? bits : bits >> 32);
    } else {
      v.words[i] = static_cast<u32>(bits) * (sizeof(T) == 4 ? 1u : sizeof(T) == 2 ? 0x10001u : 0x1010101u);
    }
  }
  return v;
}
template <class T>
QUERN_DEVICE u64 bits_of_one(const u8* at) {
  const Elements<T, 1> one = load_elements<T, 1>(at);
  if constexpr (sizeof(T) == 8) {
    return static_cast<u64>(one.words[1]) << 32 | one.words[0];
  } else {
    return one.words[0];
  }
}

QUERN_DEVICE Elements<From, kWidth> take(const CopyPart& part, const Vector& v) {
  const u8* at = part.from + v.from;
  if (kWidth > 1 && part.repeated) return repeated<From>(bits_of_one<From>(at));
  return load_elements<From, kWidth, true>(at);
}

// What is left at the end of a row.
QUERN_DEVICE void copy_singly(const CopyPart& part, const Vector& v) {
  const int step = part.repeated ? 0 : static_cast<int>(sizeof(From));
  QUERN_ROLLED for (int i = 0; i < part.left; ++i) {
    const Elements<From, 1> one = load_elements<From, 1>(part.from + v.from + i * step);
    store_elements<To, 1>(part.to + v.to + i * static_cast<int>(sizeof(To)), converted<From, To>(one));
  }
}

QUERN_DEVICE void fill_tile(const CopyPart& part, u64 bits, Index begin, Index end) {
  const Elements<To, kWidth> same = repeated<To>(bits);
  QUERN_ROLLED for (Index at = begin + thread_index(); at < end; at += kThreads) {
    const Vector v = vector_at(part, at);
    if (v.whole) {
      store_elements<To, kWidth>(part.to + v.to, same);
      continue;
    }
    Elements<To, 1> one;
    QUERN_UNROLL for (int i = 0; i < static_cast<int>(sizeof(one.words) / 4); ++i) one.words[i] = same.words[i];
    QUERN_ROLLED for (int i = 0; i < part.left; ++i) {
      store_elements<To, 1>(part.to + v.to + i * static_cast<int>(sizeof(To)), one);
    }
  }
}

QUERN_DEVICE void copy_tile(const RowsParams& p, const CopyPart& part, i64 tile) {
  const Index begin = static_cast<Index>((tile - part.first_tile) * p.tile), vectors = static_cast<Index>(part.vectors);
  const Index end = vectors - begin < static_cast<Index>(p.tile) ? vectors : begin + static_cast<Index>(p.tile);
  if (part.from == nullptr) return fill_tile(part, p.fill, begin, end);
  Elements<From, kWidth> held[kSteps];
  QUERN_UNROLL for (int j = 0; j < kSteps; ++j) {
    const Index at = begin + j * kThreads + thread_index();
    const Vector v = vector_at(part, at);
    if (at < end && v.whole) held[j] = take(part, v);
  }
  bool all = true;
  QUERN_UNROLL for (int j = 0; j < kSteps; ++j) {
    const Index at = begin + j * kThreads + thread_index();
    const Vector v = vector_at(part, at);
    if (at < end && v.whole) store_elements<To, kWidth>(part.to + v.to, converted<From, To>(held[j]));
    all = all && (at >= end || v.whole);
  }
  if (kWidth == 1 || all) return;
  QUERN_ROLLED for (Index at = begin + thread_index(); at < end; at += kThreads) {
    const Vector v = vector_at(part, at);
    if (!v.whole) copy_singly(part, v);
  }
}

// Few vectors take little longer than their code is fetched: theirs is short, and laid in front.
QUERN_DEVICE void copy_one(const CopyPart& part, i32 tile) {
  const Index at = static_cast<Index>(tile) * kThreads + thread_index();
  if (at >= static_cast<Index>(part.vectors)) return;
  const Vector v = vector_at(part, at);
  if (laid_first(v.whole)) {
    store_elements<To, kWidth>(part.to + v.to, converted<From, To>(take(part, v)));
  } else {
    copy_singly(part, v);
  }
}

QUERN_DEVICE const CopyPart& part_of(const RowsParams& p, i64 tile) {
  int part = 0;
  QUERN_UNROLL for (int i = 1; i < kParts; ++i) part = tile >= p.parts[i].first_tile ? i : part;
  return p.parts[part];
}

QUERN_DEVICE void copy_rows(const RowsParams& p) {
  if (laid_first(p.single != 0)) {
    const CopyPart& part = part_of(p, block_index(0));
    return copy_one(part, block_index(0) - static_cast<i32>(part.first_tile));
  }
  QUERN_ROLLED for (i64 tile = block_index(0); tile < p.tiles; tile += block_count(0)) {
    copy_tile(p, part_of(p, tile), tile);
  }
}

}  // namespace q

QUERN_KERNEL(quern_copy_rows, THREADS, BLOCKS_PER_SM, QUERN_PARAM q::RowsParams p) {
  q::launch_next_grid();
  q::wait_for_previous_grid();
  q::copy_rows(p);
}
