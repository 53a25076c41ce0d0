// Strided copies of up to `kParts` parts, bound by memory: each thread takes `kWidth` elements that lie side by side in
// what is written, and has several such vectors on their way. What is read lies side by side too, or is one element for
// all of them, or is gathered element by element.
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

enum Along : i32 { kEach = 0, kSame = 1, kAny = 2 };

struct RowsParams {
  i64 tiles, tile;
  u64 fill;
  CopyPart parts[kParts];
};

struct Vector {
  i64 from, to;  // bytes
  int count;
};

QUERN_DEVICE Vector vector_at(const CopyPart& part, Index number) {
  Vector v{0, 0, kWidth};
  Index rest = number;
  QUERN_UNROLL for (int d = 0; d < kRank; ++d) {
    Index at = rest;
    if (d < kRank - 1) {
      rest = divided(rest, part.extents[d]);
      at -= rest * static_cast<Index>(part.extents[d].value);
    }
    if (d == 0 && kWidth > 1) {
      const Index left = static_cast<Index>(part.inner) - at * kWidth;
      v.count = left < kWidth ? static_cast<int>(left) : kWidth;
    }
    const i64 elements = d == 0 ? static_cast<i64>(at) * kWidth : static_cast<i64>(at);
    v.from += static_cast<Index>(part.from_strides[d]) * elements;
    v.to += static_cast<Index>(part.to_strides[d]) * elements;
  }
  return v;
}

QUERN_DEVICE Elements<From, kWidth> take(const CopyPart& part, const Vector& v) {
  const u8* at = part.from + v.from;
  if (part.from_along == kEach && v.count == kWidth) return load_elements<From, kWidth, true>(at);
  return load_some<From, kWidth>(at, part.from_strides[0], v.count);
}

QUERN_DEVICE void put(const CopyPart& part, const Vector& v, const Elements<To, kWidth>& elements) {
  u8* at = part.to + v.to;
  if (part.to_along == kEach && v.count == kWidth) {
    store_elements<To, kWidth>(at, elements);
  } else {
    store_some<To, kWidth>(at, part.to_strides[0], v.count, elements);
  }
}

QUERN_DEVICE Elements<To, kWidth> filled(u64 bits) {
  Elements<To, kWidth> v;
  constexpr int kWords = static_cast<int>(sizeof(v.words) / 4);
  QUERN_UNROLL for (int i = 0; i < kWords; ++i) {
    if constexpr (sizeof(To) == 8) {
      v.words[i] = static_cast<u32>(i % 2 == 0 ? bits : bits >> 32);
    } else {
      v.words[i] = static_cast<u32>(bits) * (sizeof(To) == 4 ? 1u : sizeof(To) == 2 ? 0x10001u : 0x1010101u);
    }
  }
  return v;
}

QUERN_DEVICE void copy_tile(const RowsParams& p, const CopyPart& part, i64 tile) {
  const Index begin = static_cast<Index>((tile - part.first_tile) * p.tile), vectors = static_cast<Index>(part.vectors);
  const Index end = vectors - begin < static_cast<Index>(p.tile) ? vectors : begin + static_cast<Index>(p.tile);
  if (part.from == nullptr) {
    const Elements<To, kWidth> same = filled(p.fill);
    for (Index at = begin + thread_index(); at < end; at += kThreads) put(part, vector_at(part, at), same);
    return;
  }
  Elements<From, kWidth> held[kSteps];
  // A row that is repeated is read once for each vector of it.
  QUERN_UNROLL for (int j = 0; j < kSteps; ++j) {
    const Index at = begin + j * kThreads + thread_index();
    if (at < end) held[j] = take(part, vector_at(part, at));
  }
  QUERN_UNROLL for (int j = 0; j < kSteps; ++j) {
    const Index at = begin + j * kThreads + thread_index();
    if (at < end) put(part, vector_at(part, at), converted<From, To>(held[j]));
  }
}

QUERN_DEVICE void copy_rows(const RowsParams& p) {
  QUERN_ROLLED for (i64 tile = block_index(0); tile < p.tiles; tile += block_count(0)) {
    int part = 0;
    QUERN_UNROLL for (int i = 1; i < kParts; ++i) part = tile >= p.parts[i].first_tile ? i : part;
    copy_tile(p, p.parts[part], tile);
  }
}

}  // namespace q

QUERN_KERNEL(quern_copy_rows, THREADS, BLOCKS_PER_SM, QUERN_PARAM q::RowsParams p) {
  q::launch_next_grid();
  q::wait_for_previous_grid();
  q::copy_rows(p);
}
