// What a call of attention on `host` says of sequences and pages, held against the cache and the bounds of the call.
// SPDX-License-Identifier: Apache-2.0
#include "sources/index_data.h"

#include <algorithm>
#include <string>

#include "sources/attention/read.h"

namespace quern::ops::attention {
namespace {

std::string of_sequence(std::int64_t sequence) { return "sequence " + std::to_string(sequence); }

// The pages that hold a key which some query of the sequence sees; what else the table holds is never followed.
void check_pages(const quern_attention_args& args, const q::AttentionParams& p, std::int64_t sequence,
                 std::int64_t queries, std::int64_t length) {
  const std::int64_t first_key = std::max<std::int64_t>(length - queries - p.window_left, 0);
  const std::int64_t pages = std::min(args.k->shape[0], args.v->shape[0]), size = p.page_size;
  const std::int64_t begin = p.page_indptr != nullptr ? p.page_indptr[sequence] : sequence * p.pages_stride;
  for (std::int64_t page = first_key / size; page * size < length; ++page) {
    const std::int32_t id = p.pages[begin + page];
    if (id >= 0 && id < pages) continue;
    const std::string place = p.page_indptr != nullptr
                                  ? "page_indices[" + std::to_string(begin + page) + "]"
                                  : "page_table[" + std::to_string(sequence) + "][" + std::to_string(page) + "]";
    const std::string keys =
        std::to_string(page * size) + " to " + std::to_string(std::min((page + 1) * size, length) - 1);
    refuse_index(place + " (" + of_sequence(sequence) + ", keys " + keys + ")", id, 0, pages - 1,
                 "the pages of k and v");
  }
}

// How many keys the cache has room for in a sequence, and what that comes from.
struct Room {
  std::int64_t keys;
  const char* bound;
};
Room room_of(const quern_attention_args& args, const q::AttentionParams& p, std::int64_t sequence) {
  if (args.page_table != nullptr) return {args.page_table->shape[1] * p.page_size, "the keys of its row of page_table"};
  if (p.page_indptr != nullptr) {
    const std::int64_t pages = p.page_indptr[sequence + 1] - p.page_indptr[sequence];
    return {pages * p.page_size, "the keys of its pages by page_indptr"};
  }
  return {p.cu_kv[sequence + 1] - p.cu_kv[sequence], "its keys by cu_kv"};
}

}  // namespace

void check_index_data(const quern_attention_args& args, const Problem& problem) {
  const q::AttentionParams& p = problem.params;
  const std::int64_t batch = p.batch;
  if (batch == 0) return;
  if (p.cu_q != nullptr) expect_offsets("cu_q", p.cu_q, batch, problem.total_q, "sequence", "total_q");
  if (p.cu_kv != nullptr) expect_offsets("cu_kv", p.cu_kv, batch, args.k->shape[0], "sequence", "the tokens of k");
  if (p.page_indptr != nullptr) {
    expect_offsets("page_indptr", p.page_indptr, batch, args.page_indices->shape[0], "sequence",
                   "the extent of page_indices");
  }
  expect_in_range("lengths", p.lengths, batch, 0, args.max_kv_len, "sequence", "max_kv_len");
  for (std::int64_t i = 0; i < batch; ++i) {
    const std::int64_t length = p.lengths[i], queries = p.cu_q != nullptr ? p.cu_q[i + 1] - p.cu_q[i] : 1;
    const std::int64_t most = problem.max_rows / problem.shape.group;
    if (queries > most) {
      refuse_index("cu_q (the queries of " + of_sequence(i) + ")", queries, 0, most, "max_q_len");
    }
    const Room room = room_of(args, p, i);
    if (length > room.keys) {
      refuse_index("lengths[" + std::to_string(i) + "] (" + of_sequence(i) + ")", length, 0, room.keys, room.bound);
    }
    if (p.pages != nullptr && queries > 0) check_pages(args, p, i, queries, length);
  }
}

}  // namespace quern::ops::attention
