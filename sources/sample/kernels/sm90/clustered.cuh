// Samples a token a row, in one launch: the blocks of a cluster share the row, which lies in their shared memory while
// they look for the token.
// SPDX-License-Identifier: Apache-2.0
#include "sample/kernels/sm90/choose.cuh"

namespace q {

// What the chunks and the lists weigh; weights of chunks are left in `work`. `draws`: the listed tokens race.
QUERN_DEVICE void weigh_row(const Part& part, const Stream& stream, f32 inverse_temperature, bool draws,
                            RowSums* sums) {
  const Room room = part.room();
  Desk& desk = *part.desk;
  if (part.lists()) {
    u64 own = 0, best = ~u64{0};
    each_listed_of_part(part, [&](i32 token, const f32* at, u32) {
      const f32 share = share_of_largest(sums->max, *at, sums->scale);
      own += to_units(share);
      if (!draws || share == 0.0f) return;
      const f32 time = exponential(stream.of_token(token).x[0]) * rcp_approx(share);
      const u64 its = static_cast<u64>(bits_of(time)) << 32 | static_cast<u32>(token);
      best = its < best ? its : best;
    });
    own = reduce_sum(room, own), best = reduce_min(room, best);
    if (thread_index() == 0) desk.listed_total = own, desk.race = best;
    sync_cluster_shared();
    QUERN_ROLLED for (i32 r = 0; r < part.blocks; ++r) sums->of_listed += of_block(&desk.listed_total, r);
  }
  u64* const weights = reinterpret_cast<u64*>(part.work);
  u64 own = 0;
  QUERN_ROLLED for (i32 c = thread_index(); c < part.all; c += kThreads) {
    own += weights[c] = weight_of_chunk(part, c, sums->max, inverse_temperature);
  }
  sums->of_chunks = reduce_sum(room, own);
}

QUERN_DEVICE void sample_row(const SampleParams& p, Part& part, i32 i) {
  Desk& desk = *part.desk;
  const Row row = row_of_call(p, i);
  const i32 chunks = row.logits ? part.chunks : 0;
  if constexpr (kKeeps) {
    QUERN_ROLLED for (i32 c = warp(); c < chunks; c += kWarps) begin_chunk(p, row, part, c);
  }
  // While they come:
  const Settings settings = usual_settings_of(p, i);
  const Stream stream{p.seeds ? static_cast<u64>(p.seeds[i]) : p.seed,
                      p.offsets ? static_cast<u64>(p.offsets[i]) : p.offset,
                      p.seeds ? u64{0} : static_cast<u64>(i) + 1};
  const bool filters = kFilters && settings.filters(), draws = settings.temperature != 0.0f && !filters;
  const bool sieves = filters && settings.temperature != 0.0f && settings.is_top_p_alone(p.vocab);
  const bool weigh = p.sums == Sums::all || draws || sieves;
  const f32 inverse_temperature = inverse_of(settings.temperature);
  RowSums sums{-infinity(), inverse_temperature * kLog2OfE, 0, 0};
  // Masks come a chunk ahead.
  ChunkMasks masks{};
  if (kEdits && warp() < chunks) masks = load_masks(row, (part.first + warp()) * kChunk, p.vocab);
  if (part.lists()) name_part(p, i, desk.scratch, &part.named);
  bool nan = false;
  QUERN_ROLLED for (i32 c = warp(); c < chunks; c += kWarps) {
    if constexpr (kKeeps) {
      if (c + kWarps < chunks) {
        copy_async_wait<1>();
      } else {
        copy_async_wait<0>();
      }
      const ChunkMasks own = masks;
      if (kEdits && c + kWarps < chunks) masks = load_masks(row, (part.first + c + kWarps) * kChunk, p.vocab);
      widen_chunk(p, row, part, c);
      nan |= take_chunk(p, row, part, c, weigh, sieves, sums.scale, own);
    } else {
      f32 x[kEach];
      load_chunk(row, (part.first + c) * kChunk, p.vocab, p.vectors, x);
      nan |= take_loaded_chunk(part, c, weigh, sums.scale, x);
    }
  }
  if (part.lists() && row.logits) settle_listed(p, row, part, &nan);
  const bool told = p.status != nullptr;
  if (told) {
    const u32 any = reduce_max(part.room(), nan ? 1u : 0u);
    if (thread_index() == 0) desk.nan = any;
  }
  sync_cluster_shared();
  learn_chunks(part, p.chunks_per_block, sieves);

  const Room room = part.room();
  u32 status = mistakes_of(room, p, row, settings);
  OwnChoice choice{part.rank == 0, -1, 0.0f};
  if (status != 0) {
    release();
  } else {
    if (told) {
      QUERN_ROLLED for (i32 r = 0; r < part.blocks; ++r) status |=
          of_block(&desk.nan, r) != 0 ? static_cast<u32>(kNan) : 0u;
    }
    f32 max = -infinity();
    QUERN_FOUR_AT_ONCE for (i32 at = lane(); at < part.all; at += kWarp) max = fmax(max, part.top_of(at));
    sums.max = value_of(warp_max(key_of(max)));
    if (!(sums.max > -infinity())) {
      status |= kEmpty;
      release();
    } else {
      if (weigh) weigh_row(part, stream, inverse_temperature, draws, &sums);
      if (settings.temperature == 0.0f) {
        choice = choose_largest(part, row, sums.max);
      } else if (draws) {
        choice = choose_of_row(part, row, sums, stream);
      } else if constexpr (kFilters) {
        choice = choose_of_filtered(p, part, sums, settings, inverse_temperature, sieves, stream);
      }
    }
  }
  if (!choice.mine || thread_index() != 0) return;
  const bool found = sums.max > -infinity();
  f32 logprob = found ? 0.0f : q::nan();
  if (p.sums == Sums::all && found)
    logprob = -(distance(sums.max, choice.x, inverse_temperature) + log_of(sums.total()));
  report(p, i, choice.id, logprob, sums.max, status, false);
}

QUERN_DEVICE void sample_clustered(const SampleParams& p) {
  QUERN_SHARED(Desk, desk, 1);
  Part part = part_of(p, desk);
  const i32 clusters = block_count(0) / part.blocks;
  QUERN_ROLLED for (i32 i = block_index(0) / part.blocks; i < p.count; i += clusters) {
    sample_row(p, part, i);
    // Before this block's shared memory is used again or is gone, the others have read it, and all of its own threads.
    cluster_wait();
    sync_block();
  }
}

}  // namespace q

QUERN_KERNEL(quern_sample, THREADS, 1, QUERN_PARAM q::SampleParams p) {
  q::launch_next_grid();
  q::wait_for_previous_grid();
  q::sample_clustered(p);
}
