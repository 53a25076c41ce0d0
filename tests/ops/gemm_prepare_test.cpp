// What prepare and workspace of the matrix products promise: no smaller call makes a kernel, and none needs a larger
// workspace.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/ops/gemm_fixture.h"
#include "tests/ops/gemm_kinds.h"
#include "tests/ops/gemm_problem.h"

namespace quern::test {
namespace {

std::uint64_t workspace_of(const GemmCase& c) {
  GemmTensors tensors(c);
  auto error = sized<quern_error>();
  std::uint64_t bytes = 0;
  EXPECT_EQ(tensors.workspace_of(context(), &bytes, &error), QUERN_OK) << error.text;
  return bytes;
}

struct Prepared {
  std::string name;
  GemmCase most;
};

std::vector<Prepared> prepared() {
  std::vector<Prepared> all;
  const int most = on_cuda() ? 4096 : 300;
  for (const GemmKind& kind : gemm_kinds()) all.push_back({kind.name, of_shape(kind.common, most, 264, 272)});
  // So few columns that large tiles are never worth it, and so many that they always are.
  all.push_back({"few columns", of_shape(fp8_vectors(), most, 24, 272)});
  all.push_back({"many columns", of_shape(fp8_vectors(), most, on_cuda() ? 36000 : 1300, 16)});
  all.push_back({"few terms at most", of_shape(fp8_vectors(), 17, 24, 272)});
  GemmCase invariant = of_shape(fp8_blocks(), most, 264, 272);
  invariant.flags = QUERN_CALL_BATCH_INVARIANT;
  all.push_back({"batch-invariant", invariant});
  GemmCase gate = of_shape({}, most, 528, 144);
  gate.gate = true;
  all.push_back({"gate", gate});
  GemmCase batched = of_shape(gemm_of(Element::f16), most, 264, 80);
  batched.batch = 3;
  all.push_back({"batched", batched});
  return all;
}

TEST(GemmPrepare, NoSmallerCallMakesAKernelNorNeedsMore) {
  for (const Prepared& p : prepared()) {
    SCOPED_TRACE(p.name);
    const Context fresh = make_context();
    auto error = sized<quern_error>();
    GemmTensors most(p.most);
    ASSERT_EQ(most.prepare(fresh.get(), &error), QUERN_OK) << error.text;
    const std::uint64_t bytes = workspace_of(p.most);
    auto before = sized<quern_stats>(), after = sized<quern_stats>();
    ASSERT_EQ(quern_get_stats(fresh.get(), &before, nullptr), QUERN_OK);
    std::vector<int> rows = {0, 1, 16, 17, 64, 65, 128, 129, 256, 257, p.most.m};
    for (int round = 0; round < (on_cuda() ? 20 : 1); ++round)
      rows.push_back(Random(run_seed() + static_cast<std::uint64_t>(round)).between(0, p.most.m));
    for (const int m : rows) {
      if (m > p.most.m) continue;
      GemmCase c = p.most;
      c.m = m;
      c.flags |= QUERN_CALL_CACHED_ONLY;
      if (c.batch > 0 && m % 2 == 1) c.batch = 1;
      GemmProblem problem(c, Random("smaller"));
      ASSERT_NO_FATAL_FAILURE(problem.make_workspace(fresh.get()));
      EXPECT_LE(problem.workspace_bytes(), bytes);
      ASSERT_NO_FATAL_FAILURE(problem.call(fresh.get()));
    }
    synchronize();
    ASSERT_EQ(quern_get_stats(fresh.get(), &after, nullptr), QUERN_OK);
    // Not from the disk either, where other tests may have left what was not prepared.
    EXPECT_EQ(after.compiled, before.compiled);
    EXPECT_EQ(after.cache_hits, before.cache_hits);
    EXPECT_EQ(after.kernels_loaded, before.kernels_loaded);
    EXPECT_LE(after.kernels_loaded, 10u);
  }
}

// The rows of a grouped product are a maximum too, whoever has them and however many of an expert are expected.
TEST(GroupedGemmPrepare, NoSmallerCallMakesAKernelNorNeedsMore) {
  struct Most {
    Product product;
    int expected;
  };
  for (const auto& [product, expected] : {Most{Product::contiguous, 0}, Most{Product::masked, 0},
                                          Most{Product::contiguous, 150}, Most{Product::masked, 70}}) {
    SCOPED_TRACE(expected);
    const Context fresh = make_context();
    GemmCase most;
    most.product = product;
    most.counts = {0, 0, 0};
    most.m = product == Product::masked ? 100 : 300;
    most.n = expected == 0 ? 72 : 4096;
    most.expected_rows = expected;
    auto error = sized<quern_error>();
    GemmTensors tensors(most);
    ASSERT_EQ(tensors.prepare(fresh.get(), &error), QUERN_OK) << error.text;
    auto before = sized<quern_stats>(), after = sized<quern_stats>();
    ASSERT_EQ(quern_get_stats(fresh.get(), &before, nullptr), QUERN_OK);
    for (const int m : {0, 1, 40, 60, 99, 100, 190, 300}) {
      if (m > most.m) continue;
      GemmCase c = most;
      c.m = m;
      c.counts = {m / 3, 0, m / 4};
      if (expected != 0) c.expected_rows = m % 3 * 5 * m / 10;
      c.flags |= QUERN_CALL_CACHED_ONLY;
      GemmProblem problem(c, Random("smaller"));
      ASSERT_NO_FATAL_FAILURE(problem.run(fresh.get()));
      EXPECT_LE(problem.workspace_bytes(), workspace_of(most));
    }
    synchronize();
    ASSERT_EQ(quern_get_stats(fresh.get(), &after, nullptr), QUERN_OK);
    EXPECT_EQ(after.compiled + after.cache_hits, before.compiled + before.cache_hits);
    EXPECT_EQ(after.kernels_loaded, before.kernels_loaded);
  }
}

TEST(GemmPrepare, WithoutItACachedOnlyCallMisses) {
  const Context fresh = make_context([](quern_context_options& o) { o.flags |= QUERN_CONTEXT_NO_CACHE; });
  for (const GemmKind& kind : gemm_kinds()) {
    GemmCase c = kind.common;
    c.flags = QUERN_CALL_CACHED_ONLY;
    GemmProblem problem(c, Random("miss"));
    ASSERT_NO_FATAL_FAILURE(problem.make_workspace(fresh.get()));
    const GemmOutput before = problem.output();
    auto error = sized<quern_error>();
    EXPECT_EQ(problem.tensors().run(fresh.get(), &error), QUERN_MISS) << error.text;
    EXPECT_TRUE(problem.output() == before);
  }
}

TEST(GemmWorkspace, GrowsWithTheRowsAndOnlyWithMaxima) {
  Random random("workspace");
  for (int round = 0; round < 200; ++round) {
    GemmCase c = gemm_kinds()[random.below(gemm_kinds().size())].common;
    c.m = random.between(0, 2000);
    c.n = 8 * random.between(0, 3000);
    c.k = 16 * random.between(1, 900);
    const std::uint64_t bytes = workspace_of(c);
    GemmCase more = c;
    more.m += random.between(0, 3000);
    EXPECT_GE(workspace_of(more), bytes) << c.m << " to " << more.m << " rows of " << c.n << " columns";
    GemmCase fewer_sms = c;
    fewer_sms.max_sms = 1;
    EXPECT_EQ(workspace_of(fewer_sms), bytes) << "of the maxima alone";
    GemmCase invariant = c;
    invariant.flags = QUERN_CALL_BATCH_INVARIANT;
    EXPECT_EQ(workspace_of(invariant), 0u) << "nothing is shared";
    EXPECT_LE(bytes, 64u << 20);
  }
}

}  // namespace
}  // namespace quern::test
