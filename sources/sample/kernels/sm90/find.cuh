// The search itself, and the choice among what is left.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sample/kernels/sm90/search.cuh"

namespace q {

struct RowSums {
  f32 max, scale;
  u64 total;  // of the weights, where they were asked for
};
struct Choice {
  i32 id;
  f32 x;  // its logit
};

// Of a few tokens: the k largest, the share of those, one of what is left. One thread finds each
// and tells it.
QUERN_DEVICE Choice choose_of_few(const Part& part, const Ranked& own, const Settings& s, i32 count,
                                  const Stream& stream) {
  u64* const told = part.desk->bins[0];
  const u32 last = static_cast<u32>(s.top_k > 0 && s.top_k < count ? s.top_k : count) - 1;
  const u64 through = own.before + own.weight;
  if (own.there && own.rank == last) told[0] = through;
  sync_block();
  u64 left = told[0];
  if (s.top_p < 1.0f) {
    const u64 wanted = share_of(s.top_p, left, false);
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
// has left. Few tokens are listed and done with at once. All threads of the source's blocks; the first block's result
// counts. *ok = false: the candidates do not reach as far as top_p does.
enum class Step : i32 { top_k, top_p, draw };
QUERN_DEVICE Choice search(const Source& source, const Part& part, const RowSums& sums, const Settings& s, f32 least,
                           bool alone, const Stream& stream, bool* ok) {
  const SampleParams& p = *source.p;
  Desk& desk = *part.desk;
  const bool counts = s.top_k > 0 && s.top_k < p.vocab, joint = p.joint && counts && s.top_p < 1.0f;
  const bool apart = alone && !source.whole;
  Scope scope{sums.max, sums.scale, 0.0f, least};
  // Beyond so many powers of 2 a token weighs nothing, or too little to be within top_p, or is not there.
  f32 most = 41.0f;
  if (!counts && s.top_p < 1.0f)
    most = fmin(most, 0.5f - log2((1.0f - s.top_p) * rcp_approx(static_cast<f32>(p.vocab))));
  if (least > -infinity()) most = fmin(most, (sums.max - least) * sums.scale * 1.001f + 0.5f);
  scope.per = static_cast<f32>(kSpots) * rcp_approx(most);
  enum class Doing : i32 { few, all_bins, list, range, bins } doing = Doing::all_bins;
  Stretch stretch{};
  if (!joint && !alone && !source.whole && source.count <= kSegment) {
    const u32 key = key_of(least);
    stretch = {value_of(key > kDead ? key : kDead + 1), infinity(), kNoBin, ~0u, 0, ~u64{0}};
    doing = Doing::few;
  }
  OwnBins whole{}, bins{}, inner{};
  // Of the bin that has been divided last: what comes before it, and its ranks.
  u32 divided = kNoBin, count_before_divided = 0, least_key = 0;
  u64 before_divided = 0;
  Stretch stretch_divided{};
  int shift_divided = 0;
  u32 outer = 0;
  Step step = Step::top_k;
  By by = By::count;
  u64 all = 0, left = 0, wanted = 0, before = 0;
  u32 count_before = 0;
  i32 turn = 0, slot = 0;
  int shift = 0;
  QUERN_ROLLED while (true) {
    const bool lists = doing == Doing::few || doing == Doing::list;
    Place* const list = reinterpret_cast<Place*>(part.work + kBinWords * 4) + turn * kSegment;
    u32* const listed = desk.listed + turn;
    if (doing == Doing::bins) sync_blocks(source.blocks);  // all have read the bins as they were
    u64 *const found_bin = desk.bins[slot], *const found_inner = desk.inner[slot], *const found_token = desk.tokens[slot];
    slot ^= 1;
    if (thread_index() == 0) found_bin[0] = kNoBin, found_token[0] = 0, found_inner[0] = kNoBin;
    if (lists) {
      turn ^= 1;
      if (thread_index() == 0) *listed = 0;
    } else if (doing != Doing::range) {
      Bins::of(part).zero();
    }
    sync_block();
    const Scan scan = lists                      ? Scan::list
                      : doing == Doing::all_bins ? Scan::all_bins
                      : doing == Doing::range    ? Scan::range
                                                 : Scan::bins;
    const Ranks own = scan_part(source, part, scope, stretch, scan, shift, list, listed);
    if (doing == Doing::range || doing == Doing::all_bins) {
      const u64 first = reduce_min(part.room(), own.first), last = reduce_max(part.room(), own.last);
      if (thread_index() == 0) desk.first = first, desk.last = last;
    }
    sync_blocks(source.blocks);
    bool fresh = false;
    if (lists) {
      const i32 count = gather(part, source.blocks, list, listed);
      if (count < 0) {
        doing = Doing::all_bins;
        continue;
      }
      const Ranked ranked = rank_few(part, scope, count);
      if (doing == Doing::few) return choose_of_few(part, ranked, s, count, stream);
      const u64 above = before + ranked.before, through = above + ranked.weight;
      const bool reaches =
          by == By::weight ? above < wanted && wanted <= through : count_before + ranked.rank + 1 == wanted;
      if (ranked.there && reaches) found_token[0] = ranked.place, found_token[1] = through;
      sync_block();
      const Place place = found_token[0];
      if (step == Step::draw) return {place == 0 ? -1 : index_at(place), value_at(place)};
      left = found_token[1];
      if (step == Step::top_k && !joint && s.top_k <= kSegment && place != 0) {
        // They are few, now that it is known where they end.
        stretch = {value_at(place), infinity(), kNoBin, ~0u, 0, ~u64{0}};
        stretch.last = stretch.rank_of(place);
        doing = Doing::few;
        sync_block();
        continue;
      }
      step = step == Step::top_k ? Step::top_p : Step::draw;
      fresh = true;
    } else if (doing == Doing::range) {
      u64 first = ~u64{0}, last = 0;
      QUERN_ROLLED for (i32 r = 0; r < source.blocks; ++r) {
        const u64 its_first = of_block(&desk.first, r), its_last = of_block(&desk.last, r);
        first = its_first < first ? its_first : first, last = its_last > last ? its_last : last;
      }
      stretch.first = first, stretch.last = last;
      const int bits = 64 - static_cast<int>(leading_zeros(last - first));
      shift = bits > kSpotBits ? bits - kSpotBits : 0;
      doing = Doing::bins;
      continue;
    } else {
      bins = add_up(part, source.blocks, counts);
      if (doing == Doing::all_bins) {
        whole = bins, fresh = true;
        each_block(source.blocks, reinterpret_cast<const u64*>(part.work) + kSpots, [&](i32, u64 its) { all += its; });
        least_key = ~0u;
        each_block(source.blocks, &desk.first, [&](i32, u64 its) {
          least_key = static_cast<u32>(its) < least_key ? static_cast<u32>(its) : least_key;
        });
        if (apart && all < share_of(s.top_p, sums.total, false)) {
          *ok = false;
          return {-1, 0.0f};
        }
        left = all;
      } else if (divided == kNoBin) {
        divided = outer, inner = bins, stretch_divided = stretch, shift_divided = shift;
        before_divided = before, count_before_divided = count_before;
      }
    }
    FoundBins found{};
    QUERN_ROLLED while (true) {
      if (fresh) {
        if (step == Step::top_k && !counts) step = Step::top_p;
        by = step == Step::top_k ? By::count : By::weight;
        wanted = static_cast<u64>(s.top_k);
        if (step == Step::top_p) {
          wanted = share_of(s.top_p, alone ? sums.total : joint ? all : left, false);
          if (!(s.top_p < 1.0f) || (wanted >= left && !apart)) step = Step::draw;
        }
        if (step == Step::draw) by = By::weight, wanted = scale_to(wide(stream.of_row()), left) + 1;
        bins = whole, before = 0, count_before = 0;
      }
      found = find_bin(found_bin, bins, by, wanted - (by == By::weight ? before : u64{count_before}));
      if (found.bin != kNoBin) break;
      if (step == Step::draw) return {-1, 0.0f};
      step = step == Step::top_k ? Step::top_p : Step::draw;  // there are not so many
      sync_block();                                           // all know it
      fresh = true;
    }
    before += found.weight, count_before += found.count;
    if (fresh && found.bin == divided) {
      bins = inner, stretch = stretch_divided, shift = shift_divided;
      before = before_divided, count_before = count_before_divided;
      fresh = false;
      found = find_bin(found_inner, bins, by, wanted - (by == By::weight ? before : u64{count_before}));
      before += found.weight, count_before += found.count;
    }
    if (!fresh) {
      stretch.first += static_cast<u64>(found.bin) << shift;
      const u64 last = stretch.first + ((u64{1} << shift) - 1);
      stretch.last = last < stretch.last ? last : stretch.last;
      doing = found.in <= static_cast<u32>(kSegment) ? Doing::list : Doing::range;
      continue;
    }
    stretch = Stretch::of_bin(scope, found.bin);
    doing = Doing::list;
    if (found.in <= static_cast<u32>(kSegment)) continue;
    // Of its ranks it is known how far they can go.
    outer = found.bin;
    const u32 top = stretch.top, lowest = key_of(stretch.lowest), end = lowest > least_key ? lowest : least_key;
    stretch.last = static_cast<u64>(top - (end < top ? end : top)) << Stretch::kIndexBits |
                   static_cast<u32>((end < top ? 1 << Stretch::kIndexBits : p.vocab) - 1);
    const int bits = 64 - static_cast<int>(leading_zeros(stretch.last));
    shift = bits > kSpotBits ? bits - kSpotBits : 0;
    doing = Doing::bins;
  }
}

}  // namespace q
