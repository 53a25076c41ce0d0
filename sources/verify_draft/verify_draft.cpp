// The verify_draft op: which of a draft model's tokens stay, and the one behind them.
// SPDX-License-Identifier: Apache-2.0
#include "sources/argmax/problem.h"
#include "sources/launch.h"
#include "sources/ops.h"
#include "sources/verify_draft/around.h"
#include "sources/workspace.h"

namespace quern::ops::verify_draft {
namespace {

constexpr std::int64_t kMostVocab = 1 << 20;

struct Shape {
  bool cluster = true;
  bool logits = false;  // target's, else probabilities in f32; greedy ones may be either
  Dtype in = Dtype::f32;
};
constexpr bool of_logits(const Shape& shape) { return shape.logits; }
constexpr auto kConstants =
    describe<Shape>(tag_verify_draft, "verify_draft", flag<&Shape::cluster>("cluster", nullptr).optional(),
                    flag<&Shape::logits>("logits", "LOGITS").optional(),
                    choice<&Shape::in>("dtype", nullptr, kFloatDtypes).optional().when(&of_logits));

Constants constants(const jit::Spec& spec) {
  if (is_around(spec)) return around_constants(spec);
  return kConstants.to_constants(kConstants.to_shape(spec));
}

jit::Spec parse(const Constants& given, const jit::TargetInfo& target) {
  if (is_around(given)) return parse_around(given, target);
  const Shape shape = kConstants.read(given, {target.tensor_maps});
  expect_clusters("verify_draft", {false, shape.cluster}, target);
  return kConstants.to_spec(shape, target.target);
}

jit::Unit unit(const jit::Spec& spec) {
  if (is_around(spec)) return around_unit(spec);
  const Shape shape = kConstants.to_shape(spec);
  jit::Unit unit;
  unit.op = "verify_draft";
  unit.target = jit::Target::from_tag(spec.target);
  unit.entry = "quern_verify_draft";
  kConstants.define(shape, &unit);
  define_rows({false, shape.cluster}, Held::shared_memory, shape.in, "verify_draft", q::kVerifyEach, &unit);
  return unit;
}

jit::Spec spec_for(const Problem& problem, const jit::TargetInfo& target) {
  const bool logits = problem.of_logits();
  return kConstants.to_spec({target.tensor_maps, logits, logits ? problem.target : Dtype::f32}, target.target);
}

// What comes before the walk is argmax's and renormalise's to list.
void list(const quern_model& model, const jit::TargetInfo& target, std::vector<jit::Spec>* specs) {
  // What edits and reports is for requests that few models' hosts draft for: a manifest's lines name it.
  if (model.vocab_size == 0 || model.vocab_size > kMostVocab) return;
  for (const bool logits : {false, true})
    specs->push_back(kConstants.to_spec({target.tensor_maps, logits, Dtype::f32}, target.target));
}

std::uint64_t round_up(std::uint64_t bytes) { return (bytes + 255) / 256 * 256; }

// Bytes of what comes before: an int32 and an f32 a row, or what its probabilities are made of; behind them, what the
// kernels around the walk need.
struct Parts {
  std::uint64_t first = 0, second = 0, around = 0;
  std::uint64_t all() const { return first + second + around == 0 ? 0 : kCounterBytes + first + second + around; }
};
Parts parts_of(const Problem& problem) {
  if (problem.before == Before::nothing) return {};
  const auto rows = static_cast<std::uint64_t>(problem.rows());
  if (problem.of_logits()) return {round_up(rows * sizeof(q::KeptRow)), 0, around_bytes(problem)};
  return {round_up(rows * 4), round_up(rows * 4), around_bytes(problem)};
}

// Fills in what comes before, and what the walk reads of it; null in a call without.
void place_parts(const quern_verify_draft_args& args, Problem* problem) {
  const Parts parts = parts_of(*problem);
  if (problem->before == Before::nothing) return;
  auto* const scratch = static_cast<char*>(read_workspace(args.workspace, args.workspace_size, parts.all()).scratch);
  q::VerifyParams& p = problem->params;
  if (problem->before == Before::largest) {
    p.best = reinterpret_cast<q::i32*>(scratch), p.best_values = reinterpret_cast<float*>(scratch + parts.first);
    problem->largest.ids = scratch, problem->largest.values = reinterpret_cast<float*>(scratch + parts.first);
  } else {
    auto* const kept = reinterpret_cast<q::KeptRow*>(scratch);
    p.kept = kept, problem->filtered.params.kept = kept, problem->whole.params.kept = kept;
  }
  place_around(scratch + parts.first + parts.second, problem);
}

}  // namespace

const Op op{"verify_draft", unit, parse, list, constants};

std::uint64_t workspace(const Runtime& runtime, const quern_verify_draft_args& args) {
  return parts_of(read_problem(args, runtime, true)).all();
}

void prepare(const Runtime& runtime, const quern_verify_draft_args& args) {
  const Problem problem = read_problem(args, runtime, true);
  const jit::TargetInfo& target = runtime.driver->device().limits;
  if (problem.before == Before::largest)
    kernel_for(runtime, argmax::to_spec(problem.target, target), args.flags, args.stream);
  // Which of these it will be may be for the call's parameters to say.
  if (problem.of_logits()) {
    kernel_for(runtime, softmax::to_spec(problem.whole, problem.sms, target), args.flags, args.stream);
    kernel_for(runtime, renormalise::to_spec(problem.filtered.shape, target.target), args.flags, args.stream);
  }
  around_kernels(runtime, problem, args.flags, args.stream);
  kernel_for(runtime, spec_for(problem, target), args.flags, args.stream);
}

void run(const Runtime& runtime, const quern_verify_draft_args& args) {
  Problem problem = read_problem(args, runtime, false);
  const jit::TargetInfo& target = runtime.driver->device().limits;
  // Whatever is missing is told before anything runs.
  const jit::Kernel* kernel = kernel_for(runtime, spec_for(problem, target), args.flags, args.stream);
  const AroundKernels around = around_kernels(runtime, problem, args.flags, args.stream);
  if (problem.params.batch == 0) return;
  place_parts(args, &problem);
  const bool bounded = args.max_sms > 0;
  std::uint32_t flags = args.flags;
  if (around.edit != nullptr) {
    launch_edit(runtime, *around.edit, &problem, bounded, (flags & QUERN_CALL_PROGRAMMATIC) != 0, args.stream);
    flags |= QUERN_CALL_PROGRAMMATIC;  // what reads its rows waits for them by itself
  }
  if (problem.before == Before::largest) {
    argmax::launch_problem(runtime, problem.target, &problem.largest, problem.sms, bounded, flags, args.stream,
                           "launching verify_draft's argmax");
  } else if (problem.before == Before::whole) {
    softmax::launch_problem(runtime, &problem.whole, problem.sms, bounded, flags, args.stream,
                            "launching verify_draft's softmax");
  } else if (problem.before == Before::filtered) {
    renormalise::launch_problem(runtime, &problem.filtered, problem.sms, bounded, flags, args.stream,
                                "launching verify_draft's renormalise");
  }
  jit::Launch launch;
  // Greedy ones look at no row.
  const std::int64_t length = problem.before == Before::largest ? 1 : problem.params.vocab;
  const RowShare share = spread_rows(problem.params.batch, length, q::kVerifyEach, problem.sms, target);
  set_row_grid(problem.params.batch, share, problem.sms, bounded, &launch);
  // It waits for what it reads by itself.
  launch.programmatic = problem.before != Before::nothing || (args.flags & QUERN_CALL_PROGRAMMATIC) != 0;
  launch.stream = args.stream;
  ops::launch(runtime, *kernel, launch, "launching verify_draft", problem.params);
  if (around.report != nullptr) launch_report(runtime, *around.report, &problem, bounded, args.stream);
}

}  // namespace quern::ops::verify_draft
