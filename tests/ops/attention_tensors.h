// The tensors of one call of attention: shapes, strides and sizes, and the argument struct that points to them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>

#include "capi/quern.h"
#include "tests/ops/attention_case.h"
#include "tests/ops/tensor_box.h"

namespace quern::test {

// Where element [page, token, head, 0] of a cache lies, in elements from the buffer's beginning.
struct CacheLayout {
  std::int64_t begin = 0, page = 0, token = 0, head = 0;
  std::int64_t at(std::int64_t p, std::int64_t t, std::int64_t h) const {
    return begin + p * page + t * token + h * head;
  }
};
struct RowLayout {
  std::int64_t begin = 0, token = 0, head = 0;
  std::int64_t at(std::int64_t t, std::int64_t h) const { return begin + t * token + h * head; }
};

class AttentionTensors {
 public:
  // Without data: enough for workspace and prepare. `pages` is the pool's size, or a ragged cache's total.
  AttentionTensors(const AttentionCase& c, std::int64_t pages);

  quern_attention_args args{};
  TensorBox q, k, v, out, lse, lengths, cu_q, page_table, page_indptr, page_indices, cu_kv, alibi_slopes, sinks;

  RowLayout q_rows, out_rows, lse_rows;
  CacheLayout k_cache, v_cache;
  std::int64_t q_elements = 0, out_elements = 0, lse_elements = 0;  // of the buffers
  std::int64_t k_elements = 0, v_elements = 0;                      // v_elements 0: V lies in K's buffer
  int max_pages = 0;                                                // columns of the page table
};

// How many pages the sequences of a case need, each counted up to its length.
std::int64_t pages_of(const AttentionCase& c);

}  // namespace quern::test
