// A copy whose two sides are contiguous along different dimensions, k of what is read and l of what is written: tiles
// of 128 l by 128 bytes of k go through shared memory, 16 bytes at a time on either side.
//
// What is read comes as vectors along k. Elements of neighbouring l that make up a word are put side by side in
// registers, and the words stored where a row of shared memory has 128 bytes of l for one k. A row's groups of 16 bytes
// are exchanged by k's vector number, so that a warp's words, of eight vectors and four neighbouring places, are in all
// 32 banks, as are the eight groups of a row that are read together.
// SPDX-License-Identifier: Apache-2.0
#include "copy/convert.cuh"
#include "copy/params.cuh"

namespace q {

inline constexpr int kThreads = 256, kOuter = OUTER;
inline constexpr int kFromWidth = FROM_WIDTH, kToWidth = TO_WIDTH;  // elements of an access
inline constexpr int kSize = static_cast<int>(sizeof(From));
inline constexpr int kVector = 16 / kSize;                 // elements
inline constexpr int kJoined = kSize < 4 ? 4 / kSize : 1;  // l of a word
inline constexpr int kSide = 128 / kSize;                  // of a square of 128-byte rows, of which a tile has several
inline constexpr int kTileL = 128;
static_assert(THREADS == kThreads);

using Line = Elements<From, kVector>;

// What there is of a vector; the rest is 0.
QUERN_DEVICE Line take_line(const u8* at, i64 left) {
  if (kFromWidth == kVector && left >= kVector) return load_elements<From, kVector, true>(at);
  const int count = left < kVector ? static_cast<int>(left) : kVector;
  if constexpr (kFromWidth * kSize >= 4 && kFromWidth < kVector) {
    if (count == kVector) {
      Line v;
      constexpr int kWords = kFromWidth * kSize / 4;
      QUERN_UNROLL for (int i = 0; i < 4; i += kWords) {
        const Elements<From, kFromWidth> some = load_elements<From, kFromWidth>(at + 4 * i);
        QUERN_UNROLL for (int j = 0; j < kWords; ++j) v.words[i + j] = some.words[j];
      }
      return v;
    }
  }
  return load_some<From, kVector>(at, kSize, count);
}

// Word e of the result: element e of each of the kJoined lines.
QUERN_DEVICE void join(const Line (&lines)[kJoined], u32 (&words)[kVector * (kSize == 8 ? 2 : 1)]) {
  if constexpr (kJoined == 1) {
    QUERN_UNROLL for (int i = 0; i < 4; ++i) words[i] = lines[0].words[i];
  } else if constexpr (kJoined == 2) {
    QUERN_UNROLL for (int i = 0; i < 4; ++i) {
      words[2 * i] = permute_bytes<0x5410>(lines[0].words[i], lines[1].words[i]);
      words[2 * i + 1] = permute_bytes<0x7632>(lines[0].words[i], lines[1].words[i]);
    }
  } else {
    QUERN_UNROLL for (int i = 0; i < 4; ++i) {
      const u32 a = lines[0].words[i], b = lines[1].words[i], c = lines[2].words[i], d = lines[3].words[i];
      const u32 low_ab = permute_bytes<0x5140>(a, b), low_cd = permute_bytes<0x5140>(c, d);
      const u32 high_ab = permute_bytes<0x7362>(a, b), high_cd = permute_bytes<0x7362>(c, d);
      words[4 * i] = permute_bytes<0x5410>(low_ab, low_cd);
      words[4 * i + 1] = permute_bytes<0x7632>(low_ab, low_cd);
      words[4 * i + 2] = permute_bytes<0x5410>(high_ab, high_cd);
      words[4 * i + 3] = permute_bytes<0x7632>(high_ab, high_cd);
    }
  }
}

// The byte of shared memory where l and those behind it, to the end of a word or element, stand for k.
QUERN_DEVICE int byte_of(int k, int l) {
  const int within = l % kSide * kSize;
  return l / kSide * (kSide * 128) + k * 128 + (((within >> 4) ^ (k / kVector & 7)) << 4) + (within & 15);
}

QUERN_DEVICE void store_words(u8* tile, const Line (&lines)[kJoined], int k, int l) {
  u32 words[kVector * (kSize == 8 ? 2 : 1)];
  join(lines, words);
  u8* first = tile + byte_of(k, l);  // a vector's k are exchanged alike
  QUERN_UNROLL for (int e = 0; e < kVector; ++e) {
    u8* at = first + e * 128;
    if constexpr (kSize == 8) {
      *reinterpret_cast<Bytes8*>(at) = {{words[2 * e], words[2 * e + 1]}};
    } else {
      *reinterpret_cast<u32*>(at) = words[e];
    }
  }
}

// `left` of the elements, in accesses of kToWidth. T = To: a template, so that of its two halves one is compiled.
template <class T>
QUERN_DEVICE void put_line(u8* at, const Line& line, i64 left) {
  constexpr int kToSize = static_cast<int>(sizeof(T));
  if constexpr (kSameType<From, T>) {
    if (kToWidth == kVector && left >= kVector) return store_elements<T, kVector>(at, line);
    const int count = left < kVector ? static_cast<int>(left) : kVector;
    if constexpr (kToWidth * kToSize >= 4 && kToWidth < kVector) {
      if (count == kVector) {
        constexpr int kWords = kToWidth * kToSize / 4;
        QUERN_UNROLL for (int i = 0; i < 4; i += kWords) {
          Elements<T, kToWidth> some;
          QUERN_UNROLL for (int j = 0; j < kWords; ++j) some.words[j] = line.words[i + j];
          store_elements<T, kToWidth>(at + 4 * i, some);
        }
        return;
      }
    }
    store_some<T, kVector>(at, kToSize, count, line);
  } else {
    Value values[kVector];
    values_of<From>(line, values);
    QUERN_UNROLL for (int i = 0; i < kVector; i += kToWidth) {
      const Elements<T, kToWidth> some = elements_of<T, kToWidth>(values + i);
      if (left >= i + kToWidth) {
        store_elements<T, kToWidth>(at + i * kToSize, some);
      } else if (left > i) {
        store_some<T, kToWidth>(at + i * kToSize, kToSize, static_cast<int>(left - i), some);
      }
    }
  }
}

// Where rows of what is written are not aligned to more than a word: neighbouring threads write neighbouring words, or
// what is narrower.
inline constexpr bool kByWords = kToWidth * static_cast<int>(sizeof(To)) <= 4;
QUERN_DEVICE void put_by_words(u8* to, i64 to_k, i64 rows, i64 columns, const u8* tile) {
  constexpr int kPerRow = kTileL / kToWidth, kAtOnce = kThreads / kPerRow;
  constexpr int kToSize = static_cast<int>(sizeof(To));
  const int column = thread_index() % kPerRow * kToWidth;
  if (column >= columns) return;
  u8* written = to + column * kToSize;
  QUERN_FOUR_AT_ONCE for (int row = thread_index() / kPerRow; row < kSide && row < rows; row += kAtOnce) {
    const Elements<From, kToWidth> some = load_elements<From, kToWidth>(tile + byte_of(row, column));
    if (columns - column >= kToWidth) {
      store_elements<To, kToWidth>(written + row * to_k, converted<From, To>(some));
    } else {
      store_some<To, kToWidth>(written + row * to_k, kToSize, static_cast<int>(columns - column),
                               converted<From, To>(some));
    }
  }
}

QUERN_DEVICE void transpose_tile(const TransposeParams& p, i32 number, u8* tile) {
  const TilePlace place = place_of_tile<kOuter>(p, number);
  const i64 k0 = static_cast<i64>(place.k) * kSide, l0 = static_cast<i64>(place.l) * kTileL;
  const u8* const from = place.from;
  u8* const to = place.to;

  // A thread takes vectors along one k of kJoined lines in each of kUnits steps of l, and stores for several k what has
  // its l: addresses are sums, so that they need few registers.
  constexpr int kUnits = 4 / kJoined, kStepL = kThreads / 8 * kJoined;
  const int own_k = thread_index() % 8 * kVector, own_l = thread_index() / 8 * kJoined;
  Line lines[kUnits][kJoined];
  const i64 left_k = p.k - k0 - own_k, left_l = p.l - l0 - own_l;
  const u8* line = from + (l0 + own_l) * p.from_l + (k0 + own_k) * kSize;
  QUERN_UNROLL for (int i = 0; i < kUnits; ++i) {
    QUERN_UNROLL for (int j = 0; j < kJoined; ++j) {
      lines[i][j] = Line{};
      if (left_k > 0 && i * kStepL + j < left_l) lines[i][j] = take_line(line + j * p.from_l, left_k);
    }
    line += kStepL * p.from_l;
  }
  QUERN_UNROLL for (int i = 0; i < kUnits; ++i) store_words(tile, lines[i], own_k, own_l + i * kStepL);
  sync_block();
  if constexpr (kByWords) {
    return put_by_words(to + k0 * p.to_k + l0 * static_cast<i64>(sizeof(To)), p.to_k, p.k - k0, p.l - l0, tile);
  }
  constexpr int kPerRow = kTileL / kVector;  // vectors of l for one k
  constexpr int kStepK = kThreads / kPerRow;
  const int row = thread_index() / kPerRow, column = thread_index() % kPerRow * kVector;
  const i64 rows = p.k - k0 - row, columns = p.l - l0 - column;
  u8* written = to + (k0 + row) * p.to_k + (l0 + column) * static_cast<i64>(sizeof(To));
  QUERN_UNROLL for (int i = 0; i < 4; ++i) {
    const vec16 v = load16(tile + byte_of(row + i * kStepK, column));
    if (i * kStepK < rows && columns > 0) put_line<To>(written, {{v.x[0], v.x[1], v.x[2], v.x[3]}}, columns);
    written += kStepK * p.to_k;
  }
}

QUERN_DEVICE void transpose(const TransposeParams& p) {
  QUERN_SHARED(vec16, shared, kTileL * 8);
  QUERN_ROLLED for (i64 number = block_index(0); number < p.tiles; number += block_count(0)) {
    transpose_tile(p, static_cast<i32>(number), reinterpret_cast<u8*>(shared));
    sync_block();  // until all have read what the next tile overwrites
  }
}

}  // namespace q

QUERN_KERNEL(quern_transpose, THREADS, BLOCKS_PER_SM, QUERN_PARAM q::TransposeParams p) {
  q::launch_next_grid();
  q::wait_for_previous_grid();
  q::transpose(p);
}
