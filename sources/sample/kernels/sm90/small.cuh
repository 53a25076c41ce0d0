// Samples a token a row with as little code as that takes: a compiler is done with it in a fraction of the time that
// the other kernels take, and it does their calls until they are there. Their tokens, at some times their cost.
//
// The blocks of a cluster share the row, which lies in their shared memory as it is sampled from. Every end that is
// looked for, of top_k, of top_p, of the draw, is found by one loop: 512 bins of what all blocks have, and the next 9
// bits of a token's rank within the bin that the end is in.
// SPDX-License-Identifier: Apache-2.0
#include "sample/kernels/sm90/few.cuh"
#include "sample/kernels/stream.cuh"

namespace q {

inline constexpr i32 kWarps = kThreads / kWarp;
inline constexpr bool kLargest = LARGEST != 0;
static_assert(kThreads == kSpots, "a bin for each thread");

// What a block has in static shared memory, at the same place in each of the cluster.
struct Desk {
  u64 sums[kThreads];  // of the threads up to each
  u64 found[2];        // the bin that an end is in, and what comes before it
  u64 best;            // place of the largest of those that have not been told of
  u64 listed, race;    // what the tokens weigh that lists name, and, as ~, which of them is first in a draw
  u32 top, status;     // the key of the part's largest logit, and what is wrong with it
};

// What lists say of a token: how often the output has it, and these bits.
inline constexpr u32 kSaidPrompt = 1u << 30, kSaidBanned = 1u << 31, kSaidBias = 1u << 29, kSaidCount = kSaidBias - 1;

// The block's part of the row, and where things lie in dynamic shared memory.
struct Part {
  i32 begin, length;      // of the row's tokens, whole chunks
  i32 blocks, each, all;  // chunks of a block, of the row
  f32* slice;
  u32* said;     // of each token; null where there are no lists
  u64* notes;    // of each chunk the largest logit that no list names, and the sum of shares of it
  u64* weights;  // [all] of chunks
  u32* bins;     // [3 * kSpots]
  Desk* desk;
  // Which block has a chunk, and at what place.
  struct Where {
    i32 block, at;
  };
  QUERN_DEVICE Where find(i32 chunk) const {
    i32 r = 0;
    QUERN_ROLLED for (; chunk >= each; chunk -= each)++ r;
    return {r, chunk};
  }
  QUERN_DEVICE bool named(i32 local) const { return kEdits && said && said[local] != 0; }
  // What a lane has as the i-th of its tokens of a chunk: sums are over these, in this order, in all kernels.
  QUERN_DEVICE static i32 place(i32 chunk, i32 i) { return chunk * kChunk + place_in_chunk(i / kVector) + i % kVector; }
};
QUERN_DEVICE Part part_of(const SampleParams& p, Desk* desk) {
  Part part{};
  const i32 rank = static_cast<i32>(cluster_rank());
  part.blocks = static_cast<i32>(cluster_size()), part.each = p.chunks_per_block, part.all = p.chunks;
  const i32 rest = p.chunks - rank * part.each;
  part.begin = rank * part.each * kChunk;
  part.length = (rest < 0 ? 0 : rest < part.each ? rest : part.each) * kChunk;
  const SmallRoom room = small_room(p.chunks, part.each, p.slots);
  u8* const shared = dynamic_shared();
  part.slice = reinterpret_cast<f32*>(shared);
  part.said = p.slots != 0 ? reinterpret_cast<u32*>(shared + room.said) : nullptr;
  part.bins = reinterpret_cast<u32*>(shared + room.bins);
  part.notes = reinterpret_cast<u64*>(shared + room.notes);
  part.weights = reinterpret_cast<u64*>(shared + room.weights);
  part.desk = desk;
  return part;
}

// In shared memory, as shuffles would be twice as much code where it cannot be proven that all lanes take part.
// The sum over the threads up to each, in desk.sums. Barriers at both ends.
QUERN_CALLED void sum_up(Desk* of_block, u64 v) {
  u64* const sums = in_shared(of_block)->sums;
  const i32 t = thread_index();
  sums[t] = v;
  QUERN_ROLLED for (i32 d = 1; d < kThreads; d *= 2) {
    sync_block();
    const u64 before = t >= d ? sums[t - d] : u64{0};
    sync_block();
    sums[t] += before;
  }
  sync_block();
}
// warp_sum(), to the bit.
QUERN_DEVICE f32 sum_of_warp(const Part& part, f32 v) {
  f32* const lanes = reinterpret_cast<f32*>(part.desk->sums) + warp() * kWarp;
  QUERN_ROLLED for (i32 d = 1; d < kWarp; d *= 2) {
    lanes[lane()] = v;
    sync_warp();
    v += lanes[lane() ^ d];
    sync_warp();
  }
  return v;
}

// The part as it is sampled from, but for NaN. Ends with a barrier.
QUERN_DEVICE void edit_part(const SampleParams& p, const Row& row, const Part& part) {
  if (kEdits && part.said) {
    bins_zero<kThreads>(part.said, part.length);
    sync_block();
    each_edited<1>(p, row.i, [&](i32 token, From from, i32) {
      const i32 local = token - part.begin;
      if (local < 0 || local >= part.length) return;
      const u32 more = from == From::output   ? 1u
                       : from == From::prompt ? kSaidPrompt
                       : from == From::banned ? kSaidBanned
                                              : kSaidBias;
      if (from == From::output) {
        atomic_add(part.said + local, more);
      } else {
        atomic_or(part.said + local, more);
      }
    });
    sync_block();
  }
  QUERN_ROLLED for (i32 local = thread_index(); local < part.length; local += kThreads) {
    const i32 token = part.begin + local;
    f32 x = -infinity();
    if (token < p.vocab) {
      x = to_f32(row.logits[token]);
      if constexpr (kEdits) {
        const u32 said = part.said ? part.said[local] : 0u;
        const bool prompt = (said & kSaidPrompt) != 0 || (row.prompt_mask && bit_at(row.prompt_mask, token));
        x = penalise(row, x, prompt, static_cast<i32>(said & kSaidCount) + (row.counts ? row.counts[token] : 0));
        if ((said & kSaidBanned) != 0 || (row.allowed && !bit_at(row.allowed, token))) x = -infinity();
      }
    }
    part.slice[local] = x;
  }
  sync_block();
  if (kEdits && p.bias_offsets) {
    const Biases biases = biases_of(p, row.i);
    QUERN_ROLLED for (i32 at = biases.begin + thread_index(); at < biases.end; at += kThreads) {
      const i32 local = p.bias_ids[at] - part.begin;  // each is there once
      if (local >= 0 && local < part.length && part.slice[local] != -infinity()) part.slice[local] += p.bias_values[at];
    }
    sync_block();
  }
}

// What there is to know of each chunk, and of the part; NaN becomes -inf.
QUERN_DEVICE void note_part(const Part& part, bool weigh, f32 scale) {
  f32 top = -infinity();
  bool nan = false;
  QUERN_ROLLED for (i32 c = warp(); c < part.length / kChunk; c += kWarps) {
    f32 max = -infinity(), sum = 0.0f;
    // First the largest, then the sum.
    QUERN_ROLLED for (i32 i = 0; i < 2 * kEach; ++i) {
      const i32 local = Part::place(c, i & (kEach - 1));
      f32 x = part.slice[local];
      if (i == kEach) max = value_of(warp_max(key_of(max)));
      if (x != x) nan = true, x = part.slice[local] = -infinity();
      top = fmax(top, x);
      if (part.named(local)) continue;
      if (i < kEach) {
        max = fmax(max, x);
      } else if (weigh && max > -infinity()) {
        sum += share_in_chunk(x, max, scale);
      }
    }
    sync_warp();
    sum = sum_of_warp(part, sum);
    if (lane() == 0) part.notes[c] = static_cast<u64>(bits_of(sum)) << 32 | bits_of(max);
  }
  atomic_max(&part.desk->top, key_of(top));
  if (nan) atomic_or(&part.desk->status, static_cast<u32>(kNan));
}

// What chunks and lists weigh, and the listed token that a draw of the whole row takes if it takes one of them.
struct Weights {
  u64 of_chunks, of_listed, race;
  QUERN_DEVICE u64 total() const { return of_chunks + of_listed; }
};
QUERN_DEVICE Weights weigh_row(const Part& part, const Stream& stream, f32 max, f32 inverse_temperature, bool draws) {
  const f32 scale = inverse_temperature * kLog2OfE;
  Weights sums{0, 0, ~u64{0}};
  if (kEdits && part.said) {
    u64 own = 0, race = ~u64{0};
    QUERN_ROLLED for (i32 local = thread_index(); local < part.length; local += kThreads) {
      if (part.said[local] == 0) continue;
      const f32 share = share_of_largest(max, part.slice[local], scale);
      own += to_units(share);
      if (!draws || share == 0.0f) continue;
      const i32 token = part.begin + local;
      const f32 time = exponential(stream.of_token(token).x[0]) * rcp_approx(share);
      const u64 its = static_cast<u64>(bits_of(time)) << 32 | static_cast<u32>(token);
      race = its < race ? its : race;
    }
    sum_up(part.desk, own);
    if (thread_index() == 0) part.desk->listed = part.desk->sums[kThreads - 1];
    atomic_max(&part.desk->race, ~race);
    sync_cluster_shared();
    QUERN_ROLLED for (i32 r = 0; r < part.blocks; ++r) {
      sums.of_listed += of_block(&part.desk->listed, r);
      const u64 its = ~of_block(&part.desk->race, r);
      sums.race = its < sums.race ? its : sums.race;
    }
  }
  QUERN_ROLLED for (i32 c = thread_index(); c < part.all; c += kThreads) {
    const Part::Where its = part.find(c);
    const u64 note = of_block(part.notes + its.at, its.block);
    const f32 top = f32_of(static_cast<u32>(note)), sum = f32_of(static_cast<u32>(note >> 32));
    u64 weight = 0;
    if (top > -infinity())
      weight = static_cast<u64>(sum * exp_of_minus(at_most(distance(max, top, inverse_temperature), 128.0f)) * kUnits);
    sums.of_chunks += part.weights[c] = weight;
  }
  sum_up(part.desk, sums.of_chunks);
  sums.of_chunks = part.desk->sums[kThreads - 1];
  return sums;
}

// What is looked for, one after the other, each among what the one before has left.
enum class Step : i32 {
  all,     // what all weighs, for a share of that
  top_k,   // the k-th by number
  share,   // the one that crosses top_p
  draw,    // the one whose stretch of the line has the number that is drawn
  within,  // the same, of one chunk and by place
};
inline constexpr int kIndexBits = 20;
static_assert(kMostVocab <= 1 << kIndexBits);
struct Search {
  f32 top_p, least;  // smaller logits are not there
  i32 top_k;
  bool joint;      // top_p's share is of what top_k began with,
  u64 of_row;      // or of this, where it is not 0
  u64 random;      // what is drawn by
  i32 chunk;       // the draw's, within
  f32 max, scale;  // of the logits that weights are of
  u64 cut, kept;   // higher ranks have been taken away; what is left weighs so much
  // 0 for the largest there can be.
  QUERN_DEVICE u64 rank_of(f32 x, i32 token) const {
    return static_cast<u64>(key_of(max) - key_of(x)) << kIndexBits | static_cast<u32>(token);
  }
};

// The token; -1: there is none. s.cut and s.kept say what it is drawn from.
QUERN_DEVICE i32 search(const Part& part, Search& s, Step step, bool greedy) {
  Desk& desk = *part.desk;
  constexpr int kBits = 9, kRounds = 1 + (32 + kIndexBits + kBits - 1) / kBits;
  static_assert(1 << kBits == kSpots);
  constexpr u32 kPiece = (1u << 14) - 1;
  u64 of_joint = 0;
  QUERN_ROLLED while (true) {
    u64 wanted = 0, rank = 0;
    u32 first = 0;
    // The first round's bins are of a twelfth of a power of 2 of weight; the others are of bits of ranks within that.
    QUERN_ROLLED for (int round = 0; round < kRounds; ++round) {
      const int shift = kBits * (kRounds - 1 - round);
      bins_zero<kThreads>(part.bins, 3 * kSpots);
      sync_block();
      QUERN_ROLLED for (i32 local = thread_index(); local < part.length; local += kThreads) {
        const f32 x = part.slice[local];
        const i32 token = part.begin + local;
        if (!(x >= s.least) || (step == Step::within && (token / kChunk != s.chunk || part.named(local)))) continue;
        const f32 exponent = exponent_of(s.max, x, s.scale);
        const u64 its = step == Step::within ? static_cast<u64>(token) : s.rank_of(x, token);
        u32 bin = step == Step::within ? 0u : static_cast<u32>(fmin(exponent * -12.0f, kSpots - 1.0f));
        if (its > s.cut) continue;
        if (round != 0) {
          if (bin != first || its >> (shift + kBits) != rank) continue;
          bin = static_cast<u32>(its >> shift) & (kSpots - 1);
        }
        const u64 amount = step == Step::top_k ? u64{1} : to_units(exp2(exponent));
        // Three words of 14 bits and what they grow by, which need no carry.
        QUERN_ROLLED for (int w = 0; w < 3; ++w) {
          const u32 piece = static_cast<u32>(amount >> (14 * w)) & kPiece;
          if (piece != 0) atomic_add(part.bins + w * kSpots + bin, piece);
        }
      }
      sync_block();
      u64 own = 0;
      QUERN_ROLLED for (int w = 0; w < 3; ++w) own += static_cast<u64>(part.bins[w * kSpots + thread_index()])
                                                      << (14 * w);
      sync_block();  // two of them take the place of three
      reinterpret_cast<u64*>(part.bins)[thread_index()] = own;
      sync_cluster_shared();
      own = 0;
      QUERN_FOUR_AT_ONCE for (i32 r = 0; r < part.blocks; ++r) {
        own += of_block(reinterpret_cast<u64*>(part.bins) + thread_index(), r);
      }
      sum_up(&desk, own);
      const u64 below = desk.sums[thread_index()] - own, total = desk.sums[kThreads - 1];
      if (round == 0) {
        if (step == Step::top_k) {
          wanted = static_cast<u64>(s.top_k);
        } else if (step == Step::share) {
          wanted = share_of(s.top_p, s.of_row != 0 ? s.of_row : s.joint ? of_joint : total, false);
          if (wanted == total) wanted = 0;
        } else if (step != Step::all) {
          wanted = place_on_line(s.random, total) + 1;
        }
        of_joint = step == Step::all ? total : of_joint;
        s.kept = total;
        if (wanted > total) wanted = 0;
      }
      if (below < wanted && wanted <= below + own) {
        desk.found[0] = static_cast<u64>(thread_index()), desk.found[1] = below;
      }
      sync_cluster_shared();  // all have read the bins
      if (wanted == 0) break;
      const u32 bin = static_cast<u32>(desk.found[0]);
      wanted -= desk.found[1];
      if (round == 0) {
        first = bin;
      } else {
        rank = rank << kBits | bin;
      }
    }
    const bool ends = wanted != 0;
    if (step == Step::draw || step == Step::within || (greedy && ends)) {
      return ends ? static_cast<i32>(rank) & (kMostVocab - 1) : -1;
    }
    if (ends) s.cut = rank;
    step = step == Step::all ? Step::top_k : step == Step::top_k && s.top_p < 1.0f ? Step::share : Step::draw;
  }
}

// The largest of what is kept, one after the other, by all blocks; the first one tells them.
QUERN_DEVICE void report_largest(const SampleParams& p, i32 i, const Part& part, const Search& s,
                                 f32 inverse_temperature, f32 log_sum) {
  u64* const best = &part.desk->best;
  Place last = ~Place{0};
  QUERN_ROLLED for (i32 n = 0; n < p.top_n; ++n) {
    if (thread_index() == 0) *best = 0;
    sync_block();
    Place own = 0;
    QUERN_ROLLED for (i32 local = thread_index(); local < part.length; local += kThreads) {
      const f32 x = part.slice[local];
      const i32 token = part.begin + local;
      const Place place = place_of(x, token);
      if (x >= s.least && place < last && place > own && s.rank_of(x, token) <= s.cut) own = place;
    }
    atomic_max(best, own);
    sync_cluster_shared();
    last = 0;
    QUERN_ROLLED for (i32 r = 0; r < part.blocks; ++r) {
      const Place its = of_block(best, r);
      last = its > last ? its : last;
    }
    sync_cluster_shared();  // all have read it
    if (part.begin != 0 || thread_index() != 0) continue;
    p.top_ids[i * p.top_ids_stride + n] = last != 0 ? index_at(last) : -1;
    if (p.top_logprobs) {
      p.top_logprobs[i * p.top_logprobs_stride + n] =
          last != 0 ? -(distance(s.max, value_at(last), inverse_temperature) + log_sum) : -infinity();
    }
  }
}

QUERN_DEVICE void sample_row(const SampleParams& p, const Part& part, i32 i) {
  Desk& desk = *part.desk;
  const Row row = row_of_call(p, i);
  const Settings settings = usual_settings_of(p, i);
  const Stream stream{p.seeds ? static_cast<u64>(p.seeds[i]) : p.seed,
                      p.offsets ? static_cast<u64>(p.offsets[i]) : p.offset,
                      p.seeds ? u64{0} : static_cast<u64>(i) + 1};
  if (thread_index() == 0) desk.top = kDead, desk.race = 0, desk.status = 0;
  sync_block();
  // Each thread looks at some of the biases.
  u32 wrong = row.logits ? 0u : static_cast<u32>(kIndex);
  if (!settings.valid()) wrong |= kParameter;
  if constexpr (kEdits) wrong = mistakes_of_edits(p, row, wrong);
  if (wrong != 0) atomic_or(&desk.status, wrong);
  sync_block();
  u32 status = desk.status;
  const bool greedy = settings.temperature == 0.0f, draws = !greedy && !settings.filters(),
             alone = !greedy && settings.is_top_p_alone(p.vocab), weigh = p.sums == Sums::all || draws || alone;
  const f32 inverse_temperature = inverse_of(settings.temperature), scale = inverse_temperature * kLog2OfE;
  f32 max = -infinity();
  if (status == 0) {
    edit_part(p, row, part);
    note_part(part, weigh, scale);
    sync_cluster_shared();
    QUERN_ROLLED for (i32 r = 0; r < part.blocks; ++r) {
      max = fmax(max, value_of(of_block(&desk.top, r)));
      status |= of_block(&desk.status, r);
    }
    if (!(max > -infinity())) status |= kEmpty;
  }
  const auto has = [&](i32 token) {
    return token < 0 ? part.begin == 0 : token >= part.begin && token < part.begin + part.length;
  };
  i32 id = -1;
  f32 logprob = q::nan();
  if (max > -infinity()) {
    Weights weights{};
    if (weigh) weights = weigh_row(part, stream, max, inverse_temperature, draws);
    const u64 of_row = alone ? weights.total() : u64{0};
    const f32 lowest = value_of(kDead + 1);
    Search s{settings.top_p, lowest, settings.top_k, false, of_row, wide(stream.of_row()), 0, max, scale, ~u64{0}, 0};
    const bool counts = settings.top_k > 0 && settings.top_k < p.vocab;
    Step step = counts ? Step::top_k : settings.top_p < 1.0f ? Step::share : Step::draw;
    bool searches = true;
    if (greedy) {
      step = Step::top_k, s.top_k = 1;
    } else if (draws) {
      const u64 target = place_on_line(s.random, weights.total());
      step = Step::within;
      if (target < weights.of_chunks) {
        u64 through = 0;
        QUERN_ROLLED while (through += part.weights[s.chunk], through <= target)++ s.chunk;
        const Part::Where its = part.find(s.chunk);
        s.max = f32_of(static_cast<u32>(of_block(part.notes + its.at, its.block)));
        s.random = wide(stream.at(kWithinChunk));
      } else {
        searches = false;
        if (weights.race != ~u64{0}) id = static_cast<i32>(static_cast<u32>(weights.race));
      }
    } else {
      s.joint = p.joint && counts && settings.top_p < 1.0f;
      if (s.joint) step = Step::all;
      if (settings.min_p > 0.0f)
        s.least = fmax(lowest, fmin(max + log(settings.min_p) * rcp_approx(inverse_temperature), max));
    }
    if (searches) id = search(part, s, step, greedy);
    logprob = 0.0f;
    if (p.sums == Sums::all) {
      const bool filtered = kLargest && p.logprobs_filtered && !greedy && !draws;
      if (!filtered) s.kept = weights.total(), s.cut = ~u64{0}, s.least = lowest, s.max = max;
      const f32 log_sum = log_of(s.kept);
      if (id >= 0 && has(id)) logprob = -(distance(max, part.slice[id - part.begin], inverse_temperature) + log_sum);
      if constexpr (kLargest) report_largest(p, i, part, s, inverse_temperature, log_sum);
    }
  }
  // The block that has the token tells of it.
  if (has(id)) report(p, i, id, logprob, max, status, kLargest && !(max > -infinity()));
}

QUERN_DEVICE void sample_small(const SampleParams& p) {
  QUERN_SHARED(Desk, desk, 1);
  const Part part = part_of(p, desk);
  const u32 cluster = static_cast<u32>(block_index(0)) / static_cast<u32>(part.blocks);
  QUERN_ROLLED for (i32 i = static_cast<i32>(cluster); i < p.count; i += p.units) {
    sample_row(p, part, i);
    sync_cluster_shared();  // before this block's shared memory is used again or is gone, the others have read it
  }
}

}  // namespace q

QUERN_KERNEL(quern_sample, THREADS, 1, QUERN_PARAM q::SampleParams p) {
  q::launch_next_grid();
  q::wait_for_previous_grid();
  q::sample_small(p);
}
