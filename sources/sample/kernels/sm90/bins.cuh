// The tokens of a row as a search goes through them: among the candidates, which the first block has, or in the row
// itself, which all blocks of the cluster then read again.
//
// One pass sorts tokens into bins by their distance from the largest logit; a bin holds the weights of its tokens, as
// integers, and their number. A bin of too many is divided further, by the tokens' ranks; of one of few the tokens are
// listed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sample/kernels/sm90/candidates.cuh"

namespace q {

inline constexpr f32 kMagic = 0x1p23f;  // x + kMagic has the integer nearest to x in its low bits
inline constexpr u32 kNoBin = ~0u;
static_assert(kSpots % kThreads == 0 && kSegment <= kThreads);
inline constexpr int kOwnBins = kSpots / kThreads;

// In a row the keys of what is in a bin are known, too.
struct Bins {
  u32* weights;  // [kSpots] low and high words
  u32* counts;
  u32* highest;  // keys; null: not asked for
  u32* lowest;   // their complements
  QUERN_DEVICE static Bins at(void* place) {
    u32* const first = static_cast<u32*>(place);
    return {first, first + 2 * kSpots, first + 3 * kSpots, first + 4 * kSpots};
  }
  QUERN_DEVICE void add(u32 bin, u64 weight, u32 count) const {
    const u32 low = static_cast<u32>(weight), sum = atomic_add(weights + 2 * bin, low) + low;
    const u32 high = static_cast<u32>(weight >> 32) + (sum < low ? 1u : 0u);
    if (high != 0) atomic_add(weights + 2 * bin + 1, high);
    atomic_add(counts + bin, count);
  }
};

// How tokens are weighed and binned.
struct Scope {
  f32 max, scale, per;  // bins a power of 2 of weight
  f32 least;            // smaller logits are not there
  QUERN_DEVICE u64 weigh(f32 exponent) const { return to_units(exp2(exponent)); }
  // The last bin has all that is further away, too.
  QUERN_DEVICE u32 bin_at(f32 exponent) const {
    const u32 bin = bits_of(fma(exponent, -per, kMagic)) - bits_of(kMagic);
    return bin < static_cast<u32>(kSpots) ? bin : static_cast<u32>(kSpots) - 1;
  }
};

// A stretch of the order: the tokens of some bins whose ranks, 0 for the largest there can be, lie in a range.
struct Stretch {
  u32 first_bin, last_bin;
  u32 top;  // key of rank 0
  u64 first, last;
  f32 lowest, highest;  // logits outside are not in it
  static constexpr int kIndexBits = 20;
  static_assert(kMostVocab <= 1 << kIndexBits);
  QUERN_DEVICE u64 rank_of(u32 key, i32 token) const {
    return static_cast<u64>(key < top ? top - key : 0u) << kIndexBits | static_cast<u32>(token);
  }
  // Bins up to one.
  QUERN_DEVICE static Stretch up_to(const Scope& scope, u32 bin) {
    return {0, bin, key_of(scope.max), 0, ~u64{0}, fmax(scope.least, value_of(kDead + 1)), infinity()};
  }
  // A bin of the scope. Logits outside cannot be in it, whatever was rounded.
  QUERN_DEVICE static Stretch of_bin(const Scope& scope, u32 bin) {
    Stretch s = up_to(scope, bin);
    s.first_bin = bin;
    const f32 b = static_cast<f32>(bin), step = rcp_approx(scope.per * scope.scale);
    const f32 far = (b + 0.5f) * step, slack = (fabs(scope.max) + far) * 0x1p-20f;
    const f32 highest = scope.max - (b - 0.5f) * step + slack, lowest = scope.max - far - slack;
    if (highest < scope.max) s.highest = highest;
    if (lowest > s.lowest && bin + 1 < static_cast<u32>(kSpots)) s.lowest = lowest;
    s.cut(s.rank_of(key_of(s.highest), 0), s.rank_of(key_of(s.lowest), (1 << kIndexBits) - 1));
    return s;
  }
  QUERN_DEVICE void cut(u64 from, u64 to) { first = from > first ? from : first, last = to < last ? to : last; }
  QUERN_DEVICE void cut_to_keys(u32 highest_key, u32 lowest_key) {
    cut(rank_of(highest_key, 0), rank_of(lowest_key, (1 << kIndexBits) - 1));
  }
  // So that no more than kSpots bins of 2^shift ranks cover it.
  QUERN_DEVICE int shift() const {
    const int bits = 64 - static_cast<int>(leading_zeros(last - first));
    return bits > kSpotBits ? bits - kSpotBits : 0;
  }
};

// Where tokens are looked for.
struct Source {
  const SampleParams* p;
  const Row* row;
  bool whole;  // in the row, each block in its part of it; else among `count` candidates, by the first block alone
  i32 blocks;  // that take part
  i32 count;
};

// f(logit, token) for each of the source's tokens in this block that may be in the stretch.
template <class F>
QUERN_DEVICE void each_token(const Source& source, const Part& part, const Stretch& stretch, F f) {
  const SampleParams& p = *source.p;
  const Row& row = *source.row;
  i32 i = thread_index(), end = source.count;
  if (source.whole) {
    // Of equal logits only those whose ids are in the range.
    i32 from = part.begin(), to = from + part.chunks * kChunk;
    constexpr u64 kIds = (u64{1} << Stretch::kIndexBits) - 1;
    if (stretch.first >> Stretch::kIndexBits == stretch.last >> Stretch::kIndexBits) {
      const i32 low = static_cast<i32>(stretch.first & kIds), high = static_cast<i32>(stretch.last & kIds) + 1;
      from = low > from ? low : from, to = high < to ? high : to;
    }
    i += from / kVector, end = to > from ? div_up(to, kVector) : 0;
  }
  vec16 next{};
  if (source.whole && i < end && comes_whole(p, i * kVector)) next = load16(row.logits + i * kVector);
  QUERN_ROLLED for (; i < end; i += kThreads) {
    f32 x[kVector];
    u32 near = 0;
    i32 token;
    if (source.whole) {
      token = i * kVector;
      const vec16 raw = next;
      const i32 ahead = (i + kThreads) * kVector;
      if (i + kThreads < end && comes_whole(p, ahead)) next = load16(row.logits + ahead);
      widen_vector(p, row, token, raw, x);
      const u32 named = edit_alone(p, row, part, token, x);
      if (kEdits && named != 0) {
        const f32* value = part.named.values + part.named.rank_of(token - part.begin());
        QUERN_UNROLL for (int e = 0; e < kVector; ++e) {
          if ((named >> e & 1) != 0) x[e] = *value++;
        }
      }
      QUERN_UNROLL for (int e = 0; e < kVector; ++e) {
        near |= x[e] >= stretch.lowest && x[e] <= stretch.highest ? 1u << e : 0u;
      }
    } else {
      const Place place = part.candidates[i];
      x[0] = value_at(place), token = index_at(place);
      near = x[0] >= stretch.lowest && x[0] <= stretch.highest ? 1u : 0u;
    }
    QUERN_ROLLED while (near != 0) {
      if ((near & 1) != 0) f(x[0], token);
      // The next one moves up.
      QUERN_UNROLL for (int e = 1; e < kVector; ++e) x[e - 1] = x[e];
      near >>= 1, ++token;
    }
  }
}

// The two kinds of tokens that a thread met last, equal logits in one bin, and how many: so that rows of equal logits
// do not have all threads add to one bin all the time.
struct LastKinds {
  u32 key[2], bin[2], count[2];
  template <class F>
  QUERN_DEVICE void take(u32 its, u32 its_bin, F flush) {
    if (its == key[0] && its_bin == bin[0]) {
      ++count[0];
    } else if (its == key[1] && its_bin == bin[1]) {
      ++count[1];
    } else {
      flush(key[1], bin[1], count[1]);
      key[1] = key[0], bin[1] = bin[0], count[1] = count[0];
      key[0] = its, bin[0] = its_bin, count[0] = 1;
    }
  }
};
// What is done with the tokens of a stretch.
enum class Doing : i32 {
  level,   // into the bins of the scope
  divide,  // into bins of so many ranks each
  list,    // onto this block's list; `listed` counts them, beyond its end, too
  few      // likewise, and they are all that is left to look at
};
QUERN_DEVICE void scan(const Source& source, const Part& part, const Scope& scope, const Stretch& stretch, Doing doing,
                       const Bins& bins, Place* list) {
  const int shift = stretch.shift();
  u32* const listed = &part.desk->listed;
  LastKinds last{};
  const auto flush = [&](u32 key, u32 bin, u32 count) {
    if (count == 0) return;
    const f32 exponent = exponent_of(scope.max, value_of(key), scope.scale);
    const bool level = doing == Doing::level;
    if (level) bin = scope.bin_at(exponent);
    bins.add(bin, scope.weigh(exponent) * count, count);
    if (level && source.whole) atomic_max(bins.highest + bin, key), atomic_max(bins.lowest + bin, ~key);
  };
  each_token(source, part, stretch, [&](f32 x, i32 token) {
    const u32 key = key_of(x);
    u32 bin = 0;
    if (doing != Doing::level) {
      const u64 rank = stretch.rank_of(key, token);
      bin = scope.bin_at(exponent_of(scope.max, x, scope.scale));
      if (bin < stretch.first_bin || bin > stretch.last_bin || rank < stretch.first || rank > stretch.last) return;
      if (doing != Doing::divide) {
        const u32 number = atomic_add(listed, 1u);
        if (number < static_cast<u32>(kSegment)) list[number] = place_of(x, token);
        return;
      }
      bin = static_cast<u32>((rank - stretch.first) >> shift);
    }
    last.take(key, bin, flush);
  });
  QUERN_ROLLED for (int i = 0; i < 2; ++i) {
    flush(last.key[1], last.bin[1], last.count[1]);
    last.key[1] = last.key[0], last.bin[1] = last.bin[0], last.count[1] = last.count[0];
  }
}

}  // namespace q
