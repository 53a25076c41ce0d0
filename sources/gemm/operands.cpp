// Reads the operands of a product: the rules for their rows, and the layouts of their scales.
// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "jit/error.h"
#include "sources/gemm/problem.h"

namespace quern::ops::gemm {
namespace {

constexpr std::int64_t kBlock = 128;

struct Scale {
  bool blocks = false;
  const float* data = nullptr;
  std::int64_t group = 0, row = 0, k = 0;
};

// Reads one operand's scales: one for all (or one for each group, with `one_a_group`), [lines] or [line_blocks,
// k_blocks]; with `leads` the groups are the first dimension.
Scale read_scale(const DLTensor* given, const char* name, bool leads, bool one_a_group, std::int64_t groups,
                 std::int64_t lines, std::int64_t line_blocks, std::int64_t k_blocks, const Place& place) {
  if (given == nullptr) refuse_missing(name);
  const int lead = leads ? 1 : 0, rank = given->ndim;
  const bool single =
      rank == 1 && given->shape != nullptr && (one_a_group ? leads && given->shape[0] == groups : given->shape[0] == 1);
  if (!single && rank != lead + 1 && rank != lead + 2) refuse_rank(name, rank, lead + 1, lead + 2);
  const Tensor t = read(given, name, rank, {Dtype::f32}, place);
  Scale scale;
  scale.data = reinterpret_cast<const float*>(t.data);
  if (single) {
    if (one_a_group) scale.group = stride_of(t, 0);
    return scale;
  }
  if (leads) {
    expect_extent(t, name, 0, groups);
    scale.group = stride_of(t, 0);
  }
  scale.blocks = rank == lead + 2;
  expect_extent(t, name, lead, scale.blocks ? line_blocks : lines);
  scale.row = stride_of(t, lead);
  if (scale.blocks) {
    expect_extent(t, name, lead + 1, k_blocks);
    scale.k = stride_of(t, lead + 1);
  }
  return scale;
}

}  // namespace

void read_scales(const DLTensor* scale_a, const DLTensor* scale_b, const ScaleLayout& layout, Problem& problem) {
  q::GemmParams& p = problem.params;
  const std::int64_t k_blocks = (std::int64_t{p.k} + kBlock - 1) / kBlock;
  const std::int64_t rows = layout.rows_of_a, n = p.n;
  const Scale a =
      read_scale(scale_a, "scale_a", layout.a_leads, false, layout.groups, rows, rows, k_blocks, problem.call.place);
  const Scale b = read_scale(scale_b, "scale_b", layout.b_leads, layout.b_leads, layout.groups, n,
                             (n + kBlock - 1) / kBlock, k_blocks, problem.call.place);
  if (a.blocks != b.blocks) {
    throw Error(QUERN_INVALID, std::string("scale_a is ") + (a.blocks ? "in blocks" : "for the tensor or its rows") +
                                   " and scale_b is " + (b.blocks ? "in blocks" : "for the tensor or its columns") +
                                   "; allowed: both in blocks, or neither");
  }
  problem.shape.scales = a.blocks ? Scales::blocks : Scales::vectors;
  if (a.blocks && problem.shape.gate && n % 32 != 0)
    refuse_extent("b", layout.b_leads ? 1 : 0, n, "a multiple of 32, with block scales and a gate");
  p.scale_a = a.data, p.scale_a_group = a.group, p.scale_a_row = a.row, p.scale_a_k = a.k;
  p.scale_b = b.data, p.scale_b_group = b.group, p.scale_b_row = b.row, p.scale_b_k = b.k;
}

void expect_countable(const Tensor& t, const char* name, int line, int k) {
  constexpr std::int64_t kMost = INT32_MAX - 4095;
  for (const int d : {line, k}) {
    if (t.shape[d] > kMost) refuse_extent(name, d, t.shape[d], "at most 2^31 - 4096");
  }
  if (t.shape[k] < 1) refuse_extent(name, k, t.shape[k], "1 and more");
}

void expect_copies(const Tensor& t, const char* name, int contiguous, int copy_bytes) {
  const std::int64_t bytes = bytes_of(t.dtype);
  if (t.shape[contiguous] * bytes % copy_bytes != 0) {
    const std::string allowed = "a multiple of " + std::to_string(copy_bytes / bytes) + ", as rows are copied " +
                                std::to_string(copy_bytes) + " bytes at a time" +
                                (copy_bytes == 16 ? " (alignment 4 copies 4)" : "");
    refuse_extent(name, contiguous, t.shape[contiguous], allowed.c_str());
  }
  const auto mask = static_cast<std::uint64_t>(copy_bytes) - 1;
  const auto address = reinterpret_cast<std::uintptr_t>(t.data);
  if ((address & mask) != 0) refuse_alignment(name, "data", address & (~address + 1), copy_bytes);
  for (int d = 0; d < t.rank; ++d) {
    const auto stride = static_cast<std::uint64_t>(t.strides[d] * bytes);
    if (d != contiguous && t.shape[d] > 1 && (stride & mask) != 0)
      refuse_alignment(name, "a stride", stride, copy_bytes);
  }
}

}  // namespace quern::ops::gemm
