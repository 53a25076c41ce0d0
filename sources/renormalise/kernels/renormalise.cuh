// Takes the unlikely tokens of rows away and makes the others add up to 1. What min-p, top-k and top-p leave are always
// the first tokens of the row's order: all that is looked for is the place of the last.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "renormalise/kernels/weigh.cuh"
#include "renormalise/params.cuh"

namespace q {

struct RenormaliseRoom {
  WeighRoom weigh;
  u64 *slots, *other_slots;  // [kMostRowBlocks] each
};

struct Limits {
  f32 temperature, top_p, min_p;
  i32 top_k;

  QUERN_DEVICE static bool is_share(f32 v) { return v >= 0.0f && v <= 1.0f; }
  QUERN_DEVICE bool valid() const {
    return (!kLogits || is_temperature(temperature)) && is_share(top_p) && is_share(min_p) && top_k >= -1;
  }
};

// The place of a token, where there is one: its key is not 0.
QUERN_DEVICE bool stays(u32 key, i32 index, u64 least) {
  const u32 least_key = static_cast<u32>(least >> 32);
  return key > least_key || (key == least_key && ~static_cast<u32>(index) >= static_cast<u32>(least));
}

// The weight of the tokens from a place on. Compiled once; what it needs comes by value, since what is referred to
// would have to lie in memory.
QUERN_CALLED u64 weight_from(u64* slots, u64* scratch, Tokens tokens, Scale scale, u64 least) {
  u64 own = 0;
  tokens.each([&](i32 tile, const u32(&k)[kGroup]) {
    QUERN_UNROLL for (int i = 0; i < kGroup; ++i) {
      if (stays(k[i], tokens.index_of(tile, i), least)) own += scale.weight_of_key(k[i]);
    }
  });
  const u64 sum = RowSlots<u64>{slots, scratch}.reduce(own, Plus{});
  sync_row();
  return sum;
}

// The place of the last token that stays. `best` is that of the first.
QUERN_DEVICE u64 last_place(const RenormaliseParams& p, const RenormaliseRoom& room, const Tokens& tokens,
                            const Scale& scale, const Limits& limits, u64 best) {
  if (kLogits && limits.temperature == 0.0f) return best;
  u64 least = kLeastPlace;
  if (limits.min_p > 0.0f) {
    const f32 value = kLogits ? scale.max + log(limits.min_p) / scale.factor : limits.min_p * scale.max;
    // NaN where there are infinities, which then are all that stays.
    const u64 place = static_cast<u64>(key_of_number(value <= scale.max ? value : scale.max)) << 32;
    least = place > least ? place : least;
  }
  const u64 whole = least;
  // By number, then by weight, which may come down to a number of equal ones.
  WeightCut cut{Prefix{}, limits.top_k > 0 && limits.top_k < p.n ? static_cast<u32>(limits.top_k) : 0u};
  QUERN_ROLLED for (int round = 0; round < 2; ++round) {
    u64 place = 0;
    if (round != 0) {
      if (!(limits.top_p < 1.0f)) break;
      const u64 total = weight_from(room.slots, room.weigh.scratch, tokens, scale, p.joint ? whole : least);
      cut = cut_by_weight(room.weigh, tokens, scale, share_of_weight(limits.top_p, total), total, p.n);
      place = static_cast<u64>(cut.prefix.key) << 32;
    }
    if (cut.equal != 0)
      place = cut_after(room.weigh.select, tokens, cut.equal, p.n, cut.prefix, round != 0 ? 3 : 0).least;
    least = place > least ? place : least;
  }
  return least;
}

QUERN_DEVICE void write_staying(const Tokens& tokens, const Scale& scale, u64 least, f32 inverse_sum, f32* out) {
  const Slice& s = tokens.s;
  const bool vectors = stores_vectors(out, s);
  tokens.each([&](i32 tile, const u32(&k)[kGroup]) {
    f32 x[kGroup];
    QUERN_UNROLL for (int i = 0; i < kGroup; ++i) {
      x[i] = stays(k[i], tokens.index_of(tile, i), least) ? scale.value(number_of_key(k[i])) * inverse_sum : 0.0f;
    }
    store_tiles(out, vectors, s, tile, x);
  });
}

QUERN_DEVICE u32 renormalise_row(const RenormaliseParams& p, const RenormaliseRoom& room, const Element* in, f32* out,
                                 i64 matrix) {
  const Limits limits{p.temperature.at(matrix), p.top_p.at(matrix), p.min_p.at(matrix), p.top_k.at(matrix)};
  const Tokens tokens(slice_of(in, p.n));
  u64 own = 0;
  tokens.each([&](i32 tile, const u32(&k)[kGroup]) {
    QUERN_UNROLL for (int i = 0; i < kGroup; ++i) {
      const u64 place = static_cast<u64>(k[i]) << 32 | ~static_cast<u32>(tokens.index_of(tile, i));
      if (k[i] != 0) own = place > own ? place : own;
    }
  });
  const u64 best = RowSlots<u64>{room.other_slots, room.weigh.scratch}.reduce(own, Larger{});
  const f32 max = number_of_key(static_cast<u32>(best >> 32));
  u32 status = limits.valid() ? 0u : static_cast<u32>(kRowParameter);
  if (best == 0 || (!kLogits && !(max < infinity()))) status |= kRowEmpty;
  const Scale scale = kLogits ? Scale{max, inverse_temperature(limits.temperature)} : Scale::of_probabilities(max);
  // Above all that there is, where the row is to be 0.
  const u64 least = status == 0 ? last_place(p, room, tokens, scale, limits, best) : ~u64{0};
  // A sum of integers: of f32 that of many equal ones would be off by all their roundings.
  const u64 sum = weight_from(room.slots, room.weigh.scratch, tokens, scale, least);
  write_staying(tokens, scale, least, sum != 0 ? rcp(static_cast<f32>(sum)) : 0.0f, out);
  return status;
}

QUERN_DEVICE void renormalise(const RenormaliseParams& p) {
  QUERN_SHARED(vec16, counts, kBins / 4);
  QUERN_SHARED(vec16, high, kBins / 4);
  QUERN_SHARED(vec16, totals, kBins / 2);
  QUERN_SHARED(u64, scratch, kWarps + 4);
  QUERN_SHARED(u64, slots, kMostRowBlocks);
  QUERN_SHARED(u64, other_slots, kMostRowBlocks);
  const SelectRoom select{reinterpret_cast<u32*>(counts), reinterpret_cast<u32*>(totals),
                          reinterpret_cast<u32*>(scratch)};
  const RenormaliseRoom room{
      {select, reinterpret_cast<u32*>(high), reinterpret_cast<u64*>(totals), scratch}, slots, other_slots};
  const i32 step = block_count(0) / row_blocks();
  QUERN_ROLLED for (i64 row = block_index(0) / row_blocks(); row < p.rows; row += step) {
    const i64 matrix = row / p.group, of_group = row - matrix * p.group;
    if (p.lengths && of_group > p.lengths[matrix]) continue;
    const Element* in = static_cast<const Element*>(p.in) + matrix * p.in_group_stride + of_group * p.in_stride;
    const u32 status = renormalise_row(p, room, in, p.out + row * p.out_stride, matrix);
    if (p.status && row_block() == 0 && thread_index() == 0) p.status[row] = static_cast<i32>(status);
    // What the blocks have told each other has been read before it is written again.
    if (row + step < p.rows) sync_row();
  }
}

}  // namespace q

QUERN_KERNEL(quern_renormalise, THREADS, BLOCKS_PER_SM, QUERN_PARAM q::RenormaliseParams p) {
  q::launch_next_grid();
  q::begin_rows();
  q::wait_for_previous_grid();
  q::renormalise(p);
}
