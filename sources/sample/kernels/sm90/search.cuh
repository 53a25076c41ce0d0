// Looks for the token of a row that is the k-th in descending order, or at which the weights sum up to so much: among
// the candidates, which the first block has, or in the row itself, which all blocks of the cluster then read again.
//
// One pass over the tokens sorts them into bins by their distance from the largest logit; a bin holds the weights of
// its tokens, as integers, and their number. With the bins of all blocks added up, each block knows the bin that is
// looked for, and that alone has to be looked into: its tokens are listed, and ranked. A bin of too many is divided
// further, by the tokens' ranks.
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

// A thread's bins, added up over the blocks; and what comes before them.
struct OwnBins {
  u64 weight[kOwnBins], before;
  u32 count[kOwnBins], count_before;
};
// *all: what all bins weigh.
QUERN_DEVICE OwnBins add_up(const Part& part, const Bins& bins, i32 blocks, bool counting, u64* all) {
  OwnBins own{};
  static_assert(kOwnBins == 2);
  const u32 *const weights = bins.weights + 4 * thread_index(), *const counts = bins.counts + 2 * thread_index();
  QUERN_FOUR_AT_ONCE for (i32 r = 0; r < blocks; ++r) {
    const vec16 two = of_block(reinterpret_cast<const vec16*>(weights), r);
    const u64 its = of_block(reinterpret_cast<const u64*>(counts), r);
    own.weight[0] += static_cast<u64>(two.x[1]) << 32 | two.x[0];
    own.weight[1] += static_cast<u64>(two.x[3]) << 32 | two.x[2];
    own.count[0] += static_cast<u32>(its), own.count[1] += static_cast<u32>(its >> 32);
  }
  u64* const scratch = part.desk->scratch;
  own.before = sum_before(scratch, own.weight[0] + own.weight[1]);
  *all = scratch[kThreads / kWarp];
  if (counting) own.count_before = static_cast<u32>(sum_before(scratch, own.count[0] + own.count[1]));
  return own;
}

enum class By : i32 { weight, count };
// The bin that reaches `wanted`, and what comes before it. kNoBin: none does.
struct BinFound {
  u32 bin, in;  // and how many it has
  u64 before;
  u32 count_before;
};
QUERN_DEVICE BinFound find_bin(u64* found, const OwnBins& own, By by, u64 wanted) {
  sync_block();  // all have read what was found before
  if (thread_index() == 0) found[0] = kNoBin;
  sync_block();
  u64 before = own.before, count = own.count_before;
  QUERN_UNROLL for (int i = 0; i < kOwnBins; ++i) {
    const u64 from = by == By::weight ? before : count, in = by == By::weight ? own.weight[i] : u64{own.count[i]};
    if (from < wanted && wanted <= from + in) {
      found[0] = static_cast<u64>(own.count[i]) << 32 | static_cast<u32>(kOwnBins * thread_index() + i);
      found[1] = before, found[2] = count;
    }
    before += own.weight[i], count += own.count[i];
  }
  sync_block();
  return {static_cast<u32>(found[0]), static_cast<u32>(found[0] >> 32), found[1], static_cast<u32>(found[2])};
}

// The lists of all blocks, in no order, into few. How many; at most kSegment.
QUERN_DEVICE i32 gather_lists(const Part& part, i32 blocks, const Place* list) {
  // This thread's token is the i-th of block `from`.
  i32 count = 0, i = thread_index(), from = -1;
  each_block(blocks, &part.desk->listed, [&](i32 r, u32 number) {
    const i32 its = static_cast<i32>(number);
    from = from < 0 && i < its ? r : from;
    i -= from < 0 ? its : 0;
    count += its;
  });
  if (from >= 0) part.desk->few[thread_index()] = of_block(list + i, from);
  sync_block();
  return count < kSegment ? count : kSegment;
}

// One of `count` tokens in few, its weight, and how many there are before it in order and what they weigh. Several
// lanes next to each other have the same token and share the comparisons; the first of them is `there`.
struct Ranked {
  bool there;
  Place place;
  u64 weight, before;
  u32 rank;
};
QUERN_DEVICE Ranked rank_few(const Part& part, const Scope& scope, i32 count) {
  Desk& desk = *part.desk;
  i32 sharers = 1;
  QUERN_UNROLL for (int wider = 2; wider <= 8; wider *= 2) sharers = count * wider <= kThreads ? wider : sharers;
  const i32 t = thread_index() / sharers, among = thread_index() & (sharers - 1);
  Ranked own{};
  own.there = among == 0 && t < count;
  own.place = t < count ? desk.few[t] : Place{0};
  own.weight = t < count ? scope.weigh(exponent_of(scope.max, value_at(own.place), scope.scale)) : u64{0};
  if (own.there) desk.weights[t] = own.weight;
  sync_block();
  if (warp() * kWarp / sharers < count) {
    QUERN_FOUR_AT_ONCE for (i32 i = among; i < count; i += sharers) {
      const bool more = desk.few[i] > own.place;
      own.before += more ? desk.weights[i] : u64{0}, own.rank += more;
    }
    QUERN_ROLLED for (int d = 1; d < sharers; d *= 2) {
      own.before += shuffle_xor(own.before, d), own.rank += shuffle_xor(own.rank, d);
    }
  }
  return own;
}

// Of a few tokens: the k largest, the share of those, one of what is left. One thread finds each and tells it.
// `total`: what the share is of; 0: of the k largest. *ok = false: they do not reach as far as top_p does.
QUERN_DEVICE Choice choose_of_few(const Part& part, const Ranked& own, const Settings& s, i32 count, u64 total,
                                  const Stream& stream, bool* ok) {
  u64* const told = part.desk->found;
  const u32 last = static_cast<u32>(s.top_k > 0 && s.top_k < count ? s.top_k : count) - 1;
  const u64 through = own.before + own.weight;
  if (own.there && own.rank == last) told[0] = through;
  sync_block();
  u64 left = told[0];
  if (s.top_p < 1.0f) {
    const u64 wanted = share_of(s.top_p, total != 0 ? total : left, false);
    if (wanted > left) {
      *ok = false;
      return {-1, 0.0f};
    }
    if (own.there && own.before < wanted && wanted <= through) told[1] = through;
    sync_block();
    left = told[1];
  }
  const u64 target = scale_to(wide(stream.of_row()), left);
  if (own.there && own.before <= target && target < through) told[2] = own.place;
  sync_block();
  return {index_at(told[2]), value_at(told[2])};
}

// What filters leave: top_k, top_p and the draw are three searches in the same order, each among what the one before
// has left. All threads of the source's blocks; the first block's result counts. `least`: smaller logits are not there;
// `low`: hardly any of the others are smaller. *ok = false: the candidates do not reach as far as top_p does.
enum class Step : i32 { top_k, top_p, draw };
QUERN_CALLED Choice search(const Source& source, const RowSums& sums, const Settings& s, f32 least,
                           f32 low, bool alone, const Stream& stream, bool* ok) {
  const SampleParams& p = *source.p;
  Part part = part_of(p);
  part.named.count = part.desk->named;
  Desk& desk = *part.desk;
  const bool counts = s.top_k > 0 && s.top_k < p.vocab, joint = p.joint && counts && s.top_p < 1.0f;
  const bool apart = alone && !source.whole;
  Scope scope{sums.max, sums.scale, 0.0f, least};
  // Beyond so many powers of 2 a token weighs nothing, or too little to be within top_p.
  f32 most = 41.0f;
  if (alone) {
    most = fmin(most, 0.5f - log2((1.0f - s.top_p) * rcp_approx(static_cast<f32>(p.vocab))));
    scope.least = fmax(scope.least, sums.max - most * rcp_approx(sums.scale));
  }
  most = fmin(most, (sums.max - fmax(low, scope.least)) * sums.scale * 1.001f);
  scope.per = static_cast<f32>(kSpots - 1) * rcp_approx(fmax(most, 0x1p-20f));

  const Bins level{Bins::at(part.work)};
  const Bins divided = source.whole ? Bins::at(part.candidates) : level;
  Place* const list = reinterpret_cast<Place*>(part.work + kBinWords * 4);
  constexpr u32 kLast = static_cast<u32>(kSpots) - 1;
  Doing doing = Doing::level;
  Stretch stretch = Stretch::up_to(scope, kLast);
  if (!source.whole && source.count <= kSegment && !joint) doing = Doing::few;
  OwnBins whole{};
  Step step = counts ? Step::top_k : Step::top_p;
  By by = By::count;
  u64 all = 0, left = 0, wanted = 0, before = 0;
  u32 count_before = 0;
  QUERN_ROLLED while (true) {
    const bool lists = doing == Doing::list || doing == Doing::few;
    const Bins bins = doing == Doing::level ? level : divided;
    sync_blocks(source.blocks);  // all have read what was there
    if (lists) {
      if (thread_index() == 0) desk.listed = 0, desk.token[0] = 0;
    } else {
      bins_zero<kThreads>(bins.weights, doing == Doing::level && source.whole ? 5 * kSpots : 3 * kSpots);
    }
    sync_block();
    scan(source, part, scope, stretch, doing, bins, list);
    sync_blocks(source.blocks);
    bool next = true;  // step begins
    if (lists) {
      const i32 count = gather_lists(part, source.blocks, list);
      const Ranked ranked = rank_few(part, scope, count);
      if (doing == Doing::few) return choose_of_few(part, ranked, s, count, alone ? sums.total : u64{0}, stream, ok);
      const u64 above = before + ranked.before, through = above + ranked.weight;
      const bool reaches =
          by == By::weight ? above < wanted && wanted <= through : count_before + ranked.rank + 1 == wanted;
      if (ranked.there && reaches) desk.token[0] = ranked.place, desk.token[1] = through;
      sync_block();
      const Place place = desk.token[0];
      if (step == Step::draw) return {place == 0 ? -1 : index_at(place), value_at(place)};
      left = desk.token[1];
      step = step == Step::top_k ? Step::top_p : Step::draw;
    } else {
      u64 total;
      const OwnBins own = add_up(part, bins, source.blocks, counts, &total);
      if (doing == Doing::level) {
        whole = own, left = all = total;
        if (apart && all < share_of(s.top_p, sums.total, false)) {
          *ok = false;
          return {-1, 0.0f};
        }
      } else {
        const int shift = stretch.shift();
        const BinFound found = find_bin(desk.found, own, by, wanted - (by == By::weight ? before : u64{count_before}));
        before += found.before, count_before += found.count_before;
        const u64 from = stretch.first + (static_cast<u64>(found.bin) << shift);
        stretch.cut(from, from + ((u64{1} << shift) - 1));
        doing = found.in <= static_cast<u32>(kSegment) ? Doing::list : Doing::divide;
        next = false;
      }
    }
    QUERN_ROLLED while (next) {
      by = step == Step::top_k ? By::count : By::weight;
      wanted = static_cast<u64>(s.top_k);
      if (step == Step::top_p) {
        wanted = share_of(s.top_p, alone ? sums.total : joint ? all : left, false);
        if (!(s.top_p < 1.0f) || (wanted >= left && !apart)) step = Step::draw;
      }
      if (step == Step::draw) wanted = scale_to(wide(stream.of_row()), left) + 1;
      const BinFound found = find_bin(desk.found, whole, by, wanted);
      if (found.bin == kNoBin) {
        if (step == Step::draw) return {-1, 0.0f};
        step = step == Step::top_k ? Step::top_p : Step::draw;  // there are not so many
        continue;
      }
      before = found.before, count_before = found.count_before;
      if (step == Step::top_k && !joint && found.count_before + found.in <= static_cast<u32>(kSegment)) {
        // They are few, now that it is known where they end.
        stretch = Stretch::up_to(scope, found.bin), doing = Doing::few;
        break;
      }
      stretch = Stretch::of_bin(scope, found.bin);
      if (source.whole) {
        const u32 high = largest_of_blocks(source.blocks, level.highest + found.bin);
        const u32 lowest = largest_of_blocks(source.blocks, level.lowest + found.bin);
        stretch.cut_to_keys(high, ~lowest);
        if (high == ~lowest && step != Step::draw) {
          // All are equal, so that it is known what those that are wanted weigh.
          const u64 each = scope.weigh(exponent_of(scope.max, value_of(high), scope.scale));
          const u64 number = by == By::count ? wanted - count_before : (wanted - before + each - 1) / each;
          left = before + number * each;
          step = step == Step::top_k ? Step::top_p : Step::draw;
          continue;
        }
      }
      doing = found.in <= static_cast<u32>(kSegment) ? Doing::list : Doing::divide;
      break;
    }
  }
}

}  // namespace q
