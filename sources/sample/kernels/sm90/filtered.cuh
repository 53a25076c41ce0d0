// Samples a token a row where filters may be given, in one launch: the blocks of a cluster share the row. It streams by
// once; what may stay is looked through by the first block. Where that was not enough, as in a row whose logits are
// alike, all blocks read the row again.
// SPDX-License-Identifier: Apache-2.0
#include "sample/kernels/sm90/resolve.cuh"

namespace q {

// What is asked of a row.
struct Request {
  Settings settings;
  bool whole;  // a draw from all of the row
  bool alone;  // a share of the whole row's weight
  bool weigh;  // sums over chunks are asked for
  bool late;   // edits wait for the end
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
  // Nothing becomes larger, and no more is asked than which are the largest. A mask that few pass would keep most of
  // what reaches the bound from being of use.
  const auto lowers = [](f32 penalty, f32 least) { return penalty >= least && penalty < infinity(); };
  r.late = kEdits && !r.weigh && !(r.settings.min_p > 0.0f) && !row.allowed && !p.bias_offsets &&
           lowers(row.repetition, 1.0f) && lowers(row.presence, 0.0f) && lowers(row.frequency, 0.0f);
  return r;
}
// How far below the largest logit what min_p leaves may lie: <= 0.
QUERN_DEVICE f32 drop_of(const Request& r) {
  return r.settings.min_p > 0.0f ? fmin(log(r.settings.min_p) * rcp_approx(r.inverse_temperature), 0.0f) : -infinity();
}
QUERN_DEVICE f32 least_of(const Request& r, f32 max) {
  return r.settings.min_p > 0.0f ? fmin(max + drop_of(r), max) : -infinity();
}
QUERN_DEVICE Wanted wanted_of(const SampleParams& p, const Part& part, const Request& r) {
  const Settings& s = r.settings;
  Wanted w{};
  w.drop = drop_of(r), w.loads = kLoads;
  const bool counts = s.top_k > 0 && s.top_k < p.vocab;
  w.none = r.whole || (p.joint && counts && s.top_p < 1.0f);
  const f32 room = 0.7f * static_cast<f32>(part.most), vocab = static_cast<f32>(p.vocab);
  if (counts) {
    // Where so many pairs reach the bound, enough tokens do, or it is found out. Half of k at least: those of a row
    // that count may lie close together, and so mostly in a few of the pairs.
    constexpr i32 kFew = 128;
    w.enough = static_cast<u32>(s.top_k);
    // Of logits that have yet to be edited there are more, for some of them will not reach it then.
    const f32 number = (1.5f * static_cast<f32>(s.top_k) + 200.0f) * (r.late ? 1.5f : 1.0f);
    if (number > room) w.none = true;
    const Guess guess = guess_of_share(part, fmin(number * rcp_approx(vocab), 1.0f));
    const u32 half = static_cast<u32>(s.top_k < kFew ? s.top_k : kFew) / 2 + 1;
    w.nth = guess.nth != 0 && guess.nth < half ? half : guess.nth, w.loads = guess.loads;
    if (!r.late && (w.nth > w.enough || (guess.nth == 0 && s.top_k <= kFew))) w.nth = w.enough, w.loads = kLoads;
    const u32 pairs = static_cast<u32>((part.chunks < kWarps ? part.chunks : kWarps) * (kWarp / 2));
    if (w.nth > pairs) w.nth = 0;
  } else if (r.alone) {
    // More would take longer, and would be enough for few rows more.
    constexpr f32 kMost = 3200.0f;
    const Guess guess = guess_of_share(part, fmin(fmin(room, kMost) * rcp_approx(vocab), 1.0f));
    w.nth = guess.nth, w.loads = guess.loads;
  }
  if (r.settings.temperature != r.settings.temperature) w.none = true;
  return w;
}

// In the first block: what the others know of their chunks.
QUERN_DEVICE void learn_part(const Part& part, i32 chunks_each) {
  if (part.blocks == 1) return;
  QUERN_ROLLED for (i32 c = chunks_each + thread_index(); c < part.all; c += kThreads) {
    part.stats[c] = of_block(part.stats + c, c / chunks_each);
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
    const f32 x = id >= 0 ? value_of_named(part, p.chunks_per_block, id) : 0.0f;
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
  if (thread_index() == 0) part.desk->told = 0;
  sync_block();
  QUERN_UNROLL for (int j = 0; j < kOwn; ++j) {
    if (before <= within && within < before + weight[j]) part.desk->told = to_candidate(x[j], from + j + 1);
    before += weight[j];
  }
  sync_block();
  const u64 found = part.desk->told;
  return {token_of_candidate(found) - 1, value_of_candidate(found)};
}

QUERN_DEVICE void sample_row(const SampleParams& p, Part& part, Request* asked, i32 i) {
  Desk& desk = *part.desk;
  const Row row = row_of_call(p, i);
  f32 largest;
  if (part.names()) ask_for_lists(p, i);
  const auto name = [&] {
    part.named = name_tokens(p, i, desk.scratch, part.named);
    if (thread_index() == 0) desk.named = part.named.count, desk.plan.named = true;
    sync_block();
  };
  bool nan = stream_part(
      p, row, part, &largest,
      [&] {
        const Request request = request_of(p, part.room(), row);
        if (thread_index() == 0) {
          desk.held = 0, desk.bound = 0, desk.nan = 0, desk.top = kDead, desk.named = 0;
          // Of banned tokens it does not matter whether they are NaN, if it is asked for.
          desk.plan = {wanted_of(p, part, request),
                       request.weigh,
                       request.late,
                       !request.late || !part.names() || (p.status != nullptr && p.banned.tokens != nullptr),
                       p.status != nullptr,
                       request.inverse_temperature * kLog2OfE};
          *asked = request;
        }
        sync_block();
        if (part.names() && desk.plan.named) name();
      },
      name);
  // Read back: what is held in registers as the row streams by would be spilled.
  const Request& request = *asked;
  const Wanted& wanted = desk.plan.wanted;
  const Stream stream{p.seeds ? static_cast<u64>(p.seeds[i]) : p.seed,
                      p.offsets ? static_cast<u64>(p.offsets[i]) : p.offset,
                      p.seeds ? u64{0} : static_cast<u64>(i) + 1};
  const Settings& s = request.settings;
  const f32 scale = request.inverse_temperature * kLog2OfE;
  u32 top = request.late ? kDead : key_of(largest);
  if (part.names() && !request.late && row.logits) {
    sync_block();                    // their values lie where chunks came
    const Place bound = desk.bound;  // what is lower than the bound does not matter
    nan |= settle_named(p, row, part.named, [&](i32 token, f32 x) {
      if (!(x > -infinity())) return;
      const u32 key = key_of(x);
      top = key > top ? key : top;
      if (wanted.none || place_of(x, token) < bound) return;
      const u32 at = atomic_add(&desk.held, 1u);
      if (at < static_cast<u32>(part.most)) part.candidates[at] = to_candidate(x, token);
    });
  }
  if (request.late) {
    sync_block();  // all candidates are there
    settle_candidates(p, row, part, &top);
  }
  top = warp_max(top);
  if (lane() == 0) atomic_max(&desk.top, top);
  if (p.status != nullptr && nan) desk.nan = 1;
  sync_blocks(part.blocks);

  // What the first block does with the candidates; then, where these were not enough, all with the row.
  enum class Then : i32 { done, whole } then = Then::done;
  u32 status = 0;
  RowSums sums{-infinity(), scale, 0};
  Choice choice{-1, 0.0f};
  if (part.rank == 0) {
    status = request.wrong;
    if (status == 0) {
      each_block(part.blocks, &desk.nan, [&](i32, u32 its) { status |= its != 0 ? static_cast<u32>(kNan) : 0u; });
      sums.max = largest_of_row(part);
      if (!(sums.max > -infinity())) {
        // Where edits wait, only what reaches the bound has been looked at.
        if (request.late) {
          then = Then::whole;
        } else {
          status |= kEmpty;
        }
      }
    }
    if (sums.max > -infinity()) {
      Weights weights{};
      if (request.weigh) {
        learn_part(part, p.chunks_per_block);
        sync_block();
        weights = weigh_row(part, p.chunks_per_block, sums.max, request, stream);
      }
      sums.total = weights.of_chunks + weights.of_named;
      if (request.whole) {
        choice = choose_of_row(p, row, part, weights, scale, stream);
      } else if (wanted.none) {
        then = Then::whole;
      } else {
        Place bound;
        const i32 count = gather_candidates(part, &bound);
        if (thread_index() == 0)
          desk.asked = {count,
                        bound,
                        least_of(request, sums.max),
                        wanted.enough,
                        0,
                        false,
                        0.0f,
                        0.0f,
                        sums.max,
                        scale,
                        sums.total,
                        s.top_p,
                        s.top_k,
                        request.alone,
                        wide(stream.of_row())};
        sync_block();
        then = Then::whole;
        if (count >= 0) {
          const PickedToken token = pick(&desk, part.candidates, part.work, part.spots, p.vocab);
          choice = token.choice;
          if (token.picked == Picked::done) then = Then::done;
        }
      }
    }
  }
  if (part.rank == 0 && thread_index() == 0)
    desk.verdict = then == Then::done, desk.max = sums.max, desk.total = sums.total;
  sync_blocks(part.blocks);
  if (of_block(&desk.verdict, 0) == 0) {
    sums.max = of_block(&desk.max, 0), sums.total = of_block(&desk.total, 0);
    if (request.late) {
      if (part.names() && row.logits) {
        part.named = name_tokens(p, i, desk.scratch, part.named);
        QUERN_ROLLED for (u32 r = static_cast<u32>(thread_index()); r < part.named.count; r += kThreads) {
          const i32 token = part.named.token_of(r);
          part.named.values[r] = edit_as_said(row, said_of(part.named, token), token, to_f32(row.logits[token]));
        }
        sync_block();
      }
    }
    const Resolved resolved = resolve_row(p, row, part, sums, s, least_of(request, sums.max), request.alone,
                                          request.late, wide(stream.of_row()));
    choice = resolved.choice, sums.max = resolved.max;
    if (!(sums.max > -infinity())) status |= kEmpty;
  }
  const bool found = sums.max > -infinity();
  if (part.rank != 0 || thread_index() != 0) return;
  f32 logprob = found ? 0.0f : q::nan();
  if (p.sums == Sums::all && found)
    logprob = -(distance(sums.max, choice.x, request.inverse_temperature) + log_of(sums.total));
  report(p, i, choice.id, logprob, sums.max, status, false);
}

QUERN_DEVICE void sample_filtered(const SampleParams& p) {
  QUERN_SHARED(Desk, desk, 1);
  QUERN_SHARED(Request, asked, 1);
  Part part = part_of(p, desk);
  const i32 clusters = block_count(0) / part.blocks;
  QUERN_ROLLED for (i32 i = block_index(0) / part.blocks; i < p.count; i += clusters) {
    sample_row(p, part, asked, i);
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
