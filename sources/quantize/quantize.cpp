// The quantize op: reads a call, chooses its kernels and launches them.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>

#include "sources/launch.h"
#include "sources/ops.h"
#include "sources/quantize/problem.h"
#include "sources/quantize/shape.h"
#include "sources/workspace.h"

namespace quern::ops::quantize {
namespace {

jit::Unit unit(const jit::Spec& spec) { return to_unit(to_shape(spec), jit::Target::from_tag(spec.target)); }

jit::Spec parse(const Constants& given, const jit::TargetInfo& target) {
  return to_spec(from_constants(given), target.target);
}

Constants constants(const jit::Spec& spec) { return to_constants(to_shape(spec)); }

std::uint64_t workspace_of(const Problem& problem) { return problem.find_first ? kCounterBytes : 0; }

// The launch that finds a tensor's scale, which the problem's own is then given.
Shape finding(const Problem& problem) {
  Shape shape = problem.shape;
  shape.scale = q::Scale::find;
  return shape;
}

const jit::Kernel* kernel_of(const Shape& shape, const Runtime& runtime, const quern_quantize_args& args) {
  return kernel_for(runtime, to_spec(shape, runtime.driver->device().limits.target), args.flags, args.stream);
}

constexpr std::int64_t kGridY = 65535;
constexpr std::int64_t kTurns = 32;  // of blocks on an SM, beyond which a block takes several rows

void launch(const Shape& shape, const jit::Kernel& kernel, const Runtime& runtime, const quern_quantize_args& args,
            const Problem& problem, const q::QuantizeParams& p) {
  const Tiling t = tile(shape, runtime.driver->device().limits);
  const auto parts = [](std::int64_t of, std::int64_t size) { return (of + size - 1) / size; };
  // One after the other where only some SMs may be used, or a block has something to tell in the end that others would
  // wait for: no more blocks than have room there.
  const bool turns = problem.all_sms && shape.scale != q::Scale::find;
  const std::int64_t most = std::int64_t{problem.sms} * t.blocks_per_sm * (turns ? kTurns : 1);
  jit::Launch how;
  if (shape.scale == q::Scale::block) {
    const std::int64_t across = std::min(parts(p.n, q::kGroupColumns), most);
    how.grid[0] = static_cast<std::uint32_t>(across);
    how.grid[1] = static_cast<std::uint32_t>(std::clamp<std::int64_t>(
        parts(p.rows, q::kBlockRows), 1, std::min(kGridY, std::max<std::int64_t>(most / across, 1))));
  } else {
    const std::int64_t pieces = shape.whole() ? 1 : std::min({parts(p.n, t.pass), kGridY, most});
    how.grid[0] = static_cast<std::uint32_t>(
        std::clamp<std::int64_t>(parts(p.rows, t.threads / t.team), 1, std::max<std::int64_t>(most / pieces, 1)));
    how.grid[1] = static_cast<std::uint32_t>(pieces);
  }
  how.block[0] = static_cast<std::uint32_t>(t.threads);
  how.programmatic = (args.flags & QUERN_CALL_PROGRAMMATIC) != 0;
  how.stream = args.stream;
  q::QuantizeParams params = p;
  params.rehearses = may_rehearse(how, problem.sms);
  ops::launch(runtime, kernel, how, "launching quantize", params);
}

// A matrix from its last row to its first.
template <class Data>
void turn(Data*& data, q::i64& stride, std::int64_t rows, Dtype dtype) {
  if (data == nullptr) return;
  data = reinterpret_cast<Data*>(reinterpret_cast<std::uintptr_t>(data) +
                                 static_cast<std::uintptr_t>((rows - 1) * stride * bytes_of(dtype)));
  stride = -stride;
}

// The rows the other way round: those that the launch before has read last come first, while the L2 still has them.
q::QuantizeParams backwards(q::QuantizeParams p, const Shape& shape) {
  turn(p.x, p.x_stride, p.rows, shape.x);
  turn(p.out, p.out_stride, p.rows, shape.out);
  turn(p.residual, p.residual_stride, p.rows, shape.x);
  turn(p.residual_out, p.residual_out_stride, p.rows, shape.x);
  turn(p.dense, p.dense_stride, p.rows, shape.x);
  return p;
}

}  // namespace

const Op op{"quantize", unit, parse, list, constants};

std::uint64_t workspace(const Runtime& runtime, const quern_quantize_args& args) {
  return workspace_of(read_problem(args, runtime, true));
}

void prepare(const Runtime& runtime, const quern_quantize_args& args) {
  const Problem problem = read_problem(args, runtime, true);
  if (problem.find_first) kernel_of(finding(problem), runtime, args);
  kernel_of(problem.shape, runtime, args);
  if (!problem.find_first) kernel_of(problem.few, runtime, args);
}

void run(const Runtime& runtime, const quern_quantize_args& args) {
  Problem problem = read_problem(args, runtime, false);
  if (problem.find_first) {
    problem.params.counters = read_workspace(args.workspace, args.workspace_size, workspace_of(problem)).counters;
  }
  const Shape first = finding(problem);
  const jit::Kernel* finder = problem.find_first ? kernel_of(first, runtime, args) : nullptr;
  const jit::Kernel* kernel = kernel_of(problem.shape, runtime, args);
  // Without a row there is still a scale to find.
  const q::QuantizeParams& p = problem.params;
  if (finder != nullptr) launch(first, *finder, runtime, args, problem, p);
  if (p.rows > 0)
    launch(problem.shape, *kernel, runtime, args, problem, finder != nullptr ? backwards(p, problem.shape) : p);
}

}  // namespace quern::ops::quantize
