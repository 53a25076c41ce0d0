// reduce against plain loops in fp64: every reduction, over any axes of tensors that lie in any way.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <limits>

#include "tests/ops/reduce_problem.h"

namespace quern::test::reduce {
namespace {

const ForEveryTarget kTemplates = {
    "reduce * way=rows dtype=f32 kind=argmax out=int64 kind1=logsumexp kind2=max kind3=any out3=uint8 segments=1 "
    "team=32",
    "reduce * way=rows dtype=int8 kind=dot y=1 exact=1 out=int32 team=256 at_once=2",
    "reduce * way=rows dtype=e4m3 kind=mean halves=1 before=acc*scalar0 after=sqrt(acc) team=8",
    "reduce * way=columns dtype=f16 kind=l2 kind1=argmin out1=int32 at_once=4",
    "reduce * way=few dtype=bf16 kind=mean out=bf16 team=8",
    "reduce * way=join dtype=f32 kind=argmax out=int64 kind1=logsumexp",
};

class Reduce : public testing::TestWithParam<Case> {};
std::string name_of_case(const testing::TestParamInfo<Case>& c) { return c.param.name; }

std::vector<Case> cases() {
  std::vector<Case> all;
  const auto add = [&](const std::string& name, Element x, std::vector<std::int64_t> shape, std::uint32_t axes,
                       std::vector<int> kinds) -> Case& {
    Case& c = all.emplace_back();
    c.name = name, c.x = x, c.shape = std::move(shape), c.axes = axes, c.kinds = std::move(kinds);
    return c;
  };
  // Rows of every team, and in pieces; each element type; rows that begin anywhere.
  add("one", Element::f32, {1}, 0, {kSum, kArgmax, kLogSumExp, kAny});
  add("rows_7", Element::f16, {33, 7}, 2, {kSum, kMax}).offset = 1;
  add("rows_33", Element::bf16, {7, 33}, 2, {kMean, kArgmin}).gap = 3;
  add("rows_257", Element::e4m3, {5, 257}, 2, {kSum, kL2, kMin}).gap = 1;
  add("rows_1009", Element::e5m2, {3, 1009}, 2, {kLogSumExp, kArgmax}).offset = 5;
  add("rows_5000", Element::f32, {3, 5000}, 2, {kSum, kArgmax, kLogSumExp, kMax}).max_sms = 1;
  add("rows_one_by_one", Element::f32, {50, 5000}, 2, {kSum, kArgmax});
  add("pieces", Element::bf16, {2, 40009}, 2, {kSum, kArgmax, kLogSumExp, kAll}).gap = 3;
  add("pieces_even", Element::f32, {3, 20480}, 2, {kSum, kArgmax});
  add("all_of_it", Element::f32, {37, 1009}, 0, {kSum, kArgmin}).keep = true;
  // Of 8-bit integers sums are exact.
  Case& exact = add("int8", Element::i8, {3, 4099}, 2, {kSum, kDot, kMean, kMax});
  exact.outs = {kInt32, kInt32, kFloat32, kFloat32};
  add("int8_columns", Element::i8, {300, 40}, 1, {kSum}).outs = {kInt32};
  // Columns: neighbouring rows' elements beside each other; few of them; in pieces; apart.
  add("columns", Element::f16, {33, 264}, 1, {kSum, kArgmax});
  add("columns_odd", Element::f32, {7, 33}, 1, {kMean, kLogSumExp}).gap = 1;
  add("columns_pieces", Element::bf16, {1201, 24}, 1, {kSum, kMin});
  add("columns_three", Element::f32, {100, 3}, 1, {kSum});
  add("columns_of_a_vector", Element::bf16, {20000, 8}, 1, {kSum, kArgmax});
  add("columns_of_three", Element::f32, {2, 700, 12}, 2, {kMean, kMin, kLogSumExp});
  // Few elements of each, which a thread goes through alone.
  add("columns_few", Element::bf16, {3, 13, 264}, 2, {kMean}).outs = {dtype_of(Format::bf16)};
  Case& few = add("columns_few_int8", Element::i8, {5, 1040}, 1, {kSum});
  few.outs = {kInt32}, few.gap = 16;
  add("columns_few_wide", Element::f16, {3, 9000}, 1, {kArgmax});
  add("dot_columns_few", Element::f16, {9, 48}, 1, {kDot, kArgmax});
  // Dimensions that do not lie in their order, that are merged, and that are not.
  add("middle", Element::f32, {3, 5, 7}, 2, {kSum, kArgmax});
  Case& outer = add("outer_two", Element::bf16, {4, 3, 40}, 3, {kSum});
  outer.gap = 4;
  Case& turned = add("turned", Element::f32, {5, 7, 3, 4}, 5, {kSum, kArgmin});
  turned.order = {1, 0, 3, 2};
  Case& segments = add("segments", Element::f16, {3, 5, 7, 33}, 10, {kSum, kArgmax, kL2});
  segments.gap = 2;
  add("six", Element::f32, {2, 3, 2, 3, 2, 5}, 42, {kSum, kAny, kAll, kMax});
  // Backwards: along rows, whose places count all the same; along columns and what is kept; y the other way round.
  add("backwards", Element::bf16, {3, 1009}, 2, {kSum, kMax, kLogSumExp}).turned = 3;
  add("backwards_places", Element::f32, {5, 260}, 2, {kArgmax, kArgmin, kSum}).turned = 2;
  Case& mirrored = add("backwards_columns", Element::f16, {100, 40}, 1, {kSum, kArgmax});
  mirrored.turned = 3, mirrored.out_turned = 1;
  Case& across = add("backwards_dot", Element::f32, {7, 3, 60}, 5, {kDot, kMin});
  across.turned = 7, across.y_apart = true, across.out_turned = 1;
  add("nothing_reduced", Element::bf16, {5, 1, 40}, 2, {kSum, kArgmax});
  // Two tensors, formulas.
  add("dot", Element::bf16, {5, 600}, 2, {kDot});
  add("dot_apart", Element::f32, {5, 600}, 2, {kDot, kSum}).y_apart = true;
  add("dot_columns", Element::f16, {40, 48}, 1, {kDot});
  add("dot_columns_apart", Element::f16, {40, 48}, 1, {kDot}).y_apart = true;
  Case& formula = add("formula", Element::f16, {5, 521}, 2, {kMean, kMax});
  formula.before = "acc * tensor0 * scalar1", formula.after = "acc * scalar0 + scalar1";
  // Other dtypes of results.
  Case& narrow = add("narrow", Element::f32, {7, 40}, 2, {kSum, kArgmax, kAny});
  narrow.outs = {dtype_of(Format::bf16), kInt32, kFloat32};
  // Of nothing.
  add("empty_rows", Element::f32, {4, 0}, 2, {kSum, kArgmax, kLogSumExp, kAll});
  add("empty_rows_max", Element::f32, {0, 4}, 1, {kMean, kMax, kMin, kAny});
  add("no_rows", Element::f32, {0, 4}, 2, {kSum});
  return all;
}
INSTANTIATE_TEST_SUITE_P(Cases, Reduce, testing::ValuesIn(cases()), name_of_case);

TEST_P(Reduce, IsWhatItsDefinitionSays) {
  Problem problem(GetParam());
  ASSERT_NO_FATAL_FAILURE(problem.run(context()));
  problem.check();
}

// `host` in an unfair order, by seed, and on fewer multiprocessors: the bits are the same.
TEST(ReduceScheduling, ChangesNothing) {
  if (on_cuda()) GTEST_SKIP() << "the GPU has a schedule of its own";
  const std::vector<int> kinds = {kSum, kArgmax, kLogSumExp, kMax};
  Case pieces = plain("unfair", {2, 40009}, 2, kinds);
  pieces.x = Element::bf16, pieces.gap = 3;
  for (const Case& c :
       {plain("unfair_rows", {3, 5000}, 2, kinds), pieces, plain("unfair_columns", {1201, 24}, 1, {kSum, kMin}),
        plain("unfair_few", {9, 1200}, 1, {kSum, kMin})}) {
    SCOPED_TRACE(c.name);
    Problem problem(c);
    ASSERT_NO_FATAL_FAILURE(problem.run(context()));
    problem.check();
    const std::vector<unsigned char> expected = problem.results();
    problem.args.max_sms = 1;
    ASSERT_NO_FATAL_FAILURE(problem.call(context()));
    EXPECT_EQ(problem.results(), expected) << "max_sms 1";
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      const Context unfair = make_context([&](quern_context_options& o) {
        o.flags |= QUERN_CONTEXT_HOST_SEED;
        o.host_seed = run_seed() * 3 + seed;
      });
      problem.args.flags = 0;
      ASSERT_NO_FATAL_FAILURE(problem.call(unfair.get()));
      EXPECT_EQ(problem.results(), expected) << "seed " << seed;
    }
  }
}

// One preparation serves other extents of what is kept, 16 and more, whichever kernel takes them.
TEST(ReducePrepared, ServesFewerColumns) {
  struct Served {
    std::vector<std::int64_t> most;
    std::vector<std::vector<std::int64_t>> less;
  };
  const Served all[] = {{{3, 1001}, {{3, 1000}, {3, 17}, {3, 16}}},
                        {{3, 1000}, {{3, 999}, {3, 24}}},
                        {{1, 1001}, {{1, 1000}, {1, 16}, {1, 17}}},
                        {{1, 1000}, {{1, 999}, {1, 992}}},
                        {{17, 1000}, {{17, 999}, {17, 16}}}};
  for (const Served& each : all) {
    const Context fresh = make_context();
    const auto of = [](const std::vector<std::int64_t>& shape) {
      Case c = plain("prepared", shape, 1, {kSum});
      c.x = Element::f16, c.outs = {dtype_of(Format::f16)};
      return c;
    };
    Problem most(of(each.most));
    auto error = sized<quern_error>();
    ASSERT_EQ(quern_reduce_prepare(fresh.get(), &most.args, &error), QUERN_OK) << error.text;
    auto before = sized<quern_stats>(), after = sized<quern_stats>();
    ASSERT_EQ(quern_get_stats(fresh.get(), &before, nullptr), QUERN_OK);
    for (const std::vector<std::int64_t>& shape : each.less) {
      SCOPED_TRACE(testing::PrintToString(each.most) + " to " + testing::PrintToString(shape));
      for (const std::uint32_t flag : {std::uint32_t{0}, std::uint32_t{QUERN_CALL_BATCH_INVARIANT}}) {
        Problem problem(of(shape));
        problem.args.flags |= flag;
        ASSERT_NO_FATAL_FAILURE(problem.call(fresh.get()));
        problem.check();
      }
    }
    // Not from the disk either, where other tests may have left what was not prepared.
    ASSERT_EQ(quern_get_stats(fresh.get(), &after, nullptr), QUERN_OK);
    EXPECT_EQ(after.compiled, before.compiled);
    EXPECT_EQ(after.cache_hits, before.cache_hits);
    EXPECT_EQ(after.kernels_loaded, before.kernels_loaded);
  }
}

// Of columns of few elements, too, the bits do not depend on how many there are, where that is asked for.
TEST(ReduceBatchInvariant, ColumnsAreTheSameBesideOthers) {
  const auto sums = [](std::int64_t columns) {
    Problem problem(plain("beside others", {13, 264}, 1, {kSum}));
    problem.x.tensor.shape[1] = problem.out[0].shape[0] = columns;
    problem.args.flags |= QUERN_CALL_BATCH_INVARIANT;
    problem.call(context());
    return problem.results();
  };
  const std::vector<unsigned char> all = sums(264), fewer = sums(263);
  EXPECT_TRUE(std::equal(fewer.begin(), fewer.begin() + 263 * 4, all.begin()));
}

// Sums of 8-bit integers that 32 bits do not hold: by rows in pieces, by rows of a team, and by columns.
TEST(ReduceExact, GoesBeyond32Bits) {
  struct Long {
    std::vector<std::int64_t> shape;
    std::uint32_t axes;
  };
  for (const Long& each : {Long{{1, 300'000}, 2}, {{3, 140'000}, 2}, {{140'000, 16}, 1}}) {
    SCOPED_TRACE(testing::PrintToString(each.shape));
    Case c = plain("long sums", each.shape, each.axes, {kDot, kSum, kMean});
    c.x = Element::i8;
    Problem problem(c);
    const std::int64_t length = std::max(each.shape[0], each.shape[1]);
    for (std::int64_t i = 0; i < each.shape[0]; ++i) {
      for (std::int64_t j = 0; j < each.shape[1]; ++j) problem.x.put({i, j}, -127), problem.y.put({i, j}, -127);
    }
    ASSERT_GT(length * 127 * 127, std::int64_t{INT32_MAX});
    ASSERT_NO_FATAL_FAILURE(problem.run(context()));
    problem.check();
  }
}

// NaN, infinities and subnormal numbers, by rows and by columns.
TEST(ReduceNumbers, AreAsTheDefinitionsHaveThem) {
  for (const bool columns : {false, true}) {
    for (const std::vector<int>& kinds :
         {std::vector<int>{kMax, kMin, kArgmax, kLogSumExp}, std::vector<int>{kSum, kArgmin, kAny, kAll}}) {
      SCOPED_TRACE(columns);
      Case c = plain("odd numbers", {8, 600}, 2, kinds);
      if (columns) c.shape = {600, 16}, c.axes = 1;
      Problem problem(c);
      const auto put = [&](std::int64_t row, std::int64_t at, double v) {
        problem.x.put(columns ? std::vector{at, row} : std::vector{row, at}, v);
      };
      put(0, 5, std::numeric_limits<double>::quiet_NaN()), put(0, 500, std::numeric_limits<double>::quiet_NaN());
      put(1, 7, std::numeric_limits<double>::infinity()), put(1, 9, 3.0e38);
      put(2, 300, -std::numeric_limits<double>::infinity());
      for (std::int64_t k = 0; k < 600; ++k) {
        put(3, k, -std::numeric_limits<double>::infinity());
        put(4, k, k == 599 ? 0x1p-140 : 0.0), put(5, k, 2.0), put(6, k, k % 2 == 0 ? -0.0 : 0.0);
      }
      ASSERT_NO_FATAL_FAILURE(problem.run(context()));
      problem.check();
    }
  }
}

// Sums in f16: what a loop in f16 would make of a few ones and halves beside a large number.
TEST(ReduceHalves, RoundEveryAddition) {
  Case c = plain("halves", {1, 8}, 2, {kSum, kL2});
  c.x = Element::f16, c.flags = QUERN_REDUCE_F16_SUMS;
  Problem problem(c);
  problem.x.put({0, 0}, 2048.0);
  for (std::int64_t k = 1; k < 8; ++k) problem.x.put({0, k}, 0.5);
  ASSERT_NO_FATAL_FAILURE(problem.run(context()));
  EXPECT_EQ(problem.found(0, 0), 2048.0) << "2048 + 0.5 is 2048 in f16";
  EXPECT_TRUE(std::isinf(problem.found(1, 0))) << "the square of 2048 is none";
}

}  // namespace
}  // namespace quern::test::reduce
