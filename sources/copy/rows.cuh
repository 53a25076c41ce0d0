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
  i32 tile, single;
  CopyPart first;
  i64 tiles;
  u64 fill;
  i64 first_tile[kCopyParts];
  CopyPart others[kParts > 1 ? kParts - 1 : 1];
};

struct Vector {
  i64 from, to;  // bytes
  bool whole;
  i64 row_from;  // `from` of its row's first
};

QUERN_DEVICE Vector vector_at(const CopyPart& part, Index number) {
  Vector v{0, 0, true, 0};
  i64 within = 0;
  Index rest = number;
  QUERN_UNROLL for (int d = 0; d < kRank; ++d) {
    Index at = rest;
    if (d < kRank - 1) {
      rest = divided(rest, part.dims[d].extent);
      at -= rest * static_cast<Index>(part.dims[d].extent.value);
    }
    if (d == 0 && kWidth > 1) {
      v.whole = at < static_cast<Index>(part.whole);
      within = part.repeated ? 0 : static_cast<i64>(at) * (kWidth * static_cast<int>(sizeof(From)));
      v.to += static_cast<i64>(at) * (kWidth * static_cast<int>(sizeof(To)));
    } else {
      v.row_from += along(part.dims[d].from, at);
      v.to += along(part.dims[d].to, at);
    }
  }
  v.from = v.row_from + within;
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
  const Index begin = static_cast<Index>(tile * p.tile), vectors = static_cast<Index>(part.vectors);
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

// Few vectors take little longer than their code is fetched: theirs is short, laid in front, and without a branch
// before its load. Who has no vector, or none that is whole, loads the first one of all, or of its row.
QUERN_DEVICE void copy_one(const CopyPart& part, i32 tile, i32 threads) {
  const Index at = static_cast<Index>(tile) * threads + thread_index();
  const bool there = at < static_cast<Index>(part.vectors);
  const Vector own = vector_at(part, there ? at : 0), v{own.whole ? own.from : own.row_from, own.to, true, 0};
  const Elements<To, kWidth> out = converted<From, To>(take(part, v));
  if (there && own.whole) store_elements<To, kWidth>(part.to + own.to, out);
  if (kWidth > 1 && there && !own.whole) copy_singly(part, own);
}

// The part that a tile belongs to, and its number there.
struct Share {
  const CopyPart& part;
  i64 tile;
};
QUERN_DEVICE Share share_of(const RowsParams& p, i64 tile) {
  if constexpr (kParts == 1) return {p.first, tile};
  int part = 0;
  QUERN_UNROLL for (int i = 1; i < kParts; ++i) part = tile >= p.first_tile[i] ? i : part;
  return {part == 0 ? p.first : p.others[part - 1], tile - p.first_tile[part]};
}

QUERN_DEVICE void copy_rows(const RowsParams& p) {
  if (laid_first(p.single != 0)) {
    const Share share = share_of(p, block_index(0));
    return copy_one(share.part, static_cast<i32>(share.tile), p.tile);
  }
  QUERN_ROLLED for (i64 tile = block_index(0); tile < p.tiles; tile += block_count(0)) {
    const Share share = share_of(p, tile);
    copy_tile(p, share.part, share.tile);
  }
}

}  // namespace q

QUERN_KERNEL(quern_copy_rows, THREADS, BLOCKS_PER_SM, QUERN_PARAM q::RowsParams p) {
  q::launch_next_grid();
  q::wait_for_previous_grid();
  q::copy_rows(p);
}
