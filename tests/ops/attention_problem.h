// A case of attention with its numbers: on the device for quern, and mirrored here for the reference.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "tests/ops/attention_case.h"
#include "tests/ops/attention_tensors.h"
#include "tests/ops/device.h"
#include "tests/ops/random.h"

namespace quern::test {

// What a call wrote, to the bit: the whole buffers, what lies between and beyond the rows included.
struct AttentionOutput {
  std::vector<std::uint16_t> out;
  std::vector<float> lse;
};

class AttentionProblem {
 public:
  AttentionProblem(const AttentionCase& c, Random random);

  // New lengths (no larger than the case's, as many sequences), new numbers, new pages; in the same memory. A
  // sequence's numbers follow from the generator, its lengths and its own number alone.
  void fill(const std::vector<Lengths>& sequences, Random random);
  void poison_outputs();

  // Asks for the workspace, prepares and calls; every status is expected to be QUERN_OK.
  void run(quern_context* context);
  // The call alone.
  void call(quern_context* context, void* stream = nullptr);
  // The workspace that `args` need, made once; then that its counters are zero.
  void make_workspace(quern_context* context);
  void expect_counters_zero() const;

  AttentionOutput output() const;
  // Holds the output against the reference, and the untouched parts against the poison.
  void check() const;
  // The output of one sequence: its rows of `out` (values only), then those of lse.
  std::vector<std::uint32_t> bits_of(const AttentionOutput& output, int sequence) const;

  const AttentionCase& description() const { return case_; }
  const std::vector<Lengths>& sequences() const { return sequences_; }
  quern_attention_args& args() { return tensors_.args; }
  AttentionTensors& tensors() { return tensors_; }
  Buffer& workspace() { return workspace_; }

  // What the reference reads.
  const std::uint16_t* q_row(int sequence, int query, int head) const {
    return &q_[static_cast<std::size_t>(
        tensors_.q_rows.at(q_begin_[static_cast<std::size_t>(sequence)] + query, head))];
  }
  const std::uint16_t* k_row(int sequence, int key, int kv_head) const {
    return &k_[static_cast<std::size_t>(cache_at(tensors_.k_cache, sequence, key, kv_head))];
  }
  const std::uint16_t* v_row(int sequence, int key, int kv_head) const {
    const auto at = static_cast<std::size_t>(cache_at(tensors_.v_cache, sequence, key, kv_head));
    return tensors_.v_elements == 0 ? &k_[at] : &v_[at];
  }
  float slope(int head) const { return case_.alibi ? slopes_[static_cast<std::size_t>(head)] : 0.0f; }
  float sink(int head) const { return sinks_[static_cast<std::size_t>(head)]; }
  int q_begin(int sequence) const { return q_begin_[static_cast<std::size_t>(sequence)]; }
  int kv_begin(int sequence) const { return kv_begin_[static_cast<std::size_t>(sequence)]; }  // ragged

 private:
  std::int64_t cache_at(const CacheLayout& layout, int sequence, int key, int head) const {
    const auto s = static_cast<std::size_t>(sequence);
    if (case_.layout == Layout::ragged) return layout.at(0, kv_begin_[s] + key, head);
    return layout.at(pages_[s][static_cast<std::size_t>(key / case_.page_size)], key % case_.page_size, head);
  }
  // The mirrors leave out the pages below first_page.
  std::int64_t unused_elements(const CacheLayout& layout) const { return case_.first_page * layout.page; }
  void assign_pages(Random& random);
  void assign_ragged(Random& random);
  // The numbers of one sequence.
  void fill_cache(int sequence, Random random);
  void fill_queries(int sequence, Random random);
  void upload();
  void check_untouched(const AttentionOutput& output) const;

  AttentionCase case_;
  std::vector<Lengths> sequences_;
  std::int64_t pool_;  // pages, or tokens of a ragged cache
  AttentionTensors tensors_;
  std::vector<int> q_begin_, kv_begin_;
  std::vector<std::vector<std::int32_t>> pages_;  // counted from first_page
  std::vector<std::uint16_t> q_, k_, v_;
  std::vector<float> slopes_, sinks_;
  Buffer q_buffer_, k_buffer_, v_buffer_, out_buffer_, lse_buffer_;
  Buffer lengths_buffer_, cu_q_buffer_, table_buffer_, indptr_buffer_, indices_buffer_, cu_kv_buffer_;
  Buffer slopes_buffer_, sinks_buffer_, workspace_;
};

}  // namespace quern::test
