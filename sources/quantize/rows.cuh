// Quantises rows: a team of threads takes a row, or where nothing is to be known of a row as a whole, a piece of one.
// What a thread has read it keeps in registers until it is written; a row too long for that is read again for each
// thing that must be known of all of it.
// SPDX-License-Identifier: Apache-2.0
#include "common/kernel.cuh"
#include "common/scale.cuh"
#include "quantize/front.cuh"
#include "quantize/params.cuh"
#include "quantize/scale.cuh"
#include "quantize/team.cuh"
#include "quantize/vectors.cuh"

namespace q {

using Out = OUT;
inline constexpr Scale kScale = SCALE;
inline constexpr bool kHeld = HELD;  // a row that must be known as a whole is one pass
inline constexpr bool kWhole = kNorm || kScale == Scale::token;
// What is asked of all rows together, or given for them, is read or written where there is no row, too. A norm without
// a residual has no registers left for it.
inline constexpr bool kRehearses =
    kScale != Scale::given && kScale != Scale::find && (!kWhole || kHeld) && (!kNorm || kResidual);
inline constexpr int kGroupLanes = kGroupColumns / kElements;
static_assert(kTeam % kGroupLanes == 0 && kGroupLanes <= kWarp, "a group is within a warp");

// A thread's vectors lie in as many groups, whose lanes between them hold each vector's largest magnitude in turn:
// folded together, kSpread neighbours are left with that of vector lane / kSpread, and what follows from it is worked
// out once.
QUERN_DEVICE void store_groups(const QuantizeParams& p, const Pass& pass, const Values& y, Out* at) {
  constexpr int kSpread = kGroupLanes / kVectors;
  f32 largest[kVectors];
  QUERN_UNROLL for (int v = 0; v < kVectors; ++v) largest[v] = largest_finite(0.0f, y.v[v]);
  QUERN_UNROLL for (int count = kVectors / 2; count > 0; count /= 2) {
    const int mask = kSpread * count;
    const bool upper = (lane() & mask) != 0;
    QUERN_UNROLL for (int v = 0; v < count; ++v) {
      const f32 kept = upper ? largest[v + count] : largest[v], given = upper ? largest[v] : largest[v + count];
      largest[v] = fmax(kept, shuffle_xor(given, mask));
    }
  }
  const f32 scale = scale_for<Out>(lanes_reduce<kSpread>(largest[0], Larger()), p.power_of_two);
  const int place = lane() % kGroupLanes, own = place / kSpread;
  // The group begins with the first lane's elements, which may be there where this lane's are not.
  if (place % kSpread == 0 && pass.left(own) + place * kElements > 0) {
    const i64 group = pass.column(own) / kGroupColumns;
    p.scale[pass.row() * p.scale_stride_row + group * p.scale_stride_group] = scale;
  }
  const Divisor divisor = divisor_of(scale);
  QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
    const int owner = lane() / kGroupLanes * kGroupLanes + v * kSpread;
    const Divisor of_group{shuffle(divisor.high, owner), shuffle(divisor.low, owner)};
    store_vector(at + v * kStep, divide(y.v[v], of_group), pass.left(v));
  }
}

// Stores what a pass has come to. `scale` is the row's or the tensor's, where it is not a group's; `plain` as divide
// takes it.
QUERN_DEVICE void finish(const QuantizeParams& p, const Pass& pass, const Values& y, f32 scale, bool plain) {
  if (p.dense) store_values(p.dense, p.dense_stride, pass, y);
  if constexpr (kScale == Scale::none) return;
  Out* at = pass.in<Out>(p.out, p.out_stride);
  if constexpr (kScale == Scale::group) {
    store_groups(p, pass, y, at);
  } else {
    const Divisor divisor = divisor_of(scale);
    QUERN_UNROLL for (int v = 0; v < kVectors; ++v)
        store_vector(at + v * kStep, divide(y.v[v], divisor, plain), pass.left(v));
  }
}

// The scale of a row, found (the team's first thread writes it down) or given.
QUERN_DEVICE f32 row_scale(const QuantizeParams& p, const Pass& pass, f32 largest, Joiner& joiner) {
  if constexpr (kScale == Scale::token) {
    const f32 scale = scale_for<Out>(joiner.team(largest, Larger()), p.power_of_two);
    if (pass.row() < p.rows && thread_index() % kTeam == 0) p.scale[pass.row() * p.scale_stride_row] = scale;
    return scale;
  } else if constexpr (kScale == Scale::given) {
    return p.scale[0];
  } else {
    return 1.0f;
  }
}

// A row or a piece of one that is read once. Returns the largest magnitude yet.
QUERN_DEVICE f32 take_held(const QuantizeParams& p, const Pass& pass, f32 largest, Joiner& joiner) {
  // What a norm multiplies by is on its way before the row is waited for, where a thread holds little of it.
  constexpr bool kWeightsFirst = kNorm && kResidual;
  Parameters parameters;
  if constexpr (kWeightsFirst) parameters = load_parameters(p, pass);
  Values y = load_values(p, pass);
  if constexpr (kNorm) {
    if constexpr (!kWeightsFirst) parameters = load_parameters(p, pass);
    if (kScale != Scale::find && kResidual && p.residual_out)
      store_values(p.residual_out, p.residual_out_stride, pass, y);
    f32 mean = 0.0f;
    if constexpr (kFront == Front::layernorm) mean = joiner.team(sum(y), Plus()) / static_cast<f32>(p.n);
    const f32 squares = joiner.team(sum_of_squares(y, pass, mean), Plus());
    normalise(p, {mean, inverse_deviation(p, squares)}, parameters, y);
  }
  const Magnitude here = kScale == Scale::group || kScale == Scale::none ? Magnitude{} : magnitude_of(y.v);
  if constexpr (kScale == Scale::find) return fmax(largest, here.largest);
  const f32 scale = row_scale(p, pass, here.largest, joiner);
  // A scale that was found suits its values. Of one that was given nothing is known: from there on y / scale may
  // overflow.
  const bool suits = kScale != Scale::given || (scale > 0x1p-23f && scale < infinity());
  finish(p, pass, y, scale, here.finite && suits);
  return 0.0f;
}

// Calls f(pass, values) for each pass of a row, the values as they are loaded.
template <class F>
QUERN_DEVICE void each_pass(const QuantizeParams& p, i64 row, F&& f) {
  QUERN_ROLLED for (u32 first = 0; first < static_cast<u32>(p.n); first += kPass) {
    const Pass pass(p, row, first);
    Values y = load_values(p, pass);
    f(pass, y);
  }
}

// A row that is longer than what its team can hold.
QUERN_DEVICE f32 take_long(const QuantizeParams& p, i64 row, f32 largest, Joiner& joiner) {
  Moments moments{};
  const auto front = [&](const Pass& pass, Values& y) {
    if constexpr (kNorm) normalise(p, moments, load_parameters(p, pass), y);
  };
  if constexpr (kFront == Front::layernorm) {
    f32 total = 0.0f;
    each_pass(p, row, [&](const Pass&, const Values& y) { total += sum(y); });
    moments.mean = joiner.team(total, Plus()) / static_cast<f32>(p.n);
  }
  if constexpr (kNorm) {
    f32 squares = 0.0f;
    each_pass(p, row, [&](const Pass& pass, const Values& y) { squares += sum_of_squares(y, pass, moments.mean); });
    moments.inverse = inverse_deviation(p, joiner.team(squares, Plus()));
  }
  f32 row_largest = 0.0f;
  if constexpr (kScale == Scale::token || kScale == Scale::find) {
    each_pass(p, row, [&](const Pass& pass, Values& y) {
      front(pass, y);
      row_largest = fmax(row_largest, magnitude_of(y.v).largest);
    });
    if constexpr (kScale == Scale::find) return fmax(largest, row_largest);
  }
  const f32 scale = row_scale(p, Pass(p, row, 0), row_largest, joiner);
  each_pass(p, row, [&](const Pass& pass, Values& y) {
    if (kResidual && p.residual_out) store_values(p.residual_out, p.residual_out_stride, pass, y);
    front(pass, y);
    finish(p, pass, y, scale, false);
  });
  return 0.0f;
}

// Joins what all blocks have found. The last one to come writes the scale and leaves the counters as they were.
QUERN_DEVICE void find_scale(const QuantizeParams& p, f32 largest, Joiner& joiner) {
  largest = joiner.block(largest, Larger());
  if (thread_index() != 0) return;
  atomic_max(p.counters + 1, bits_of(largest));  // of numbers that are not negative the bits are in order
  fence();
  const u32 blocks = static_cast<u32>(block_count(0) * block_count(1));
  if (atomic_add(p.counters, 1u) != blocks - 1) return;
  fence();
  p.scale[0] = scale_for<Out>(f32_of(load_volatile(p.counters + 1)), p.power_of_two);
  p.counters[0] = 0, p.counters[1] = 0;
}

QUERN_DEVICE void quantize_rows(const QuantizeParams& p) {
  QUERN_SHARED(f32, shared, 2 * Joiner::kWarps);
  Joiner joiner(shared);
  f32 largest = 0.0f;
  const i64 begin = static_cast<i64>(block_index(0)) * kTeams, step = static_cast<i64>(block_count(0)) * kTeams;
  // A multiprocessor fetches code that it has not run yet line by line, which takes longer than a row. So a block goes
  // through it on no row, which neither reads nor writes, while there is nothing else to do.
  bool waited = !kRehearses || p.rehearses == 0;
  if (waited) wait_for_previous_grid();
  if constexpr (kNorm) {
    if (!waited) fetch_norm(p, Pass(p, 0, 0));
  }
  QUERN_ROLLED for (i64 first_row = waited ? begin : p.rows; !waited || first_row < p.rows;) {
    const i64 row = first_row + (kTeams == 1 ? 0 : thread_index() / kTeam);
    if constexpr (kWhole && kHeld) {
      largest = take_held(p, Pass(p, row, 0), largest, joiner);
    } else if constexpr (kWhole) {
      largest = take_long(p, row, largest, joiner);
    } else {
      const i64 stride = static_cast<i64>(block_count(1)) * kPass;
      QUERN_ROLLED for (i64 first = static_cast<i64>(block_index(1)) * kPass; first < p.n; first += stride) {
        largest = take_held(p, Pass(p, row, static_cast<u32>(first)), largest, joiner);
      }
    }
    if (waited) {
      first_row += step;
    } else {
      wait_for_previous_grid();
      waited = true, first_row = begin;
    }
  }
  if constexpr (kScale == Scale::find) find_scale(p, largest, joiner);
}

}  // namespace q

QUERN_KERNEL(quern_quantize_rows, THREADS, BLOCKS_PER_SM, QUERN_PARAM q::QuantizeParams p) {
  q::launch_next_grid();
  q::fetch_parameters(p);
  q::quantize_rows(p);
}
