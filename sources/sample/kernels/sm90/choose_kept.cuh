// The search itself, and the choice among what is left.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sample/kernels/sm90/pick.cuh"

namespace q {

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
  Scope scope{sums.max, sums.scale, 0.0f, least, -infinity()};
  // Beyond so many powers of 2 a token weighs nothing, or too little to be within top_p, or is not there.
  f32 most = 41.0f;
  if (!counts && s.top_p < 1.0f)
    most = fmin(most, 0.5f - log2((1.0f - s.top_p) * rcp_approx(static_cast<f32>(p.vocab))));
  if (least > -infinity()) most = fmin(most, (sums.max - least) * sums.scale * 1.001f + 0.5f);
  scope.per = static_cast<f32>(kSpots) * rcp_approx(most);
  if (alone && source.whole) scope.floor = sums.max - (most + 1.0f) * rcp_approx(sums.scale);
  enum class Doing : i32 { few, all_bins, list, bins } doing = Doing::all_bins;
  Stretch stretch = Stretch::from(scope, least);
  if (!joint && !alone && !source.whole && source.count <= kSegment) doing = Doing::few;
  // The bins of the scope, and of the bin that has been divided first.
  struct Level {
    OwnBins bins;
    Stretch stretch;
    int shift;
    u64 before;
    u32 count_before;
  } whole{}, divided{};
  divided.stretch.bin = kNoBin;
  OwnBins bins{};
  Step step = Step::top_k;
  By by = By::count;
  u64 all = 0, left = 0, wanted = 0, before = 0;
  u32 count_before = 0;
  i32 slot = 0;
  int shift = 0;
  QUERN_ROLLED while (true) {
    const bool lists = doing == Doing::few || doing == Doing::list;
    Place* const list = reinterpret_cast<Place*>(part.work + kBinWords * 4) + slot * kSegment;
    u32* const listed = desk.listed + slot;
    if (doing == Doing::bins) sync_blocks(source.blocks);  // all have read the bins as they were
    u64 *const found_bin = desk.bins[slot], *const found_token = desk.tokens[slot];
    slot ^= 1;
    if (thread_index() == 0) found_bin[0] = kNoBin, found_bin[4] = kNoBin, found_token[0] = 0, *listed = 0;
    if (!lists) Bins::of(part).zero();
    sync_block();
    const Scan scan = lists ? Scan::list : doing == Doing::all_bins ? Scan::all_bins : Scan::bins;
    const Ranks own = scan_part(source, part, scope, stretch, scan, shift, list, listed);
    if (!lists && source.whole) {
      const u64 first = reduce_min(part.room(), own.first), last = reduce_max(part.room(), own.last);
      if (thread_index() == 0) desk.first = first, desk.last = last;
    }
    sync_blocks(source.blocks);
    bool fresh = false;
    u64 first = ~u64{0}, last = 0;
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
        stretch = Stretch::from(scope, value_at(place));
        stretch.last = stretch.rank_of(place);
        doing = Doing::few;
        sync_block();
        continue;
      }
      step = step == Step::top_k ? Step::top_p : Step::draw;
      fresh = true;
    } else {
      bins = add_up(part, source.blocks, counts);
      if (source.whole) {
        each_block(source.blocks, &desk.first, [&](i32, u64 its) { first = its < first ? its : first; });
        each_block(source.blocks, &desk.last, [&](i32, u64 its) { last = its > last ? its : last; });
      }
      if (doing == Doing::all_bins) {
        if (first <= last) stretch.cut(first, last);
        whole = {bins, stretch, 0, 0, 0};
        fresh = true;
        each_block(source.blocks, reinterpret_cast<const u64*>(part.work) + kSpots, [&](i32, u64 its) { all += its; });
        if (apart && all < share_of(s.top_p, sums.total, false)) {
          *ok = false;
          return {-1, 0.0f};
        }
        left = all;
      } else if (divided.stretch.bin == kNoBin) {
        divided = {bins, stretch, shift, before, count_before};
      }
    }
    FoundBins found{};
    i32 place_of_found = 0;
    QUERN_ROLLED while (true) {
      if (fresh && place_of_found == 0) {
        if (step == Step::top_k && !counts) step = Step::top_p;
        by = step == Step::top_k ? By::count : By::weight;
        wanted = static_cast<u64>(s.top_k);
        if (step == Step::top_p) {
          wanted = share_of(s.top_p, alone ? sums.total : joint ? all : left, false);
          if (!(s.top_p < 1.0f) || (wanted >= left && !apart)) step = Step::draw;
        }
        if (step == Step::draw) by = By::weight, wanted = scale_to(wide(stream.of_row()), left) + 1;
        bins = whole.bins, before = 0, count_before = 0;
      }
      found = find_bin(found_bin + place_of_found, bins, by, wanted - (by == By::weight ? before : u64{count_before}));
      if (found.bin != kNoBin) {
        if (!fresh || found.bin != divided.stretch.bin) break;
        // It has been divided already.
        bins = divided.bins, stretch = divided.stretch, shift = divided.shift;
        before = divided.before, count_before = divided.count_before;
        fresh = false, place_of_found = 4;
        continue;
      }
      if (step == Step::draw) return {-1, 0.0f};
      step = step == Step::top_k ? Step::top_p : Step::draw;  // there are not so many
      sync_block();                                           // all know it
      fresh = true;
    }
    before += found.weight, count_before += found.count;
    if (fresh) {
      const Stretch& of_all = whole.stretch;
      stretch = Stretch::of_bin(scope, found.bin);
      stretch.cut(of_all.first, of_all.last);
    } else {
      const u64 from = stretch.first + (static_cast<u64>(found.bin) << shift);
      stretch.cut(from, from + ((u64{1} << shift) - 1));
      if (first <= last) stretch.cut(first, last);
    }
    doing = found.in <= static_cast<u32>(kSegment) ? Doing::list : Doing::bins;
    shift = stretch.shift();
  }
}

}  // namespace q
