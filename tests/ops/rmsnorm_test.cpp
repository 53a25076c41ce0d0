// rmsnorm against x + residual, its root mean square and its weights in fp64.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "tests/ops/compiled.h"
#include "tests/ops/norm_call.h"

namespace quern::test {
namespace {

const ForEveryTarget kTemplates = {
    "rmsnorm * dtype=bf16 weight=bf16 team=256",
    "rmsnorm * dtype=bf16 weight=bf16 residual=1 team=256",
    "rmsnorm * dtype=bf16 weight=f32 residual=1 team=1024",
    "rmsnorm * dtype=f16 weight=f16 residual=1 team=0",
    "rmsnorm * dtype=f32 weight=f32 residual=1 team=512",
    "rmsnorm * dtype=f16 team=16 access=2 tail=1",
};

struct Case {
  std::string name;
  std::int64_t rows = 4, n = 256;
  Element x = Element::bf16;
  Parameter weight = Parameter::like_x;
  bool residual = false;
  Where out = Where::own, sum = Where::nowhere;
  std::uint32_t flags = 0;
  std::int64_t padding = 0;  // elements between rows
  int alignment = 0, max_sms = 0;
  float eps = 1e-6f;
  int size_least = -3, size_most = 3;  // a row's numbers are this power of two in size
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

constexpr ThreeCalls<quern_rmsnorm_args> kRmsnorm{quern_rmsnorm, quern_rmsnorm_workspace, quern_rmsnorm_prepare};

class Norm : public NormCall<quern_rmsnorm_args> {
 public:
  explicit Norm(const Case& c) : NormCall(kRmsnorm), c_(c) {
    Random random(c.name);
    set_rows(c.x, c.x, c.rows, c.n, c.padding, c.residual, c.sum);
    if (c.weight != Parameter::none) set_vector(weight, element_of(c.weight, c.x), c.n, random);
    for (std::int64_t r = 0; r < c.rows; ++r) {
      const double size = std::ldexp(1.0, random.between(c.size_least, c.size_most));
      for (std::int64_t k = 0; k < c.n; ++k) {
        x.put(r, k, size * random.normal());
        if (c.residual) residual.put(r, k, size * random.normal());
      }
    }
    args.x = x.box.get();
    args.out = place(c.out, out), args.residual_out = place(c.sum, sum);
    args.residual = given(residual), args.weight = given(weight);
    args.eps = c.eps, args.flags = c.flags, args.alignment = c.alignment, args.max_sms = c.max_sms;
  }

  void run(quern_context* context) {
    NormCall::run(context);
    EXPECT_EQ(workspace_bytes, 0u);
  }

  const Matrix& norm() const { return result(c_.out, out); }
  const Matrix& total() const { return result(c_.sum, sum); }

  // Each result lies between the rounded ends of what 2^-20 of it leaves around the exact one, f32's errors in the sum
  // and in the root; and their root mean square is below twice that of the same maths in f32, term after term.
  void check() const {
    std::int64_t wrong = 0, wrong_sums = 0;
    double squares = 0.0, plain_squares = 0.0;
    for (std::int64_t r = 0; r < c_.rows; ++r) {
      double exact = 0.0;
      float plain = 0.0f;
      for (std::int64_t k = 0; k < c_.n; ++k) {
        exact += y(r, k) * y(r, k);
        plain += static_cast<float>(y(r, k)) * static_cast<float>(y(r, k));
      }
      const double inverse = 1.0 / std::sqrt(exact / static_cast<double>(c_.n) + c_.eps);
      const float plain_inverse = 1.0f / std::sqrt(plain / static_cast<float>(c_.n) + c_.eps);
      for (std::int64_t k = 0; k < c_.n; ++k) {
        const double by = factor(k), value = y(r, k) * inverse * by, spread = std::fabs(value) * 0x1p-20;
        const double found = norm().found(r, k);
        wrong += !(found >= c_.x.rounded(value - spread) && found <= c_.x.rounded(value + spread));
        const double plain_value = c_.x.rounded(static_cast<float>(y(r, k)) * plain_inverse * static_cast<float>(by));
        squares += (found - value) * (found - value), plain_squares += (plain_value - value) * (plain_value - value);
        if (c_.sum != Where::nowhere) wrong_sums += total().found(r, k) != c_.x.rounded(static_cast<float>(y(r, k)));
      }
    }
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(wrong_sums, 0);
    EXPECT_LE(std::sqrt(squares), 2.0 * std::sqrt(plain_squares) + 1e-12);
    expect_unspoilt();
  }

 private:
  double y(std::int64_t r, std::int64_t k) const { return x.at(r, k) + (c_.residual ? residual.at(r, k) : 0.0); }
  double factor(std::int64_t k) const {
    const double offset = (c_.flags & QUERN_RMSNORM_WEIGHT_PLUS_ONE) != 0 ? 1.0 : 0.0;
    return weight.given() ? weight.at(0, k) + offset : 1.0;
  }

  const Case c_;
};

class Rmsnorm : public testing::TestWithParam<Case> {};
std::string name_of_case(const testing::TestParamInfo<Case>& c) { return c.param.name; }

// Rows of every length at which a team is another, and of one element more and less.
std::vector<Case> lengths() {
  std::vector<Case> all;
  for (const std::int64_t n :
       {1, 7, 8, 9, 16, 33, 64, 128, 255, 512, 520, 1024, 2048, 4096, 5120, 7168, 16384, 16392, 65536}) {
    Case c;
    c.name = "n" + std::to_string(n), c.n = n, c.rows = n > 10000 ? 2 : 19, c.residual = n % 3 == 1;
    c.sum = c.residual ? Where::own : Where::nowhere;
    all.push_back(c);
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(Lengths, Rmsnorm, testing::ValuesIn(lengths()), name_of_case);

std::vector<Case> kinds() {
  std::vector<Case> all;
  const auto add = [&](const std::string& name) -> Case& {
    Case& c = all.emplace_back();
    c.name = name, c.n = 328, c.rows = 9;
    return c;
  };
  for (const Element element : {Element::f16, Element::bf16, Element::f32}) {
    for (const Parameter weight : {Parameter::none, Parameter::like_x, Parameter::f32}) {
      for (const bool residual : {false, true}) {
        if (element.kind() == Element::f32 && weight == Parameter::f32) continue;
        Case& c = add(std::string(element.name()) +
                      (weight == Parameter::none  ? "_bare"
                       : weight == Parameter::f32 ? "_f32"
                                                  : "") +
                      (residual ? "_residual" : ""));
        c.x = element, c.weight = weight, c.residual = residual;
        c.sum = residual && weight != Parameter::none ? Where::own : Where::nowhere;
      }
    }
  }
  add("plus_one").flags = QUERN_RMSNORM_WEIGHT_PLUS_ONE;
  Case& gemma = add("plus_one_f32_residual");
  gemma.flags = QUERN_RMSNORM_WEIGHT_PLUS_ONE, gemma.weight = Parameter::f32, gemma.residual = true,
  gemma.sum = Where::own;
  for (const bool residual : {false, true}) {
    Case& c = add(residual ? "programmatic_residual" : "programmatic");
    c.flags = std::uint32_t{QUERN_CALL_PROGRAMMATIC} | QUERN_RMSNORM_CONSTANT_WEIGHT, c.residual = residual;
  }
  Case& invariant = add("batch_invariant");
  invariant.flags = QUERN_CALL_BATCH_INVARIANT;
  Case& over_x = add("over_x");
  over_x.out = Where::x, over_x.residual = true, over_x.sum = Where::residual, over_x.rows = 40, over_x.max_sms = 1;
  Case& over_residual = add("over_residual");
  over_residual.out = Where::residual, over_residual.residual = true, over_residual.sum = Where::x;
  Case& long_over_x = add("long_over_x");
  long_over_x.n = 20000, long_over_x.rows = 2, long_over_x.residual = true, long_over_x.out = Where::x;
  long_over_x.sum = Where::residual;
  // Rows that lie at any distance: 8, 4 and 2 bytes from where an access of 16 could be.
  for (const std::int64_t padding : {4, 2, 1, 8}) {
    Case& c = add("padding" + std::to_string(padding));
    c.padding = padding, c.residual = true, c.sum = Where::own;
  }
  Case& odd = add("odd_f32");
  odd.x = Element::f32, odd.n = 33, odd.weight = Parameter::f32;
  Case& narrow = add("alignment4");
  narrow.alignment = 4, narrow.n = 1030;
  Case& zeros = add("large_and_small");
  zeros.size_least = -14, zeros.size_most = 14, zeros.rows = 60;
  Case& eps = add("large_eps");
  eps.eps = 0.5f, eps.size_least = eps.size_most = -4;
  add("one_row").rows = 1;
  add("no_rows").rows = 0;
  Case& many = add("many_rows");
  many.rows = 700, many.n = 64, many.max_sms = 2;
  return all;
}
INSTANTIATE_TEST_SUITE_P(Kinds, Rmsnorm, testing::ValuesIn(kinds()), name_of_case);

TEST_P(Rmsnorm, IsWhatItsDefinitionSays) {
  Norm norm(GetParam());
  ASSERT_NO_FATAL_FAILURE(norm.run(context()));
  norm.check();
}

// `host` in an unfair order, by seed: a missing barrier gives other bits.
TEST(RmsnormScheduling, ChangesNothing) {
  if (on_cuda()) GTEST_SKIP() << "the GPU has a schedule of its own";
  for (const std::int64_t n : {512, 2048, 16400}) {
    SCOPED_TRACE(n);
    Case c;
    c.name = "unfair" + std::to_string(n), c.n = n, c.rows = 5, c.residual = true, c.sum = Where::own, c.max_sms = 1;
    Norm norm(c);
    ASSERT_NO_FATAL_FAILURE(norm.run(context()));
    norm.check();
    const std::vector<unsigned char> out = norm.out.all_found(), sum = norm.sum.all_found();
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      const Context unfair = make_context([&](quern_context_options& o) {
        o.flags |= QUERN_CONTEXT_HOST_SEED;
        o.host_seed = run_seed() * 3 + seed;
      });
      norm.args.flags = 0;
      ASSERT_NO_FATAL_FAILURE(norm.call(unfair.get()));
      EXPECT_EQ(norm.out.all_found(), out) << "seed " << seed;
      EXPECT_EQ(norm.sum.all_found(), sum) << "seed " << seed;
    }
  }
}

// A row's bits are its own, whatever lies beside it.
TEST(RmsnormRows, AreTheSameAlone) {
  Case c;
  c.name = "rows", c.rows = 37, c.n = 4096, c.residual = true, c.sum = Where::own;
  Norm norm(c);
  ASSERT_NO_FATAL_FAILURE(norm.run(context()));
  const std::vector<unsigned char> together = norm.out.all_found();
  const auto bytes = static_cast<std::ptrdiff_t>(c.n * 2);
  for (Matrix* each : {&norm.x, &norm.residual, &norm.out, &norm.sum}) {
    each->box.shape[0] = 1;
    each->box.tensor.byte_offset = static_cast<std::uint64_t>(17 * bytes);
  }
  ASSERT_NO_FATAL_FAILURE(norm.call(context()));
  const unsigned char *here = norm.out.all_found().data() + 17 * bytes, *there = together.data() + 17 * bytes;
  EXPECT_TRUE(std::equal(here, here + bytes, there));
}

// A row's NaN and infinities stay in the row; a row of zeros gives zeros, for eps that is not 0.
TEST(RmsnormNumbers, WhatIsNotFiniteStaysInItsRow) {
  Case c;
  c.name = "odd numbers", c.rows = 4, c.n = 96, c.weight = Parameter::none;
  Norm norm(c);
  norm.x.put(0, 5, std::numeric_limits<double>::quiet_NaN());
  norm.x.put(1, 7, std::numeric_limits<double>::infinity());
  for (std::int64_t k = 0; k < c.n; ++k) norm.x.put(2, k, 0.0);
  ASSERT_NO_FATAL_FAILURE(norm.run(context()));
  for (std::int64_t k = 0; k < c.n; ++k) {
    EXPECT_TRUE(std::isnan(norm.out.found(0, k))) << k;
    EXPECT_EQ(std::isnan(norm.out.found(1, k)), k == 7) << "infinity times 0; the others over infinity are 0: " << k;
    EXPECT_EQ(norm.out.found(2, k), 0.0) << k;
    EXPECT_TRUE(std::isfinite(norm.out.found(3, k))) << k;
  }
}

TEST(RmsnormRefuses, EveryWrongArgument) {
  using N = Norm&;
  const std::vector<Mistake<Norm>> own = {
      {"out's dtype", {"out", "f16"}, [](N d) { d.out.box.tensor.dtype = dtype_of(Format::f16); }},
      {"weight's dtype",
       {"weight", "f16", "bf16, f32"},
       [](N d) { d.weight.box.tensor.dtype = dtype_of(Format::f16); }},
      {"x's rank", {"x", "dimensions"}, [](N d) { d.x.box.tensor.ndim = 1; }},
      {"weight's rank", {"weight", "dimensions"}, [](N d) { d.weight.box.tensor.ndim = 2; }},
      {"residual's rows", {"residual.shape[0]", "5"}, [](N d) { d.residual.box.shape[0] = 4; }},
      {"out's columns", {"out.shape[1]", "320"}, [](N d) { d.out.box.shape[1] = 319; }},
      {"no columns", {"x.shape[1]", "0", "1 to 65536"}, [](N d) { d.x.box.shape[1] = 0; }},
      {"too many columns", {"x.shape[1]", "65537"}, [](N d) { d.x.box.shape[1] = 65537; }},
      {"out over x, further apart",
       {"out is x", "elements apart"},
       [](N d) { d.out.box.tensor.data = d.x.box.tensor.data, d.out.box.strides[0] = 640; },
       true},
      {"eps NaN", {"eps", "nan"}, [](N d) { d.args.eps = std::numeric_limits<float>::quiet_NaN(); }},
      {"1 + no weight",
       {"QUERN_RMSNORM_WEIGHT_PLUS_ONE", "weight"},
       [](N d) { d.args.weight = nullptr, d.args.flags = QUERN_RMSNORM_WEIGHT_PLUS_ONE; }},
      {"a flag that is none", {"flags"}, [](N d) { d.args.flags = 1u << 18; }},
      {"alignment 2", {"alignment", "2"}, [](N d) { d.args.alignment = 2; }},
      {"reserved", {"reserved", "1"}, [](N d) { d.args.reserved = 1; }},
      {"no size", {"size"}, [](N d) { d.args.size = 0; }},
  };
  std::vector<Mistake<Norm>> mistakes = mistakes_of_norms<Norm>();
  mistakes.insert(mistakes.end(), own.begin(), own.end());
  Case good;
  good.name = "refused", good.rows = 5, good.n = 320, good.residual = true, good.sum = Where::own;
  expect_all_refused(
      mistakes, ThreeCalls<quern_rmsnorm_args>{quern_rmsnorm, quern_rmsnorm_workspace, quern_rmsnorm_prepare},
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

// What a model's warming names is what its calls take; and a line that no call could need is refused.
TEST(RmsnormWarm, NamesWhatCallsTake) {
  const Context fresh = compiling_context();
  auto model = sized<quern_model>();
  model.hidden_size = 4096, model.layers = 1, model.heads = 32, model.kv_heads = 8, model.head_dim = 128;
  std::string lines;
  for (const std::string& line : listed_by_warm(context(), model)) {
    if (line.starts_with("rmsnorm ")) lines += line + "\n";
  }
  EXPECT_NE(lines.find("dtype=bf16 weight=bf16 residual=0"), std::string::npos) << lines;
  EXPECT_NE(lines.find("dtype=bf16 weight=bf16 residual=1"), std::string::npos) << lines;
  for (const char* wrong :
       {"team=3", "team=2048", "team=40", "team=32 dtype=f16 weight=bf16", "team=32 dtype=f32 access=2"}) {
    const std::string given = wrong,
                      line = "rmsnorm host " + given + (given.find("dtype") == std::string::npos ? " dtype=bf16" : "");
    const std::vector<Warmed> warmed = warm(fresh.get(), {"host"}, line + "\n");
    ASSERT_EQ(warmed.size(), 1u) << line;
    EXPECT_EQ(warmed[0].outcome, QUERN_WARM_FAILED) << line;
    EXPECT_NE(warmed[0].text.find("allowed"), std::string::npos) << warmed[0].text;
  }
}

}  // namespace
}  // namespace quern::test
