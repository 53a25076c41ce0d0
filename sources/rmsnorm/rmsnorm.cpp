// The rmsnorm op: rows by their root mean square, behind the sum with a residual.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cmath>
#include <string>

#include "jit/error.h"
#include "sources/call.h"
#include "sources/common_headers.h"
#include "sources/description.h"
#include "sources/embedded.h"
#include "sources/launch.h"
#include "sources/ops.h"
#include "sources/rmsnorm/params.cuh"
#include "sources/tensor.h"

namespace quern::ops::rmsnorm {
namespace {

constexpr std::int64_t kMostColumns = 65536;
constexpr int kMostThreads = 1024;  // of a row; a longer one is read twice,
constexpr int kLongThreads = 512;   // by so many
constexpr int kPairThreads = 256;   // blocks of no more take two rows, one after the other
constexpr int kBlockThreads = 256;  // where a warp or less takes a row
constexpr std::uint32_t kFlags = QUERN_RMSNORM_WEIGHT_PLUS_ONE | QUERN_RMSNORM_CONSTANT_WEIGHT;

struct Shape {
  Dtype element = Dtype::bf16;
  Dtype weight = Dtype::other;  // other: none
  bool residual = false;
  bool tail = false;  // rows end within a vector
  int access = 16;    // bytes that an access takes: 16, 8, 4 or 2
  int team = 0;       // threads of a row, each with kRmsnormVectors vectors; 0: a row is longer than what they can hold
};

constexpr Names<Dtype, 4> kWeights = {
    {{"none", Dtype::other}, {"f16", Dtype::f16}, {"bf16", Dtype::bf16}, {"f32", Dtype::f32}}};
constexpr Names<int, 4> kAccesses = {{{"16", 16}, {"8", 8}, {"4", 4}, {"2", 2}}};
constexpr auto kConstants = describe<Shape>(
    tag_rmsnorm, "rmsnorm", choice<&Shape::element>("dtype", "ELEMENT", kFloatDtypes),
    choice<&Shape::weight>("weight", nullptr, kWeights).optional(),
    flag<&Shape::residual>("residual", "RESIDUAL").optional(),
    choice<&Shape::access>("access", "ACCESS", kAccesses).optional(), flag<&Shape::tail>("tail", "TAIL").optional(),
    number<&Shape::team>("team", nullptr, {0, kMostThreads}));

// How a kernel shares out rows among threads.
struct Tiling {
  int team, threads, blocks_per_sm;
  int teams() const { return threads / team; }
};

// Rows of 16 bits leave 64 registers to each of a multiprocessor's threads, those of f32 twice as many: what is held of
// a row and what is on its way of the next. Long rows hold nothing.
Tiling tile(const Shape& shape, const jit::TargetInfo& target) {
  const int team = shape.team == 0 ? kLongThreads : shape.team;
  const int threads = team <= static_cast<int>(target.warp_size) ? kBlockThreads : team;
  const int resident = shape.element == Dtype::f32 ? 512 : 1024;
  return {team, threads, std::clamp(resident / threads, 1, 16)};
}

// Team and access for rows of n elements, `alignment` bytes being what all of them are aligned to.
void fit(Shape& shape, std::int64_t n, int alignment, std::uint32_t warp) {
  shape.access = alignment;
  const std::int64_t elements = alignment == 16 ? 8 : 4, vectors = (n + elements - 1) / elements;
  const auto threads = static_cast<std::uint32_t>((vectors + q::kRmsnormVectors - 1) / q::kRmsnormVectors);
  const std::uint32_t team = threads <= warp ? std::bit_ceil(threads) : (threads + warp - 1) / warp * warp;
  shape.team = team <= kMostThreads ? static_cast<int>(team) : 0;
  shape.tail = n % elements != 0;
}

Constants constants(const jit::Spec& spec) { return kConstants.to_constants(kConstants.to_shape(spec)); }

jit::Spec parse(const Constants& given, const jit::TargetInfo& target) {
  const Shape shape = kConstants.read(given);
  const auto warp = static_cast<int>(target.warp_size);
  if (shape.team > warp ? shape.team % warp != 0
                        : !std::has_single_bit(static_cast<unsigned>(shape.team)) && shape.team != 0) {
    throw Error(QUERN_INVALID, "rmsnorm: team is " + std::to_string(shape.team) + "; allowed: 0, powers of two to " +
                                   std::to_string(warp) + ", multiples of " + std::to_string(warp) + " to 1024");
  }
  if (shape.weight != Dtype::other && shape.weight != Dtype::f32 && shape.weight != shape.element) {
    throw Error(QUERN_INVALID,
                std::string("rmsnorm: weight is ") + name_of(shape.weight) + "; allowed: none, f32 and dtype's");
  }
  if (shape.access < bytes_of(shape.element)) {
    throw Error(QUERN_INVALID, "rmsnorm: access is 2; allowed with f32: 16, 8, 4");
  }
  return kConstants.to_spec(shape, target.target);
}

jit::Unit unit(const jit::Spec& spec) {
  const Shape shape = kConstants.to_shape(spec);
  jit::Unit unit;
  unit.op = "rmsnorm";
  unit.target = jit::Target::from_tag(spec.target);
  unit.entry = "quern_rmsnorm";
  kConstants.define(shape, &unit);
  const Tiling tiling = tile(shape, jit::limits_of(unit.target));
  const bool weighted = shape.weight != Dtype::other;
  for (const auto& [name, value] :
       {std::pair<const char*, std::string>{"WEIGHT", name_of(weighted ? shape.weight : shape.element)},
        {"HAS_WEIGHT", weighted ? "1" : "0"},
        {"HELD", shape.team != 0 ? "1" : "0"},
        {"TEAM", std::to_string(tiling.team)},
        {"VECTORS", std::to_string(q::kRmsnormVectors)},
        {"THREADS", std::to_string(tiling.threads)},
        {"BLOCKS_PER_SM", std::to_string(tiling.blocks_per_sm)}}) {
    unit.constants.push_back({name, value});
  }
  unit.source = embedded("rmsnorm/rmsnorm.cuh");
  unit.headers = device_headers(unit.target);
  return unit;
}

// Before the first layer there is nothing to add, in front of every other norm there is; and the latent norms of MLA.
void list(const quern_model& model, const jit::TargetInfo& target, std::vector<jit::Spec>* specs) {
  if (model.flags & QUERN_MODEL_LAYER_NORM) return;
  Shape shape;
  shape.element = model.dtype.bits == 0 ? Dtype::bf16 : dtype_of(model.dtype);
  if (shape.element != Dtype::f16 && shape.element != Dtype::bf16 && shape.element != Dtype::f32) return;
  shape.weight = shape.element;
  const auto add = [&](std::uint32_t n, bool residual) {
    if (n == 0 || n > kMostColumns) return;
    shape.residual = residual;
    fit(shape, n, n * static_cast<std::uint32_t>(bytes_of(shape.element)) % 16 == 0 ? 16 : 4, target.warp_size);
    const jit::Spec spec = kConstants.to_spec(shape, target.target);
    if (std::find(specs->begin(), specs->end(), spec) == specs->end()) specs->push_back(spec);
  };
  add(model.hidden_size, false);
  add(model.hidden_size, true);
  if (model.flags & QUERN_MODEL_MLA) add(model.q_lora_rank, false);
}

struct Problem {
  Shape shape;
  q::RmsnormParams params;
  int sms;
};

// Reads the tensors of a call, and finds what all rows of all of them are aligned to.
class Reader {
 public:
  Reader(const quern_rmsnorm_args& args, const Call& call) : args_(args), call_(call), access_(call.alignment) {}

  Problem read() {
    Problem problem{{}, {}, call_.sms};
    q::RmsnormParams& p = problem.params;
    x_ = ops::read(args_.x, "x", 2, {Dtype::f16, Dtype::bf16, Dtype::f32}, call_.place);
    if (x_.shape[1] < 1 || x_.shape[1] > kMostColumns) refuse_extent("x", 1, x_.shape[1], "1 to 65536");
    take_matrix(x_, "x");
    p.x = x_.data, p.x_stride = x_.strides[0];
    if (args_.residual != nullptr) {
      residual_ = read_like_x(args_.residual, "residual");
      p.residual = residual_.data, p.residual_stride = residual_.strides[0];
      problem.shape.residual = true;
    } else if (args_.residual_out != nullptr) {
      throw Error(QUERN_INVALID, "residual_out is given; it must be NULL without residual");
    }
    const Tensor out = read_result(args_.out, "out");
    p.out = out.data, p.out_stride = out.strides[0];
    if (args_.residual_out != nullptr) {
      const Tensor sum = read_result(args_.residual_out, "residual_out");
      if (sum.data != nullptr && sum.data == out.data)
        throw Error(QUERN_INVALID, "residual_out is out; only one can be written there");
      p.residual_out = sum.data, p.residual_out_stride = sum.strides[0];
    }
    problem.shape.element = x_.dtype;
    read_weight(problem);
    if (!(args_.eps >= 0.0f) || std::isinf(args_.eps)) refuse_value("eps", double{args_.eps}, "0 and more");
    if (args_.reserved != 0) refuse_value("reserved", std::int64_t{args_.reserved}, "0");
    p.eps = args_.eps;
    p.rows = static_cast<std::int32_t>(x_.shape[0]), p.n = static_cast<std::int32_t>(x_.shape[1]);
    fit(problem.shape, p.n, access_, call_.device->limits.warp_size);
    return problem;
  }

 private:
  // Data keep what was promised of them; rows lie where they lie.
  void take_matrix(const Tensor& t, const char* name) {
    expect_unit_stride(t, name, 1);
    Tensor data = t;
    data.strides[0] = 0;
    expect_aligned(data, name, call_.alignment);
    const auto bytes = static_cast<std::uint64_t>(t.strides[0] * bytes_of(t.dtype));
    while (t.shape[0] > 1 && bytes % static_cast<std::uint64_t>(access_) != 0) access_ /= 2;
  }
  Tensor read_like_x(const DLTensor* given, const char* name) {
    const Tensor t = ops::read(given, name, 2, {x_.dtype}, call_.place);
    for (int d = 0; d < 2; ++d) expect_extent(t, name, d, x_.shape[d]);
    take_matrix(t, name);
    return t;
  }
  Tensor read_result(const DLTensor* given, const char* name) {
    const Tensor t = read_like_x(given, name);
    expect_apart(t, name);
    expect_same_rows(t, name, x_, "x");
    if (args_.residual != nullptr) expect_same_rows(t, name, residual_, "residual");
    return t;
  }
  // Where one is written over the other, each element must be where it was read.
  static void expect_same_rows(const Tensor& t, const char* name, const Tensor& other, const char* other_name) {
    if (t.data == nullptr || t.data != other.data || t.shape[0] <= 1 || t.strides[0] == other.strides[0]) return;
    throw Error(QUERN_INVALID, std::string(name) + " is " + other_name + ", but its rows lie " +
                                   std::to_string(t.strides[0]) + " elements apart and those of " + other_name + " " +
                                   std::to_string(other.strides[0]));
  }
  void read_weight(Problem& problem) {
    if (args_.weight == nullptr) {
      if (args_.flags & QUERN_RMSNORM_WEIGHT_PLUS_ONE)
        throw Error(QUERN_INVALID, "flags has QUERN_RMSNORM_WEIGHT_PLUS_ONE; that needs weight");
      return;
    }
    const Tensor weight = ops::read(args_.weight, "weight", 1, {x_.dtype, Dtype::f32}, call_.place);
    expect_extent(weight, "weight", 0, x_.shape[1]);
    expect_unit_stride(weight, "weight", 0);
    expect_aligned(weight, "weight", call_.alignment);
    problem.shape.weight = weight.dtype;
    problem.params.weight = weight.data;
    problem.params.weight_offset = (args_.flags & QUERN_RMSNORM_WEIGHT_PLUS_ONE) != 0 ? 1.0f : 0.0f;
    problem.params.constant_weight = (args_.flags & QUERN_RMSNORM_CONSTANT_WEIGHT) != 0;
  }

  const quern_rmsnorm_args& args_;
  const Call& call_;
  int access_;
  Tensor x_, residual_;
};

Problem read_problem(const quern_rmsnorm_args& args, const Runtime& runtime, bool may_lack_data) {
  const Call call = read_call(runtime, args, kFlags, "enum quern_call_flags and quern_rmsnorm_flags", 4, may_lack_data);
  return Reader(args, call).read();
}

const jit::Kernel* kernel_of(const Problem& problem, const Runtime& runtime, const quern_rmsnorm_args& args) {
  return kernel_for(runtime, kConstants.to_spec(problem.shape, runtime.driver->device().limits.target), args.flags,
                    args.stream);
}

}  // namespace

const Op op{"rmsnorm", unit, parse, list, constants};

std::uint64_t workspace(const Runtime& runtime, const quern_rmsnorm_args& args) {
  read_problem(args, runtime, true);
  return 0;
}

void prepare(const Runtime& runtime, const quern_rmsnorm_args& args) {
  kernel_of(read_problem(args, runtime, true), runtime, args);
}

void run(const Runtime& runtime, const quern_rmsnorm_args& args) {
  Problem problem = read_problem(args, runtime, false);
  const jit::Kernel* kernel = kernel_of(problem, runtime, args);
  if (problem.params.rows == 0) return;
  const Tiling tiling = tile(problem.shape, runtime.driver->device().limits);
  // With a residual a block takes one row: blocks that come and go keep reads and writes apart from each other's, where
  // blocks that stay all read at once and then all write (4% slower on an H200). Without, short rows are taken in
  // pairs, and long ones, of which few blocks fit beside each other, by blocks that stay and read ahead. All blocks
  // have as many rows, but for one at most: those with a row more would keep the memory waiting for themselves.
  const std::int64_t most = std::int64_t{problem.sms} * tiling.blocks_per_sm;
  const std::int64_t units = (std::int64_t{problem.params.rows} + tiling.teams() - 1) / tiling.teams();
  std::int64_t rounds = (units + most - 1) / most;
  if (args.max_sms == 0 && problem.shape.residual) rounds = 1;
  if (args.max_sms == 0 && tiling.threads <= kPairThreads) rounds = std::min<std::int64_t>(rounds, 2);
  jit::Launch launch;
  launch.grid[0] = static_cast<std::uint32_t>((units + rounds - 1) / rounds);
  launch.block[0] = static_cast<std::uint32_t>(tiling.threads);
  launch.programmatic = (args.flags & QUERN_CALL_PROGRAMMATIC) != 0;
  launch.stream = args.stream;
  problem.params.rehearses =
      problem.params.constant_weight != 0 && may_rehearse(launch, runtime.driver->device().sm_count);
  ops::launch(runtime, *kernel, launch, "launching rmsnorm", problem.params);
}

}  // namespace quern::ops::rmsnorm
