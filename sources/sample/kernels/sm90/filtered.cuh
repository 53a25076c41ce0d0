// Samples a token a row where filters may be given, in one launch: the blocks of a cluster share the row. It streams by
// once; what may stay is looked through by the first block. Where that was not enough, as in a row whose logits are
// alike, all blocks read the row again.
// SPDX-License-Identifier: Apache-2.0
#include "sample/kernels/sm90/choose_kept.cuh"

namespace q {

// What is asked of a row.
struct Request {
  Settings settings;
  bool whole;  // a draw from all of the row
  bool alone;  // a share of the whole row's weight
  bool weigh;  // sums over chunks are asked for
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

// In the first block: what the others know of their chunks, and the row's largest logit.
QUERN_DEVICE f32 learn_part(const Part& part, i32 chunks_each) {
  f32 max = -infinity();
  QUERN_ROLLED for (i32 c = thread_index(); c < part.all; c += kThreads) {
    const i32 r = c / chunks_each;
    if (r != 0) part.stats[c] = of_block(part.stats + c, r);
    max = fmax(max, f32_of(static_cast<u32>(part.stats[c])));
  }
  u32 key = key_of(max);
  if (part.names()) {
    each_block(part.blocks, &part.desk->top, [&](i32, u32 its) { key = its > key ? its : key; });
  }
  return value_of(reduce_max(part.room(), key));
}

// In the first block: the other blocks' candidates behind its own, no lower than `*bound`, which is the highest bound
// of all. How many there are; -1: a block had no room for its own, or there is none for all, or fewer than `enough`
// reach the bound, and it lies above `least`.
QUERN_DEVICE i32 gather_candidates(const Part& part, u32 enough, f32 least, Place* bound) {
  Desk& desk = *part.desk;
  Place highest = 0;
  each_block(part.blocks, &desk.bound, [&](i32, u64 its) { highest = its > highest ? its : highest; });
  *bound = highest;
  u32 all = 0;
  bool complete = true;
  each_block(part.blocks, &desk.held, [&](i32 r, u32 its) {
    complete = complete && its <= static_cast<u32>(part.most);
    all += its;
    if (thread_index() == 0) desk.ends[r] = all;
  });
  sync_block();  // all know how many there are before there are more
  if (!complete) return -1;
  const u32 own = desk.ends[0];
  u32 reaching = 0;
  constexpr int kAtOnce = 4;  // loads under way
  QUERN_ROLLED for (u32 base = static_cast<u32>(thread_index()); base < all; base += kThreads * kAtOnce) {
    u64 candidates[kAtOnce];
    QUERN_UNROLL for (int j = 0; j < kAtOnce; ++j) {
      const u32 at = base + static_cast<u32>(j * kThreads);
      i32 from = 0;
      u32 begin = 0;
      QUERN_ROLLED while (from + 1 < part.blocks && at >= desk.ends[from]) begin = desk.ends[from++];
      candidates[j] = at < all ? of_block(part.candidates + (at - begin), from) : 0;
    }
    QUERN_ROLLED for (int j = 0; j < kAtOnce; ++j) {
      const u64 candidate = candidates[0];
      QUERN_UNROLL for (int m = 1; m < kAtOnce; ++m) candidates[m - 1] = candidates[m];
      const u32 at = base + static_cast<u32>(j * kThreads);
      if (at >= all || place_of_candidate(candidate) < highest) continue;
      ++reaching;
      if (at < own) continue;
      const u32 to = atomic_add(&desk.held, 1u);
      if (to < static_cast<u32>(part.most)) part.candidates[to] = candidate;
    }
  }
  reaching = reduce_sum(part.room(), reaching);
  const u32 held = desk.held;
  sync_block();
  if (held > static_cast<u32>(part.most) || (highest != 0 && value_at(highest) > least && reaching < enough)) return -1;
  return static_cast<i32>(held);
}

// f(token, logit) for each named token of the row, in the first block.
template <class F>
QUERN_DEVICE void each_named(const Part& part, i32 chunks_each, F f) {
  QUERN_ROLLED for (i32 r = 0; r < part.blocks; ++r) {
    Named named = part.named;
    named.begin = r * chunks_each * kChunk;
    const u32 count = of_block(&part.desk->named, r);
    const i32 rest = part.all - r * chunks_each;
    named.chunks = rest < 0 ? 0 : rest < chunks_each ? rest : chunks_each;
    QUERN_ROLLED for (u32 n = static_cast<u32>(thread_index()); n < count; n += kThreads) {
      i32 high = 0;
      constexpr i32 kStep = (1 << 16) / 64;
      QUERN_ROLLED for (i32 at = kStep; at < named.chunks * kGroups / 2; at += kStep) {
        const u32 two = of_block(reinterpret_cast<const u32*>(named.before + at), r);
        if ((two & 0xffffu) <= n) ++high;
      }
      f(named.begin + (high << 16 | static_cast<i32>(of_block(named.words + n, r) >> 16)),
        of_block(named.values + n, r));
    }
  }
}

// The sums of the row's weights; those of chunks are left in `work`.
struct Weights {
  u64 of_chunks, of_named, race;
};
QUERN_DEVICE Weights weigh_row(const Part& part, i32 chunks_each, f32 max, const Request& request,
                               const Stream& stream) {
  const Room room = part.room();
  const f32 scale = request.inverse_temperature * kLog2OfE;
  Weights sums{0, 0, ~u64{0}};
  if (part.names()) {
    each_named(part, chunks_each, [&](i32 token, f32 x) {
      const f32 share = share_of_largest(max, x, scale);
      sums.of_named += to_units(share);
      if (!request.whole || share == 0.0f) return;
      const f32 time = exponential(stream.of_token(token).x[0]) * rcp_approx(share);
      const u64 its = static_cast<u64>(bits_of(time)) << 32 | static_cast<u32>(token);
      sums.race = its < sums.race ? its : sums.race;
    });
    sums.of_named = reduce_sum(room, sums.of_named), sums.race = reduce_min(room, sums.race);
  }
  u64* const weights = reinterpret_cast<u64*>(part.work);
  QUERN_ROLLED for (i32 c = thread_index(); c < part.all; c += kThreads) {
    const f32 top = f32_of(static_cast<u32>(part.stats[c])), sum = f32_of(static_cast<u32>(part.stats[c] >> 32));
    u64 weight = 0;
    if (top > -infinity())
      weight = static_cast<u64>(sum * exp_of_minus(at_most(distance(max, top, request.inverse_temperature), 128.0f)) *
                                kUnits);
    sums.of_chunks += weights[c] = weight;
  }
  sums.of_chunks = reduce_sum(room, sums.of_chunks);
  return sums;
}

// Of the whole row, by the sums over its chunks: the chunk, then the token, whose logits are read again.
QUERN_DEVICE Choice choose_of_row(const SampleParams& p, const Row& row, const Part& part, const Weights& sums,
                                  f32 scale, const Stream& stream) {
  const Room room = part.room();
  const u64 target = scale_to(wide(stream.of_row()), sums.of_chunks + sums.of_named);
  if (kEdits && target >= sums.of_chunks) {
    const i32 id = sums.race == ~u64{0} ? -1 : static_cast<i32>(static_cast<u32>(sums.race));
    f32 x = 0.0f;
    each_named(part, p.chunks_per_block, [&](i32 token, f32 its) {
      if (token == id) part.desk->max = its;
    });
    sync_block();
    if (id >= 0) x = part.desk->max;
    return {id, x};
  }
  const i32 chunk = find_on_line(room.scratch, part.all, target, reinterpret_cast<const u64*>(part.work));
  if (chunk < 0) return {-1, 0.0f};
  const f32 top = f32_of(static_cast<u32>(part.stats[chunk]));
  constexpr i32 kOwn = kChunk / kThreads;
  u64 weight[kOwn], own = 0;
  f32 x[kOwn];
  const i32 from = chunk * kChunk + thread_index() * kOwn, r = chunk / p.chunks_per_block;
  QUERN_UNROLL for (int j = 0; j < kOwn; ++j) {
    const i32 token = from + j, local = token - r * p.chunks_per_block * kChunk;
    bool there = token < p.vocab;
    if (kEdits && there && part.names())
      there = (of_block(part.named.marks + (local >> 5), r) >> (local & 31) & 1) == 0;
    x[j] = there ? edited(row, token) : -infinity();
    weight[j] = to_units(share_of_largest(top, x[j], scale));
    own += weight[j];
  }
  u64 before = sum_before(room.scratch, own);
  const u64 within = scale_to(wide(stream.at(kWithinChunk)), room.scratch[kThreads / kWarp]);
  if (thread_index() == 0) part.desk->tokens[0][0] = 0;
  sync_block();
  QUERN_UNROLL for (int j = 0; j < kOwn; ++j) {
    if (before <= within && within < before + weight[j]) part.desk->tokens[0][0] = to_candidate(x[j], from + j + 1);
    before += weight[j];
  }
  sync_block();
  const u64 found = part.desk->tokens[0][0];
  return {token_of_candidate(found) - 1, value_of_candidate(found)};
}

// Tells the other blocks whether what the first one does is enough.
QUERN_DEVICE void announce(const Part& part, bool enough) {
  if (thread_index() == 0) part.desk->verdict = enough;
  sync_blocks(part.blocks);
}

QUERN_DEVICE void sample_row(const SampleParams& p, Part& part, i32 i) {
  Desk& desk = *part.desk;
  const Row row = row_of_call(p, i);
  Request request{};
  Stream stream{};
  Wanted wanted{};
  bool nan = stream_part(p, row, part, [&]() -> Plan {
    request = request_of(p, part.room(), row);
    stream = {p.seeds ? static_cast<u64>(p.seeds[i]) : p.seed, p.offsets ? static_cast<u64>(p.offsets[i]) : p.offset,
              p.seeds ? u64{0} : static_cast<u64>(i) + 1};
    wanted = wanted_of(p, part, request);
    if (thread_index() == 0) desk.held = 0, desk.bound = 0, desk.nan = 0, desk.top = 0, desk.named = 0;
    sync_block();
    if (part.names()) {
      name_part(p, i, desk.scratch, &part.named);
      if (thread_index() == 0) desk.named = part.named.count;
    }
    return {wanted, request.weigh, request.inverse_temperature * kLog2OfE};
  });
  const Settings& s = request.settings;
  const f32 scale = request.inverse_temperature * kLog2OfE;
  if (part.names() && row.logits) {
    const Place bound = desk.bound;  // what is lower than the bound does not matter
    nan |= settle_named(p, row, part.named, [&](i32 token, f32 x) {
      if (!(x > -infinity())) return;
      atomic_max(&desk.top, key_of(x));
      if (wanted.none || place_of(x, token) < bound) return;
      const u32 at = atomic_add(&desk.held, 1u);
      if (at < static_cast<u32>(part.most)) part.candidates[at] = to_candidate(x, token);
    });
  }
  if (p.status != nullptr && nan) desk.nan = 1;
  sync_blocks(part.blocks);

  u32 status = 0;
  RowSums sums{-infinity(), scale, 0};
  Choice choice{-1, 0.0f};
  bool whole = false;  // the row has to be searched
  if (part.rank == 0) {
    status = request.wrong;
    if (status == 0) {
      each_block(part.blocks, &desk.nan, [&](i32, u32 its) { status |= its != 0 ? static_cast<u32>(kNan) : 0u; });
      sums.max = learn_part(part, p.chunks_per_block);
      if (!(sums.max > -infinity())) status |= kEmpty;
    }
  }
  const bool found = sums.max > -infinity();
  Source source{&p, &row, false, 1, 0};
  f32 least = -infinity();
  if (found) {
    Weights weights{};
    if (request.weigh) weights = weigh_row(part, p.chunks_per_block, sums.max, request, stream);
    sums.total = weights.of_chunks + weights.of_named;
    if (request.whole) {
      choice = choose_of_row(p, row, part, weights, scale, stream);
    } else {
      Place bound = 0;
      if (s.min_p > 0.0f) least = fmin(sums.max + drop_of(request), sums.max);
      source.count = wanted.none ? -1 : gather_candidates(part, wanted.enough, least, &bound);
      whole = source.count < 0;
      if (is_token(bound)) least = fmax(least, value_at(bound));
    }
  }
  bool ready = part.rank == 0 && (!found || request.whole);
  if (ready) announce(part, true);
  QUERN_ROLLED for (int attempt = 0; attempt < 2; ++attempt) {
    if (ready) break;
    if (attempt == 0) {
      if (part.rank != 0) {
        sync_cluster_shared();
        ready = of_block(&desk.verdict, 0) != 0;
        continue;
      }
      if (!whole && !request.alone) announce(part, true);
      if (whole) {
        if (thread_index() == 0) desk.max = sums.max, desk.total = sums.total;
        announce(part, false);
        continue;
      }
    } else {
      sums.max = of_block(&desk.max, 0), sums.total = of_block(&desk.total, 0);
      source = {&p, &row, true, part.blocks, 0};
      least = s.min_p > 0.0f ? fmin(sums.max + drop_of(request), sums.max) : -infinity();
      sync_block();
    }
    bool ok = true;
    choice = search(source, part, sums, s, least, request.alone, stream, &ok);
    if (attempt == 0 && request.alone) {
      if (!ok && thread_index() == 0) desk.max = sums.max, desk.total = sums.total;
      announce(part, ok);
      sync_block();
    }
    ready = ok;
  }
  if (part.rank != 0 || thread_index() != 0) return;
  f32 logprob = found ? 0.0f : q::nan();
  if (p.sums == Sums::all && found)
    logprob = -(distance(sums.max, choice.x, request.inverse_temperature) + log_of(sums.total));
  report(p, i, choice.id, logprob, sums.max, status, false);
}

QUERN_DEVICE void sample_filtered(const SampleParams& p) {
  QUERN_SHARED(Desk, desk, 1);
  Part part = part_of(p, desk);
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
