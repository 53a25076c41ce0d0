// The variant for many rows of int8 by int8 on Hopper, gemm's persistent kernel: which products it takes, the width of
// its tiles, and the launch.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "sources/gemm/plan/cost.h"
#include "sources/gemm/plan/maps.h"
#include "sources/launch.h"
#include "sources/quantized_gemm/plan/shape.h"

namespace quern::ops::quantized_gemm {
namespace {

gemm::Variant variant_of(int columns) {
  switch (columns) {
    case 64:
      return gemm::Variant::persistent_128x64;
    case 176:
      return gemm::Variant::persistent_128x176;
    case 192:
      return gemm::Variant::persistent_128x192;
    case 256:
      return gemm::Variant::persistent_128x256;
    default:
      return gemm::Variant::persistent_128x128;
  }
}

// The product as gemm's plan knows it: of 8 bits with scales of lines.
gemm::Shape as_gemm(const Shape& shape) {
  gemm::Shape own = shape;
  own.variant = variant_of(shape.columns);
  own.a = own.b = Dtype::i8;
  own.scales = gemm::Scales::vectors;
  return own;
}

// How long the first kernel takes for tiles of 128 rows, in microseconds, roughly, as an H200 had it: of a k block of
// 128 each multiprocessor, of a launch, and of blocks' sums. Where tiles are few it divides k, which this one does not.
double cost_of_first_kernel(const Extents& call) {
  constexpr double kKBlock = 1.08, kLaunch = 6, kSums = 16;
  constexpr std::int64_t kFewestKBlocks = 4;
  const std::int64_t tiles = (call.rows + 127) / 128 * ((call.lines + 127) / 128), k_blocks = (call.k + 127) / 128;
  const std::int64_t blocks = std::clamp<std::int64_t>(tiles * k_blocks / kFewestKBlocks, 1, call.sms);
  const double whole = std::ceil(static_cast<double>(tiles) / call.sms) * static_cast<double>(k_blocks) * kKBlock;
  const double divided = static_cast<double>(tiles * k_blocks) / static_cast<double>(blocks) * kKBlock + kSums;
  return kLaunch + (call.invariant ? whole : std::min(whole, divided));
}

}  // namespace

bool takes_integers(const Shape& shape, const jit::TargetInfo& target) {
  // Scales of groups would have to be multiplied within the main loop, and those of results lie in two slices.
  return target.warpgroups && target.tensor_maps && shape.code_a == Code::int8 && shape.code_b == Code::int8 &&
         shape.group == 0 && shape.copy_bytes == 16 && !shape.out_scale;
}

std::optional<Tiling> tile_integers(const Shape& shape, const jit::TargetInfo& target) {
  if (!takes_integers(shape, target) || shape.columns < 64) return {};
  const std::optional<gemm::Tiling> of = gemm::tile(as_gemm(shape), target);
  if (!of) return {};
  Tiling t{};
  t.tile_m = of->tile_m, t.tile_n = of->tile_n, t.block_k = of->block_k;
  t.stages = of->stages, t.stage_bytes = (of->tile_m + of->tile_n) * of->block_k;
  t.warps_m = of->warps_m, t.warps_n = of->warps_n, t.threads = of->threads;
  t.blocks_per_sm = of->blocks_per_sm;
  t.shared_bytes = of->shared_bytes;
  return t;
}

std::optional<Shape> choose_integers(Shape shape, const Extents& call, const jit::TargetInfo& target) {
  if (!call.mapped || !takes_integers(shape, target)) return {};
  shape.rows = Variant::integers;
  gemm::Problem problem{};
  problem.params.n = static_cast<std::int32_t>(call.lines), problem.params.k = static_cast<std::int32_t>(call.k);
  problem.params.groups = 1;
  // Numbers of rows that gemm treats alike have the same kernel here, too, so that prepare() need not ask for each.
  Extents alike = call;
  alike.rows = gemm::row_class(call.rows);
  double least = cost_of_first_kernel(alike);
  std::optional<Shape> best;
  for (const int columns : {256, 192, 176, 128, 64}) {
    shape.columns = columns;
    problem.shape = as_gemm(shape);
    const std::optional<gemm::Tiling> t = gemm::tile(problem.shape, target);
    if (!t) continue;
    const double cost =
        gemm::cost_of(problem, *t, {problem.shape.variant, 1, 1}, {alike.rows, 1}, static_cast<int>(call.sms));
    if (cost < least) best = shape, least = cost;
  }
  return best;
}

void launch_integers(const Runtime& runtime, Problem& problem, const jit::Kernel& kernel, const jit::Launch& launch) {
  gemm::Problem& product = problem.product;
  product.shape = as_gemm(problem.shape);
  const gemm::Tiling t = *gemm::tile(product.shape, product.call.device->limits);
  q::GemmParams& g = problem.params.product;
  g.out_mapped = gemm::takes_map_of_out(product);
  jit::TensorMap a = gemm::map_of_a(runtime, product, t, 1), b = gemm::map_of_b(runtime, product, t, 1);
  // The kernel has this parameter even if out has no tensor map; then any map will do.
  jit::TensorMap out = g.out_mapped != 0 ? gemm::map_of_out(runtime, product) : a;
  ops::launch(runtime, kernel, launch, "launching quantized_gemm", problem.params, a, b, out);
}

}  // namespace quern::ops::quantized_gemm
