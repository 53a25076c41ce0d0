// SPDX-License-Identifier: Apache-2.0
#include "sources/kv_append/index_check.h"

#include <algorithm>
#include <string>

#include "sources/index_data.h"
#include "sources/rope/options.h"

namespace quern::ops::kv_append {
namespace {

std::string of_token(const char* name, std::int64_t token) {
  return std::string(name) + "[" + std::to_string(token) + "] (token " + std::to_string(token) + ")";
}

// A sequence's part of the page table: where its entries begin, and how many there are.
struct Entries {
  std::int64_t begin, count;
};
Entries entries_of(const q::TokenPlaces& p, std::int64_t sequence) {
  if (p.page_indptr == nullptr) return {sequence * p.pages_stride, p.page_columns};
  return {p.page_indptr[sequence], p.page_indptr[sequence + 1] - p.page_indptr[sequence]};
}

void check_page(const q::TokenPlaces& p, std::int64_t sequence, std::int64_t entry, const std::string& cache) {
  const std::int64_t at = entries_of(p, sequence).begin + entry;
  if (p.pages[at] >= 0 && p.pages[at] < p.page_count) return;
  const std::string place = p.page_indptr != nullptr
                                ? "page_indices[" + std::to_string(at) + "]"
                                : "page_table[" + std::to_string(sequence) + "][" + std::to_string(entry) + "]";
  refuse_index(place + " (sequence " + std::to_string(sequence) + ")", p.pages[at], 0, p.page_count - 1,
               cache + "'s pages");
}

// The tokens first to last - 1 are the sequence's.
void check_sequence(const q::TokenPlaces& p, std::int64_t sequence, std::int64_t first, std::int64_t last,
                    const std::string& cache) {
  const std::int64_t room = entries_of(p, sequence).count * p.page_size.value;
  if (p.positions.data == nullptr && (p.lengths[sequence] < last - first || p.lengths[sequence] > room)) {
    refuse_index("lengths[" + std::to_string(sequence) + "] (sequence " + std::to_string(sequence) + ")",
                 p.lengths[sequence], last - first, room, "from the sequence's new tokens to its pages' places");
  }
  for (std::int64_t token = first; token < last; ++token) {
    const std::int64_t position =
        p.positions.data != nullptr ? q::integer_at(p.positions, token) : p.lengths[sequence] - (last - token);
    if (position < 0) continue;
    if (position >= room) {
      refuse_index(of_token("positions", token) + ", of sequence " + std::to_string(sequence) + ",", position, 0,
                   room - 1, "the places of the sequence's pages; a negative one is skipped");
    }
    check_page(p, sequence, position / p.page_size.value, cache);
  }
}

void check_batch(const q::TokenPlaces& p, std::int64_t tokens, const std::string& cache, const char* given) {
  if (p.page_indptr != nullptr) {
    expect_offsets("page_indptr", p.page_indptr, p.batch, p.page_columns, "sequence", "page_indices' entries");
  }
  if (p.cu_q != nullptr) {
    expect_offsets("cu_q", p.cu_q, p.batch, tokens, "sequence", (std::string(given) + "'s tokens").c_str());
  }
  for (std::int64_t i = 0; i < p.batch; ++i) {
    const std::int64_t first = p.cu_q != nullptr ? p.cu_q[i] : i, last = p.cu_q != nullptr ? p.cu_q[i + 1] : i + 1;
    check_sequence(p, i, first, std::min(last, tokens), cache);
  }
}

}  // namespace

void check_places(const q::TokenPlaces& p, const q::Rope& rope, std::int64_t tokens, const char* cache,
                  const char* given) {
  if (p.slots.data == nullptr) {
    check_batch(p, tokens, cache, given);
  } else {
    const std::int64_t places = p.page_count * p.page_size.value;
    for (std::int64_t token = 0; token < tokens; ++token) {
      const std::int64_t slot = q::integer_at(p.slots, token);
      if (slot >= places) {
        refuse_index(of_token("slots", token), slot, 0, places - 1,
                     std::string(cache) + "'s places; a negative slot is skipped");
      }
    }
  }
  if (rope.table != nullptr && p.positions.data != nullptr) rope::expect_table_has(p.positions, tokens, rope);
}

}  // namespace quern::ops::kv_append
