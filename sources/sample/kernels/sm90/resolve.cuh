// The choice in a row whose candidates were not enough, where shares of weights are asked for and no count: rows whose
// distribution is flat. Two passes over the row, by all blocks of its cluster.
//
// The first counts tokens by fine bins of their logits; these tell, nearly, where top_p ends and where the draw does.
// The second adds up exactly what lies above, and lists the tokens of those bins, among which both are then exact.
// Where they are too many for the list, but all of one logit, it is the numbers of them in each chunk that tell.
// Whatever is otherwise is left to search().
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sample/kernels/sm90/choose_kept.cuh"

namespace q {

inline constexpr i32 kFine = 2048;
static_assert(kFine % kThreads == 0);

// f(logits, token of the first, chunk of the part) for each vector of the part.
template <class F>
QUERN_DEVICE void each_vector(const Source& source, const Part& part, F f) {
  constexpr i32 kAhead = 4;  // vectors under way
  const i32 units = part.chunks * kLoads;
  vec16 next[kAhead] = {};
  QUERN_UNROLL for (i32 i = 0; i < kAhead; ++i) {
    if (warp() + i * kWarps < units) next[i] = ask_for_unit(source, part, warp() + i * kWarps);
  }
  QUERN_ROLLED for (i32 unit = warp(); unit < units; unit += kWarps) {
    const vec16 raw = next[0];
    QUERN_UNROLL for (i32 i = 1; i < kAhead; ++i) next[i - 1] = next[i];
    if (unit + kAhead * kWarps < units) next[kAhead - 1] = ask_for_unit(source, part, unit + kAhead * kWarps);
    f32 x[kVector];
    load_unit(source, part, unit, raw, x);
    f(x, (part.first + unit / kLoads) * kChunk + place_in_chunk(unit % kLoads), unit / kLoads);
  }
}

// A stretch of bins in which a sum of weights is reached.
struct Band {
  u32 first, last;
  QUERN_DEVICE bool has(u32 bin) const { return bin >= first && bin <= last; }
};
// What a block, then the row, knows of a band.
struct BandSums {
  u64 above;        // the weights of all that lies above it
  f32 least, most;  // of its logits
};

// Of the tokens with logit x the nth in order of ids, from the numbers in each chunk, in the lower or upper half of
// stats; in the first block. -1: not by these means.
QUERN_DEVICE i32 find_alike(const SampleParams& p, const Row& row, const Part& part, f32 x, u64 nth, int half) {
  if (part.names()) return -1;
  u64* const numbers = reinterpret_cast<u64*>(part.work);
  sync_block();
  QUERN_ROLLED for (i32 c = thread_index(); c < part.all; c += kThreads) {
    const u32 both = static_cast<u32>(of_block(part.stats + c, c / p.chunks_per_block));
    numbers[c] = half == 0 ? both & 0xffffu : both >> 16;
  }
  sync_block();
  u64* const scratch = part.desk->scratch;
  const i32 chunk = find_on_line(scratch, part.all, nth, numbers);
  if (chunk < 0) return -1;
  u64 before = 0;
  QUERN_ROLLED for (i32 c = thread_index(); c < chunk; c += kThreads) before += numbers[c];
  const u64 within = nth - reduce_sum(part.room(), before);
  constexpr i32 kOwn = kChunk / kThreads;
  const i32 from = chunk * kChunk + thread_index() * kOwn;
  u32 own = 0;
  QUERN_UNROLL for (int j = 0; j < kOwn; ++j) {
    if (from + j < p.vocab && edited(row, from + j) == x) own |= 1u << j;
  }
  u64 at = sum_before(scratch, static_cast<u64>(popcount(own)));
  i32 found = -1;
  QUERN_UNROLL for (int j = 0; j < kOwn; ++j) {
    if ((own >> j & 1) != 0 && at++ == within) found = from + j;
  }
  return static_cast<i32>(reduce_max(part.room(), static_cast<u32>(found + 1))) - 1;
}

// All threads of the row's blocks, all of which are told whether there is a choice; it is the first block's.
QUERN_DEVICE bool resolve(const Source& source, const Part& part, const RowSums& sums, const Settings& s, f32 least,
                          bool alone, const Stream& stream, Choice* choice) {
  const SampleParams& p = *source.p;
  Desk& desk = *part.desk;
  const i32 blocks = source.blocks;
  if ((s.top_k > 0 && s.top_k < p.vocab) || !(sums.max < infinity())) return false;
  const Scope scope{sums.max, sums.scale, 0.0f, -infinity(), -infinity()};
  // Below it nothing weighs, or too little to be within top_p.
  f32 powers = 41.0f;
  if (alone) powers = fmin(powers, 1.5f - log2((1.0f - s.top_p) * rcp_approx(static_cast<f32>(p.vocab))));
  const f32 lowest = fmax(fmax(least, sums.max - powers * rcp_approx(sums.scale)), value_of(kDead + 1));
  u32* const counts = reinterpret_cast<u32*>(part.work);
  bins_zero<kThreads>(counts, kFine);
  QUERN_ROLLED for (i32 c = thread_index(); c < part.all; c += kThreads) part.stats[c] = 0;
  if (thread_index() == 0) desk.held = 0;
  // How wide it is: the least of a few tokens.
  f32 bottom = sums.max;
  const i32 one = part.first * kChunk + thread_index();
  if (thread_index() < part.chunks * kChunk && one < p.vocab) {
    const f32 x = edited(*source.row, one);
    bottom = x >= lowest ? fmin(bottom, x) : bottom;
  }
  const u32 key = reduce_min(part.room(), key_of(bottom));
  if (thread_index() == 0) desk.top = key;
  sync_blocks(blocks);
  u32 low = key;
  each_block(blocks, &desk.top, [&](i32, u32 its) { low = its < low ? its : low; });
  const f32 floor = value_of(low);
  const Spread spread = Spread::over(sums.max, floor, kFine - 1);
  const auto bin_of = [&](f32 x) { return x >= floor ? spread.bin_of(x) : static_cast<u32>(kFine - 1); };

  u64 whole = 0, share = 0;  // of all there is, where its share is asked for; what top_p leaves
  bool cuts = alone;
  Band bands[2] = {};
  BandSums own_sums[2] = {{0, infinity(), -infinity()}, {0, infinity(), -infinity()}};
  QUERN_ROLLED for (int pass = 0; pass < 2; ++pass) {
    each_vector(source, part, [&](f32(&x)[kVector], i32 at, i32 chunk) {
      u32 numbers = 0;
      const bool room = pass != 0 && load_volatile(&desk.held) <= static_cast<u32>(part.most);
      QUERN_ROLLED for (int e = 0; e < kVector; ++e) {
        const f32 own = x[0];
        // The next one moves up.
        QUERN_UNROLL for (int m = 1; m < kVector; ++m) x[m - 1] = x[m];
        if (!(own >= lowest)) continue;
        const u32 bin = bin_of(own);
        if (pass == 0) atomic_add(counts + bin, 1u);
        if (pass == 0 && alone) continue;
        const u64 weight = scope.weigh(own);
        if (pass == 0) {
          whole += weight;
          continue;
        }
        bool listed = false;
        QUERN_UNROLL for (int b = 0; b < 2; ++b) {
          if (bin < bands[b].first) {
            own_sums[b].above += weight;
          } else if (bands[b].has(bin)) {
            own_sums[b].least = fmin(own_sums[b].least, own), own_sums[b].most = fmax(own_sums[b].most, own);
            numbers += b == 0 ? 1u : 1u << 16;
            listed = true;
          }
        }
        if (!listed || !room) continue;
        const u32 to = atomic_add(&desk.held, 1u);
        if (to < static_cast<u32>(part.most)) part.candidates[to] = to_candidate(own, at + e);
      }
      if (pass == 0) return;
      numbers = warp_sum(numbers);
      if (lane() == 0 && numbers != 0) atomic_add(reinterpret_cast<u32*>(part.stats + part.first + chunk), numbers);
    });
    if (pass != 0) break;
    whole = reduce_sum(part.room(), whole);
    if (thread_index() == 0) {
      desk.first = whole;
      QUERN_UNROLL for (int i = 0; i < 4; ++i) desk.bins[0][i] = kFine - 1;
    }
    sync_blocks(blocks);
    if (!alone) {
      whole = 0;
      each_block(blocks, &desk.first, [&](i32, u64 its) { whole += its; });
    }
    // Where sums of weights are reached, nearly: each thread has a run of bins.
    share = s.top_p < 1.0f ? share_of(s.top_p, alone ? sums.total : whole, false) : whole;
    cuts = alone || share < whole;
    const u64 aim = scale_to(wide(stream.of_row()), share) + 1;
    const f32 step = spread.per > 0.0f ? rcp_approx(spread.per * spread.pre) : 0.0f;
    const f32 slack = 0.5f * step * sums.scale + 0x1p-16f;
    constexpr i32 kOwn = kFine / kThreads;
    u64 own[kOwn], all = 0;
    QUERN_UNROLL for (i32 i = 0; i < kOwn; ++i) {
      const i32 bin = thread_index() * kOwn + i;
      u32 number = 0;
      QUERN_ROLLED for (i32 r = 0; r < blocks; ++r) number += of_block(counts + bin, r);
      const f32 middle =
          bin == kFine - 1 ? floor : sums.max - (static_cast<f32>(bin) + (bin == 0 ? 0.0f : 0.5f)) * step;
      all += own[i] = scope.weigh(middle) * number;
    }
    u64 before = sum_before(desk.scratch, all);
    QUERN_UNROLL for (i32 i = 0; i < kOwn; ++i) {
      QUERN_UNROLL for (int end = 0; end < 4; ++end) {
        const u64 target = end < 2 ? share : aim, off = static_cast<u64>(slack * static_cast<f32>(target)) + 1;
        const u64 sum = (end & 1) != 0 ? target + off : target > off ? target - off : u64{1};
        if (before < sum && sum <= before + own[i]) desk.bins[0][end] = static_cast<u64>(thread_index() * kOwn + i);
      }
      before += own[i];
    }
    sync_block();
    QUERN_UNROLL for (int b = 0; b < 2; ++b) {
      bands[b] = {static_cast<u32>(desk.bins[0][2 * b]), static_cast<u32>(desk.bins[0][2 * b + 1])};
    }
    if (!cuts) bands[0] = bands[1];
    sync_blocks(blocks);  // all have read the counts, and what is on the desks
  }
  QUERN_UNROLL for (int b = 0; b < 2; ++b) {
    const u64 above = reduce_sum(part.room(), own_sums[b].above);
    const u32 from = reduce_min(part.room(), key_of(own_sums[b].least)),
              to = reduce_max(part.room(), key_of(own_sums[b].most));
    if (thread_index() == 0) desk.few[2 * b] = above, desk.few[2 * b + 1] = static_cast<u64>(to) << 32 | from;
  }
  sync_blocks(blocks);
  bool ok = true;
  if (part.rank == 0) {
    BandSums of_row[2];
    QUERN_UNROLL for (int b = 0; b < 2; ++b) {
      u32 from = ~0u, to = 0;
      of_row[b].above = 0;
      each_block(blocks, desk.few + 2 * b, [&](i32, u64 its) { of_row[b].above += its; });
      each_block(blocks, desk.few + 2 * b + 1, [&](i32, u64 its) {
        from = static_cast<u32>(its) < from ? static_cast<u32>(its) : from;
        to = static_cast<u32>(its >> 32) > to ? static_cast<u32>(its >> 32) : to;
      });
      of_row[b].least = value_of(from), of_row[b].most = value_of(to);
    }
    Held held{0, 0, -infinity(), 0, 0, 0.0f, 0.0f};
    Place bound;
    held.count = gather_candidates(part, &bound);
    u64 left = share;
    QUERN_ROLLED for (int b = cuts ? 0 : 1; b < 2 && ok; ++b) {
      const BandSums band = b == 0 ? of_row[0] : of_row[1];
      const u64 target = b == 0 ? share : scale_to(wide(stream.of_row()), left) + 1;
      ok = target > band.above && band.least <= band.most;
      if (!ok) break;
      if (held.count >= 0) {
        held.wanted = target - band.above, held.from = band.least, held.to = band.most;
        const PickedToken token = pick(pick_of(p, part, held, sums, s, alone, stream));
        *choice = token.choice, ok = token.picked == Picked::done;
        left = band.above + token.left;
      } else {
        const u64 weight = scope.weigh(band.most);
        ok = band.least == band.most && weight != 0;
        if (!ok) break;
        const u64 nth = (target - band.above - 1) / weight;
        *choice = {find_alike(p, *source.row, part, band.most, nth, b), band.most};
        ok = choice->id >= 0;
        left = band.above + (nth + 1) * weight;
      }
      sync_block();
    }
    if (thread_index() == 0) desk.verdict = ok;
  }
  sync_blocks(blocks);
  ok = of_block(&desk.verdict, 0) != 0;
  sync_blocks(blocks);
  return ok;
}

// The same in a function of its own, all by value: few rows need it, and the others' registers and stack are not to
// depend on it.
struct Resolved {
  bool ok;
  Choice choice;
};
QUERN_CALLED Resolved resolve_row(const SampleParams& p, Row row, Part part, RowSums sums, Settings s, f32 least,
                                  bool alone, Stream stream) {
  const Source source{&p, &row, true, part.blocks, 0};
  Resolved resolved{false, {-1, 0.0f}};
  resolved.ok = resolve(source, part, sums, s, least, alone, stream, &resolved.choice);
  return resolved;
}

}  // namespace q
