// What tells where tokens go in a paged cache: by slots, or by page table.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/divisor.cuh"
#include "common/integers.cuh"

namespace q {

struct TokenPlaces {
  Integers slots;      // data null: by page table
  Integers positions;  // data null: none
  i64 page_count;      // of the cache
  Divisor page_size;
  i32 batch;
  const i32* pages;  // a page table's rows, or the indices that page_indptr points into
  const i32* page_indptr;
  const i32* cu_q;  // [batch + 1]; null: token t is sequence t's
  const i32* lengths;
  i64 pages_stride;
  i64 page_columns;  // of the page table; with page_indptr all indices
};

}  // namespace q
