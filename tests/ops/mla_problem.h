// One call of MLA decode with random input, and its definition in fp64 that results are held against.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/ops/device.h"
#include "tests/ops/element.h"
#include "tests/ops/random.h"
#include "tests/ops/tensor_box.h"

namespace quern::test {

struct MlaLengths {
  int q, kv;
};

enum class MlaCache { plain, e4m3_tensor, e4m3_token, rows656 };

struct MlaCase {
  std::string name;
  std::vector<MlaLengths> sequences = {{1, 100}};
  int heads = 16;
  int d_latent = 512, d_rope = 64;
  int page_size = 64;
  Element::Kind element = Element::bf16;
  MlaCache cache = MlaCache::plain;
  bool one_query = false;  // no cu_q
  bool indptr = false;     // page_indptr and page_indices instead of a table
  bool two_q = false;      // latent and rope parts as tensors of their own
  bool two_pools = false;
  bool heads_first = false;  // q and out lie in memory as [heads, tokens, d]
  bool causal = false;
  std::optional<int> left, right;
  float cap = 0.0f;
  bool sinks = false;
  bool lse = true;
  bool status = true;
  int top_k = 0;       // a list of so many keys a query
  bool slots = false;  // ... of places in the pool
  int alignment = 0;
  int max_sms = 0;
  std::uint32_t flags = 0;

  int batch() const { return static_cast<int>(sequences.size()); }
  int total_q() const;
  int max_q() const;
  int max_kv() const;
  int columns() const { return d_latent + d_rope; }
  // Whether a Hopper GPU's logits are products of 8 bits.
  bool multiplies_codes() const {
    return (cache == MlaCache::e4m3_tensor || cache == MlaCache::e4m3_token) && heads <= 16 && d_latent == 512 &&
           d_rope == 64;
  }
  float scale() const { return 1.0f / 13.8564064605510183f; }  // 1/sqrt(192)
};

struct MlaOutput {
  std::vector<unsigned char> out;
  std::vector<float> lse;
  std::uint32_t status = 0;
};

class MlaProblem {
 public:
  MlaProblem(const MlaCase& c, Random random);

  // New lengths, of the same batch and at most as many query tokens, keys and pages; new numbers for all.
  void fill(const std::vector<MlaLengths>& sequences, Random random);
  void poison_outputs();
  // Other numbers at the beginning of lengths, cu_q or page_table.
  void overwrite(const TensorBox& box, const std::vector<std::int32_t>& values);
  // A sequence's last key becomes NaN: the first number of its latent part, or its scale.
  void spoil_last_key(int sequence, bool scale);
  // ... and this one, of a cache with scales, is no longer what check() takes it for: its first scale is another.
  void scale_last_key(int sequence, float scale);
  // Asks for the workspace, prepares and calls.
  void run(quern_context* context);
  // Calls alone, with the workspace that run() made; on a stream of one's own it does not wait for the result.
  void call(quern_context* context, void* stream = nullptr);
  MlaOutput output() const;
  // Holds the outputs against the definition.
  void check() const;
  // The bits of one query token's results.
  std::vector<unsigned char> bits_of(const MlaOutput& output, int token) const;
  int q_begin(int sequence) const { return q_begin_[static_cast<std::size_t>(sequence)]; }
  const MlaCase& description() const { return c_; }

  quern_mla_decode_args args{};
  TensorBox q, q_rope, cache, cache_rope, cache_scale, out, lse, lengths, cu_q, page_table, page_indptr, page_indices,
      indices, sinks, status;

 private:
  struct Row;
  template <class T>
  Row row_of(int sequence, int query, int head) const;
  void fill_cache(Random& random);
  void fill_indices(Random& random);
  std::size_t at_out(int token, int head) const;
  std::size_t place_of_last_key(int sequence) const;
  const double* key(int sequence, int j) const;
  void store_key(int sequence, int j, Random& random);
  void make_tensors();

  MlaCase c_;
  Element element_;
  int max_pages_ = 0, pool_ = 0, row_bytes_ = 0, rope_bytes_ = 0;
  std::vector<int> q_begin_;
  std::vector<std::vector<std::int32_t>> pages_;
  std::vector<std::vector<double>> keys_;  // of each sequence, as numbers
  std::vector<double> queries_;            // [total_q][heads][columns]
  std::vector<float> sinks_;
  std::vector<std::int32_t> chosen_;  // [total_q][top_k], positions
  std::vector<unsigned char> latent_bytes_, rope_part_bytes_;
  std::vector<float> scales_;
  Buffer q_buffer_, q_rope_buffer_, latent_buffer_, rope_buffer_, scale_buffer_, out_buffer_, lse_buffer_,
      lengths_buffer_, cu_q_buffer_, table_buffer_, indptr_buffer_, page_indices_buffer_, indices_buffer_,
      sinks_buffer_, status_buffer_, workspace_;
};

}  // namespace quern::test
