// The norm_backward op: what flows back through a layer or RMS norm, to its rows, its weight and its bias.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "jit/error.h"
#include "sources/call.h"
#include "sources/common_headers.h"
#include "sources/description.h"
#include "sources/embedded.h"
#include "sources/launch.h"
#include "sources/norm/rows.h"
#include "sources/norm_backward/params.cuh"
#include "sources/ops.h"
#include "sources/together.h"
#include "sources/workspace.h"

namespace quern::ops::norm_backward {
namespace {

using norm::RowShape;

constexpr std::int64_t kMostColumns = norm::kMostHeld, kMostRows = 1 << 30;
constexpr std::int64_t kRowsOfPart = 8, kFewParts = 128;

enum class Stage : std::uint8_t { rows, sums };

struct Shape {
  Stage stage = Stage::rows;
  Dtype out = Dtype::f32;  // the gradients of weight and bias
  Dtype element = Dtype::bf16;
  Dtype weight = Dtype::other;  // other: none
  bool centred = true, add = false, sums = true, tail = false;
  bool alone = false;  // rows: the sums are those of all rows
  int access = 16;
  int team = 0;

  RowShape rows() const { return {tail, access, team}; }
};

constexpr bool is_rows(const Shape& shape) { return shape.stage == Stage::rows; }

constexpr bool has_out(const Shape& shape) { return shape.stage == Stage::sums || shape.alone; }

constexpr Names<Stage, 2> kStages = {{{"rows", Stage::rows}, {"sums", Stage::sums}}};
constexpr Names<bool, 2> kKinds = {{{"layer", true}, {"rms", false}}};
constexpr Names<Dtype, 4> kOptional = {
    {{"none", Dtype::other}, {"f16", Dtype::f16}, {"bf16", Dtype::bf16}, {"f32", Dtype::f32}}};
constexpr Names<int, 4> kAccesses = {{{"16", 16}, {"8", 8}, {"4", 4}, {"2", 2}}};
constexpr auto kConstants =
    describe<Shape>(tag_norm_backward, "norm_backward", choice<&Shape::stage>("stage", nullptr, kStages),
                    flag<&Shape::alone>("alone", "ALONE").optional().when(is_rows),
                    choice<&Shape::out>("out", "OUT", kFloatDtypes).when(has_out),
                    choice<&Shape::element>("dtype", "ELEMENT", kFloatDtypes).when(is_rows),
                    choice<&Shape::weight>("weight", nullptr, kOptional).optional().when(is_rows),
                    choice<&Shape::centred>("kind", nullptr, kKinds).when(is_rows),
                    flag<&Shape::add>("add", "HAS_ADD").optional().when(is_rows),
                    flag<&Shape::sums>("sums", "SUMS").optional().when(is_rows),
                    choice<&Shape::access>("access", "ACCESS", kAccesses).optional().when(is_rows),
                    flag<&Shape::tail>("tail", "TAIL").optional().when(is_rows),
                    number<&Shape::team>("team", nullptr, {1, norm::kMostThreads}).when(is_rows));

Constants constants(const jit::Spec& spec) { return kConstants.to_constants(kConstants.to_shape(spec)); }

jit::Spec parse(const Constants& given, const jit::TargetInfo& target) {
  const Shape shape = kConstants.read(given);
  if (shape.stage == Stage::rows) {
    if (shape.weight != Dtype::other && shape.weight != Dtype::f32 && shape.weight != shape.element) {
      throw Error(QUERN_INVALID, std::string("norm_backward: weight is ") + name_of(shape.weight) +
                                     "; allowed: none, f32 and " + name_of(shape.element));
    }
    norm::expect_team("norm_backward", shape.rows(), shape.element, norm::kMostThreads, target.warp_size);
  }
  return kConstants.to_spec(shape, target.target);
}

// The sums over rows take 32 registers of a thread, what it holds of a row as many, and the next row's numbers 16 or 32
// more where there is room for them.
struct Residence {
  int blocks;
  bool ahead;
};
Residence residence(const Shape& shape, int threads) {
  if (!shape.sums) return {std::max((shape.element == Dtype::f32 ? 512 : 768) / threads, 1), false};
  const int most = shape.element == Dtype::f32 ? 384 : 512;
  return {std::max(most / threads, 1), threads <= most};
}

jit::Unit unit(const jit::Spec& spec) {
  const Shape shape = kConstants.to_shape(spec);
  jit::Unit unit;
  unit.op = "norm_backward";
  unit.target = jit::Target::from_tag(spec.target);
  unit.entry = shape.stage == Stage::rows ? "quern_norm_backward" : "quern_norm_backward_sums";
  kConstants.define(shape, &unit);
  if (shape.stage == Stage::rows) {
    const std::uint32_t warp = jit::limits_of(unit.target).warp_size;
    norm::define_rows(shape.rows(), warp, &unit);
    const Residence fits = residence(shape, norm::threads_of(shape.rows(), warp));
    const bool weighted = shape.weight != Dtype::other;
    for (const auto& [name, value] :
         {std::pair<const char*, std::string>{"WEIGHT", name_of(weighted ? shape.weight : shape.element)},
          {"HAS_WEIGHT", weighted ? "1" : "0"},
          {"CENTRED", shape.centred ? "1" : "0"},
          {"AHEAD", fits.ahead ? "1" : "0"},
          {"BLOCKS_PER_SM", std::to_string(fits.blocks)}}) {
      unit.constants.push_back({name, value});
    }
  }
  unit.source = embedded(shape.stage == Stage::rows ? "norm_backward/rows.cuh" : "norm_backward/sums.cuh");
  unit.headers = device_headers(unit.target);
  return unit;
}

// Training is not what a model's warming is for.
void list(const quern_model&, const jit::TargetInfo&, std::vector<jit::Spec>*) {}

struct Problem {
  Shape shape, sums;
  q::NormBackwardParams params;
  q::NormSumsParams sums_params;
  int sms;
  int most_parts;  // that the workspace has room for

  std::uint64_t floats() const {
    return shape.sums ? static_cast<std::uint64_t>(most_parts) * static_cast<std::uint64_t>(params.n) : 0;
  }
  std::uint64_t workspace() const { return shape.sums ? kCounterBytes + 2 * floats() * sizeof(float) : 0; }
};

class Reader {
 public:
  Reader(const quern_norm_backward_args& args, const Call& call) : args_(args), call_(call), alignment_(call) {}

  Problem read() {
    q::NormBackwardParams& p = problem_.params;
    if (args_.kind != QUERN_NORM_LAYER && args_.kind != QUERN_NORM_RMS)
      refuse_value("kind", std::int64_t{args_.kind}, "QUERN_NORM_LAYER and QUERN_NORM_RMS");
    if (!(args_.eps >= 0.0f) || std::isinf(args_.eps)) refuse_value("eps", double{args_.eps}, "0 and more");
    x_ = ops::read(args_.x, "x", 2, {Dtype::f16, Dtype::bf16, Dtype::f32}, call_.place);
    if (x_.shape[1] < 1 || x_.shape[1] > kMostColumns) refuse_extent("x", 1, x_.shape[1], "1 to 16384");
    if (x_.shape[0] > kMostRows) refuse_extent("x", 0, x_.shape[0], "at most 2^30");
    take(x_, "x");
    p.x = x_.data, p.x_stride = x_.strides[0];
    dout_ = read_like_x(args_.dout, "dout");
    p.dout = dout_.data, p.dout_stride = dout_.strides[0];
    if (args_.add != nullptr) {
      add_ = read_like_x(args_.add, "add");
      p.add = add_.data, p.add_stride = add_.strides[0];
    }
    read_dx();
    read_weight();
    read_sums();
    if (args_.dx == nullptr && args_.dweight == nullptr && args_.dbias == nullptr)
      throw Error(QUERN_INVALID, "dx, dweight and dbias are NULL; one of them must be given");
    share_out();
    return problem_;
  }

 private:
  void take(const Tensor& t, const char* name) {
    expect_unit_stride(t, name, 1);
    alignment_.take(t, name, t.strides[0], t.shape[0] > 1);
  }
  Tensor read_like_x(const DLTensor* given, const char* name) {
    const Tensor t = ops::read(given, name, 2, {x_.dtype}, call_.place);
    for (int d = 0; d < 2; ++d) expect_extent(t, name, d, x_.shape[d]);
    take(t, name);
    return t;
  }
  void read_dx() {
    if (args_.dx == nullptr) {
      if (args_.add != nullptr) throw Error(QUERN_INVALID, "add is given; it must be NULL without dx");
      return;
    }
    const Tensor dx = read_like_x(args_.dx, "dx");
    expect_apart(dx, "dx");
    norm::expect_same_place(dx, "dx", x_, "x");
    norm::expect_same_place(dx, "dx", dout_, "dout");
    if (args_.add != nullptr) norm::expect_same_place(dx, "dx", add_, "add");
    problem_.params.dx = dx.data, problem_.params.dx_stride = dx.strides[0];
    dx_given_ = true;
  }
  Tensor read_vector(const DLTensor* given, const char* name, std::initializer_list<Dtype> dtypes) {
    const Tensor t = ops::read(given, name, 1, dtypes, call_.place);
    expect_extent(t, name, 0, x_.shape[1]);
    expect_unit_stride(t, name, 0);
    return t;
  }
  void read_weight() {
    if (args_.weight == nullptr) {
      if (args_.flags & QUERN_NORM_BACKWARD_WEIGHT_PLUS_ONE)
        throw Error(QUERN_INVALID, "flags has QUERN_NORM_BACKWARD_WEIGHT_PLUS_ONE; that needs weight");
      return;
    }
    const Tensor weight = read_vector(args_.weight, "weight", {x_.dtype, Dtype::f32});
    expect_aligned(weight, "weight", call_.alignment);
    // Sums alone do not ask for it.
    if (!dx_given_) return;
    problem_.shape.weight = weight.dtype;
    problem_.params.weight = weight.data;
    problem_.params.weight_offset = (args_.flags & QUERN_NORM_BACKWARD_WEIGHT_PLUS_ONE) != 0 ? 1.0f : 0.0f;
  }
  void read_sums() {
    Tensor dweight, dbias;
    if (args_.dweight != nullptr) {
      dweight = read_vector(args_.dweight, "dweight", {Dtype::f32, x_.dtype});
      problem_.sums.out = dweight.dtype;
      problem_.sums_params.dweight_out = dweight.data;
    }
    if (args_.dbias != nullptr) {
      if (args_.kind != QUERN_NORM_LAYER)
        throw Error(QUERN_INVALID, "dbias is given; it must be NULL unless kind is QUERN_NORM_LAYER");
      dbias = read_vector(args_.dbias, "dbias", {Dtype::f32, x_.dtype});
      if (args_.dweight != nullptr && dbias.dtype != dweight.dtype)
        refuse_dtype("dbias", args_.dbias->dtype, {dweight.dtype});
      if (dbias.data != nullptr && dbias.data == dweight.data)
        throw Error(QUERN_INVALID, "dbias is dweight; only one can be written there");
      problem_.sums.out = dbias.dtype;
      problem_.sums_params.dbias_out = dbias.data;
    }
    problem_.shape.sums = args_.dweight != nullptr || args_.dbias != nullptr;
  }
  void share_out() {
    Shape& shape = problem_.shape;
    q::NormBackwardParams& p = problem_.params;
    const std::uint32_t warp = call_.device->limits.warp_size;
    shape.element = x_.dtype, shape.centred = args_.kind == QUERN_NORM_LAYER, shape.add = args_.add != nullptr;
    const RowShape rows = norm::fit(x_.shape[1], alignment_.access(), warp);
    shape.tail = rows.tail, shape.access = rows.access, shape.team = rows.team;
    problem_.sums.stage = Stage::sums;
    problem_.sms = call_.sms;
    p.rows = static_cast<std::int32_t>(x_.shape[0]), p.n = static_cast<std::int32_t>(x_.shape[1]);
    p.eps = args_.eps;
    // Whole rounds of a block's teams, in few enough parts where sums are to be joined.
    const std::int64_t teams = norm::threads_of(rows, warp) / rows.team, units = (p.rows + teams - 1) / teams;
    // A part's sums are as much to write and read as two rows: it has several where there are rows enough. A few rounds
    // of rows take less than a second launch.
    const std::int64_t most =
        shape.sums ? std::min(units, std::clamp<std::int64_t>(units / kRowsOfPart, kFewParts, q::kNormParts)) : units;
    const std::int64_t each = shape.sums && units <= q::kNormAloneRounds ? std::max<std::int64_t>(units, 1)
                              : most == 0                                ? 1
                                                                         : (units + most - 1) / most;
    p.each = static_cast<std::int32_t>(each * teams);
    p.parts = static_cast<std::int32_t>((units + each - 1) / each);
    problem_.most_parts = static_cast<int>(std::min<std::int64_t>(most, q::kNormParts));
    problem_.sums_params.parts = p.parts, problem_.sums_params.n = p.n;
    shape.alone = shape.sums && p.parts == 1;
    if (shape.alone) shape.out = problem_.sums.out;
  }

  const quern_norm_backward_args& args_;
  const Call& call_;
  norm::Alignment alignment_;
  Problem problem_{};
  Tensor x_, dout_, add_;
  bool dx_given_ = false;
};

Problem read_problem(const quern_norm_backward_args& args, const Runtime& runtime, bool may_lack_data) {
  const Call call = read_call(runtime, args, QUERN_NORM_BACKWARD_WEIGHT_PLUS_ONE,
                              "enum quern_call_flags and quern_norm_backward_flags", 4, may_lack_data);
  return Reader(args, call).read();
}

const jit::Kernel* kernel_of(const Shape& shape, const Runtime& runtime, const quern_norm_backward_args& args) {
  return kernel_for(runtime, kConstants.to_spec(shape, runtime.driver->device().limits.target), args.flags,
                    args.stream);
}

void begin(const Runtime& runtime, const quern_norm_backward_args& args, std::initializer_list<Shape> shapes) {
  std::array<jit::Spec, 3> specs;
  std::size_t count = 0;
  for (const Shape& shape : shapes) specs[count++] = kConstants.to_spec(shape, runtime.driver->device().limits.target);
  begin_kernels(runtime, {specs.data(), count}, args.flags, args.stream);
}

jit::Launch how(std::int64_t blocks, int threads, const quern_norm_backward_args& args) {
  jit::Launch launch;
  launch.grid[0] = static_cast<std::uint32_t>(blocks);
  launch.block[0] = static_cast<std::uint32_t>(threads);
  launch.programmatic = (args.flags & QUERN_CALL_PROGRAMMATIC) != 0;
  launch.stream = args.stream;
  return launch;
}

}  // namespace

const Op op{"norm_backward", unit, parse, list, constants};

std::uint64_t workspace(const Runtime& runtime, const quern_norm_backward_args& args) {
  return read_problem(args, runtime, true).workspace();
}

// Fewer rows are one part.
void prepare(const Runtime& runtime, const quern_norm_backward_args& args) {
  const Problem problem = read_problem(args, runtime, true);
  Shape several = problem.shape, alone = problem.shape;
  several.alone = false;
  if (problem.shape.sums) {
    alone.alone = true, alone.out = problem.sums.out;
    begin(runtime, args, {several, problem.sums, alone});
    kernel_of(alone, runtime, args), kernel_of(problem.sums, runtime, args);
  }
  kernel_of(several, runtime, args);
}

void run(const Runtime& runtime, const quern_norm_backward_args& args) {
  Problem problem = read_problem(args, runtime, false);
  q::NormBackwardParams& p = problem.params;
  if (problem.shape.sums) {
    auto* const scratch =
        static_cast<float*>(read_workspace(args.workspace, args.workspace_size, problem.workspace()).scratch);
    float* const second = scratch + problem.floats();
    if (args.dweight != nullptr) p.dweight = scratch, problem.sums_params.dweight = scratch;
    if (args.dbias != nullptr) p.dbias = second, problem.sums_params.dbias = second;
  }
  const bool two = problem.shape.sums && !problem.shape.alone;
  if (two) begin(runtime, args, {problem.shape, problem.sums});
  if (problem.shape.alone) p.dweight = problem.sums_params.dweight_out, p.dbias = problem.sums_params.dbias_out;
  const jit::Kernel* kernel = kernel_of(problem.shape, runtime, args);
  const jit::Kernel* sums = two ? kernel_of(problem.sums, runtime, args) : nullptr;
  if (p.rows > 0) {
    const int threads = norm::threads_of(problem.shape.rows(), runtime.driver->device().limits.warp_size);
    const std::int64_t room = std::int64_t{problem.sms} * residence(problem.shape, threads).blocks;
    const jit::Launch launch = how(args.max_sms > 0 ? std::min<std::int64_t>(p.parts, room) : p.parts, threads, args);
    ops::launch(runtime, *kernel, launch, "launching norm_backward", p);
  }
  // Without a row the gradients of weight and bias are still 0.
  if (sums == nullptr) return;
  const std::int64_t blocks = (p.n + q::kNormSumColumns - 1) / q::kNormSumColumns;
  jit::Launch launch =
      how(args.max_sms > 0 ? std::min<std::int64_t>(blocks, problem.sms) : blocks, q::kNormSumThreads, args);
  launch.grid[1] = 2;
  launch.programmatic = true;  // it waits for the rows by itself
  ops::launch(runtime, *sums, launch, "launching norm_backward", problem.sums_params);
}

}  // namespace quern::ops::norm_backward
