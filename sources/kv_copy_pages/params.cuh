// The run-time arguments of kv_copy_pages.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/divisor.cuh"
#include "common/integers.cuh"

namespace q {

// What is copied of a page: rows, counted outer by inner, of `chunks` chunks each. Strides in bytes.
struct PageRows {
  const u8* from;
  u8* to;
  i64 from_page, from_outer, from_inner;
  i64 to_page, to_outer, to_inner;
  Divisor inner;
  Divisor chunks;
  i32 count;   // chunks of a page; 0: nothing
  i32 strips;  // blocks of threads that share a page
};

struct KvCopyPagesParams {
  PageRows rows[4];  // keys, values, and their scales, whose chunks are numbers
  Integers sources, destinations;
  i64 pages_from[2], pages_to[2];  // in the pools of keys and values
  i32 pairs;
  Divisor strips;  // of a pair, in all
};

}  // namespace q
