// The renormalise op: probabilities without the unlikely tokens.
// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "jit/error.h"
#include "sources/call.h"
#include "sources/launch.h"
#include "sources/ops.h"
#include "sources/renormalise/problem.h"

namespace quern::ops::renormalise {
namespace {

constexpr std::int64_t kMostVocab = 1 << 20;
constexpr std::uint32_t kFlags = QUERN_RENORMALISE_TOP_P | QUERN_RENORMALISE_JOINT;

constexpr auto kConstants = describe<Shape>(
    tag_renormalise, "renormalise", choice<&Shape::in>("dtype", nullptr, kFloatDtypes).optional(),
    flag<&Shape::logits>("logits", "LOGITS").optional(), flag<&Shape::cluster>("cluster", nullptr).optional());

RowShape row_of(const Shape& shape) { return {false, shape.cluster}; }

Constants constants(const jit::Spec& spec) { return kConstants.to_constants(kConstants.to_shape(spec)); }

jit::Spec parse(const Constants& given, const jit::TargetInfo& target) {
  Shape initial;
  initial.cluster = target.tensor_maps;
  const Shape shape = kConstants.read(given, initial);
  expect_clusters("renormalise", row_of(shape), target);
  if (!shape.logits && shape.in != Dtype::f32)
    throw Error(QUERN_INVALID, std::string("renormalise: dtype is ") + name_of(shape.in) +
                                   "; allowed of probabilities (logits=0): f32");
  return kConstants.to_spec(shape, target.target);
}

jit::Unit unit(const jit::Spec& spec) {
  const Shape shape = kConstants.to_shape(spec);
  jit::Unit unit;
  unit.op = "renormalise";
  unit.target = jit::Target::from_tag(spec.target);
  unit.entry = "quern_renormalise";
  kConstants.define(shape, &unit);
  define_rows(row_of(shape), Held::shared_memory, shape.in, "renormalise", 0, &unit);
  return unit;
}

// Of probabilities; and of logits in f32, for the verification of drafts.
void list(const quern_model& model, const jit::TargetInfo& target, std::vector<jit::Spec>* specs) {
  if (model.vocab_size == 0 || model.vocab_size > kMostVocab) return;
  // Of logits, which come before verify_draft's walk. Nothing that a step calls renormalises probabilities.
  specs->push_back(kConstants.to_spec({Dtype::f32, true, target.tensor_maps}, target.target));
}

Problem read_problem(const quern_renormalise_args& args, const Runtime& runtime, bool may_lack_data, int* sms) {
  const Call call =
      read_call(runtime, args, kFlags, "enum quern_call_flags | enum quern_renormalise_flags", 4, may_lack_data);
  *sms = call.sms;
  Problem problem{};
  q::RenormaliseParams& p = problem.params;
  const Tensor probs = read_rows(args.probs, "probs", {Dtype::f32}, kMostVocab, call.place);
  const Tensor out = read_rows_like(args.out, "out", {Dtype::f32}, probs, "probs", call.place);
  const std::int64_t rows = probs.shape[0];
  p.in = probs.data, p.in_group_stride = probs.strides[0];
  p.out = reinterpret_cast<float*>(out.data), p.out_stride = out.strides[0];
  p.rows = static_cast<q::i32>(rows), p.group = 1, p.n = static_cast<q::i32>(probs.shape[1]);
  p.status = read_row_numbers<q::i32>(args.status, "status", Dtype::i32, rows, call.place);
  p.temperature.all = 1.0f;
  read_limits(args.top_ks, args.top_ps, args.min_ps, args.top_k,
              (args.flags & QUERN_RENORMALISE_TOP_P) != 0 ? args.top_p : 1.0f, args.min_p, rows, call.place, &p);
  p.joint = (args.flags & QUERN_RENORMALISE_JOINT) != 0;
  if (args.reserved != 0) refuse_value("reserved", std::int64_t{args.reserved}, "0");
  share_rows(&problem, call.sms, call.device->limits);
  return problem;
}

}  // namespace

void read_limits(const DLTensor* top_ks, const DLTensor* top_ps, const DLTensor* min_ps, std::int32_t top_k,
                 float top_p, float min_p, std::int64_t rows, const Place& place, q::RenormaliseParams* p) {
  p->top_k.rows = read_row_numbers<q::i32>(top_ks, "top_ks", Dtype::i32, rows, place);
  p->top_p.rows = read_row_numbers<float>(top_ps, "top_ps", Dtype::f32, rows, place);
  p->min_p.rows = read_row_numbers<float>(min_ps, "min_ps", Dtype::f32, rows, place);
  // Field by field: a whole OfRow would bring what stands between it and the next one, which launches that are kept
  // compare.
  p->top_k.all = top_k, p->top_p.all = top_p, p->min_p.all = min_p;
  if (top_ks == nullptr && top_k < -1) refuse_value("top_k", std::int64_t{top_k}, "-1 or 0 (off), or more");
  if (top_ps == nullptr && !(top_p >= 0.0f && top_p <= 1.0f)) refuse_value("top_p", double{top_p}, "0 to 1");
  if (min_ps == nullptr && !(min_p >= 0.0f && min_p <= 1.0f)) refuse_value("min_p", double{min_p}, "0 to 1");
}

void share_rows(Problem* problem, int sms, const jit::TargetInfo& target) {
  problem->share = spread_rows(problem->params.rows, problem->params.n, q::kStreamedEach, sms, target);
  problem->shape.cluster = problem->share.shape.cluster;
}

jit::Spec to_spec(const Shape& shape, jit::Target target) { return kConstants.to_spec(shape, target); }

void launch_problem(const Runtime& runtime, Problem* problem, int sms, bool bounded, std::uint32_t flags, void* stream,
                    const char* what) {
  const jit::Kernel* kernel =
      kernel_for(runtime, to_spec(problem->shape, runtime.driver->device().limits.target), flags, stream);
  if (problem->params.rows == 0) return;
  jit::Launch launch;
  set_row_grid(problem->params.rows, problem->share, sms, bounded, &launch);
  launch.programmatic = (flags & QUERN_CALL_PROGRAMMATIC) != 0;
  launch.stream = stream;
  ops::launch(runtime, *kernel, launch, what, problem->params);
}

const Op op{"renormalise", unit, parse, list, constants};

std::uint64_t workspace(const Runtime& runtime, const quern_renormalise_args& args) {
  int sms;
  read_problem(args, runtime, true, &sms);
  return 0;
}

void prepare(const Runtime& runtime, const quern_renormalise_args& args) {
  int sms;
  const Problem problem = read_problem(args, runtime, true, &sms);
  kernel_for(runtime, to_spec(problem.shape, runtime.driver->device().limits.target), args.flags, args.stream);
}

void run(const Runtime& runtime, const quern_renormalise_args& args) {
  int sms;
  Problem problem = read_problem(args, runtime, false, &sms);
  launch_problem(runtime, &problem, sms, args.max_sms > 0, args.flags, args.stream, "launching renormalise");
}

}  // namespace quern::ops::renormalise
