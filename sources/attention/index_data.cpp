// What a call of attention says of sequences and pages, held against the cache and the bounds of the call.
// SPDX-License-Identifier: Apache-2.0
#include "sources/index_data.h"

#include <algorithm>

#include "sources/attention/read.h"

namespace quern::ops::attention {
namespace {

// How many keys the cache has room for in a sequence.
void list_rooms(const quern_attention_args& args, const q::AttentionParams& p, IndexList* list) {
  if (args.page_table != nullptr) {
    list->in_range("lengths", p.lengths, p.batch, 0, args.page_table->shape[1] * p.page_size, "sequence",
                   "the keys of its row of page_table");
  } else if (p.page_indptr != nullptr) {
    list->rooms("lengths", p.lengths, p.page_indptr, p.batch, p.page_size, "sequence",
                "the keys of its pages by page_indptr");
  } else {
    list->rooms("lengths", p.lengths, p.cu_kv, p.batch, 1, "sequence", "its keys by cu_kv");
  }
}

}  // namespace

void list_index_data(const quern_attention_args& args, const Problem& problem, IndexList* list) {
  const q::AttentionParams& p = problem.params;
  const std::int64_t batch = p.batch;
  if (batch == 0) return;
  if (p.cu_q != nullptr) list->offsets("cu_q", p.cu_q, batch, problem.total_q, "sequence", "total_q");
  if (p.cu_kv != nullptr) list->offsets("cu_kv", p.cu_kv, batch, args.k->shape[0], "sequence", "the tokens of k");
  if (p.page_indptr != nullptr) {
    list->offsets("page_indptr", p.page_indptr, batch, args.page_indices->shape[0], "sequence",
                  "the extent of page_indices");
  }
  list->in_range("lengths", p.lengths, batch, 0, args.max_kv_len, "sequence", "max_kv_len");
  if (p.cu_q != nullptr) {
    list->extents("cu_q (the queries of sequence #)", "cu_q", p.cu_q, batch, problem.max_rows / problem.shape.group,
                  "max_q_len");
  }
  list_rooms(args, p, list);
  if (problem.shape.mask) {
    list->in_range("mask_keys", p.mask_keys, batch, 0, args.max_kv_len, "sequence", "max_kv_len");
    q::IndexCheck& rows = list->add(q::CheckKind::mask_rows, "mask_indptr", integers(p.mask_indptr), batch, "sequence",
                                    "where all of its rows lie within mask");
    rows.counts = p.mask_keys, rows.queries = p.cu_q, rows.most = args.mask->shape[0];
  }
  if (p.pages == nullptr) return;
  // The pages that hold a key which some query of the sequence sees; what else the table holds is never followed.
  q::IndexCheck& pages = list->pages(p.pages, p.page_indptr, p.pages_stride, p.lengths, batch, p.page_size,
                                     std::min(args.k->shape[0], args.v->shape[0]), "the pages of k and v");
  pages.queries = p.cu_q, pages.window = p.window_left, pages.flags |= q::kSaysKeys;
}

}  // namespace quern::ops::attention
