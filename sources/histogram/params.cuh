// The run-time arguments of histogram.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/divisor.cuh"

namespace q {

inline constexpr i32 kHistogramThreads = 512, kRangeThreads = 1024;

struct HistogramParams {
  const u8* x;
  u8* counts;
  i64 x_stride, counts_stride;  // elements between rows
  i64 first, n;
  f32 low, high, scale;
  i32 rows, bins;
  i32 parts;             // of a row, a block each
  i32 part;              // chunks of one
  i32 copies;            // of the bins in shared memory, a power of two
  i32 ranges;            // of the bins, of which each part of a row has a block for each
  i32 range_bins;        // of one, the last of which may have fewer
  i32 below, above;      // the bins of what lies outside; -1: none
  i32 accumulate, wide;  // truth values; wide: counts have 64 bits
  i32 narrow;            // a truth value: `first` has 32 bits
  i32 plain;             // a truth value: so have all bins, and what lies outside is not counted
};

}  // namespace q
