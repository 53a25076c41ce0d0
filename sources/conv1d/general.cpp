// The general convolution: a matrix product over windows. Where a row of the product is a window as x has it in memory,
// rows simply begin a stride apart and lie over each other; else x is laid out so first, with its padding, and where
// that does not help (dilation, few channels) window by window. Few channels a group need no matrix product.
// SPDX-License-Identifier: Apache-2.0
#include "sources/conv1d/general.h"

#include <algorithm>
#include <array>

#include "sources/conv1d/params.cuh"
#include "sources/divisor.h"
#include "sources/expression/expression.h"
#include "sources/gemm/columns.h"
#include "sources/launch.h"
#include "sources/ops.h"
#include "sources/workspace.h"

namespace quern::ops::conv1d {
namespace {

// A tensor that is handed on.
struct Handed {
  std::array<std::int64_t, 3> shape, strides;
  DLTensor tensor;

  Handed(const DLTensor& like, const void* data, const std::array<std::int64_t, 3>& extents,
         const std::array<std::int64_t, 3>& steps)
      : shape(extents), strides(steps), tensor(like) {
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
Products products_of(const General& p) {
  const bool by_group = p.groups <= p.batch || p.groups == 1;
  return by_group ? Products{p.groups, p.batch, true} : Products{p.batch, p.groups, false};
}

const quern_expression* formula(bool silu, bool bias, bool rows) {
  static const quern_expression* const kFormulas[] = {
      &expression::intern("acc"),      &expression::intern("silu(acc)"),
      &expression::intern("acc+col0"), &expression::intern("silu(acc+col0)"),
      &expression::intern("acc+row0"), &expression::intern("silu(acc+row0)")};
  return kFormulas[(bias ? rows ? 4 : 2 : 0) + (silu ? 1 : 0)];
}

// Calls with(gemm args) for launch number `number`, of x and weight as rows; `workspace` is the product's own.
template <class With>
void with_product(const quern_conv1d_args& args, const General& p, std::int64_t number, const void* x,
                  const void* weight, void* workspace, std::uint64_t workspace_size, With with) {
  const Products all = products_of(p);
  const std::int64_t size = bytes_of(p.dtype);
  // From sample to sample and from group to group.
  const std::int64_t line = p.lays_x ? p.over ? p.per : p.k : p.x.strides[2];
  const std::int64_t x_group = p.rows * line, x_sample = p.lays_x ? p.groups * x_group : p.x.strides[0];
  const std::int64_t weight_row = p.lays_weight ? p.k : p.weight.strides[0], weight_group = p.group_outs * weight_row;
  const std::int64_t out_group = p.group_outs * p.out.strides[1];
  const auto moved = [&](const void* data, std::int64_t elements) -> const void* {
    return data == nullptr ? nullptr : static_cast<const std::uint8_t*>(data) + elements * size;
  };
  const std::int64_t group = all.by_group ? number : 0, sample = all.by_group ? 0 : number;
  const auto step = [&](std::int64_t by_sample, std::int64_t by_group) { return all.by_group ? by_sample : by_group; };
  Handed windows(*args.x, moved(x, sample * x_sample + group * x_group), {all.batch, p.places, p.k},
                 {step(x_sample, x_group), p.over ? p.stride * line : p.k, 1});
  Handed weights(*args.weight, moved(weight, group * weight_group), {all.batch, p.group_outs, p.k},
                 {step(0, weight_group), weight_row, 1});
  const void* const to = moved(p.out.data, sample * p.out.strides[0] + group * out_group);
  const std::int64_t out_step = step(p.out.strides[0], out_group);
  Handed out(*args.out, to,
             {all.batch, p.places_first ? p.group_outs : p.places, p.places_first ? p.places : p.group_outs},
             {out_step, p.places_first ? p.out.strides[1] : p.out.strides[2], 1});
  const bool has_bias = args.bias != nullptr, batched = all.batch > 1;
  Handed bias(*args.weight, moved(p.bias.data, group * p.group_outs), {1, all.batch, p.group_outs},
              {0, step(0, p.group_outs), 1});
  const DLTensor* const operands[] = {bias.of(batched ? 2 : 1)};
  quern_epilogue epilogue{};
  epilogue.size = sizeof epilogue;
  epilogue.expression = formula((args.flags & QUERN_CONV1D_SILU) != 0, has_bias, p.places_first);
  epilogue.operands = operands, epilogue.operand_count = has_bias ? 1 : 0;
  quern_gemm_args product{};
  product.size = sizeof product;
  product.flags = args.flags & kCallFlags;
  product.stream = args.stream, product.max_sms = args.max_sms;
  product.workspace = workspace, product.workspace_size = workspace_size;
  const int rank = batched ? 3 : 2;
  product.a = (p.places_first ? weights : windows).of(rank);
  product.b = (p.places_first ? windows : weights).of(rank);
  product.out = out.of(rank), product.epilogue = &epilogue;
  with(product);
}

// What the product needs at most, whatever its places and samples, with counters in front; at least those where
// anything lies behind it.
std::uint64_t product_bytes(const Runtime& runtime, const quern_conv1d_args& args, const General& p) {
  std::uint64_t bytes = p.lays_x || p.lays_weight ? kCounterBytes : 0;
  with_product(args, p, 0, nullptr, nullptr, nullptr, 0, [&](const quern_gemm_args& product) {
    bytes = std::max(bytes, gemm::most_workspace(runtime, product));
  });
  return (bytes + kPiece - 1) / kPiece * kPiece;
}

Shape shape_of(const General& p, Kernel kernel) {
  Shape shape;
  shape.kernel = kernel, shape.x = p.dtype;
  return shape;
}

std::uint32_t blocks(const quern_conv1d_args& args, const General& p, std::int64_t items, std::int64_t outer) {
  std::int64_t all = (items + q::kConvThreads - 1) / q::kConvThreads;
  if (args.max_sms > 0) all = std::min(all, std::max<std::int64_t>(p.call.sms * std::int64_t{kBlocksPerSm} / outer, 1));
  return static_cast<std::uint32_t>(std::min<std::int64_t>(all, 1 << 20));
}

template <class Params>
void launch_kernel(const Runtime& runtime, const jit::Kernel& kernel, const quern_conv1d_args& args, const General& p,
                   std::int64_t items, std::int64_t outer, Params& params) {
  jit::Launch launch;
  launch.grid[1] = static_cast<std::uint32_t>(std::min<std::int64_t>(outer, 65535));
  launch.grid[0] = blocks(args, p, items, launch.grid[1]);
  launch.block[0] = q::kConvThreads;
  launch.programmatic = (args.flags & QUERN_CALL_PROGRAMMATIC) != 0;
  launch.stream = args.stream;
  ops::launch(runtime, kernel, launch, "launching conv1d", params);
}

std::int32_t narrow(std::int64_t value) { return static_cast<std::int32_t>(value); }

// Calls with(copy args) that lay x out with its padding at `to`, channels side by side.
template <class With>
void with_copy(const quern_conv1d_args& args, const General& p, void* to, With with) {
  using Four = std::array<std::int64_t, 4>;
  struct View {
    Four shape, strides;
    DLTensor tensor;
  };
  const std::int64_t size = bytes_of(p.dtype), line = p.per, group = p.padded() * line, sample = p.groups * group;
  std::array<View, 5> views;  // x, then where it goes and what is filled with zeros
  std::array<const DLTensor*, 4> inputs{}, outputs{};
  std::size_t count = 0;
  const auto add = [&](std::size_t i, const void* data, const Four& shape, const Four& strides) {
    View& view = views[i];
    view.shape = shape, view.strides = strides, view.tensor = *args.x;
    view.tensor.data = const_cast<void*>(data), view.tensor.byte_offset = 0;
    view.tensor.ndim = 4, view.tensor.shape = view.shape.data(), view.tensor.strides = view.strides.data();
    return &view.tensor;
  };
  const auto output = [&](std::int64_t first, std::int64_t rows, std::int64_t channel, std::int64_t channels) {
    if (rows <= 0 || channels <= 0) return;
    const void* const at = to == nullptr ? nullptr : static_cast<std::uint8_t*>(to) + (first * line + channel) * size;
    outputs[count] = add(count + 1, at, {p.batch, p.groups, rows, channels}, {sample, group, line, 1});
    ++count;
  };
  if (p.length > 0)
    inputs[0] = add(0, p.x.data, {p.batch, p.groups, p.length, p.channels},
                    {p.x.strides[0], p.channels * p.x.strides[1], p.x.strides[2], p.x.strides[1]});
  output(p.pad_begin, p.length, 0, p.channels);
  output(p.pad_begin, p.length, p.channels, p.per - p.channels);
  output(0, p.pad_begin, 0, p.per);
  output(p.pad_begin + p.length, p.pad_end, 0, p.per);
  quern_copy_args copy{};
  copy.size = sizeof copy;
  copy.flags = args.flags & kCallFlags, copy.stream = args.stream, copy.max_sms = args.max_sms;
  // Zeros behind an odd number of channels begin anywhere.
  copy.alignment = p.per == p.channels ? args.alignment : static_cast<std::int32_t>(size);
  copy.inputs = inputs.data(), copy.outputs = outputs.data(),
  copy.input_count = copy.output_count = static_cast<std::uint32_t>(count);
  with(copy);
}

bool is_aligned(const Tensor& t, int promised) {
  return promised == 16 && reinterpret_cast<std::uintptr_t>(t.data) % 16 == 0;
}

// Windows of x, or of what with_copy laid out at `plain`.
void lay_x(const Runtime& runtime, const jit::Kernel& kernel, const quern_conv1d_args& args, const General& p,
           const void* plain, void* to) {
  const std::int64_t size = bytes_of(p.dtype), line = p.per * size;
  q::WindowsParams w{};
  w.to = static_cast<std::uint8_t*>(to);
  const std::int64_t place = p.plain ? line : p.x.strides[2] * size;
  if (p.plain) {
    w.from = static_cast<const std::uint8_t*>(plain);
    w.group_stride = p.padded() * line, w.sample_stride = p.groups * w.group_stride, w.channel_stride = size;
    w.channels = narrow(p.per), w.length = narrow(p.padded()), w.vectors = 1;
  } else {
    w.from = p.x.data - p.pad_begin * place;
    w.sample_stride = p.x.strides[0] * size, w.group_stride = p.channels * p.x.strides[1] * size;
    w.channel_stride = p.x.strides[1] * size;
    w.channels = narrow(p.channels), w.length = narrow(p.length), w.pad = narrow(p.pad_begin);
    const auto whole = [&](std::int64_t bytes) { return bytes % 16 == 0; };
    w.vectors = p.x.strides[1] == 1 && p.channels % p.chunk == 0 && is_aligned(p.x, p.call.alignment) && whole(place) &&
                whole(w.sample_stride);
    w.rows_first = p.x.strides[2] < p.x.strides[1];
  }
  w.row_stride = p.over ? place : p.stride * place, w.tap_stride = p.over ? 0 : p.dilation * place;
  w.outer = narrow(p.batch * p.groups), w.groups = divisor(narrow(p.groups));
  const std::int64_t chunks = (p.over ? p.per : p.k) / p.chunk;
  w.rows = divisor(narrow(p.rows)), w.chunks = divisor(narrow(chunks)), w.per = divisor(narrow(p.per));
  w.taps = p.over ? 1 : narrow(p.taps);
  w.stride = p.over ? 1 : narrow(p.stride), w.dilation = p.over ? 0 : narrow(p.dilation);
  launch_kernel(runtime, kernel, args, p, p.rows * chunks, w.outer, w);
}

void lay_weight(const Runtime& runtime, const jit::Kernel& kernel, const quern_conv1d_args& args, const General& p,
                void* to) {
  const std::int64_t size = bytes_of(p.dtype);
  q::WindowsParams w{};
  w.from = p.weight.data, w.to = static_cast<std::uint8_t*>(to);
  w.row_stride = p.weight.strides[0] * size, w.group_stride = p.group_outs * w.row_stride;
  w.channel_stride = p.weight.strides[1] * size, w.tap_stride = p.weight.strides[2] * size;
  w.outer = narrow(p.groups), w.groups = divisor(narrow(p.groups));
  w.rows = divisor(narrow(p.group_outs)), w.chunks = divisor(narrow(p.k / p.chunk)), w.per = divisor(narrow(p.per));
  w.taps = narrow(p.taps), w.channels = narrow(p.channels), w.length = 1;
  launch_kernel(runtime, kernel, args, p, p.group_outs * (p.k / p.chunk), p.groups, w);
}

void run_direct(const Runtime& runtime, const jit::Kernel& kernel, const quern_conv1d_args& args, const General& p) {
  q::DirectParams d{};
  d.x = p.x.data, d.weight = p.weight.data, d.bias = p.bias.data, d.out = p.out.data;
  d.x_sample = p.x.strides[0], d.x_channel = p.x.strides[1], d.x_place = p.x.strides[2];
  d.weight_out = p.weight.strides[0], d.weight_channel = p.weight.strides[1], d.weight_tap = p.weight.strides[2];
  d.out_sample = p.out.strides[0], d.out_channel = p.out.strides[1], d.out_place = p.out.strides[2];
  d.batch = narrow(p.batch), d.channels = narrow(p.channels), d.taps = narrow(p.taps);
  d.length = narrow(p.length), d.places = narrow(p.places);
  d.stride = narrow(p.stride), d.dilation = narrow(p.dilation), d.pad = narrow(p.pad_begin);
  const std::int64_t some = (p.places + q::kConvPlaces - 1) / q::kConvPlaces;
  d.outs = divisor(narrow(p.outs)), d.group_outs = divisor(narrow(p.group_outs)), d.some = divisor(narrow(some));
  d.adjacent = p.stride == 1 && p.dilation == 1;
  d.places_first = p.places_first, d.silu = (args.flags & QUERN_CONV1D_SILU) != 0;
  launch_kernel(runtime, kernel, args, p, p.outs * some, p.batch, d);
}

std::uint64_t needed_bytes(const Runtime& runtime, const quern_conv1d_args& args, const General& p) {
  return p.direct || p.batch == 0 ? 0 : product_bytes(runtime, args, p) + p.laid_bytes();
}

// Calls with(problem) for every way that a call with no more samples may take: a single one's products are of all of
// its groups.
template <class With>
void each_way(const General& given, With with) {
  with(given);
  if (given.batch <= 1) return;
  General p = given;
  p.batch = 1;
  choose_way(p);
  with(p);
}

std::uint64_t most_bytes(const Runtime& runtime, const quern_conv1d_args& args, const General& given) {
  std::uint64_t bytes = 0;
  each_way(given, [&](const General& p) { bytes = std::max(bytes, needed_bytes(runtime, args, p)); });
  return bytes;
}

// The kernels of x laid out plain: where samples lie one behind the other, a shorter x has its channels at distances
// that allow other accesses.
void prepare_copy(const Runtime& runtime, const quern_conv1d_args& args, const General& p) {
  const auto prepare = [&](const General& one) {
    with_copy(args, one, nullptr, [&](const quern_copy_args& copy) { copy::prepare(runtime, copy); });
  };
  prepare(p);
  const std::int64_t all = p.groups * p.channels, whole = p.length / p.chunk * p.chunk;
  if (p.x.strides[2] != 1 || p.x.strides[1] != p.length) return;
  for (std::int64_t less = 0; less < p.chunk; less = less == 0 ? 1 : 2 * less) {
    General shorter = p;
    shorter.length = whole - less;
    if (shorter.length < 1 || shorter.length > p.length) continue;
    shorter.x.strides[1] = shorter.length, shorter.x.strides[0] = all * shorter.length;
    prepare(shorter);
  }
}

// A product readies fewer places by itself.
void prepare_way(const Runtime& runtime, const quern_conv1d_args& args, const General& p) {
  if (p.direct) {
    kernel_of(shape_of(p, Kernel::direct), runtime, args);
    return;
  }
  if (p.makes_windows() || p.lays_weight) kernel_of(shape_of(p, Kernel::windows), runtime, args);
  if (p.plain) prepare_copy(runtime, args, p);
  with_product(args, p, 0, nullptr, nullptr, nullptr, 0, [&](const quern_gemm_args& product) {
    p.places_first ? gemm::columns_prepare(runtime, product) : gemm::prepare(runtime, product);
  });
}

}  // namespace

std::uint64_t general_workspace(const Runtime& runtime, const quern_conv1d_args& args) {
  return most_bytes(runtime, args, read_general(args, runtime, true));
}

void general_prepare(const Runtime& runtime, const quern_conv1d_args& args) {
  each_way(read_general(args, runtime, true), [&](const General& p) { prepare_way(runtime, args, p); });
}

void general_run(const Runtime& runtime, const quern_conv1d_args& args) {
  const General p = read_general(args, runtime, false);
  if (p.direct) {
    const jit::Kernel* const kernel = kernel_of(shape_of(p, Kernel::direct), runtime, args);
    if (p.batch > 0) run_direct(runtime, *kernel, args, p);
    return;
  }
  if (p.batch == 0) return;
  const std::uint64_t own = product_bytes(runtime, args, p);
  std::uint8_t *windows = nullptr, *plain = nullptr, *weights = nullptr;
  if (own + p.laid_bytes() > 0) {
    read_workspace(args.workspace, args.workspace_size, most_bytes(runtime, args, p));
    windows = static_cast<std::uint8_t*>(args.workspace) + own;
    plain = windows + p.window_bytes(), weights = plain + p.plain_bytes();
  }
  const jit::Kernel* kernel = nullptr;
  if (p.makes_windows() || p.lays_weight) kernel = kernel_of(shape_of(p, Kernel::windows), runtime, args);
  if (p.plain) with_copy(args, p, plain, [&](const quern_copy_args& copy) { copy::run(runtime, copy); });
  if (p.makes_windows()) lay_x(runtime, *kernel, args, p, plain, windows);
  if (p.lays_weight) lay_weight(runtime, *kernel, args, p, weights);
  const void* const x = !p.lays_x ? p.x.data : p.makes_windows() ? windows : plain;
  const void* const weight = p.lays_weight ? weights : p.weight.data;
  for (std::int64_t i = 0; i < products_of(p).launches; ++i) {
    with_product(args, p, i, x, weight, args.workspace, own, [&](const quern_gemm_args& product) {
      p.places_first ? gemm::columns_run(runtime, product) : gemm::run(runtime, product);
    });
  }
}

}  // namespace quern::ops::conv1d
