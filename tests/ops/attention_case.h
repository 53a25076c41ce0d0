// One case of attention: everything that a call is given, but for the numbers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "tests/ops/number.h"

namespace quern::test {

struct Lengths {
  int q;
  int kv;
};

enum class Layout {
  nhd,          // [pages, page_size, kv_heads, d]
  hnd,          // the same with heads outside of tokens
  interleaved,  // K and V of a page side by side in one pool
  ragged        // [total_kv, kv_heads, d]
};

struct AttentionCase {
  std::string name;
  std::vector<Lengths> sequences;
  std::vector<int>
      numbers;  // which numbers each sequence gets, so that it can be met again in other company; empty: 0, 1, ...
  Format format = Format::bf16;
  int dim_k = 64;
  int dim_v = 0;  // 0: dim_k
  int kv_heads = 2;
  int group = 2;  // query heads of a KV head
  Layout layout = Layout::nhd;
  int page_size = 16;
  bool indptr = false;     // page_indptr and page_indices
  bool one_query = false;  // without cu_q: every sequence has one query
  bool causal = false;
  std::optional<int> left, right;  // the window
  float cap = 0.0f;
  bool alibi = false;
  bool sinks = false;
  bool lse = true;
  float scale = 0.0f;
  std::uint32_t flags = 0;  // enum quern_call_flags
  int max_sms = 0;
  int alignment = 0;
  int offset = 0;       // byte_offset of every tensor that may have one
  int padding = 0;      // elements between rows of q, k, v and out
  bool sliced = false;  // q and out are slices of wider tensors, of which other heads lie beside theirs
  int spare_rows = 0;   // rows of q and out beyond the last sequence's
  int max_q_len = 0;    // 0: left for quern to find
  int max_kv_len = 0;   // 0: the longest sequence's
  double growth = 0.0;  // products grow along the keys by this much in all, so that the running maximum keeps moving
  std::int64_t most_tokens = std::int64_t{1} << 18;  // of the pool; sequences share pages beyond that
  int first_page = 0;  // the pool begins with so many pages that nobody uses; not with a ragged or interleaved cache

  int v() const { return dim_v != 0 ? dim_v : dim_k; }
  int heads() const { return kv_heads * group; }
  int batch() const { return static_cast<int>(sequences.size()); }
  int used_rows() const {
    int rows = 0;
    for (const Lengths& s : sequences) rows += s.q;
    return rows;
  }
  int total_q() const { return used_rows() + spare_rows; }
  int longest() const {
    int longest = 1;
    for (const Lengths& s : sequences) longest = std::max(longest, s.kv);
    return longest;
  }
  double scale_used() const { return scale > 0.0f ? static_cast<double>(scale) : 1.0 / std::sqrt(dim_k); }
};

inline void PrintTo(const AttentionCase& c, std::ostream* out) { *out << c.name; }

// `batch` sequences of one query.
inline std::vector<Lengths> decode_of(int batch, int kv) {
  return std::vector<Lengths>(static_cast<std::size_t>(batch), Lengths{1, kv});
}
inline std::vector<Lengths> decode_of(const std::vector<int>& kv) {
  std::vector<Lengths> sequences;
  for (const int n : kv) sequences.push_back({1, n});
  return sequences;
}

}  // namespace quern::test
