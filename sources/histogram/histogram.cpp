// The histogram op: how often the numbers of each row fall into each bin.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "jit/error.h"
#include "sources/call.h"
#include "sources/common_headers.h"
#include "sources/description.h"
#include "sources/embedded.h"
#include "sources/histogram/params.cuh"
#include "sources/launch.h"
#include "sources/ops.h"
#include "sources/strided.h"
#include "sources/tensor.h"

namespace quern::ops::histogram {
namespace {

constexpr std::uint32_t kFlags = QUERN_HISTOGRAM_ACCUMULATE | QUERN_HISTOGRAM_CLAMP;
constexpr std::int64_t kMostBins = 1 << 24;
constexpr std::uint32_t kMostBytes = 96 * 1024;  // of bins in shared memory: two blocks fit on a multiprocessor
constexpr std::uint32_t kCopyBytes = 32 * 1024;  // of several copies of them
constexpr std::int64_t kLeastPart = 16 * 1024;   // elements for which another block is worth its while
constexpr std::int64_t kBlocksPerSm = 2;
// Of more bins than two blocks have room for each block counts a range, in nearly all of a multiprocessor's shared
// memory. Each range reads the numbers again, which counting in memory is worth from so many on; and a block zeroes and
// adds up its range, which is worth it from as many numbers a bin on.
constexpr std::uint32_t kRangeReserve = 1024, kBehindRange = 16;
constexpr std::int64_t kMostRanges = 8, kLeastNumbersPerBin = 2;

enum class Stage : std::uint8_t { count, zero };
struct Shape {
  Stage stage = Stage::count;
  Dtype x = Dtype::i32;
  bool vectors = true;  // 16 bytes at once, else an element
  bool shared = true;   // the bins
  bool ranges = false;  // a block has a part of the bins
};

constexpr Names<Stage, 2> kStages = {{{"count", Stage::count}, {"zero", Stage::zero}}};
constexpr Names<Dtype, 7> kElements = {{{"int32", Dtype::i32},
                                        {"int64", Dtype::i64},
                                        {"uint8", Dtype::u8},
                                        {"int8", Dtype::i8},
                                        {"f32", Dtype::f32},
                                        {"f16", Dtype::f16},
                                        {"bf16", Dtype::bf16}}};
constexpr bool counts(const Shape& shape) { return shape.stage == Stage::count; }
constexpr bool counts_shared(const Shape& shape) { return counts(shape) && shape.shared; }
constexpr auto kConstants = describe<Shape>(
    tag_histogram, "histogram", choice<&Shape::stage>("stage", nullptr, kStages),
    choice<&Shape::x>("dtype", nullptr, kElements).when(counts), flag<&Shape::vectors>("vectors", nullptr).when(counts),
    flag<&Shape::shared>("shared", "SHARED_BINS").when(counts),
    flag<&Shape::ranges>("ranges", nullptr).optional().when(counts_shared));

Constants constants(const jit::Spec& spec) { return kConstants.to_constants(kConstants.to_shape(spec)); }

jit::Spec parse(const Constants& given, const jit::TargetInfo& target) {
  return kConstants.to_spec(kConstants.read(given), target.target);
}

constexpr bool is_float(Dtype dtype) { return dtype == Dtype::f16 || dtype == Dtype::bf16 || dtype == Dtype::f32; }
int width_of(const Shape& shape) { return shape.vectors ? static_cast<int>(16 / bytes_of(shape.x)) : 1; }

const char* element_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::i32:
      return "i32";
    case Dtype::i64:
      return "i64";
    case Dtype::u8:
      return "u8";
    case Dtype::i8:
      return "i8";
    default:
      return name_of(dtype);
  }
}

std::uint32_t most_bytes(const jit::TargetInfo& target) { return std::min(target.shared_per_block, kMostBytes); }
std::uint32_t range_bytes(const jit::TargetInfo& target) { return target.shared_per_block - kRangeReserve; }

jit::Unit unit(const jit::Spec& spec) {
  const Shape shape = kConstants.to_shape(spec);
  jit::Unit unit;
  unit.op = "histogram";
  unit.target = jit::Target::from_tag(spec.target);
  unit.entry = counts(shape) ? "quern_histogram" : "quern_histogram_zero";
  kConstants.define(shape, &unit);
  if (counts(shape)) {
    unit.constants.push_back({"ELEMENT", element_of(shape.x)});
    unit.constants.push_back({"FLOATS", is_float(shape.x) ? "1" : "0"});
    unit.constants.push_back({"WIDTH", std::to_string(width_of(shape))});
    unit.constants.push_back({"RANGES", shape.ranges ? "1" : "0"});
    const jit::TargetInfo limits = jit::limits_of(unit.target);
    if (shape.shared) unit.max_shared_bytes = shape.ranges ? range_bytes(limits) + kBehindRange : most_bytes(limits);
  }
  unit.source = embedded(counts(shape) ? "histogram/histogram.cuh" : "histogram/zero.cuh");
  unit.headers = device_headers(unit.target);
  return unit;
}

// No layer of a model counts.
void list(const quern_model&, const jit::TargetInfo&, std::vector<jit::Spec>*) {}

struct Problem {
  Shape shape;
  q::HistogramParams params;
  std::uint32_t shared_bytes;
  std::int64_t most_blocks;
  bool zeroes;  // first
};

void read_range(const quern_histogram_args& args, bool floats, q::HistogramParams* p) {
  if (!floats) {
    if (args.low != 0.0f) refuse_value("low", double{args.low}, "0, of integers");
    if (args.high != 0.0f) refuse_value("high", double{args.high}, "0, of integers");
    p->first = args.first, p->narrow = args.first >= INT32_MIN && args.first <= INT32_MAX;
    p->plain = p->narrow && p->above < 0 && args.first + p->bins - 1 <= INT32_MAX;
    return;
  }
  if (args.first != 0) refuse_value("first", args.first, "0, of floats");
  if (!std::isfinite(args.low)) refuse_value("low", double{args.low}, "finite numbers");
  if (!(args.high > args.low)) refuse_value("high", double{args.high}, "numbers above low");
  if (!std::isfinite(args.high - args.low)) refuse_value("high", double{args.high}, "less than 2^128 above low");
  p->low = args.low, p->high = args.high, p->scale = static_cast<float>(p->bins) / (args.high - args.low);
}

// Whether bins that have no room in shared memory are counted there in ranges.
void read_ranges(const Call& call, Problem* problem) {
  q::HistogramParams& p = problem->params;
  const std::int64_t most = range_bytes(call.device->limits) / 128 * 32, ranges = (p.bins + most - 1) / most;
  if (ranges > kMostRanges || p.n < kLeastNumbersPerBin * p.bins) return;
  problem->shape.shared = problem->shape.ranges = true;
  p.ranges = static_cast<q::i32>(ranges);
  // Equal ones, of whole lines of counts.
  constexpr std::int64_t kWhole = 32;
  p.range_bins = static_cast<q::i32>(((p.bins + ranges - 1) / ranges + kWhole - 1) / kWhole * kWhole);
}

Problem read_problem(const quern_histogram_args& args, const Runtime& runtime, bool may_lack_data) {
  const Call call =
      read_call(runtime, args, kFlags, "enum quern_call_flags and quern_histogram_flags", 4, may_lack_data);
  Place long_place = call.place;
  long_place.most_extent = kLongestExtent;
  const Tensor x = read(
      args.x, "x", 2, {Dtype::i8, Dtype::u8, Dtype::i32, Dtype::i64, Dtype::f16, Dtype::bf16, Dtype::f32}, long_place);
  if (x.shape[0] > INT32_MAX) refuse_extent("x", 0, x.shape[0], "0 to 2^31 - 1");
  // A block counts a bin in 32 bits.
  if (x.shape[1] > UINT32_MAX) refuse_extent("x", 1, x.shape[1], "0 to 2^32 - 1");
  const Tensor out = read(args.counts, "counts", 2, {Dtype::i32, Dtype::i64}, call.place);
  expect_unit_stride(x, "x", 1);
  expect_unit_stride(out, "counts", 1);
  expect_extent(out, "counts", 0, x.shape[0]);
  if (out.shape[1] < 1 || out.shape[1] > kMostBins) refuse_extent("counts", 1, out.shape[1], "1 to 2^24");
  expect_apart(out, "counts");
  expect_beside(out, "counts", x, "x");
  Tensor data = x;
  data.strides[0] = 0;
  expect_aligned(data, "x", call.alignment);

  Problem problem{};
  q::HistogramParams& p = problem.params;
  p.x = x.data, p.x_stride = x.strides[0];
  p.counts = out.data, p.counts_stride = out.strides[0], p.wide = out.dtype == Dtype::i64;
  p.rows = static_cast<q::i32>(x.shape[0]), p.n = x.shape[1];
  p.bins = static_cast<q::i32>(out.shape[1]);
  const bool clamp = (args.flags & QUERN_HISTOGRAM_CLAMP) != 0;
  p.below = clamp ? 0 : -1, p.above = clamp ? p.bins - 1 : -1;
  p.accumulate = (args.flags & QUERN_HISTOGRAM_ACCUMULATE) != 0;
  read_range(args, is_float(x.dtype), &p);

  const std::uint32_t bytes = static_cast<std::uint32_t>(p.bins) * 4;
  const bool rows_aligned = p.rows <= 1 || x.strides[0] * bytes_of(x.dtype) % 16 == 0;
  problem.shape = {Stage::count, x.dtype, call.alignment == 16 && rows_aligned,
                   bytes <= most_bytes(call.device->limits)};
  p.copies = p.ranges = 1;
  if (!problem.shape.shared) read_ranges(call, &problem);
  constexpr int kWarps = q::kHistogramThreads / 64;
  while (p.copies < kWarps && static_cast<std::uint32_t>(2 * p.copies) * bytes <= kCopyBytes) p.copies *= 2;
  problem.shared_bytes = !problem.shape.shared  ? 0
                         : problem.shape.ranges ? static_cast<std::uint32_t>(p.range_bins) * 4 + kBehindRange
                                                : static_cast<std::uint32_t>(p.copies) * bytes;
  const std::int64_t blocks = call.sms * (problem.shape.ranges ? 1 : kBlocksPerSm),
                     room = std::max<std::int64_t>(blocks / std::max(p.rows, 1) / p.ranges, 1),
                     least = problem.shape.ranges ? std::max<std::int64_t>(kLeastPart, p.range_bins) : kLeastPart;
  const std::int64_t parts = std::clamp<std::int64_t>(p.n / least, 1, room), chunks = p.n / width_of(problem.shape);
  if (chunks > INT32_MAX) refuse_extent("x", 1, x.shape[1], "0 to 2^31 - 1 where rows are not aligned to 16 bytes");
  p.part = static_cast<q::i32>(std::max<std::int64_t>((chunks + parts - 1) / parts, 1));
  p.parts = static_cast<q::i32>(parts);
  problem.most_blocks = args.max_sms > 0 ? blocks : INT32_MAX;
  problem.zeroes = !p.accumulate && (p.parts > 1 || !problem.shape.shared);
  return problem;
}

const jit::Kernel* kernel_of(const Shape& shape, const Runtime& runtime, const quern_histogram_args& args) {
  return kernel_for(runtime, kConstants.to_spec(shape, runtime.driver->device().limits.target), args.flags,
                    args.stream);
}

}  // namespace

const Op op{"histogram", unit, parse, list, constants};

std::uint64_t workspace(const Runtime& runtime, const quern_histogram_args& args) {
  read_problem(args, runtime, true);
  return 0;
}

// Fewer bins may have room in shared memory where more have none.
void prepare(const Runtime& runtime, const quern_histogram_args& args) {
  Shape shape = read_problem(args, runtime, true).shape;
  kernel_of({Stage::zero}, runtime, args);
  kernel_of(shape, runtime, args);
  if (shape.shared && !shape.ranges) return;
  // Of fewer numbers, and of fewer bins.
  shape.shared = !shape.shared, shape.ranges = false;
  kernel_of(shape, runtime, args);
  if (shape.shared) return;
  shape.shared = true;
  kernel_of(shape, runtime, args);
}

void run(const Runtime& runtime, const quern_histogram_args& args) {
  Problem problem = read_problem(args, runtime, false);
  q::HistogramParams& p = problem.params;
  const jit::Kernel* kernel = kernel_of(problem.shape, runtime, args);
  const jit::Kernel* zero = problem.zeroes ? kernel_of({Stage::zero}, runtime, args) : nullptr;
  if (p.rows == 0) return;
  jit::Launch launch;
  launch.block[0] = q::kHistogramThreads;
  launch.programmatic = (args.flags & QUERN_CALL_PROGRAMMATIC) != 0;
  launch.stream = args.stream;
  const auto blocks = [&](std::int64_t wanted) {
    return static_cast<std::uint32_t>(std::min(wanted, problem.most_blocks));
  };
  if (zero != nullptr) {
    launch.grid[0] = blocks((std::int64_t{p.rows} * p.bins + q::kHistogramThreads - 1) / q::kHistogramThreads);
    ops::launch(runtime, *zero, launch, "launching histogram's zeros", p);
  }
  launch.grid[0] = blocks(std::int64_t{p.rows} * p.parts * p.ranges);
  launch.block[0] = problem.shape.ranges ? q::kRangeThreads : q::kHistogramThreads;
  launch.shared_bytes = problem.shared_bytes;
  ops::launch(runtime, *kernel, launch, "launching histogram", p);
}

}  // namespace quern::ops::histogram
