// A row as its blocks share it out: each warp has a stretch of it, each lane sixteen aligned bytes of a tile.
//
// Rows begin anywhere. They are counted from the last 16-byte boundary at or before their first element, so that all
// accesses but those at the row's two ends are whole vectors; `shift` elements of the first vector are not the row's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/kernel.cuh"
#include "softmax/params.cuh"

namespace q {

using Element = ELEMENT;  // f32, f16 or bf16
inline constexpr int kThreads = THREADS;
inline constexpr int kWarps = kThreads / kWarp;
inline constexpr int kEach = EACH;  // elements that a thread takes at once
inline constexpr int kVector = 16 / static_cast<int>(sizeof(Element));
inline constexpr int kTile = kWarp * kVector;
inline constexpr int kTiles = kEach / kVector;  // that a warp takes at once
inline constexpr int kFew = 16;                 // elements at once where it does not matter how fast
inline constexpr bool kHeld = HELD != 0;        // that is all it has

// What stands for elements that are not the row's.
enum class Fill : u32 { nan, least };
template <Fill fill, class T = Element>
QUERN_DEVICE u32 filling() {
  if constexpr (fill == Fill::nan) {
    return 0xffffffffu;  // in all three types
  } else if constexpr (sizeof(T) == 4) {
    return bits_of(-infinity());
  } else {
    const u32 half = from_f32<T>(-infinity()).bits;
    return half << 16 | half;
  }
}

struct Slice {
  const u8* base;   // the boundary that is counted from
  i32 shift, end;   // the row's elements are shift .. end-1 from there
  i32 first, last;  // this warp's tiles: first .. last-1
  i32 each;         // tiles of a warp, but for the last ones

  // Where lane's vector of a tile begins, counted from the boundary; from the row's first element where `shift` is
  // taken off.
  QUERN_DEVICE i32 place(i32 tile) const { return tile * kTile + lane() * kVector; }
};

QUERN_DEVICE Slice slice_of(const Element* row, i32 n) {
  Slice s;
  const u64 address = reinterpret_cast<u64>(row);
  s.base = reinterpret_cast<const u8*>(address & ~u64{15});
  s.shift = static_cast<i32>((address & 15) / sizeof(Element));
  s.end = s.shift + n;
  const i32 tiles = div_up(s.end, kTile);
  s.each = div_up(tiles, row_blocks() * kWarps);
  const i32 first = s.each * (row_block() * kWarps + warp());
  s.first = first < tiles ? first : tiles;
  s.last = s.first + s.each < tiles ? s.first + s.each : tiles;
  return s;
}

// The same of a row whose blocks take all of their parts at once: a warp's tiles lie kWarps apart, so that what a block
// asks for at a time lies side by side.
QUERN_DEVICE Slice striped_slice_of(const Element* row, i32 n) {
  Slice s = slice_of(row, n);
  const i32 tiles = div_up(s.end, kTile), begin = s.each * row_block() * kWarps, end = begin + s.each * kWarps;
  s.last = end < tiles ? end : tiles;
  s.first = begin + warp() < s.last ? begin + warp() : s.last;
  return s;
}

// Which of this lane's vectors of the tiles from one on, so far apart, are wholly the row's: one comparison each.
template <int apart = 1>
struct WholeVectors {
  i32 most;    // elements from the first vector's beginning to that of the last whole one
  bool first;  // the first one is not before the row's beginning

  QUERN_DEVICE WholeVectors(const Slice& s, i32 tile) {
    const i32 begin = s.place(tile), to_end = s.end - kVector - begin, of_warp = (s.last - tile) * kTile - 1;
    most = to_end < of_warp ? to_end : of_warp;
    first = begin >= s.shift;
  }
  QUERN_DEVICE bool has(int j) const { return j * apart * kTile <= most && (j > 0 || first); }
};

// A vector at an end of the row.
template <Fill fill, class T = Element>
QUERN_DEVICE vec16 load_edge(const Slice& s, i32 place) {
  const u32 none = filling<fill>();
  vec16 v{{none, none, none, none}};
  QUERN_UNROLL for (int e = 0; e < kVector; ++e) {
    if (place + e < s.shift || place + e >= s.end) continue;
    const T* at = reinterpret_cast<const T*>(s.base) + place + e;
    if constexpr (sizeof(T) == 4) {
      v.x[e] = bits_of(*at);
    } else {
      const int low = 16 * (e & 1);
      v.x[e / 2] = (v.x[e / 2] & ~(0xffffu << low)) | static_cast<u32>(at->bits) << low;
    }
  }
  return v;
}

// f(j, its place) for the row's first vector and its last where they are not whole and this lane has them, of the
// j-th of so many tiles, so far apart, from `tile` on.
template <int apart, int count, class F>
QUERN_DEVICE void each_end(const Slice& s, i32 tile, F f) {
  QUERN_ROLLED for (int which = 0; which < 2; ++which) {
    const i32 place = which == 0 ? 0 : (s.end - 1) / kVector * kVector, of = place / kTile, j = (of - tile) / apart;
    if ((place >= s.shift && place + kVector <= s.end) || of < tile || of >= s.last || j >= count) continue;
    if (tile + j * apart == of && s.place(of) == place) f(j, place);
  }
}
template <Fill fill, int apart, int count>
QUERN_DEVICE void load_ends(const Slice& s, i32 tile, vec16 (&v)[count]) {
  each_end<apart, count>(s, tile, [&](int its, i32 place) {
    const vec16 edge = load_edge<fill>(s, place);
    QUERN_UNROLL for (int j = 0; j < count; ++j) {
      if (j == its) v[j] = edge;
    }
  });
}
template <Fill fill, int apart = 1, int count>
QUERN_DEVICE void load_tiles(const Slice& s, i32 tile, vec16 (&v)[count]) {
  const u32 none = filling<fill>();
  const WholeVectors<apart> whole(s, tile);
  const u8* from = s.base + static_cast<i64>(s.place(tile)) * static_cast<i64>(sizeof(Element));
  QUERN_UNROLL for (int j = 0; j < count; ++j) {
    v[j] = {{none, none, none, none}};
    if (whole.has(j)) v[j] = load16_once(from + j * apart * 16 * kWarp);
  }
  load_ends<fill, apart>(s, tile, v);
}

// The same of a row that has nearly all of what is asked for: elsewhere than at its ends nothing is asked of each
// vector, and nothing waits for what is loaded.
template <Fill fill, int count>
QUERN_DEVICE void load_mostly_whole(const Slice& s, i32 tile, vec16 (&v)[count]) {
  const bool whole = (tile > 0 || s.shift == 0) && tile + count <= s.last && (tile + count) * kTile <= s.end;
  if (whole) {
    const u8* from = s.base + static_cast<i64>(s.place(tile)) * static_cast<i64>(sizeof(Element));
    QUERN_UNROLL for (int j = 0; j < count; ++j) v[j] = load16_once(from + j * 16 * kWarp);
  } else {
    load_tiles<fill>(s, tile, v);
  }
}

QUERN_DEVICE void widen_vector(const vec16& v, f32* x) {
  QUERN_UNROLL for (int w = 0; w < 4; ++w) {
    if constexpr (sizeof(Element) == 4) {
      x[w] = f32_of(v.x[w]);
    } else {
      const f32x2 pair = unpack<Element>(v.x[w]);
      x[2 * w] = pair.x, x[2 * w + 1] = pair.y;
    }
  }
}
template <Fill fill, int apart = 1, int count>
QUERN_DEVICE void load_elements(const Slice& s, i32 tile, f32 (&x)[count]) {
  constexpr int kLoads = count / kVector;
  vec16 v[kLoads];
  load_tiles<fill, apart>(s, tile, v);
  QUERN_UNROLL for (int j = 0; j < kLoads; ++j) widen_vector(v[j], x + j * kVector);
}

// Stores a vector's elements at their indices, `to` being that of the first: all at once, or those of the row.
template <class Out>
QUERN_DEVICE void store_whole(Out* to, const f32* x) {
  constexpr int kOf16 = 16 / static_cast<int>(sizeof(Out));
  QUERN_UNROLL for (int i = 0; i < kVector; i += kOf16) {
    vec16 v;
    QUERN_UNROLL for (int w = 0; w < 4; ++w) {
      if constexpr (sizeof(Out) == 4) {
        v.x[w] = bits_of(x[i + w]);
      } else {
        v.x[w] = pack<Out>(x[i + 2 * w], x[i + 2 * w + 1]);
      }
    }
    store16_global(to + i, v);
  }
}
template <class Out>
QUERN_DEVICE void store_some(Out* to, const Slice& s, i32 place, const f32* x) {
  QUERN_UNROLL for (int e = 0; e < kVector; ++e) {
    if (place + e >= s.shift && place + e < s.end) to[e] = from_f32<Out>(x[e]);
  }
}
// This lane's elements of the tiles from `tile` on, so far apart, to the row's `out`.
template <int apart = 1, class Out, int count>
QUERN_DEVICE void store_tiles(Out* out, bool vectors, const Slice& s, i32 tile, const f32 (&x)[count]) {
  constexpr int kStores = count / kVector, kStep = apart * kTile;
  const i32 begin = s.place(tile);
  Out* const to = out + (begin - s.shift);
  if (!vectors) {
    QUERN_UNROLL for (int j = 0; j < kStores; ++j) {
      if (tile + j * apart < s.last) store_some(to + j * kStep, s, begin + j * kStep, x + j * kVector);
    }
    return;
  }
  const WholeVectors<apart> whole(s, tile);
  QUERN_UNROLL for (int j = 0; j < kStores; ++j) {
    if (whole.has(j)) store_whole(to + j * kStep, x + j * kVector);
  }
  each_end<apart, kStores>(s, tile, [&](int its, i32 place) {
    QUERN_UNROLL for (int j = 0; j < kStores; ++j) {
      if (j == its) store_some(to + j * kStep, s, place, x + j * kVector);
    }
  });
}
// Whether whole vectors may be stored at once.
template <class Out>
QUERN_DEVICE bool stores_vectors(const Out* out, const Slice& s) {
  return (reinterpret_cast<u64>(out) - static_cast<u64>(s.shift) * sizeof(Out)) % 16 == 0;
}

}  // namespace q
