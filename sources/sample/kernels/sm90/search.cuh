// Looks for the token of a row that is the k-th in descending order, or at which the weights sum up to so much. With
// the bins of all blocks added up, each block knows the bin that is looked for, and that alone has to be looked into:
// its tokens are listed, and ranked.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sample/kernels/sm90/bins.cuh"

namespace q {

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
QUERN_CALLED Choice search(const Source& source, const RowSums& sums, const Settings& s, f32 least, f32 low, bool alone,
                           const Stream& stream, bool* ok) {
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
