// What a call of attention says of sequences and pages, held against the cache and the bounds of the call.
// SPDX-License-Identifier: Apache-2.0
#include "sources/index_data.h"

#include <algorithm>

#include "sources/attention/read.h"
#include "sources/late.h"

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

// Of one token: its place in the keys' and values' pools.
struct TokenAt {
  std::int64_t page, slot;
};
TokenAt token_at(const q::AttentionParams& p, std::int64_t sequence, std::int64_t key) {
  if (p.pages == nullptr) return {0, p.cu_kv[sequence] + key};
  const std::int64_t first = p.page_indptr != nullptr ? p.page_indptr[sequence] : sequence * p.pages_stride;
  return {p.pages[first + key / p.page_size], key % p.page_size};
}

}  // namespace

void note_present(const Problem& problem, LateTensors* late) {
  const q::AttentionParams& p = problem.params;
  const std::int64_t unit = 1;
  const auto note = [&](const char* name, const void* data, std::int64_t at, std::int64_t elements,
                        std::int64_t bytes) {
    auto* const first = static_cast<std::uint8_t*>(const_cast<void*>(data));
    late->note(name, first + at, bytes, false, {&elements, 1}, {&unit, 1});
  };
  const auto bytes = static_cast<std::int64_t>(problem.shape.cache_bytes());
  for (std::int64_t b = 0; b < p.batch; ++b) {
    const std::int64_t count = p.cu_q != nullptr ? p.cu_q[b + 1] - p.cu_q[b] : 1, end = p.lengths[b];
    for (std::int64_t key = std::max<std::int64_t>(end - count, 0); key < end; ++key) {
      const auto [page, slot] = token_at(p, b, key);
      for (std::int64_t h = 0; h < p.kv_heads; ++h) {
        note("this call's keys", p.keys, page * p.k_page_bytes + slot * p.k_token_bytes + h * p.k_stride_head,
             problem.shape.dim_k, bytes);
        note("this call's values", p.values, page * p.v_page_bytes + slot * p.v_token_bytes + h * p.v_stride_head,
             problem.shape.dim_v, bytes);
        if (!problem.shape.token_scales) continue;
        note("their keys' scales", p.k_scale,
             4 * (page * p.k_scale_stride_page + slot * p.k_scale_stride_token + h * p.k_scale_stride_head), 1, 4);
        note("their values' scales", p.v_scale,
             4 * (page * p.v_scale_stride_page + slot * p.v_scale_stride_token + h * p.v_scale_stride_head), 1, 4);
      }
    }
  }
}

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
