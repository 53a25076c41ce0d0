// What the last block of a row does with what all of them have left: the choice, its log-probability, and what
// advances.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/arrival.cuh"
#include "sample/kernels/filter.cuh"

namespace q {

// True in all threads of the row's last block that arrives.
QUERN_DEVICE bool arrived_last(u32* counter, i32 blocks) {
  QUERN_SHARED(u32, last, 1);
  if (blocks == 1) {
    sync_block();
    return true;
  }
  return arrived_last(
      thread_index() == 0, &last[0], [] { sync_block(); }, [=] { return counter; },
      [=] { return static_cast<u32>(blocks); });
}

// The lowest token with the largest logit.
QUERN_DEVICE i32 largest_of_row(const Room& room, const Whole& whole) {
  const u32 none = ~0u;
  u32 chunk = none;
  QUERN_ROLLED for (i32 c = thread_index(); c < whole.p->chunks; c += kThreads) {
    if (chunk == none && whole.stats[c].max == whole.max) chunk = static_cast<u32>(c);
  }
  chunk = reduce_min(room, chunk);
  u32 best = none;
  if (chunk != none) {
    const Source source = whole.source(Source::row);
    QUERN_ROLLED for (int j = kChunk / kThreads - 1; j >= 0; --j) {
      const i32 token = static_cast<i32>(chunk) * kChunk + j * kThreads + thread_index();
      if (token < whole.p->vocab && value_at(place_of_token(source, token)) == whole.max)
        best = static_cast<u32>(token);
    }
  }
  if constexpr (kEdits) {
    QUERN_ROLLED for (u32 slot = static_cast<u32>(thread_index()); slot < whole.table.slots; slot += kThreads) {
      const u32 token = whole.table.tokens[slot];
      if (token != EditTable::kFree && whole.table.values[slot] == whole.max && token < best) best = token;
    }
  }
  return static_cast<i32>(reduce_min(room, best));
}

// What the streams left, summed up. *nan: there was one.
QUERN_DEVICE Whole sum_up_row(const Room& room, const SampleParams& p, const Row& row, bool* nan) {
  Whole whole{};
  whole.p = &p, whole.row = &row;
  whole.stats = p.stats + static_cast<i64>(row.i) * p.chunks;
  whole.weights = p.chunk_weights + static_cast<i64>(row.i) * p.chunks;
  whole.table = make_table(p, row);
  f32 max = -infinity();
  u32 any_nan = 0;
  QUERN_ROLLED for (i32 c = thread_index(); c < p.chunks; c += kThreads) {
    max = fmax(max, whole.stats[c].max);
    any_nan |= whole.stats[c].has_nan;
  }
  if constexpr (kEdits) {
    QUERN_ROLLED for (u32 slot = static_cast<u32>(thread_index()); slot < whole.table.slots; slot += kThreads) {
      if (whole.table.tokens[slot] != EditTable::kFree)
        max = fmax(max, whole.table.values[slot]), any_nan |= whole.table.counts[slot];
    }
  }
  whole.max = value_of(reduce_max(room, key_of(max)));
  *nan = reduce_max(room, any_nan) != 0;
  whole.inverse_temperature = inverse_of(filter_temperature(p, row.i));
  if (needs_sums(p, row.i) && whole.max > -infinity()) {
    u64 of_chunks = 0, of_listed = 0;
    QUERN_ROLLED for (i32 c = thread_index(); c < p.chunks; c += kThreads) of_chunks += whole.weights[c] =
        whole.chunk_weight(c);
    if constexpr (kEdits) {
      QUERN_ROLLED for (u32 slot = static_cast<u32>(thread_index()); slot < whole.table.slots; slot += kThreads) {
        const f32 x = whole.table.values[slot];
        if (whole.table.tokens[slot] != EditTable::kFree && x > -infinity())
          of_listed += to_units(share_of_largest(whole.max, x, whole.inverse_temperature * kLog2OfE));
      }
      of_listed = whole.table.slots != 0 ? reduce_sum(room, of_listed) : 0;
    }
    whole.of_chunks = reduce_sum(room, of_chunks), whole.of_listed = of_listed;
  }
  return whole;
}

QUERN_DEVICE void finish(const SampleParams& p, const Row& row) {
  QUERN_SHARED(u32, counts, kBins);
  QUERN_SHARED(u64, weights, kBins);
  QUERN_SHARED(Place, few, kThreads);
  QUERN_SHARED(u64, scratch, kThreads / kWarp + 4);
  QUERN_SHARED(Place, list, kFilters ? kList : 1);
  QUERN_SHARED(u32, total, 2);
  const Room room{counts, weights, few, scratch, list, total};
  const Settings settings = settings_of(p, row.i);
  const u32 wrong = mistakes_of(room, p, row, settings);
  if (wrong != 0) return report(p, row.i, -1, nan(), -infinity(), wrong, true);
  bool has_nan;
  const Whole whole = sum_up_row(room, p, row, &has_nan);
  const u32 status = has_nan ? static_cast<u32>(kNan) : 0u;
  if (!(whole.max > -infinity())) return report(p, row.i, -1, nan(), -infinity(), status | kEmpty, true);

  const Stream stream{p.seeds ? static_cast<u64>(p.seeds[row.i]) : p.seed,
                      p.offsets ? static_cast<u64>(p.offsets[row.i]) : p.offset,
                      p.seeds ? u64{0} : static_cast<u64>(row.i) + 1};
  sync_block();  // whoever has read the offset, before it is raised
  i32 id;
  f32 logprob = 0.0f;
  bool told = false;  // by the filtered distribution
  if (settings.temperature == 0.0f) {
    id = largest_of_row(room, whole);
  } else if (kFilters && (settings.filters() || (p.temperature_last && settings.temperature != 1.0f))) {
    id = choose_filtered(room, whole, settings, stream, &logprob);
    told = p.logprobs_filtered;
  } else {
    id = draw_of_row(room, whole, stream);
  }
  if (!told && p.sums == Sums::all) {
    const f32 log_sum = log_of(whole.total());
    Source source = whole.source(Source::row);
    logprob = -(source.distance_of(place_of_token(source, id)) + log_sum);
    if constexpr (kFilters) {
      if (p.top_n != 0) {
        const i32 count = gather(room, whole, static_cast<u32>(p.top_n), 0);
        if (count >= 0) source.kind = Source::list, source.places = room.list, source.count = count;
        report_largest(room, p, row.i, source, log_sum);
      }
    }
  }
  report(p, row.i, id, logprob, whole.max, status, false);
}

}  // namespace q
