// Samples a token a row, in one launch: the blocks of a cluster share the row, which lies in their shared memory while
// they look for the token.
// SPDX-License-Identifier: Apache-2.0
#include "sample/kernels/sm90/choose_filtered.cuh"
#include "sample/kernels/sm90/chunk.cuh"

namespace q {

// What the chunks and the lists weigh; weights of chunks are left in part.weights. `draws`: the listed tokens race.
QUERN_DEVICE void weigh_row(const Part& part, const Stream& stream, f32 inverse_temperature, bool draws,
                            RowSums* sums) {
  const Room room = part.room();
  Desk& desk = *part.desk;
  if (part.lists()) {
    u64 own = 0, best = ~u64{0};
    QUERN_ROLLED for (i32 c = warp(); c < part.chunks; c += kWarps) {
      each_listed_in_chunk(part, c, [&](i32 local, u32) {
        const f32 share = share_of_largest(sums->max, part.slice[local], sums->scale);
        own += to_units(share);
        if (!draws || share == 0.0f) return;
        const i32 token = part.begin() + local;
        const f32 time = exponential(stream.of_token(token).x[0]) * rcp_approx(share);
        const u64 its = static_cast<u64>(bits_of(time)) << 32 | static_cast<u32>(token);
        best = its < best ? its : best;
      });
    }
    own = reduce_sum(room, own), best = reduce_min(room, best);
    if (thread_index() == 0) desk.listed_total = own, desk.race = best;
    sync_cluster_shared();
    QUERN_ROLLED for (i32 r = 0; r < part.blocks; ++r) sums->of_listed += of_block(&desk.listed_total, r);
  }
  u64 own = 0;
  const Run run(part.all);
  QUERN_ROLLED for (i32 c = run.begin; c < run.end; ++c) {
    own += part.weights[c] = weight_of_chunk(part, c, sums->max, inverse_temperature);
  }
  if (draws) {
    sums->before = sum_before(room.scratch, own), sums->of_chunks = room.scratch[kWarps];
  } else {
    sums->of_chunks = reduce_sum(room, own);
  }
}

// Whether what edits a row may wait until there are few tokens left: the k largest alone are asked for, and nothing
// becomes larger.
QUERN_DEVICE bool may_wait(const SampleParams& p, const Row& row, const Settings& s) {
  if constexpr (!kEdits || !kFilters) return false;
  const auto lowers = [](f32 penalty, f32 least) { return penalty >= least && penalty < infinity(); };
  const i32 k = s.temperature == 0.0f ? 1 : s.top_k;
  return k > 0 && 4 * k <= 3 * p.chunks && p.chunks_per_block * kGroups * 4 <= kSievedBytes &&
         (s.temperature == 0.0f || (!(s.min_p > 0.0f) && !p.joint)) && p.sums != Sums::all && !p.values &&
         !row.allowed && !p.bias_offsets && lowers(row.repetition, 1.0f) && lowers(row.presence, 0.0f) &&
         lowers(row.frequency, 0.0f) &&
         !(p.status && p.banned.tokens);  // of banned tokens it does not matter whether they are NaN
}

// `first`: of the block's rows. *phase: of desk.noted. `again`: it has been tried before, with edits that waited. False
// if that is to be done.
QUERN_DEVICE bool sample_row(const SampleParams& p, Part part, i32 i, bool first, bool again, u32* phase) {
  Desk& desk = *part.desk;
  // What is told of the next row may come while this one's is read.
  if (*phase != 0) part.notes += part.all;
  const Entries entries(p, i);
  const HeldEntries held = ask_for_entries(entries, 0);
  const Row row = row_of_call(p, i);
  const i32 chunks = row.logits ? part.chunks : 0;
  if constexpr (kKeeps) {
    QUERN_ROLLED for (i32 c = warp(); c < chunks; c += kWarps) begin_chunk(p, row, part, c);
  }
  // While they come:
  Settings settings = usual_settings_of(p, i);
  const Stream stream{p.seeds ? static_cast<u64>(p.seeds[i]) : p.seed,
                      p.offsets ? static_cast<u64>(p.offsets[i]) : p.offset,
                      p.seeds ? u64{0} : static_cast<u64>(i) + 1};
  if (row.logits && thread_index() == 0)
    mbarrier_arrive_expect(desk.noted, static_cast<u32>(part.all - part.chunks) * static_cast<u32>(sizeof(Note)));
  if constexpr (kFilters) {
    Bins::of(part).zero();
    if (thread_index() < 2) desk.listed[thread_index()] = 0;
    if (thread_index() == 0) desk.reach = 0, desk.top = kDead;
  }
  const bool filters = kFilters && settings.filters(), draws = settings.temperature != 0.0f && !filters;
  const bool late = !again && may_wait(p, row, settings);
  const bool alone = filters && settings.temperature != 0.0f && settings.is_top_p_alone(p.vocab);
  // A bound is asked for that few tokens reach.
  const bool sieves = alone || (filters && !late && (settings.top_k > p.chunks || (p.joint && settings.top_k > 0)));
  const bool weigh = p.sums == Sums::all || draws || alone;
  const f32 inverse_temperature = inverse_of(settings.temperature);
  RowSums sums{-infinity(), inverse_temperature * kLog2OfE, -infinity(), false, 0, 0, 0};
  // Masks come a chunk ahead.
  ChunkMasks masks{};
  if (kEdits && warp() < chunks) masks = load_masks(row, (part.first + warp()) * kChunk, p.vocab);
  if (part.lists() && !late) name_listed(p, entries, held, part);
  u32 status = mistakes_of(part.room(), p, row, settings);
  const u64 random = settings.temperature != 0.0f ? wide(stream.of_row()) : 0,
            random_within = draws ? wide(stream.at(kWithinChunk)) : 0;
  if (thread_index() == 0) desk.tokens[0] = desk.tokens[1] = 0;
  // All threads have read the offset before notes go out, behind which it is raised.
  if (p.offsets) sync_block();
  bool waits = first;  // for the other blocks' barriers, which notes count on
  QUERN_ROLLED for (i32 c = warp(); c < chunks; c += kWarps) {
    Note note;
    if constexpr (kKeeps) {
      if (c + kWarps < chunks) {
        copy_async_wait<1>();
      } else {
        copy_async_wait<0>();
      }
      const ChunkMasks own = masks;
      if (kEdits && c + kWarps < chunks) masks = load_masks(row, (part.first + c + kWarps) * kChunk, p.vocab);
      widen_chunk(p, row, part, c);
      if constexpr (kEdits && kFilters) {
        if (late && lane() < kGroups) part.prompt[c * kGroups + lane()] = own.prompt;
      }
      note = take_chunk(p, row, part, c, weigh, sieves, sums.scale, own, late);
    } else {
      f32 x[kEach];
      load_chunk(row, (part.first + c) * kChunk, p.vocab, p.vectors, x);
      note = take_loaded_chunk(weigh, sums.scale, x);
    }
    if (waits) cluster_wait();
    waits = false;
    tell_chunk(part, part.first + c, note);
  }
  if (waits) cluster_wait();
  if (row.logits) {
    mbarrier_wait_cluster(desk.noted, *phase);
    *phase ^= 1;
  }
  sync_block();

  OwnChoice choice{part.rank == 0, -1, 0.0f};
  bool found = false, done = true;
  if (status == 0) {
    learn_row(part, sieves, &sums);
    found = sums.max > -infinity();
    if (sums.nan) status |= static_cast<u32>(kNan);
    if (!found) status |= static_cast<u32>(kEmpty);
  }
  if (found && weigh) weigh_row(part, stream, inverse_temperature, draws, &sums);
  if (!found || (settings.temperature == 0.0f && !late)) {
    release();
    if (found) choice = choose_largest(part, row, sums.max);
  } else if (draws) {
    choice = choose_of_row(part, row, sums, random, random_within);
  } else if constexpr (kFilters) {
    if (late && settings.temperature == 0.0f) settings.top_k = 1, settings.top_p = 1.0f, settings.min_p = 0.0f;
    const Late waiting{late, p, row, entries, held};
    choice = choose_of_filtered(p, part, sums, settings, inverse_temperature, alone, random, waiting, &done);
  }
  if (!done) return false;
  if (!choice.mine || warp() != 0) return true;
  f32 logprob = found ? 0.0f : q::nan();
  if (p.sums == Sums::all && found) {
    logprob = -(distance(sums.max, choice.x, inverse_temperature) + log_of(sums.total()));
  }
  if (thread_index() == 0) report(p, i, choice.id, logprob, sums.max, status, false);
  return true;
}

QUERN_DEVICE void sample_clustered(const SampleParams& p) {
  QUERN_SHARED(Desk, desk, 1);
  const Part part = part_of(p, desk);
  if (thread_index() == 0) {
    mbarrier_init(desk->noted, 1);
    fence_mbarrier_init();
  }
  sync_block();
  release();
  const i32 clusters = block_count(0) / part.blocks, begin = block_index(0) / part.blocks;
  u32 phase = 0;
  bool first = true, again = false;
  QUERN_ROLLED for (i32 i = begin; i < p.count;) {
    again = !sample_row(p, part, i, first, again, &phase);
    first = false;
    if (!again) i += clusters;
    // Before this block's shared memory is used again or is gone, the others have read it, and all of its own threads.
    cluster_wait();
    sync_block();
  }
}

}  // namespace q

QUERN_KERNEL(quern_sample, THREADS, (FILTERS || EDITS ? 1 : 4), QUERN_PARAM q::SampleParams p) {
  q::launch_next_grid();
  q::wait_for_previous_grid();
  q::sample_clustered(p);
}
