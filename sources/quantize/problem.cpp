// Reading the arguments of a quantisation.
// SPDX-License-Identifier: Apache-2.0
#include "sources/quantize/problem.h"

#include <cmath>
#include <string>

#include "jit/error.h"
#include "sources/call.h"

namespace quern::ops::quantize {
namespace {

constexpr std::uint32_t kFlags = QUERN_QUANTIZE_POWER_OF_TWO | QUERN_QUANTIZE_WEIGHT_PLUS_ONE;

[[noreturn]] void refuse(const std::string& text) { throw Error(QUERN_INVALID, text); }

void refuse_unless_null(const DLTensor* given, const char* name, const char* when) {
  if (given != nullptr) refuse(std::string(name) + " is given; it must be NULL " + when);
}

// A matrix of `rows` and n columns like x, or of codes.
void expect_matrix(const Tensor& t, const char* name, std::int64_t rows, std::int64_t n, int alignment) {
  expect_extent(t, name, 0, rows);
  expect_extent(t, name, 1, n);
  expect_unit_stride(t, name, 1);
  expect_aligned(t, name, alignment);
}

class Reader {
 public:
  Reader(const quern_quantize_args& args, const Call& call, Problem& problem)
      : args_(args), call_(call), shape_(problem.shape), p_(problem.params) {}

  void read_x() {
    x_ = read(args_.x, "x", 2, {Dtype::f16, Dtype::bf16, Dtype::f32}, call_.place);
    expect_unit_stride(x_, "x", 1);
    expect_aligned(x_, "x", call_.alignment);
    shape_.x = x_.dtype;
    rows_ = x_.shape[0];
    n_ = x_.shape[1];
    if (n_ < 1) refuse_extent("x", 1, n_, "1 and more");
    if (shape_.product()) {
      if (n_ % 2 != 0) refuse_extent("x", 1, n_, "even numbers, of which a half is n");
      n_ /= 2;
    }
    p_.x = x_.data, p_.x_stride = x_.strides[0];
    p_.rows = static_cast<std::int32_t>(rows_), p_.n = static_cast<std::int32_t>(n_);
  }

  void read_out() {
    if (shape_.scale == q::Scale::none) {
      refuse_unless_null(args_.out, "out", "with QUERN_SCALE_NONE");
      refuse_unless_null(args_.scale, "scale", "with QUERN_SCALE_NONE");
      if (args_.dense == nullptr) refuse("dense is NULL; it must be given with QUERN_SCALE_NONE");
      shape_.out = Dtype::other;
      return;
    }
    Tensor out = read(args_.out, "out", 2, {Dtype::e4m3, Dtype::e5m2, Dtype::i8, Dtype::u8}, call_.place);
    if (out.dtype != Dtype::i8) {
      out = read_fp8(args_.out, "out", 2, args_.type, "type", call_.place);
    } else if (args_.type != QUERN_FP8_AS_TENSOR) {
      refuse_value("type", std::int64_t{args_.type}, "0, where out is int8");
    }
    expect_matrix(out, "out", rows_, n_, call_.alignment);
    expect_apart(out, "out");
    shape_.out = out.dtype;
    p_.out = out.data, p_.out_stride = out.strides[0];
    read_scale();
  }

  // The sum of a norm, its parameters, and y as it is.
  void read_extras() {
    const char* only = "unless front is QUERN_FRONT_RMSNORM or QUERN_FRONT_LAYERNORM";
    if (!shape_.norm()) {
      refuse_unless_null(args_.residual, "residual", only);
      refuse_unless_null(args_.weight, "weight", only);
    } else if (!(args_.eps >= 0.0f) || std::isinf(args_.eps)) {
      refuse_value("eps", double{args_.eps}, "0 and more");
    }
    if (shape_.front != q::Front::layernorm)
      refuse_unless_null(args_.bias, "bias", "unless front is QUERN_FRONT_LAYERNORM");
    if (args_.residual == nullptr) refuse_unless_null(args_.residual_out, "residual_out", "without residual");
    p_.eps = args_.eps;
    Tensor residual;
    if (args_.residual != nullptr) {
      residual = read_like_x(args_.residual, "residual");
      shape_.residual = true;
      p_.residual = residual.data, p_.residual_stride = residual.strides[0];
    }
    if (args_.residual_out != nullptr) {
      const Tensor sum = read_like_x(args_.residual_out, "residual_out");
      expect_apart(sum, "residual_out");
      expect_same_rows(sum, "residual_out", x_, "x");
      expect_same_rows(sum, "residual_out", residual, "residual");
      p_.residual_out = sum.data, p_.residual_out_stride = sum.strides[0];
    }
    if (args_.dense != nullptr) {
      const Tensor dense = read_like_x(args_.dense, "dense");
      expect_apart(dense, "dense");
      expect_same_rows(dense, "dense", x_, "x");
      if (args_.residual != nullptr) expect_same_rows(dense, "dense", residual, "residual");
      if (dense.data != nullptr && dense.data == p_.residual_out)
        refuse("dense is residual_out; only one can be written there");
      p_.dense = dense.data, p_.dense_stride = dense.strides[0];
    }
    if (args_.weight != nullptr) shape_.weight = read_parameter(args_.weight, "weight", &p_.weight);
    if (args_.bias != nullptr) shape_.bias = read_parameter(args_.bias, "bias", &p_.bias);
    if (shape_.weight != Dtype::other && shape_.bias != Dtype::other && shape_.weight != shape_.bias) {
      refuse_dtype("bias", args_.bias->dtype, {shape_.weight});
    }
    if (args_.flags & QUERN_QUANTIZE_WEIGHT_PLUS_ONE) {
      if (args_.weight == nullptr) refuse("flags has QUERN_QUANTIZE_WEIGHT_PLUS_ONE; that needs weight");
      p_.weight_offset = 1.0f;
    }
  }

 private:
  void read_scale() {
    const std::int64_t groups = (n_ + q::kGroupColumns - 1) / q::kGroupColumns;
    const bool matrix = shape_.scale == q::Scale::group || shape_.scale == q::Scale::block;
    const Tensor scale = read(args_.scale, "scale", matrix ? 2 : 1, {Dtype::f32}, call_.place);
    const std::int64_t blocks = (rows_ + q::kBlockRows - 1) / q::kBlockRows;
    expect_extent(scale, "scale", 0,
                  shape_.scale == q::Scale::block   ? blocks
                  : shape_.scale == q::Scale::given ? 1
                                                    : rows_);
    if (matrix) expect_extent(scale, "scale", 1, groups);
    expect_apart(scale, "scale");
    p_.scale = reinterpret_cast<float*>(scale.data);
    p_.scale_stride_row = scale.strides[0];
    p_.scale_stride_group = matrix ? scale.strides[1] : 0;
  }

  Tensor read_like_x(const DLTensor* given, const char* name) {
    const Tensor t = read(given, name, 2, {shape_.x}, call_.place);
    expect_matrix(t, name, rows_, n_, call_.alignment);
    return t;
  }
  // Where one is written over the other, each element must be where it was read.
  void expect_same_rows(const Tensor& t, const char* name, const Tensor& other, const char* other_name) {
    if (t.data == nullptr || t.data != other.data || rows_ <= 1 || t.strides[0] == other.strides[0]) return;
    refuse(std::string(name) + " is " + other_name + ", but its rows lie " + std::to_string(t.strides[0]) +
           " elements apart and those of " + other_name + " " + std::to_string(other.strides[0]));
  }

  Dtype read_parameter(const DLTensor* given, const char* name, const void** to) {
    const Tensor t = read(given, name, 1, {shape_.x, Dtype::f32}, call_.place);
    expect_extent(t, name, 0, n_);
    expect_unit_stride(t, name, 0);
    expect_aligned(t, name, call_.alignment);
    *to = t.data;
    return t.dtype;
  }

  const quern_quantize_args& args_;
  const Call& call_;
  Shape& shape_;
  q::QuantizeParams& p_;
  Tensor x_;
  std::int64_t rows_ = 0, n_ = 0;
};

q::Front front_of(std::int32_t front) {
  if (front < QUERN_FRONT_NONE || front > QUERN_FRONT_GELU_TANH_MUL) {
    refuse_value("front", std::int64_t{front}, "enum quern_quantize_front");
  }
  return static_cast<q::Front>(front);
}

q::Scale scale_of(std::int32_t kind) {
  switch (kind) {
    case QUERN_SCALE_NONE:
      return q::Scale::none;
    case QUERN_SCALE_STATIC:
    case QUERN_SCALE_TENSOR:
      return q::Scale::given;
    case QUERN_SCALE_TOKEN:
      return q::Scale::token;
    case QUERN_SCALE_GROUP:
      return q::Scale::group;
    case QUERN_SCALE_BLOCK:
      return q::Scale::block;
    default:
      refuse_value("scale_kind", std::int64_t{kind}, "enum quern_scale_kind");
  }
}

}  // namespace

Problem read_problem(const quern_quantize_args& args, const Runtime& runtime, bool may_lack_data) {
  const Call call =
      read_call(runtime, args, kFlags, "enum quern_call_flags and quern_quantize_flags", 4, may_lack_data);
  Problem problem{};
  problem.sms = call.sms;
  problem.all_sms = args.max_sms == 0;
  problem.shape.front = front_of(args.front);
  problem.shape.scale = scale_of(args.scale_kind);
  problem.find_first = args.scale_kind == QUERN_SCALE_TENSOR;
  const bool shared = problem.find_first || problem.shape.scale == q::Scale::block;
  if (shared && (args.flags & QUERN_CALL_BATCH_INVARIANT)) {
    refuse("flags has QUERN_CALL_BATCH_INVARIANT; rows that share a scale depend on each other");
  }
  if (args.scale_kind <= QUERN_SCALE_STATIC && (args.flags & QUERN_QUANTIZE_POWER_OF_TWO)) {
    refuse("flags has QUERN_QUANTIZE_POWER_OF_TWO; this scale_kind finds no scale that could be rounded");
  }
  if (problem.shape.scale == q::Scale::block && problem.shape.front != q::Front::none) {
    refuse_value("front", std::int64_t{args.front}, "QUERN_FRONT_NONE with QUERN_SCALE_BLOCK, which is for weights");
  }
  problem.params.power_of_two = (args.flags & QUERN_QUANTIZE_POWER_OF_TWO) != 0;
  Reader reader(args, call, problem);
  reader.read_x();
  reader.read_out();
  reader.read_extras();
  const auto fit_to = [&](bool few) { fit(problem.shape, problem.params.n, call.alignment, few); };
  fit_to(!problem.shape.product());
  problem.few = problem.shape;
  // Blocks that look for a tensor's scale have something to tell in the end, one after the other: no more than needed.
  // By the whole device, so that what was readied serves calls with fewer multiprocessors.
  const std::int64_t elements = problem.params.rows * problem.params.n;
  if (problem.find_first || !are_few(problem.shape, elements, call.device->sm_count)) fit_to(false);
  return problem;
}

}  // namespace quern::ops::quantize
