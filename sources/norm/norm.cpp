// The norm op: rows normalised in one of several ways, behind the sum with a residual, in front of weights and
// modulation. What rmsnorm and quantize do already takes their kernels.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <string>

#include "jit/error.h"
#include "sources/call.h"
#include "sources/common_headers.h"
#include "sources/description.h"
#include "sources/divisor.h"
#include "sources/embedded.h"
#include "sources/launch.h"
#include "sources/norm/codes.h"
#include "sources/norm/params.cuh"
#include "sources/norm/rows.h"
#include "sources/ops.h"
#include "sources/workspace.h"

namespace quern::ops::norm {
namespace {

using q::NormKind;
using q::NormStage;

constexpr std::int64_t kMostColumns = std::int64_t{1} << 30;
constexpr std::int64_t kRmsnormColumns = 65536;  // that rmsnorm takes
constexpr std::uint32_t kFlags = QUERN_NORM_WEIGHT_PLUS_ONE | QUERN_NORM_SCALE_ALONE | QUERN_NORM_POWER_OF_TWO;

struct Shape {
  Dtype element = Dtype::bf16, out = Dtype::bf16;
  NormKind kind = NormKind::layer;
  NormStage stage = NormStage::whole;
  Dtype weight = Dtype::other, bias = Dtype::other;  // other: none
  Dtype scale = Dtype::other, shift = Dtype::other;
  bool residual = false, tail = false;
  bool channels_last = false;  // of a group norm
  int access = 16;
  int team = 0;

  RowShape rows() const { return {tail, access, team}; }
};

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
    number<&Shape::team>("team", nullptr, {1, kMostThreads}));

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
  if (shape.stage != NormStage::whole && shape.team != q::kNormPieceThreads)
    refuse("team is another than 512; allowed with stages moments and apply: 512");
  expect_team("norm", shape.rows(), shape.element, kMostThreads, target.warp_size);
  return kConstants.to_spec(shape, target.target);
}

// Registers of a thread: f32 values, what the parameters are in memory, and some 28 more.
int registers(const Shape& shape) {
  std::int64_t words = q::kNormHeld + 28 + (shape.residual ? 4 : 0);
  for (const Dtype dtype : {shape.weight, shape.bias, shape.scale, shape.shift}) {
    if (dtype != Dtype::other && shape.kind != NormKind::group) words += q::kNormHeld * bytes_of(dtype) / 4;
  }
  return static_cast<int>(words);
}
// Whether parameters have to wait until they are used.
bool is_late(const Shape& shape, int threads) { return registers(shape) * threads > 65536; }
int blocks_per_sm(const Shape& shape, int threads) {
  const int words = registers(shape), resident = words <= 64 ? 1024 : words <= 80 ? 768 : 512;
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
  define("BLOCKS_PER_SM", std::to_string(blocks_per_sm(shape, threads)));
  unit.source = embedded("norm/norm.cuh");
  unit.headers = device_headers(unit.target);
  return unit;
}

// A call, read; what is another op's kernel is told apart from what is this one's.
enum class Way { own, rmsnorm, quantize, own_then_quantize };
struct Problem {
  Shape shape;
  q::NormParams params;
  Way way;
  int sms;
  std::uint64_t moments;  // bytes of the workspace behind the counters for pieces' moments,
  std::uint64_t between;  // and for rows that are still to be quantised

  std::uint64_t workspace() const { return moments + between > 0 ? kCounterBytes + moments + between : 0; }
};

class Reader {
 public:
  Reader(const quern_norm_args& args, const Call& call) : args_(args), call_(call), alignment_(call) {}

  Problem read() {
    if (args_.kind < QUERN_NORM_LAYER || args_.kind > QUERN_NORM_GROUP)
      refuse_value("kind", std::int64_t{args_.kind}, "enum quern_norm_kind");
    if (!(args_.eps >= 0.0f) || std::isinf(args_.eps)) refuse_value("eps", double{args_.eps}, "0 and more");
    if (args_.reserved != 0) refuse_value("reserved", std::int64_t{args_.reserved}, "0");
    shape_.kind = static_cast<NormKind>(args_.kind);
    read_x();
    if (args_.residual != nullptr) {
      residual_ = read_like(args_.residual, "residual", {x_.dtype});
      p_.residual = residual_.data, p_.residual_stride = residual_.strides[0];
      shape_.residual = true;
    }
    read_results();
    read_parameters();
    finish();
    return problem_;
  }

 private:
  [[noreturn]] static void refuse(const std::string& text) { throw Error(QUERN_INVALID, text); }
  bool groups() const { return shape_.kind == NormKind::group; }

  void read_x() {
    x_ = ops::read(args_.x, "x", groups() ? 3 : 2, {Dtype::f16, Dtype::bf16, Dtype::f32}, call_.place);
    shape_.element = x_.dtype;
    channels_ = x_.shape[1];
    std::int64_t rows = x_.shape[0];
    n_ = x_.shape[1];
    if (channels_ < 1) refuse_extent("x", 1, channels_, "1 and more");
    if (groups()) {
      const std::int64_t places = x_.shape[2];
      if (places < 1) refuse_extent("x", 2, places, "1 and more");
      if (args_.groups < 1 || channels_ % args_.groups != 0)
        refuse_value("groups", std::int64_t{args_.groups},
                     ("divisors of the " + std::to_string(channels_) + " channels").c_str());
      n_ = channels_ / args_.groups * places;
      rows *= args_.groups;
      if (rows > INT32_MAX) refuse_extent("x", 0, x_.shape[0], "at most 2^31 - 1 groups in all");
      const auto channels = static_cast<std::int32_t>(channels_ / args_.groups);
      // Of one channel or one place both are the same.
      shape_.channels_last = x_.strides[2] != 1 && places > 1 && channels_ > 1;
      p_.groups = divisor(args_.groups), p_.channels = channels, p_.place_stride = channels_;
      p_.places = divisor(shape_.channels_last ? channels : static_cast<std::int32_t>(places));
    } else if (args_.groups != 0) {
      refuse_value("groups", std::int64_t{args_.groups}, "0 unless kind is QUERN_NORM_GROUP");
    }
    if (n_ > kMostColumns) refuse_extent("x", 1, x_.shape[1], "at most 2^30 elements of a row or group");
    p_.rows = static_cast<std::int32_t>(rows), p_.n = static_cast<std::int32_t>(n_);
    take(x_, "x");
    p_.x = x_.data, p_.x_stride = x_.strides[0];
  }

  void take(const Tensor& t, const char* name) {
    const int inner = shape_.channels_last ? 1 : t.rank - 1, outer = 3 - inner;
    expect_unit_stride(t, name, inner);
    if (groups() && t.strides[outer] != t.shape[inner] && t.shape[outer] > 1) {
      refuse_stride(name, outer, t.strides[outer],
                    ("the extent of the dimension whose stride is 1, " + std::to_string(t.shape[inner])).c_str());
    }
    alignment_.take(t, name, t.strides[0], t.shape[0] > 1);
    if (groups()) alignment_.take(t, name, shape_.channels_last ? p_.channels : n_, args_.groups > 1);
    if (shape_.channels_last) alignment_.take(t, name, channels_, t.shape[2] > 1);
  }
  Tensor read_like(const DLTensor* given, const char* name, std::initializer_list<Dtype> dtypes) {
    const Tensor t = ops::read(given, name, x_.rank, dtypes, call_.place);
    for (int d = 0; d < x_.rank; ++d) expect_extent(t, name, d, x_.shape[d]);
    take(t, name);
    return t;
  }
  Tensor read_result(const DLTensor* given, const char* name, std::initializer_list<Dtype> dtypes) {
    const Tensor t = read_like(given, name, dtypes);
    expect_apart(t, name);
    expect_same_place(t, name, x_, "x");
    if (args_.residual != nullptr) expect_same_place(t, name, residual_, "residual");
    return t;
  }

  void read_results() {
    if (args_.residual_out != nullptr && args_.residual == nullptr)
      refuse("residual_out is given; it must be NULL without residual");
    coded_ = wants_codes(args_);
    if (coded_) {
      expect_codes(args_, call_, x_.shape[0], x_.shape[1]);
      shape_.out = Dtype::f32, p_.out_stride = pitch_between(n_);
    } else {
      read_out();
    }
    if (args_.residual_out == nullptr) return;
    const Tensor sum = read_result(args_.residual_out, "residual_out", {x_.dtype});
    if (sum.data != nullptr && sum.data == p_.out) refuse("residual_out is out; only one can be written there");
    p_.residual_out = sum.data, p_.residual_out_stride = sum.strides[0];
  }
  void read_out() {
    if (args_.scale_kind != QUERN_SCALE_NONE)
      refuse_value("scale_kind", std::int64_t{args_.scale_kind}, "QUERN_SCALE_NONE unless out has 8 bits");
    if (args_.out_scale != nullptr) refuse("out_scale is given; it must be NULL unless out has 8 bits");
    if (args_.dense != nullptr) refuse("dense is given; it must be NULL unless out has 8 bits");
    if (args_.flags & QUERN_NORM_POWER_OF_TWO) refuse("flags has QUERN_NORM_POWER_OF_TWO; allowed with 8-bit out only");
    const Tensor out = read_result(args_.out, "out", {Dtype::f16, Dtype::bf16, Dtype::f32});
    shape_.out = out.dtype;
    p_.out = out.data, p_.out_stride = out.strides[0];
  }

  Dtype read_vector(const DLTensor* given, const char* name, const void** to) {
    if (given == nullptr) return Dtype::other;
    const Tensor t = ops::read(given, name, 1, {x_.dtype, Dtype::f32}, call_.place);
    expect_extent(t, name, 0, channels_);
    expect_unit_stride(t, name, 0);
    if (!groups() || shape_.channels_last) expect_aligned(t, name, call_.alignment);
    *to = t.data;
    return t.dtype;
  }
  Dtype read_modulation(const DLTensor* given, const char* name, const void** to, q::i64* stride) {
    if (given == nullptr) return Dtype::other;
    if (groups()) refuse(std::string(name) + " is given; it must be NULL with QUERN_NORM_GROUP");
    const Tensor t = ops::read(given, name, 2, {x_.dtype, Dtype::f32}, call_.place);
    const std::int64_t rows = x_.shape[0], m = t.shape[0];
    expect_extent(t, name, 1, x_.shape[1]);
    if (rows > 0 && (m < 1 || rows % m != 0))
      refuse_extent(name, 0, m, ("divisors of the " + std::to_string(rows) + " rows").c_str());
    expect_unit_stride(t, name, 1);
    alignment_.take(t, name, t.strides[0], m > 1);
    *to = t.data, *stride = t.strides[0];
    const auto each = static_cast<std::int32_t>(m > 0 ? std::max<std::int64_t>(rows / m, 1) : 1);
    if (p_.each.value != 0 && p_.each.value != each) refuse_extent(name, 0, m, "as many as scale has");
    p_.each = divisor(each);
    return t.dtype;
  }
  void read_parameters() {
    shape_.weight = read_vector(args_.weight, "weight", &p_.weight);
    shape_.bias = read_vector(args_.bias, "bias", &p_.bias);
    if (args_.weight != nullptr && args_.bias != nullptr && shape_.weight != shape_.bias)
      refuse_dtype("bias", args_.bias->dtype, {shape_.weight});
    shape_.scale = read_modulation(args_.scale, "scale", &p_.scale, &p_.scale_stride);
    shape_.shift = read_modulation(args_.shift, "shift", &p_.shift, &p_.shift_stride);
    if (args_.scale != nullptr && args_.shift != nullptr && shape_.scale != shape_.shift)
      refuse_dtype("shift", args_.shift->dtype, {shape_.scale});
    if (p_.each.value == 0) p_.each = divisor(1);
    if ((args_.flags & QUERN_NORM_WEIGHT_PLUS_ONE) != 0 && args_.weight == nullptr)
      refuse("flags has QUERN_NORM_WEIGHT_PLUS_ONE; that needs weight");
    if ((args_.flags & QUERN_NORM_SCALE_ALONE) != 0 && args_.scale == nullptr)
      refuse("flags has QUERN_NORM_SCALE_ALONE; that needs scale");
    p_.weight_offset = (args_.flags & QUERN_NORM_WEIGHT_PLUS_ONE) != 0 ? 1.0f : 0.0f;
    p_.scale_offset = (args_.flags & QUERN_NORM_SCALE_ALONE) != 0 ? 0.0f : 1.0f;
  }

  void finish() {
    p_.eps = args_.eps;
    p_.divide = shape_.kind == NormKind::l2 ? 1.0f : static_cast<float>(n_);
    const RowShape rows = fit(n_, alignment_.access(), call_.device->limits.warp_size);
    shape_.tail = rows.tail, shape_.access = rows.access, shape_.team = rows.team;
    problem_.sms = call_.sms;
    const bool modulated = shape_.scale != Dtype::other || shape_.shift != Dtype::other;
    problem_.way = coded_ ? is_front(args_) ? Way::quantize : Way::own_then_quantize
                   : shape_.kind == NormKind::rms && !modulated && shape_.bias == Dtype::other &&
                           shape_.out == shape_.element && n_ <= kRmsnormColumns
                       ? Way::rmsnorm
                       : Way::own;
    if (problem_.way == Way::own_then_quantize)
      problem_.between = 4 * static_cast<std::uint64_t>(p_.rows * p_.out_stride);
    if (problem_.way == Way::rmsnorm || problem_.way == Way::quantize || n_ <= kMostHeld) return;
    // As few passes a piece as leave no more pieces than there is room for.
    const std::int64_t pass = std::int64_t{q::kNormPieceThreads} * q::kNormHeld, passes = (n_ + pass - 1) / pass;
    const std::int64_t each = (passes + q::kNormPieces - 1) / q::kNormPieces;
    shape_.stage = NormStage::apply;
    p_.piece = static_cast<std::int32_t>(each * pass);
    p_.pieces = static_cast<std::int32_t>((n_ + p_.piece - 1) / p_.piece);
    // Grows with n, which the number of pieces does not always do.
    const auto room = static_cast<std::uint64_t>(std::min<std::int64_t>(passes, q::kNormPieces));
    problem_.moments = (room * static_cast<std::uint64_t>(p_.rows) * sizeof(q::NormMoments) + 255) / 256 * 256;
  }

  const quern_norm_args& args_;
  const Call& call_;
  Alignment alignment_;
  Problem problem_{};
  Shape& shape_ = problem_.shape;
  q::NormParams& p_ = problem_.params;
  Tensor x_, residual_;
  std::int64_t channels_ = 0, n_ = 0;
  bool coded_ = false;
};

Problem read_problem(const quern_norm_args& args, const Runtime& runtime, bool may_lack_data) {
  const Call call = read_call(runtime, args, kFlags, "enum quern_call_flags and quern_norm_flags", 4, may_lack_data);
  return Reader(args, call).read();
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

void launch_stage(const Runtime& runtime, const jit::Kernel& kernel, Problem& problem, const quern_norm_args& args) {
  const RowShape rows = problem.shape.rows();
  const int threads = threads_of(rows, runtime.driver->device().limits.warp_size);
  const std::int64_t teams = threads / rows.team, all = problem.params.rows;
  const std::int64_t units = problem.params.pieces > 0 ? all * problem.params.pieces : (all + teams - 1) / teams;
  const std::int64_t most =
      args.max_sms > 0 ? std::int64_t{problem.sms} * blocks_per_sm(problem.shape, threads) : std::int64_t{INT32_MAX};
  jit::Launch launch;
  launch.grid[0] = static_cast<std::uint32_t>(std::min(units, most));
  launch.block[0] = static_cast<std::uint32_t>(threads);
  launch.programmatic = (args.flags & QUERN_CALL_PROGRAMMATIC) != 0;
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
  const RowShape rows = fit(n, n * bytes_of(shape.element) % 16 == 0 ? 16 : 4, target.warp_size);
  shape.tail = rows.tail, shape.access = rows.access, shape.team = rows.team;
  if (n > kMostHeld) return;
  for (const bool residual : {false, true}) {
    shape.residual = residual;
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
    if (split) launch_stage(runtime, *first, problem, args);
    launch_stage(runtime, *kernel, problem, args);
  }
  if (coded) quantize::run(runtime, codes.args);
}

}  // namespace quern::ops::norm
