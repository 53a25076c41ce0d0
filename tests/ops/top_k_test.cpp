// top_k and argmax against a stable sort: the very indices, ties included.
// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "tests/ops/compiled.h"
#include "tests/ops/rows.h"

namespace quern::test {
namespace {

const ForEveryTarget kTemplates = {
    "top_k * dtype=f32",  "top_k * dtype=bf16 held=0", "top_k * dtype=f16 cluster=0 held=0",
    "argmax * dtype=f32", "argmax * dtype=bf16",       "argmax * dtype=f16 cluster=0",
};
constexpr ThreeCalls<quern_top_k_args> kTopK{quern_top_k, quern_top_k_workspace, quern_top_k_prepare};
constexpr ThreeCalls<quern_argmax_args> kArgmax{quern_argmax, quern_argmax_workspace, quern_argmax_prepare};

struct Case {
  std::string name;
  std::int64_t rows = 12, n = 111, k = 5;
  Element x = Element::f32;
  bool sorted = false, lengths = false, values = true, narrow = false;
  Layout2 where = {};
  std::int32_t max_sms = 0;
  std::vector<Numbers> kinds = {std::begin(kAllNumbers), std::end(kAllNumbers)};  // taken in turns
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class Problem {
 public:
  explicit Problem(const Case& c)
      : args(sized<quern_top_k_args>()),
        x(c.x, c.rows, c.n, c.where),
        values(c.narrow ? c.x : Element(Element::f32), c.rows, c.k, {3, 1}),
        ids(IntegerBits{32}, {c.rows, c.k}, {c.k + 2, 1}),
        lengths(IntegerBits{32}, {c.rows}),
        c_(c) {
    Random random(c.name);
    for (std::int64_t r = 0; r < c.rows; ++r) {
      x.fill(random, c.kinds[static_cast<std::size_t>(r) % c.kinds.size()], r);
      const std::int64_t some[] = {0, 1, c.k, c.n,
                                   static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(c.n) + 1))};
      lengths.set_integer(std::min(some[r % 5], c.n), r);
    }
    args.x = x.tensor(), args.ids = ids.tensor(), args.values = c.values ? values.tensor() : nullptr;
    args.lengths = c.lengths ? lengths.tensor() : nullptr;
    args.flags = c.sorted ? std::uint32_t{QUERN_TOP_K_SORTED} : 0u, args.max_sms = c.max_sms;
    for (Array* each : {&x.array(), &values.array(), &ids, &lengths}) each->upload();
  }
  void run(quern_context* context) {
    ASSERT_NO_FATAL_FAILURE(run_op(context, kTopK, args));
    ids.download(), values.array().download();
  }
  std::vector<double> row(std::int64_t r) const {
    std::vector<double> numbers(static_cast<std::size_t>(c_.lengths ? lengths.integer(r) : c_.n));
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = x.get(r, static_cast<std::int64_t>(i));
    return numbers;
  }
  void check() const {
    for (std::int64_t r = 0; r < c_.rows; ++r) {
      std::vector<std::int64_t> chosen = ranked(row(r));
      chosen.resize(std::min(chosen.size(), static_cast<std::size_t>(c_.k)));
      if (!c_.sorted) std::ranges::sort(chosen);
      std::int64_t wrong = 0;
      for (std::int64_t j = 0; j < c_.k; ++j) {
        const bool there = j < static_cast<std::int64_t>(chosen.size());
        const std::int64_t id = there ? chosen[static_cast<std::size_t>(j)] : -1;
        wrong += ids.integer(r, j) != id;
        if (c_.values) wrong += values.get(r, j) != (there ? x.get(r, id) : -std::numeric_limits<double>::infinity());
      }
      EXPECT_EQ(wrong, 0) << "row " << r << ", " << name_of(c_.kinds[static_cast<std::size_t>(r) % c_.kinds.size()]);
    }
    EXPECT_TRUE(c_.values ? values.is_clean_outside() : values.is_untouched());
  }

  quern_top_k_args args;
  Rows x, values;
  Array ids, lengths;

 private:
  const Case c_;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  const auto add = [&](const std::string& name) -> Case& {
    all.emplace_back().name = name;
    return all.back();
  };
  for (const std::int64_t n : {1, 2, 111, 2048, 32000, 128256, 151936, 262144}) {
    for (const std::int64_t k : {1, 50, 2048}) {
      for (const bool sorted : {false, true}) {
        if (!on_cuda() && n > 40000 && (sorted ? k != 50 : k != 2048)) continue;
        Case& c = add("n" + std::to_string(n) + "_k" + std::to_string(k) + (sorted ? "_sorted" : ""));
        c.n = n, c.k = k, c.sorted = sorted;
        if (!on_cuda() && n > 40000) {
          c.rows = 3;
          c.kinds = sorted ? std::vector{Numbers::normal, Numbers::holes, Numbers::two}
                           : std::vector{Numbers::staircase, Numbers::equal, Numbers::peaked};
        }
      }
    }
  }
  for (const std::int64_t rows : {0, 1, 2, 99, 989}) {
    Case& c = add("rows" + std::to_string(rows));
    c.rows = rows, c.k = 7, c.sorted = rows == 99, c.max_sms = rows == 989 ? 1 : 0;
  }
  for (const Element element : {Element::f16, Element::bf16}) {
    for (const bool sorted : {false, true}) {
      Case& c = add(std::string(element.name()) + (sorted ? "_sorted" : ""));
      c.x = element, c.n = 9001, c.k = 300, c.where = {3, 5}, c.narrow = sorted, c.sorted = sorted, c.lengths = !sorted;
    }
  }
  for (const std::int64_t offset : {0, 1, 2, 3}) {
    Case& c = add("lengths_offset" + std::to_string(offset));
    c.where = {5, offset}, c.n = 25001, c.k = 200, c.rows = 20, c.lengths = true, c.sorted = offset == 2;
  }
  Case& few = add("few_multiprocessors");
  few.max_sms = 1, few.rows = 5, few.n = 30000, few.k = 64;
  add("ids_alone").values = false;
  return all;
}
class TopK : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Cases, TopK, testing::ValuesIn(cases()),
                         [](const testing::TestParamInfo<Case>& c) { return c.param.name; });

TEST_P(TopK, AreThoseOfAStableSort) {
  Problem problem(GetParam());
  ASSERT_NO_FATAL_FAILURE(problem.run(context()));
  problem.check();
}

TEST(TopKScheduling, ChangesNothing) {
  if (on_cuda()) GTEST_SKIP() << "the GPU has a schedule of its own";
  Case c;
  c.name = "unfair", c.rows = 3, c.n = 30001, c.k = 100, c.sorted = true, c.max_sms = 1;
  c.kinds = {Numbers::normal, Numbers::two, Numbers::equal};
  for (std::uint64_t seed = 0; seed < 2; ++seed) {
    const Context unfair = unfair_context(seed);
    for (const std::int32_t sms : {0, 1}) {
      c.max_sms = sms;
      Problem problem(c);
      ASSERT_NO_FATAL_FAILURE(problem.run(unfair.get()));
      problem.check();
    }
  }
}

TEST(TopKRefuses, EveryWrongArgument) {
  using P = Problem&;
  const std::vector<Mistake<Problem>> mistakes = {
      {"x NULL", {"x", "NULL"}, [](P d) { d.args.x = nullptr; }},
      {"ids NULL", {"ids", "NULL"}, [](P d) { d.args.ids = nullptr; }},
      {"x's dtype", {"x", "int32"}, [](P d) { d.x.array().box().tensor.dtype = kInt32; }},
      {"ids' dtype", {"ids", "f32"}, [](P d) { d.ids.box().tensor.dtype = kFloat32; }},
      {"values' dtype", {"values", "bf16"}, [](P d) { d.values.array().box().tensor.dtype = dtype_of(Format::bf16); }},
      {"no k", {"ids.shape[1]", "1 to 2048"}, [](P d) { d.ids.box().shape[1] = 0; }},
      {"k too large", {"ids.shape[1]", "1 to 2048"}, [](P d) { d.ids.box().shape[1] = 2049; }},
      {"ids' rows", {"ids.shape[0]", "4"}, [](P d) { d.ids.box().shape[0] = 3; }},
      {"values' k", {"values.shape[1]", "5"}, [](P d) { d.values.array().box().shape[1] = 4; }},
      {"ids over each other", {"ids.strides[0]"}, [](P d) { d.ids.box().strides[0] = 2; }},
      {"lengths' number", {"lengths.shape[0]", "4"}, [](P d) { d.lengths.box().shape[0] = 5; }},
      {"a flag that is none", {"flags"}, [](P d) { d.args.flags = 1u << 17; }},
      {"no size", {"size"}, [](P d) { d.args.size = 0; }},
  };
  Case good;
  good.name = "refused", good.rows = 4, good.lengths = true;
  const auto watch = [](P d) {
    return [&d] {
      d.ids.download(), d.values.array().download();
      bool same = d.values.is_untouched();
      for (std::int64_t r = 0; r < 4; ++r) same = same && d.ids.is_untouched(r, 0);
      return same;
    };
  };
  expect_all_refused(mistakes, kTopK, [&] { return std::make_unique<Problem>(good); }, watch);
  if (on_cuda()) return;
  const std::vector<Mistake<Problem>> by_value = {
      {"a length too large",
       {"lengths[2]", "112", "0 to 111"},
       [](P d) { d.lengths.set_integer(112, 2), d.lengths.upload(); },
       true},
  };
  expect_all_refused(by_value, kTopK, [&] { return std::make_unique<Problem>(good); }, watch);
}

// ---- argmax
class Largest {
 public:
  Largest(const std::string& name, std::int64_t rows, std::int64_t n, Element element, bool wide, Layout2 where = {})
      : args(sized<quern_argmax_args>()),
        logits(element, rows, n, where),
        ids(IntegerBits{wide ? 64 : 32}, {rows}),
        values(Element::f32, {rows}) {
    Random random(name);
    for (std::int64_t r = 0; r < rows; ++r)
      logits.fill(random, kAllNumbers[static_cast<std::size_t>(r) % std::size(kAllNumbers)], r);
    args.logits = logits.tensor(), args.ids = ids.tensor(), args.values = values.tensor();
    for (Array* each : {&logits.array(), &ids, &values}) each->upload();
  }
  void run(quern_context* context) {
    ASSERT_NO_FATAL_FAILURE(run_op(context, kArgmax, args));
    ids.download(), values.download();
  }
  void check() const {
    for (std::int64_t r = 0; r < logits.rows(); ++r) {
      std::vector<double> x;
      for (std::int64_t i = 0; i < logits.n(); ++i) x.push_back(logits.get(r, i));
      const std::vector<std::int64_t> order = ranked(x);
      EXPECT_EQ(ids.integer(r), order.empty() ? -1 : order[0]) << "row " << r;
      if (order.empty()) {
        EXPECT_TRUE(std::isnan(values.get(r)));
      } else {
        EXPECT_EQ(values.get(r), x[static_cast<std::size_t>(order[0])]) << "row " << r;
      }
    }
  }
  quern_argmax_args args;
  Rows logits;
  Array ids, values;
};

TEST(Argmax, IsTheFirstOfTheLargest) {
  for (const Element element : {Element::f32, Element::f16, Element::bf16}) {
    for (const std::int64_t n : {1, 111, 4097, 32000, 128256, 262144}) {
      if (!on_cuda() && element.kind() != Element::f32 && n > 40000) continue;
      SCOPED_TRACE(std::string(element.name()) + " " + std::to_string(n));
      Largest problem("argmax", n > 40000 && !on_cuda() ? 3 : 14, n, element, n % 2 == 0, {1, n % 4});
      ASSERT_NO_FATAL_FAILURE(problem.run(context()));
      problem.check();
    }
  }
  for (const std::int64_t rows : {0, 1, 2, 99, 989}) {
    Largest problem("rows", rows, 111, Element::f32, false);
    problem.args.max_sms = rows == 99 ? 1 : 0;
    ASSERT_NO_FATAL_FAILURE(problem.run(context()));
    problem.check();
  }
  if (on_cuda()) return;
  const Context unfair = unfair_context(1);
  Largest problem("unfair", 6, 30001, Element::f32, false);
  ASSERT_NO_FATAL_FAILURE(problem.run(unfair.get()));
  problem.check();
}

TEST(ArgmaxRefuses, EveryWrongArgument) {
  using P = Largest&;
  const std::vector<Mistake<Largest>> mistakes = {
      {"logits NULL", {"logits", "NULL"}, [](P d) { d.args.logits = nullptr; }},
      {"ids NULL", {"ids", "NULL"}, [](P d) { d.args.ids = nullptr; }},
      {"ids' dtype", {"ids", "f32", "int32"}, [](P d) { d.ids.box().tensor.dtype = kFloat32; }},
      {"ids' number", {"ids.shape[0]", "3"}, [](P d) { d.ids.box().shape[0] = 2; }},
      {"values' dtype", {"values", "int32"}, [](P d) { d.values.box().tensor.dtype = kInt32; }},
      {"no columns", {"logits.shape[1]"}, [](P d) { d.logits.array().box().shape[1] = 0; }},
      {"logits' last stride", {"logits.strides[1]"}, [](P d) { d.logits.array().box().strides[1] = 2; }},
      {"a flag that is none", {"flags"}, [](P d) { d.args.flags = 1u << 16; }},
      {"no size", {"size"}, [](P d) { d.args.size = 0; }},
  };
  expect_all_refused(
      mistakes, kArgmax, [] { return std::make_unique<Largest>("refused", 3, 50, Element::f32, false); },
      [](P d) {
        return [&d] {
          d.ids.download();
          return d.ids.is_untouched(0) && d.ids.is_untouched(2);
        };
      });
}

}  // namespace
}  // namespace quern::test
