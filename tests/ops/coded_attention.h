// Attention over caches of 8 bits with scales, with queries and results of 8 bits, custom masks and numbers that are
// not finite: a case, its tensors, and what it gives by fp64 maths on the very codes and scales.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/ops/array.h"
#include "tests/ops/attention_case.h"
#include "tests/ops/random.h"

namespace quern::test {

enum class CacheScale { none, tensor, head, token };

struct CodedCase {
  std::string name;
  Element element = Element::bf16;               // of the results
  std::optional<Element> cache, queries, codes;  // codes: of the results; else element
  std::vector<Lengths> sequences = {{1, 100}, {1, 33}, {1, 5}, {1, 64}};
  CacheScale scale = CacheScale::none, q_scale = CacheScale::none;
  double spread = 1.0;  // scales of tokens differ by powers of e of about so much
  double size = 1.0;    // of values
  std::int64_t dim = 64, dim_v = 0, kv_heads = 2, group = 2, page_size = 16;
  bool ragged = false, hnd = false, causal = true, mask = false, raw_bytes = false, shared_scales = false;
  bool negative = false;                      // every other scale of the cache, by heads or by tokens
  bool bad_keys = false, bad_values = false;  // one of each sequence's last keys or values is NaN
  bool falls = false;  // keys behind the first quarter of a sequence are a sixteenth as large, and logits are large
  std::optional<int> left;
  float cap = 0.0f;
  bool alibi = false;
  std::uint32_t flags = 0;
  int alignment = 0;

  std::int64_t v() const { return dim_v != 0 ? dim_v : dim; }
  std::int64_t heads() const { return kv_heads * group; }
  std::int64_t batch() const { return static_cast<std::int64_t>(sequences.size()); }
  std::int64_t total_q() const;
  std::int64_t longest() const;
};

class CodedAttention {
 public:
  explicit CodedAttention(const CodedCase& c);
  // Asks for the workspace, prepares and calls; every status is expected to be QUERN_OK.
  void run(quern_context* on);
  // Holds the results against the definition.
  void check();

  quern_attention_args args;

 private:
  struct Row {
    std::vector<double> out;
    double lse, by_weights, size, logits;  // what rounding weights and sums may cost; of the products
    bool bad;                              // sees what is not finite
  };
  Row row_exactly(std::int64_t sequence, std::int64_t query, std::int64_t head) const;
  bool sees(std::int64_t sequence, std::int64_t query, std::int64_t key) const;
  // Whether a target may multiply the codes themselves.
  bool may_multiply_codes() const;
  bool scale_is_right(double scale, const std::vector<double>& results, std::size_t first, double allowed) const;
  Array cache_of(std::int64_t dim) const;
  Array scale_of() const;
  std::int64_t page_of(std::int64_t sequence, std::int64_t key) const;
  double cached(const Array& codes, const Array& scales, std::int64_t sequence, std::int64_t key, std::int64_t head,
                std::int64_t d) const;
  void fill(Random& random);
  void fill_mask(Random& random);
  void set_args();

  CodedCase c_;
  std::vector<std::int64_t> q_begin_, kv_begin_, mask_keys_, mask_begin_;
  std::vector<std::vector<std::int64_t>> pages_;
  std::int64_t pool_ = 0;  // pages, or tokens
  std::vector<unsigned char> bits_;

 public:
  Array q, k, v, out, out_scale, lse, q_scale, k_scale, v_scale, lengths, cu_q, cu_kv, table, mask, mask_indptr,
      mask_keys, slopes;
};

}  // namespace quern::test
