// A convolution: a matrix product over windows. Where a row of the product is a window as x has it in memory, rows
// simply begin a stride apart and lie over each other; else x is laid out so first, with its padding, and where that
// does not help (several rows of taps, dilation, few channels) window by window. Few channels a group need no matrix
// product.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "sources/conv2d/convolution.h"
#include "sources/conv2d/params.cuh"
#include "sources/divisor.h"
#include "sources/expression/expression.h"
#include "sources/gemm/columns.h"
#include "sources/launch.h"
#include "sources/ops.h"
#include "sources/workspace.h"

namespace quern::ops::conv2d {
namespace {

// A tensor that is handed on.
struct Handed {
  std::array<std::int64_t, 3> shape, strides;
  DLTensor tensor;

  Handed(const Convolution& c, const void* data, const std::array<std::int64_t, 3>& extents,
         const std::array<std::int64_t, 3>& steps)
      : shape(extents), strides(steps), tensor(*c.like) {
    tensor.data = const_cast<void*>(data), tensor.byte_offset = 0;
    tensor.ndim = 3, tensor.shape = shape.data(), tensor.strides = strides.data();
  }
  Handed(const Handed&) = delete;
  Handed& operator=(const Handed&) = delete;
  // The last `rank` dimensions.
  const DLTensor* of(int rank) {
    tensor.ndim = rank, tensor.shape = shape.data() + 3 - rank, tensor.strides = strides.data() + 3 - rank;
    return &tensor;
  }
};

// The product of a sample, or of all samples of a group, or of all groups of a sample.
struct Products {
  std::int64_t launches, batch;
  bool by_group;  // a launch each, with all samples in it
};
Products products_of(const Convolution& c) {
  const bool by_group = c.groups <= c.batch || c.groups == 1;
  return by_group ? Products{c.groups, c.batch, true} : Products{c.batch, c.groups, false};
}

// Calls with(gemm args) for launch number `number`, of x and weight as rows; `workspace` is the product's own.
template <class With>
void with_product(const Convolution& c, std::int64_t number, const void* x, const void* weight, void* workspace,
                  std::uint64_t workspace_size, With with) {
  const Products all = products_of(c);
  const std::int64_t size = bytes_of(c.dtype), places = c.places.count();
  // From sample to sample and from group to group.
  const std::int64_t line = c.lays_x ? c.over ? c.per : c.k : c.x.strides[3];
  const std::int64_t x_group = c.rows * line, x_sample = c.lays_x ? c.groups * x_group : c.x.strides[0];
  const std::int64_t weight_row = c.lays_weight ? c.k : c.weight.strides[0], weight_group = c.group_outs * weight_row;
  const std::int64_t out_group = c.group_outs * c.out.strides[1];
  const auto moved = [&](const void* data, std::int64_t elements) -> const void* {
    return data == nullptr ? nullptr : static_cast<const std::uint8_t*>(data) + elements * size;
  };
  const std::int64_t group = all.by_group ? number : 0, sample = all.by_group ? 0 : number;
  const auto step = [&](std::int64_t by_sample, std::int64_t by_group) { return all.by_group ? by_sample : by_group; };
  Handed windows(c, moved(x, sample * x_sample + group * x_group), {all.batch, places, c.k},
                 {step(x_sample, x_group), c.over ? c.stride.columns * line : c.k, 1});
  Handed weights(c, moved(weight, group * weight_group), {all.batch, c.group_outs, c.k},
                 {step(0, weight_group), weight_row, 1});
  const void* const to = moved(c.out.data, sample * c.out.strides[0] + group * out_group);
  const std::int64_t out_step = step(c.out.strides[0], out_group);
  Handed out(c, to, {all.batch, c.places_first ? c.group_outs : places, c.places_first ? places : c.group_outs},
             {out_step, c.places_first ? c.out.strides[1] : c.out.strides[3], 1});
  const bool batched = all.batch > 1;
  Handed bias(c, moved(c.bias, group * c.group_outs), {1, all.batch, c.group_outs}, {0, step(0, c.group_outs), 1});
  const DLTensor* const operands[] = {bias.of(batched ? 2 : 1)};
  quern_epilogue epilogue{};
  epilogue.size = sizeof epilogue;
  epilogue.expression = formula(c.activation, c.has_bias, c.places_first);
  epilogue.operands = operands, epilogue.operand_count = c.has_bias ? 1 : 0;
  quern_gemm_args product{};
  product.size = sizeof product;
  product.flags = c.flags;
  product.stream = c.stream, product.max_sms = c.max_sms;
  product.workspace = workspace, product.workspace_size = workspace_size;
  const int rank = batched ? 3 : 2;
  product.a = (c.places_first ? weights : windows).of(rank);
  product.b = (c.places_first ? windows : weights).of(rank);
  product.out = out.of(rank), product.epilogue = &epilogue;
  with(product);
}

// What the product needs at most, whatever its places and samples, with counters in front; at least those where
// anything lies behind it.
std::uint64_t product_bytes(const Runtime& runtime, const Convolution& c) {
  if (c.implicit) return implicit_bytes(c);
  std::uint64_t bytes = c.lays_x || c.lays_weight ? kCounterBytes : 0;
  with_product(c, 0, nullptr, nullptr, nullptr, 0, [&](const quern_gemm_args& product) {
    bytes = std::max(bytes, gemm::most_workspace(runtime, product));
  });
  return (bytes + kPiece - 1) / kPiece * kPiece;
}

const jit::Kernel* kernel_of(const Runtime& runtime, const Convolution& c, Kernel kernel) {
  return kernel_for(runtime, to_spec({kernel, c.dtype}, runtime.driver->device().limits.target), c.flags, c.stream);
}

template <class Params>
void launch_kernel(const Runtime& runtime, const jit::Kernel& kernel, const Convolution& c, std::int64_t items,
                   std::int64_t outer, Params& params) {
  jit::Launch launch;
  launch.grid[1] = static_cast<std::uint32_t>(std::min<std::int64_t>(outer, 65535));
  std::int64_t blocks = (items + q::kConvolutionThreads - 1) / q::kConvolutionThreads;
  if (c.max_sms > 0)
    blocks = std::min(blocks, std::max<std::int64_t>(c.call.sms * std::int64_t{kBlocksPerSm} / launch.grid[1], 1));
  launch.grid[0] = static_cast<std::uint32_t>(std::min<std::int64_t>(blocks, 1 << 20));
  launch.block[0] = q::kConvolutionThreads;
  launch.programmatic = (c.flags & QUERN_CALL_PROGRAMMATIC) != 0;
  launch.stream = c.stream;
  ops::launch(runtime, kernel, launch, "launching a convolution", params);
}

std::int32_t narrow(std::int64_t value) { return static_cast<std::int32_t>(value); }

// Calls with(copy args) that lay x out at `to`, channels side by side, and zeros around it.
template <class With>
void with_copy(const Convolution& c, void* to, With with) {
  using Five = std::array<std::int64_t, 5>;
  struct View {
    Five shape, strides;
    DLTensor tensor;
  };
  const Plane begin = c.plain_begin(), end = c.plain_end(), all = c.plain_extents();
  const std::int64_t size = bytes_of(c.dtype), place = c.per, row = all.columns * place, group = all.rows * row,
                     sample = c.groups * group;
  std::array<View, 5> views;  // x, then where it goes and what is filled with zeros
  std::array<const DLTensor*, 4> inputs{}, outputs{};
  std::size_t count = 0;
  const auto add = [&](std::size_t i, const void* data, const Five& shape, const Five& strides) {
    View& view = views[i];
    view.shape = shape, view.strides = strides, view.tensor = *c.like;
    view.tensor.data = const_cast<void*>(data), view.tensor.byte_offset = 0;
    view.tensor.ndim = 5, view.tensor.shape = view.shape.data(), view.tensor.strides = view.strides.data();
    return &view.tensor;
  };
  const auto output = [&](std::int64_t first, std::int64_t columns, std::int64_t channel, std::int64_t channels) {
    if (columns <= 0 || channels <= 0) return;
    const void* const at = to == nullptr ? nullptr : static_cast<std::uint8_t*>(to) + (first * place + channel) * size;
    outputs[count] =
        add(count + 1, at, {c.batch, c.groups, all.rows, columns, channels}, {sample, group, row, place, 1});
    ++count;
  };
  if (c.image.count() > 0)
    inputs[0] = add(0, c.x.data, {c.batch, c.groups, c.image.rows, c.image.columns, c.channels},
                    {c.x.strides[0], c.channels * c.x.strides[1], c.x.strides[2], c.x.strides[3], c.x.strides[1]});
  output(begin.columns, c.image.columns, 0, c.channels);
  output(begin.columns, c.image.columns, c.channels, c.per - c.channels);
  output(0, begin.columns, 0, c.per);
  output(begin.columns + c.image.columns, end.columns, 0, c.per);
  if (count == 0) return;
  quern_copy_args copy{};
  copy.size = sizeof copy;
  copy.flags = c.flags, copy.stream = c.stream, copy.max_sms = c.max_sms;
  // Zeros behind an odd number of channels begin anywhere.
  copy.alignment = c.per == c.channels ? c.alignment : static_cast<std::int32_t>(size);
  copy.inputs = inputs.data(), copy.outputs = outputs.data(),
  copy.input_count = copy.output_count = static_cast<std::uint32_t>(count);
  with(copy);
}

bool is_aligned(const void* data) { return reinterpret_cast<std::uintptr_t>(data) % 16 == 0; }

// The digits of a window's elements, from the strides of rows, columns and channels. Dilation counts in x alone.
void set_digits(q::WindowsParams& w, const Convolution& c, std::int64_t row, std::int64_t column, std::int64_t channel,
                Plane kernel, std::int64_t channels, Plane dilation) {
  w.columns = divisor(narrow(c.over ? c.rows : c.places.columns));
  if (c.taps_last) {
    w.first = narrow(channels), w.first_stride = channel;
    w.second = divisor(narrow(kernel.rows)), w.second_stride = row, w.second_down = narrow(dilation.rows);
    w.last = divisor(narrow(kernel.columns)), w.last_there = narrow(kernel.columns);
    w.last_stride = column, w.last_across = narrow(dilation.columns);
  } else {
    w.first = narrow(kernel.rows), w.first_stride = row, w.first_down = narrow(dilation.rows);
    w.second = divisor(narrow(kernel.columns)), w.second_stride = column, w.second_across = narrow(dilation.columns);
    w.last = divisor(narrow(c.per)), w.last_there = narrow(channels), w.last_stride = channel;
  }
}

// Windows of x, or of what with_copy laid out at `plain`.
void lay_x(const Runtime& runtime, const jit::Kernel& kernel, const Convolution& c, const void* plain, void* to) {
  const std::int64_t size = bytes_of(c.dtype);
  q::WindowsParams w{};
  w.to = static_cast<std::uint8_t*>(to);
  std::int64_t row = c.x.strides[2] * size, column = c.x.strides[3] * size, channel = c.x.strides[1] * size,
               channels = c.channels;
  const auto whole = [](std::int64_t bytes) { return bytes % 16 == 0; };
  if (c.plain) {
    channel = size, column = c.per * size, row = c.image.columns * column, channels = c.per;
    w.from = static_cast<const std::uint8_t*>(plain);
    w.group_stride = c.image.rows * row, w.sample_stride = c.groups * w.group_stride, w.vectors = 1;
  } else {
    w.from = c.x.data;
    w.sample_stride = c.x.strides[0] * size, w.group_stride = c.channels * channel;
    const bool rows = whole(row) || c.image.rows == 1, samples = whole(w.sample_stride) || c.batch == 1;
    const bool aligned = c.call.alignment == 16 && is_aligned(c.x.data) && samples && rows;
    if (c.taps_last) {
      w.vectors = aligned && column == size && c.dilation.columns == 1 && c.kernel.columns % c.chunk == 0 &&
                  whole(c.stride.columns * column) && whole(channel) && whole(w.group_stride) &&
                  c.pad_begin.columns == 0 && c.pad_end.columns == 0;
    } else {
      w.vectors = aligned && channel == size && c.channels % c.chunk == 0 && whole(column);
    }
    w.rows_first = c.x.strides[3] < c.x.strides[1] && w.vectors == 0;
  }
  const Plane stride = c.over ? Plane{1, 1} : c.stride;
  w.from -= c.pad_begin.rows * row + c.pad_begin.columns * column;
  w.down_stride = stride.rows * row, w.across_stride = stride.columns * column;
  set_digits(w, c, c.dilation.rows * row, c.dilation.columns * column, channel, c.over ? Plane{1, 1} : c.kernel,
             channels, c.dilation);
  w.places = {narrow(c.image.rows),     narrow(c.image.columns),    narrow(stride.rows), narrow(stride.columns), 0, 0,
              narrow(c.pad_begin.rows), narrow(c.pad_begin.columns)};
  w.outer = narrow(c.batch * c.groups), w.groups = divisor(narrow(c.groups));
  const std::int64_t chunks = (c.over ? c.per : c.k) / c.chunk;
  w.rows = divisor(narrow(c.rows)), w.chunks = divisor(narrow(chunks));
  launch_kernel(runtime, kernel, c, c.rows * chunks, w.outer, w);
}

void lay_weight(const Runtime& runtime, const jit::Kernel& kernel, const Convolution& c, void* to) {
  const std::int64_t size = bytes_of(c.dtype);
  q::WindowsParams w{};
  w.from = c.weight.data, w.to = static_cast<std::uint8_t*>(to);
  w.down_stride = c.weight.strides[0] * size, w.group_stride = c.group_outs * w.down_stride;
  set_digits(w, c, c.weight.strides[2] * size, c.weight.strides[3] * size, c.weight.strides[1] * size, c.kernel,
             c.channels, {0, 0});
  w.columns = divisor(1), w.places.height = w.places.width = 1;
  w.outer = narrow(c.groups), w.groups = divisor(narrow(c.groups));
  w.rows = divisor(narrow(c.group_outs)), w.chunks = divisor(narrow(c.k / c.chunk));
  launch_kernel(runtime, kernel, c, c.group_outs * (c.k / c.chunk), c.groups, w);
}

void run_direct(const Runtime& runtime, const jit::Kernel& kernel, const Convolution& c) {
  q::DirectParams d{};
  d.x = c.x.data, d.weight = c.weight.data, d.bias = c.bias, d.out = c.out.data;
  d.x_sample = c.x.strides[0], d.x_channel = c.x.strides[1], d.x_row = c.x.strides[2], d.x_column = c.x.strides[3];
  d.weight_out = c.weight.strides[0], d.weight_channel = c.weight.strides[1];
  d.weight_row = c.weight.strides[2], d.weight_column = c.weight.strides[3];
  d.out_sample = c.out.strides[0], d.out_channel = c.out.strides[1];
  d.out_row = c.out.strides[2], d.out_column = c.out.strides[3];
  d.places = {narrow(c.image.rows),     narrow(c.image.columns),    narrow(c.stride.rows),
              narrow(c.stride.columns), narrow(c.dilation.rows),    narrow(c.dilation.columns),
              narrow(c.pad_begin.rows), narrow(c.pad_begin.columns)};
  d.batch = narrow(c.batch), d.channels = narrow(c.channels);
  d.tap_rows = narrow(c.kernel.rows), d.tap_columns = narrow(c.kernel.columns),
  d.out_columns = narrow(c.places.columns);
  const std::int64_t some = (c.places.columns + q::kConvolutionPlaces - 1) / q::kConvolutionPlaces,
                     lines = c.places.rows * some;
  d.outs = divisor(narrow(c.outs)), d.group_outs = divisor(narrow(c.group_outs));
  d.some = divisor(narrow(some)), d.lines = divisor(narrow(lines));
  d.adjacent = c.stride.columns == 1 && c.dilation.columns == 1;
  d.places_first = c.places_first, d.activation = static_cast<q::Activation>(c.activation);
  launch_kernel(runtime, kernel, c, c.outs * lines, c.batch, d);
}

std::uint64_t needed_bytes(const Runtime& runtime, const Convolution& c) {
  return c.direct || c.batch == 0 ? 0 : product_bytes(runtime, c) + c.laid_bytes();
}

// Calls with(convolution) for every way that a call with no more samples, and no larger images, may take: a single
// sample's products are of all of its groups, and what has one row or one column is done as along a sequence.
template <class With>
void each_way(const Convolution& given, With with) {
  const auto each_batch = [&](Convolution c) {
    choose_way(c);
    with(c);
    if (c.batch <= 1) return;
    c.batch = 1;
    choose_way(c);
    with(c);
  };
  each_batch(given);
  const auto is_kept = [](std::int64_t taps, std::int64_t begin, std::int64_t end) {
    return taps == 1 && begin == 0 && end == 0;
  };
  if (given.image.rows > 1 && is_kept(given.kernel.rows, given.pad_begin.rows, given.pad_end.rows)) {
    Convolution c = given;
    c.image.rows = c.places.rows = 1;
    each_batch(c);
  }
  if (given.image.rows > 1 && given.image.columns > 1 &&
      is_kept(given.kernel.columns, given.pad_begin.columns, given.pad_end.columns)) {
    Convolution c = given;
    // Rows that lie one behind the other do so where they have one column.
    for (const auto& [tensor, columns] : {std::pair{&c.x, c.image.columns}, {&c.out, c.places.columns}}) {
      if (tensor->strides[2] == columns * tensor->strides[3]) tensor->strides[2] = tensor->strides[3];
    }
    c.image.columns = c.places.columns = 1;
    each_batch(c);
  }
}

std::uint64_t most_bytes(const Runtime& runtime, const Convolution& given) {
  std::uint64_t bytes = 0;
  each_way(given, [&](const Convolution& c) { bytes = std::max(bytes, needed_bytes(runtime, c)); });
  return bytes;
}

// The kernels of x laid out plain: where samples lie one behind the other, a smaller x has its channels at distances
// that allow other accesses.
void prepare_copy(const Runtime& runtime, const Convolution& c) {
  const auto prepare = [&](const Convolution& one) {
    with_copy(one, nullptr, [&](const quern_copy_args& copy) { copy::prepare(runtime, copy); });
  };
  prepare(c);
  const std::int64_t all = c.groups * c.channels, places = c.image.count(), whole = places / c.chunk * c.chunk;
  if (c.x.strides[3] != 1 || c.x.strides[1] != places) return;
  for (std::int64_t less = 0; less < c.chunk; less = less == 0 ? 1 : 2 * less) {
    Convolution smaller = c;
    smaller.image = {1, whole - less};
    if (smaller.image.columns < 1 || smaller.image.columns > places) continue;
    smaller.x.strides[1] = smaller.x.strides[2] = smaller.image.columns;
    smaller.x.strides[0] = all * smaller.image.columns;
    prepare(smaller);
  }
}

// A product readies fewer places by itself.
void prepare_way(const Runtime& runtime, const Convolution& c) {
  if (c.direct) {
    kernel_of(runtime, c, Kernel::direct);
    return;
  }
  if (c.makes_windows() || c.lays_weight) kernel_of(runtime, c, Kernel::windows);
  if (c.plain) prepare_copy(runtime, c);
  if (c.implicit) return prepare_implicit(runtime, c);
  with_product(c, 0, nullptr, nullptr, nullptr, 0, [&](const quern_gemm_args& product) {
    c.places_first ? gemm::columns_prepare(runtime, product) : gemm::prepare(runtime, product);
  });
}

}  // namespace

std::uint64_t convolution_workspace(const Runtime& runtime, const Convolution& c) { return most_bytes(runtime, c); }

void convolution_prepare(const Runtime& runtime, const Convolution& given) {
  each_way(given, [&](const Convolution& c) { prepare_way(runtime, c); });
}

void convolution_run(const Runtime& runtime, const Convolution& c) {
  // Held even where this call needs none: the caller was told this size, for smaller calls too.
  if (const std::uint64_t most = most_bytes(runtime, c); most > 0) read_workspace(c.workspace, c.workspace_size, most);
  if (c.direct) {
    const jit::Kernel* const kernel = kernel_of(runtime, c, Kernel::direct);
    if (c.batch > 0) run_direct(runtime, *kernel, c);
    return;
  }
  if (c.batch == 0) return;
  const std::uint64_t own = product_bytes(runtime, c);
  std::uint8_t *windows = nullptr, *plain = nullptr, *weights = nullptr;
  if (own + c.laid_bytes() > 0) {
    windows = static_cast<std::uint8_t*>(c.workspace) + own;
    plain = windows + c.window_bytes(), weights = plain + c.plain_bytes();
  }
  const jit::Kernel* kernel = nullptr;
  if (c.makes_windows() || c.lays_weight) kernel = kernel_of(runtime, c, Kernel::windows);
  if (c.plain) with_copy(c, plain, [&](const quern_copy_args& copy) { copy::run(runtime, copy); });
  if (c.makes_windows()) lay_x(runtime, *kernel, c, plain, windows);
  if (c.lays_weight) lay_weight(runtime, *kernel, c, weights);
  const void* const x = !c.lays_x ? c.x.data : c.makes_windows() ? windows : plain;
  const void* const weight = c.lays_weight ? weights : c.weight.data;
  if (c.implicit) return run_implicit(runtime, c, x, weight, c.workspace);
  for (std::int64_t i = 0; i < products_of(c).launches; ++i) {
    with_product(c, i, x, weight, c.workspace, own, [&](const quern_gemm_args& product) {
      c.places_first ? gemm::columns_run(runtime, product) : gemm::run(runtime, product);
    });
  }
}

}  // namespace quern::ops::conv2d
