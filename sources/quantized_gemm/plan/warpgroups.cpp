// The variant for many rows on Hopper: which products it takes, its tiles, the tensor maps and the launch.
// SPDX-License-Identifier: Apache-2.0
#include "sources/launch.h"
#include "sources/quantized_gemm/plan/shape.h"

namespace quern::ops::quantized_gemm {
namespace {

constexpr int kUint8 = 0, kFloat16 = 6, kBfloat16 = 9, kSwizzle64 = 2, kSwizzle128 = 3, kPromote128 = 2;  // of cuda.h

// A matrix of so many columns and rows, of which a copy takes a box.
jit::TensorMap map_of(const Runtime& runtime, const void* data, int type, std::int64_t columns, std::int64_t rows,
                      std::int64_t row_bytes, int box_columns, int box_rows, int swizzle) {
  jit::TensorMapDesc desc;
  desc.data_type = type;
  desc.rank = 2;
  desc.address = const_cast<void*>(data);  // it is only read
  desc.extent[0] = static_cast<std::uint64_t>(columns);
  desc.extent[1] = static_cast<std::uint64_t>(rows);
  // With a single row the stride is not used, but it must be a valid one.
  desc.stride[0] = static_cast<std::uint64_t>(row_bytes > 0 ? row_bytes : 16);
  desc.box[0] = static_cast<std::uint32_t>(box_columns), desc.box[1] = static_cast<std::uint32_t>(box_rows);
  desc.swizzle = swizzle;
  desc.l2_promotion = kPromote128;
  jit::TensorMap map;
  runtime.tensor_maps->get(desc, map);
  return map;
}

}  // namespace

bool takes_warpgroups(const Shape& shape, const jit::TargetInfo& target) {
  // The 128 columns of a scale of results would lie in two warpgroups' staging memory.
  return target.warpgroups && bits_of(shape.code_a) == 16 && shape.copy_bytes == 16 && !shape.out_scale;
}

std::optional<Tiling> tile_warpgroups(const Shape& shape, const jit::TargetInfo& target) {
  if (!takes_warpgroups(shape, target)) return {};
  constexpr int kMostStages = 6, kFewestStages = 3;
  // As kernels/sm90/results.cuh counts them.
  const bool plain = shape.epilogue->code == "acc" && !shape.gate && bytes_of(shape.out) == 2;
  const int staged = plain ? 2 * 128 * 128 : 2 * 32 * (64 + 4) * 4;
  constexpr std::uint32_t kReserve = 1024;  // tiles begin at multiples of 1024 bytes, behind static shared memory
  Tiling t{};
  t.tile_m = t.tile_n = t.block_k = 128;
  t.warps_m = t.warps_n = 1;
  t.threads = 3 * 128;
  t.blocks_per_sm = 1;
  const int groups = shape.group == 0 ? 1 : t.block_k / shape.group;
  const int words = groups * t.tile_n * ((shape.groups_b ? 1 : 0) + (shape.zeros ? 1 : 0));
  t.stage_bytes = t.tile_m * t.block_k * 2 + t.tile_n * t.block_k * bits_of(shape.code_b) / 8 + 4 * words;
  for (t.stages = kMostStages; t.stages >= kFewestStages; --t.stages) {
    t.shared_bytes = static_cast<std::uint32_t>(t.stages * t.stage_bytes + staged);
    if (t.shared_bytes + kReserve <= target.shared_per_block) return t;
  }
  return {};
}

void launch_warpgroups(const Runtime& runtime, Problem& problem, const jit::Kernel& kernel, const jit::Launch& launch) {
  const Shape& shape = problem.shape;
  q::GemmParams& g = problem.params.product;
  const std::int64_t line_bytes = std::int64_t{g.k} * bits_of(shape.code_b) / 8;
  const int of_block = 128 * bits_of(shape.code_b) / 8;
  jit::TensorMap a = map_of(runtime, g.a, shape.code_a == Code::f16 ? kFloat16 : kBfloat16, g.k, g.m, g.a_row, 64,
                            q::box_rows(g.m, 128), kSwizzle128),
                 b = map_of(runtime, g.b, kUint8, line_bytes, g.n, g.b_row, of_block, 64,
                            of_block == 128 ? kSwizzle128 : kSwizzle64);
  // A TMA store writes at least 16 bytes, so it would write beyond a row that ends within them.
  g.out_mapped = g.out_vectors != 0 && bytes_of(shape.out) == 2 && !shape.gate && g.n % 8 == 0;
  // The kernel has this parameter even if out has no tensor map; then any map will do.
  jit::TensorMap out = g.out_mapped == 0 ? a
                                         : map_of(runtime, g.out, shape.out == Dtype::f16 ? kFloat16 : kBfloat16, g.n,
                                                  g.m, 2 * g.out_row, 64, 128, kSwizzle128);
  ops::launch(runtime, kernel, launch, "launching quantized_gemm", problem.params, a, b, out);
}

}  // namespace quern::ops::quantized_gemm
