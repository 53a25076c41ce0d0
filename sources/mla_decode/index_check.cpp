// SPDX-License-Identifier: Apache-2.0
#include "sources/mla_decode/index_check.h"

#include <string>

#include "sources/index_data.h"

namespace quern::ops::mla_decode {
namespace {

std::string at(const char* name, std::int64_t row, std::int64_t column) {
  return std::string(name) + "[" + std::to_string(row) + "][" + std::to_string(column) + "]";
}

void check_pages(const q::MlaParams& p, std::int64_t sequence) {
  const std::int64_t pages = (std::int64_t{p.lengths[sequence]} + p.page_size - 1) / p.page_size;
  const std::int64_t begin = p.page_indptr != nullptr ? p.page_indptr[sequence] : sequence * p.pages_stride;
  for (std::int64_t i = 0; i < pages; ++i) {
    const std::int32_t page = p.pages[begin + i];
    if (page >= 0 && page < p.pool_pages) continue;
    const std::string place =
        p.page_indptr != nullptr ? "page_indices[" + std::to_string(begin + i) + "]" : at("page_table", sequence, i);
    refuse_index(place + " (sequence " + std::to_string(sequence) + ")", page, 0, std::int64_t{p.pool_pages} - 1,
                 "cache's pages");
  }
}

void check_indices(const q::MlaParams& p, std::int64_t token, std::int64_t keys, const char* bound) {
  for (std::int64_t i = 0; i < p.top_k; ++i) {
    const std::int32_t index = p.indices[token * p.indices_stride + i];
    if (index >= 0 && index >= keys) refuse_index(at("indices", token, i), index, -1, keys - 1, bound);
  }
}

}  // namespace

void check_index_data(const Problem& problem) {
  const q::MlaParams& p = problem.params;
  if (problem.shape.indexed == Indexed::slots) {
    for (std::int64_t token = 0; token < p.total_q; ++token) {
      check_indices(p, token, std::int64_t{p.pool_pages} * p.page_size, "the pool's places");
    }
    return;
  }
  if (p.cu_q != nullptr) {
    expect_offsets("cu_q", p.cu_q, p.batch, p.total_q, "sequence", "q's rows");
    for (std::int64_t i = 0; i < p.batch; ++i) {
      const std::int32_t queries = p.cu_q[i + 1] - p.cu_q[i];
      if (queries > p.max_q_len) {
        refuse_index("the queries of sequence " + std::to_string(i) + ", by cu_q,", queries, 0, p.max_q_len,
                     "max_q_len");
      }
    }
  }
  if (p.page_indptr != nullptr) {
    expect_offsets("page_indptr", p.page_indptr, p.batch, p.listed_pages, "sequence", "page_indices' entries");
  }
  expect_in_range("lengths", p.lengths, p.batch, 0, p.max_keys, "sequence", "max_kv_len and the page table's entries");
  for (std::int64_t i = 0; i < p.batch; ++i) {
    if (p.page_indptr != nullptr) {
      const std::int64_t room = std::int64_t{p.page_indptr[i + 1] - p.page_indptr[i]} * p.page_size;
      if (p.lengths[i] > room) {
        refuse_index("lengths[" + std::to_string(i) + "]", p.lengths[i], 0, room,
                     "the sequence's entries of page_indices");
      }
    }
    check_pages(p, i);
    if (problem.shape.indexed == Indexed::no) continue;
    const std::int64_t first = p.cu_q != nullptr ? p.cu_q[i] : i, last = p.cu_q != nullptr ? p.cu_q[i + 1] : i + 1;
    for (std::int64_t token = first; token < last; ++token)
      check_indices(p, token, p.lengths[i], "the sequence's length");
  }
}

}  // namespace quern::ops::mla_decode
