// What a cluster does once its blocks know each other's chunks: the choice. Each function is called by all threads of
// all blocks and takes the same way in each of them; where it returns an OwnChoice, one block alone has it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sample/kernels/sm90/search.cuh"

namespace q {

struct OwnChoice {
  bool mine;  // this block has it
  i32 id;
  f32 x;  // its logit
};

// One of this block's chunks, a token for each thread and step, in order: f(token, logit). Without what lists name if
// `unlisted`.
inline constexpr i32 kOwnTokens = kChunk / kThreads;
QUERN_DEVICE f32 logit_of(const Part& part, const Row& row, i32 token, bool unlisted) {
  if constexpr (kKeeps) {
    const i32 local = token - part.begin();
    return unlisted && part.lists() && bit_at(part.marks, local) ? -infinity() : part.slice[local];
  } else {
    return token < part.vocab ? fmax(to_f32(row.logits[token]), -infinity()) : -infinity();
  }
}

// The lowest token with the largest logit.
QUERN_DEVICE OwnChoice choose_largest(const Part& part, const Row& row, f32 max) {
  release();
  u32 chunk = ~0u;
  QUERN_ROLLED for (i32 c = lane(); c < part.all; c += kWarp) {
    if (chunk == ~0u && part.top_of(c) == max) chunk = static_cast<u32>(c);
  }
  const i32 its = static_cast<i32>(warp_min(chunk));
  if (warp() != 0 || its < part.first || its >= part.first + part.chunks) return {false, -1, 0.0f};
  u32 best = ~0u;
  QUERN_ROLLED for (i32 from = its * kChunk; from < (its + 1) * kChunk && warp_min(best) == ~0u; from += 8 * kWarp) {
    f32 x[8];
    QUERN_UNROLL for (int j = 0; j < 8; ++j) x[j] = logit_of(part, row, from + j * kWarp + lane(), false);
    QUERN_UNROLL for (int j = 7; j >= 0; --j) best = x[j] == max ? static_cast<u32>(from + j * kWarp + lane()) : best;
  }
  return {true, static_cast<i32>(warp_min(best)), max};
}

// Of the whole row, by the sums over its chunks: the chunk, then the token.
QUERN_DEVICE OwnChoice choose_of_row(const Part& part, const Row& row, const RowSums& sums, const Stream& stream,
                                     u64 random) {
  const Room room = part.room();
  const u64 target = scale_to(random, sums.total());
  if (kEdits && target >= sums.of_chunks) {
    u64 best = ~u64{0};
    QUERN_ROLLED for (i32 r = 0; r < part.blocks; ++r) {
      const u64 its = of_block(&part.desk->race, r);
      best = its < best ? its : best;
    }
    release();
    const i32 id = best == ~u64{0} ? -1 : static_cast<i32>(static_cast<u32>(best));
    const bool mine = id < 0 ? part.rank == 0 : part.owns(id);
    return {mine, id, mine && id >= 0 ? logit_of(part, row, id, false) : 0.0f};
  }
  release();
  const i32 chunk = find_on_line(room.scratch, part.all, target, part.weights);
  if (chunk < part.first || chunk >= part.first + part.chunks) return {false, -1, 0.0f};
  const f32 top = part.notes[chunk].max;
  u64 weight[kOwnTokens], own = 0;
  const i32 from = chunk * kChunk + thread_index() * kOwnTokens;
  QUERN_UNROLL for (int j = 0; j < kOwnTokens; ++j) {
    weight[j] = to_units(share_of_largest(top, logit_of(part, row, from + j, true), sums.scale));
    own += weight[j];
  }
  u64 before = sum_before(room.scratch, own);
  const u64 within = scale_to(wide(stream.at(kWithinChunk)), room.scratch[kThreads / kWarp]);
  u32 found = 0;
  QUERN_UNROLL for (int j = 0; j < kOwnTokens; ++j) {
    if (before <= within && within < before + weight[j]) found = static_cast<u32>(from + j) + 1;
    before += weight[j];
  }
  sync_block();
  const i32 id = static_cast<i32>(reduce_max(room, found)) - 1;
  return {true, id, id >= 0 ? logit_of(part, row, id, false) : 0.0f};
}

// The k-th largest of the chunks' largest logits, as a key: k tokens or more lie no lower. k is at most their number.
QUERN_DEVICE u32 key_of_kth_top(const Part& part, u32 k) {
  u32* const keys = reinterpret_cast<u32*>(part.weights);  // which are not needed then
  QUERN_ROLLED for (i32 c = thread_index(); c < (part.all + 3) / 4 * 4; c += kThreads) {
    keys[c] = c < part.all ? key_of(part.top_of(c)) : 0;
  }
  if (thread_index() == 0) part.desk->kth = 0;
  sync_block();
  u32 found = 0;
  // Four lanes next to each other compare one key, each a fourth of all.
  constexpr i32 kSharers = 4, kKeys = kWarp / kSharers;
  QUERN_ROLLED for (i32 base = warp() * kKeys; base < part.all; base += kThreads / kSharers) {
    const i32 c = base + lane() / kSharers;
    const u32 own = c < part.all ? keys[c] : ~u32{0};
    u32 no_lower = 0;
    QUERN_FOUR_AT_ONCE for (i32 j = 4 * (lane() & (kSharers - 1)); j < part.all; j += 4 * kSharers) {
      const vec16 four = load16(keys + j);
      QUERN_UNROLL for (int e = 0; e < 4; ++e) no_lower += four.x[e] >= own ? 1u : 0u;
    }
    no_lower += shuffle_xor(no_lower, 1), no_lower += shuffle_xor(no_lower, 2);
    const u32 largest = warp_max(no_lower >= k && own != ~u32{0} ? own : 0u);
    found = largest > found ? largest : found;
  }
  if (lane() == 0 && found != 0) atomic_max(&part.desk->kth, found);
  sync_block();
  return part.desk->kth;
}

// ---- What filters leave
// top_k, top_p and the draw are searches in the same order, each among what the one before has left. What the draw
// looks for is known but for what the token that crosses top_p adds to it: so both are looked for at once, and one
// after the other only where their bins have too many tokens. Few tokens are listed and done with at once.
enum class Step : i32 { whole, top_k, share, crossing, draw };
struct Filter {
  f32 top_p;
  f32 least;  // smaller logits are not there
  f32 inverse_temperature;
  bool joint;  // top_p's share is of what top_k began with
  bool alone;  // top_p's share is of the row's sums
  u64 random;  // what the draw is told by
};

// How far down top_p may reach where it is alone, first by a guess: most of the weight will lie above that, and few of
// the tokens. Then so far that what lies below weighs less than what top_p leaves out, but for rounding.
QUERN_DEVICE f32 bound_of_share(const Part& part, const RowSums& sums, const Filter& filter, int attempt) {
  f32 bound = sums.middle;
  if (attempt == 1) {
    const u64 units = weight_of_chunks(part, sums.max, filter.inverse_temperature) + sums.of_listed;
    const f32 left_out = (1.0f - filter.top_p) * static_cast<f32>(units) * (1.0f / kUnits);
    const f32 far = 0.5f - log2(left_out * rcp_approx(static_cast<f32>(part.vocab)));
    bound = sums.max - fmax(far, 0.5f) * rcp_approx(sums.scale);
  }
  return attempt < 2 && bound > filter.least ? bound : filter.least;
}

// One warp's work once the bins are complete: what is looked for, and in which bins it is. `before` lies before all
// that is in them. Where there is not so much, `reaches` is false.
QUERN_DEVICE Found find(const Part& part, const RowSums& sums, const Filter& filter, Step step, u64 wanted, u64 joint,
                        u64 before, bool sieved) {
  const u64 of_lane = sum_of_blocks(part, Bins::of(part).coarse() + (lane() < kFine ? lane() : 0));
  const u64 of_coarse = lane() < kFine ? of_lane : u64{0};
  Found found{};
  found.total = before + warp_sum(of_coarse);
  if (step == Step::whole) return found;
  bool both = step == Step::share;
  if (both) {
    u64 of = filter.joint ? joint : found.total;
    if (filter.alone) of = weight_of_chunks(part, sums.max, filter.inverse_temperature) + sums.of_listed;
    wanted = share_of(filter.top_p, of, false);
    if (!(filter.top_p < 1.0f) || (wanted >= found.total && !sieved)) {
      step = Step::draw, both = false;
      wanted = scale_to(filter.random, found.total) + 1;
    }
  }
  found.step = static_cast<i32>(step), found.wanted = wanted;
  // What is drawn if top_p leaves no more than is wanted.
  const u64 least_drawn = both ? scale_to(filter.random, wanted) + 1 : wanted;
  const Line coarse(of_coarse, before);
  const u32 high = coarse.find(wanted), high_drawn = coarse.find(least_drawn);
  if (high == static_cast<u32>(kFine)) return found;
  const u64 of_fine = sum_of_fine(part, high), of_drawn = sum_of_fine(part, high_drawn);
  const Line fine(of_fine, coarse.before(high)), drawn(of_drawn, coarse.before(high_drawn));
  const u32 low = fine.find(wanted), first = drawn.find(least_drawn);
  const u64 most = shuffle(fine.through, static_cast<int>(low));  // that top_p may leave
  const u32 last = drawn.find(scale_to(filter.random, most) + 1);
  // What is drawn may lie in another coarse bin: one after the other, then.
  if (both && last == static_cast<u32>(kFine)) found.step = static_cast<i32>(Step::crossing);
  found.reaches = true;
  found.last = high << kFineBits | low, found.before_last = fine.before(low);
  found.from = high_drawn << kFineBits | first, found.to = high_drawn << kFineBits | last;
  found.before_draw = drawn.before(first);
  return found;
}

// All threads of all blocks; the same in each of them but for what it returns.
QUERN_DEVICE OwnChoice choose_of_filtered(const SampleParams& p, const Part& part, const RowSums& sums,
                                          const Settings& s, f32 inverse_temperature, bool alone, u64 random) {
  Desk& desk = *part.desk;
  const bool counts = s.top_k > 0 && s.top_k < p.vocab, joint = p.joint && counts && s.top_p < 1.0f;
  // -inf is no token.
  Filter filter{s.top_p, value_of(kDead + 1), inverse_temperature, joint, alone, random};
  if (s.min_p > 0.0f)
    filter.least = fmax(filter.least, fmin(sums.max + log(s.min_p) * rcp_approx(inverse_temperature), sums.max));
  f32 least = filter.least;
  enum class Doing : i32 { few, bins, list, range } doing = Doing::bins;
  if (!joint && ((counts && s.top_k <= p.chunks) || s.min_p > 0.0f)) {
    doing = Doing::few;
    if (counts && s.top_k <= p.chunks) least = fmax(least, value_of(key_of_kth_top(part, static_cast<u32>(s.top_k))));
  }
  const Bins bins = Bins::of(part);
  Place* const lists = bins.coarse() + kFine;
  Scope scope{sums.max, sums.scale, 0.0f, key_of(sums.max)};
  Step step = joint ? Step::whole : counts ? Step::top_k : Step::share;
  Stretch own = kAllThereIs;    // where the token is that top_k or top_p ends at, or that is drawn
  Stretch of_draw{1, 0, 0, 0};  // where the one is that is drawn with it; none
  u64 cut = ~u64{0};            // higher ranks have been taken away
  u64 wanted = static_cast<u64>(s.top_k), of_joint = 0, before = 0;
  int level = 0, shift = 0, attempt = !alone ? 2 : s.top_p <= 0.95f ? 0 : 1;
  bool fresh = true;  // bins and lists are empty
  QUERN_ROLLED while (true) {
    if (doing == Doing::bins) {
      if (level == 0) {
        if (alone && step == Step::share) least = bound_of_share(part, sums, filter, attempt);
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
    each_above(part, least, [&](bool here, f32 x, i32 local) {
      const i32 token = part.begin() + local;
      const f32 exponent = scope.exponent(x);
      const u32 bin = scope.bin_at(exponent);
      const u64 rank = scope.rank_of(x, token);
      here = here && rank <= cut;
      const bool in_own = here && own.has(bin, rank);
      if (doing == Doing::bins) {
        const u64 amount = !in_own ? u64{0} : step == Step::top_k ? u64{1} : to_units(exp2(exponent));
        bins.add_warp(level == 0 ? bin : static_cast<u32>((rank - own.first) >> shift), amount);
      } else if (doing == Doing::range) {
        if (in_own) lowest = rank < lowest ? rank : lowest, highest = rank > highest ? rank : highest;
      } else {
        if (ballot(load_volatile(desk.listed) > static_cast<u32>(kSegment)) != 0) return false;  // too many
        const bool in_draw = here && of_draw.has(bin, rank);
        const Place place = place_of(x, token);
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
    if (doing == Doing::range) {
      lowest = reduce_min(part.room(), lowest), highest = reduce_max(part.room(), highest);
      if (thread_index() == 0) desk.first = lowest, desk.last = highest;
      sync_cluster_shared();
      own.first = ~u64{0}, own.last = 0;
      each_block(part, &desk.first, [&](i32, u64 its) { own.first = its < own.first ? its : own.first; });
      each_block(part, &desk.last, [&](i32, u64 its) { own.last = its > own.last ? its : own.last; });
      const int bits = own.first < own.last ? 64 - static_cast<int>(leading_zeros(own.last - own.first)) : 1;
      shift = bits > kTopBits ? bits - kTopBits : 0;
      doing = Doing::bins;
      continue;
    }
    if (doing == Doing::bins) {
      sync_block();
      bins.settle();
      sync_cluster_shared();
      if (warp() == 0) {
        const Found found = find(part, sums, filter, step, wanted, of_joint, before, attempt < 2);
        if (lane() == 0) desk.found = found;
      }
      sync_block();
      const Found& found = desk.found;
      const bool reaches = found.reaches;
      if (step == Step::whole || !reaches) {
        sync_cluster_shared();  // all have read the bins
        if (step == Step::draw || (step == Step::share && attempt >= 2)) {
          release();
          return {part.rank == 0, -1, 0.0f};
        }
        if (step == Step::whole) {
          of_joint = found.total, step = Step::top_k;
        } else if (step == Step::top_k) {
          step = Step::share;  // there are not so many
        } else {
          ++attempt, step = Step::share;
        }
        level = 0;
        continue;
      }
      step = static_cast<Step>(found.step), wanted = found.wanted, before = found.before_last;
      if (level == 0) {
        own = {found.last, found.last, 0, ~u64{0}};
        of_draw = {found.from, step == Step::share ? found.to : 0, 0, ~u64{0}};
        if (step != Step::share) of_draw.from = 1;
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
    // The first half of the threads has the one list, the second the other: this thread the i-th token of block `from`.
    constexpr i32 kHalf = kThreads / 2;
    static_assert(!kFilters || (kHalf % kWarp == 0 && kHalf >= kSegment));
    const i32 which = thread_index() / kHalf, t = thread_index() - which * kHalf;
    i32 number[2] = {0, 0}, i = t, from = -1;
    const u64 numbers = of_block(reinterpret_cast<const u64*>(desk.listed), lane() < part.blocks ? lane() : 0);
    QUERN_ROLLED for (i32 r = 0; r < part.blocks; ++r) {
      const u64 both = shuffle(numbers, r);
      const i32 its = static_cast<i32>(both), other = static_cast<i32>(both >> 32), mine = which == 0 ? its : other;
      from = from < 0 && i < mine ? r : from;
      i -= from < 0 ? mine : 0;
      number[0] += its, number[1] += other;
    }
    if (number[0] > kSegment || number[1] > kSegment) {
      // Too many: one after the other then, and in smaller bins.
      if (step == Step::share && doing == Doing::list) step = Step::crossing, of_draw = {1, 0, 0, 0};
      if (doing == Doing::few) {
        sync_cluster_shared();  // all know it before the numbers are used again
        least = filter.least;
        doing = Doing::bins;
      } else {
        doing = Doing::range;
      }
      continue;
    }
    const bool final = doing == Doing::few || step == Step::share || step == Step::draw;
    if (final && part.rank != 0) {
      release();
      return {false, -1, 0.0f};
    }
    // What was in bins has been read by all.
    Place* const places = reinterpret_cast<Place*>(part.work) + which * 2 * kSegment;
    u64* const weights = places + kSegment;
    if (from >= 0) {
      const Place place = of_block(lists + which * kSegment + i, from);
      places[t] = place;
      weights[t] = scope.weigh(value_at(place));
    }
    if (final) release();
    if (thread_index() == 0) desk.tokens[0] = desk.tokens[2] = 0;
    sync_block();
    // One list alone is for all threads.
    const bool one = number[1] == 0;
    const Ranked ranked = one ? rank_listed(places - which * 2 * kSegment, weights - which * 2 * kSegment, number[0],
                                            thread_index(), kThreads)
                              : rank_listed(places, weights, which == 0 ? number[0] : number[1], t, kHalf);
    if (doing == Doing::few) {
      const Choice choice = choose_of_few(part, ranked, s, number[0], random);
      return {true, choice.id, choice.x};
    }
    // The token that what is looked for ends at, and what there is up to it.
    const u64 above = before + (step == Step::top_k ? u64{ranked.rank} : ranked.before);
    const u64 through = above + (step == Step::top_k ? u64{1} : ranked.weight);
    if ((one || which == 0) && ranked.there && above < wanted && wanted <= through)
      desk.tokens[0] = ranked.place, desk.tokens[1] = through;
    sync_block();
    const Place found = desk.tokens[0];
    const u64 left = desk.tokens[1];
    if (step == Step::share) {
      const u64 target = scale_to(filter.random, left), its = desk.found.before_draw + ranked.before;
      if (which == 1 && ranked.there && its <= target && target < its + ranked.weight) desk.tokens[2] = ranked.place;
      sync_block();
      const Place drawn = desk.tokens[2];
      return {true, drawn == 0 ? -1 : index_at(drawn), value_at(drawn)};
    }
    if (step == Step::draw) return {true, found == 0 ? -1 : index_at(found), value_at(found)};
    cut = scope.rank_of(value_at(found), index_at(found));
    if (step == Step::top_k) {
      step = Step::share;
    } else {
      step = Step::draw, wanted = scale_to(filter.random, left) + 1;
    }
    level = 0, of_draw = {1, 0, 0, 0};
    doing = Doing::bins;
  }
}

}  // namespace q
