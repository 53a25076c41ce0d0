// softmax of rows, each read once where its blocks have room for it, else twice: every warp finds the largest of its
// part and the sum of the exponentials below that, the warps of all blocks tell each other, and each writes its part.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "softmax/kernels/numbers.cuh"

namespace q {

using Out = OUT;  // f32, or as the logits
inline constexpr bool kLog = LOG != 0;

struct alignas(16) Part {
  f32 max, sum;  // of 2^((x - max) scale)
  u32 nan, unused;
};

// What an infinite or missing maximum makes of the distance from it.
QUERN_DEVICE f32 weight_below(f32 x, f32 max, f32 scale) {
  return max < infinity() ? exp2((x - max) * scale) : x == max ? 1.0f : 0.0f;
}
QUERN_DEVICE f32 base_of(f32 max) { return max > -infinity() ? max : 0.0f; }

QUERN_DEVICE Part join(const Part& a, const Part& b, f32 scale) {
  const f32 max = fmax(a.max, b.max), base = base_of(max);
  const f32 of_a = a.max == max ? a.sum : a.sum * weight_below(a.max, base, scale),
            of_b = b.max == max ? b.sum : b.sum * weight_below(b.max, base, scale);
  return {max, of_a + of_b, a.nan | b.nan, 0};
}

// What tells of all of a row's probabilities; `sum`: of weights of which the largest is 1.
QUERN_DEVICE KeptRow kept_of(u64 least, f32 max, f32 inverse_temperature, f32 sum, u32 status) {
  const u32 wrong = status & ~static_cast<u32>(kRowNan);  // NaN is no token, and no reason for there to be none
  return {wrong == 0 ? least : ~u64{0}, max, inverse_temperature, sum > 0.0f ? rcp(sum) * 0x1p-40f : 0.0f, status};
}

// 1/x, of x up to infinity and not below 2^-100, without a slow path to call: nothing has to leave its register for it.
QUERN_DEVICE f32 reciprocal(f32 x) {
  const f32 y = rcp_approx(x);
  return x < infinity() ? fma(fma(-x, y, 1.0f), y, y) : 0.0f;
}

struct Softmax {
  const SoftmaxParams& p;
  Slice s;
  Out* out;
  bool vectors;  // whole vectors are aligned in out, too
  f32 scale, inverse;

  template <int count>
  QUERN_DEVICE void store(i32 tile, const f32 (&x)[count]) const {
    if (out) store_tiles(out, vectors, s, tile, x);
  }
  QUERN_DEVICE void fill(f32 v) const {
    f32 x[kFew];
    QUERN_UNROLL for (int i = 0; i < kFew; ++i) x[i] = v;
    QUERN_ROLLED for (i32 tile = s.first; tile < s.last; tile += kFew / kVector) store(tile, x);
  }
};

// The largest, and whether there is NaN.
QUERN_DEVICE f32 max_of(const SoftmaxParams& p, const f32 (&x)[kEach], bool* nan) {
  f32 max = -infinity();
  if (p.status) {
    QUERN_UNROLL for (int i = 0; i < kEach; ++i)* nan |= x[i] != x[i];
  }
  QUERN_UNROLL for (int i = 0; i < kEach; ++i) max = fmax(max, x[i]);
  return max;
}
// The sum of weights below max, in four parts; each element becomes its weight where that is wanted. Of max = +inf it
// is no number.
template <bool keep>
QUERN_DEVICE f32 sum_of(f32 (&x)[kEach], f32 max, f32 scale) {
  const f32 base = base_of(max);
  f32 sums[4] = {};
  QUERN_UNROLL for (int i = 0; i < kEach; ++i) {
    // NaN is nothing, as -inf is.
    const f32 w = exp2((fmax(x[i], -infinity()) - base) * scale);
    sums[i & 3] += w;
    if constexpr (keep) x[i] = w;
  }
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// Of a row with infinite elements: these alone share it, whatever its temperature.
QUERN_DEVICE KeptRow share_infinite(const Softmax& row, const RowSlots<u64>& room) {
  const Slice& s = row.s;
  u64 number = 0, nan = 0;
  QUERN_ROLLED for (i32 tile = s.first; tile < s.last; tile += kFew / kVector) {
    f32 x[kFew];
    load_elements<Fill::least>(s, tile, x);
    QUERN_UNROLL for (int i = 0; i < kFew; ++i) {
      number += x[i] == infinity() ? 1u : 0u;
      nan |= x[i] != x[i] ? u64{1} << 32 : u64{0};
    }
  }
  const u64 both = room.reduce(
      number | nan, [](u64 a, u64 b) { return ((a | b) >> 32 << 32) | (static_cast<u32>(a) + static_cast<u32>(b)); });
  const f32 all = static_cast<f32>(static_cast<u32>(both));
  const f32 infinite = kLog ? -log(all) : rcp(all), other = kLog ? -infinity() : 0.0f;
  QUERN_ROLLED for (i32 tile = s.first; tile < s.last; tile += kFew / kVector) {
    f32 x[kFew];
    load_elements<Fill::least>(s, tile, x);
    QUERN_UNROLL for (int i = 0; i < kFew; ++i) x[i] = x[i] == infinity() ? infinite : other;
    row.store(tile, x);
  }
  const u32 status = row.p.status && both >> 32 != 0 ? static_cast<u32>(kRowNan) : 0u;
  return kept_of(kLeastPlace, infinity(), row.inverse, all, status);
}

// With temperature 0: 1 at the largest, at the lowest index of those. Returns the status.
QUERN_DEVICE KeptRow choose_largest(const Softmax& row, const RowSlots<u64>& room) {
  const Slice& s = row.s;
  u64 best = 0;
  bool nan = false;
  QUERN_ROLLED for (i32 tile = s.first; tile < s.last; tile += kFew / kVector) {
    f32 x[kFew];
    load_elements<Fill::least>(s, tile, x);
    QUERN_UNROLL for (int i = 0; i < kFew; ++i) {
      const u64 own = place_of_number(x[i], s.place(tile + i / kVector) + i % kVector);
      nan |= x[i] != x[i];
      if (x[i] > -infinity()) best = own > best ? own : best;
    }
  }
  best = room.reduce(best, Larger{});
  const i32 chosen = best != 0 ? index_of_place(best) : -1;
  u32 status = best != 0 ? 0u : static_cast<u32>(kRowEmpty);
  if (row.p.status) {
    sync_row();
    if (room.reduce(nan ? u64{1} : u64{0}, Larger{}) != 0) status |= kRowNan;
  }
  QUERN_ROLLED for (i32 tile = s.first; tile < s.last; tile += kFew / kVector) {
    f32 x[kFew];
    QUERN_UNROLL for (int i = 0; i < kFew; ++i) {
      const bool here = s.place(tile + i / kVector) + i % kVector == chosen;
      x[i] = kLog ? (here ? 0.0f : -infinity()) : here ? 1.0f : 0.0f;
    }
    row.store(tile, x);
  }
  // Without temperature: it alone stays.
  return kept_of(best, number_of_key(static_cast<u32>(best >> 32)), 1.0f, 1.0f, status);
}

// Of all threads of the row, from each one's own.
QUERN_DEVICE Part join_all(const SoftmaxParams& p, f32 scale, const Part& own, Part* slots) {
  const i32 blocks = row_blocks();
  Part part = own;
  part.max = warp_max(own.max);
  part.sum = warp_sum(own.max == part.max ? own.sum : own.sum * weight_below(own.max, base_of(part.max), scale));
  part.nan = p.status && ballot(own.nan != 0) != 0;
  if (lane() < blocks) tell(slots + row_block() * kWarps + warp(), lane(), part);
  sync_row();
  constexpr int kSlotsEach = div_up(kMostRowBlocks * kWarps, kWarp);
  Part all[kSlotsEach], whole{-infinity(), 0.0f, 0, 0};
  QUERN_UNROLL for (int i = 0; i < kSlotsEach; ++i) {
    const i32 at = i * kWarp + lane();
    all[i] = at < blocks * kWarps ? slots[at] : whole;
    whole.max = fmax(whole.max, all[i].max);
    whole.nan |= all[i].nan;
  }
  whole.max = warp_max(whole.max);
  const f32 base = base_of(whole.max);
  QUERN_UNROLL for (int i = 0; i < kSlotsEach; ++i) {
    whole.sum += all[i].max == whole.max ? all[i].sum : all[i].sum * weight_below(all[i].max, base, scale);
  }
  whole.sum = warp_sum(whole.sum);
  whole.nan = p.status && ballot(whole.nan != 0) != 0;
  return whole;
}

// What a row's probabilities or logarithms are made of, once all of it is known.
struct Result {
  f32 max, base, factor, log_sum, inverse;

  QUERN_DEVICE Result(const Part& whole, f32 inverse_temperature)
      : max(whole.max),
        base(base_of(whole.max)),
        factor(whole.sum > 0.0f ? reciprocal(whole.sum) : 0.0f),
        // Of a row without tokens every logarithm is -inf.
        log_sum(!kLog              ? 0.0f
                : whole.sum > 0.0f ? log(whole.sum)
                                   : infinity()),
        inverse(inverse_temperature) {}
  QUERN_DEVICE f32 log_of(f32 logit) const {
    const f32 x = fmax(logit, -infinity());
    return (x == max ? 0.0f : (x - base) * inverse) - log_sum;
  }
};
QUERN_DEVICE KeptRow kept_of(const Part& whole, f32 inverse) {
  const u32 status =
      (whole.max > -infinity() ? 0u : static_cast<u32>(kRowEmpty)) | (whole.nan != 0 ? static_cast<u32>(kRowNan) : 0u);
  return kept_of(kLeastPlace, whole.max, inverse, whole.sum, status);
}
QUERN_DEVICE void keep(const SoftmaxParams& p, i64 index, const KeptRow& kept) {
  if (row_block() != 0 || thread_index() != 0) return;
  if (p.kept) p.kept[index] = kept;
  if (p.status) p.status[index] = static_cast<i32>(kept.status);
}

// A row that is read twice; not written if *whole.max is infinite.
QUERN_DEVICE void stream_row(const Softmax& row, Part* slots, Part* whole) {
  const Slice& s = row.s;
  Part own{-infinity(), 0.0f, 0, 0};
  QUERN_ROLLED for (i32 tile = s.first; tile < s.last; tile += kTiles) {
    f32 x[kEach];
    load_elements<Fill::least>(s, tile, x);
    bool nan = false;
    const f32 max = max_of(row.p, x, &nan);
    own = join(own, {max, sum_of<false>(x, max, row.scale), nan ? 1u : 0u, 0}, row.scale);
  }
  *whole = join_all(row.p, row.scale, own, slots);
  if (whole->max == infinity()) return;
  const Result result(*whole, row.inverse);
  QUERN_ROLLED for (i32 tile = s.first; tile < s.last; tile += kTiles) {
    f32 x[kEach];
    load_elements<Fill::least>(s, tile, x);
    QUERN_UNROLL for (int i = 0; i < kEach; ++i) {
      x[i] = kLog ? result.log_of(x[i]) : weight_below(fmax(x[i], -infinity()), result.base, row.scale) * result.factor;
    }
    row.store(tile, x);
  }
}

QUERN_DEVICE i32 matrix_of(const SoftmaxParams& p, i32 row) { return p.group == 1 ? row : row / p.group; }
QUERN_DEVICE const Element* logits_of(const SoftmaxParams& p, i64 row) {
  const i64 matrix = matrix_of(p, static_cast<i32>(row)), of_group = row - matrix * p.group;
  return static_cast<const Element*>(p.logits) + matrix * p.group_stride + of_group * p.logits_stride;
}

// A row whose temperature is 0, or none, or one that has infinite elements.
QUERN_CALLED KeptRow unusual_row(const SoftmaxParams& p, i64 index, u64* places, u64* scratch) {
  Out* const out = static_cast<Out*>(p.out) + index * p.out_stride;
  const Slice s = slice_of(logits_of(p, index), p.n);
  const f32 temperature = p.temperature.at(matrix_of(p, static_cast<i32>(index)));
  const bool some = temperature > 0.0f && temperature < infinity();
  const f32 inverse = some ? inverse_temperature(temperature) : 1.0f;
  const Softmax row{p, s, out, stores_vectors(out, s), inverse * kLog2OfE, inverse};
  if (!is_temperature(temperature)) {
    row.fill(q::nan());
    return kept_of(0, 0.0f, 0.0f, 0.0f, kRowParameter);
  }
  const KeptRow kept = some ? share_infinite(row, {places, scratch}) : choose_largest(row, {places, scratch});
  sync_row();  // the places have been read
  return kept;
}

// A row that is held. Its elements take most of a thread's registers: they are asked for first of all, and what can be
// worked out again is.
QUERN_DEVICE void hold_row(const SoftmaxParams& p, i64 index, i64 matrix, Part* slots, u64* places, u64* scratch) {
  f32 x[kEach];
  {
    const Slice s = striped_slice_of(logits_of(p, index), p.n);
    load_elements<Fill::least, kWarps>(s, s.first, x);
  }
  const f32 temperature = p.temperature.at(matrix);
  if (!(temperature > 0.0f && temperature < infinity())) {
    keep(p, index, unusual_row(p, index, places, scratch));
    return;
  }
  const f32 inverse = fmin(reciprocal(fmax(temperature, 0x1p-100f)), 0x1p100f), scale = inverse * kLog2OfE;
  bool nan = false;
  const f32 max = max_of(p, x, &nan);
  const Part own{max, sum_of<!kLog>(x, max, scale), nan ? 1u : 0u, 0}, whole = join_all(p, scale, own, slots);
  if (whole.max == infinity()) {
    keep(p, index, unusual_row(p, index, places, scratch));
    return;
  }
  const Result result(whole, inverse);
  const f32 factor = (max == whole.max ? 1.0f : weight_below(max, result.base, scale)) * result.factor;
  QUERN_UNROLL for (int i = 0; i < kEach; ++i) x[i] = kLog ? result.log_of(x[i]) : x[i] * factor;
  const i64 again = static_cast<i64>(held(static_cast<u64>(index)));
  if (p.out) {
    const Slice s = striped_slice_of(logits_of(p, again), p.n);
    Out* const out = static_cast<Out*>(p.out) + again * p.out_stride;
    store_tiles<kWarps>(out, stores_vectors(out, s), s, s.first, x);
  }
  keep(p, again, kept_of(whole, inverse));
}

QUERN_DEVICE void softmax(const SoftmaxParams& p) {
  QUERN_SHARED(Part, slots, 2 * kMostRowBlocks * kWarps);
  QUERN_SHARED(u64, places, kMostRowBlocks);
  QUERN_SHARED(u64, scratch, kWarps);
  const i32 step = block_count(0) / row_blocks();
  i32 turn = 0;
  QUERN_ROLLED for (i32 index = block_index(0) / row_blocks(); index < p.rows; index += step) {
    const i32 matrix = matrix_of(p, index);
    if (p.lengths && index - matrix * p.group > p.lengths[matrix]) continue;
    // What is told of one row may still be read while the next one's is told: two sets of slots take turns.
    Part* const own_slots = slots + (++turn & 1) * kMostRowBlocks * kWarps;
    if constexpr (kHeld) {
      hold_row(p, index, matrix, own_slots, places, scratch);
    } else {
      const f32 temperature = p.temperature.at(matrix);
      if (temperature > 0.0f && temperature < infinity()) {
        const Slice s = slice_of(logits_of(p, index), p.n);
        Out* const out = static_cast<Out*>(p.out) + index * p.out_stride;
        const f32 inverse = inverse_temperature(temperature);
        Part whole;
        stream_row({p, s, out, stores_vectors(out, s), inverse * kLog2OfE, inverse}, own_slots, &whole);
        if (whole.max < infinity()) {
          keep(p, index, kept_of(whole, inverse));
          continue;
        }
      }
      keep(p, index, unusual_row(p, index, places, scratch));
    }
  }
}

}  // namespace q

QUERN_KERNEL(quern_softmax, THREADS, BLOCKS_PER_SM, QUERN_PARAM q::SoftmaxParams p) {
  q::launch_next_grid();
  q::begin_rows();
  q::wait_for_previous_grid();
  q::softmax(p);
}
