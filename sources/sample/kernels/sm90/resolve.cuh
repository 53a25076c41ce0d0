// The choice in a row whose candidates were not enough: rows whose distribution is flat, and counts or shares that
// reach far down. Two passes over the row, by all blocks of its cluster.
//
// The first counts tokens by fine bins of their logits; these tell, nearly, where top_k, top_p and the draw end. The
// second adds up exactly what lies above, and lists the tokens of those bins, among which each end is then exact. Where
// they are too many for the list, but all of one logit, it is the numbers of them in each chunk that tell. Else two
// more passes look closer, at the logits of those bins alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sample/kernels/sm90/fine.cuh"
#include "sample/kernels/sm90/pick.cuh"
#include "sample/kernels/sm90/settle.cuh"

namespace q {

// Of the tokens with logit x the nth in order of ids, from the numbers in each chunk that are a step's; in the first
// block. -1: there is none.
QUERN_DEVICE i32 find_alike(const Resolve& r, f32 x, u64 nth, Step step) {
  const Part& part = r.part;
  u64* const numbers = reinterpret_cast<u64*>(part.work);
  sync_block();
  QUERN_ROLLED for (i32 c = thread_index(); c < part.all; c += kThreads) {
    numbers[c] = of_block(part.stats + c, c / r.p.chunks_per_block) >> (16 * static_cast<int>(step)) & 0xffffu;
  }
  sync_block();
  u64* const scratch = part.desk->scratch;
  const i32 chunk = find_on_line(scratch, part.all, nth, numbers);
  if (chunk < 0) return -1;
  u64 before = 0;
  QUERN_ROLLED for (i32 c = thread_index(); c < chunk; c += kThreads) before += numbers[c];
  const u64 within = nth - reduce_sum(part.room(), before);
  constexpr i32 kOwn = kChunk / kThreads;
  const i32 from = chunk * kChunk + thread_index() * kOwn, block = chunk / r.p.chunks_per_block;
  u32 own = 0;
  QUERN_ROLLED for (int j = 0; j < kOwn; ++j) {
    const i32 token = from + j, local = token - block * r.p.chunks_per_block * kChunk;
    if (token >= r.p.vocab) break;
    const bool out = part.names() && (of_block(part.named.marks + (local >> 5), block) >> (local & 31) & 1) != 0;
    if ((out ? value_of_named(part, r.p.chunks_per_block, token) : edited(r.row, token)) == x) own |= 1u << j;
  }
  u64 at = sum_before(scratch, static_cast<u64>(popcount(own)));
  i32 found = -1;
  QUERN_ROLLED for (int j = 0; j < kOwn; ++j) {
    if ((own >> j & 1) != 0 && at++ == within) found = from + j;
  }
  return static_cast<i32>(reduce_max(part.room(), static_cast<u32>(found + 1))) - 1;
}

// Where so many guesses have not found an end, what may be it is halved each time, by the bits of its logits.
inline constexpr i32 kGuesses = 6;

// The bands in which the steps from found.open on end, nearly, by the fine bins of all blocks.
QUERN_DEVICE void find_bands(const Resolve& r, Found* of_desk, const Fine& fine, Band (&bands)[kSteps]) {
  const Found found = *of_desk;
  const Part& part = r.part;
  Desk& desk = *part.desk;
  const Scope scope = r.scope();
  constexpr i32 kOwn = kFine / kThreads;
  const u32* const counts = reinterpret_cast<const u32*>(part.candidates);
  u32* const of_row = reinterpret_cast<u32*>(part.candidates) + kFine;
  const i32 from = thread_index() * kOwn;
  QUERN_ROLLED for (i32 i = 0; i < kOwn; ++i) {
    const i32 bin = i * kThreads + thread_index();
    u32 number = 0;
    QUERN_ROLLED for (i32 b = 0; b < part.blocks; ++b) number += of_block(counts + bin, b);
    of_row[bin] = number;
  }
  sync_block();
  const auto weigh = [&](i32 i) {
    const u32 number = of_row[from + i];
    return number != 0 ? scope.weigh(fine.middle(from + i)) * number : u64{0};
  };
  u64 sum = 0;
  u32 number = 0;
  QUERN_ROLLED for (i32 i = 0; i < kOwn; ++i) sum += weigh(i), number += of_row[from + i];
  const u64 before = sum_before(desk.scratch, sum) + found.above;
  const u64 all = found.exact ? found.all : desk.scratch[kThreads / kWarp];
  const u32 count_before = static_cast<u32>(sum_before(desk.scratch, number) + found.count_above);
  const u64 number_of_all = desk.scratch[kThreads / kWarp] + found.count_above;
  const bool cuts = found.exact ? found.cuts : r.counts() && static_cast<u64>(r.s.top_k) < number_of_all;
  if (!found.exact && thread_index() == 0) of_desk->cuts = cuts;
  // Half a bin, as a share: of sums, and again where what they are compared with is such a sum. In a bin logits lie
  // here and there, so that sums are nearly right, and an eighth does. Where that was not enough, bands are of one bin:
  // the end is in it, or it is known on which side it is.
  const f32 half = fmin(0.0625f * fine.inverse * (1.0f / fine.pre) * r.sums.scale, 1.0f) + 0x1p-16f;
  u64 left = found.exact ? found.left : all;
  f32 slack = found.exact || r.alone ? half : 2.0f * half;
  u64 one = 0;  // the token at which top_p ends
  u64* const ends = desk.bins[0];
  QUERN_ROLLED for (int step = static_cast<int>(found.open); step < kSteps; ++step) {
    const bool by_count = step == static_cast<int>(Step::top_k);
    u64 target = static_cast<u64>(r.s.top_k), off = 0;
    if (by_count) {
      if (!cuts) target = 0;
    } else {
      target = r.target(static_cast<Step>(step), left, all);
      if (!found.exact) off = static_cast<u64>(slack * static_cast<f32>(target)) + 1 + one;
    }
    if (target != 0) {
      // It is known that the first one's end is between the two: where sums of the bins' middles do not reach it, as
      // where many tokens lie at one end of a bin, that is halved.
      const bool sure = found.exact && step == static_cast<int>(found.open);
      if (thread_index() == 0) {
        ends[0] = ends[1] = sure ? kFine / 2 : fine.floor > fine.low ? kFine - 1 : kFine - 2;
        ends[2] = left;
      }
      sync_block();
      const u64 first = target > off ? target - off : u64{1}, last = target + off;
      u64 at = by_count ? u64{count_before} : before, weight_at = before;
      QUERN_ROLLED for (i32 i = 0; i < kOwn; ++i) {
        const u64 weight = weigh(i), in = by_count ? u64{of_row[from + i]} : weight;
        if (at < first && first <= at + in) ends[0] = static_cast<u64>(from + i);
        if (at < last && last <= at + in) {
          ends[1] = static_cast<u64>(from + i);
          if (by_count) ends[2] = weight_at + weight / in * (last - at);
        }
        at += in, weight_at += weight;
      }
      sync_block();
      Band band = Band::of(fine, static_cast<u32>(ends[0]), static_cast<u32>(ends[1]));
      if (sure && found.levels >= kGuesses) {
        const u32 from = key_of(found.low), to = key_of(found.high);
        band.low = band.high = value_of(from + (to - from) / 2);
      }
      QUERN_UNROLL for (int b = 0; b < kSteps; ++b) {
        if (b == step) bands[b] = band;
      }
      if (!by_count) slack += half, one = scope.weigh(band.high);
      left = by_count ? ends[2] : target;
      sync_block();
    }
  }
}

// In the first block, of `held` candidates those from `from` to `to`: the one at which their number or the sum of their
// weights is what is wanted.
QUERN_DEVICE PickedToken pick_in(const Resolve& r, i32 held, u64 wanted, bool by_count, f32 from, f32 to) {
  const Part& part = r.part;
  sync_block();
  if (thread_index() == 0)
    part.desk->asked = {held,         0, -infinity(), 0, wanted, by_count, from, to, r.sums.max,
                        r.sums.scale, 0, 1.0f,        0, false,  r.random};
  sync_block();
  return pick(part.desk, part.candidates, part.work, part.spots, r.p.vocab);
}

// In the first block: the ends of the steps from found->open on, as far as they can be told; where one cannot, where to
// look closer. All threads.
QUERN_DEVICE void find_ends(const Resolve& r, const Band (&ranges)[kSteps], const BandSums (&bands)[kSteps], u64 all,
                            i32 held, Found* found) {
  const Scope scope = r.scope();
  u64 left = found->exact ? found->left : all;
  QUERN_ROLLED for (int step = static_cast<int>(found->open); step < kSteps; ++step) {
    BandSums band = bands[0];
    Band range = ranges[0];
    QUERN_UNROLL for (int b = 1; b < kSteps; ++b) {
      band = b == step ? bands[b] : band, range = b == step ? ranges[b] : range;
    }
    const bool by_count = step == static_cast<int>(Step::top_k);
    const u64 target = !by_count     ? r.target(static_cast<Step>(step), left, all)
                       : found->cuts ? static_cast<u64>(r.s.top_k)
                                     : u64{0};
    if (target == 0) continue;
    const u64 above = by_count ? u64{band.count_above} : band.above;
    const bool within = target > above && (by_count || target <= above + band.inside) && band.least <= band.most;
    bool ok = within;
    u64 through = 0;
    if (ok && held >= 0) {
      const PickedToken token = pick_in(r, held, target - above, by_count, band.least, band.most);
      ok = token.picked == Picked::done;
      found->choice = token.choice, through = band.above + token.left;
    } else if (ok) {
      const u64 weight = scope.weigh(band.most);
      ok = band.least == band.most && (by_count || weight != 0);
      if (ok) {
        const u64 nth = by_count ? target - above - 1 : (target - above - 1) / weight;
        if (step == static_cast<int>(Step::draw))
          found->choice = {find_alike(r, band.most, nth, static_cast<Step>(step)), band.most};
        through = band.above + (nth + 1) * weight;
      }
    }
    sync_block();
    if (!ok) {
      // What the steps before have left is exact now. The end is within the band, or on one side of it.
      ++found->levels;
      if (static_cast<int>(found->open) != step) {
        found->low = r.lowest, found->high = r.sums.max, found->above = found->count_above = 0;
        found->levels = 0;
      }
      found->open = static_cast<Step>(step), found->left = left, found->all = all, found->exact = true;
      if (within) {
        found->low = band.least, found->high = band.most, found->above = band.above;
        found->count_above = by_count ? u64{band.count_above} : u64{0};
      } else if (!(range.low <= range.high)) {
        // It was taken for a step that takes nothing away.
      } else if (target <= above) {
        found->low = value_of(key_of(range.high) + 1);
      } else {
        found->high = value_of(key_of(range.low) - 1), found->above = band.above + band.inside;
      }
      return;
    }
    left = through;
  }
  found->done = true;
}

QUERN_CALLED void sync_all(i32 blocks) { sync_blocks(blocks); }

// All threads of the row's blocks. In a function of its own, all by value: few rows need it, and the others' registers
// and stack are not to depend on it. The choice is the first block's.
struct Resolved {
  Choice choice;
  f32 max;  // the row's largest logit; -inf: there is nothing in it
};
QUERN_CALLED Resolved resolve_row(const SampleParams& p, Row row, Part part, RowSums sums, Settings s, f32 least,
                                  bool alone, bool late, u64 random) {
  part.candidates = in_shared(part.candidates), part.stats = in_shared(part.stats), part.work = in_shared(part.work);
  part.spots = in_shared(part.spots);
  part.named = part.named.there(), part.desk = in_shared(part.desk);
  Desk& desk = *part.desk;
  Found* const found = &desk.found;
  Resolve r{p, row, part, sums, s, -infinity(), alone, random};
  f32 floor = 0.0f;
  if (thread_index() == 0) *found = {Step::top_k, false, false, false, 0.0f, 0.0f, 0, 0, 0, 0, 0, {-1, 0.0f}};
  // Each time the logits that are looked at are fewer by three orders of magnitude, or half of what may be a step's end
  // is known not to be: that takes as many times as logits have bits. Where edits wait, the largest logit is looked for
  // before that.
  constexpr int kMostLevels = kSteps * (kGuesses + 34);
  QUERN_ROLLED for (int level = late ? -1 : 0; level < kMostLevels; ++level) {
    if (level == 0) {
      if (!(sums.max > -infinity())) return {{-1, 0.0f}, sums.max};
      // Below it nothing weighs, or too little to be within top_p.
      f32 powers = 41.0f;
      if (alone) powers = fmin(powers, 1.5f - log2((1.0f - s.top_p) * rcp_approx(static_cast<f32>(p.vocab))));
      r.lowest = fmax(fmax(least, sums.max - powers * rcp_approx(sums.scale)), value_of(kDead + 1));
      // How wide it is: the least of a few tokens, and somewhat more.
      f32 bottom = sums.max;
      const i32 one = part.first * kChunk + thread_index();
      if (thread_index() < part.chunks * kChunk && one < p.vocab) {
        const f32 x = edited(row, one);
        bottom = x >= r.lowest ? fmin(bottom, x) : bottom;
      }
      u32 low = reduce_min(part.room(), key_of(bottom));
      if (thread_index() == 0) desk.top = low;
      sync_all(part.blocks);
      each_block(part.blocks, &desk.top, [&](i32, u32 its) { low = its < low ? its : low; });
      floor = fmax(r.lowest, sums.max - 1.5f * (sums.max - value_of(low)));
      if (thread_index() == 0)
        *found = {Step::top_k, false, false, false, r.lowest, sums.max, 0, 0, 0, 0, 0, {-1, 0.0f}};
    }
    bins_zero<kThreads>(reinterpret_cast<u32*>(part.candidates), kFine);
    QUERN_ROLLED for (i32 c = thread_index(); c < part.all; c += kThreads) part.stats[c] = 0;
    if (thread_index() == 0) desk.held = 0;
    sync_block();
    const Fine fine = Fine::over(found->low, found->high, found->low == r.lowest ? floor : found->low);
    Band bands[kSteps] = {Band::none(), Band::none(), Band::none()};
    BandSums own[kSteps];
    QUERN_UNROLL for (int b = 0; b < kSteps; ++b) own[b] = {0, 0, 0, infinity(), -infinity()};
    u64 all = 0;
    sync_all(part.blocks);
    QUERN_ROLLED for (Pass pass = level < 0 ? Pass::largest : Pass::count;; pass = Pass::bands) {
      read_again(r, pass, fine, bands, own, &all);
      sync_all(part.blocks);
      if (pass != Pass::count) break;
      find_bands(r, found, fine, bands);
      sync_all(part.blocks);  // all have read the bins
    }
    if (level < 0) {
      const u32 largest = reduce_max(part.room(), key_of(own[0].most));
      if (thread_index() == 0) desk.top = largest;
      sync_all(part.blocks);
      sums.max = largest_of_row(part);
      sync_all(part.blocks);  // all have read what is on the desks
      continue;
    }
    // What the block knows of each band, in four numbers; then the row's.
    u64* const told = desk.few;
    QUERN_UNROLL for (int b = 0; b < kSteps; ++b) {
      const u64 above = reduce_sum(part.room(), own[b].above), inside = reduce_sum(part.room(), own[b].inside);
      const u32 count = reduce_sum(part.room(), own[b].count_above);
      const u32 from = reduce_min(part.room(), key_of(own[b].least)), to = reduce_max(part.room(), key_of(own[b].most));
      if (thread_index() == 0)
        told[4 * b] = above, told[4 * b + 1] = inside, told[4 * b + 2] = count, told[4 * b + 3] = u64{to} << 32 | from;
    }
    all = reduce_sum(part.room(), all);
    if (thread_index() == 0) told[4 * kSteps] = all;
    sync_all(part.blocks);
    if (part.rank == 0) {
      QUERN_UNROLL for (int b = 0; b < kSteps; ++b) {
        u32 from = ~0u, to = 0;
        own[b] = {0, 0, 0, 0.0f, 0.0f};
        each_block(part.blocks, told + 4 * b, [&](i32, u64 its) { own[b].above += its; });
        each_block(part.blocks, told + 4 * b + 1, [&](i32, u64 its) { own[b].inside += its; });
        each_block(part.blocks, told + 4 * b + 2, [&](i32, u64 its) { own[b].count_above += static_cast<u32>(its); });
        each_block(part.blocks, told + 4 * b + 3, [&](i32, u64 its) {
          from = static_cast<u32>(its) < from ? static_cast<u32>(its) : from;
          to = static_cast<u32>(its >> 32) > to ? static_cast<u32>(its >> 32) : to;
        });
        own[b].least = value_of(from), own[b].most = value_of(to);
      }
      all = 0;
      each_block(part.blocks, told + 4 * kSteps, [&](i32, u64 its) { all += its; });
      Place bound;
      const i32 held = gather_candidates(part, &bound);
      Found now = *found;
      sync_block();
      find_ends(r, bands, own, all, held, &now);
      if (thread_index() == 0) *found = now;
    }
    sync_all(part.blocks);
    static_assert(sizeof(Found) % sizeof(u64) == 0 && sizeof(Found) / sizeof(u64) <= kThreads);
    if (part.rank != 0 && thread_index() < static_cast<i32>(sizeof(Found) / sizeof(u64))) {
      u64* const words = reinterpret_cast<u64*>(found);
      words[thread_index()] = of_block(words + thread_index(), 0);
    }
    sync_all(part.blocks);
    if (found->done) break;
  }
  return {found->choice, sums.max};
}

}  // namespace q
