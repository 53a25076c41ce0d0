// SPDX-License-Identifier: Apache-2.0
#include "sources/gemm/plan/maps.h"

#include <algorithm>

#include "sources/gemm/plan/choose.h"

namespace quern::ops::gemm {
namespace {

// The most bytes of a row in a swizzled copy.
constexpr int kSpan = 128;

// A tensor of [groups][rows][columns], of which a copy takes box_rows rows of box_columns columns.
struct View {
  const void* data;
  Dtype dtype;
  std::int64_t columns, rows, groups;
  std::int64_t row_stride, group_stride;
  int box_rows;
  int box_columns;  // whose bytes are the width of a swizzle: 32, 64 or 128
};

jit::TensorMap map_of(const Runtime& runtime, const View& v) {
  constexpr int kUint8 = 0, kFloat16 = 6, kBfloat16 = 9, kSwizzle32 = 1, kPromote128 = 2;  // of cuda.h
  const std::int64_t bytes = bytes_of(v.dtype), rows = std::max<std::int64_t>(v.rows, 1), span = v.box_columns * bytes;
  jit::TensorMapDesc desc;
  desc.data_type = v.dtype == Dtype::f16 ? kFloat16 : v.dtype == Dtype::bf16 ? kBfloat16 : kUint8;
  desc.rank = 3;
  desc.address = const_cast<void*>(v.data);  // operands are only read
  desc.extent[0] = static_cast<std::uint64_t>(v.columns);
  desc.extent[1] = static_cast<std::uint64_t>(rows);
  desc.extent[2] = static_cast<std::uint64_t>(std::max<std::int64_t>(v.groups, 1));
  // With a single row or group the stride is not used, but it must be a valid one.
  const std::int64_t row = v.row_stride > 0 ? v.row_stride * bytes : (v.columns * bytes + 15) / 16 * 16;
  desc.stride[0] = static_cast<std::uint64_t>(row);
  desc.stride[1] = static_cast<std::uint64_t>(v.group_stride > 0 ? v.group_stride * bytes : row * rows);
  desc.box[0] = static_cast<std::uint32_t>(v.box_columns);
  desc.box[1] = static_cast<std::uint32_t>(v.box_rows);
  desc.box[2] = 1;
  desc.swizzle = kSwizzle32 + (span > 32) + (span > 64);
  desc.l2_promotion = kPromote128;
  jit::TensorMap map;
  runtime.tensor_maps->get(desc, map);
  return map;
}

bool contiguous(const Problem& problem) { return problem.shape.grouping == Grouping::contiguous; }
std::int64_t groups_of_out(const Problem& problem) { return contiguous(problem) ? 1 : problem.params.groups; }
// A matrix that all groups share counts once.
std::int64_t groups_of_a(const Problem& problem) { return problem.params.a_group > 0 ? groups_of_out(problem) : 1; }
std::int64_t groups_of_b(const Problem& problem) { return problem.params.b_group > 0 ? problem.params.groups : 1; }
int columns_of_span(Dtype dtype) { return kSpan / static_cast<int>(bytes_of(dtype)); }

// Lines of a box of an operand that is stored [k][lines].
int lines_of_span(Dtype dtype, int tile_lines) { return std::min(columns_of_span(dtype), tile_lines); }

}  // namespace

jit::TensorMap map_of_a(const Runtime& runtime, const Problem& problem, const Tiling& t, int peers) {
  const q::GemmParams& p = problem.params;
  const Shape& shape = problem.shape;
  if (shape.transposed_a) {
    return map_of(runtime, {p.a, shape.a, p.m, p.k, groups_of_a(problem), p.a_k, p.a_group, t.block_k / peers,
                            lines_of_span(shape.a, t.tile_m)});
  }
  const bool leaves_out_rows = shape.grouping == Grouping::dense &&
                               (is_a(Family::persistent, shape.variant) || is_a(Family::small_m, shape.variant) ||
                                is_a(Family::split_k, shape.variant));
  const int rows = leaves_out_rows ? q::box_rows(p.m, t.tile_m) : t.tile_m / peers;
  // Without rows of a nothing is copied, but the map needs an address.
  return map_of(runtime, {p.a != nullptr ? p.a : p.b, shape.a, p.k, contiguous(problem) ? p.a_rows : p.m,
                          groups_of_a(problem), p.a_row, p.a_group, rows, columns_of_span(shape.a)});
}

jit::TensorMap map_of_b(const Runtime& runtime, const Problem& problem, const Tiling& t, int twins) {
  const q::GemmParams& p = problem.params;
  const Shape& shape = problem.shape;
  if (shape.transposed_b) {
    return map_of(runtime, {p.b, shape.b, p.n, p.k, groups_of_b(problem), p.b_k, p.b_group, t.block_k,
                            lines_of_span(shape.b, t.tile_n)});
  }
  const bool halves = is_a(Family::persistent, shape.variant) || is_a(Family::tma_mma, shape.variant);
  const int lines = is_a(Family::fitted, shape.variant) ? q::fitted_first_rows(p.n, t.tile_n) / twins
                    : halves                            ? t.tile_n / 2
                                                        : t.out_tile_n(shape.gate);
  return map_of(runtime,
                {p.b, shape.b, p.k, p.n, groups_of_b(problem), p.b_row, p.b_group, lines, columns_of_span(shape.b)});
}

bool takes_map_of_out(const Problem& problem) {
  const q::GemmParams& p = problem.params;
  // A TMA store writes at least 16 bytes, so it would write beyond a row that ends within them.
  return p.out_vectors != 0 && bytes_of(problem.shape.out) == 2 && columns_of(problem) % 8 == 0 &&
         (groups_of_out(problem) <= 1 || p.out_group > 0);
}

jit::TensorMap map_of_out(const Runtime& runtime, const Problem& problem) {
  constexpr int kRowsOfWarp = 16;
  const q::GemmParams& p = problem.params;
  return map_of(runtime,
                {p.out, problem.shape.out, columns_of(problem), contiguous(problem) ? p.out_rows : p.m,
                 groups_of_out(problem), p.out_row, p.out_group, kRowsOfWarp, columns_of_span(problem.shape.out)});
}

}  // namespace quern::ops::gemm
