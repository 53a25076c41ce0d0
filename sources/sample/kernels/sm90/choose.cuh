// What a cluster does once its blocks know each other's chunks: the choice. Each function is called by all threads of
// all blocks and takes the same way in each of them; where it returns an OwnChoice, one block alone has it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sample/kernels/sm90/top_share.cuh"

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
    return unlisted && part.lists() && bit_at(part.named.marks, local) ? -infinity() : part.slice[local];
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
QUERN_DEVICE OwnChoice choose_of_row(const Part& part, const Row& row, const RowSums& sums, const Stream& stream) {
  const Room room = part.room();
  const u64* const weights = reinterpret_cast<const u64*>(part.work);
  const u64 target = scale_to(wide(stream.of_row()), sums.total());
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
  const i32 chunk = find_on_line(room.scratch, part.all, target, weights);
  if (chunk < part.first || chunk >= part.first + part.chunks) return {false, -1, 0.0f};
  const f32 top = f32_of(static_cast<u32>(part.stats[chunk]));
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
  u32* const keys = reinterpret_cast<u32*>(part.work);
  QUERN_ROLLED for (i32 c = thread_index(); c < (part.all + 3) / 4 * 4; c += kThreads) {
    keys[c] = c < part.all ? key_of(part.top_of(c)) : 0;
  }
  if (thread_index() == 0) part.desk->kth = 0;
  sync_block();
  u32 found = 0;
  // Two lanes next to each other compare one key, every other four of all.
  constexpr i32 kSharers = 2, kKeys = kWarp / kSharers;
  QUERN_ROLLED for (i32 base = warp() * kKeys; base < part.all; base += kThreads / kSharers) {
    const i32 c = base + lane() / kSharers;
    const u32 own = c < part.all ? keys[c] : ~u32{0};
    u32 no_lower = 0;
    QUERN_FOUR_AT_ONCE for (i32 j = 4 * (lane() & 1); j < part.all; j += 8) {
      const vec16 four = load16(keys + j);
      QUERN_UNROLL for (int e = 0; e < 4; ++e) no_lower += four.x[e] >= own ? 1u : 0u;
    }
    no_lower += shuffle_xor(no_lower, 1);
    const u32 largest = warp_max(no_lower >= k && own != ~u32{0} ? own : 0u);
    found = largest > found ? largest : found;
  }
  if (lane() == 0 && found != 0) atomic_max(&part.desk->kth, found);
  sync_block();
  return part.desk->kth;
}

// What filters leave: top_k, top_p and the draw are three searches in the same order, each among what the one before
// has left. Few tokens are listed and done with at once.
enum class Step : i32 { top_k, top_p, draw };
QUERN_DEVICE OwnChoice choose_of_filtered(const SampleParams& p, const Part& part, const RowSums& sums,
                                          const Settings& s, f32 inverse_temperature, bool sieves,
                                          const Stream& stream) {
  Desk& desk = *part.desk;
  const bool counts = s.top_k > 0 && s.top_k < p.vocab, joint = p.joint && counts && s.top_p < 1.0f;
  Scope scope{sums.max, sums.scale, 0.0f, -infinity()};
  // Beyond so many powers of 2 a token weighs nothing, or too little to be within top_p, or is not there.
  f32 most = 41.0f;
  if (!counts && s.top_p < 1.0f)
    most = fmin(most, 0.5f - log2((1.0f - s.top_p) * rcp_approx(static_cast<f32>(p.vocab))));
  if (s.min_p > 0.0f) {
    scope.least = fmin(sums.max + log(s.min_p) * rcp_approx(inverse_temperature), sums.max);
    most = fmin(most, 0.5f - log2(s.min_p));
  }
  scope.per = static_cast<f32>(kSpots) * rcp_approx(most);
  enum class Doing : i32 { few, all_bins, list, range, bins } doing = Doing::all_bins;
  if (sieves) {
    const Sought sought = choose_of_share(part, sums, s, most, stream);
    if (sought.known) return {sought.mine, sought.id, sought.x};
  }
  Stretch stretch{};
  const bool few = counts && s.top_k <= p.chunks;
  if (!joint && (few || s.min_p > 0.0f)) {
    u32 key = key_of(scope.least);
    if (few) {
      const u32 kth = key_of_kth_top(part, static_cast<u32>(s.top_k));
      key = kth > key ? kth : key;
    }
    stretch = {value_of(key > kDead ? key : kDead + 1), infinity(), kNoBin, ~0u, 0, ~u64{0}};
    doing = Doing::few;
  }
  OwnBins whole{}, bins{};
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
    if (doing == Doing::bins) sync_cluster_shared();  // all have read the bins as they were
    u64 *const found_bin = desk.bins[slot], *const found_token = desk.tokens[slot];
    slot ^= 1;
    if (thread_index() == 0) found_bin[0] = kNoBin, found_token[0] = 0;
    if (lists) {
      turn ^= 1;
      if (thread_index() == 0) *listed = 0;
    } else if (doing != Doing::range) {
      Bins::of(part).zero();
    }
    sync_block();
    if (doing == Doing::all_bins) {
      bin_part(part, scope);
    } else if (doing == Doing::few) {
      each_above(part, stretch.lowest, [&](bool here, f32 x, i32 local) {
        const Place place = place_of(x, part.begin() + local);
        if (!here || !is_token(place) || stretch.rank_of(place) > stretch.last) return;
        const u32 number = atomic_add(listed, 1u);
        if (number < static_cast<u32>(kSegment)) list[number] = place;
      });
    } else {
      const Scan scan = lists ? Scan::list : doing == Doing::range ? Scan::range : Scan::bins;
      const Ranks own = scan_part(part, scope, stretch, scan, shift, list, listed);
      if (doing == Doing::range) {
        const u64 first = reduce_min(part.room(), own.first), last = reduce_max(part.room(), own.last);
        if (thread_index() == 0) desk.first = first, desk.last = last;
      }
    }
    sync_cluster_shared();
    bool fresh = false;
    if (lists) {
      const i32 count = gather(part, part.blocks, list, listed);
      if (count < 0) {
        doing = Doing::all_bins;
        continue;
      }
      if (doing == Doing::few || step == Step::draw) {
        release();
        if (part.rank != 0) return {false, -1, 0.0f};
      }
      const Ranked own = rank_few(part, scope, count);
      if (doing == Doing::few) {
        const Choice choice = choose_of_few(part, own, s, count, stream);
        return {true, choice.id, choice.x};
      }
      const u64 above = before + own.before, through = above + own.weight;
      const bool reaches =
          by == By::weight ? above < wanted && wanted <= through : count_before + own.rank + 1 == wanted;
      if (own.there && reaches) found_token[0] = own.place, found_token[1] = through;
      sync_block();
      const Place place = found_token[0];
      if (step == Step::draw) return {true, place == 0 ? -1 : index_at(place), value_at(place)};
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
      QUERN_ROLLED for (i32 r = 0; r < part.blocks; ++r) {
        const u64 its_first = of_block(&desk.first, r), its_last = of_block(&desk.last, r);
        first = its_first < first ? its_first : first, last = its_last > last ? its_last : last;
      }
      stretch.first = first, stretch.last = last;
      const int bits = 64 - static_cast<int>(leading_zeros(last - first));
      shift = bits > kSpotBits ? bits - kSpotBits : 0;
      doing = Doing::bins;
      continue;
    } else {
      bins = add_up(part, counts);
      if (doing == Doing::all_bins) {
        whole = bins, fresh = true;
        each_block(part, reinterpret_cast<const u64*>(part.work) + kSpots, [&](i32, u64 its) { all += its; });
        left = all;
      }
    }
    FoundBins found{};
    QUERN_ROLLED while (true) {
      if (fresh) {
        if (step == Step::top_k && !counts) step = Step::top_p;
        by = step == Step::top_k ? By::count : By::weight;
        wanted = static_cast<u64>(s.top_k);
        if (step == Step::top_p) {
          wanted = share_of(s.top_p, sieves ? sums.total() : joint ? all : left, false);
          if (!(s.top_p < 1.0f) || wanted >= left) step = Step::draw;
        }
        if (step == Step::draw) wanted = scale_to(wide(stream.of_row()), left) + 1;
        bins = whole, before = 0, count_before = 0;
      }
      found = find_bin(found_bin, bins, by, wanted - (by == By::weight ? before : u64{count_before}));
      if (found.bin != kNoBin) break;
      if (step == Step::draw) {
        release();
        return {part.rank == 0, -1, 0.0f};
      }
      step = step == Step::top_k ? Step::top_p : Step::draw;  // there are not so many
      sync_block();                                           // all know it
      fresh = true;
    }
    before += found.weight, count_before += found.count;
    if (fresh) {
      stretch = Stretch::of_bin(scope, found.bin);
    } else {
      stretch.first += static_cast<u64>(found.bin) << shift;
      const u64 last = stretch.first + ((u64{1} << shift) - 1);
      stretch.last = last < stretch.last ? last : stretch.last;
    }
    doing = found.in <= static_cast<u32>(kSegment) ? Doing::list : Doing::range;
  }
}

}  // namespace q
