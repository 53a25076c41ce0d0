// A row's parameters, what may be wrong with them, and what is told of a row.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sample/kernels/room.cuh"

namespace q {

struct Settings {
  f32 temperature, top_p, min_p, typical_p, n_sigma, xtc_probability, xtc_threshold, dynamic_range, dynamic_exponent;
  i32 top_k;

  QUERN_DEVICE static bool is_share(f32 v) { return v >= 0.0f && v <= 1.0f; }
  QUERN_DEVICE bool valid() const {
    return temperature >= 0.0f && temperature < infinity() && is_share(top_p) && is_share(min_p) &&
           is_share(typical_p) && n_sigma == n_sigma && is_share(xtc_probability) && xtc_threshold >= 0.0f &&
           dynamic_range >= 0.0f && dynamic_range < infinity() && fabs(dynamic_exponent) < infinity() && top_k >= -1;
  }
  // Then its share is of the sums over chunks.
  QUERN_DEVICE bool is_top_p_alone(i32 vocab) const {
    return top_p < 1.0f && !(top_k > 0 && top_k < vocab) && !(min_p > 0.0f);
  }
  QUERN_DEVICE bool filters() const {
    return top_k > 0 || top_p < 1.0f || min_p > 0.0f || typical_p < 1.0f || n_sigma > 0.0f || xtc_probability > 0.0f ||
           dynamic_range > 0.0f;
  }
};
// Where a call has none of what few requests ask for.
QUERN_DEVICE Settings usual_settings_of(const SampleParams& p, i32 i) {
  if constexpr (FILTERS == 0) return {read_row(p.temperature, i), 1.0f, 0.0f, 1.0f, 0.0f, 0.0f, 0.0f, 0.0f, 1.0f, 0};
  return {read_row(p.temperature, i), read_row(p.top_p, i), read_row(p.min_p, i), 1.0f, 0.0f, 0.0f, 0.0f, 0.0f, 1.0f,
          read_row(p.top_k, i)};
}
QUERN_DEVICE Settings settings_of(const SampleParams& p, i32 i) {
  return {read_row(p.temperature, i),   read_row(p.top_p, i),         read_row(p.min_p, i),
          read_row(p.typical_p, i),     read_row(p.n_sigma, i),       read_row(p.xtc_probability, i),
          read_row(p.xtc_threshold, i), read_row(p.dynamic_range, i), read_row(p.dynamic_exponent, i),
          read_row(p.top_k, i)};
}

QUERN_CALLED f32 log_of(u64 weight) { return log(static_cast<f32>(weight) * (1.0f / kUnits)); }

// How much is needed to reach a share of the whole, and to exceed it.
QUERN_DEVICE u64 share_of(f32 share, u64 total, bool exceed) {
  const f64 exact = static_cast<f64>(share) * static_cast<f64>(total);
  u64 whole = static_cast<u64>(exact);
  if (exceed || static_cast<f64>(whole) < exact) ++whole;
  return whole == 0 ? 1 : whole;
}

// Thread 0's work, but for the largest tokens where there is nothing to tell of them.
QUERN_DEVICE void report(const SampleParams& p, i32 i, i32 id, f32 logprob, f32 value, u32 status, bool no_largest) {
  if (no_largest) {
    QUERN_ROLLED for (i32 t = thread_index(); t < p.top_n; t += kThreads) {
      p.top_ids[i * p.top_ids_stride + t] = -1;
      if (p.top_logprobs) p.top_logprobs[i * p.top_logprobs_stride + t] = -infinity();
    }
  }
  if (thread_index() != 0) return;
  if (p.wide_ids) {
    static_cast<i64*>(p.ids)[i] = id;
  } else {
    static_cast<i32*>(p.ids)[i] = id;
  }
  if (p.logprobs) p.logprobs[i] = logprob;
  if (p.values) p.values[i] = value;
  if (p.status) p.status[i] = static_cast<i32>(status);
  if (p.output_counts && id >= 0) p.output_counts[i * p.output_counts_stride + id] += 1;
  if (p.offsets) p.offsets[i] += 1;
}

// What is wrong with a row before anything of it is looked at.
QUERN_DEVICE u32 mistakes_of(const Room& room, const SampleParams& p, const Row& row, const Settings& settings) {
  u32 wrong = row.logits ? 0u : static_cast<u32>(kIndex);
  if (!settings.valid()) wrong |= kParameter;
  if constexpr (kEdits) {
    wrong = mistakes_of_edits(p, row, wrong);
    if (p.bias_offsets) {
      wrong = reduce_max(
          room, wrong);  // only kIndex may be set in some threads alone, so that the largest is all of them together
    }
  }
  return wrong;
}

}  // namespace q
