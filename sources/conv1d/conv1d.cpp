// The conv1d op: causal depthwise convolutions along ragged sequences, with a state for each.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>

#include "jit/error.h"
#include "sources/call.h"
#include "sources/common_headers.h"
#include "sources/conv1d/params.cuh"
#include "sources/conv1d/shape.h"
#include "sources/description.h"
#include "sources/divisor.h"
#include "sources/embedded.h"
#include "sources/index_data.h"
#include "sources/launch.h"
#include "sources/ops.h"
#include "sources/row_alignment.h"
#include "sources/strided.h"
#include "sources/tensor.h"

namespace quern::ops::conv1d {
namespace {

constexpr std::int64_t kMostTaps = 8;
constexpr std::int64_t kMostRun = 64;  // tokens of an item: what it loads besides is then little

constexpr Names<int, 4> kWidths = {{{"8", 8}, {"4", 4}, {"2", 2}, {"1", 1}}};
constexpr auto kConstants = describe<Shape>(
    tag_conv1d, "conv1d", choice<&Shape::x>("dtype", "ELEMENT", kFloatDtypes),
    choice<&Shape::weight>("weight", "WEIGHT", kFloatDtypes), choice<&Shape::state>("state", "STATE", kFloatDtypes),
    number<&Shape::taps>("taps", "TAPS", {2, kMostTaps}), choice<&Shape::width>("width", "WIDTH", kWidths));

Constants constants(const jit::Spec& spec) { return kConstants.to_constants(kConstants.to_shape(spec)); }

// Channels of a chunk: 16 bytes of the widest, and with many taps half of it, for want of registers.
int widest(const Shape& shape) {
  const int most = 16 / static_cast<int>(std::max(bytes_of(shape.x), bytes_of(shape.state)));
  return shape.taps > 4 ? std::min(most, 4) : most;
}

jit::Spec parse(const Constants& given, const jit::TargetInfo& target) {
  const Shape shape = kConstants.read(given);
  for (const auto& [name, dtype] : {std::pair{"weight", shape.weight}, {"state", shape.state}}) {
    if (dtype != shape.x && dtype != Dtype::f32)
      throw Error(QUERN_INVALID,
                  std::string("conv1d: ") + name + " is " + name_of(dtype) + "; allowed: dtype's or f32");
  }
  if (shape.width > widest(shape)) {
    throw Error(QUERN_INVALID, "conv1d: width is " + std::to_string(shape.width) + "; allowed: powers of two up to " +
                                   std::to_string(widest(shape)));
  }
  return kConstants.to_spec(shape, target.target);
}

jit::Unit unit(const jit::Spec& spec) {
  const Shape shape = kConstants.to_shape(spec);
  jit::Unit unit;
  unit.op = "conv1d";
  unit.target = jit::Target::from_tag(spec.target);
  unit.entry = "quern_conv1d";
  kConstants.define(shape, &unit);
  unit.constants.push_back({"BLOCKS_PER_SM", std::to_string(kBlocksPerSm)});
  unit.source = embedded("conv1d/conv1d.cuh");
  unit.headers = device_headers(unit.target);
  return unit;
}

// What quern knows of models has no layers with states.
void list(const quern_model&, const jit::TargetInfo&, std::vector<jit::Spec>*) {}

struct Problem {
  Shape shape;
  q::Conv1dParams params;
  std::int64_t slots;
  int most_blocks;
};

void read_sequences(const quern_conv1d_args& args, const Call& call, q::Conv1dParams* p) {
  p->batch = p->tokens;
  if (args.offsets == nullptr) return;
  const Tensor offsets = read(args.offsets, "offsets", 1, {Dtype::i32}, call.place);
  expect_unit_stride(offsets, "offsets", 0);
  if (offsets.shape[0] < 1) refuse_extent("offsets", 0, offsets.shape[0], "1 and more");
  p->offsets = reinterpret_cast<const q::i32*>(offsets.data);
  p->batch = static_cast<q::i32>(offsets.shape[0] - 1);
}

void read_state(const quern_conv1d_args& args, const Tensor& x, const Call& call, Problem* problem) {
  q::Conv1dParams& p = problem->params;
  problem->shape.state = x.dtype;
  if (args.state == nullptr) {
    for (const auto& [name, given] : {std::pair{"state_ids", args.state_ids}, {"has_state", args.has_state}}) {
      if (given != nullptr) throw Error(QUERN_INVALID, std::string(name) + " is given without state; allowed: NULL");
    }
    return;
  }
  const Tensor state = read(args.state, "state", 3, {x.dtype, Dtype::f32}, call.place);
  expect_extent(state, "state", 1, problem->shape.taps - 1);
  expect_extent(state, "state", 2, x.shape[1]);
  expect_apart(state, "state");
  problem->shape.state = state.dtype;
  problem->slots = state.shape[0];
  p.state = state.data;
  p.slot_stride = state.strides[0], p.row_stride = state.strides[1], p.channel_stride = state.strides[2];
  if (args.state_ids != nullptr) {
    const Tensor ids = read(args.state_ids, "state_ids", 1, {Dtype::i32}, call.place);
    expect_extent(ids, "state_ids", 0, p.batch);
    expect_unit_stride(ids, "state_ids", 0);
    p.state_ids = reinterpret_cast<const q::i32*>(ids.data);
  } else if (problem->slots < p.batch) {
    refuse_extent("state", 0, problem->slots, "a slot for each sequence, without state_ids");
  }
  if (args.has_state != nullptr) {
    const Tensor has = read(args.has_state, "has_state", 1, {Dtype::u8, Dtype::boolean}, call.place);
    expect_extent(has, "has_state", 0, p.batch);
    expect_unit_stride(has, "has_state", 0);
    p.has_state = has.data;
  }
}

// Whether chunks of the state can be loaded and stored as a whole.
bool has_vectors(const Problem& problem) {
  const q::Conv1dParams& p = problem.params;
  const auto bytes = static_cast<std::uint64_t>(bytes_of(problem.shape.state)),
             chunk = bytes * static_cast<std::uint64_t>(problem.shape.width);
  const auto whole = [&](std::int64_t stride) { return static_cast<std::uint64_t>(stride) * bytes % chunk == 0; };
  return p.channel_stride == 1 && whole(p.row_stride) && whole(p.slot_stride) &&
         reinterpret_cast<std::uintptr_t>(p.state) % chunk == 0;
}

bool is_aligned(const void* data) { return reinterpret_cast<std::uintptr_t>(data) % 16 == 0; }

Problem read_problem(const quern_conv1d_args& args, const Runtime& runtime, bool may_lack_data) {
  const Call call = read_call(runtime, args, kFlags, "enum quern_call_flags and quern_conv1d_flags", 4, may_lack_data);
  const Tensor x = read(args.x, "x", 2, {Dtype::f16, Dtype::bf16, Dtype::f32}, call.place);
  const Tensor weight = read(args.weight, "weight", 2, {x.dtype, Dtype::f32}, call.place);
  for (const auto& [name, given] : {std::pair{"stride", args.stride},
                                    {"dilation", args.dilation},
                                    {"groups", args.groups},
                                    {"pad_begin", args.pad_begin},
                                    {"pad_end", args.pad_end}}) {
    if (given != 0) refuse_value(name, std::int64_t{given}, "0, with a weight of two dimensions");
  }
  const Tensor out = read(args.out, "out", 2, {x.dtype}, call.place);
  const std::int64_t tokens = x.shape[0], channels = x.shape[1], taps = weight.shape[1];
  if (channels < 1) refuse_extent("x", 1, channels, "1 and more");
  expect_extent(weight, "weight", 0, channels);
  if (taps < 2 || taps > kMostTaps) refuse_extent("weight", 1, taps, "2 to 8");
  for (int d = 0; d < 2; ++d) expect_extent(out, "out", d, x.shape[d]);
  expect_apart(out, "out");
  expect_beside(out, "out", x, "x");

  Problem problem{};
  q::Conv1dParams& p = problem.params;
  problem.shape.x = x.dtype, problem.shape.weight = weight.dtype, problem.shape.taps = static_cast<int>(taps);
  p.x = x.data, p.x_stride = x.strides[0], p.out = out.data, p.out_stride = out.strides[0];
  p.weight = weight.data, p.weight_stride = weight.strides[0], p.tap_stride = weight.strides[1];
  p.tokens = static_cast<q::i32>(tokens), p.silu = (args.flags & QUERN_CONV1D_SILU) != 0;
  if (args.bias != nullptr) {
    const Tensor bias = read(args.bias, "bias", 1, {weight.dtype}, call.place);
    expect_extent(bias, "bias", 0, channels);
    expect_unit_stride(bias, "bias", 0);
    p.bias = bias.data;
  }
  read_sequences(args, call, &p);
  read_state(args, x, call, &problem);

  const int element = static_cast<int>(bytes_of(x.dtype));
  problem.shape.width = std::min({row_alignment(x, "x", call.alignment) / element,
                                  row_alignment(out, "out", call.alignment) / element, widest(problem.shape)});
  while (channels % problem.shape.width != 0) problem.shape.width /= 2;
  p.state_vectors = p.state != nullptr && has_vectors(problem);
  p.weight_vectors = p.tap_stride == 1 && p.weight_stride == taps && is_aligned(p.weight) && is_aligned(p.bias);
  const std::int64_t chunks = channels / problem.shape.width;
  // As long runs as leave every multiprocessor its threads.
  const std::int64_t threads = std::int64_t{call.sms} * kBlocksPerSm * q::kConvThreads;
  const std::int64_t run = std::clamp<std::int64_t>(tokens * chunks / threads, 1, kMostRun);
  const std::int64_t items = (tokens + run - 1) / run * chunks;
  if (items > INT32_MAX) refuse_extent("x", 0, tokens, "fewer tokens at once: split the call");
  p.run = static_cast<q::i32>(run), p.items = static_cast<q::i32>(items);
  p.chunks = divisor(static_cast<q::i32>(chunks));
  problem.most_blocks = args.max_sms > 0 ? call.sms * kBlocksPerSm : INT32_MAX;
  return problem;
}

const jit::Kernel* kernel_of(const Shape& shape, const Runtime& runtime, const quern_conv1d_args& args) {
  return kernel_for(runtime, kConstants.to_spec(shape, runtime.driver->device().limits.target), args.flags,
                    args.stream);
}

void list_index_data(const Problem& problem, IndexList* list) {
  const q::Conv1dParams& p = problem.params;
  if (p.offsets != nullptr) list->offsets("offsets", p.offsets, p.batch, p.tokens, "sequence", "x.shape[0]");
  if (p.state_ids == nullptr) return;
  list->in_range("state_ids", p.state_ids, p.batch, -1, problem.slots - 1, "sequence", "state.shape[0]");
  q::IndexCheck& distinct =
      list->add(q::CheckKind::distinct, "state_ids", integers(p.state_ids), p.batch, nullptr, "no slot may come twice");
  distinct.least = 0, distinct.most = problem.slots - 1;
}

}  // namespace

const Op op{"conv1d", unit, parse, list, constants};

std::uint64_t workspace(const Runtime& runtime, const quern_conv1d_args& args) {
  if (is_general(args)) return general_workspace(runtime, args);
  read_problem(args, runtime, true);
  return 0;
}

void prepare(const Runtime& runtime, const quern_conv1d_args& args) {
  if (is_general(args)) return general_prepare(runtime, args);
  kernel_of(read_problem(args, runtime, true).shape, runtime, args);
}

void run(const Runtime& runtime, const quern_conv1d_args& args) {
  if (is_general(args)) return general_run(runtime, args);
  Problem problem = read_problem(args, runtime, false);
  const jit::Kernel* kernel = kernel_of(problem.shape, runtime, args);
  check_indices(runtime, args, [&](IndexList& list) { list_index_data(problem, &list); });
  if (problem.params.items == 0) return;
  jit::Launch launch;
  launch.grid[0] = static_cast<std::uint32_t>(std::min<std::int64_t>(
      (std::int64_t{problem.params.items} + q::kConvThreads - 1) / q::kConvThreads, problem.most_blocks));
  launch.block[0] = q::kConvThreads;
  launch.programmatic = (args.flags & QUERN_CALL_PROGRAMMATIC) != 0;
  launch.stream = args.stream;
  ops::launch(runtime, *kernel, launch, "launching conv1d", problem.params);
}

}  // namespace quern::ops::conv1d
