// How often the numbers of each row fall into each bin. Threads share the chunks of a row, and count in shared memory
// where all bins have room there: each warp, or a few together, has bins of its own, summed at the end. Of more bins a
// block has a range: the blocks of all ranges read the same part of a row at the same time, so that it comes from
// memory once and from L2 to the others.
// SPDX-License-Identifier: Apache-2.0
#include "common/reduce.cuh"
#include "common/shared_place.cuh"
#include "histogram/params.cuh"
#include "rope/vectors.cuh"

namespace q {

using Element = ELEMENT;
inline constexpr int kWidth = WIDTH;  // elements of a chunk
inline constexpr bool kShared = SHARED_BINS != 0, kRanges = RANGES != 0, kFloat = FLOATS != 0;
inline constexpr i32 kThreads = kRanges ? kRangeThreads : kHistogramThreads;
inline constexpr int kAtOnce = kWidth == 1 ? 8 : kWidth == 16 ? 2 : 4;  // chunks that a thread has on their way

using Chunk = Packed<Element, kWidth>;

template <int bytes>
struct BitsOf;
template <>
struct BitsOf<1> {
  using Type = u8;
};
template <>
struct BitsOf<2> {
  using Type = u16;
};
template <>
struct BitsOf<4> {
  using Type = u32;
};
template <>
struct BitsOf<8> {
  using Type = u64;
};
using Bits = BitsOf<static_cast<int>(sizeof(Element))>::Type;

QUERN_DEVICE Bits element_of(const Chunk& chunk, int i) {
  constexpr int kBytes = static_cast<int>(sizeof(Element));
  if constexpr (kBytes == 8) {
    return static_cast<u64>(chunk.words[2 * i + 1]) << 32 | chunk.words[2 * i];
  } else {
    constexpr int kPerWord = 4 / kBytes;
    return static_cast<Bits>(chunk.words[i / kPerWord] >> 8 * kBytes * (i % kPerWord));
  }
}

// Of floats. Choices instead of branches: lanes go different ways for each element.
QUERN_DEVICE i32 bin_of(const HistogramParams& p, f32 value) {
  // Bounded before it becomes an integer: what lies outside, and NaN, need not fit into one.
  const f32 place = fmin(fmax((value - p.low) * p.scale, 0.0f), static_cast<f32>(p.bins - 1));
  i32 bin = static_cast<i32>(place);
  bin = value < p.low ? p.below : bin;
  bin = value > p.high ? p.above : bin;
  return value == value ? bin : -1;
}
// Of integers.
QUERN_DEVICE i32 bin_of(const HistogramParams& p, i32 value) {
  const u32 place = static_cast<u32>(value) - static_cast<u32>(static_cast<i32>(p.first));
  const i32 bin = place < static_cast<u32>(p.bins) ? static_cast<i32>(place) : p.above;
  return value < static_cast<i32>(p.first) ? p.below : bin;
}
QUERN_DEVICE i32 bin_of(const HistogramParams& p, i64 value) {
  const u64 place = static_cast<u64>(value) - static_cast<u64>(p.first);
  const i32 bin = place < static_cast<u64>(p.bins) ? static_cast<i32>(place) : p.above;
  return value < p.first ? p.below : bin;
}

// A template, so that only what is right for the element is compiled. `narrow`: an integer and p.first have 32 bits.
template <class T, bool narrow>
QUERN_DEVICE i32 bin_of_bits(const HistogramParams& p, Bits bits) {
  if constexpr (!kFloat && narrow) {
    return bin_of(p, static_cast<i32>(static_cast<T>(bits)));
  } else if constexpr (!kFloat) {
    return bin_of(p, static_cast<i64>(static_cast<T>(bits)));
  } else if constexpr (sizeof(T) == 4) {
    return bin_of(p, f32_of(bits));
  } else {
    return bin_of(p, to_f32(T{bits}));
  }
}

QUERN_DEVICE void add_to_count(const HistogramParams& p, i64 row, i32 bin, u32 count) {
  const i64 at = row * p.counts_stride + bin;
  if (p.wide) {
    atomic_add(reinterpret_cast<u64*>(p.counts) + at, u64{count});
  } else {
    atomic_add(reinterpret_cast<u32*>(p.counts) + at, count);
  }
}

// The bins that a block counts, in shared memory.
struct Bins {
  SharedPlace at;
  i32 first, count;  // of all bins those from `first` on
};

// What lies outside of a block's range is counted, too, in a word behind it that nobody reads: a branch around the
// counting, which lanes part ways at, takes longer.
QUERN_DEVICE void count_in_range(const Bins& bins, u32 own) {
  const u32 count = static_cast<u32>(bins.count);
  count_one(bins.at + static_cast<i32>(own < count ? own : count) * 4);
}

// In shared memory lanes add 1 each, which the hardware joins where they meet. In global memory the lanes that count in
// the bin of the lowest of them are counted in one go: rows of one number, and of mostly one, would else have every
// lane wait for all others. All lanes take part; bin -1 is not counted.
QUERN_DEVICE void count_bin(const HistogramParams& p, const Bins& bins, i64 row, i32 bin) {
  if constexpr (kRanges) {
    count_in_range(bins, static_cast<u32>(bin) - static_cast<u32>(bins.first));  // of bin -1 this is beyond any range
  } else if constexpr (kShared) {
    if (bin >= 0) count_one(bins.at + bin * 4);
  } else {
    const u64 taking = ballot(bin >= 0);
    if (taking == 0) return;
    const int leader = static_cast<int>(trailing_zeros(taking));
    const i32 its = shuffle(bin, leader);
    const u64 with = ballot(bin == its);
    const bool leads = lane() == leader, alone = bin >= 0 && bin != its;
    if (leads || alone) add_to_count(p, row, bin, leads ? popcount(with) : 1u);
  }
}

// Of a range, where bins are integers of 32 bits and nothing is clamped: what lies below the first bin is, modulo 2^32,
// beyond the last one. A block looks at every number of its part, of which others count most, so each takes few
// instructions.
template <class T>
QUERN_DEVICE void count_plain(const HistogramParams& p, const Bins& bins, Bits bits, bool has) {
  if constexpr (kRanges && !kFloat) {
    const u32 first = static_cast<u32>(static_cast<i32>(p.first) + bins.first),
              own = static_cast<u32>(static_cast<i32>(static_cast<T>(bits))) - first;
    count_in_range(bins, has ? own : ~0u);
  }
}

// What a block takes at once: of the `left` chunks from `tile` on as many as it can, all of them there or not.
template <bool narrow, bool plain, bool whole>
QUERN_DEVICE void count_tile(const HistogramParams& p, const Element* x, i64 row, i32 tile, i32 left,
                             const Bins& bins) {
  x += i64{tile} * kWidth;
  Chunk held[kAtOnce];
  QUERN_UNROLL for (int j = 0; j < kAtOnce; ++j) {
    const i32 at = j * kThreads + thread_index();
    if (whole || at < left) held[j] = load_packed<Element, kWidth>(x + i64{at} * kWidth);
  }
  QUERN_UNROLL for (int j = 0; j < kAtOnce; ++j) {
    const bool has = whole || j * kThreads + thread_index() < left;
    QUERN_UNROLL for (int k = 0; k < kWidth; ++k) {
      if constexpr (plain) {
        count_plain<Element>(p, bins, element_of(held[j], k), has);
      } else {
        count_bin(p, bins, row, has ? bin_of_bits<Element, narrow>(p, element_of(held[j], k)) : -1);
      }
    }
  }
}

template <bool narrow, bool plain = false>
QUERN_DEVICE void count_part(const HistogramParams& p, i64 row, i32 part, const Bins& bins) {
  constexpr i32 kTile = kAtOnce * kThreads;
  const Element* x = reinterpret_cast<const Element*>(p.x) + row * p.x_stride;
  const i32 chunks = static_cast<i32>(p.n / kWidth), begin = part * p.part;
  const i32 end = chunks - begin < p.part ? chunks : begin + p.part;
  i32 tile = begin;
  QUERN_ROLLED for (; end - tile >= kTile; tile += kTile)
      count_tile<narrow, plain, true>(p, x, row, tile, end - tile, bins);
  if (tile < end) count_tile<narrow, plain, false>(p, x, row, tile, end - tile, bins);
  // What is left of the row behind its last chunk.
  if constexpr (kWidth > 1) {
    const i64 at = i64{chunks} * kWidth + thread_index();
    if (part == p.parts - 1 && warp() == 0) {
      i32 bin = -1;
      if (at < p.n) bin = bin_of_bits<Element, narrow>(p, reinterpret_cast<const Bits*>(x)[at]);
      count_bin(p, bins, row, bin);
    }
  }
}
QUERN_DEVICE void count_part(const HistogramParams& p, i64 row, i32 part, const Bins& bins) {
  if constexpr (!kFloat && sizeof(Element) < 8) {
    if constexpr (kRanges) {
      if (p.plain) return count_part<true, true>(p, row, part, bins);
    }
    if (p.narrow) return count_part<true>(p, row, part, bins);
  }
  count_part<false>(p, row, part, bins);
}

// Where a block has all of its row it alone writes the count.
QUERN_DEVICE void store_count(const HistogramParams& p, i64 row, i32 bin, u32 sum) {
  if (p.parts > 1) {
    if (sum != 0) add_to_count(p, row, bin, sum);
  } else if (p.wide) {
    u64* to = reinterpret_cast<u64*>(p.counts) + row * p.counts_stride + bin;
    *to = (p.accumulate ? *to : 0) + sum;
  } else {
    u32* to = reinterpret_cast<u32*>(p.counts) + row * p.counts_stride + bin;
    *to = (p.accumulate ? *to : 0) + sum;
  }
}
// Adds the counts of a range two at a time, which takes half as long. From zeros on a row's counts come to no more than
// its numbers, below 2^32, so that none carries into the next one. False where that cannot be.
QUERN_DEVICE bool add_pairs(const HistogramParams& p, i64 row, i32 begin, const u32* bins, i32 first, i32 count) {
  u32* const to = reinterpret_cast<u32*>(p.counts) + row * p.counts_stride + first;
  if (p.parts == 1 || p.wide || p.accumulate || (reinterpret_cast<u64>(to) & 7) != 0) return false;
  const i32 pairs = count / 2;
  QUERN_ROLLED for (i32 i = thread_index(); i < pairs; i += kThreads) {
    const i32 at = i < pairs - begin / 2 ? i + begin / 2 : i + begin / 2 - pairs;
    const u64 two = reinterpret_cast<const u64*>(bins)[at];
    if (two != 0) atomic_add(reinterpret_cast<u64*>(to) + at, two);
  }
  if (count % 2 != 0 && thread_index() == 0) store_count(p, row, first + count - 1, bins[count - 1]);
  return true;
}
QUERN_DEVICE void store_counts(const HistogramParams& p, i64 row, i32 part, const u32* bins, i32 first, i32 count) {
  if constexpr (kRanges) {
    // Each part begins elsewhere: else all blocks would add to the same counts at the same time.
    const i32 begin = static_cast<i32>(i64{part} * count / p.parts) / (2 * kWarp) * (2 * kWarp);
    if (add_pairs(p, row, begin, bins, first, count)) return;
    QUERN_ROLLED for (i32 i = thread_index(); i < count; i += kThreads) {
      const i32 b = i < count - begin ? i + begin : i + begin - count;
      store_count(p, row, first + b, bins[b]);
    }
  } else {
    QUERN_ROLLED for (i32 b = thread_index(); b < count; b += kThreads) {
      u32 sum = 0;
      QUERN_ROLLED for (i32 c = 0; c < p.copies; ++c) sum += bins[c * count + b];
      store_count(p, row, b, sum);
    }
  }
}

QUERN_DEVICE void histogram(const HistogramParams& p, i64 item) {
  // The ranges of a part are neighbouring items, which run at the same time.
  i32 first = 0, count = p.bins;
  if constexpr (kRanges) {
    const i64 all = item / p.ranges;
    first = static_cast<i32>(item - all * p.ranges) * p.range_bins;
    count = p.bins - first < p.range_bins ? p.bins - first : p.range_bins;
    item = all;
  }
  const i64 row = item / p.parts;
  const i32 part = static_cast<i32>(item - row * p.parts);
  if constexpr (kShared) {
    u32* bins = reinterpret_cast<u32*>(dynamic_shared());
    bins_zero<kThreads>(bins, p.copies * count);
    sync_block();
    u8* const own = reinterpret_cast<u8*>(bins + (warp() & (p.copies - 1)) * count);
    count_part(p, row, part, Bins{SharedPlace(own), first, count});
    sync_block();
    store_counts(p, row, part, bins, first, count);
    sync_block();
  } else {
    count_part(p, row, part, Bins{SharedPlace(dynamic_shared()), 0, 0});
  }
}

}  // namespace q

QUERN_KERNEL(quern_histogram, q::kThreads, q::kRanges ? 1 : 2, QUERN_PARAM q::HistogramParams p) {
  q::launch_next_grid();
  q::wait_for_previous_grid();
  const q::i64 items = q::i64{p.rows} * p.parts * (q::kRanges ? p.ranges : 1);
  QUERN_ROLLED for (q::i64 item = q::block_index(0); item < items; item += q::block_count(0)) q::histogram(p, item);
}
