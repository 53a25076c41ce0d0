// A matrix product as the contract of an op has read it, and the calls that all three ops share.
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
  Shape shape;  // the variant is chosen later
  q::GemmParams params;
  std::uint32_t flags;
  void* stream;
  bool precise;                // f32 products without tensor cores
  std::int64_t expected_rows;  // of an expert that has any; 0: nothing is said
};

// The results that an epilogue's operands are views of: [groups][m][columns]. A plain product has no group dimension;
// in a contiguous grouped product one row index runs through all groups.
struct Results {
  std::int64_t groups = 1, m = 0, columns = 0;
  bool leading = false;        // out is [groups, m, columns]
  bool column_groups = false;  // column vectors may be [groups, columns]: contiguous grouped
};

// Whether the epilogue asks for a gate. Throws Error(QUERN_INVALID) for a struct or flags that are not known.
bool wants_gate(const quern_epilogue* given);

// Reads out (which has been checked as a tensor), the epilogue and their parameters into shape and params. Throws
// Error(QUERN_INVALID) naming the argument.
void read_epilogue(const quern_epilogue* given, const Tensor& out, const Results& results, Problem& problem);

// The layout of scales: whether the groups are the first dimension of scale_a and of scale_b, and the number of rows of
// a.
struct ScaleLayout {
  std::int64_t groups;
  bool a_leads, b_leads;
  std::int64_t rows_of_a;
};
// Reads both scales into shape and params; params.n and params.k must be set. Throws Error(QUERN_INVALID) naming the
// argument.
void read_scales(const DLTensor* scale_a, const DLTensor* scale_b, const ScaleLayout& layout, Problem& problem);

// Refuses extents that the kernels cannot count: they count lines and k in 32 bits, and a little beyond the last.
void expect_countable(const Tensor& t, const char* name, int line, int k);

// Refuses an operand whose contiguous extent is not whole copies or whose data or other strides are not aligned to
// them.
void expect_copies(const Tensor& t, const char* name, int contiguous, int copy_bytes);

// The stride of a dimension; 0 for a single element, so that nothing depends on what the caller left there.
std::int64_t stride_of(const Tensor& t, int dimension);

// The problem of a call. Throws Error(QUERN_INVALID) naming the argument.
Problem read_problem(const quern_gemm_args& args, const Runtime& runtime, bool may_lack_data);
Problem read_problem(const quern_fp8_gemm_args& args, const Runtime& runtime, bool may_lack_data);
Problem read_problem(const quern_grouped_fp8_gemm_args& args, const Runtime& runtime, bool may_lack_data);

// What quern_OP_workspace, quern_OP_prepare and quern_OP do.
std::uint64_t workspace_bytes(const Runtime& runtime, const Problem& problem);
void prepare_kernels(const Runtime& runtime, const Problem& problem);
void launch_product(const Runtime& runtime, Problem& problem, void* workspace, std::uint64_t workspace_size);

// The same of a product that one variant is to compute, if it can: what a trial of that variant's kernel calls.
std::uint64_t workspace_bytes_as(const Runtime& runtime, const Problem& problem, Variant variant);
void launch_product_as(const Runtime& runtime, Problem& problem, Variant variant, void* workspace,
                       std::uint64_t workspace_size);

// Chooses the height of panels, from tiles_m and tiles_n. Blocks that run at the same time read the least of a and b
// where their tiles form a square; `area` is the number of these tiles, counted in squares of a tile's height.
void set_panels(q::GemmParams& p, double area, int peers);

// Op::tune and Op::products of the dense ops.
TuneFinding tune_product(Tag op, const Runtime& runtime, const Constants& product, std::int64_t rows,
                         const TuneOptions& options);
void list_products(Tag op, const quern_model& model, const jit::TargetInfo& target, std::vector<Constants>* products);

// Appends the specs of an op's kernels that a model needs.
void list_kernels(Tag op, const quern_model& model, const jit::TargetInfo& target, std::vector<jit::Spec>* specs);

}  // namespace quern::ops::gemm
