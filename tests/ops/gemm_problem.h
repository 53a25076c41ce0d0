// A case of a matrix product with its numbers: on the device for quern, and mirrored here for the reference.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "tests/ops/device.h"
#include "tests/ops/gemm_case.h"
#include "tests/ops/gemm_tensors.h"
#include "tests/ops/random.h"

namespace quern::test {

// What a call wrote, to the byte: the whole buffers, what lies between and beyond the rows included.
struct GemmOutput {
  std::vector<unsigned char> out, out_scale;
  bool operator==(const GemmOutput&) const = default;
};

// A row of out that a call is to write: of which weights, and of which row of a.
struct GemmRow {
  std::int64_t group, row;
  std::int64_t weights;
  std::int64_t source;
};

class GemmProblem {
 public:
  GemmProblem(const GemmCase& c, Random random);

  // New numbers in the same memory. A row's numbers follow from the generator and its own number alone.
  void fill(Random random);
  // Rows of each expert, as many experts as the case has: offsets that begin at the case's first_offset, or counts.
  void set_counts(const std::vector<int>& counts);
  // The same, just as they lie on the device.
  void set_offsets(const std::vector<std::int32_t>& offsets);
  void set_indices(const std::vector<std::int32_t>& indices);
  // Changes one element of an input. Numbers that are not finite are allowed for by check().
  void put(const GemmTensor& tensor, std::int64_t group, std::int64_t row, std::int64_t column, double value);
  void put_code(const GemmTensor& tensor, std::int64_t group, std::int64_t row, std::int64_t column, unsigned code);
  void poison_outputs();

  // Asks for the workspace and calls; every status is expected to be QUERN_OK.
  void run(quern_context* context);
  // The call alone.
  void call(quern_context* context, void* stream = nullptr);
  // The workspace that the call needs, made once; then that its counters are zero.
  void make_workspace(quern_context* context);
  void expect_counters_zero() const;

  GemmOutput output() const;
  // The bytes of one row: its values, then its scales.
  std::vector<unsigned char> bits_of(const GemmOutput& output, std::int64_t group, std::int64_t row) const;
  std::int32_t status() const;
  // Holds the output against the reference, and the untouched parts against the poison.
  void check() const;

  const GemmCase& description() const { return case_; }
  GemmTensors& tensors() { return tensors_; }
  const GemmTensors& tensors() const { return tensors_; }
  Buffer& workspace() { return workspace_; }
  std::uint64_t workspace_bytes() const { return workspace_bytes_; }

  // What the reference reads.
  double value(const GemmTensor& tensor, std::int64_t group, std::int64_t row, std::int64_t column) const;
  // A line of a or b as f32, which holds every number of every element type.
  void line(const GemmTensor& tensor, std::int64_t group, std::int64_t row, std::vector<float>* to) const;
  // By what capi/quern.h says of offsets, counts and indices; bad ones among them.
  std::vector<GemmRow> rows() const;

 private:
  struct Memory {
    std::vector<unsigned char> mirror;
    Buffer buffer;
  };
  void allocate(GemmTensor& tensor);
  void place();
  const Memory& memory_of(const GemmTensor& tensor) const { return memory_.at(&tensor); }
  // Normal numbers, 2^exponent large, for one line.
  void fill_line(const GemmTensor& tensor, std::int64_t group, std::int64_t row, std::uint64_t seed, int exponent = 0);
  void fill_scales(std::uint64_t seed);
  void fill_epilogue(std::uint64_t seed);
  std::uint64_t number_of(std::int64_t group, std::int64_t row) const;
  void put_bytes(const GemmTensor& tensor, std::int64_t group, std::int64_t row, std::int64_t column,
                 const unsigned char* bytes);
  void upload();
  void check_untouched(const GemmOutput& output, const std::vector<GemmRow>& rows) const;

  GemmCase case_;
  GemmTensors tensors_;
  std::map<const GemmTensor*, Memory> memory_;
  std::vector<std::int32_t> offsets_, counts_, indices_;
  Buffer offsets_buffer_, counts_buffer_, indices_buffer_, status_buffer_, workspace_;
  std::uint64_t workspace_bytes_ = 0;
  bool finite_ = true;
};

}  // namespace quern::test
