// The conv2d op: convolutions of images, and by the same kernels those along sequences that conv1d is asked for. Its
// kernels' constants, the reading of a call, and the choice of the way in which it is done.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <utility>

#include "jit/error.h"
#include "sources/common_headers.h"
#include "sources/conv2d/convolution.h"
#include "sources/description.h"
#include "sources/embedded.h"
#include "sources/ops.h"
#include "sources/strided.h"

namespace quern::ops::conv2d {
namespace {

constexpr Names<Kernel, 4> kKernels = {{{"windows", Kernel::windows},
                                        {"direct", Kernel::direct},
                                        {"implicit", Kernel::implicit},
                                        {"persistent", Kernel::persistent}}};
constexpr Names<Tile, 5> kTiles = {{{"64x128", Tile::rows64},
                                    {"128x128", Tile::rows128},
                                    {"128x64", Tile::columns64},
                                    {"128x176", Tile::columns176},
                                    {"128x256", Tile::columns256}}};
constexpr Names<std::int32_t, 5> kActivations = {{{"none", QUERN_ACTIVATION_DEFAULT},
                                                  {"relu", QUERN_ACTIVATION_RELU},
                                                  {"gelu", QUERN_ACTIVATION_GELU},
                                                  {"gelu_tanh", QUERN_ACTIVATION_GELU_TANH},
                                                  {"silu", QUERN_ACTIVATION_SILU}}};
constexpr bool is_implicit(const Shape& shape) {
  return shape.kernel == Kernel::implicit || shape.kernel == Kernel::persistent;
}
constexpr auto kConstants = describe<Shape>(
    tag_conv2d, "conv2d", choice<&Shape::kernel>("kernel", nullptr, kKernels),
    choice<&Shape::x>("dtype", nullptr, kFloatDtypes), choice<&Shape::tile>("tile", nullptr, kTiles).when(is_implicit),
    flag<&Shape::places_first>("places_first", nullptr).when(is_implicit),
    flag<&Shape::bias>("bias", nullptr).when(is_implicit),
    choice<&Shape::activation>("activation", nullptr, kActivations).when(is_implicit));

Constants constants(const jit::Spec& spec) { return kConstants.to_constants(kConstants.to_shape(spec)); }

jit::Spec parse(const Constants& given, const jit::TargetInfo& target) {
  const Shape shape = kConstants.read(given);
  if (!is_implicit(shape)) return kConstants.to_spec(shape, target.target);
  const bool persistent = shape.kernel == Kernel::persistent;
  if (shape.x == Dtype::f32)
    throw Error(QUERN_INVALID, std::string("conv2d: dtype is f32; allowed with kernel ") +
                                   (persistent ? "persistent" : "implicit") + ": f16, bf16");
  if (persistent ? shape.tile == Tile::rows64 : shape.tile > Tile::rows128) {
    throw Error(QUERN_INVALID,
                std::string("conv2d: tile is ") + kTiles[static_cast<std::size_t>(shape.tile)].name +
                    "; allowed with kernel " +
                    (persistent ? "persistent: 128x64, 128x128, 128x176, 128x256" : "implicit: 64x128, 128x128"));
  }
  return kConstants.to_spec(shape, target.target);
}

jit::Unit unit(const jit::Spec& spec) {
  const Shape shape = kConstants.to_shape(spec);
  if (is_implicit(shape)) {
    const bool persistent = shape.kernel == Kernel::persistent;
    jit::Unit product = gemm::to_unit(product_shape(shape), tag_gemm, jit::Target::from_tag(spec.target));
    product.op = "conv2d";
    product.entry = persistent ? "quern_convolution_persistent" : "quern_convolution_implicit";
    product.constants.push_back({"WINDOWS_FIRST", shape.places_first ? "0" : "1"});
    if (persistent) {
      product.constants.push_back({"BIAS", shape.bias ? "1" : "0"});
      for (jit::Constant& each : product.constants) {
        if (each.name == "STREAM_K") each.value = shares_k(shape) ? "1" : "0";
      }
    }
    product.source = embedded(persistent ? "conv2d/kernels/persistent.cuh" : "conv2d/kernels/implicit.cuh");
    return product;
  }
  const bool windows = shape.kernel == Kernel::windows;
  jit::Unit unit;
  unit.op = "conv2d";
  unit.target = jit::Target::from_tag(spec.target);
  unit.entry = windows ? "quern_convolution_windows" : "quern_convolution_direct";
  kConstants.define(shape, &unit);
  unit.constants.push_back({"ELEMENT", name_of(shape.x)});
  unit.constants.push_back({"BLOCKS_PER_SM", std::to_string(kBlocksPerSm)});
  unit.source = embedded(windows ? "conv2d/kernels/windows.cuh" : "conv2d/kernels/direct.cuh");
  unit.headers = device_headers(unit.target);
  return unit;
}

// What quern knows of models has no convolutions.
void list(const quern_model&, const jit::TargetInfo&, std::vector<jit::Spec>*) {}

// Below so many output channels of a group, or elements of its window, tensor cores would multiply mostly zeros.
constexpr std::int64_t kFewOuts = 8, kFewElements = 8;

bool is_plain(std::int64_t taps, std::int64_t begin, std::int64_t end) { return taps == 1 && begin == 0 && end == 0; }
bool keeps_rows(const Convolution& c) { return is_plain(c.kernel.rows, c.pad_begin.rows, c.pad_end.rows); }
bool keeps_columns(const Convolution& c) { return is_plain(c.kernel.columns, c.pad_begin.columns, c.pad_end.columns); }
bool is_line(const Convolution& c) { return c.image.rows == 1 && keeps_rows(c); }

// Whether rows follow each other as columns do.
bool merges(const Tensor& t, std::int64_t columns) { return t.strides[2] == columns * t.strides[3]; }

// As few rows as there can be: where a window has one place, places are those of one row, and a single column is a row.
void straighten(Convolution& c) {
  if (is_line(c)) return;
  if (keeps_rows(c) && keeps_columns(c) && c.stride.rows == 1 && c.stride.columns == 1 &&
      merges(c.x, c.image.columns) && merges(c.out, c.places.columns) && c.image.count() <= INT32_MAX) {
    c.image = c.places = {1, c.image.count()};
  } else if (c.image.columns == 1 && keeps_columns(c)) {
    for (Plane* each : {&c.image, &c.kernel, &c.places, &c.stride, &c.dilation, &c.pad_begin, &c.pad_end})
      std::swap(each->rows, each->columns);
    for (Tensor* each : {&c.x, &c.weight, &c.out}) std::swap(each->strides[2], each->strides[3]);
  }
}

// Whether a weight lies as the product's rows: of its three dimensions within an output channel, from the last.
bool lies_so(const Convolution& c, bool taps_last) {
  const std::int64_t* w = c.weight.strides;
  const auto is = [](std::int64_t extent, std::int64_t stride, std::int64_t wanted) {
    return extent == 1 || stride == wanted;
  };
  const std::int64_t across = taps_last ? 1 : c.channels, down = across * c.kernel.columns;
  return is(c.kernel.columns, w[3], across) && is(c.kernel.rows, w[2], down) &&
         is(c.channels, w[1], taps_last ? c.kernel.count() : 1);
}

}  // namespace

const Op op{"conv2d", unit, parse, list, constants};

jit::Spec to_spec(const Shape& shape, jit::Target target) { return kConstants.to_spec(shape, target); }

std::int64_t read_number(std::int32_t given, const char* name, std::int64_t least) {
  if (given < 0) refuse_value(name, std::int64_t{given}, "0 and more");
  return std::max<std::int64_t>(given, least);
}

void choose_way(Convolution& c) {
  straighten(c);
  const bool line = is_line(c);
  const std::int64_t window = c.channels * c.kernel.count();
  c.places_first = c.out.strides[3] == 1;
  const bool in_rows =
      (c.places_first || c.outs == 1 || c.out.strides[1] == 1) && (line || merges(c.out, c.places.columns));
  c.direct = !in_rows || c.group_outs < kFewOuts || window < kFewElements;
  c.implicit = false;
  if (c.direct) {
    c.places_first = c.out.strides[3] <= c.out.strides[1];
    return;
  }
  const std::int64_t chunk = c.chunk;
  const auto whole = [chunk](std::int64_t elements) { return elements % chunk == 0; };
  const auto rounded = [chunk](std::int64_t elements) { return (elements + chunk - 1) / chunk * chunk; };
  const bool many = c.channels >= chunk;
  c.over = line && c.dilation.columns == 1 && many;
  c.taps_last = !many && c.channels > 1 && c.weight.strides[1] != 1;
  c.per = many ? rounded(c.channels) : c.channels;
  c.k = many ? c.per * c.kernel.count() : rounded(window);
  const Plane begin = c.pad_begin, end = c.pad_end;
  c.rows = c.over ? begin.columns + c.image.columns + end.columns : c.places.count();
  const bool vectors = c.call.alignment == 16;
  const std::int64_t place = c.x.strides[3];
  const bool dense = place == c.channels || (c.kernel.columns == 1 && whole(place));
  const bool side_by_side = c.x.strides[1] == 1 && dense && (c.batch <= 1 || whole(c.x.strides[0]));
  c.lays_x = !(vectors && c.over && c.groups == 1 && begin.columns == 0 && end.columns == 0 && whole(c.channels) &&
               side_by_side);
  c.plain = c.lays_x && many && c.x.strides[1] != 1;
  // Where windows lie over each other, laying them out would write and read x several times.
  const bool overlap = c.kernel.count() > c.stride.rows * c.stride.columns;
  if (!line && many && overlap && takes_implicit(c)) {
    c.implicit = true;
    const auto steps = [&](std::int64_t extent, int d) { return extent <= 1 || whole(c.x.strides[d]); };
    c.lays_x = c.plain = !(vectors && c.x.strides[1] == 1 && whole(c.channels) && steps(c.batch, 0) &&
                           steps(c.image.rows, 2) && steps(c.image.columns, 3));
  }
  c.lays_weight = !(vectors && c.k == window && lies_so(c, c.taps_last) && whole(c.weight.strides[0]));
}

void finish_reading(Convolution& c, std::int64_t extent) {
  const auto element = static_cast<int>(bytes_of(c.dtype));
  c.chunk = 16 / element;
  c.group_outs = c.outs / c.groups;
  for (const auto& [name, tensor] : {std::pair{"x", &c.x}, {"weight", &c.weight}}) {
    const auto address = reinterpret_cast<std::uintptr_t>(tensor->data);
    if (address % static_cast<std::uintptr_t>(std::max(c.call.alignment, element)) != 0)
      refuse_alignment(name, "data", address & (~address + 1), c.call.alignment);
  }
  choose_way(c);
  constexpr std::int64_t kMost = INT32_MAX - 65536;  // as kernels count
  const std::int64_t rows = c.direct     ? c.places.count()
                            : c.implicit ? std::max(c.batch * c.places.count(), c.group_outs)
                                         : std::max(c.rows, c.group_outs);
  const std::int64_t each = c.direct ? c.outs : c.implicit ? 1 : c.k / c.chunk;
  if (c.image.count() > kMost || rows > kMost || rows * each > kMost)
    refuse_extent("x", 2, extent, "fewer at once: split the call");
}

Convolution read_convolution(const quern_conv2d_args& args, const Runtime& runtime, bool may_lack_data) {
  Convolution c{};
  c.call = read_call(runtime, args, 0, "enum quern_call_flags", 4, may_lack_data);
  read_common(args, c);
  const Place& place = c.call.place;
  c.x = read(args.x, "x", 4, {Dtype::f16, Dtype::bf16, Dtype::f32}, place);
  c.dtype = c.x.dtype;
  c.weight = read(args.weight, "weight", 4, {c.dtype}, place);
  c.out = read(args.out, "out", 4, {c.dtype}, place);
  c.stride = {read_number(args.stride_h, "stride_h", 1), read_number(args.stride_w, "stride_w", 1)};
  c.dilation = {read_number(args.dilation_h, "dilation_h", 1), read_number(args.dilation_w, "dilation_w", 1)};
  c.groups = read_number(args.groups, "groups", 1);
  c.pad_begin = {read_number(args.pad_top, "pad_top", 0), read_number(args.pad_left, "pad_left", 0)};
  c.pad_end = {read_number(args.pad_bottom, "pad_bottom", 0), read_number(args.pad_right, "pad_right", 0)};
  if (args.activation < QUERN_ACTIVATION_DEFAULT || args.activation > QUERN_ACTIVATION_NONE)
    refuse_value("activation", std::int64_t{args.activation}, "enum quern_activation");
  c.activation = args.activation == QUERN_ACTIVATION_NONE ? 0 : args.activation;
  for (int d = 0; d < 4; ++d) {
    if (c.weight.shape[d] < 1) refuse_extent("weight", d, c.weight.shape[d], "1 and more");
  }
  c.batch = c.x.shape[0], c.image = {c.x.shape[2], c.x.shape[3]};
  c.outs = c.weight.shape[0], c.channels = c.weight.shape[1], c.kernel = {c.weight.shape[2], c.weight.shape[3]};
  if (c.outs % c.groups != 0) refuse_value("groups", c.groups, "a divisor of weight.shape[0]");
  expect_extent(c.x, "x", 1, c.channels * c.groups);
  const auto read_places = [&](int d, std::int64_t Plane::* of) {
    const std::int64_t extent = c.image.*of;
    const std::int64_t places =
        places_of(extent, c.pad_begin.*of, c.pad_end.*of, c.kernel.*of, c.stride.*of, c.dilation.*of);
    if (places < 0) refuse_extent("x", d, extent, "as many elements as a window has, with the padding");
    if (extent + c.pad_begin.*of + c.pad_end.*of > INT32_MAX - 65536) refuse_extent("x", d, extent, "fewer at once");
    expect_extent(c.out, "out", d, places);
    c.places.*of = places;
  };
  expect_extent(c.out, "out", 0, c.batch);
  expect_extent(c.out, "out", 1, c.outs);
  read_places(2, &Plane::rows), read_places(3, &Plane::columns);
  expect_apart(c.out, "out");
  expect_beside(c.out, "out", c.x, "x");
  expect_beside(c.out, "out", c.weight, "weight");
  c.has_bias = args.bias != nullptr;
  if (c.has_bias) {
    const Tensor bias = read(args.bias, "bias", 1, {c.dtype}, place);
    expect_extent(bias, "bias", 0, c.outs);
    expect_unit_stride(bias, "bias", 0);
    c.bias = bias.data;
  }
  finish_reading(c, c.image.rows);
  return c;
}

std::uint64_t workspace(const Runtime& runtime, const quern_conv2d_args& args) {
  return convolution_workspace(runtime, read_convolution(args, runtime, true));
}

void prepare(const Runtime& runtime, const quern_conv2d_args& args) {
  convolution_prepare(runtime, read_convolution(args, runtime, true));
}

void run(const Runtime& runtime, const quern_conv2d_args& args) {
  convolution_run(runtime, read_convolution(args, runtime, false));
}

}  // namespace quern::ops::conv2d
