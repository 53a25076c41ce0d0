// The implicit product: its tile, its kernel and its launch.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "jit/lazy.h"
#include "sources/conv2d/convolution.h"
#include "sources/conv2d/params.cuh"
#include "sources/divisor.h"
#include "sources/expression/expression.h"
#include "sources/gemm/plan/tiling.h"
#include "sources/gemm/problem.h"
#include "sources/launch.h"
#include "sources/workspace.h"

namespace quern::ops::conv2d {
namespace {

constexpr Tile kTiles[] = {Tile::rows64, Tile::rows128};
// Rows and columns of x, padding included, have 15 bits in the kernel; distances, of 16 bytes, 31.
constexpr std::int64_t kMostExtent = 32000, kMostChunks = INT32_MAX - 65536;
constexpr std::int64_t kMostTiles = static_cast<std::int64_t>(kCounterBytes / 4);  // with a counter each
constexpr std::int64_t kFewestKBlocks = 4;  // of a block where several share a tile
// Where tiles keep so much of the device busy, they are not divided.
constexpr double kWorthStreamK = 0.9;
// What a tile of 64 rows takes for as many results as one of 128.
constexpr double kLowTile = 1.25;

std::int64_t div_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
std::int32_t narrow(std::int64_t value) { return static_cast<std::int32_t>(value); }

// Whether samples follow each other as places do where places are rows.
bool merges_samples(const Convolution& c) {
  return !c.places_first && (c.batch <= 1 || c.out.strides[0] == c.places.count() * c.out.strides[3]);
}
std::int64_t rows_of(const Convolution& c) {
  return c.places_first ? c.group_outs : c.places.count() * (merges_samples(c) ? c.batch : 1);
}

Shape shape_of(const Convolution& c, Tile tile) {
  return {Kernel::implicit, c.dtype, c.places_first, c.has_bias, c.activation, tile};
}
std::optional<gemm::Tiling> tiling_of(const Convolution& c, Tile tile) {
  return gemm::tile(product_shape(shape_of(c, tile)), c.call.device->limits);
}

bool is_invariant(const Convolution& c) { return (c.flags & QUERN_CALL_BATCH_INVARIANT) != 0; }
// One tile for all rows where results may not depend on their number.
Tile tile_of(const Convolution& c) {
  if (is_invariant(c) && !c.places_first) return Tile::rows128;
  const std::int64_t rows = rows_of(c);
  const double low = static_cast<double>(div_up(rows, 64) * 64) * kLowTile;
  return low < static_cast<double>(div_up(rows, 128) * 128) ? Tile::rows64 : Tile::rows128;
}

std::int64_t slots_of(const gemm::Tiling& t, std::int64_t sms) { return sms * t.blocks_per_sm; }

const jit::Kernel* kernel_of(const Runtime& runtime, const Convolution& c, Tile tile) {
  return kernel_for(runtime, to_spec(shape_of(c, tile), c.call.device->limits.target), c.flags, c.stream);
}

// Of every activation, of every sum.
struct Formulas {
  static constexpr std::size_t kActivations = 5, kSums = 3;
  std::array<const quern_expression*, kActivations * kSums> of;

  Formulas() {
    constexpr const char* kSumTexts[kSums] = {"acc", "acc+col0", "acc+row0"};
    constexpr const char* kNames[kActivations] = {"", "relu", "gelu", "gelu_tanh", "silu"};
    for (std::size_t i = 0; i < of.size(); ++i) {
      const std::string sum = kSumTexts[i % kSums], name = kNames[i / kSums];
      of[i] = &expression::intern(name.empty() ? sum : name + "(" + sum + ")");
    }
  }
};
jit::Lazy<Formulas> formulas;

}  // namespace

const quern_expression* formula(std::int32_t activation, bool bias, bool rows) {
  return formulas->of[static_cast<std::size_t>(activation) * Formulas::kSums + (bias ? rows ? 2 : 1 : 0)];
}

gemm::Shape product_shape(const Shape& shape) {
  gemm::Shape product;
  product.variant = shape.tile == Tile::rows64 ? gemm::Variant::small : gemm::Variant::medium;
  product.a = product.b = product.out = shape.x;
  product.epilogue = formula(shape.activation, shape.bias, shape.places_first);
  if (shape.bias) product.operands[0] = shape.x;
  return product;
}

bool takes_implicit(const Convolution& c) {
  if (bytes_of(c.dtype) != 2) return false;
  const std::int64_t rows = c.image.rows + c.pad_begin.rows + c.pad_end.rows,
                     columns = c.image.columns + c.pad_begin.columns + c.pad_end.columns;
  if (rows > kMostExtent || columns > kMostExtent) return false;
  std::int64_t last = c.channels * c.groups;  // the place of the last element, as it lies or is laid out
  for (const auto& [extent, stride] :
       {std::pair{c.batch, c.x.strides[0]}, {c.image.rows, c.x.strides[2]}, {c.image.columns, c.x.strides[3]}})
    last += std::max<std::int64_t>(extent, 1) * stride;
  const std::int64_t laid = c.batch * c.groups * c.image.count() * c.per;
  if (std::max(last, laid) / c.chunk > kMostChunks) return false;
  return std::all_of(std::begin(kTiles), std::end(kTiles), [&](Tile tile) { return tiling_of(c, tile).has_value(); });
}

std::uint64_t implicit_bytes(const Convolution& c) {
  std::uint64_t sums = 0;
  for (const Tile tile : kTiles) {
    const gemm::Tiling t = *tiling_of(c, tile);
    const std::int64_t slots = slots_of(t, std::max<std::int64_t>(c.call.device->sm_count, 1));
    if (t.stream_k && !is_invariant(c)) sums = std::max(sums, 2 * static_cast<std::uint64_t>(slots) * t.sums_bytes());
  }
  return (kCounterBytes + sums + kPiece - 1) / kPiece * kPiece;
}

void prepare_implicit(const Runtime& runtime, const Convolution& c) {
  // The number of rows decides, which fewer samples or places may change.
  for (const Tile tile : kTiles) {
    if (tile == tile_of(c) || !(c.places_first || is_invariant(c))) kernel_of(runtime, c, tile);
  }
}

void run_implicit(const Runtime& runtime, const Convolution& c, const void* x, const void* weight, void* workspace) {
  const Tile tile = tile_of(c);
  const gemm::Tiling t = *tiling_of(c, tile);
  const jit::Kernel* const kernel = kernel_of(runtime, c, tile);
  const bool merged = merges_samples(c);
  const std::int64_t size = bytes_of(c.dtype), places = c.places.count();
  const std::int64_t weight_row = c.lays_weight ? c.k : c.weight.strides[0];
  // Of x as it lies, or as it was laid out.
  const std::int64_t column = c.plain ? c.per : c.x.strides[3],
                     row = c.plain ? c.image.columns * column : c.x.strides[2],
                     group = c.plain ? c.image.rows * row : c.channels,
                     sample = c.plain ? c.groups * group : c.x.strides[0];
  q::ImplicitParams p{};
  q::GemmParams& g = p.product;
  g.k = narrow(c.k), g.m = narrow(rows_of(c)), g.n = narrow(c.places_first ? places : c.group_outs);
  g.groups = narrow(merged ? 1 : c.batch);
  g.a_row = g.b_row = weight_row, g.a_k = g.b_k = 1;
  g.out_group = c.out.strides[0], g.out_row = c.out.strides[c.places_first ? 1 : 3];
  const auto is_whole = [&](const void* data, std::int64_t stride) {
    return reinterpret_cast<std::uintptr_t>(data) % 16 == 0 && stride * size % 16 == 0;
  };
  g.tiles_m = narrow(div_up(g.m, t.tile_m)), g.tiles_n = narrow(div_up(g.n, t.tile_n));
  const std::int64_t tiles = std::int64_t{g.groups} * g.tiles_m * g.tiles_n, k_blocks = div_up(g.k, t.block_k);
  if (tiles > INT32_MAX) refuse_extent("x", 0, c.batch, "fewer at once: split the call");
  g.tiles = narrow(tiles), g.whole_tiles = 1;
  const std::int64_t all = std::max<std::int64_t>(c.call.device->sm_count, 1), slots = slots_of(t, c.call.sms);
  gemm::set_panels(g, static_cast<double>(slots_of(t, all)) * t.tile_n / t.tile_m, 1);
  std::int64_t grid = c.call.sms < all ? std::min(tiles, slots) : tiles;
  const double busy = static_cast<double>(tiles) / static_cast<double>(div_up(tiles, slots) * slots);
  const std::int64_t contributors = std::min(slots, tiles * k_blocks / kFewestKBlocks);
  if (t.stream_k && !is_invariant(c) && tiles <= kMostTiles && tiles * k_blocks <= INT32_MAX && busy < kWorthStreamK &&
      (contributors > tiles || tiles >= slots)) {
    g.whole_tiles = 0, grid = std::max<std::int64_t>(contributors, 1);
    g.arrived = static_cast<std::uint32_t*>(workspace);
    g.partials = reinterpret_cast<float*>(static_cast<std::uint8_t*>(workspace) + kCounterBytes);
  }
  p.sample_stride = narrow(sample / c.chunk), p.row_stride = narrow(row / c.chunk);
  p.column_stride = narrow(column / c.chunk);
  p.per = narrow(c.per), p.tap_rows = narrow(c.kernel.rows), p.tap_columns = narrow(c.kernel.columns);
  p.places = {narrow(c.image.rows),     narrow(c.image.columns),    narrow(c.stride.rows),
              narrow(c.stride.columns), narrow(c.dilation.rows),    narrow(c.dilation.columns),
              narrow(c.pad_begin.rows), narrow(c.pad_begin.columns)};
  p.of_sample = divisor(narrow(places)), p.of_row = divisor(narrow(c.places.columns)), p.merged = merged;
  jit::Launch launch;
  launch.grid[0] = static_cast<std::uint32_t>(grid);
  launch.block[0] = static_cast<std::uint32_t>(t.threads);
  launch.shared_bytes = t.shared_bytes;
  launch.programmatic = (c.flags & QUERN_CALL_PROGRAMMATIC) != 0;
  launch.stream = c.stream;
  for (std::int64_t i = 0; i < c.groups; ++i) {
    const std::int64_t outs = i * c.group_outs;
    p.x = static_cast<const std::uint8_t*>(x) + i * group * size;
    const std::uint8_t* const weights = static_cast<const std::uint8_t*>(weight) + outs * weight_row * size;
    (c.places_first ? g.a : g.b) = weights;
    g.out = c.out.data + outs * c.out.strides[1] * size;
    g.out_vectors = is_whole(g.out, g.out_row) && (g.groups <= 1 || is_whole(g.out, g.out_group));
    if (c.has_bias) {
      q::GemmOperand& bias = g.operands[0];
      bias.data = c.bias + outs * size;
      (c.places_first ? bias.row : bias.column) = 1;
      bias.vectors = !c.places_first && is_whole(bias.data, 0);
    }
    ops::launch(runtime, *kernel, launch, "launching a convolution", p);
  }
}

}  // namespace quern::ops::conv2d
