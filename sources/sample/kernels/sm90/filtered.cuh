// Samples a token a row where filters or edits may be given, in one launch: the blocks of a cluster share the row. It
// streams by once; what may stay is looked through by the first block. Where that was not enough, as in a row whose
// logits are alike, all blocks read the row again.
// SPDX-License-Identifier: Apache-2.0
#include "sample/kernels/sm90/search.cuh"

namespace q {

// What is asked of a row.
struct Request {
  Settings settings;
  bool whole;  // a draw from all of the row
  bool alone;  // a share of the whole row's weight
  bool weigh;  // sums over chunks are asked for
  bool waits;  // edits only lower logits, and so can wait until a raw logit reaches the bound
  u32 wrong;   // what may be said of it before the row is looked at
  f32 inverse_temperature;
};
QUERN_DEVICE Request request_of(const SampleParams& p, const Room& room, const Row& row) {
  Request r{};
  r.settings = usual_settings_of(p, row.i);
  r.wrong = mistakes_of(room, p, row, r.settings);
  const bool greedy = r.settings.temperature == 0.0f;
  r.whole = !greedy && !r.settings.filters();
  r.alone = !greedy && r.settings.is_top_p_alone(p.vocab);
  r.weigh = p.sums == Sums::all || r.whole || r.alone;
  r.inverse_temperature = inverse_of(r.settings.temperature);
  if (greedy) r.settings.top_k = 1, r.settings.top_p = 1.0f, r.settings.min_p = 0.0f;
  if constexpr (kEdits) {
    const Biases biases = biases_of(p, row.i);
    r.waits = !r.weigh && row.repetition >= 1.0f && row.presence >= 0.0f && row.frequency >= 0.0f &&
              biases.begin == biases.end;
  }
  return r;
}
// How far below the largest logit what min_p leaves may lie: <= 0.
QUERN_DEVICE f32 drop_of(const Request& r) {
  return r.settings.min_p > 0.0f ? fmin(log(r.settings.min_p) * rcp_approx(r.inverse_temperature), 0.0f) : -infinity();
}
QUERN_DEVICE Wanted wanted_of(const SampleParams& p, const Part& part, const Request& r) {
  const Settings& s = r.settings;
  Wanted w{};
  w.drop = drop_of(r);
  const bool counts = s.top_k > 0 && s.top_k < p.vocab;
  w.none = r.whole || (p.joint && counts && s.top_p < 1.0f);
  const f32 room = 0.7f * static_cast<f32>(part.most), vocab = static_cast<f32>(p.vocab);
  if (counts) {
    // Where so many pairs reach the bound, enough tokens do, or it is found out. Half of k at least: those of a row
    // that count may lie close together, and so mostly in a few of the pairs.
    constexpr i32 kFew = 128;
    w.enough = static_cast<u32>(s.top_k);
    const f32 number = 1.5f * static_cast<f32>(s.top_k) + 200.0f;
    if (number > room) w.none = true;
    const u32 guess = pairs_of_share(part, number * rcp_approx(vocab));
    const u32 half = static_cast<u32>(s.top_k < kFew ? s.top_k : kFew) / 2 + 1;
    w.nth = guess != 0 && guess < half ? half : guess;
    if (w.nth > w.enough || (guess == 0 && s.top_k <= kFew)) w.nth = w.enough;
    const u32 pairs = static_cast<u32>((part.chunks < kWarps ? part.chunks : kWarps) * (kWarp / 2));
    if (w.nth > pairs) w.nth = 0;
  } else if (r.alone) {
    w.nth = pairs_of_share(part, fmin(room * rcp_approx(vocab), 1.0f));
  }
  if (r.settings.temperature != r.settings.temperature) w.none = true;
  return w;
}

// In the first block: the other blocks' candidates behind its own, but for those lower than `*bound`, which is the
// highest bound of all. How many there are; -1: a block had no room for its own, or there is none for all, or fewer
// than `enough` reach the bound, and it lies above `least`.
QUERN_DEVICE i32 gather_candidates(const Part& part, u32 enough, f32 least, Place* bound) {
  Desk& desk = *part.desk;
  const i32 r = lane() < part.blocks ? lane() : 0;
  const u32 its = of_block(&desk.held, r);
  const Place highest = *bound = warp_max(of_block(&desk.bound, r));
  if (warp_max(its) > static_cast<u32>(part.most)) return -1;
  const u32 own = shuffle(its, 0);
  u32 reaching = 0;
  QUERN_ROLLED for (i32 from = warp(); from < part.blocks; from += kWarps) {
    const u32 count = shuffle(its, from);
    QUERN_FOUR_AT_ONCE for (u32 i = static_cast<u32>(lane()); i < count; i += kWarp) {
      const Place place = of_block(part.candidates + i, from);
      if (place < highest) continue;
      ++reaching;
      if (from == 0) continue;
      const u32 to = own + atomic_add(&desk.more, 1u);
      if (to < static_cast<u32>(part.most)) part.candidates[to] = place;
    }
  }
  reaching = warp_sum(reaching);
  if (lane() == 0) atomic_add(&desk.reaching, reaching);
  sync_block();
  const u32 all = own + desk.more;
  reaching = desk.reaching;
  if (all > static_cast<u32>(part.most) || reaching == 0) return -1;
  if (highest != 0 && value_at(highest) > least && reaching < enough) return -1;
  return static_cast<i32>(all);
}

// f(token, logit) for each named token of the row, in the first block.
template <class F>
QUERN_DEVICE void each_named(const Part& part, i32 chunks_each, F f) {
  QUERN_ROLLED for (i32 r = 0; r < part.blocks; ++r) {
    const u32 count = of_block(&part.desk->named, r);
    QUERN_ROLLED for (u32 n = static_cast<u32>(thread_index()); n < count; n += kThreads) {
      // Words have the token's place in its part to 16 bits; what is above them grows along the list.
      i32 high = 0;
      constexpr i32 kStep = (1 << 16) / 64;
      QUERN_ROLLED for (i32 at = kStep; at < chunks_each * kGroups / 2; at += kStep) {
        const u32 two = of_block(reinterpret_cast<const u32*>(part.named.before + at), r);
        if ((two & 0xffffu) <= n) ++high;
      }
      f(r * chunks_each * kChunk + (high << 16 | static_cast<i32>(of_block(part.named.words + n, r) >> 16)),
        of_block(part.named.values + n, r));
    }
  }
}

// The sums of the row's weights; those of chunks are left in `work`.
struct Weights {
  u64 of_chunks, of_named, race;
};
QUERN_CALLED Weights weigh_row(const SampleParams& p, f32 max, const Request& request, const Stream& stream) {
  const Part part = part_of(p);
  const Room room = part.room();
  const f32 scale = request.inverse_temperature * kLog2OfE;
  Weights sums{0, 0, ~u64{0}};
  if (part.names()) {
    each_named(part, p.chunks_per_block, [&](i32 token, f32 x) {
      const f32 share = share_of_largest(max, x, scale);
      sums.of_named += to_units(share);
      if (!request.whole || share == 0.0f) return;
      const f32 time = exponential(stream.of_token(token).x[0]) * rcp_approx(share);
      const u64 its = static_cast<u64>(bits_of(time)) << 32 | static_cast<u32>(token);
      sums.race = its < sums.race ? its : sums.race;
    });
    sums.of_named = reduce_sum(room, sums.of_named), sums.race = reduce_min(room, sums.race);
  }
  learn_stats(part.stats, part.all, p.chunks_per_block, part.rank);
  sums.of_chunks = weigh_stats(room.scratch, part.stats, part.all, max, request.inverse_temperature,
                               reinterpret_cast<u64*>(part.work));
  return sums;
}

// Of the whole row, by the sums over its chunks: the chunk, then the token, whose logits are read again.
QUERN_CALLED Choice choose_of_row(const SampleParams& p, const Row& row, const Weights& sums, f32 scale,
                                  const Stream& stream) {
  const Part part = part_of(p);
  Desk& desk = *part.desk;
  const u64 target = scale_to(wide(stream.of_row()), sums.of_chunks + sums.of_named);
  if (kEdits && target >= sums.of_chunks) {
    const i32 id = sums.race == ~u64{0} ? -1 : static_cast<i32>(static_cast<u32>(sums.race));
    each_named(part, p.chunks_per_block, [&](i32 token, f32 its) {
      if (token == id) desk.max = its;
    });
    sync_block();
    return {id, id >= 0 ? desk.max : 0.0f};
  }
  const i32 chunk = find_on_line(desk.scratch, part.all, target, reinterpret_cast<const u64*>(part.work));
  if (chunk < 0) return {-1, 0.0f};
  const i32 r = chunk / p.chunks_per_block;
  return draw_of_chunk(desk.scratch, desk.token, chunk, max_of_stats(part.stats[chunk]), scale, stream, [&](i32 token) {
    const i32 local = token - r * p.chunks_per_block * kChunk;
    bool there = token < p.vocab;
    if (kEdits && there && part.names())
      there = (of_block(part.named.marks + (local >> 5), r) >> (local & 31) & 1) == 0;
    return there ? edited(row, token) : -infinity();
  });
}

// What the first block tells the others: it does the rest; all stream the row again, and edit it as it comes; all
// search the row.
enum class Verdict : u32 { done, again, search };
QUERN_DEVICE void announce(const Part& part, Verdict verdict) {
  if (thread_index() == 0) part.desk->verdict = static_cast<u32>(verdict);
  sync_blocks(part.blocks);
}

// Settles what lists name: all of it, or what has been set aside alone.
QUERN_CALLED bool settle_part(const SampleParams& p, const Row& row, bool all, bool keep) {
  Part part = part_of(p);
  Desk& desk = *part.desk;
  Named& named = part.named;
  sync_block();
  const i32 aside = static_cast<i32>(desk.aside);
  if (!all) {
    named.count = 0;
    if (aside == 0) return false;
    if (aside <= kAside) {
      bins_zero<kThreads>(named.marks, named.chunks * kGroups);
      sync_block();
      QUERN_ROLLED for (i32 n = thread_index(); n < aside; n += kThreads) {
        const i32 local = part.aside[n] - named.begin;
        atomic_or(named.marks + (local >> 5), 1u << (local & 31));
      }
    }
  }
  const Place bound = desk.bound;  // what is lower than the bound does not matter
  const bool nan = settle_named(p, row, desk.scratch, &named, [&](i32 token, f32 x) {
    if (!(x > -infinity())) return;
    atomic_max(&desk.top, key_of(x));
    if (!keep || place_of(x, token) < bound) return;
    const u32 at = atomic_add(&desk.held, 1u);
    if (at < static_cast<u32>(part.most)) part.candidates[at] = place_of(x, token);
  });
  if (thread_index() == 0) desk.named = named.count;
  return nan;
}

QUERN_DEVICE void sample_row(const SampleParams& p, const Part& part, i32 i) {
  Desk& desk = *part.desk;
  const Row row = row_of_call(p, i);
  Request request{};
  Stream stream{};
  Wanted wanted{};
  Choice choice{-1, 0.0f};
  RowSums sums{-infinity(), 1.0f, 0};
  Source source{&p, &row, false, 1, 0};
  f32 least = -infinity(), low = -infinity();
  u32 status = 0;
  bool edits = false;  // each chunk as it comes
  QUERN_ROLLED while (true) {
    Verdict verdict = Verdict::done;
    bool searches = source.whole;
    if (!source.whole) {
      ask_for_first(p, row, part);
      // While they come:
      request = request_of(p, part.room(), row);
      stream = {p.seeds ? static_cast<u64>(p.seeds[i]) : p.seed, p.offsets ? static_cast<u64>(p.offsets[i]) : p.offset,
                p.seeds ? u64{0} : static_cast<u64>(i) + 1};
      wanted = wanted_of(p, part, request);
      edits = kEdits && (edits || wanted.none || !request.waits);
      if (thread_index() == 0) {
        desk.held = desk.more = desk.reaching = desk.aside = desk.nan = desk.top = desk.low = desk.named = 0;
        desk.bound = 0;
      }
      if (part.names()) {
        mark_listed(p, i, part.first, part.chunks, part.named.marks);
      } else {
        sync_block();
      }
      const bool first = edits || row.allowed || wanted.drop > -infinity();
      const Plan plan{wanted, request.weigh, edits, first, request.inverse_temperature * kLog2OfE};
      bool nan = stream_part(p, row, plan);
      if (part.names() && row.logits) nan |= settle_part(p, row, edits, !wanted.none);
      if (p.status != nullptr && nan) desk.nan = 1;
      sync_blocks(part.blocks);
      sums = {-infinity(), request.inverse_temperature * kLog2OfE, 0};
      if (part.rank == 0 && request.wrong == 0) {
        status = largest_of_blocks(part.blocks, &desk.nan) != 0 ? static_cast<u32>(kNan) : 0u;
        const u32 key = largest_of_blocks(part.blocks, &desk.top), lowest = largest_of_blocks(part.blocks, &desk.low);
        if (key > kDead) {
          sums.max = value_of(key);
        } else if (kEdits && !edits) {
          verdict = Verdict::again;  // nothing has reached the bound
        } else {
          status |= kEmpty;
        }
        if (sums.max > -infinity()) {
          Weights weights{};
          if (request.weigh) weights = weigh_row(p, sums.max, request, stream);
          sums.total = weights.of_chunks + weights.of_named;
          low = wanted.none ? -infinity() : value_of(~lowest);
          if (request.whole) {
            choice = choose_of_row(p, row, weights, sums.scale, stream);
          } else {
            Place bound = 0;
            if (request.settings.min_p > 0.0f) least = fmin(sums.max + drop_of(request), sums.max);
            source.count = wanted.none ? -1 : gather_candidates(part, wanted.enough, least, &bound);
            searches = source.count >= 0;
            if (!searches) verdict = kEdits && !edits ? Verdict::again : Verdict::search;
            if (searches && is_token(bound)) low = value_at(bound);
          }
        }
      } else {
        status = request.wrong;
      }
    }
    const bool early = searches && !source.whole && !request.alone;
    if (early) announce(part, Verdict::done);
    bool enough = true;
    if (searches) choice = search(source, sums, request.settings, least, low, request.alone, stream, &enough);
    if (source.whole || early) break;
    if (!enough) verdict = Verdict::search;
    if (part.rank == 0) {
      if (thread_index() == 0) desk.max = sums.max, desk.total = sums.total, desk.least = low;
      announce(part, verdict);
    } else {
      sync_blocks(part.blocks);
      verdict = static_cast<Verdict>(of_block(&desk.verdict, 0));
    }
    if (verdict == Verdict::done) break;
    if (verdict == Verdict::again) {
      edits = true;
      continue;
    }
    sums.max = of_block(&desk.max, 0), sums.total = of_block(&desk.total, 0), low = of_block(&desk.least, 0);
    least = request.settings.min_p > 0.0f ? fmin(sums.max + drop_of(request), sums.max) : -infinity();
    source.whole = true, source.blocks = part.blocks;
  }
  if (part.rank != 0 || thread_index() != 0) return;
  const bool found = sums.max > -infinity();
  f32 logprob = found ? 0.0f : q::nan();
  if (p.sums == Sums::all && found)
    logprob = -(distance(sums.max, choice.x, request.inverse_temperature) + log_of(sums.total));
  report(p, i, choice.id, logprob, sums.max, status, false);
}

QUERN_DEVICE void sample_filtered(const SampleParams& p) {
  const Part part = part_of(p);
  const i32 clusters = block_count(0) / part.blocks;
  QUERN_ROLLED for (i32 i = block_index(0) / part.blocks; i < p.count; i += clusters) {
    sample_row(p, part, i);
    // Before this block's shared memory is used again or is gone, the others have read it, and all of its own threads.
    sync_blocks(part.blocks);
  }
}

}  // namespace q

QUERN_KERNEL(quern_sample, THREADS, BLOCKS, QUERN_PARAM q::SampleParams p) {
  q::launch_next_grid();
  q::wait_for_previous_grid();
  q::sample_filtered(p);
}
