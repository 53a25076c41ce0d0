// SPDX-License-Identifier: Apache-2.0
#include "sources/mla_decode/index_check.h"

namespace quern::ops::mla_decode {

void list_index_data(const Problem& problem, IndexList* list) {
  const q::MlaParams& p = problem.params;
  if (problem.shape.indexed == Indexed::slots) {
    const std::int64_t places = std::int64_t{p.pool_pages} * p.page_size;
    list->rows_in_range("indices", p.indices, p.total_q, p.top_k, p.indices_stride, -1, places - 1, nullptr,
                        "the pool's places")
        .flags |= q::kLessAllowed;
    return;
  }
  if (p.cu_q != nullptr) {
    list->offsets("cu_q", p.cu_q, p.batch, p.total_q, "sequence", "q's rows");
    list->extents("the queries of sequence #, by cu_q,", "cu_q", p.cu_q, p.batch, p.max_q_len, "max_q_len");
  }
  if (p.page_indptr != nullptr)
    list->offsets("page_indptr", p.page_indptr, p.batch, p.listed_pages, "sequence", "page_indices' entries");
  list->in_range("lengths", p.lengths, p.batch, 0, p.max_keys, "sequence",
                 "max_kv_len and the page table's entries");
  if (p.page_indptr != nullptr) {
    list->rooms("lengths", p.lengths, p.page_indptr, p.batch, p.page_size, nullptr,
                "the sequence's entries of page_indices");
  }
  list->pages(p.pages, p.page_indptr, p.pages_stride, p.lengths, p.batch, p.page_size, p.pool_pages, "cache's pages");
  if (problem.shape.indexed == Indexed::no) return;
  q::IndexCheck& listed = list->add(q::CheckKind::listed, "indices", integers(p.indices), p.batch, nullptr,
                                    "the sequence's length");
  listed.indptr = p.cu_q, listed.counts = p.lengths, listed.columns = p.top_k, listed.row_stride = p.indices_stride;
}

}  // namespace quern::ops::mla_decode
