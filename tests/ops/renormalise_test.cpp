// renormalise against a stable sort and sums in fp64: the very tokens that stay.
// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "tests/ops/compiled.h"
#include "tests/ops/rows.h"
#include "tests/ops/staying.h"

namespace quern::test {
namespace {

const ForEveryTarget kTemplates = {
    "renormalise * dtype=f32",
    "renormalise * dtype=bf16 logits=1",
    "renormalise * dtype=f16 logits=1",
};
constexpr ThreeCalls<quern_renormalise_args> kRenormalise{quern_renormalise, quern_renormalise_workspace,
                                                          quern_renormalise_prepare};

struct Case {
  std::string name;
  std::int64_t rows = 18, n = 111;
  bool joint = false, in_place = false;
  Layout2 where = {}, where_out = {};
  std::int32_t max_sms = 0;
  float by = 1.0f;       // probabilities add up to this
  std::size_t kind = 0;  // of the first row
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class Problem {
 public:
  explicit Problem(const Case& c)
      : args(sized<quern_renormalise_args>()),
        probs(Element::f32, c.rows, c.n, c.where),
        out(Element::f32, c.rows, c.n, c.where_out),
        top_k(IntegerBits{32}, {c.rows}),
        top_p(Element::f32, {c.rows}),
        min_p(Element::f32, {c.rows}),
        status(IntegerBits{32}, {c.rows}),
        c_(c) {
    Random random(c.name);
    const auto one_of = [&](auto... of) {
      const double all[] = {static_cast<double>(of)...};
      return all[random.below(sizeof...(of))];
    };
    for (std::int64_t r = 0; r < c.rows; ++r) {
      const Numbers kind = kAllNumbers[(c.kind + static_cast<std::size_t>(r)) % std::size(kAllNumbers)];
      std::vector<double> x, p;
      double max = -1e300, sum = 0;
      for (std::int64_t i = 0; i < c.n; ++i) x.push_back(draw(kind, random, i, c.n));
      for (const double v : x) max = v < 1e30 ? std::max(max, v) : max;
      for (const double v : x) p.push_back(std::isfinite(v) ? std::exp(v - max) : 0.0), sum += p.back();
      for (std::int64_t i = 0; i < c.n; ++i) {
        const double v = x[static_cast<std::size_t>(i)];
        // What is negative or no number counts as 0.
        probs.set(
            std::isnan(v) ? (i % 2 != 0 ? v : -0.25) : p[static_cast<std::size_t>(i)] / (sum > 0 ? sum : 1.0) * c.by, r,
            i);
      }
      top_k.set_integer(static_cast<std::int64_t>(one_of(0, -1, 1, 2, 7, 50, 300, 1 << 22)), r);
      top_p.set(one_of(1.0, 0.9, 0.5, 0.0, 1e-6, 0.999, 0.1), r);
      min_p.set(one_of(0.0, 0.0, 0.05, 1.0, 1e-4, 0.3), r);
    }
    args.probs = probs.tensor(), args.out = c.in_place ? probs.tensor() : out.tensor();
    args.top_ks = top_k.tensor(), args.top_ps = top_p.tensor(), args.min_ps = min_p.tensor();
    args.status = status.tensor(), args.max_sms = c.max_sms;
    args.flags = c.joint ? std::uint32_t{QUERN_RENORMALISE_JOINT} : 0u;
    for (std::int64_t r = 0; r < c.rows; ++r) {
      for (std::int64_t i = 0; i < c.n; ++i) given_.push_back(probs.get(r, i));
    }
    upload();
  }
  void upload() {
    for (Array* each : {&probs.array(), &out.array(), &top_k, &top_p, &min_p, &status}) each->upload();
  }
  void run(quern_context* context) {
    ASSERT_NO_FATAL_FAILURE(run_op(context, kRenormalise, args));
    for (Array* each : {&probs.array(), &out.array(), &status}) each->download();
  }
  const Rows& result() const { return c_.in_place ? probs : out; }

  void check() const {
    std::int64_t close = 0;
    for (std::int64_t r = 0; r < c_.rows; ++r) {
      SCOPED_TRACE("row " + std::to_string(r));
      std::vector<double> p(given_.begin() + r * c_.n, given_.begin() + (r + 1) * c_.n);
      for (double& v : p) v = v > 0 ? v : 0;
      const std::vector<std::int64_t> order = ranked(p);
      const auto at = [&](std::size_t place) { return p[static_cast<std::size_t>(order[place])]; };
      EXPECT_EQ(status.integer(r), at(0) > 0 ? 0 : QUERN_SAMPLE_EMPTY);
      // The kernel's weights are exact to 2^-40 of the largest each.
      const Staying staying = staying_of(p, order, {top_k.integer(r), top_p.get(r), min_p.get(r), c_.joint},
                                         at(0) * 0x1p-40 * static_cast<double>(c_.n));
      std::size_t stays = 0, wrong = 0;
      for (std::size_t i = 0; i < order.size(); ++i) stays += result().get(r, order[i]) > 0;
      close += staying.least != staying.most;
      EXPECT_GE(stays, staying.least);
      EXPECT_LE(stays, staying.most);
      double sum = 0;
      for (std::size_t i = 0; i < stays; ++i) sum += at(i);
      for (std::size_t i = 0; i < order.size(); ++i) {
        const double exact = i < stays ? at(i) / sum : 0.0, found = result().get(r, order[i]);
        wrong += !(std::fabs(found - exact) <= exact * 0x1p-21 + (exact > 0 ? 0x1p-149 : 0.0));
      }
      EXPECT_EQ(wrong, 0u);
    }
    EXPECT_LE(close, c_.rows / 4 + 1) << "rows whose cut is too close to call";
    EXPECT_TRUE(result().is_clean_outside());
  }

  quern_renormalise_args args;
  Rows probs, out;
  Array top_k, top_p, min_p, status;

 private:
  const Case c_;
  std::vector<double> given_;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  const auto add = [&](const std::string& name) -> Case& {
    all.emplace_back().name = name;
    return all.back();
  };
  for (const std::int64_t n : {1, 2, 111, 4099, 32000, 128256, 151936, 262144}) {
    for (const bool joint : {false, true}) {
      if (!on_cuda() && n > 40000 && joint == (n == 128256)) continue;
      Case& c = add("n" + std::to_string(n) + (joint ? "_joint" : ""));
      c.n = n, c.joint = joint, c.rows = on_cuda() ? 60 : n > 40000 ? 5 : 24;
    }
  }
  for (const std::int64_t rows : {0, 1, 2, 99, 989}) {
    Case& c = add("rows" + std::to_string(rows));
    c.rows = rows, c.max_sms = rows == 99 ? 1 : 0;
  }
  for (const std::int64_t offset : {1, 2, 3}) {
    Case& c = add("offset" + std::to_string(offset));
    c.where = {3, offset}, c.where_out = {offset, 1}, c.n = 3001;
  }
  Case& over = add("in_place");
  over.in_place = true, over.n = 30001, over.where = {1, 1}, over.max_sms = 1;
  add("large").by = 1e20f;
  add("small").by = 1e-20f;
  return all;
}
// Two numbers and one that is 2^-40 of them: the first alone is less than half of all, if by ever so little.
TEST(RenormaliseRows, AShareIsReachedAndNotAlmost) {
  Case c;
  c.name = "almost", c.rows = 2, c.n = 200;
  Problem problem(c);
  for (std::int64_t r = 0; r < 2; ++r) {
    for (std::int64_t i = 0; i < 200; ++i) problem.probs.set(0.0, r, i);
    problem.probs.set(1.0, r, 7), problem.probs.set(1.0, r, 150);
    problem.top_k.set_integer(0, r), problem.top_p.set(0.5, r), problem.min_p.set(0.0, r);
  }
  problem.probs.set(0x1p-40, 1, 60);
  problem.upload();
  ASSERT_NO_FATAL_FAILURE(problem.run(context()));
  EXPECT_EQ(problem.out.get(0, 7), 1.0) << "half of all is one half";
  EXPECT_EQ(problem.out.get(0, 150), 0.0);
  EXPECT_EQ(problem.out.get(1, 7), 0.5);
  EXPECT_EQ(problem.out.get(1, 150), 0.5);
}

class Renormalise : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Cases, Renormalise, testing::ValuesIn(cases()),
                         [](const testing::TestParamInfo<Case>& c) { return c.param.name; });

TEST_P(Renormalise, KeepsThoseOfAStableSort) {
  Problem problem(GetParam());
  ASSERT_NO_FATAL_FAILURE(problem.run(context()));
  problem.check();
}

// Rows that blocks share: the token that ends a share lies in a bin of which each block has some, or among more equal
// ones than are listed.
TEST(RenormaliseRows, EndsLieInAnyBlock) {
  for (std::size_t kind = 0; kind < std::size(kAllNumbers); kind += 2) {
    for (const auto& [k, p] : {std::pair{0, 0.9}, {0, 0.5}, {9000, 1.0}, {5000, 0.99}}) {
      Case c;
      c.name = "ends " + std::to_string(kind) + " " + std::to_string(k) + " " + std::to_string(p);
      SCOPED_TRACE(c.name);
      c.rows = 2, c.n = 20001, c.kind = kind;
      Problem problem(c);
      for (std::int64_t r = 0; r < c.rows; ++r) {
        problem.top_k.set_integer(k, r), problem.top_p.set(p, r), problem.min_p.set(0.0, r);
      }
      problem.upload();
      ASSERT_NO_FATAL_FAILURE(problem.run(context()));
      problem.check();
    }
  }
}

TEST(RenormaliseRows, AreTheSameInAnyOrder) {
  if (on_cuda()) GTEST_SKIP() << "the GPU has a schedule of its own";
  for (const bool shared : {false, true}) {  // by several blocks
    Case c;
    c.name = "rows", c.rows = shared ? 2 : 12, c.n = shared ? 20001 : 9001;
    const auto asked = [&](Problem& problem) {
      if (!shared) return;
      for (std::int64_t r = 0; r < c.rows; ++r) {
        problem.top_k.set_integer(0, r), problem.top_p.set(0.9, r), problem.min_p.set(0.0, r);
      }
      problem.upload();
    };
    Problem fair(c);
    asked(fair);
    ASSERT_NO_FATAL_FAILURE(fair.run(context()));
    for (std::uint64_t seed = 0; seed < 2; ++seed) {
      const Context unfair = unfair_context(seed);
      Problem again(c);
      asked(again);
      ASSERT_NO_FATAL_FAILURE(again.run(unfair.get()));
      EXPECT_EQ(again.out.memory(), fair.out.memory()) << "seed " << seed;
    }
  }
}

// A parameter that is out of its range makes its row 0, and no other.
TEST(RenormaliseRows, TellOfTheirParameters) {
  Case c;
  c.name = "parameters", c.rows = 6, c.n = 50;
  Problem problem(c);
  problem.top_k.set_integer(-2, 0), problem.top_p.set(1.5, 1), problem.min_p.set(-0.1, 2);
  problem.top_p.set(std::numeric_limits<double>::quiet_NaN(), 3);
  problem.probs.set(std::numeric_limits<double>::infinity(), 4, 7);
  problem.upload();
  ASSERT_NO_FATAL_FAILURE(problem.run(context()));
  for (std::int64_t r = 0; r < 6; ++r) {
    EXPECT_EQ((problem.status.integer(r) & QUERN_SAMPLE_PARAMETER) != 0, r < 4) << r;
    EXPECT_EQ((problem.status.integer(r) & QUERN_SAMPLE_EMPTY) != 0, r == 4) << r;
    double sum = 0;
    for (std::int64_t i = 0; i < c.n; ++i) sum += problem.out.get(r, i);
    EXPECT_NEAR(sum, r == 5 ? 1.0 : 0.0, 1e-5) << r;
  }
}

TEST(RenormaliseRefuses, EveryWrongArgument) {
  using P = Problem&;
  const auto scalars = [](P d) { d.args.top_ks = d.args.top_ps = d.args.min_ps = nullptr; };
  const std::vector<Mistake<Problem>> mistakes = {
      {"probs NULL", {"probs", "NULL"}, [](P d) { d.args.probs = nullptr; }},
      {"out NULL", {"out", "NULL"}, [](P d) { d.args.out = nullptr; }},
      {"probs' dtype",
       {"probs", "bf16", "f32"},
       [](P d) { d.probs.array().box().tensor.dtype = dtype_of(Format::bf16); }},
      {"out's columns", {"out.shape[1]", "50"}, [](P d) { d.out.array().box().shape[1] = 49; }},
      {"no columns", {"probs.shape[1]"}, [](P d) { d.probs.array().box().shape[1] = 0; }},
      {"top_ks' dtype", {"top_ks", "int32"}, [](P d) { d.top_k.box().tensor.dtype = kFloat32; }},
      {"top_ps' number", {"top_ps.shape[0]", "3"}, [](P d) { d.top_p.box().shape[0] = 2; }},
      {"top_k", {"top_k", "-2"}, [&](P d) { scalars(d), d.args.top_k = -2; }},
      {"top_p",
       {"top_p", "1.5"},
       [&](P d) { scalars(d), d.args.top_p = 1.5f, d.args.flags |= QUERN_RENORMALISE_TOP_P; }},
      {"min_p", {"min_p", "0 to 1"}, [&](P d) { scalars(d), d.args.min_p = std::numeric_limits<float>::quiet_NaN(); }},
      {"a flag that is none", {"flags"}, [](P d) { d.args.flags = 1u << 18; }},
      {"reserved", {"reserved"}, [](P d) { d.args.reserved = 2; }},
      {"no size", {"size"}, [](P d) { d.args.size = 0; }},
  };
  Case good;
  good.name = "refused", good.rows = 3, good.n = 50;
  expect_all_refused(
      mistakes, kRenormalise, [&] { return std::make_unique<Problem>(good); },
      [](P d) {
        return [&d] {
          d.out.array().download();
          return d.out.is_untouched();
        };
      });
}

}  // namespace
}  // namespace quern::test
