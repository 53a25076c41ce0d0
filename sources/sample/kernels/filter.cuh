// Which tokens of a row stay, and which of those is drawn. Everything here is done by the row's last block, all of its
// threads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sample/kernels/draw.cuh"
#include "sample/kernels/report.cuh"
#include "sample/kernels/stream.cuh"

namespace q {

// What the streams have left of a row, and the table of its listed tokens.
struct Whole {
  const SampleParams* p;
  const Row* row;
  EditTable table;
  const ChunkStats* stats;
  f32 max, inverse_temperature;  // of the filters
  u64* weights;                  // of each chunk
  u64 of_chunks, of_listed;      // their sum, and that of the listed tokens

  QUERN_DEVICE u64 total() const { return of_chunks + of_listed; }
  QUERN_DEVICE u64 chunk_weight(i32 chunk) const {
    const ChunkStats& s = stats[chunk];
    if (!(s.max > -infinity())) return 0;
    return static_cast<u64>(s.sum * exp_of_minus(at_most(distance(max, s.max, inverse_temperature), 128.0f)) * kUnits);
  }
  QUERN_DEVICE Source source(Source::Kind kind) const {
    Source s{};
    s.kind = kind;
    s.of = row, s.table = table, s.p = p;
    s.count = kind == Source::row ? p->vocab : 0;
    if (kind == Source::groups) s.slots = static_cast<i32>(table.slots);
    s.most = ~u64{0};
    s.max = s.filter_max = max, s.inverse_temperature = s.filter_inverse = inverse_temperature;
    return s;
  }
};

// By the weights of the whole row, which lie in chunk_weights.
QUERN_DEVICE i32 draw_of_row(const Room& room, const Whole& whole, const Stream& stream) {
  const u64 target = scale_to(wide(stream.of_row()), whole.total());
  if (kEdits && target >= whole.of_chunks) return draw_by_race(room, whole.source(Source::groups), stream);
  const i32 chunk = find_on_line(room.scratch, whole.p->chunks, target, whole.weights);
  Source source = whole.source(Source::row);
  source.unlisted = true;
  source.max = whole.stats[chunk].max;
  return draw_in_chunk(room, source, chunk, stream);
}

// All tokens with keys of at least `least` into the list, from groups that lie no lower than the source's least place.
// How many; -1: there is no room for them.
QUERN_CALLED i32 gather_from(const Room& room, const Whole& whole, const Source& groups) {
  const u32 least = key_at(groups.least);
  sync_block();
  if (thread_index() == 0) room.total[0] = room.total[1] = 0;
  sync_block();
  constexpr int kAtOnce = 8;  // loads under way
  QUERN_ROLLED for (i32 base = thread_index(); base < groups.count; base += kThreads * kAtOnce) {
    u32 keys[kAtOnce];
    QUERN_UNROLL for (int j = 0; j < kAtOnce; ++j) keys[j] =
        base + j * kThreads < groups.count ? groups.keys[base + j * kThreads] : 0;
    QUERN_ROLLED for (int j = 0; j < kAtOnce; ++j) {
      const i32 group = base + j * kThreads;
      if (keys[j] < least || (static_cast<u64>(keys[j]) << 32 | static_cast<u32>(~(group * kGroup))) < groups.least)
        continue;
      const u32 at = atomic_add(room.total, 1u);
      if (at < static_cast<u32>(kBins)) room.counts[at] = static_cast<u32>(group);
    }
  }
  const auto push = [&](Place place) {
    const u32 at = atomic_add(room.total + 1, 1u);
    if (at < static_cast<u32>(kList)) room.list[at] = place;
  };
  if constexpr (kEdits) {
    QUERN_ROLLED for (i32 slot = thread_index(); slot < groups.slots; slot += kThreads) {
      const Place place = groups.load(groups.count + slot);
      if (key_at(place) >= least) push(place);
    }
  }
  sync_block();
  const u32 chosen = room.total[0];
  if (chosen > static_cast<u32>(kBins)) return -1;
  QUERN_ROLLED for (u32 base = static_cast<u32>(thread_index()); base < chosen * kGroup; base += kThreads * kAtOnce) {
    f32 x[kAtOnce];
    i32 token[kAtOnce];
    QUERN_UNROLL for (int j = 0; j < kAtOnce; ++j) {
      const u32 at = base + j * kThreads;
      token[j] = at < chosen * kGroup
                     ? static_cast<i32>(room.counts[at / kGroup]) * kGroup + static_cast<i32>(at % kGroup)
                     : whole.p->vocab;
      x[j] = token[j] < whole.p->vocab ? edited(*whole.row, token[j]) : -infinity();
    }
    QUERN_ROLLED for (int j = 0; j < kAtOnce; ++j) {
      if (key_of(x[j]) < least) continue;
      if (kEdits && whole.table.slots != 0 && whole.table.find(token[j]) != whole.table.slots) continue;
      push(place_of(x[j], token[j]));
    }
  }
  sync_block();
  const u32 count = room.total[1];
  return count > static_cast<u32>(kList) ? -1 : static_cast<i32>(count);
}

// The largest `wanted` tokens (0: however many) with keys of at least `least_key`, and perhaps more, into the list. How
// many; -1: it has no room for them.
//
// As many chunks have a token at or above the `wanted`th of the chunks' largest: that is low enough, and soon found.
// Where it lets too many through, as with equal logits, the cut is made among groups and listed tokens: no token of a
// group below it is among the largest, since each of theirs has `wanted` before it.
QUERN_DEVICE i32 gather(const Room& room, const Whole& whole, u32 wanted, u32 least_key) {
  Source groups = whole.source(Source::groups);
  groups.count = whole.p->chunks * kGroups;
  groups.keys = whole.p->group_keys + static_cast<i64>(whole.row->i) * groups.count;
  groups.least = static_cast<u64>(least_key > kDead ? least_key : kDead + 1) << 32;
  const u32 chunks = static_cast<u32>(whole.p->chunks);
  if (wanted == 0 || (wanted <= chunks && chunks <= static_cast<u32>(kThreads))) {
    Source above = groups;
    if (wanted != 0) {
      const u32 t = static_cast<u32>(thread_index());
      const u64 own = t < chunks ? static_cast<u64>(key_of(whole.stats[t].max)) << 32 | t : 0;
      sync_block();
      room.few[t] = own;
      sync_block();
      u32 larger = 0;
      QUERN_FOUR_AT_ONCE for (u32 i = 0; i < chunks; ++i) larger += room.few[i] > own;
      const u64 cut = reduce_max(room, t < chunks && larger + 1 == wanted ? own : u64{0}) >> 32 << 32;
      above.least = cut > above.least ? cut : above.least;
    }
    const i32 count = gather_from(room, whole, above);
    if (count >= 0 || wanted == 0) return count;
  }
  const Place cut = least_of_largest(room, groups, wanted);
  groups.least = cut > groups.least ? cut : groups.least;
  return gather_from(room, whole, groups);
}

// max - n_sigma standard deviations of the finite logits.
QUERN_CALLED f32 least_by_sigma(const Room& room, const Whole& whole, f32 n_sigma) {
  const i32 chunks = whole.p->chunks;
  const auto sum_up = [&](f64 mean, f64* first, f64* second) {
    f64 of_first = 0, of_second = 0;
    QUERN_ROLLED for (i32 c = thread_index(); c < chunks; c += kThreads) {
      const ChunkStats& s = whole.stats[c];
      const f64 base = static_cast<f64>(s.max < infinity() ? s.max : 0.0f) - mean, n = s.alive;
      if (s.alive == 0) continue;
      of_first += n * base + s.from_max;
      of_second += n * base * base + 2 * base * s.from_max + s.squares;
    }
    if constexpr (kEdits) {
      QUERN_ROLLED for (u32 slot = static_cast<u32>(thread_index()); slot < whole.table.slots; slot += kThreads) {
        if (whole.table.tokens[slot] == EditTable::kFree || !(fabs(whole.table.values[slot]) < infinity())) continue;
        const f64 d = whole.table.values[slot] - mean;
        of_first += d, of_second += d * d;
      }
    }
    // In an order of its own: that of slots is not always the same. Doubles hide what comes of it, but for one bit in
    // 2^29.
    f64* sums = reinterpret_cast<f64*>(room.weights);
    sums[2 * thread_index()] = of_first, sums[2 * thread_index() + 1] = of_second;
    sync_block();
    of_first = of_second = 0;
    QUERN_ROLLED for (int t = 0; t < kThreads; ++t) of_first += sums[2 * t], of_second += sums[2 * t + 1];
    sync_block();
    *first = of_first, *second = of_second;
  };
  u32 count = 0;
  QUERN_ROLLED for (i32 c = thread_index(); c < chunks; c += kThreads) count += whole.stats[c].alive;
  if constexpr (kEdits) {
    QUERN_ROLLED for (u32 slot = static_cast<u32>(thread_index()); slot < whole.table.slots; slot += kThreads) {
      count += whole.table.tokens[slot] != EditTable::kFree && fabs(whole.table.values[slot]) < infinity();
    }
  }
  count = reduce_sum(room, count);
  if (count == 0) return -infinity();
  f64 sum, squares, rest;
  sum_up(0.0, &sum, &squares);
  const f64 mean = sum / count;
  sum_up(mean, &rest, &squares);
  // The root of f32, of a number that f32 has: both ways by powers of two.
  const f64 variance = squares / count;
  const bool large = variance > 1e20, small = variance < 1e-20;
  const f32 root = sqrt(static_cast<f32>(variance * (large ? 0x1p-140 : small ? 0x1p140 : 1.0)));
  return whole.max - n_sigma * (root * (large ? 0x1p70f : small ? 0x1p-70f : 1.0f));
}

struct Added {
  u64 weight, weighed;  // of the weights, and of the weights times their distances
  u32 count;
};
QUERN_CALLED Added sum_up(const Room& room, const Source& source) {
  Added s{0, 0, 0};
  each(source, [&](Place place) {
    if (place == 0) return;
    const f32 z = at_most(source.distance_of(place), 128.0f), w = source.share(place);
    s.weight += to_units(w), s.weighed += to_units(w * z), ++s.count;
  });
  return {reduce_sum(room, s.weight), reduce_sum(room, s.weighed), reduce_sum(room, s.count)};
}
// Narrows the source to what stays. `everything`: nothing has been taken from the row so far, `joint`: what top_p is a
// share of, 0: of what is left.
QUERN_CALLED void filter(const Room& room, const Whole& whole, const Settings& s, const Stream& stream, bool everything,
                         u64 joint, Source* source) {
  if (s.top_k > 0) {
    const Place least = least_of_largest(room, *source, static_cast<u32>(s.top_k));
    if (least > source->least) source->least = least, everything = false;
  }
  if (s.top_p < 1.0f) {
    const bool alone = everything && !(s.top_k > 0 && s.top_k < whole.p->vocab) && whole.total() != 0;
    const u64 total = joint != 0 ? joint : alone ? whole.total() : sum_up(room, *source).weight;
    Source reached = *source;
    if (everything) {
      // Tokens so small that all of them together make up less than what top_p leaves out.
      const f32 most = static_cast<f32>(total) * (1.0f - s.top_p) / (static_cast<f32>(whole.p->vocab) * kUnits);
      if (most > 0.0f && whole.inverse_temperature > 0.0f) {
        const f32 least = whole.max + (log(most) - 0.01f) / whole.inverse_temperature;
        reached.least = static_cast<u64>(key_of(least)) << 32;
      }
    }
    const Place least = least_of_heaviest(room, reached, share_of(s.top_p, total, false), false);
    if (least > source->least) source->least = least;
  }
  if (s.typical_p < 1.0f) {
    const Added sums = sum_up(room, *source);
    source->log_sum = log_of(sums.weight);
    source->entropy = source->log_sum + static_cast<f32>(sums.weighed) / static_cast<f32>(sums.weight);
    source->typical_least = least_of_heaviest(room, *source, share_of(s.typical_p, sums.weight, true), true);
    source->typical = true;
  }
  if (s.xtc_probability > 0.0f && s.xtc_threshold <= 0.5f && uniform_of(stream.of_row().x[2]) <= s.xtc_probability) {
    const u64 total = sum_up(room, *source).weight;
    const f64 least = static_cast<f64>(s.xtc_threshold) * static_cast<f64>(total);
    u32 count = 0;
    Place last = ~u64{0};
    each(*source, [&](Place place) {
      if (place == 0 || static_cast<f64>(source->weigh(place)) < least) return;
      ++count;
      last = place < last ? place : last;
    });
    count = reduce_sum(room, count), last = reduce_min(room, last);
    if (count > 1) source->most = last;
  }
}

// The temperature of the draw, from the entropy of what is left at temperature 1.
QUERN_CALLED f32 dynamic_temperature(const Room& room, const Settings& s, const Source& source) {
  if (!(s.dynamic_range > 0.0f)) return s.temperature;
  const Added sums = sum_up(room, source);
  if (sums.count <= 1) return s.temperature;
  const f32 entropy = log_of(sums.weight) + static_cast<f32>(sums.weighed) / static_cast<f32>(sums.weight);
  const f32 low = fmax(s.temperature - s.dynamic_range, 0.0f), high = s.temperature + s.dynamic_range;
  const f32 share = fmin(fmax(entropy, 0.0f) / log(static_cast<f32>(sums.count)), 1.0f);
  return low + (high - low) * pow(share, s.dynamic_exponent);
}

// The largest n of a source, from the row's largest down, into top_ids and top_logprobs.
QUERN_CALLED void report_largest(const Room& room, const SampleParams& p, i32 i, Source source, f32 log_sum) {
  if (p.top_n == 0) return;
  const Place least = least_of_largest(room, source, static_cast<u32>(p.top_n));
  source.least = least > source.least ? least : source.least;
  collect(room, source, {0, ~u64{0}, 0}, false);
  const u32 count = room.total[0];
  const i32 t = thread_index();
  const Place own = room.few[t];
  u32 rank = 0;
  QUERN_ROLLED for (u32 j = 0; j < count; ++j) rank += room.few[j] > own;
  if (t < p.top_n) {
    const i32 at = t < static_cast<i32>(count) ? static_cast<i32>(rank) : t;
    const bool there = t < static_cast<i32>(count);
    p.top_ids[i * p.top_ids_stride + at] = there ? index_at(own) : -1;
    if (p.top_logprobs)
      p.top_logprobs[i * p.top_logprobs_stride + at] = there ? -(source.distance_of(own) + log_sum) : -infinity();
  }
  sync_block();
}

// The source that has all that filters may keep: a list where that is short.
QUERN_CALLED Source kept_by_thresholds(const Room& room, const Whole& whole, const Settings& s, bool* everything,
                                       u64* joint) {
  f32 least = -infinity();
  if (s.n_sigma > 0.0f) least = least_by_sigma(room, whole, s.n_sigma);
  if (s.min_p > 0.0f) least = fmax(least, whole.max + log(s.min_p) * rcp_approx(whole.inverse_temperature));
  const u32 least_key = least > -infinity() ? key_of(fmin(least, whole.max)) : 0;
  *everything = least_key <= kDead;
  const bool counts = s.top_k > 0 && s.top_k < whole.p->vocab;
  Source source = whole.source(Source::row);
  source.least = static_cast<u64>(least_key) << 32;
  if (whole.p->joint && counts && s.top_p < 1.0f) *joint = sum_up(room, source).weight;
  const bool few = counts && s.top_k <= kMostListed;
  if (!few && *everything) return source;
  const i32 count = gather(room, whole, few ? static_cast<u32>(s.top_k) : 0, least_key);
  if (count < 0) return source;
  source.kind = Source::list, source.places = room.list, source.count = count;
  return source;
}

// The same as what follows, for a short list and the filters that most requests have: each thread has a token, and
// knows how many and how much lies before it.
QUERN_CALLED i32 choose_of_few(const Room& room, const Settings& s, const Source& source, const Stream& stream) {
  const i32 t = thread_index();
  const Place listed = t < source.count ? source.places[t] : Place{0}, place = source.has(listed) ? listed : Place{0};
  const u64 units = place != 0 ? source.weigh(place) : u64{0};
  room.few[t] = place, room.weights[t] = units;
  sync_block();
  u32 rank = 0;
  u64 before = 0;
  QUERN_FOUR_AT_ONCE for (i32 i = 0; i < source.count; ++i) {
    const bool larger = room.few[i] > place;
    rank += larger, before += larger ? room.weights[i] : 0;
  }
  bool stays = place != 0 && (s.top_k <= 0 || rank < static_cast<u32>(s.top_k));
  if (s.top_p < 1.0f) stays = share_of(s.top_p, reduce_sum(room, stays ? units : u64{0}), false) > before && stays;
  const u64 target = scale_to(wide(stream.of_row()), reduce_sum(room, stays ? units : u64{0}));
  const bool drawn = stays && before <= target && target < before + units;
  return static_cast<i32>(reduce_max(room, drawn ? static_cast<u32>(index_at(place)) + 1 : 0u)) - 1;
}

// Draws one of the tokens that stay; and where log-probabilities are of those alone, *logprob and the largest.
QUERN_DEVICE i32 choose_filtered(const Room& room, const Whole& whole, const Settings& s, const Stream& stream,
                                 f32* logprob) {
  const SampleParams& p = *whole.p;
  bool everything;
  u64 joint = 0;
  Source source = kept_by_thresholds(room, whole, s, &everything, &joint);
  const bool usual = s.typical_p == 1.0f && s.xtc_probability == 0.0f && s.dynamic_range == 0.0f &&
                     !p.temperature_last && !p.logprobs_filtered && joint == 0;
  if (usual && source.kind == Source::list && source.count <= kThreads) return choose_of_few(room, s, source, stream);
  filter(room, whole, s, stream, everything && source.kind == Source::row, joint, &source);
  if (p.temperature_last || s.dynamic_range > 0.0f) {
    const f32 temperature = dynamic_temperature(room, s, source);
    source.inverse_temperature = temperature > 0.0f ? inverse_of(temperature) : 0x1p100f;
  }
  // Weights are told from the largest that is left, lest they all be nothing.
  if (source.most != ~u64{0} || source.typical) source.max = value_at(range_of(room, source, false).most);
  const u64 total = sum_up(room, source).weight;
  const Place drawn = least_of_heaviest(room, source, scale_to(wide(stream.of_row()), total) + 1, false);
  const i32 id = drawn == 0 ? -1 : index_at(drawn);
  if (p.logprobs_filtered && id >= 0) {
    const f32 log_sum = log_of(total);
    *logprob = -(source.distance_of(place_of_token(source, id)) + log_sum);
    report_largest(room, p, whole.row->i, source, log_sum);
  }
  return id;
}

}  // namespace q
