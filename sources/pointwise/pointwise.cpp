// The pointwise op: expressions over tensors, element by element.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>

#include "jit/error.h"
#include "sources/call.h"
#include "sources/divisor.h"
#include "sources/launch.h"
#include "sources/ops.h"
#include "sources/pointwise/shape.h"
#include "sources/strided.h"

namespace quern::ops::pointwise {
namespace {

constexpr const char* kOperandNames[] = {"operands[0]", "operands[1]", "operands[2]", "operands[3]",
                                         "operands[4]", "operands[5]", "operands[6]", "operands[7]"};
constexpr const char* kOutNames[] = {"out", "out1", "out2", "out3"};
constexpr const char* kExpressionNames[] = {"expression", "expression1", "expression2", "expression3"};
// From so many vectors on index arithmetic takes 64 bits: below, a loop's counter cannot overflow.
constexpr std::int64_t kNarrow = std::int64_t{1} << 30;
// From so many elements on that are taken one by one a row is shared out by segments.
constexpr std::int64_t kLongRow = 512;

// What a call asks for: the results first, then the operands that are used, all of the results' shape.
struct Request {
  Call call;
  Shape shape;
  std::array<View, q::kOperands + q::kResults> views;
  std::array<std::size_t, q::kOperands> operands;  // which operand each of the views behind the results is
  std::size_t count;                               // of views
};

void read_results(const quern_pointwise_args& args, Request& request) {
  const DLTensor* const outs[] = {args.out, args.out1, args.out2, args.out3};
  const quern_expression* const formulas[] = {args.expression, args.expression1, args.expression2, args.expression3};
  std::size_t count = 0;
  while (count < q::kResults && (outs[count] != nullptr || formulas[count] != nullptr)) ++count;
  for (std::size_t i = 0; i < q::kResults; ++i) {
    if (i > 0 && i >= count && outs[i] == nullptr && formulas[i] == nullptr) continue;
    if (i >= count && i > 0) {
      throw Error(QUERN_INVALID, std::string(outs[i] != nullptr ? kOutNames[i] : kExpressionNames[i]) +
                                     " is given, and " + kOutNames[i - 1] + " is NULL; allowed: one after the other");
    }
    if (outs[i] == nullptr) refuse_missing(kOutNames[i]);
    if (formulas[i] == nullptr) refuse_missing(kExpressionNames[i]);
    request.shape.formulas[i] = formulas[i];
    check_formula(request.shape, i);
    const View& view = request.views[i] = read_view(outs[i], kOutNames[i], request.call.place);
    expect_apart(view, kOutNames[i]);
    expect_data_aligned(view, kOutNames[i], request.call.alignment);
    request.shape.outs[i] = view.dtype;
    if (view.rank != request.views[0].rank) refuse_rank(kOutNames[i], view.rank, request.views[0].rank);
    for (int d = 0; d < view.rank; ++d) {
      const auto at = static_cast<std::size_t>(d);
      if (view.shape[at] != request.views[0].shape[at])
        refuse_extent(kOutNames[i], d, view.shape[at], request.views[0].shape[at]);
    }
    for (std::size_t other = 0; other < i; ++other) {
      if (overlap(view, request.views[other])) {
        throw Error(QUERN_INVALID, std::string(kOutNames[i]) + " lies over " + kOutNames[other] +
                                       "; allowed: results apart from each other");
      }
    }
  }
  request.shape.results = static_cast<int>(count);
  request.count = count;
}

void read_operands(const quern_pointwise_args& args, Request& request) {
  if (args.operand_count > q::kOperands) refuse_value("operand_count", std::int64_t{args.operand_count}, "0 to 8");
  if (args.operand_count > 0 && args.operands == nullptr) refuse_missing("operands");
  for (std::size_t i = 0; i < q::kOperands; ++i) {
    if (!request.shape.uses(i)) continue;
    if (i >= args.operand_count) refuse_missing(kOperandNames[i]);
    const View given = read_view(args.operands[i], kOperandNames[i], request.call.place);
    const View view = broadcast(given, kOperandNames[i], request.views[0], "out");
    expect_data_aligned(view, kOperandNames[i], request.call.alignment);
    request.shape.operands[i] = view.dtype;
    check_operand(request.shape, i);
    for (std::size_t out = 0; out < static_cast<std::size_t>(request.shape.results); ++out) {
      if (!overlap(view, request.views[out]) || lie_alike(view, request.views[out])) continue;
      throw Error(QUERN_INVALID, std::string(kOperandNames[i]) + " lies over " + kOutNames[out] +
                                     "; allowed with its shape, strides and size of element only");
    }
    request.operands[request.count - static_cast<std::size_t>(request.shape.results)] = i;
    request.views[request.count++] = view;
  }
}

Request read_request(const quern_pointwise_args& args, const Runtime& runtime, bool may_lack_data) {
  Request request{};
  request.call = read_call(runtime, args, 0, "enum quern_call_flags", 1, may_lack_data);
  read_results(args, request);
  read_operands(args, request);
  if (args.scalar_count > q::kScalars) refuse_value("scalar_count", std::int64_t{args.scalar_count}, "0 to 8");
  if (args.scalar_count > 0 && args.scalars == nullptr) refuse_missing("scalars");
  if (request.shape.scalars() >> args.scalar_count != 0) {
    refuse_value("scalar_count", std::int64_t{args.scalar_count}, "more than the highest scalar of the expressions");
  }
  return request;
}

struct Problem {
  Shape shape;
  Walk walk;
  std::int64_t rows;     // of the dimensions beyond the innermost
  std::int64_t vectors;  // along the innermost; of a span its units
  std::int64_t segment;  // elements of a unit of a row
};

Along along_of(const Walk& walk, std::size_t tensor) {
  const std::int64_t stride = walk.strides[tensor][0];
  return stride == 1 ? Along::each : stride == 0 ? Along::same : Along::any;
}

// How wide vectors may be: 16 bytes of the widest tensor, as the alignment and the strides of what is written allow.
// Elements that lie apart are read and written best by neighbouring threads, one by one.
int width_of(const Request& request, const Walk& walk) {
  std::int64_t largest = 1, least = 16;
  for (std::size_t i = 0; i < request.count; ++i) {
    const Along along = along_of(walk, i);
    if (along == Along::any) return 1;
    if (along != Along::each) continue;
    largest = std::max(largest, request.views[i].bytes), least = std::min(least, request.views[i].bytes);
  }
  const auto fits = [&](std::size_t i, int width) {
    return along_of(walk, i) != Along::each
               ? width
               : widest(walk, static_cast<int>(i), request.views[i].bytes, request.call.alignment, width);
  };
  const auto results = static_cast<std::size_t>(request.shape.results);
  int width = static_cast<int>(16 / largest);
  for (std::size_t i = 0; i < results; ++i) width = fits(i, width);
  // What is read may lie over two vectors, where those have as many bytes as a word.
  int aligned = width;
  for (std::size_t i = results; i < request.count; ++i) aligned = fits(i, aligned);
  return width * least >= 4 ? width : aligned;
}

// A tensor's elements lie apart along the innermost dimension, and side by side along dimension 1.
bool lies_across(const Walk& walk, std::size_t tensor) {
  return along_of(walk, tensor) == Along::any && walk.strides[tensor][1] == 1;
}

// How wide a tile's vectors may be, along both dimensions alike: where all tensors are aligned and both end with a
// whole vector.
int tile_width(const Request& request, const Walk& walk) {
  constexpr std::int64_t kLeast = 32;  // elements of either dimension
  std::int64_t largest = 1;
  for (std::size_t i = 0; i < request.count; ++i) {
    if (along_of(walk, i) != Along::same) largest = std::max(largest, request.views[i].bytes);
  }
  const auto results = static_cast<std::size_t>(request.shape.results);
  int width = static_cast<int>(16 / largest);
  for (std::size_t i = 0; i < request.count; ++i) {
    const Along along = along_of(walk, i);
    if (along == Along::same) continue;
    Walk turned = walk;
    if (along == Along::any) {
      if (i < results || !lies_across(walk, i)) return 1;
      std::swap(turned.strides[i][0], turned.strides[i][1]);
    }
    width = widest(turned, static_cast<int>(i), request.views[i].bytes, request.call.alignment, width);
  }
  const bool whole = walk.shape[0] % width == 0 && walk.shape[1] % width == 0;
  return whole && walk.shape[0] >= kLeast && walk.shape[1] >= kLeast ? width : 1;
}

// Where tensors lie apart along the innermost dimension, all go by units in which a block works out once where it is:
// tiles of the two dimensions along which tensors lie side by side, so that what neighbouring threads read is in the
// same lines, or segments of long rows.
void choose_span(const Request& request, Problem& problem) {
  Walk& walked = problem.walk;
  Shape& shape = problem.shape;
  std::size_t other = 0;
  for (std::size_t i = 0; i < request.count; ++i) {
    for (std::size_t d = 1; d < static_cast<std::size_t>(walked.rank); ++d) {
      if (along_of(walked, i) == Along::any && walked.strides[i][d] == 1) other = d;
    }
  }
  if (other != 0) {
    std::swap(walked.shape[1], walked.shape[other]);
    for (std::size_t i = 0; i < request.count; ++i) std::swap(walked.strides[i][1], walked.strides[i][other]);
    shape.span = Span::tiles;
    shape.width = tile_width(request, walked);
    const std::int64_t side = q::span_side(shape.width);
    problem.vectors = (walked.shape[0] + side - 1) / side;
  } else if (walked.shape[0] >= kLongRow) {
    shape.span = Span::rows;
    const std::int64_t own = kThreads, most = own * steps(shape);
    const std::int64_t segments = (walked.shape[0] + most - 1) / most;
    problem.segment = ((walked.shape[0] + segments - 1) / segments + own - 1) / own * own;
    problem.vectors = (walked.shape[0] + problem.segment - 1) / problem.segment;
  }
}

Problem fit(const Request& request) {
  Problem problem{request.shape, walk({request.views.data(), request.count}, request.shape.indices() != 0), 1, 0, 0};
  Shape& shape = problem.shape;
  const Walk& walked = problem.walk;
  shape.rank = walked.rank;
  shape.width = width_of(request, walked);
  const auto results = static_cast<std::size_t>(shape.results);
  for (std::size_t i = 0; i < request.count; ++i) {
    Along along = along_of(walked, i);
    if (i < results) {
      shape.outs_along[i] = along;
      continue;
    }
    if (along == Along::each &&
        widest(walked, static_cast<int>(i), request.views[i].bytes, request.call.alignment, shape.width) < shape.width)
      along = Along::shifted;
    shape.operands_along[request.operands[i - results]] = along;
  }
  for (int d = 1; d < walked.rank; ++d) problem.rows *= walked.shape[static_cast<std::size_t>(d)];
  problem.vectors = (walked.shape[0] + shape.width - 1) / shape.width;
  shape.tail = shape.rank > 1 && walked.shape[0] % shape.width != 0;
  // Behind the last whole vector elements are counted.
  shape.wide = problem.rows * problem.vectors >= kNarrow || walked.shape[0] > INT32_MAX;
  if (shape.indices() != 0) shape.wide = shape.wide || problem.rows * walked.shape[0] > INT32_MAX;
  for (std::size_t i = 0; i < request.count; ++i) {
    for (int d = 0; d < walked.rank; ++d) {
      const std::int64_t bytes = walked.strides[i][static_cast<std::size_t>(d)] * request.views[i].bytes;
      shape.wide = shape.wide || bytes > INT32_MAX || bytes < INT32_MIN;
    }
  }
  if (shape.width == 1 && shape.rank > 1 && shape.indices() == 0) choose_span(request, problem);
  if (shape.span != Span::tiles) return problem;
  for (std::size_t i = results; i < request.count; ++i) {
    if (lies_across(walked, i)) shape.operands_along[request.operands[i - results]] = Along::across;
  }
  return problem;
}

q::PointwiseExtent extent(std::int64_t value, bool wide) {
  if (wide) return {value, 0, 0};
  const q::Divisor by = divisor(static_cast<std::int32_t>(value));
  return {value, by.multiplier, by.shift};
}

q::u8*& data_of(q::PointwiseParams& p, std::size_t operand) {
  return operand < 2 ? p.operands[operand] : operand < 4 ? p.next_operands[operand - 2] : p.last_operands[operand - 4];
}
q::PointwiseExtent& extent_of(q::PointwiseParams& p, std::size_t d) { return d == 0 ? p.innermost : p.outers[d - 1]; }

q::PointwiseParams params_of(const quern_pointwise_args& args, const Request& request, const Problem& problem) {
  q::PointwiseParams p{};
  const Shape& shape = problem.shape;
  const Walk& walked = problem.walk;
  const auto results = static_cast<std::size_t>(shape.results);
  for (std::size_t i = 0; i < request.count; ++i) {
    const std::size_t operand = i < results ? 0 : request.operands[i - results];
    q::u8*& data = i >= results ? data_of(p, operand) : i == 0 ? p.result : p.results[i - 1];
    data = walked.data[i];
    for (int d = 0; d < walked.rank; ++d) {
      q::PointwiseStrides& along = p.strides[q::strides_at(d)];
      q::Distance& stride = i >= results ? along.operands[operand] : i == 0 ? along.result : along.others[i - 1];
      stride = q::distance(walked.strides[i][static_cast<std::size_t>(d)] * request.views[i].bytes);
    }
  }
  p.whole = walked.shape[0] / shape.width;
  p.inner = walked.shape[0], p.outer = walked.shape[1], p.tile = problem.segment;
  p.vectors = problem.rows * problem.vectors;
  for (std::size_t d = 0; d < static_cast<std::size_t>(walked.rank); ++d)
    extent_of(p, d) = extent(d == 0 ? problem.vectors : walked.shape[d], shape.wide);
  if (shape.span == Span::tiles) {
    const std::int64_t side = q::span_side(shape.width), tiles = (walked.shape[1] + side - 1) / side;
    p.vectors = problem.vectors * tiles * (problem.rows / walked.shape[1]);
    p.outers[0] = extent(tiles, shape.wide);
  }
  if (shape.indices() != 0) {
    std::int64_t below = 1;
    for (int d = q::kMostDimensions - 1; d >= 0; --d) {
      const auto at = static_cast<std::size_t>(d);
      const std::int64_t own = d < request.views[0].rank ? std::max<std::int64_t>(request.views[0].shape[at], 1) : 1;
      p.own[at] = extent(own, shape.wide);
      p.below[at] = extent(below, shape.wide);
      below *= own;
    }
  }
  for (std::size_t i = 0; i < args.scalar_count; ++i) p.scalars[i] = args.scalars[i];
  return p;
}

// How vectors are shared out: threads of a block, vectors of a thread.
struct Shares {
  int threads, steps;
};

// Few vectors are spread over all multiprocessors. A chip starts a block in more than a nanosecond: more blocks than
// are on it at once have some bytes to move each. Where there are very many, small blocks follow each other best.
Shares share_out(const Request& request, const Problem& problem, std::int64_t vectors, jit::Target target) {
  constexpr int kSmall = kThreads / 2;
  constexpr std::int64_t kFewBlocks = 8, kManyThreads = 8192, kWorthABlock = 10240;
  const int steps_most = steps(problem.shape);
  const std::int64_t sms = request.call.sms;
  // Elsewhere a block has as many threads as its kernel was compiled for.
  if (target.family() != jit::Family::cuda)
    return {kThreads,
            static_cast<int>(std::clamp<std::int64_t>(vectors / (sms * kThreads * kFewBlocks), 1, steps_most))};
  if (vectors > sms * kManyThreads) return {kSmall, steps_most};
  std::int64_t bytes = 0;  // of a vector of all tensors that are not repeated
  for (std::size_t i = 0; i < request.count; ++i) {
    bool repeated = false;
    for (std::size_t d = 0; d < static_cast<std::size_t>(problem.walk.rank); ++d)
      repeated = repeated || problem.walk.strides[i][d] == 0;
    if (!repeated) bytes += problem.shape.width * request.views[i].bytes;
  }
  for (const Shares shares : {Shares{kSmall, 1}, Shares{kThreads, 1}}) {
    const std::int64_t own = shares.threads * shares.steps;
    if (vectors <= sms * kFewBlocks * own || own * bytes >= kWorthABlock) return shares;
  }
  return {kThreads, steps_most};
}

const jit::Kernel* kernel_of(const Shape& shape, const Runtime& runtime, const quern_pointwise_args& args) {
  return kernel_for(runtime, to_spec(shape, runtime.driver->device().limits.target), args.flags, args.stream);
}

// Activations of the layers between products stand in the products' epilogues.
void list(const quern_model&, const jit::TargetInfo&, std::vector<jit::Spec>*) {}

}  // namespace

const Op op{"pointwise", unit, parse, list, constants};

std::uint64_t workspace(const Runtime& runtime, const quern_pointwise_args& args) {
  read_request(args, runtime, true);
  return 0;
}

// A shorter first dimension may merge with others where the longer does not, and the other way round, or end within a
// vector or with a whole one: these extents have every kind.
void prepare(const Runtime& runtime, const quern_pointwise_args& args) {
  const Request request = read_request(args, runtime, true);
  const std::int64_t given = request.views[0].rank > 0 ? request.views[0].shape[0] : 1;
  for (const std::int64_t first :
       {given, given - 1, given / 16 * 16, (given - 1) / 16 * 16, kLongRow - 1, std::int64_t{1}}) {
    if ((first < 1 || first > given) && first != given) continue;
    Request smaller = request;
    if (request.views[0].rank > 0) {
      for (std::size_t i = 0; i < smaller.count; ++i) smaller.views[i].shape[0] = first;
    }
    Shape shape = fit(smaller).shape;
    kernel_of(shape, runtime, args);
    if (!shape.wide) continue;
    shape.wide = false;
    kernel_of(shape, runtime, args);
  }
}

void run(const Runtime& runtime, const quern_pointwise_args& args) {
  const Request request = read_request(args, runtime, false);
  const Problem problem = fit(request);
  const jit::Kernel* kernel = kernel_of(problem.shape, runtime, args);
  if (request.views[0].count() == 0) return;
  q::PointwiseParams p = params_of(args, request, problem);
  std::int64_t units = p.vectors;
  p.threads = kThreads;
  if (problem.shape.span == Span::none) {
    const Shares shares = share_out(request, problem, p.vectors, runtime.driver->device().limits.target);
    p.threads = shares.threads;
    p.tile = shares.steps * shares.threads;
    units = (p.vectors + p.tile - 1) / p.tile;
  }
  const std::int64_t most = args.max_sms > 0 ? std::int64_t{request.call.sms} * 16 : INT32_MAX;
  p.single = problem.shape.span == Span::none && p.tile == p.threads && units <= most && p.whole > 0 ? 1 : 0;
  jit::Launch launch;
  launch.grid[0] = static_cast<std::uint32_t>(std::min<std::int64_t>(units, most));
  launch.block[0] = static_cast<std::uint32_t>(p.threads);
  launch.programmatic = (args.flags & QUERN_CALL_PROGRAMMATIC) != 0;
  launch.stream = args.stream;
  ops::launch(runtime, *kernel, launch, "launching pointwise", p);
}

}  // namespace quern::ops::pointwise
