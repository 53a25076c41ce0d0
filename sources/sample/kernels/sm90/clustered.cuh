// Samples a token a row where nothing edits logits and nothing filters them, in one launch: the blocks of a cluster
// share the row, and tell each other what there is to know of each chunk of it.
// SPDX-License-Identifier: Apache-2.0
#include "sample/kernels/sm90/blocks.cuh"

namespace q {

// What a block has in static shared memory, at the same place in each of the cluster.
struct Desk {
  u64 scratch[kWarps + 2];
  u64 told;
  u32 nan;  // whether this block met one
};

// The block's part of the row under way, and where things lie in dynamic shared memory.
struct Part {
  i32 rank, blocks;   // this block among those of the cluster
  i32 first, chunks;  // of the row's
  i32 all;            // chunks of the row
  u64* stats;         // [all] of the row's chunks
  u64* weights;       // [all]
  Desk* desk;

  QUERN_DEVICE Room room() const {
    Room r{};
    r.scratch = desk->scratch;
    return r;
  }
  QUERN_DEVICE bool has(i32 chunk) const { return chunk >= first && chunk < first + chunks; }
};

QUERN_DEVICE Part part_of(const SampleParams& p, Desk* desk) {
  Part part{};
  part.rank = static_cast<i32>(cluster_rank()), part.blocks = static_cast<i32>(cluster_size());
  part.all = p.chunks;
  part.first = part.rank * p.chunks_per_block;
  const i32 rest = p.chunks - part.first;
  part.chunks = rest < 0 ? 0 : rest < p.chunks_per_block ? rest : p.chunks_per_block;
  part.stats = reinterpret_cast<u64*>(dynamic_shared());
  part.weights = part.stats + p.chunks;
  part.desk = desk;
  return part;
}

// The last thing that a block does with what others have of a row; after it each may go on alone. Once in a row.
QUERN_DEVICE void release() {
  sync_warp();
  cluster_arrive_relaxed();
}

QUERN_DEVICE f32 logit_of(const SampleParams& p, const Row& row, i32 token) {
  return token < p.vocab ? fmax(to_f32(row.logits[token]), -infinity()) : -infinity();
}

// The lowest token with the largest logit. Of the threads of the block that has it the first one's result counts.
QUERN_DEVICE bool choose_largest(const SampleParams& p, const Part& part, const Row& row, f32 max, Choice* choice) {
  u32 chunk = ~0u;
  QUERN_ROLLED for (i32 c = lane(); c < part.all; c += kWarp) {
    if (chunk == ~0u && max_of_stats(part.stats[c]) == max) chunk = static_cast<u32>(c);
  }
  const i32 its = static_cast<i32>(warp_min(chunk));
  if (warp() != 0 || !part.has(its)) return false;
  u32 best = ~0u;
  QUERN_ROLLED for (i32 from = its * kChunk; from < (its + 1) * kChunk && warp_min(best) == ~0u; from += 8 * kWarp) {
    f32 x[8];
    QUERN_UNROLL for (int j = 0; j < 8; ++j) x[j] = logit_of(p, row, from + j * kWarp + lane());
    QUERN_UNROLL for (int j = 7; j >= 0; --j) best = x[j] == max ? static_cast<u32>(from + j * kWarp + lane()) : best;
  }
  *choice = {static_cast<i32>(warp_min(best)), max};
  return true;
}

// Streams the part: what the chunks come to is left in stats. True in a lane that met a NaN.
QUERN_DEVICE bool stream_part(const SampleParams& p, const Row& row, const Part& part, bool weigh, f32 scale) {
  bool nan = false;
  const i32 chunks = row.logits ? part.chunks : 0;
  QUERN_ROLLED for (i32 c = warp(); c < chunks; c += kWarps) {
    f32 x[kEach];
    load_chunk(row, (part.first + c) * kChunk, p.vocab, p.vectors, x);
    nan |= take_nan_out(x);
    f32 max = x[0], sum = 0.0f;
    QUERN_UNROLL for (int i = 1; i < kEach; ++i) max = fmax(max, x[i]);
    max = warp_max(max);
    if (weigh && max > -infinity()) sum = warp_sum(sum_of_shares(x, max, scale));
    if (lane() == 0) part.stats[part.first + c] = to_stats(max, sum);
  }
  return nan;
}

QUERN_DEVICE void sample_row(const SampleParams& p, Part& part, i32 i) {
  Desk& desk = *part.desk;
  const Row row = row_of_call(p, i);
  const Settings settings = usual_settings_of(p, i);
  const Stream stream{p.seeds ? static_cast<u64>(p.seeds[i]) : p.seed,
                      p.offsets ? static_cast<u64>(p.offsets[i]) : p.offset,
                      p.seeds ? u64{0} : static_cast<u64>(i) + 1};
  const bool draws = settings.temperature != 0.0f, weigh = p.sums == Sums::all || draws;
  const f32 inverse_temperature = inverse_of(settings.temperature);
  RowSums sums{-infinity(), inverse_temperature * kLog2OfE, 0};
  const bool nan = stream_part(p, row, part, weigh, sums.scale);
  if (p.status != nullptr) {
    const u32 any = reduce_max(part.room(), nan ? 1u : 0u);
    if (thread_index() == 0) desk.nan = any;
  }
  sync_cluster_shared();
  learn_stats(part.stats, part.all, p.chunks_per_block, part.rank);
  sync_block();

  u32 status = mistakes_of(part.room(), p, row, settings);
  const bool valid = status == 0;
  if (valid && p.status != nullptr && largest_of_blocks(part.blocks, &desk.nan) != 0) status |= kNan;
  release();
  if (valid) {
    f32 max = -infinity();
    QUERN_FOUR_AT_ONCE for (i32 at = lane(); at < part.all; at += kWarp) max = fmax(max, max_of_stats(part.stats[at]));
    sums.max = value_of(warp_max(key_of(max)));
  }
  bool mine = part.rank == 0;
  Choice choice{-1, 0.0f};
  const bool found = sums.max > -infinity();
  if (!found) {
    status |= valid ? static_cast<u32>(kEmpty) : 0u;
  } else {
    if (weigh)
      sums.total = weigh_stats(desk.scratch, part.stats, part.all, sums.max, inverse_temperature, part.weights);
    if (!draws) {
      mine = choose_largest(p, part, row, sums.max, &choice);
    } else {
      sync_block();
      const i32 chunk = find_on_line(desk.scratch, part.all, scale_to(wide(stream.of_row()), sums.total), part.weights);
      mine = chunk < 0 ? part.rank == 0 : part.has(chunk);
      if (mine && chunk >= 0)
        choice = draw_of_chunk(desk.scratch, &desk.told, chunk, max_of_stats(part.stats[chunk]), sums.scale, stream,
                               [&](i32 token) { return logit_of(p, row, token); });
    }
  }
  if (!mine || thread_index() != 0) return;
  f32 logprob = found ? 0.0f : q::nan();
  if (p.sums == Sums::all && found) logprob = -(distance(sums.max, choice.x, inverse_temperature) + log_of(sums.total));
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

QUERN_KERNEL(quern_sample, THREADS, 2, QUERN_PARAM q::SampleParams p) {
  q::launch_next_grid();
  q::wait_for_previous_grid();
  q::sample_clustered(p);
}
