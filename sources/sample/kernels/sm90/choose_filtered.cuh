// The choice among what filters leave.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sample/kernels/sm90/choose.cuh"
#include "sample/kernels/sm90/late.cuh"

namespace q {

// top_k, top_p and the draw are searches in the same order, each among what the one before has left. What the draw
// looks for is known but for what the token that crosses top_p adds to it: so both are looked for at once, and one
// after the other only where their bins have too many tokens. Few tokens are listed and done with at once.
enum class Step : i32 { whole, top_k, share, crossing, draw };
struct Filter {
  f32 top_p;
  f32 least;   // smaller logits are not there
  bool joint;  // top_p's share is of what top_k began with
  bool alone;  // top_p's share is of the row's sums,
  u64 of_row;  // these
  u64 random;  // what the draw is told by
};
// What bins tell.
struct Found {
  bool reaches;             // there is so much
  Step step;                // a share that takes nothing away becomes a draw
  u32 last;                 // the bin that what is wanted ends in
  u32 from, to;             // those that a draw may end in
  u64 before, before_draw;  // what comes before the one, and before the others
  u64 wanted, total;
};

// How far down to look at first: where top_p is alone, most of the weight will lie above that, and few of the tokens;
// so will the k largest tokens. The second attempt goes so far that what lies below weighs less than what top_p leaves
// out, but for rounding.
QUERN_DEVICE f32 bound_of(const Part& part, const RowSums& sums, const Filter& filter, int attempt) {
  f32 bound = sums.middle;
  if (filter.alone) {
    const f32 left_out = (1.0f - filter.top_p) * static_cast<f32>(filter.of_row) * (1.0f / kUnits);
    const f32 far = 0.5f - log2(left_out * rcp_approx(static_cast<f32>(part.vocab)));
    const f32 sure = sums.max - fmax(far, 0.5f) * rcp_approx(sums.scale);
    bound = attempt == 0 ? fmax(bound, sure) : sure;
  }
  return attempt < 2 && bound > filter.least ? bound : filter.least;
}

// Once all blocks have settled their bins: what is looked for, and in which bins it is. `before` lies before all that
// is in them. All threads; `told` has room for what the blocks tell.
QUERN_DEVICE Found find(const Part& part, const Filter& filter, Step step, u64 wanted, u64 joint, u64 before,
                        bool sieved, u64* told) {
  const Bins bins = Bins::of(part);
  const i32 blocks = part.blocks, at = lane() < kFine ? lane() : 0;
  QUERN_ROLLED for (i32 r = warp(); r < blocks; r += kWarps) {
    const u64 its = of_block(bins.coarse() + at, r);
    if (lane() < kFine) told[r * kFine + lane()] = its;
  }
  sync_block();
  const Line coarse(sum_of_told(part, told), before);
  Found found{};
  found.step = step, found.total = coarse.total();
  if (step == Step::whole) return found;
  if (step == Step::share) {
    wanted = share_of(filter.top_p, filter.alone ? filter.of_row : filter.joint ? joint : found.total, false);
    if (!(filter.top_p < 1.0f) || (wanted >= found.total && !sieved)) {
      found.step = Step::draw;
      wanted = place_on_line(filter.random, found.total) + 1;
    }
  }
  found.wanted = wanted;
  const bool both = found.step == Step::share;
  // What is drawn if top_p leaves no more than is wanted.
  const u64 drawn_least = both ? place_on_line(filter.random, wanted) + 1 : wanted;
  const u32 high = coarse.find(wanted), high_drawn = coarse.find(drawn_least);
  if (high == static_cast<u32>(kFine)) return found;
  found.reaches = true;
  u64 *const of_fine = told + blocks * kFine, *const of_drawn = of_fine + blocks * kFine;
  QUERN_ROLLED for (i32 pair = warp(); pair < (both ? 2 : 1) * blocks; pair += kWarps) {
    const bool second = pair >= blocks;
    const u32 first = (second ? high_drawn : high) * static_cast<u32>(kFine);
    const u64 its = of_block(bins.sums() + first + at, second ? pair - blocks : pair);
    if (lane() < kFine) of_fine[pair * kFine + lane()] = its;
  }
  sync_block();
  const Line fine(sum_of_told(part, of_fine), coarse.before(high));
  const u32 low = fine.find(wanted);
  found.last = high << kFineBits | low, found.before = fine.before(low);
  if (!both) return found;
  const Line drawn(sum_of_told(part, of_drawn), coarse.before(high_drawn));
  const u64 most = shuffle(fine.through, static_cast<int>(low));  // that top_p may leave
  const u32 first = drawn.find(drawn_least), last = drawn.find(place_on_line(filter.random, most) + 1);
  // What is drawn may lie in another coarse bin: one after the other, then.
  if (last == static_cast<u32>(kFine)) found.step = Step::crossing;
  found.from = high_drawn << kFineBits | first, found.to = high_drawn << kFineBits | last;
  found.before_draw = drawn.before(first);
  return found;
}

// All threads of all blocks; the same in each of them but for what it returns. *done becomes false where edits have
// waited in vain: some of the tokens that count are not among those that were edited, or there are too many.
QUERN_DEVICE OwnChoice choose_of_filtered(const SampleParams& p, const Part& part, const RowSums& sums,
                                          const Settings& s, f32 inverse_temperature, bool alone, u64 random,
                                          const Late& late, bool* done) {
  Desk& desk = *part.desk;
  const bool counts = s.top_k > 0 && s.top_k < p.vocab, joint = p.joint && counts && s.top_p < 1.0f;
  // -inf is no token.
  Filter filter{s.top_p, value_of(kDead + 1), joint, alone, sums.total(), random};
  if (s.min_p > 0.0f)
    filter.least = fmax(filter.least, fmin(sums.max + log(s.min_p) * rcp_approx(inverse_temperature), sums.max));
  f32 least = filter.least;
  enum class Doing : i32 { few, bins, list, range } doing = Doing::bins;
  if (!joint && ((counts && s.top_k <= p.chunks) || s.min_p > 0.0f)) {
    doing = Doing::few;
    // Of logits that have yet to be edited there are more, for some of them will not reach it then.
    i32 k = s.top_k;
    if (late.waits) {
      const i32 more = k + k / 3 + 4, most = 3 * p.chunks / 4;
      k = more < most ? more : most;
    }
    if (counts && s.top_k <= p.chunks) least = fmax(least, kth_top(part, static_cast<u32>(k), sums.max));
  }
  const Bins bins = Bins::of(part);
  u64* const told = bins.coarse() + kFine;
  Place* const lists = told;  // which are made when that has been read
  RowScope scope{sums.max, sums.scale, 0.0f, key_of(sums.max)};
  Step step = joint ? Step::whole : counts ? Step::top_k : Step::share;
  constexpr Stretch kNothing{1, 0, 0, 0};
  Stretch own = kAllThereIs;   // where the token is that top_k or top_p ends at, or that is drawn
  Stretch of_draw = kNothing;  // where the one is that is drawn with it
  u64 cut = ~u64{0};           // higher ranks have been taken away
  u64 wanted = static_cast<u64>(s.top_k), of_joint = 0, before = 0, before_draw = 0;
  int level = 0, shift = 0, attempt = alone && s.top_p > 0.95f ? 1 : 0;
  i32 held = -1;      // of the warp's tokens that have been set apart; there may be more than are still asked for
  bool fresh = true;  // bins and lists are empty
  QUERN_ROLLED while (true) {
    const bool plain = level <= (doing == Doing::bins ? 0 : 1) && doing != Doing::range && cut == ~u64{0};
    if (doing == Doing::bins) {
      if (level == 0) {
        if ((alone && step == Step::share) || step == Step::top_k) least = bound_of(part, sums, filter, attempt);
        // Beyond 41 powers of 2 a token weighs nothing.
        const f32 far = fmin((sums.max - least) * sums.scale, 41.0f);
        scope.per = (static_cast<f32>(kTopBins) - 1.0f) * rcp_approx((far > 0.0f ? far : 0.0f) + 0x1p-10f);
        own = kAllThereIs, before = 0;
      }
      if (!fresh) {
        sync_block();  // what lies there has been read
        bins.zero();
      }
    } else if (!fresh && doing != Doing::range && thread_index() < 2) {
      desk.listed[thread_index()] = 0;
    }
    if (!fresh) sync_block();
    fresh = false;
    u64 lowest = ~u64{0}, highest = 0;
    if (doing == Doing::bins && plain) {
      held = sieve_part(part, least);
      bin_part(part, scope, least, held, step == Step::top_k);
    } else {
      each_token(part, least, held, [&](bool here, f32 x, i32 local) {
        const i32 token = part.begin() + local;
        const f32 exponent = scope.exponent(x);
        const u32 bin = scope.bin_at(exponent);
        bool in_own = here && bin >= own.from && bin <= own.to;
        u64 rank = 0;
        if (!plain) {
          rank = scope.rank_of(x, token);
          in_own = in_own && rank <= cut && rank >= own.first && rank <= own.last;
        }
        if (doing == Doing::bins) {
          const u64 amount = !in_own ? u64{0} : step == Step::top_k ? u64{1} : to_units(exp2(exponent));
          bins.add_warp(level == 0 ? bin : static_cast<u32>((rank - own.first) >> shift), amount);
        } else if (doing == Doing::range) {
          if (in_own) lowest = rank < lowest ? rank : lowest, highest = rank > highest ? rank : highest;
        } else {
          const bool in_draw = here && bin >= of_draw.from && bin <= of_draw.to && rank <= cut;
          if (ballot(in_own || in_draw) == 0) return true;
          if (ballot(load_volatile(desk.listed) > static_cast<u32>(kSegment)) != 0) return false;  // too many
          Place place = place_of(x, token);
          if (late.waits && bit_at(part.prompt, local)) place = with_prompt(place);
          if (in_own) {
            const u32 number = atomic_add(desk.listed, 1u);
            if (number < static_cast<u32>(kSegment)) lists[number] = place;
          }
          if (in_draw) {
            const u32 number = atomic_add(desk.listed + 1, 1u);
            if (number < static_cast<u32>(kSegment)) lists[kSegment + number] = place;
          }
        }
        return true;
      });
    }
    if (doing == Doing::range) {
      lowest = reduce_min(part.room(), lowest), highest = reduce_max(part.room(), highest);
      if (thread_index() == 0) desk.first = lowest, desk.last = highest;
      sync_cluster_shared();
      own.first = ~u64{0}, own.last = 0;
      QUERN_ROLLED for (i32 r = 0; r < part.blocks; ++r) {
        lowest = of_block(&desk.first, r), highest = of_block(&desk.last, r);
        own.first = lowest < own.first ? lowest : own.first, own.last = highest > own.last ? highest : own.last;
      }
      const int bits = own.first < own.last ? 64 - static_cast<int>(leading_zeros(own.last - own.first)) : 1;
      shift = bits > kTopBits ? bits - kTopBits : 0;
      doing = Doing::bins;
      continue;
    }
    if (doing == Doing::bins) {
      sync_block();
      bins.settle();
      sync_cluster_shared();
      const Found found = find(part, filter, step, wanted, of_joint, before, alone && attempt < 2, told);
      if (!found.reaches) {
        sync_cluster_shared();  // all have read the bins
        level = 0;
        if (step == Step::whole) {
          of_joint = found.total, step = Step::top_k;
        } else if (attempt < 2 && (alone || step == Step::top_k)) {
          attempt = alone ? attempt + 1 : 2;
        } else if (step == Step::top_k) {
          step = Step::share;  // there are not so many
        } else {
          release();
          return {part.rank == 0, -1, 0.0f};
        }
        continue;
      }
      step = found.step, wanted = found.wanted, before = found.before, before_draw = found.before_draw;
      if (level == 0) {
        own = {found.last, found.last, 0, ~u64{0}};
        of_draw = step == Step::share ? Stretch{found.from, found.to, 0, ~u64{0}} : kNothing;
      } else {
        own.first += static_cast<u64>(found.last) << shift;
        const u64 last = own.first + ((u64{1} << shift) - 1);
        own.last = last < own.last ? last : own.last;
      }
      ++level;
      doing = Doing::list;
      continue;
    }
    sync_cluster_shared();
    // How many each block has listed, one a lane, and how many there are with those before it.
    const u64 listed = of_block(reinterpret_cast<const u64*>(desk.listed), lane() < part.blocks ? lane() : 0);
    const u32 numbers[2] = {lane() < part.blocks ? static_cast<u32>(listed) : 0u,
                            lane() < part.blocks ? static_cast<u32>(listed >> 32) : 0u};
    const u32 through[2] = {warp_scan(numbers[0]), warp_scan(numbers[1])};
    const i32 count = static_cast<i32>(shuffle(through[0], kWarp - 1)),
              drawn = static_cast<i32>(shuffle(through[1], kWarp - 1));
    if (late.waits && count > kSegment) {
      release();
      *done = false;
      return {false, -1, 0.0f};
    }
    if (count > kSegment || drawn > kSegment) {
      // Too many: one after the other then, and in smaller bins.
      if (doing == Doing::few) {
        sync_cluster_shared();  // all know it before the numbers are used again
        least = filter.least;
        doing = Doing::bins;
      } else {
        if (step == Step::share) step = Step::crossing, of_draw = kNothing;
        doing = Doing::range;
      }
      continue;
    }
    const bool final = doing == Doing::few || step == Step::share || step == Step::draw;
    if (final && part.rank != 0 && !late.waits) {
      release();
      return {false, -1, 0.0f};
    }
    // What was in bins has been read by all. A warp takes one block's list.
    Place* const places = reinterpret_cast<Place*>(part.work);
    u64* const weights = places + 2 * kSegment;
    QUERN_ROLLED for (i32 pair = warp(); pair < 2 * part.blocks; pair += kWarps) {
      const bool second = pair >= part.blocks;
      const i32 r = second ? pair - part.blocks : pair;
      const i32 its = static_cast<i32>(shuffle(second ? numbers[1] : numbers[0], r)),
                end = static_cast<i32>(shuffle(second ? through[1] : through[0], r)) + (second ? kSegment : 0);
      QUERN_ROLLED for (i32 i = lane(); i < its; i += kWarp) {
        const Place place = of_block(lists + (second ? kSegment : 0) + i, r);
        places[end - its + i] = place;
        if (late.waits) {
          late.seek(part, place, weights + (end - its + i));
        } else {
          weights[end - its + i] = scope.weigh(value_at(place));
        }
      }
    }
    if (final) release();
    if (thread_index() == 0) desk.tokens[0] = desk.tokens[2] = 0;
    sync_block();
    if (late.waits) {
      const u32 reach = late.settle(part, places, weights, count, least, &scope.max);
      *done = (reach >= static_cast<u32>(s.top_k) || least <= filter.least) && scope.max > -infinity();
      if (!*done || part.rank != 0) return {false, -1, 0.0f};
      if (thread_index() < count) weights[thread_index()] = scope.weigh(value_at(places[thread_index()]));
      sync_block();
    }
    // One list alone is for all threads; else the first half has the one, the second the other.
    constexpr i32 kHalf = kThreads / 2;
    static_assert(!kFilters || (kHalf % kWarp == 0 && kHalf >= kSegment));
    const bool second = drawn != 0 && thread_index() >= kHalf;
    const i32 offset = second ? kSegment : 0;
    const Ranked ranked = rank_listed(places + offset, weights + offset, second ? drawn : count,
                                      second ? thread_index() - kHalf : thread_index(), drawn != 0 ? kHalf : kThreads);
    if (doing == Doing::few) {
      const Choice choice = choose_of_few(part, ranked, s, count, random);
      return {true, choice.id, choice.x};
    }
    // The token that what is looked for ends at, and what there is up to it.
    const u64 above = before + (step == Step::top_k ? u64{ranked.rank} : ranked.before);
    const u64 reached = above + (step == Step::top_k ? u64{1} : ranked.weight);
    if (!second && ranked.there && above < wanted && wanted <= reached)
      desk.tokens[0] = ranked.place, desk.tokens[1] = reached;
    sync_block();
    const Place found = desk.tokens[0];
    const u64 left = desk.tokens[1];
    if (step == Step::share) {
      const u64 target = place_on_line(random, left), its = before_draw + ranked.before;
      if (second && ranked.there && its <= target && target < its + ranked.weight) desk.tokens[2] = ranked.place;
      sync_block();
      const Place chosen = desk.tokens[2];
      return {true, chosen == 0 ? -1 : index_at(chosen), value_at(chosen)};
    }
    if (step == Step::draw) return {true, found == 0 ? -1 : index_at(found), value_at(found)};
    cut = scope.rank_of(value_at(found), index_at(found)), least = value_at(found);
    if (step == Step::top_k) {
      step = Step::share;
    } else {
      step = Step::draw, wanted = place_on_line(random, left) + 1;
    }
    level = 0, of_draw = kNothing;
    doing = Doing::bins;
  }
}

}  // namespace q
