// A matrix product as the contract of an op has read it, and what the three calls do with it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "capi/quern.h"
#include "sources/call.h"
#include "sources/gemm/params.cuh"
#include "sources/gemm/plan/shape.h"

namespace quern::ops::gemm {

struct Problem {
  Call call;
  Tag op;
  Shape shape;  // its variant still to be chosen
  q::GemmParams params;
  std::uint32_t flags;
  void* stream;
  bool precise;  // f32 products without tensor cores
};

// What operands of an epilogue are views of: results of [groups][m][columns], of which the group is no dimension in a
// plain product, and the row runs through all groups in a contiguous grouped one.
struct Results {
  std::int64_t groups = 1, m = 0, columns = 0;
  bool leading = false;        // out is [groups, m, columns]
  bool column_groups = false;  // column vectors may be [groups, columns]: contiguous grouped
};

// Whether the epilogue asks for a gate. Throws Error(QUERN_INVALID) for a struct or flags that are not known.
bool wants_gate(const quern_epilogue* given);

// Reads out (already found to be `out`), the epilogue and what belongs to it into shape and params. Throws
// Error(QUERN_INVALID) naming the argument.
void read_epilogue(const quern_epilogue* given, const Tensor& out, const Results& results, Problem& problem);

// What scales are laid out by: rows of a, with the groups in front or not; n and k of b, with the groups in front or
// not.
struct ScaleLayout {
  std::int64_t groups;
  bool a_leads, b_leads;
  std::int64_t rows_of_a;
};
// Reads both scales into shape and params, whose n and k are there. Throws Error(QUERN_INVALID) naming the argument.
void read_scales(const DLTensor* scale_a, const DLTensor* scale_b, const ScaleLayout& layout, Problem& problem);

// That the kernels, which count in 32 bits and a little beyond the last, can count an operand's lines and their terms.
void expect_countable(const Tensor& t, const char* name, int line, int k);

// That the contiguous extent of an operand is whole copies, and its data and other strides are aligned to them.
void expect_copies(const Tensor& t, const char* name, int contiguous, int copy_bytes);

// A stride: 0 where a dimension has a single element, so that nothing depends on what the caller left there.
std::int64_t stride_of(const Tensor& t, int dimension);

// The problem of a call. Throws Error(QUERN_INVALID) naming the argument.
Problem read_problem(const quern_gemm_args& args, const Runtime& runtime, bool may_lack_data);
Problem read_problem(const quern_fp8_gemm_args& args, const Runtime& runtime, bool may_lack_data);

// The three calls.
std::uint64_t workspace_bytes(const Runtime& runtime, const Problem& problem);
void prepare_kernels(const Runtime& runtime, const Problem& problem);
void launch_product(const Runtime& runtime, Problem& problem, void* workspace, std::uint64_t workspace_size);

// Op::tune and Op::products of the dense ops.
TuneFinding tune_product(Tag op, const Runtime& runtime, const Constants& product, std::int64_t rows,
                         const TuneOptions& options);
void list_products(Tag op, const quern_model& model, const jit::TargetInfo& target, std::vector<Constants>* products);

// Appends what a model needs of an op.
void list_kernels(Tag op, const quern_model& model, const jit::TargetInfo& target, std::vector<jit::Spec>* specs);

}  // namespace quern::ops::gemm
