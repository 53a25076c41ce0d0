// Reads a norm's call: the rules for its tensors, and whose kernels do it.
// SPDX-License-Identifier: Apache-2.0
#include "sources/norm/read.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "jit/error.h"
#include "sources/call.h"
#include "sources/divisor.h"
#include "sources/norm/codes.h"

namespace quern::ops::norm {
namespace {

using q::NormKind;
using q::NormStage;

constexpr std::int64_t kMostColumns = std::int64_t{1} << 30;
constexpr std::int64_t kRmsnormColumns = 65536;  // that rmsnorm takes
constexpr std::uint32_t kFlags = QUERN_NORM_WEIGHT_PLUS_ONE | QUERN_NORM_SCALE_ALONE | QUERN_NORM_POWER_OF_TWO;

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
    const auto fit_rows = [&](bool twice) {
      const RowShape rows = fit(n_, alignment_.access(), call_.device->limits.warp_size, twice);
      shape_.tail = rows.tail, shape_.access = rows.access, shape_.team = rows.team, shape_.twice = rows.twice;
    };
    fit_rows(false);
    if (n_ <= kMostHeld && shape_.takes_twice(n_)) fit_rows(true);
    problem_.sms = call_.sms;
    const bool modulated = shape_.modulated();
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

}  // namespace

Problem read_problem(const quern_norm_args& args, const Runtime& runtime, bool may_lack_data) {
  const Call call = read_call(runtime, args, kFlags, "enum quern_call_flags and quern_norm_flags", 4, may_lack_data);
  return Reader(args, call).read();
}

}  // namespace quern::ops::norm
