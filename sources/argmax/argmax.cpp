// The argmax op: where rows are largest.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>

#include "jit/error.h"
#include "sources/argmax/problem.h"
#include "sources/call.h"
#include "sources/description.h"
#include "sources/launch.h"
#include "sources/ops.h"
#include "sources/softmax/params.cuh"
#include "sources/softmax/rows.h"

namespace quern::ops::argmax {
namespace {

constexpr std::int64_t kMostColumns = 1 << 24;

struct Shape {
  Dtype logits = Dtype::f32;
  bool cluster = true;
};
constexpr auto kConstants =
    describe<Shape>(tag_argmax, "argmax", choice<&Shape::logits>("dtype", nullptr, kFloatDtypes),
                    flag<&Shape::cluster>("cluster", nullptr).optional());

Constants constants(const jit::Spec& spec) { return kConstants.to_constants(kConstants.to_shape(spec)); }

jit::Spec parse(const Constants& given, const jit::TargetInfo& target) {
  const Shape shape = kConstants.read(given, {Dtype::f32, target.tensor_maps});
  expect_clusters("argmax", {false, shape.cluster}, target);
  return kConstants.to_spec(shape, target.target);
}

jit::Unit unit(const jit::Spec& spec) {
  const Shape shape = kConstants.to_shape(spec);
  jit::Unit unit;
  unit.op = "argmax";
  unit.target = jit::Target::from_tag(spec.target);
  unit.entry = "quern_argmax";
  define_rows({false, shape.cluster}, Held::shared_memory, shape.logits, "argmax", q::kArgmaxEach, &unit);
  return unit;
}

// Logits come in f32 from most engines.
void list(const quern_model& model, const jit::TargetInfo& target, std::vector<jit::Spec>* specs) {
  if (model.vocab_size == 0 || model.vocab_size > kMostColumns) return;
  specs->push_back(kConstants.to_spec({Dtype::f32, target.tensor_maps}, target.target));
}

struct Problem {
  Dtype logits;
  q::ArgmaxParams params;
  int sms;
};

// As many blocks as leave each some work and multiprocessors none idle: results do not depend on it.
RowShare share_of(std::int64_t rows, std::int64_t n, int sms, const jit::TargetInfo& target) {
  RowShare share = share_row(kMostColumns, Dtype::f32, Held::shared_memory, sms, target);
  constexpr std::int64_t kWork = std::int64_t{q::kRowThreads} * q::kArgmaxEach / 2;
  const std::int64_t wanted = std::min<std::int64_t>(2 * sms / std::max<std::int64_t>(rows, 1), n / kWork);
  share.blocks =
      static_cast<int>(std::bit_floor(static_cast<std::uint64_t>(std::clamp<std::int64_t>(wanted, 1, share.blocks))));
  return share;
}

Problem read_problem(const quern_argmax_args& args, const Runtime& runtime, bool may_lack_data) {
  const Call call = read_call(runtime, args, 0, "enum quern_call_flags", 4, may_lack_data);
  Problem problem{{}, {}, call.sms};
  q::ArgmaxParams& p = problem.params;
  const Tensor logits =
      read_rows(args.logits, "logits", {Dtype::f32, Dtype::f16, Dtype::bf16}, kMostColumns, call.place);
  const std::int64_t rows = logits.shape[0];
  p.logits = logits.data, p.group_stride = logits.strides[0];
  p.rows = static_cast<q::i32>(rows), p.group = 1, p.n = static_cast<q::i32>(logits.shape[1]);
  const Tensor ids = read(args.ids, "ids", 1, {Dtype::i32, Dtype::i64}, call.place);
  expect_extent(ids, "ids", 0, rows);
  expect_unit_stride(ids, "ids", 0);
  p.ids = ids.data, p.wide_ids = ids.dtype == Dtype::i64;
  p.values = read_row_numbers<float>(args.values, "values", Dtype::f32, rows, call.place);
  problem.logits = logits.dtype;
  return problem;
}

}  // namespace

jit::Spec to_spec(Dtype logits, const jit::TargetInfo& target) {
  return kConstants.to_spec({logits, target.tensor_maps}, target.target);
}

void launch_problem(const Runtime& runtime, Dtype logits, q::ArgmaxParams* params, int sms, bool bounded,
                    std::uint32_t flags, void* stream, const char* what) {
  const jit::TargetInfo& target = runtime.driver->device().limits;
  const jit::Kernel* kernel = kernel_for(runtime, to_spec(logits, target), flags, stream);
  if (params->rows == 0) return;
  jit::Launch launch;
  set_row_grid(params->rows, share_of(params->rows, params->n, sms, target), sms, bounded, &launch);
  launch.programmatic = (flags & QUERN_CALL_PROGRAMMATIC) != 0;
  launch.stream = stream;
  ops::launch(runtime, *kernel, launch, what, *params);
}

const Op op{"argmax", unit, parse, list, constants};

std::uint64_t workspace(const Runtime& runtime, const quern_argmax_args& args) {
  read_problem(args, runtime, true);
  return 0;
}

void prepare(const Runtime& runtime, const quern_argmax_args& args) {
  const Problem problem = read_problem(args, runtime, true);
  kernel_for(runtime, to_spec(problem.logits, runtime.driver->device().limits), args.flags, args.stream);
}

void run(const Runtime& runtime, const quern_argmax_args& args) {
  Problem problem = read_problem(args, runtime, false);
  launch_problem(runtime, problem.logits, &problem.params, problem.sms, args.max_sms > 0, args.flags, args.stream,
                 "launching argmax");
}

}  // namespace quern::ops::argmax
