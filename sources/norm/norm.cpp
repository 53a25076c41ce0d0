// The norm op: rows normalised in one of several ways, behind the sum with a residual, in front of weights and
// modulation. What rmsnorm and quantize do already takes their kernels.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>

#include "jit/error.h"
#include "sources/call.h"
#include "sources/common_headers.h"
#include "sources/description.h"
#include "sources/embedded.h"
#include "sources/launch.h"
#include "sources/norm/codes.h"
#include "sources/norm/read.h"
#include "sources/ops.h"
#include "sources/workspace.h"

namespace quern::ops::norm {
namespace {

using q::NormKind;
using q::NormStage;

constexpr Names<NormKind, 4> kKinds = {
    {{"layer", NormKind::layer}, {"rms", NormKind::rms}, {"l2", NormKind::l2}, {"group", NormKind::group}}};
constexpr Names<NormStage, 3> kStages = {
    {{"whole", NormStage::whole}, {"moments", NormStage::moments}, {"apply", NormStage::apply}}};
constexpr Names<Dtype, 4> kOptional = {
    {{"none", Dtype::other}, {"f16", Dtype::f16}, {"bf16", Dtype::bf16}, {"f32", Dtype::f32}}};
constexpr Names<int, 4> kAccesses = {{{"16", 16}, {"8", 8}, {"4", 4}, {"2", 2}}};
constexpr auto kConstants = describe<Shape>(
    tag_norm, "norm", choice<&Shape::element>("dtype", "ELEMENT", kFloatDtypes),
    choice<&Shape::out>("out", "OUT", kFloatDtypes), choice<&Shape::kind>("kind", "KIND", kKinds),
    choice<&Shape::stage>("stage", "STAGE", kStages).optional(),
    choice<&Shape::weight>("weight", nullptr, kOptional).optional(),
    choice<&Shape::bias>("bias", nullptr, kOptional).optional(),
    choice<&Shape::scale>("scale", nullptr, kOptional).optional(),
    choice<&Shape::shift>("shift", nullptr, kOptional).optional(),
    flag<&Shape::residual>("residual", "RESIDUAL").optional(),
    flag<&Shape::channels_last>("channels_last", "CHANNELS_LAST").optional(),
    choice<&Shape::access>("access", "ACCESS", kAccesses).optional(), flag<&Shape::tail>("tail", "TAIL").optional(),
    number<&Shape::team>("team", nullptr, {1, kMostThreads}), flag<&Shape::twice>("twice", nullptr).optional());

Constants constants(const jit::Spec& spec) { return kConstants.to_constants(kConstants.to_shape(spec)); }

jit::Spec parse(const Constants& given, const jit::TargetInfo& target) {
  const Shape shape = kConstants.read(given);
  const auto refuse = [](const char* text) { throw Error(QUERN_INVALID, std::string("norm: ") + text); };
  const auto expect_parameter = [&](const char* name, Dtype dtype) {
    if (dtype == Dtype::other || dtype == Dtype::f32 || dtype == shape.element) return;
    throw Error(QUERN_INVALID, std::string("norm: ") + name + " is " + name_of(dtype) + "; allowed: none, f32 and " +
                                   name_of(shape.element));
  };
  expect_parameter("weight", shape.weight), expect_parameter("bias", shape.bias);
  expect_parameter("scale", shape.scale), expect_parameter("shift", shape.shift);
  if (shape.weight != Dtype::other && shape.bias != Dtype::other && shape.weight != shape.bias)
    refuse("bias is of another dtype than weight; allowed: the same");
  if (shape.scale != Dtype::other && shape.shift != Dtype::other && shape.scale != shape.shift)
    refuse("shift is of another dtype than scale; allowed: the same");
  if (shape.kind == NormKind::group && (shape.scale != Dtype::other || shape.shift != Dtype::other))
    refuse("scale and shift are given; allowed with kind group: none");
  if (shape.channels_last && shape.kind != NormKind::group) refuse("channels_last is 1; allowed without kind group: 0");
  if (shape.twice && !shape.may_take_twice())
    refuse(
        "twice is 1; allowed with stage whole, 16 bits, whole vectors of 16 bytes, no residual and no scale of f32: 0, "
        "1");
  if (shape.stage != NormStage::whole && shape.team != q::kNormPieceThreads)
    refuse("team is another than 512; allowed with stages moments and apply: 512");
  expect_team("norm", shape.rows(), shape.element, kMostThreads, target.warp_size);
  return kConstants.to_spec(shape, target.target);
}

// Whether parameters come while the last sum is joined: they then take some registers, but no time of their own.
bool is_middle(const Shape& shape) {
  return shape.lean() && !shape.twice && !shape.modulated() && bytes_of(shape.element) == 2 &&
         shape.weight != Dtype::f32 && shape.bias != Dtype::f32 && shape.kind != NormKind::group &&
         shape.team < kMostThreads;
}
// Registers of a thread: f32 values, what the parameters are in memory, and some 28 more.
int registers(const Shape& shape) {
  if (shape.lean()) {
    if (shape.twice) return 64;
    const bool more = shape.tail || shape.channels_last || shape.modulated();
    const auto held = static_cast<int>(q::kNormHeld * bytes_of(shape.element) / 4);
    return held + 32 + (more ? 16 : is_middle(shape) ? 8 : 0);
  }
  std::int64_t words = q::kNormHeld + 28 + (shape.residual ? 4 : 0);
  for (const Dtype dtype : {shape.weight, shape.bias, shape.scale, shape.shift}) {
    if (dtype != Dtype::other && shape.kind != NormKind::group) words += q::kNormHeld * bytes_of(dtype) / 4;
  }
  return static_cast<int>(words);
}
// Whether parameters have to wait until they are used.
bool is_late(const Shape& shape, int threads) {
  return shape.lean() ? !is_middle(shape) : registers(shape) * threads > 65536;
}
int blocks_per_sm(const Shape& shape, int threads) {
  const int words = registers(shape);
  const int resident = words <= 40 ? 1536 : words <= 48 ? 1280 : words <= 64 ? 1024 : words <= 80 ? 768 : 512;
  // The longest rows have one block of so many threads: only a second one has something to do while the first waits.
  if (words <= 40 && threads == kMostThreads) return 2;
  return std::clamp(resident / threads, 1, 16);
}

jit::Unit unit(const jit::Spec& spec) {
  const Shape shape = kConstants.to_shape(spec);
  jit::Unit unit;
  unit.op = "norm";
  unit.target = jit::Target::from_tag(spec.target);
  unit.entry = "quern_norm";
  kConstants.define(shape, &unit);
  const std::uint32_t warp = jit::limits_of(unit.target).warp_size;
  define_rows(shape.rows(), warp, &unit);
  const auto define = [&](const char* name, const std::string& value) { unit.constants.push_back({name, value}); };
  const auto given = [&](const char* name, Dtype dtype) { define(name, dtype != Dtype::other ? "1" : "0"); };
  const auto either = [](Dtype a, Dtype b) {
    return name_of(a != Dtype::other ? a : b != Dtype::other ? b : Dtype::f32);
  };
  define("WEIGHT", either(shape.weight, shape.bias));
  define("MODULATION", either(shape.scale, shape.shift));
  given("HAS_WEIGHT", shape.weight), given("HAS_BIAS", shape.bias);
  given("HAS_SCALE", shape.scale), given("HAS_SHIFT", shape.shift);
  const int threads = threads_of(shape.rows(), warp);
  define("LATE", is_late(shape, threads) ? "1" : "0");
  define("MIDDLE", is_middle(shape) ? "1" : "0");
  define("BLOCKS_PER_SM", std::to_string(blocks_per_sm(shape, threads)));
  unit.source = embedded("norm/norm.cuh");
  unit.headers = device_headers(unit.target);
  return unit;
}

// What rmsnorm does.
quern_rmsnorm_args rmsnorm_args(const quern_norm_args& args) {
  quern_rmsnorm_args other{};
  other.size = sizeof other;
  other.flags = args.flags & kCallFlags;
  if (args.flags & QUERN_NORM_WEIGHT_PLUS_ONE) other.flags |= QUERN_RMSNORM_WEIGHT_PLUS_ONE;
  other.stream = args.stream;
  other.alignment = args.alignment, other.max_sms = args.max_sms;
  other.x = args.x, other.residual = args.residual, other.weight = args.weight;
  other.out = args.out, other.residual_out = args.residual_out;
  other.eps = args.eps;
  return other;
}

const jit::Kernel* kernel_of(Shape shape, NormStage stage, const Runtime& runtime, const quern_norm_args& args) {
  shape.stage = stage;
  // The moments of pieces are those of any results.
  if (stage == NormStage::moments)
    shape.weight = shape.bias = shape.scale = shape.shift = Dtype::other, shape.out = shape.element;
  return kernel_for(runtime, kConstants.to_spec(shape, runtime.driver->device().limits.target), args.flags,
                    args.stream);
}

void launch_stage(const Runtime& runtime, const jit::Kernel& kernel, Problem& problem, const quern_norm_args& args,
                  bool later) {
  const RowShape rows = problem.shape.rows();
  const int threads = threads_of(rows, runtime.driver->device().limits.warp_size);
  const std::int64_t teams = threads / rows.team, all = problem.params.rows;
  const std::int64_t units = problem.params.pieces > 0 ? all * problem.params.pieces : (all + teams - 1) / teams;
  const std::int64_t most =
      args.max_sms > 0 ? std::int64_t{problem.sms} * blocks_per_sm(problem.shape, threads) : std::int64_t{INT32_MAX};
  jit::Launch launch;
  launch.grid[0] = static_cast<std::uint32_t>(std::min(units, most));
  launch.block[0] = static_cast<std::uint32_t>(threads);
  // What applies moments waits for them by itself.
  launch.programmatic = later || (args.flags & QUERN_CALL_PROGRAMMATIC) != 0;
  launch.stream = args.stream;
  ops::launch(runtime, kernel, launch, "launching norm", problem.params);
}

// In front of each layer, with the residual added but for the first; weight and bias as layer norms have them.
void list(const quern_model& model, const jit::TargetInfo& target, std::vector<jit::Spec>* specs) {
  if ((model.flags & QUERN_MODEL_LAYER_NORM) == 0 || model.hidden_size == 0) return;
  Shape shape;
  shape.element = model.dtype.bits == 0 ? Dtype::bf16 : dtype_of(model.dtype);
  if (shape.element != Dtype::f16 && shape.element != Dtype::bf16 && shape.element != Dtype::f32) return;
  shape.out = shape.weight = shape.bias = shape.element;
  const std::int64_t n = model.hidden_size;
  if (n > kMostHeld) return;
  for (const bool residual : {false, true}) {
    shape.residual = residual;
    for (const bool twice : {false, true}) {
      if (twice && !shape.takes_twice(n)) continue;
      const RowShape rows = fit(n, n * bytes_of(shape.element) % 16 == 0 ? 16 : 4, target.warp_size, twice);
      shape.tail = rows.tail, shape.access = rows.access, shape.team = rows.team, shape.twice = rows.twice;
    }
    specs->push_back(kConstants.to_spec(shape, target.target));
  }
}

}  // namespace

const Op op{"norm", unit, parse, list, constants};

std::uint64_t workspace(const Runtime& runtime, const quern_norm_args& args) {
  const Problem problem = read_problem(args, runtime, true);
  if (problem.way == Way::rmsnorm) return rmsnorm::workspace(runtime, rmsnorm_args(args));
  if (problem.way == Way::quantize) return quantize::workspace(runtime, front_of(args));
  if (problem.way == Way::own) return problem.workspace();
  const CodesOfRows codes(args, problem.params.rows, problem.params.n, nullptr);
  return std::max(problem.workspace(), quantize::workspace(runtime, codes.args));
}

void prepare(const Runtime& runtime, const quern_norm_args& args) {
  const Problem problem = read_problem(args, runtime, true);
  if (problem.way == Way::rmsnorm) return rmsnorm::prepare(runtime, rmsnorm_args(args));
  if (problem.way == Way::quantize) return quantize::prepare(runtime, front_of(args));
  if (problem.shape.stage == NormStage::apply) kernel_of(problem.shape, NormStage::moments, runtime, args);
  kernel_of(problem.shape, problem.shape.stage, runtime, args);
  if (problem.way == Way::own) return;
  const CodesOfRows codes(args, problem.params.rows, problem.params.n, nullptr);
  quantize::prepare(runtime, codes.args);
}

void run(const Runtime& runtime, const quern_norm_args& args) {
  Problem problem = read_problem(args, runtime, false);
  if (problem.way == Way::rmsnorm) return rmsnorm::run(runtime, rmsnorm_args(args));
  if (problem.way == Way::quantize) return quantize::run(runtime, front_of(args));
  const bool split = problem.shape.stage == NormStage::apply, coded = problem.way == Way::own_then_quantize;
  q::NormParams& p = problem.params;
  if (problem.workspace() > 0) {
    auto* const scratch =
        static_cast<char*>(read_workspace(args.workspace, args.workspace_size, problem.workspace()).scratch);
    p.moments = reinterpret_cast<q::NormMoments*>(scratch);
    if (coded) p.out = scratch + problem.moments;
  }
  const CodesOfRows codes(args, p.rows, p.n, p.out);
  // All that can be refused is before the first launch.
  if (coded) quantize::prepare(runtime, codes.args);
  const jit::Kernel* first = split ? kernel_of(problem.shape, NormStage::moments, runtime, args) : nullptr;
  const jit::Kernel* kernel = kernel_of(problem.shape, problem.shape.stage, runtime, args);
  if (p.rows > 0) {
    if (split) launch_stage(runtime, *first, problem, args, false);
    launch_stage(runtime, *kernel, problem, args, split);
  }
  if (coded) quantize::run(runtime, codes.args);
}

}  // namespace quern::ops::norm
