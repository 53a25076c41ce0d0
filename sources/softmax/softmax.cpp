// The softmax op: probabilities, or their logarithms, from rows of logits.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <string>

#include "jit/error.h"
#include "sources/call.h"
#include "sources/description.h"
#include "sources/launch.h"
#include "sources/ops.h"
#include "sources/softmax/problem.h"

namespace quern::ops::softmax {
namespace {

constexpr std::uint32_t kFlags = QUERN_SOFTMAX_TEMPERATURE | QUERN_SOFTMAX_LOG;
constexpr std::int64_t kMostVocab = 1 << 20;

constexpr auto kConstants = describe<Shape>(
    tag_softmax, "softmax", choice<&Shape::logits>("dtype", nullptr, kFloatDtypes),
    choice<&Shape::out>("out", "OUT", kFloatDtypes).optional(), flag<&Shape::log>("log", "LOG").optional(),
    number<&Shape::each>("each", nullptr, {16, q::kShortEach, 4}).optional(),
    flag<&Shape::cluster>("cluster", nullptr).optional());

Constants constants(const jit::Spec& spec) { return kConstants.to_constants(kConstants.to_shape(spec)); }

jit::Spec parse(const Constants& given, const jit::TargetInfo& target) {
  Shape initial;
  initial.cluster = target.tensor_maps;
  const Shape shape = kConstants.read(given, initial);
  expect_clusters("softmax", shape.row(), target);
  if (shape.out != Dtype::f32 && shape.out != shape.logits)
    throw Error(QUERN_INVALID,
                std::string("softmax: out is ") + name_of(shape.out) + "; allowed: f32 and " + name_of(shape.logits));
  const int vector = 16 / static_cast<int>(bytes_of(shape.logits));
  if (shape.each % vector != 0)
    throw Error(QUERN_INVALID, "softmax: each is " + std::to_string(shape.each) + " of " + name_of(shape.logits) +
                                   "; allowed: multiples of " + std::to_string(vector));
  if (shape.each > q::kHeldElements / q::kRegisterThreads && shape.each != q::kShortEach)
    throw Error(QUERN_INVALID, "softmax: each is " + std::to_string(shape.each) + "; allowed: 16 to 80, and 128");
  return kConstants.to_spec(shape, target.target);
}

jit::Unit unit(const jit::Spec& spec) {
  const Shape shape = kConstants.to_shape(spec);
  jit::Unit unit;
  unit.op = "softmax";
  unit.target = jit::Target::from_tag(spec.target);
  unit.entry = "quern_softmax";
  kConstants.define(shape, &unit);
  define_rows(shape.row(), Held::registers, shape.logits, "softmax", shape.each, &unit);
  return unit;
}

void fit(Shape* shape, const RowShare& share) {
  shape->cluster = share.shape.cluster;
  // Each vector less counts where they are many; one kernel is enough for rows of fewer.
  shape->each = share.shape.held ? share.each : q::kStreamedEach;
}

// Logits come in f32 from most engines, and it is probabilities that most want.
void list(const quern_model& model, const jit::TargetInfo& target, std::vector<jit::Spec>* specs) {
  if (model.vocab_size == 0 || model.vocab_size > kMostVocab) return;
  Shape shape;
  fit(&shape, share_row(model.vocab_size, shape.logits, Held::registers, q::kMostRowBlocks, target));
  specs->push_back(kConstants.to_spec(shape, target.target));
}

Problem read_problem(const quern_softmax_args& args, const Runtime& runtime, bool may_lack_data, int* sms) {
  const Call call =
      read_call(runtime, args, kFlags, "enum quern_call_flags | enum quern_softmax_flags", 4, may_lack_data);
  *sms = call.sms;
  Problem problem{};
  q::SoftmaxParams& p = problem.params;
  const Tensor logits = read_rows(args.logits, "logits", {Dtype::f32, Dtype::f16, Dtype::bf16}, kMostVocab, call.place);
  const Tensor out = read_rows_like(args.out, "out", {Dtype::f32, logits.dtype}, logits, "logits", call.place);
  const std::int64_t rows = logits.shape[0];
  p.logits = logits.data, p.group_stride = logits.strides[0];
  p.out = out.data, p.out_stride = out.strides[0];
  p.rows = static_cast<q::i32>(rows), p.group = 1, p.n = static_cast<q::i32>(logits.shape[1]);
  p.temperature.rows = read_row_numbers<float>(args.temperatures, "temperatures", Dtype::f32, rows, call.place);
  p.temperature.all = (args.flags & QUERN_SOFTMAX_TEMPERATURE) != 0 ? args.temperature : 1.0f;
  if (args.temperatures == nullptr && !(p.temperature.all >= 0.0f && std::isfinite(p.temperature.all)))
    refuse_value("temperature", double{args.temperature}, "0 and more, and finite");
  p.status = read_row_numbers<q::i32>(args.status, "status", Dtype::i32, rows, call.place);
  if (args.reserved != 0) refuse_value("reserved", std::int64_t{args.reserved}, "0");
  problem.shape.logits = logits.dtype, problem.shape.out = out.dtype;
  problem.shape.log = (args.flags & QUERN_SOFTMAX_LOG) != 0;
  return problem;
}

}  // namespace

jit::Spec to_spec(const Problem& problem, int sms, const jit::TargetInfo& target) {
  Shape shape = problem.shape;
  fit(&shape, share_row(problem.params.n, shape.logits, Held::registers, sms, target));
  return kConstants.to_spec(shape, target.target);
}

void launch_problem(const Runtime& runtime, Problem* problem, int sms, bool bounded, std::uint32_t flags, void* stream,
                    const char* what) {
  const jit::TargetInfo& target = runtime.driver->device().limits;
  const jit::Kernel* kernel = kernel_for(runtime, to_spec(*problem, sms, target), flags, stream);
  if (problem->params.rows == 0) return;
  jit::Launch launch;
  set_row_grid(problem->params.rows, share_row(problem->params.n, problem->shape.logits, Held::registers, sms, target),
               sms, bounded, &launch);
  launch.programmatic = (flags & QUERN_CALL_PROGRAMMATIC) != 0;
  launch.stream = stream;
  ops::launch(runtime, *kernel, launch, what, problem->params);
}

const Op op{"softmax", unit, parse, list, constants};

std::uint64_t workspace(const Runtime& runtime, const quern_softmax_args& args) {
  int sms;
  read_problem(args, runtime, true, &sms);
  return 0;
}

void prepare(const Runtime& runtime, const quern_softmax_args& args) {
  int sms;
  const Problem problem = read_problem(args, runtime, true, &sms);
  kernel_for(runtime, to_spec(problem, sms, runtime.driver->device().limits), args.flags, args.stream);
}

void run(const Runtime& runtime, const quern_softmax_args& args) {
  int sms;
  Problem problem = read_problem(args, runtime, false, &sms);
  launch_problem(runtime, &problem, sms, args.max_sms > 0, args.flags, args.stream, "launching softmax");
}

}  // namespace quern::ops::softmax
