// softmax of rows, each read once where its blocks have room for it, else twice: every block finds the largest of its
// part and the sum of the exponentials below that, the blocks tell each other, and each writes its part.
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

struct Softmax {
  const SoftmaxParams& p;
  Slice s;
  Out* out;
  bool vectors;  // whole vectors are aligned in out, too
  f32 scale, inverse;

  template <int count>
  QUERN_DEVICE void store(i32 tile, const f32 (&x)[count]) const {
    QUERN_UNROLL for (int j = 0; j < count / kVector; ++j) {
      if (tile + j < s.last) store_elements(out, vectors, s, s.place(tile + j), x + j * kVector);
    }
  }
  QUERN_DEVICE void fill(f32 v) const {
    f32 x[kFew];
    QUERN_UNROLL for (int i = 0; i < kFew; ++i) x[i] = v;
    QUERN_ROLLED for (i32 tile = s.first; tile < s.last; tile += kFew / kVector) store(tile, x);
  }
  // The largest, and whether there is NaN.
  QUERN_DEVICE f32 max_of(f32 (&x)[kEach], bool* nan) const {
    f32 max = -infinity();
    if (p.status) {
      QUERN_UNROLL for (int i = 0; i < kEach; ++i)* nan |= x[i] != x[i];
    }
    QUERN_UNROLL for (int i = 0; i < kEach; ++i) max = fmax(max, x[i]);
    return max;
  }
  // The sum of weights below max, in four parts; each element becomes its weight where that is wanted.
  template <bool keep>
  QUERN_DEVICE f32 sum_of(f32 (&x)[kEach], f32 max) const {
    const f32 base = base_of(max);
    f32 sums[4] = {};
    QUERN_UNROLL for (int i = 0; i < kEach; ++i) {
      // NaN is nothing, as -inf is.
      const f32 w = weight_below(fmax(x[i], -infinity()), base, scale);
      sums[i & 3] += w;
      if constexpr (keep) x[i] = w;
    }
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
  }
};

// With temperature 0: 1 at the largest, at the lowest index of those. Returns the status.
QUERN_DEVICE u32 choose_largest(const Softmax& row, const RowSlots<u64>& room) {
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
  return status;
}

// What is known of this block's part. Where a row is held, its elements are in x, or their weights below the part's
// largest.
QUERN_DEVICE Part read_part(const Softmax& row, f32 (&x)[kEach], f32* scratch) {
  const Slice& s = row.s;
  Part own{-infinity(), 0.0f, 0, 0};
  bool nan = false;
  f32 max;
  if constexpr (kHeld) {
    load_elements<Fill::least>(s, s.first, x);
    max = block_max<kThreads>(row.max_of(x, &nan), scratch);
    own.sum = row.sum_of<!kLog>(x, max);
  } else {
    QUERN_ROLLED for (i32 tile = s.first; tile < s.last; tile += kTiles) {
      load_elements<Fill::least>(s, tile, x);
      const f32 here = row.max_of(x, &nan);
      own = join(own, {here, row.sum_of<false>(x, here), 0, 0}, row.scale);
    }
    max = block_max<kThreads>(own.max, scratch);
    if (own.max < max) own.sum *= weight_below(own.max, max, row.scale);
  }
  own.max = max;
  own.sum = block_sum<kThreads>(own.sum, scratch + kWarps);
  if (row.p.status) own.nan = block_max<kThreads>(nan ? 1u : 0u, reinterpret_cast<u32*>(scratch + 2 * kWarps));
  return own;
}

QUERN_DEVICE u32 write_row(const Softmax& row, const Part& own, const Part& whole, f32 (&x)[kEach]) {
  const Slice& s = row.s;
  const f32 inverse_sum = whole.sum > 0.0f ? rcp(whole.sum) : 0.0f;
  // Of a row without tokens every logarithm is -inf.
  const f32 log_sum = !kLog ? 0.0f : whole.sum > 0.0f ? log(whole.sum) : infinity(), base = base_of(whole.max);
  const auto log_of = [&](f32 logit) {
    const f32 v = fmax(logit, -infinity());
    return (v == whole.max ? 0.0f : (v - base) * row.inverse) - log_sum;
  };
  if constexpr (kHeld) {
    const f32 factor = (own.max == whole.max ? 1.0f : weight_below(own.max, base, row.scale)) * inverse_sum;
    QUERN_UNROLL for (int i = 0; i < kEach; ++i) x[i] = kLog ? log_of(x[i]) : x[i] * factor;
    row.store(s.first, x);
  } else {
    QUERN_ROLLED for (i32 tile = s.first; tile < s.last; tile += kTiles) {
      load_elements<Fill::least>(s, tile, x);
      QUERN_UNROLL for (int i = 0; i < kEach; ++i) {
        x[i] = kLog ? log_of(x[i]) : weight_below(fmax(x[i], -infinity()), base, row.scale) * inverse_sum;
      }
      row.store(tile, x);
    }
  }
  return (whole.max > -infinity() ? 0u : static_cast<u32>(kRowEmpty)) |
         (whole.nan != 0 ? static_cast<u32>(kRowNan) : 0u);
}

QUERN_DEVICE u32 softmax_of_row(const SoftmaxParams& p, i64 index) {
  QUERN_SHARED(Part, slots, kMostRowBlocks);
  QUERN_SHARED(u64, places, kMostRowBlocks);
  QUERN_SHARED(u64, wide_scratch, kWarps);
  QUERN_SHARED(f32, scratch, 3 * kWarps);
  const f32 temperature = p.temperature.at(index), inverse = inverse_temperature(temperature);
  Out* const out = static_cast<Out*>(p.out) + index * p.out_stride;
  const Slice s = slice_of(static_cast<const Element*>(p.logits) + index * p.logits_stride, p.n);
  const bool vectors = stores_vectors(out, s);
  const Softmax row{p, s, out, vectors, inverse * kLog2OfE, inverse};
  if (!is_temperature(temperature)) {
    row.fill(q::nan());
    return kRowParameter;
  }
  if (temperature == 0.0f) return choose_largest(row, {places, wide_scratch});
  f32 x[kEach];
  const Part own = read_part(row, x, scratch);
  const i32 blocks = row_blocks();
  if (thread_index() < blocks) tell(slots + row_block(), thread_index(), own);
  sync_row();
  Part whole = slots[0];
  QUERN_ROLLED for (i32 b = 1; b < blocks; ++b) whole = join(whole, slots[b], row.scale);
  return write_row(row, own, whole, x);
}

QUERN_DEVICE void softmax(const SoftmaxParams& p) {
  const i32 blocks = row_blocks();
  QUERN_ROLLED for (i64 row = block_index(0) / blocks; row < p.rows; row += block_count(0) / blocks) {
    const u32 status = softmax_of_row(p, row);
    if (p.status && row_block() == 0 && thread_index() == 0) p.status[row] = static_cast<i32>(status);
    // What this row's blocks have told each other has been read before the next row's comes.
    if (row + block_count(0) / blocks < p.rows) sync_row();
  }
}

}  // namespace q

QUERN_KERNEL(quern_softmax, THREADS, BLOCKS_PER_SM, QUERN_PARAM q::SoftmaxParams p) {
  q::launch_next_grid();
  q::begin_rows();
  q::wait_for_previous_grid();
  q::softmax(p);
}
