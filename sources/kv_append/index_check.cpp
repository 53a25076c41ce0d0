// SPDX-License-Identifier: Apache-2.0
#include "sources/kv_append/index_check.h"

#include "sources/rope/options.h"

namespace quern::ops::kv_append {
namespace {

// A check of the new tokens of each sequence, which see their page table's part.
q::IndexCheck& add_of_tokens(const q::TokenPlaces& p, q::CheckKind kind, const char* name, const q::Integers& values,
                             std::int64_t tokens, const char* item, const char* bound, IndexList* list) {
  q::IndexCheck& check = list->add(kind, name, values, p.batch, item, bound);
  check.others = p.positions, check.counts = p.lengths, check.indptr = p.cu_q, check.page_indptr = p.page_indptr;
  check.row_stride = p.pages_stride, check.columns = p.page_columns, check.size = p.page_size.value;
  check.most = p.page_count - 1, check.window = tokens;
  return check;
}

void list_batch(const q::TokenPlaces& p, std::int64_t tokens, const PlaceBounds& bounds, IndexList* list) {
  if (p.page_indptr != nullptr)
    list->offsets("page_indptr", p.page_indptr, p.batch, p.page_columns, "sequence", "page_indices' entries");
  if (p.cu_q != nullptr) list->offsets("cu_q", p.cu_q, p.batch, tokens, "sequence", bounds.tokens);
  if (p.positions.data == nullptr) {
    add_of_tokens(p, q::CheckKind::new_lengths, "lengths", {}, tokens, "sequence",
                  "from the sequence's new tokens to its pages' places", list);
  } else {
    add_of_tokens(p, q::CheckKind::new_positions, "positions", {}, tokens, "token",
                  "the places of the sequence's pages; a negative one is skipped", list);
  }
  add_of_tokens(p, q::CheckKind::new_pages, p.page_indptr != nullptr ? "page_indices" : "page_table",
                integers(p.pages), tokens, "sequence", bounds.pages, list);
}

}  // namespace

void list_places(const q::TokenPlaces& p, const q::Rope& rope, std::int64_t tokens, const PlaceBounds& bounds,
                 IndexList* list) {
  if (p.slots.data == nullptr) {
    list_batch(p, tokens, bounds, list);
  } else {
    list->in_range("slots", p.slots, tokens, 0, p.page_count * p.page_size.value - 1, "token", bounds.places).flags |=
        q::kLessAllowed;
  }
  if (rope.table != nullptr && p.positions.data != nullptr) rope::list_positions(p.positions, tokens, rope, list);
}

}  // namespace quern::ops::kv_append
