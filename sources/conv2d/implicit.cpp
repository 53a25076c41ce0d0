// The implicit products, the portable one and Hopper's: which of them and of which tile, its kernel and its launch.
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
#include "sources/gemm/plan/maps.h"
#include "sources/gemm/plan/tiling.h"
#include "sources/gemm/problem.h"
#include "sources/launch.h"
#include "sources/workspace.h"

namespace quern::ops::conv2d {
namespace {

// A kernel with its tile.
struct Form {
  Kernel kernel;
  Tile tile;
  friend bool operator==(const Form&, const Form&) = default;
};
struct FormFacts {
  Form form;
  gemm::Variant variant;  // of gemm's kernels, whose tiles and stages it has
  // Of Hopper's kernel, in microseconds as an H200 had them on 2026-11-28: a k block of a tile, all else that a tile
  // takes, and the exchange of sums of tiles that are shared out.
  double k_block, tile, exchange;
};
constexpr FormFacts kForms[] = {
    {{Kernel::implicit, Tile::rows64}, gemm::Variant::small, 0, 0, 0},
    {{Kernel::implicit, Tile::rows128}, gemm::Variant::medium, 0, 0, 0},
    {{Kernel::persistent, Tile::columns64}, gemm::Variant::persistent_128x64, 0.36, 0.9, 8.0},
    {{Kernel::persistent, Tile::rows128}, gemm::Variant::persistent_128x128, 0.433, 1.5, 13.0},
    {{Kernel::persistent, Tile::columns176}, gemm::Variant::persistent_128x176, 0.55, 2.5, 0},
    {{Kernel::persistent, Tile::columns256}, gemm::Variant::persistent_128x256, 0.73, 3.0, 0},
};
constexpr const FormFacts& facts_of(Form form) {
  return *std::find_if(std::begin(kForms), std::end(kForms), [&](const FormFacts& f) { return f.form == form; });
}
// Rows and columns of x, padding included, have 15 bits in the kernel; distances, of 16 bytes, 31.
constexpr std::int64_t kMostExtent = 32000, kMostChunks = INT32_MAX - 65536;
constexpr std::int64_t kMostTiles = static_cast<std::int64_t>(kCounterBytes / 4);  // with a counter each
constexpr std::int64_t kFewestKBlocks = 4;  // of a block where several share a tile
// Where tiles keep so much of the device busy, they are not divided.
constexpr double kWorthStreamK = 0.9;
// What a tile of 64 rows takes for as many results as one of 128.
constexpr double kLowTile = 1.25;
// Columns up to which tiles of so many serve: wider ones would be empty for the most part.
constexpr std::int64_t kNarrow = 64, kMiddle = 128;

std::int64_t div_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
std::int32_t narrow(std::int64_t value) { return static_cast<std::int32_t>(value); }

// Whether samples follow each other as places do where places are rows.
bool merges_samples(const Convolution& c) {
  return !c.places_first && (c.batch <= 1 || c.out.strides[0] == c.places.count() * c.out.strides[3]);
}
std::int64_t rows_of(const Convolution& c) {
  return c.places_first ? c.group_outs : c.places.count() * (merges_samples(c) ? c.batch : 1);
}

std::int64_t columns_of(const Convolution& c) { return c.places_first ? c.places.count() : c.group_outs; }
// Groups of the product, each with rows and columns of its own.
std::int64_t product_groups(const Convolution& c) { return merges_samples(c) ? 1 : c.batch; }
std::int64_t all_sms(const Convolution& c) { return std::max<std::int64_t>(c.call.device->sm_count, 1); }

Shape shape_of(const Convolution& c, Form form) {
  return {form.kernel, c.dtype, c.places_first, c.has_bias, c.activation, form.tile};
}
std::optional<gemm::Tiling> tiling_of(const Convolution& c, Form form) {
  return gemm::tile(product_shape(shape_of(c, form)), c.call.device->limits);
}

bool is_invariant(const Convolution& c) { return (c.flags & QUERN_CALL_BATCH_INVARIANT) != 0; }
std::int64_t slots_of(const gemm::Tiling& t, std::int64_t sms) { return sms * t.blocks_per_sm; }

// How a product's tiles are shared out.
struct Sharing {
  std::int64_t tiles, k_blocks, slots, contributors;
  double cost;
  bool stream_k;  // among more multiprocessors than there are tiles, or the last wave among all
};
// What Hopper's kernel takes, in microseconds. Tiles are shared out where that is less.
double cost_of(const FormFacts& f, Sharing& s) {
  const double tile = static_cast<double>(s.k_blocks) * f.k_block + f.tile;
  const double whole = static_cast<double>(div_up(s.tiles, s.slots)) * tile;
  if (!s.stream_k) return whole;
  const auto contributors = static_cast<double>(std::max<std::int64_t>(s.contributors, 1));
  const double shared = static_cast<double>(s.tiles) / contributors * tile + f.exchange;
  s.stream_k = shared < whole;
  return std::min(shared, whole);
}

Sharing sharing_of(const Convolution& c, Form form, const gemm::Tiling& t) {
  Sharing s{};
  s.tiles = product_groups(c) * div_up(rows_of(c), t.tile_m) * div_up(columns_of(c), t.tile_n);
  s.k_blocks = div_up(c.k, t.block_k), s.slots = slots_of(t, c.call.sms);
  s.contributors = std::min(s.slots, s.tiles * s.k_blocks / kFewestKBlocks);
  const double busy = static_cast<double>(s.tiles) / static_cast<double>(div_up(s.tiles, s.slots) * s.slots);
  s.stream_k = shares_k(shape_of(c, form)) && !is_invariant(c) && s.tiles <= kMostTiles &&
               s.tiles * s.k_blocks <= INT32_MAX && busy < kWorthStreamK &&
               (s.contributors > s.tiles || s.tiles >= s.slots);
  s.cost = form.kernel == Kernel::persistent ? cost_of(facts_of(form), s) : 0;
  return s;
}

// Hopper's kernel, of the tile that its columns make the fastest where rows are many.
Form widest(const Convolution& c) {
  const std::int64_t columns = columns_of(c);
  if (columns <= kNarrow) return {Kernel::persistent, Tile::columns64};
  if (columns <= kMiddle) return {Kernel::persistent, Tile::rows128};
  const auto padded = [&](std::int64_t tile) { return div_up(columns, tile) * tile; };
  return {Kernel::persistent, padded(176) < padded(256) ? Tile::columns176 : Tile::columns256};
}
// The portable kernel: one tile for all rows where results may not depend on their number.
Form portable_form(const Convolution& c) {
  if (is_invariant(c) && !c.places_first) return {Kernel::implicit, Tile::rows128};
  const std::int64_t rows = rows_of(c);
  const double low = static_cast<double>(div_up(rows, 64) * 64) * kLowTile;
  return {Kernel::implicit, low < static_cast<double>(div_up(rows, 128) * 128) ? Tile::rows64 : Tile::rows128};
}

// What there is room for: on Hopper all forms, else those of the portable kernel.
bool takes_persistent(const Convolution& c) { return tiling_of(c, {Kernel::persistent, Tile::rows128}).has_value(); }

// Whether Hopper's kernel may have a tile. Columns that one of 64 has room for leave no choice.
bool may_have(const FormFacts& f, std::int64_t columns) {
  if (f.form.kernel != Kernel::persistent) return false;
  if (f.form.tile == Tile::columns64) return true;
  return columns > (f.form.tile == Tile::rows128 ? kNarrow : kMiddle);
}

// The form of a call. Where results may not depend on the batch neither may the kernel, nor where k is divided.
Form form_of(const Convolution& c) {
  if (c.portable || !takes_persistent(c)) return portable_form(c);
  Form best = widest(c);
  if (is_invariant(c)) return best;
  const auto cost = [&](Form form) { return sharing_of(c, form, *tiling_of(c, form)).cost; };
  double least = cost(best);
  for (const FormFacts& f : kForms) {
    if (f.form == best || !may_have(f, columns_of(c))) continue;
    const double other = cost(f.form);
    if (other < least) best = f.form, least = other;
  }
  return best;
}

const jit::Kernel* kernel_of(const Runtime& runtime, const Convolution& c, Form form) {
  return kernel_for(runtime, to_spec(shape_of(c, form), c.call.device->limits.target), c.flags, c.stream);
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
  const bool persistent = shape.kernel == Kernel::persistent;
  gemm::Shape product;
  product.variant = facts_of({shape.kernel, shape.tile}).variant;
  product.a = product.b = product.out = shape.x;
  // The persistent kernel adds the bias to the sums itself: gemm's fast epilogue has no operands.
  product.epilogue = formula(shape.activation, shape.bias && !persistent, shape.places_first);
  if (shape.bias && !persistent) product.operands[0] = shape.x;
  return product;
}

bool shares_k(const Shape& shape) {
  // Of wide tiles there would be too many sums, in registers and in the workspace.
  return shape.kernel == Kernel::implicit || shape.tile == Tile::columns64 || shape.tile == Tile::rows128;
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
  return std::all_of(std::begin(kForms), std::end(kForms), [&](const FormFacts& f) {
    return f.form.kernel != Kernel::implicit || tiling_of(c, f.form).has_value();
  });
}

std::uint64_t implicit_bytes(const Convolution& c) {
  std::uint64_t sums = 0;
  for (const FormFacts& f : kForms) {
    if (!shares_k(shape_of(c, f.form)) || is_invariant(c)) continue;
    if (const std::optional<gemm::Tiling> of = tiling_of(c, f.form))
      sums = std::max(sums, 2 * static_cast<std::uint64_t>(slots_of(*of, all_sms(c))) * of->sums_bytes());
  }
  return (kCounterBytes + sums + kPiece - 1) / kPiece * kPiece;
}

void prepare_implicit(const Runtime& runtime, const Convolution& c) {
  // The number of rows decides, which fewer samples or places may change; places may be columns too.
  const bool persistent = form_of(c).kernel == Kernel::persistent, rows_decide = !is_invariant(c);
  for (const FormFacts& f : kForms) {
    const bool may_be = persistent ? may_have(f, columns_of(c)) && (rows_decide || c.places_first)
                                   : f.form.kernel == Kernel::implicit && rows_decide && !c.places_first;
    if (may_be || f.form == form_of(c)) kernel_of(runtime, c, f.form);
  }
}

void run_implicit(const Runtime& runtime, const Convolution& c, const void* x, const void* weight, void* workspace) {
  const Form form = form_of(c);
  const bool persistent = form.kernel == Kernel::persistent;
  const gemm::Tiling t = *tiling_of(c, form);
  const jit::Kernel* const kernel = kernel_of(runtime, c, form);
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
  g.k = narrow(c.k), g.m = narrow(rows_of(c)), g.n = narrow(columns_of(c));
  g.groups = narrow(product_groups(c)), g.peers = 1;
  g.a_row = g.b_row = weight_row, g.a_k = g.b_k = 1;
  g.out_group = c.out.strides[0], g.out_row = c.out.strides[c.places_first ? 1 : 3];
  const auto is_whole = [&](const void* data, std::int64_t stride) {
    return reinterpret_cast<std::uintptr_t>(data) % 16 == 0 && stride * size % 16 == 0;
  };
  g.tiles_m = narrow(div_up(g.m, t.tile_m)), g.tiles_n = narrow(div_up(g.n, t.tile_n));
  const Sharing sharing = sharing_of(c, form, t);
  const std::int64_t tiles = sharing.tiles, all = all_sms(c);
  if (tiles > INT32_MAX / 2) refuse_extent("x", 0, c.batch, "fewer at once: split the call");
  g.tiles = narrow(tiles), g.whole_tiles = 1;
  gemm::set_panels(g, static_cast<double>(slots_of(t, all)) * t.tile_n / t.tile_m, 1);
  std::int64_t grid = persistent || c.call.sms < all ? std::min(tiles, sharing.slots) : tiles;
  if (sharing.stream_k) {
    g.whole_tiles = 0, grid = std::max<std::int64_t>(sharing.contributors, 1);
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
    constexpr const char* kWhat = "launching a convolution";
    if (!persistent) {
      ops::launch(runtime, *kernel, launch, kWhat, p);
      continue;
    }
    gemm::Problem problem{};
    problem.shape = product_shape(shape_of(c, form)), problem.params = g;
    g.out_mapped = gemm::takes_map_of_out(problem);
    jit::TensorMap map =
        c.places_first ? gemm::map_of_a(runtime, problem, t, 1) : gemm::map_of_b(runtime, problem, t, 1);
    // The kernel has this parameter even if out has no tensor map; then any map will do.
    jit::TensorMap map_out = g.out_mapped != 0 ? gemm::map_of_out(runtime, problem) : map;
    ops::launch(runtime, *kernel, launch, kWhat, p, map, map_out);
  }
}

}  // namespace quern::ops::conv2d
