// norm_backward against the gradients' formulas in fp64.
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
    "norm_backward * stage=rows dtype=bf16 kind=layer weight=bf16 add=1 team=256",
    "norm_backward * stage=rows dtype=f32 kind=rms weight=f32 team=8 access=4 tail=1",
    "norm_backward * stage=sums out=bf16",
};

enum class Sums { none, weight, bias, both };

struct Case {
  std::string name;
  std::int64_t rows = 4, n = 256;
  Element x = Element::bf16;
  int kind = QUERN_NORM_LAYER;
  Parameter weight = Parameter::like_x;
  bool add = false, dx = true;
  Sums sums = Sums::both;
  Element of_sums = Element::f32;
  Where to = Where::own;  // x: dx lies there; residual: where add does
  std::uint32_t flags = 0;
  std::int64_t padding = 0;
  int alignment = 0, max_sms = 0;
  float eps = 1e-5f;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class Gradient {
 public:
  explicit Gradient(const Case& c) : args(sized<quern_norm_backward_args>()), c_(c) {
    Random random(c.name);
    const std::int64_t pitch = c.n + c.padding;
    x.set(c.x, c.rows, c.n, pitch), dout.set(c.x, c.rows, c.n, pitch), dx.set(c.x, c.rows, c.n, pitch);
    if (c.add) add.set(c.x, c.rows, c.n, pitch);
    for (Matrix* each : {&x, &dout, &add}) {
      if (!each->given()) continue;
      for (std::int64_t r = 0; r < c.rows; ++r) {
        const double size = std::ldexp(1.0, random.between(-3, 3));
        for (std::int64_t k = 0; k < c.n; ++k) each->put(r, k, size * random.normal());
      }
    }
    if (c.weight != Parameter::none) {
      vector(weight, c.weight == Parameter::f32 ? Element(Element::f32) : c.x);
      for (std::int64_t k = 0; k < c.n; ++k) weight.put(0, k, random.normal());
    }
    if (c.sums == Sums::weight || c.sums == Sums::both) vector(dweight, c.of_sums);
    if (c.sums == Sums::bias || c.sums == Sums::both) vector(dbias, c.of_sums);
    args.x = x.box.get(), args.dout = dout.box.get();
    args.weight = given(weight), args.add = given(add), args.dweight = given(dweight), args.dbias = given(dbias);
    args.dx = c.dx ? where_dx().box.get() : nullptr;
    args.kind = c.kind, args.eps = c.eps;
    args.flags = c.flags, args.alignment = c.alignment, args.max_sms = c.max_sms;
  }

  void put() {
    for (Matrix* input : {&x, &dout, &add, &weight}) {
      if (input->given()) input->upload();
    }
    for (Matrix* output : {&dx, &dweight, &dbias}) {
      if (output->given()) output->poison();
    }
  }
  void get() {
    for (Matrix* each : {&x, &dout, &add, &dx, &dweight, &dbias}) {
      if (each->given()) each->download();
    }
  }
  void call(quern_context* context) {
    auto error = sized<quern_error>();
    put();
    ASSERT_EQ(quern_norm_backward(context, &args, &error), QUERN_OK) << error.text;
    synchronize();
    get();
  }
  void run(quern_context* context) {
    auto error = sized<quern_error>();
    std::uint64_t bytes = 1;
    ASSERT_EQ(quern_norm_backward_workspace(context, &args, &bytes, &error), QUERN_OK) << error.text;
    workspace_ = Buffer(bytes, 0);
    args.workspace = workspace_.data(), args.workspace_size = bytes;
    ASSERT_EQ(quern_norm_backward_prepare(context, &args, &error), QUERN_OK) << error.text;
    args.flags |= QUERN_CALL_CACHED_ONLY;
    call(context);
  }
  // All that was written.
  std::vector<unsigned char> results() {
    std::vector<unsigned char> all;
    for (const Matrix* each : {&dx, &dweight, &dbias}) {
      if (each->given()) all.insert(all.end(), each->all_found().begin(), each->all_found().end());
    }
    return all;
  }

  // Each result lies between the rounded ends of what f32's errors in its terms leave around the exact one.
  void check() {
    std::vector<double> dweight_exact(static_cast<std::size_t>(c_.n)),
        dweight_terms = dweight_exact, dbias_exact = dweight_exact, dbias_terms = dweight_exact;
    std::int64_t wrong = 0, wrong_sums = 0;
    const bool layer = c_.kind == QUERN_NORM_LAYER;
    const auto count = static_cast<double>(c_.n);
    for (std::int64_t r = 0; r < c_.rows; ++r) {
      double mean = 0, squares = 0, along = 0, g_mean = 0, along_terms = 0, g_terms = 0, size = 0;
      for (std::int64_t k = 0; k < c_.n; ++k) mean += x.at(r, k) / count, size += std::fabs(x.at(r, k)) / count;
      if (!layer) mean = 0;
      for (std::int64_t k = 0; k < c_.n; ++k) squares += (x.at(r, k) - mean) * (x.at(r, k) - mean);
      const double inverse = 1.0 / std::sqrt(squares / count + c_.eps);
      const auto y = [&](std::int64_t k) { return (x.at(r, k) - mean) * inverse; };
      const auto y_terms = [&](std::int64_t k) { return (std::fabs(x.at(r, k)) + (layer ? size : 0.0)) * inverse; };
      const auto g = [&](std::int64_t k) { return dout.at(r, k) * factor(k); };
      for (std::int64_t k = 0; k < c_.n; ++k) {
        along += g(k) * y(k) / count, along_terms += std::fabs(g(k)) * y_terms(k) / count;
        g_mean += g(k) / count, g_terms += std::fabs(g(k)) / count;
        const auto at = static_cast<std::size_t>(k);
        dweight_exact[at] += dout.at(r, k) * y(k), dweight_terms[at] += std::fabs(dout.at(r, k)) * y_terms(k);
        dbias_exact[at] += dout.at(r, k), dbias_terms[at] += std::fabs(dout.at(r, k));
      }
      if (!layer) g_mean = g_terms = 0;
      for (std::int64_t k = 0; c_.dx && k < c_.n; ++k) {
        const double more = add.given() ? add.at(r, k) : 0.0;
        const double value = inverse * (g(k) - y(k) * along - g_mean) + more;
        const double terms = inverse * (std::fabs(g(k)) + y_terms(k) * along_terms + g_terms) + std::fabs(more);
        wrong += !holds(where_dx(), r, k, value, 0x1p-18 * terms);
      }
    }
    for (std::int64_t k = 0; k < c_.n; ++k) {
      const auto at = static_cast<std::size_t>(k);
      if (dweight.given()) wrong_sums += !holds(dweight, 0, k, dweight_exact[at], 0x1p-18 * dweight_terms[at]);
      if (dbias.given()) wrong_sums += !holds(dbias, 0, k, dbias_exact[at], 0x1p-18 * dbias_terms[at]);
    }
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(wrong_sums, 0);
    for (const Matrix* each : {&x, &dout, &add, &dx}) EXPECT_EQ(each->given() ? each->spoilt() : 0, 0);
  }

  quern_norm_backward_args args;
  Matrix x, dout, weight, add, dx, dweight, dbias;

 private:
  static const DLTensor* given(const Matrix& m) { return m.given() ? m.box.get() : nullptr; }
  Matrix& where_dx() { return c_.to == Where::x ? x : c_.to == Where::residual ? add : dx; }
  void vector(Matrix& to, Element element) {
    to.set(element, 1, c_.n, c_.n);
    to.box.tensor.ndim = 1;
    to.box.shape[0] = c_.n, to.box.strides[0] = 1;
  }
  double factor(std::int64_t k) const {
    return (weight.given() ? weight.at(0, k) : 1.0) +
           ((c_.flags & QUERN_NORM_BACKWARD_WEIGHT_PLUS_ONE) != 0 ? 1.0 : 0.0);
  }
  static bool holds(const Matrix& m, std::int64_t r, std::int64_t k, double value, double spread) {
    return m.found(r, k) >= m.element().rounded(value - spread) && m.found(r, k) <= m.element().rounded(value + spread);
  }

  const Case c_;
  Buffer workspace_;
};

class NormBackward : public testing::TestWithParam<Case> {};
std::string name_of_case(const testing::TestParamInfo<Case>& c) { return c.param.name; }

std::vector<Case> cases() {
  std::vector<Case> all;
  const auto add = [&](const std::string& name, int kind, Element x, std::int64_t rows, std::int64_t n) -> Case& {
    Case& c = all.emplace_back();
    c.name = name, c.kind = kind, c.x = x, c.rows = rows, c.n = n;
    if (kind == QUERN_NORM_RMS) c.sums = Sums::weight;
    return c;
  };
  add("one", QUERN_NORM_LAYER, Element::f32, 1, 1);
  add("seven", QUERN_NORM_LAYER, Element::f32, 7, 7);
  add("many_parts", QUERN_NORM_LAYER, Element::f32, 5003, 33);
  add("rms_heads", QUERN_NORM_RMS, Element::bf16, 700, 128).flags = QUERN_NORM_BACKWARD_WEIGHT_PLUS_ONE;
  Case& row = add("layer_4096", QUERN_NORM_LAYER, Element::bf16, 9, 4096);
  row.add = true, row.of_sums = Element::bf16;
  add("rms_521", QUERN_NORM_RMS, Element::f16, 300, 521).weight = Parameter::f32;
  add("rms_8193", QUERN_NORM_RMS, Element::f32, 3, 8193);
  add("layer_16384", QUERN_NORM_LAYER, Element::f16, 2, 16384);
  Case& over = add("over_x", QUERN_NORM_LAYER, Element::bf16, 40, 136);
  over.to = Where::x, over.weight = Parameter::none, over.max_sms = 1;
  Case& over_add = add("over_add", QUERN_NORM_RMS, Element::bf16, 40, 136);
  over_add.to = Where::residual, over_add.add = true, over_add.padding = 1;
  add("dx_alone", QUERN_NORM_LAYER, Element::bf16, 5, 136).sums = Sums::none;
  Case& sums = add("sums_alone", QUERN_NORM_LAYER, Element::f32, 20, 40);
  sums.dx = false;
  Case& bias = add("bias_alone", QUERN_NORM_LAYER, Element::f32, 20, 40);
  bias.dx = false, bias.sums = Sums::bias;
  add("rounds", QUERN_NORM_LAYER, Element::bf16, 3, 1024).of_sums = Element::bf16;
  add("no_rows", QUERN_NORM_LAYER, Element::f32, 0, 40);
  return all;
}
INSTANTIATE_TEST_SUITE_P(Cases, NormBackward, testing::ValuesIn(cases()), name_of_case);

TEST_P(NormBackward, IsWhatItsFormulasSay) {
  Gradient gradient(GetParam());
  ASSERT_NO_FATAL_FAILURE(gradient.run(context()));
  gradient.check();
}

// `host` in an unfair order, by seed, and on fewer multiprocessors: the bits are the same.
TEST(NormBackwardScheduling, ChangesNothing) {
  if (on_cuda()) GTEST_SKIP() << "the GPU has a schedule of its own";
  for (const std::int64_t n : {40, 521}) {
    SCOPED_TRACE(n);
    Case c;
    c.name = "unfair" + std::to_string(n), c.n = n, c.rows = 601, c.x = Element::f32;
    Gradient gradient(c);
    ASSERT_NO_FATAL_FAILURE(gradient.run(context()));
    gradient.check();
    const std::vector<unsigned char> expected = gradient.results();
    gradient.args.max_sms = 1;
    ASSERT_NO_FATAL_FAILURE(gradient.call(context()));
    EXPECT_EQ(gradient.results(), expected) << "max_sms 1";
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      const Context unfair = make_context([&](quern_context_options& o) {
        o.flags |= QUERN_CONTEXT_HOST_SEED;
        o.host_seed = run_seed() * 3 + seed;
      });
      gradient.args.flags = 0;
      ASSERT_NO_FATAL_FAILURE(gradient.call(unfair.get()));
      EXPECT_EQ(gradient.results(), expected) << "seed " << seed;
    }
  }
}

// A NaN stays in its row of dx, and in its column of a sum.
TEST(NormBackwardNumbers, ANanStaysInItsRow) {
  Case c;
  c.name = "nan", c.rows = 3, c.n = 40, c.x = Element::f32;
  Gradient gradient(c);
  gradient.dout.put(1, 7, std::numeric_limits<double>::quiet_NaN());
  ASSERT_NO_FATAL_FAILURE(gradient.run(context()));
  for (std::int64_t k = 0; k < c.n; ++k) {
    EXPECT_TRUE(std::isfinite(gradient.dx.found(0, k)) && std::isfinite(gradient.dx.found(2, k))) << k;
    EXPECT_TRUE(std::isnan(gradient.dx.found(1, k))) << k;
    EXPECT_EQ(std::isnan(gradient.dbias.found(0, k)), k == 7) << k;
  }
}

TEST(NormBackwardRefuses, EveryWrongArgument) {
  using G = Gradient&;
  const std::vector<Mistake<Gradient>> mistakes = {
      {"x NULL", {"x", "NULL"}, [](G d) { d.args.x = nullptr; }},
      {"dout NULL", {"dout", "NULL"}, [](G d) { d.args.dout = nullptr; }},
      {"nothing asked for",
       {"dx, dweight and dbias"},
       [](G d) { d.args.dx = d.args.dweight = d.args.dbias = d.args.add = nullptr; }},
      {"kind", {"kind", "2"}, [](G d) { d.args.kind = QUERN_NORM_L2; }},
      {"dbias of RMS", {"dbias", "QUERN_NORM_LAYER"}, [](G d) { d.args.kind = QUERN_NORM_RMS; }},
      {"add without dx", {"add", "dx"}, [](G d) { d.args.dx = nullptr; }},
      {"x's dtype", {"x", "int32"}, [](G d) { d.x.box.tensor.dtype = kInt32; }},
      {"dout's dtype", {"dout", "f32", "bf16"}, [](G d) { d.dout.box.tensor.dtype = kFloat32; }},
      {"too many columns", {"x.shape[1]", "16385"}, [](G d) { d.x.box.shape[1] = 16385; }},
      {"dout's rows", {"dout.shape[0]", "5"}, [](G d) { d.dout.box.shape[0] = 4; }},
      {"weight's length", {"weight.shape[0]", "320"}, [](G d) { d.weight.box.shape[0] = 300; }},
      {"dweight's length", {"dweight.shape[0]", "320"}, [](G d) { d.dweight.box.shape[0] = 300; }},
      {"dweight's dtype",
       {"dweight", "f16", "f32, bf16"},
       [](G d) { d.dweight.box.tensor.dtype = dtype_of(Format::f16); }},
      {"dbias' dtype", {"dbias", "bf16", "f32"}, [](G d) { d.dbias.box.tensor.dtype = dtype_of(Format::bf16); }},
      {"dbias over dweight", {"dbias is dweight"}, [](G d) { d.args.dbias = d.args.dweight; }, true},
      {"dx over x, further apart",
       {"dx is x", "elements apart"},
       [](G d) { d.dx.box.tensor.data = d.x.box.tensor.data, d.dx.box.strides[0] = 640; },
       true},
      {"x's last stride", {"x.strides[1]", "1"}, [](G d) { d.x.box.strides[1] = 2; }},
      {"eps NaN", {"eps", "nan"}, [](G d) { d.args.eps = std::numeric_limits<float>::quiet_NaN(); }},
      {"1 + no weight",
       {"WEIGHT_PLUS_ONE", "weight"},
       [](G d) { d.args.weight = nullptr, d.args.flags = QUERN_NORM_BACKWARD_WEIGHT_PLUS_ONE; }},
      {"a flag that is none", {"flags"}, [](G d) { d.args.flags = 1u << 18; }},
      {"no workspace", {"workspace_size", "0"}, [](G d) { d.args.workspace_size = 0; }, true},
      {"no size", {"size"}, [](G d) { d.args.size = 0; }},
  };
  Case good;
  good.name = "refused", good.rows = 5, good.n = 320, good.add = true;
  expect_all_refused(
      mistakes,
      ThreeCalls<quern_norm_backward_args>{quern_norm_backward, quern_norm_backward_workspace,
                                           quern_norm_backward_prepare},
      [&] {
        auto gradient = std::make_unique<Gradient>(good);
        gradient->put();
        return gradient;
      },
      [](G d) {
        return [&d] {
          d.get();
          return std::ranges::all_of(d.results(), [](unsigned char byte) { return byte == 0xee; });
        };
      });
}

TEST(NormBackwardWarm, RefusesLinesThatNoCallNeeds) {
  const Context fresh = compiling_context();
  for (const char* wrong : {"stage=rows dtype=bf16 kind=layer team=3", "stage=rows dtype=bf16 kind=layer team=2048",
                            "stage=rows dtype=bf16 kind=layer weight=f16 team=32",
                            "stage=rows dtype=f32 kind=rms access=2 team=32", "stage=rows dtype=f32 kind=l2 team=32"}) {
    const std::string line = std::string("norm_backward host ") + wrong;
    const std::vector<Warmed> warmed = warm(fresh.get(), {"host"}, line + "\n");
    ASSERT_EQ(warmed.size(), 1u) << line;
    EXPECT_EQ(warmed[0].outcome, QUERN_WARM_FAILED) << line;
    EXPECT_NE(warmed[0].text.find("allowed"), std::string::npos) << warmed[0].text;
  }
}

}  // namespace
}  // namespace quern::test
