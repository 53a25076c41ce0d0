// A call of quern_sample with all its tensors, and what must come of it by a plain loop in fp64.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "tests/ops/element.h"
#include "tests/ops/random.h"
#include "tests/ops/tensor_box.h"

namespace quern::test {

// Of each row; an empty vector is an argument that is not given.
struct SampleInput {
  Element element = Element::f32;
  std::int64_t vocab = 1;
  std::int64_t padding = 0;                // elements between the rows of logits
  std::vector<std::vector<float>> logits;  // rounded to the element
  std::vector<std::int32_t> rows;          // which of them; none: all
  std::vector<float> temperature, top_p, min_p, typical_p, n_sigma, xtc_probability, xtc_threshold, dynamic_range,
      dynamic_exponent;
  std::vector<float> repetition, presence, frequency;
  std::vector<std::int32_t> top_k;
  std::vector<std::vector<std::int32_t>> prompt, output, banned;  // lists of tokens
  bool prompt_as_mask = false, output_as_counts = false;
  std::vector<std::vector<std::uint8_t>> allowed;  // a truth value a token
  std::vector<std::vector<std::pair<std::int32_t, float>>> bias;
  std::vector<std::int64_t> seeds, offsets;
  std::uint64_t seed = 7, offset = 3;
  std::int64_t top_n = 0;
  std::uint32_t flags = 0;
  bool logprobs = true, wide_ids = false;
  std::int32_t max_sms = 0;

  std::size_t count() const { return rows.empty() ? logits.size() : rows.size(); }
};

struct SampleOutput {
  std::vector<std::int64_t> ids;
  std::vector<float> logprobs;
  std::vector<std::int32_t> status;
  std::vector<std::vector<std::int32_t>> top_ids;
  std::vector<std::vector<float>> top_logprobs;
  std::vector<std::int64_t> offsets;
  std::vector<std::vector<std::int32_t>> counts;
  bool operator==(const SampleOutput&) const = default;
};

// The tensors of one call. Its workspace is made, and must be zero in front when it is done.
class SampleCall {
 public:
  explicit SampleCall(const SampleInput& input);
  SampleCall(const SampleCall&) = delete;
  SampleCall& operator=(const SampleCall&) = delete;
  SampleOutput run();
  void prepare();
  void launch(void* stream = nullptr);
  SampleOutput read();

  quern_sample_args args;
  std::deque<Buffer> buffers;
  std::deque<TensorBox> boxes;

 private:
  template <class T>
  const DLTensor* vector(const std::vector<T>& values, DLDataType type);
  template <class T>
  const DLTensor* matrix(const std::vector<std::vector<T>>& rows, DLDataType type, T fill, std::int64_t columns);
  void lists();
  Buffer& buffer_of(const DLTensor* tensor);

  const SampleInput in_;
  quern_sample_args made_{};  // args as they were at first
  Buffer workspace_;
};

// A row as the definition has it: the logits as edited, and the tokens that stay, the most probable first, in fp64.
struct SampleRow {
  std::vector<float> edited;
  std::vector<std::int32_t> kept;
  std::vector<double> logprob;        // of kept, among kept
  std::vector<double> whole_logprob;  // of every token, before the filters
  std::int32_t largest = -1;
  bool close = false;  // a decision is so close that rounding may turn it
  bool xtc_open =
      false;  // whether xtc strikes is for the row's random numbers to say: kept is without it, `struck` with it
  std::vector<std::int32_t> struck;
  std::vector<double> struck_logprob;
  bool greedy = false;
};
SampleRow expect_row(const SampleInput& in, std::size_t i);

// Every row of the output against expect_row; gtest failures.
void check_sample(const SampleInput& in, const SampleOutput& out, const std::string& what);

}  // namespace quern::test
