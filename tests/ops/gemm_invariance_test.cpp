// What must not change a product's row by a bit: another run, and for batch-invariant calls the rows beside it and
// their number.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>

#include "tests/ops/gemm_fixture.h"
#include "tests/ops/gemm_kinds.h"
#include "tests/ops/gemm_problem.h"

namespace quern::test {
namespace {

using Bits = std::vector<unsigned char>;

// The bits of every row that a call writes, in order.
std::vector<Bits> bits_of(const GemmCase& c, bool check = false) {
  GemmProblem problem(c, Random("numbers"));
  problem.run(context());
  synchronize();
  if (check) problem.check();
  const GemmOutput output = problem.output();
  std::vector<Bits> bits;
  for (const GemmRow& row : problem.rows()) bits.push_back(problem.bits_of(output, row.group, row.row));
  return bits;
}

std::vector<int> numbers_to(int count) {
  std::vector<int> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

constexpr int kRows = 300;

// Any of the rows, in any order and number, have the bits that they have among all of them: in every variant of the
// kernel.
void expect_invariant(GemmCase c) {
  c.flags = QUERN_CALL_BATCH_INVARIANT;
  c.m = kRows;
  const std::vector<Bits> whole = bits_of(c, true);
  Random random(c.name);
  for (const int m : {1, 2, 16, 17, 64, 65, 128, 129, 200, kRows}) {
    c.m = m;
    c.numbers = numbers_to(kRows);
    random.shuffle(c.numbers);
    c.numbers.resize(static_cast<std::size_t>(m));
    const std::vector<Bits> bits = bits_of(c);
    for (std::size_t i = 0; i < bits.size(); ++i) {
      ASSERT_EQ(bits[i], whole[static_cast<std::size_t>(c.numbers[i])])
          << "row " << c.numbers[i] << " of " << c.name << " among " << m;
    }
  }
}

class GemmInvariance : public testing::TestWithParam<GemmKind> {};
INSTANTIATE_TEST_SUITE_P(Kinds, GemmInvariance, testing::ValuesIn(gemm_kinds()),
                         [](const testing::TestParamInfo<GemmKind>& kind) { return std::string(kind.param.name); });

// Few columns, so that blocks of threads would share tiles if they might.
TEST_P(GemmInvariance, ARowIsTheSameWhateverTheOthers) {
  GemmCase c = of_shape(GetParam().common, kRows, 24, 1040);
  c.name = GetParam().name;
  expect_invariant(c);
  c.n = 264, c.k = 272;
  expect_invariant(c);
}

TEST(GemmInvarianceOfOrders, ARowIsTheSameWhateverTheOthers) {
  GemmCase c = of_shape(gemm_of(Element::bf16), kRows, 264, 272);
  c.transposed_b = true;
  c.name = "b stored [k][n]";
  expect_invariant(c);
}

TEST(GemmInvarianceOfEpilogues, ARowIsTheSameWhateverTheOthers) {
  GemmCase c;
  c.gate = true;
  c.n = 544;
  c.scale_a = c.scale_b = Scaling::blocks;
  c.out = Element::e5m2;
  c.out_scale = true;
  c.name = "gate, out_scale";
  expect_invariant(c);
}

// A row's expert is what matters, not how many rows that has or how many there are in all.
TEST(GroupedGemmInvariance, ARowIsTheSameWhateverTheOthers) {
  const std::vector<std::vector<int>> all_counts = {{1, 0, 2},   {0, 7, 0},    {16, 16, 17},
                                                    {64, 1, 64}, {3, 65, 100}, {100, 100, 100}};
  for (const bool blocks : {false, true}) {
    GemmCase c;
    c.product = Product::contiguous;
    c.flags = QUERN_CALL_BATCH_INVARIANT;
    c.n = 72, c.k = 528;
    if (blocks) c.scale_a = c.scale_b = Scaling::blocks;
    c.counts = {100, 100, 100};
    c.m = 300;
    const std::vector<Bits> whole = bits_of(c, true);
    Random random("rows of experts");
    for (const std::vector<int>& counts : all_counts) {
      c.counts = counts;
      c.m = std::accumulate(counts.begin(), counts.end(), 0);
      c.numbers.clear();
      for (std::size_t e = 0; e < counts.size(); ++e) {
        std::vector<int> of_expert = numbers_to(100);
        random.shuffle(of_expert);
        for (int i = 0; i < counts[e]; ++i)
          c.numbers.push_back(static_cast<int>(e) * 100 + of_expert[static_cast<std::size_t>(i)]);
      }
      const std::vector<Bits> bits = bits_of(c);
      for (std::size_t i = 0; i < bits.size(); ++i)
        ASSERT_EQ(bits[i], whole[static_cast<std::size_t>(c.numbers[i])]) << "row " << c.numbers[i];
    }
  }
}

void prepare_all(const std::vector<GemmCase>& cases) {
  std::vector<const GemmCase*> pointers;
  for (const GemmCase& c : cases) pointers.push_back(&c);
  test::prepare_all(pointers);
}

// Shared tiles, whole ones, and those of experts.
std::vector<GemmCase> repeated() {
  std::vector<GemmCase> all;
  for (const GemmKind& kind : gemm_kinds()) {
    all.push_back(of_shape(kind.common, 3, 24, 7184));
    all.push_back(of_shape(kind.common, 300, 264, 272));
  }
  GemmCase grouped;
  grouped.product = Product::contiguous;
  grouped.counts = {3, 0, 40, 17, 0};
  grouped.m = 60;
  grouped.n = 72;
  all.push_back(grouped);
  grouped.counts = {300, 129, 0, 250};
  grouped.m = 679;
  grouped.scale_a = grouped.scale_b = Scaling::blocks;
  all.push_back(grouped);
  return all;
}

TEST(GemmDeterminism, ASecondRunGivesTheSameBits) {
  const std::vector<GemmCase> cases = repeated();
  prepare_all(cases);
  for (const GemmCase& c : cases) {
    GemmProblem problem(c, Random("numbers"));
    ASSERT_NO_FATAL_FAILURE(problem.run(context()));
    synchronize();
    const GemmOutput first = problem.output();
    for (int round = 0; round < (on_cuda() ? 20 : 2); ++round) {
      problem.poison_outputs();
      ASSERT_NO_FATAL_FAILURE(problem.call(context()));
      synchronize();
      EXPECT_TRUE(problem.output() == first);
    }
    problem.expect_counters_zero();
  }
}

// One workspace serves calls of different shapes one after the other.
TEST(GemmDeterminism, AWorkspaceServesOtherCallsInBetween) {
  std::vector<std::unique_ptr<GemmProblem>> problems;
  std::uint64_t most = 0;
  for (const GemmCase& c : repeated()) {
    if (c.k != 7184) continue;
    problems.push_back(std::make_unique<GemmProblem>(c, Random("numbers")));
    ASSERT_NO_FATAL_FAILURE(problems.back()->run(context()));
    most = std::max(most, problems.back()->workspace_bytes());
  }
  Buffer shared(most, 0);
  for (int round = 0; round < 2; ++round) {
    for (const auto& problem : problems) {
      problem->tensors().with_args([&](auto& args) { args.workspace = shared.data(), args.workspace_size = most; });
      problem->poison_outputs();
      ASSERT_NO_FATAL_FAILURE(problem->call(context()));
      synchronize();
      problem->check();
    }
  }
}

// That tiles of few rows and many terms are shared: by way of a workspace, whose counters are needed, or within a
// cluster, where sums have another order than those of one block.
TEST(GemmDeterminism, FewRowsOfManyTermsAreShared) {
  for (const GemmKind& kind : gemm_kinds()) {
    SCOPED_TRACE(kind.name);
    // With scales of results, for which 128 columns must be in one tile: the scales show how sums were rounded.
    GemmCase c = of_shape(kind.common, 16, 128, 7184);
    c.out = Element::e4m3, c.out_scale = true;
    GemmProblem problem(c, Random("numbers"));
    ASSERT_NO_FATAL_FAILURE(problem.make_workspace(context()));
    if (problem.workspace_bytes() == 0) {
      ASSERT_NO_FATAL_FAILURE(problem.call(context()));
      c.max_sms = 1;
      GemmProblem whole(c, Random("numbers"));
      ASSERT_NO_FATAL_FAILURE(whole.run(context()));
      synchronize();
      // Hopper's sums of 8-bit products have so few bits that f32 adds them without rounding, in any order.
      const bool rounds = !on_cuda() || !c.is_fp8();
      EXPECT_TRUE(!rounds || whole.output() != problem.output());
      continue;
    }
    problem.tensors().with_args([](auto& args) { args.workspace = nullptr, args.workspace_size = 0; });
    auto error = sized<quern_error>();
    EXPECT_EQ(problem.tensors().run(context(), &error), QUERN_INVALID);
    EXPECT_NE(std::string(error.text).find("workspace"), std::string::npos) << error.text;
  }
}

}  // namespace
}  // namespace quern::test
