// norm against its definition in fp64: every kind, with what may stand around it; and what other ops do of it.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "tests/ops/compiled.h"
#include "tests/ops/quantize_problem.h"
#include "tests/ops/refusal.h"

namespace quern::test {
namespace {

const ForEveryTarget kTemplates = {
    "norm * dtype=bf16 out=bf16 kind=layer weight=bf16 bias=bf16 residual=1 team=256",
    "norm * dtype=f16 out=f32 kind=rms scale=f32 shift=f32 team=16 access=2 tail=1",
    "norm * dtype=bf16 out=bf16 kind=group stage=apply weight=f32 bias=f32 channels_last=1 team=512",
    "norm * dtype=bf16 out=bf16 kind=group stage=moments team=512",
};

struct Case {
  std::string name;
  std::int64_t rows = 4, n = 256;
  Element x = Element::bf16, out = Element::bf16;
  int kind = QUERN_NORM_LAYER;
  std::int64_t groups = 0, places = 0;  // of a group norm: n is channels * places
  bool channels_last = false;
  Parameter weight = Parameter::none, bias = Parameter::none, scale = Parameter::none, shift = Parameter::none;
  std::int64_t m = 1;  // rows of scale and shift
  bool residual = false;
  Where to = Where::own, sum = Where::nowhere;
  std::uint32_t flags = 0;
  std::int64_t padding = 0;  // elements between rows
  int alignment = 0, max_sms = 0;
  float eps = 1e-6f;
  double mean = 0.0;
  bool grouped() const { return kind == QUERN_NORM_GROUP; }
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class Norm {
 public:
  explicit Norm(const Case& c) : args(sized<quern_norm_args>()), c_(c) {
    Random random(c.name);
    const std::int64_t pitch = c.n + c.padding;
    x.set(c.x, c.rows, c.n, pitch), out.set(c.out, c.rows, c.n, pitch);
    if (c.residual) residual.set(c.x, c.rows, c.n, pitch);
    if (c.sum != Where::nowhere) sum.set(c.x, c.rows, c.n, pitch);
    const std::int64_t channels = c.grouped() ? c.n / c.places : c.n;
    vector(weight, c.weight, channels, random), vector(bias, c.bias, channels, random);
    if (c.scale != Parameter::none) matrix(scale, element_of(c.scale), random);
    if (c.shift != Parameter::none) matrix(shift, element_of(c.shift), random);
    for (std::int64_t r = 0; r < c.rows; ++r) {
      const double size = std::ldexp(1.0, random.between(-3, 3));
      for (std::int64_t k = 0; k < c.n; ++k) {
        x.put(r, k, c.mean + size * random.normal());
        if (c.residual) residual.put(r, k, size * random.normal());
      }
    }
    for (Matrix* each : {&x, &residual, &out, &sum}) {
      if (c.grouped() && each->given()) {
        each->box.tensor.ndim = 3;
        each->box.shape[1] = channels, each->box.shape[2] = c.places;
        each->box.strides[1] = c.channels_last ? 1 : c.places, each->box.strides[2] = c.channels_last ? channels : 1;
      }
    }
    args.x = x.box.get();
    args.out = place(c.to, out), args.residual_out = place(c.sum, sum);
    args.residual = given(residual), args.weight = given(weight), args.bias = given(bias);
    args.scale = given(scale), args.shift = given(shift);
    args.kind = c.kind, args.groups = static_cast<std::int32_t>(c.groups);
    args.eps = c.eps, args.flags = c.flags, args.alignment = c.alignment, args.max_sms = c.max_sms;
  }

  void put() {
    for (Matrix* input : {&x, &residual, &weight, &bias, &scale, &shift}) {
      if (input->given()) input->upload();
    }
    out.poison();
    if (sum.given()) sum.poison();
  }
  void get() {
    for (Matrix* each : {&x, &residual, &out, &sum}) {
      if (each->given()) each->download();
    }
  }
  void call(quern_context* context) {
    auto error = sized<quern_error>();
    put();
    ASSERT_EQ(quern_norm(context, &args, &error), QUERN_OK) << error.text;
    synchronize();
    get();
  }
  void run(quern_context* context) {
    auto error = sized<quern_error>();
    std::uint64_t bytes = 1;
    ASSERT_EQ(quern_norm_workspace(context, &args, &bytes, &error), QUERN_OK) << error.text;
    workspace_ = Buffer(bytes, 0);
    args.workspace = workspace_.data(), args.workspace_size = bytes;
    ASSERT_EQ(quern_norm_prepare(context, &args, &error), QUERN_OK) << error.text;
    args.flags |= QUERN_CALL_CACHED_ONLY;
    call(context);
  }

  const Matrix& result(Where where, const Matrix& own) const {
    return where == Where::x ? x : where == Where::residual ? residual : own;
  }

  // Each result lies between the rounded ends of what 2^-19 of its terms leaves around the exact one; and their root
  // mean square error is below twice that of the same maths in f32, term after term.
  void check() const {
    std::int64_t wrong = 0, wrong_sums = 0;
    double squares = 0.0, plain_squares = 0.0;
    const std::int64_t count = c_.grouped() ? c_.n / c_.groups : c_.n;
    for (std::int64_t r = 0; r < c_.rows; ++r) {
      for (std::int64_t first = 0; first < c_.n; first += count) {
        const Moments<double> exact = moments<double>(r, first, count);
        const Moments<float> plain = moments<float>(r, first, count);
        for (std::int64_t e = first; e < first + count; ++e) {
          const std::int64_t k = place_of(e);
          const double value = affine<double>(r, k, (s(r, k) - exact.mean) * exact.inverse);
          const double terms = (std::fabs(s(r, k)) + exact.size) * exact.inverse;
          const double spread = 0x1p-19 * bound(r, k, terms);
          const double found = result(c_.to, out).found(r, k);
          wrong += !(found >= c_.out.rounded(value - spread) && found <= c_.out.rounded(value + spread));
          const float straight = affine<float>(r, k, (static_cast<float>(s(r, k)) - plain.mean) * plain.inverse);
          squares += (found - value) * (found - value);
          plain_squares += (c_.out.rounded(straight) - value) * (c_.out.rounded(straight) - value);
          if (c_.sum != Where::nowhere)
            wrong_sums += result(c_.sum, sum).found(r, k) != c_.x.rounded(static_cast<float>(s(r, k)));
        }
      }
    }
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(wrong_sums, 0);
    EXPECT_LE(std::sqrt(squares), 2.0 * std::sqrt(plain_squares) + 1e-6);
    for (const Matrix* each : {&x, &residual, &out, &sum}) EXPECT_EQ(each->given() ? each->spoilt() : 0, 0);
  }

  quern_norm_args args;
  Matrix x, residual, weight, bias, scale, shift, out, sum;

 private:
  template <class T>
  struct Moments {
    T mean, inverse;
    T size = 0;  // of a number, on the mean
  };

  static const DLTensor* given(const Matrix& m) { return m.given() ? m.box.get() : nullptr; }
  const DLTensor* place(Where where, Matrix& own) {
    return where == Where::nowhere ? nullptr : result(where, own).box.get();
  }
  Element element_of(Parameter p) const { return p == Parameter::f32 ? Element(Element::f32) : c_.x; }
  void vector(Matrix& to, Parameter kind, std::int64_t n, Random& random) {
    if (kind == Parameter::none) return;
    to.set(element_of(kind), 1, n, n);
    to.box.tensor.ndim = 1;
    to.box.shape[0] = n, to.box.strides[0] = 1;
    for (std::int64_t k = 0; k < n; ++k) to.put(0, k, random.normal());
  }
  void matrix(Matrix& to, Element element, Random& random) {
    to.set(element, c_.m, c_.n, c_.n + c_.padding);
    for (std::int64_t r = 0; r < c_.m; ++r) {
      for (std::int64_t k = 0; k < c_.n; ++k) to.put(r, k, random.normal());
    }
  }
  double s(std::int64_t r, std::int64_t k) const { return x.at(r, k) + (c_.residual ? residual.at(r, k) : 0.0); }
  template <class T>
  Moments<T> moments(std::int64_t r, std::int64_t first, std::int64_t count) const {
    T mean = 0, size = 0, total = 0;
    if (c_.kind == QUERN_NORM_LAYER || c_.grouped()) {
      for (std::int64_t e = first; e < first + count; ++e) {
        mean += static_cast<T>(s(r, place_of(e)));
        size += static_cast<T>(std::fabs(s(r, place_of(e))));
      }
      mean /= static_cast<T>(count), size /= static_cast<T>(count);
    }
    for (std::int64_t e = first; e < first + count; ++e) {
      const T d = static_cast<T>(s(r, place_of(e))) - mean;
      total += d * d;
    }
    if (c_.kind != QUERN_NORM_L2) total /= static_cast<T>(count);
    return {mean, T{1} / std::sqrt(total + static_cast<T>(c_.eps)), size};
  }
  // Where element e of a sample lies, counted by channel and place; and which channel lies in column k.
  std::int64_t place_of(std::int64_t e) const {
    return c_.channels_last ? e % c_.places * (c_.n / c_.places) + e / c_.places : e;
  }
  std::int64_t channel(std::int64_t k) const {
    return !c_.grouped() ? k : c_.channels_last ? k % (c_.n / c_.places) : k / c_.places;
  }
  double factor(std::int64_t k) const {
    return (weight.given() ? weight.at(0, channel(k)) : 1.0) +
           ((c_.flags & QUERN_NORM_WEIGHT_PLUS_ONE) != 0 ? 1.0 : 0.0);
  }
  double scale_at(std::int64_t r, std::int64_t k) const {
    if (!scale.given()) return 1.0;
    return scale.at(r / (c_.rows / c_.m), k) + ((c_.flags & QUERN_NORM_SCALE_ALONE) != 0 ? 0.0 : 1.0);
  }
  template <class T>
  T affine(std::int64_t r, std::int64_t k, T y) const {
    y *= static_cast<T>(factor(k));
    if (bias.given()) y += static_cast<T>(bias.at(0, channel(k)));
    y *= static_cast<T>(scale_at(r, k));
    if (shift.given()) y += static_cast<T>(shift.at(r / (c_.rows / c_.m), k));
    return y;
  }
  double bound(std::int64_t r, std::int64_t k, double y) const {
    y *= std::fabs(factor(k));
    if (bias.given()) y += std::fabs(bias.at(0, channel(k)));
    y *= std::fabs(scale_at(r, k));
    return y + (shift.given() ? std::fabs(shift.at(r / (c_.rows / c_.m), k)) : 0.0);
  }

  const Case c_;
  Buffer workspace_;
};

class NormOf : public testing::TestWithParam<Case> {};
std::string name_of_case(const testing::TestParamInfo<Case>& c) { return c.param.name; }

std::vector<Case> cases() {
  std::vector<Case> all;
  const auto add = [&](const std::string& name, int kind, Element x, std::int64_t rows, std::int64_t n) -> Case& {
    Case& c = all.emplace_back();
    c.name = name, c.kind = kind, c.x = c.out = x, c.rows = rows, c.n = n;
    return c;
  };
  // Both sides of each change of team; primes; rows in pieces.
  for (const std::int64_t n : {1, 7, 33, 512, 521, 8192, 16384}) {
    Case& c = add("layer_" + std::to_string(n), QUERN_NORM_LAYER, n % 2 == 0 ? Element::bf16 : Element::f16,
                  n > 5000 ? 2 : 19, n);
    c.weight = c.bias = Parameter::like_x;
    // The longest row has no registers for as many parameters at once.
    if (n == 16384) c.scale = c.shift = Parameter::f32;
  }
  Case& pieces = add("layer_pieces", QUERN_NORM_LAYER, Element::f16, 2, 20011);
  pieces.weight = Parameter::like_x, pieces.residual = true, pieces.to = Where::x, pieces.sum = Where::residual;
  Case& many = add("l2_many_pieces", QUERN_NORM_L2, Element::f32, 2, 70000);
  many.max_sms = 1;
  add("rms_pieces", QUERN_NORM_RMS, Element::f16, 1, 66000).out = Element::f32;
  add("l2_7", QUERN_NORM_L2, Element::f32, 5, 7);
  Case& wide = add("rms_bf16_to_f32", QUERN_NORM_RMS, Element::bf16, 5, 256);
  wide.out = Element::f32, wide.bias = Parameter::f32;
  // What rmsnorm does of it.
  Case& rms = add("rms_as_rmsnorm", QUERN_NORM_RMS, Element::bf16, 5, 264);
  rms.weight = Parameter::like_x, rms.flags = QUERN_NORM_WEIGHT_PLUS_ONE, rms.residual = true, rms.sum = Where::own;
  // Modulated: a token, a sample, all alike.
  for (const std::int64_t m : {6, 3, 1}) {
    Case& c = add("adaln_" + std::to_string(m), QUERN_NORM_LAYER, Element::bf16, 6, 320);
    c.scale = c.shift = m == 3 ? Parameter::f32 : Parameter::like_x, c.m = m;
  }
  Case& everything = add("everything", QUERN_NORM_RMS, Element::f16, 6, 100);
  everything.weight = everything.bias = everything.scale = everything.shift = Parameter::f32, everything.m = 2;
  everything.residual = true, everything.sum = Where::residual, everything.to = Where::x;
  everything.flags = std::uint32_t{QUERN_NORM_WEIGHT_PLUS_ONE} | QUERN_NORM_SCALE_ALONE, everything.padding = 3;
  // Groups: several channels, one, all; vectors that lie in one channel and in several.
  const auto group = [&](const std::string& name, Element x, std::int64_t batch, std::int64_t channels,
                         std::int64_t places, std::int64_t groups) -> Case& {
    Case& c = add(name, QUERN_NORM_GROUP, x, batch, channels * places);
    c.groups = groups, c.places = places, c.weight = c.bias = Parameter::like_x;
    return c;
  };
  group("group_whole", Element::bf16, 2, 32, 64, 8);
  group("group_33_places", Element::f16, 3, 10, 33, 5).padding = 5;
  group("instance", Element::f32, 2, 3, 49, 3).residual = true;
  group("group_one", Element::f32, 2, 6, 1, 1);
  group("group_pieces", Element::bf16, 1, 4, 9001, 2);
  // The channels of a place beside each other: whole vectors, several to a place, and none.
  for (const std::int64_t channels : {64, 40, 8}) {
    Case& c = group("channels_last_" + std::to_string(channels), Element::bf16, 2, channels, 35, 4);
    c.channels_last = true;
  }
  Case& last = group("channels_last_pieces", Element::f32, 1, 20, 2003, 2);
  last.channels_last = true, last.residual = true, last.to = Where::x, last.sum = Where::residual;
  Case& bare = group("group_bare", Element::bf16, 2, 8, 16, 2);
  bare.weight = bare.bias = Parameter::none;
  // A mean far from 0 leaves the variance what it is.
  add("far_mean", QUERN_NORM_LAYER, Element::f32, 3, 521).mean = 1000.0;
  add("no_rows", QUERN_NORM_LAYER, Element::bf16, 0, 64);
  add("alignment4", QUERN_NORM_L2, Element::bf16, 5, 40).alignment = 4;
  add("max_sms", QUERN_NORM_LAYER, Element::f32, 300, 40).max_sms = 1;
  return all;
}
INSTANTIATE_TEST_SUITE_P(Cases, NormOf, testing::ValuesIn(cases()), name_of_case);

TEST_P(NormOf, IsWhatItsDefinitionSays) {
  Norm norm(GetParam());
  ASSERT_NO_FATAL_FAILURE(norm.run(context()));
  norm.check();
}

Case plain(const std::string& name, std::int64_t rows, std::int64_t n) {
  Case c;
  c.name = name, c.rows = rows, c.n = n, c.weight = c.bias = Parameter::like_x;
  return c;
}

// `host` in an unfair order, by seed: a missing barrier gives other bits.
TEST(NormScheduling, ChangesNothing) {
  if (on_cuda()) GTEST_SKIP() << "the GPU has a schedule of its own";
  for (const std::int64_t n : {512, 8192, 20011}) {
    SCOPED_TRACE(n);
    Case c = plain("unfair" + std::to_string(n), 5, n);
    c.x = c.out = n % 2 == 0 ? Element::bf16 : Element::f16, c.max_sms = 1;
    Norm norm(c);
    ASSERT_NO_FATAL_FAILURE(norm.run(context()));
    norm.check();
    const std::vector<unsigned char> out = norm.out.all_found();
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      const Context unfair = make_context([&](quern_context_options& o) {
        o.flags |= QUERN_CONTEXT_HOST_SEED;
        o.host_seed = run_seed() * 3 + seed;
      });
      norm.args.flags = 0;
      ASSERT_NO_FATAL_FAILURE(norm.call(unfair.get()));
      EXPECT_EQ(norm.out.all_found(), out) << "seed " << seed;
    }
  }
}

// A row's bits are its own, whatever lies beside it.
TEST(NormRows, AreTheSameAlone) {
  const Case c = plain("rows", 37, 512);
  Norm norm(c);
  ASSERT_NO_FATAL_FAILURE(norm.run(context()));
  const std::vector<unsigned char> together = norm.out.all_found();
  const auto bytes = static_cast<std::ptrdiff_t>(c.n * 2);
  for (Matrix* each : {&norm.x, &norm.out}) {
    each->box.shape[0] = 1;
    each->box.tensor.byte_offset = static_cast<std::uint64_t>(17 * bytes);
  }
  ASSERT_NO_FATAL_FAILURE(norm.call(context()));
  const unsigned char *here = norm.out.all_found().data() + 17 * bytes, *there = together.data() + 17 * bytes;
  EXPECT_TRUE(std::equal(here, here + bytes, there));
}

// A row's NaN and infinities stay in the row; a row of one number gives zeros, and one of subnormals what eps leaves.
TEST(NormNumbers, WhatIsNotFiniteStaysInItsRow) {
  Case c;
  c.name = "odd numbers", c.rows = 5, c.n = 96, c.x = c.out = Element::f32;
  Norm norm(c);
  norm.x.put(0, 5, std::numeric_limits<double>::quiet_NaN());
  norm.x.put(1, 7, std::numeric_limits<double>::infinity());
  for (std::int64_t k = 0; k < c.n; ++k) norm.x.put(2, k, 3.0), norm.x.put(3, k, k % 2 == 0 ? 1e-40 : -1e-40);
  ASSERT_NO_FATAL_FAILURE(norm.run(context()));
  for (std::int64_t k = 0; k < c.n; ++k) {
    EXPECT_TRUE(std::isnan(norm.out.found(0, k))) << k;
    EXPECT_TRUE(std::isnan(norm.out.found(1, k))) << "infinity less an infinite mean: " << k;
    EXPECT_EQ(norm.out.found(2, k), 0.0) << k;
    EXPECT_LE(std::fabs(norm.out.found(3, k)), 1e-36) << k;
    EXPECT_TRUE(std::isfinite(norm.out.found(4, k))) << k;
  }
}

// 8 bits are the quantiser's, to the bit.
TEST(NormCodes, AreThoseOfQuantize) {
  for (const int kind : {QUERN_NORM_LAYER, QUERN_NORM_RMS}) {
    for (const int scales : {QUERN_SCALE_STATIC, QUERN_SCALE_TENSOR, QUERN_SCALE_TOKEN, QUERN_SCALE_GROUP}) {
      SCOPED_TRACE(kind * 10 + scales);
      QuantizeCase q;
      q.name = "codes", q.rows = 5, q.n = 256, q.kind = scales, q.weight = Parameter::like_x, q.residual = true;
      q.front = kind == QUERN_NORM_RMS ? QUERN_FRONT_RMSNORM : QUERN_FRONT_LAYERNORM;
      q.bias = kind == QUERN_NORM_RMS ? Parameter::none : Parameter::like_x;
      q.sum = Where::own, q.dense = Where::own;
      if (scales != QUERN_SCALE_STATIC) q.flags = QUERN_QUANTIZE_POWER_OF_TWO;
      QuantizeProblem problem(q, Random("codes"));
      ASSERT_NO_FATAL_FAILURE(problem.run(context()));
      const std::vector<unsigned char> expected = problem.results();
      auto args = sized<quern_norm_args>();
      const quern_quantize_args& given = problem.args;
      args.x = given.x, args.residual = given.residual, args.weight = given.weight, args.bias = given.bias;
      args.out = given.out, args.residual_out = given.residual_out, args.out_scale = given.scale;
      args.dense = given.dense, args.kind = kind, args.scale_kind = scales, args.eps = given.eps;
      if (scales != QUERN_SCALE_STATIC) args.flags = QUERN_NORM_POWER_OF_TWO;
      auto error = sized<quern_error>();
      std::uint64_t bytes = 0;
      ASSERT_EQ(quern_norm_workspace(context(), &args, &bytes, &error), QUERN_OK) << error.text;
      Buffer workspace(bytes, 0);
      args.workspace = workspace.data(), args.workspace_size = bytes;
      problem.put();
      ASSERT_EQ(quern_norm(context(), &args, &error), QUERN_OK) << error.text;
      synchronize();
      problem.get();
      EXPECT_EQ(problem.results(), expected);
    }
  }
}

// What quantize has no front for is what it makes of the norm's rows in f32, to the bit.
TEST(NormCodes, AreThoseOfTheRows) {
  struct Kind {
    const char* name;
    int kind, scales;
    bool bias, modulated;
    std::int64_t n;
  };
  for (const Kind& k : {Kind{"adaln_tokens", QUERN_NORM_LAYER, QUERN_SCALE_TOKEN, false, true, 256},
                        Kind{"adaln_groups", QUERN_NORM_LAYER, QUERN_SCALE_GROUP, true, true, 320},
                        Kind{"l2_tensor", QUERN_NORM_L2, QUERN_SCALE_TENSOR, false, false, 256},
                        Kind{"rms_static_pieces", QUERN_NORM_RMS, QUERN_SCALE_STATIC, true, false, 20000}}) {
    SCOPED_TRACE(k.name);
    Case c;
    c.name = k.name, c.rows = 4, c.n = k.n, c.kind = k.kind, c.out = Element::f32, c.residual = true;
    c.sum = Where::own, c.weight = Parameter::like_x, c.bias = k.bias ? Parameter::like_x : Parameter::none;
    if (k.modulated) c.scale = c.shift = Parameter::f32, c.m = 2;
    Norm norm(c);
    ASSERT_NO_FATAL_FAILURE(norm.run(context()));
    const std::vector<unsigned char> sum = norm.sum.all_found();
    // Both ways into tensors of their own.
    const std::int64_t scales = k.scales == QUERN_SCALE_TOKEN   ? c.rows
                                : k.scales == QUERN_SCALE_GROUP ? c.rows * ((c.n + 127) / 128)
                                                                : 1;
    Matrix codes[2], found[2];
    for (int way = 0; way < 2; ++way) {
      codes[way].set(Element::e4m3, c.rows, c.n, c.n);
      found[way].set(Element::f32, 1, scales, scales);
      TensorBox& box = found[way].box;
      if (k.scales == QUERN_SCALE_GROUP) {
        box.shape[0] = c.rows, box.shape[1] = scales / c.rows, box.strides[0] = scales / c.rows;
      } else {
        box.tensor.ndim = 1, box.shape[0] = scales, box.strides[0] = 1;
      }
      for (std::int64_t i = 0; i < scales; ++i) found[way].put(0, i, 0.01);
      found[way].upload();
      codes[way].poison();
    }
    auto error = sized<quern_error>();
    std::uint64_t bytes = 0;
    auto rows = sized<quern_quantize_args>();
    rows.x = norm.out.box.get(), rows.out = codes[0].box.get(), rows.scale = found[0].box.get();
    rows.scale_kind = k.scales;
    ASSERT_EQ(quern_quantize_workspace(context(), &rows, &bytes, &error), QUERN_OK) << error.text;
    Buffer first(bytes, 0);
    rows.workspace = first.data(), rows.workspace_size = bytes;
    ASSERT_EQ(quern_quantize(context(), &rows, &error), QUERN_OK) << error.text;
    quern_norm_args args = norm.args;
    args.flags = 0, args.out = codes[1].box.get(), args.out_scale = found[1].box.get(), args.scale_kind = k.scales;
    ASSERT_EQ(quern_norm_workspace(context(), &args, &bytes, &error), QUERN_OK) << error.text;
    Buffer second(bytes, 0);
    args.workspace = second.data(), args.workspace_size = bytes;
    ASSERT_EQ(quern_norm_prepare(context(), &args, &error), QUERN_OK) << error.text;
    args.flags = QUERN_CALL_CACHED_ONLY;
    norm.sum.poison();
    for (int round = 0; round < 2; ++round) {
      ASSERT_EQ(quern_norm(context(), &args, &error), QUERN_OK) << error.text;
      synchronize();
      for (int way = 0; way < 2; ++way) codes[way].download(), found[way].download();
      norm.sum.download();
      EXPECT_EQ(codes[1].all_found(), codes[0].all_found());
      EXPECT_EQ(found[1].all_found(), found[0].all_found());
      EXPECT_EQ(norm.sum.all_found(), sum);
    }
  }
}

TEST(NormRefuses, EveryWrongArgument) {
  using N = Norm&;
  const auto group = [](N d) {
    d.args.kind = QUERN_NORM_GROUP, d.args.groups = 4, d.args.scale = d.args.shift = nullptr;
    for (Matrix* each : {&d.x, &d.residual, &d.out, &d.sum}) {
      each->box.tensor.ndim = 3;
      each->box.shape[1] = 32, each->box.shape[2] = 10, each->box.strides[1] = 10, each->box.strides[2] = 1;
    }
    d.weight.box.shape[0] = d.bias.box.shape[0] = 32;
  };
  const std::vector<Mistake<Norm>> mistakes = {
      {"x NULL", {"x", "NULL"}, [](N d) { d.args.x = nullptr; }},
      {"out NULL", {"out", "NULL"}, [](N d) { d.args.out = nullptr; }},
      {"kind", {"kind", "4"}, [](N d) { d.args.kind = 4; }},
      {"a sum without residual", {"residual_out", "residual"}, [](N d) { d.args.residual = nullptr; }},
      {"both results in one place", {"residual_out is out"}, [](N d) { d.args.residual_out = d.args.out; }, true},
      {"x's dtype", {"x", "int32", "f16, bf16, f32"}, [](N d) { d.x.box.tensor.dtype = kInt32; }},
      {"residual's dtype", {"residual", "f32", "bf16"}, [](N d) { d.residual.box.tensor.dtype = kFloat32; }},
      {"out's dtype", {"out", "int32"}, [](N d) { d.out.box.tensor.dtype = kInt32; }},
      {"out over x in another dtype",
       {"out is x", "f32", "bf16"},
       [](N d) { d.out.box.tensor.data = d.x.box.tensor.data, d.out.box.tensor.dtype = kFloat32; },
       true},
      {"weight's length", {"weight.shape[0]", "320"}, [](N d) { d.weight.box.shape[0] = 319; }},
      {"bias' dtype", {"bias", "bf16"}, [](N d) { d.bias.box.tensor.dtype = kFloat32; }},
      {"shift's dtype", {"shift", "bf16"}, [](N d) { d.shift.box.tensor.dtype = kFloat32; }},
      {"scale's rows", {"scale.shape[0]", "4", "divisors"}, [](N d) { d.scale.box.shape[0] = 4; }},
      {"shift's rows", {"shift.shape[0]", "1", "scale"}, [](N d) { d.shift.box.shape[0] = 1; }},
      {"scale's columns", {"scale.shape[1]", "320"}, [](N d) { d.scale.box.shape[1] = 310; }},
      {"no columns", {"x.shape[1]", "0"}, [](N d) { d.x.box.shape[1] = 0; }},
      {"x's last stride", {"x.strides[1]", "1"}, [](N d) { d.x.box.strides[1] = 2; }},
      {"out's rows over each other", {"out.strides[0]"}, [](N d) { d.out.box.strides[0] = 16; }},
      {"out's alignment", {"out", "data"}, [](N d) { d.out.box.tensor.byte_offset = 8; }, true},
      {"x without data", {"x", "NULL"}, [](N d) { d.x.box.tensor.data = nullptr; }, true},
      {"eps below 0", {"eps", "0 and more"}, [](N d) { d.args.eps = -1e-6f; }},
      {"groups without GROUP", {"groups", "2"}, [](N d) { d.args.groups = 2; }},
      {"groups that do not divide", {"groups", "5", "32"}, [=](N d) { group(d), d.args.groups = 5; }},
      {"groups apart", {"x.strides[1]", "10"}, [=](N d) { group(d), d.x.box.strides[1] = 12; }},
      {"channels last in x alone",
       {"out.strides[1]", "1"},
       [=](N d) {
         group(d), d.x.box.strides[1] = 1, d.x.box.strides[2] = 32;
         d.args.residual = d.args.residual_out = nullptr;
       }},
      {"groups with scale", {"scale", "QUERN_NORM_GROUP"}, [=](N d) { group(d), d.args.scale = d.scale.box.get(); }},
      {"1 + no weight",
       {"QUERN_NORM_WEIGHT_PLUS_ONE", "weight"},
       [](N d) { d.args.weight = nullptr, d.args.flags = QUERN_NORM_WEIGHT_PLUS_ONE; }},
      {"no scale alone",
       {"QUERN_NORM_SCALE_ALONE", "scale"},
       [](N d) { d.args.scale = nullptr, d.args.flags = QUERN_NORM_SCALE_ALONE; }},
      {"powers of two", {"QUERN_NORM_POWER_OF_TWO", "8-bit"}, [](N d) { d.args.flags = QUERN_NORM_POWER_OF_TWO; }},
      {"a kind of scale", {"scale_kind", "3"}, [](N d) { d.args.scale_kind = QUERN_SCALE_TOKEN; }},
      {"a scale", {"out_scale", "NULL"}, [](N d) { d.args.out_scale = d.weight.box.get(); }},
      {"dense", {"dense", "NULL"}, [](N d) { d.args.dense = d.out.box.get(); }},
      {"8 bits modulated, and dense",
       {"dense", "8-bit"},
       [](N d) {
         d.out.box.tensor.dtype = Element(Element::e4m3).type();
         d.args.scale_kind = QUERN_SCALE_TOKEN, d.args.dense = d.x.box.get();
       }},
      {"8 bits of groups",
       {"kind", "3", "8-bit"},
       [=](N d) { group(d), d.out.box.tensor.dtype = Element(Element::e4m3).type(); }},
      {"8 bits without out_scale",
       {"out_scale", "NULL"},
       [](N d) {
         d.out.box.tensor.dtype = Element(Element::e4m3).type();
         d.args.scale_kind = QUERN_SCALE_TOKEN;
       }},
      {"out_scale's rows",
       {"out_scale.shape[0]", "5"},
       [](N d) {
         d.out.box.tensor.dtype = Element(Element::e4m3).type();
         d.weight.box.tensor.dtype = kFloat32, d.args.weight = nullptr, d.args.bias = nullptr;
         d.args.scale_kind = QUERN_SCALE_TOKEN, d.args.out_scale = d.weight.box.get();
       }},
      {"8 bits without scale",
       {"scale_kind", "0", "8-bit"},
       [](N d) {
         d.out.box.tensor.dtype = Element(Element::e4m3).type();
         d.args.scale = d.args.shift = nullptr;
       }},
      {"a flag that is none", {"flags"}, [](N d) { d.args.flags = 1u << 20; }},
      {"alignment 2", {"alignment", "2"}, [](N d) { d.args.alignment = 2; }},
      {"reserved", {"reserved", "1"}, [](N d) { d.args.reserved = 1; }},
      {"no size", {"size"}, [](N d) { d.args.size = 0; }},
  };
  Case good = plain("refused", 5, 320);
  good.residual = true, good.sum = Where::own, good.scale = good.shift = Parameter::like_x, good.m = 5;
  expect_all_refused(
      mistakes, ThreeCalls<quern_norm_args>{quern_norm, quern_norm_workspace, quern_norm_prepare},
      [&] {
        auto norm = std::make_unique<Norm>(good);
        norm->put();
        return norm;
      },
      [](N d) {
        return [&d] {
          d.get();
          const auto poisoned = [](unsigned char byte) { return byte == 0xee; };
          return std::ranges::all_of(d.out.all_found(), poisoned) && std::ranges::all_of(d.sum.all_found(), poisoned);
        };
      });
}

TEST(NormRefuses, ASmallWorkspace) {
  Norm norm(plain("small workspace", 2, 20000));
  norm.put();
  expect_refused({"workspace_size"}, [&](quern_error* e) { return quern_norm(context(), &norm.args, e); });
}

// What a model's warming names is what its calls take; and a line that no call could need is refused.
TEST(NormWarm, NamesWhatCallsTake) {
  auto model = sized<quern_model>();
  model.hidden_size = 768, model.layers = 1, model.heads = 12, model.kv_heads = 12, model.head_dim = 64;
  model.flags = QUERN_MODEL_LAYER_NORM;
  std::string lines;
  for (const std::string& line : listed_by_warm(context(), model)) {
    EXPECT_FALSE(line.starts_with("rmsnorm ")) << line;
    if (line.starts_with("norm ")) lines += line + "\n";
  }
  EXPECT_NE(lines.find("kind=layer stage=whole weight=bf16 bias=bf16 scale=none shift=none residual=0"),
            std::string::npos)
      << lines;
  EXPECT_NE(lines.find("residual=1"), std::string::npos) << lines;
  const Context fresh = compiling_context();
  for (const char* wrong :
       {"kind=layer team=3", "kind=layer team=2048", "kind=none team=32", "kind=layer team=32 weight=f16",
        "kind=group team=32 scale=f32", "kind=layer stage=apply team=32", "kind=layer team=32 weight=f32 bias=bf16"}) {
    const std::string line = std::string("norm host dtype=bf16 out=bf16 ") + wrong;
    const std::vector<Warmed> warmed = warm(fresh.get(), {"host"}, line + "\n");
    ASSERT_EQ(warmed.size(), 1u) << line;
    EXPECT_EQ(warmed[0].outcome, QUERN_WARM_FAILED) << line;
    EXPECT_NE(warmed[0].text.find("allowed"), std::string::npos) << warmed[0].text;
  }
}

}  // namespace
}  // namespace quern::test
