// What only a GPU can show of the matrix products: captured graphs, programmatic launches, streams side by side.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <memory>

#include "tests/ops/cuda.h"
#include "tests/ops/gemm_kinds.h"
#include "tests/ops/gemm_problem.h"

namespace quern::test {
namespace {

class GemmOnCuda : public testing::Test {
 protected:
  void SetUp() override {
    if (!on_cuda()) GTEST_SKIP() << "needs a GPU: QUERN_TEST_DEVICE=cuda";
  }
};

// Captured once, replayed with other rows an expert each round: right, and to the bit what a call gives.
void replay(const GemmCase& most) {
  SCOPED_TRACE(most.name);
  GemmProblem problem(most, Random(most.name));
  ASSERT_NO_FATAL_FAILURE(problem.run(context()));
  const Stream stream;
  const Graph graph(stream, [&] { problem.call(context(), stream.get()); });
  Random random("rounds of " + most.name);
  for (int round = 0; round < 16; ++round) {
    SCOPED_TRACE(round);
    std::vector<int> counts;
    int left = most.m;
    for (int e = 0; e < most.experts(); ++e) {
      const bool none = round == 0 || random.below(4) == 0;
      const int most_of_it = most.product == Product::masked ? most.m : left;
      counts.push_back(none ? 0 : random.between(0, most_of_it));
      if (most.product == Product::contiguous) left -= counts.back();
    }
    problem.set_counts(counts);
    problem.poison_outputs();
    synchronize();
    graph.launch(stream);
    stream.synchronize();
    problem.check();
    EXPECT_EQ(problem.status(), 0);
    const GemmOutput captured = problem.output();
    problem.poison_outputs();
    synchronize();
    problem.call(context(), stream.get());
    stream.synchronize();
    EXPECT_TRUE(problem.output() == captured) << "a call gives other bits than the graph";
  }
}

TEST_F(GemmOnCuda, OneGraphServesAnyRowsOfExperts) {
  for (const bool blocks : {false, true}) {
    GemmCase c;
    c.n = 520, c.k = 528;
    if (blocks) c.scale_a = c.scale_b = Scaling::blocks;
    c.product = Product::contiguous;
    c.counts.assign(9, 100);
    c.m = 1000;
    c.name = "graph by offsets";
    replay(c);
    c.gathered = true;
    c.tokens = 300;
    c.gate = true;
    c.n = 1088;
    c.name = "graph by offsets and indices, gated";
    replay(c);
    c.gathered = c.gate = false;
    c.product = Product::masked;
    c.m = 200;
    c.name = "graph by counts";
    replay(c);
  }
}

TEST_F(GemmOnCuda, AGraphOfSharedTilesServesOtherNumbers) {
  for (const GemmKind& kind : gemm_kinds()) {
    SCOPED_TRACE(kind.name);
    GemmProblem problem(of_shape(kind.common, 16, 2112, 7168), Random("graph"));
    ASSERT_NO_FATAL_FAILURE(problem.run(context()));
    const Stream stream;
    const Graph graph(stream, [&] { problem.call(context(), stream.get()); });
    for (std::uint64_t round = 0; round < 4; ++round) {
      problem.fill(Random(run_seed() + round));
      synchronize();
      graph.launch(stream);
      stream.synchronize();
      problem.check();
      problem.expect_counters_zero();
    }
  }
}

// Each product's out is the next one's a, over and over with other numbers: a wait that is missing shows as those of
// the round before.
TEST_F(GemmOnCuda, ProgrammaticLaunchesWaitForEachOther) {
  constexpr int kRounds = 30;
  const GemmCase c = of_shape(gemm_of(Element::bf16), 24, 512, 512);
  std::vector<std::unique_ptr<GemmProblem>> inputs;
  for (std::uint64_t i = 0; i < 2; ++i) {
    inputs.push_back(std::make_unique<GemmProblem>(c, Random(run_seed() + i)));
    ASSERT_NO_FATAL_FAILURE(inputs.back()->run(context()));
  }
  GemmProblem second(c, Random("second"));
  ASSERT_NO_FATAL_FAILURE(second.run(context()));
  // All write to the same two places.
  inputs[1]->tensors().gemm.out = inputs[0]->tensors().gemm.out;
  second.tensors().gemm.a = inputs[0]->tensors().gemm.out;
  const Stream stream;
  // One after the other; side by side; and with b, which nothing writes, read ahead.
  constexpr std::uint32_t kWays[] = {0, QUERN_CALL_PROGRAMMATIC,
                                     std::uint32_t{QUERN_CALL_PROGRAMMATIC} | QUERN_GEMM_CONSTANT_B};
  std::vector<std::vector<unsigned char>> results[3];
  for (std::size_t way = 0; way < 3; ++way) {
    const std::uint32_t flags = kWays[way];
    std::vector<Buffer> outs;
    for (int round = 0; round < kRounds; ++round) outs.emplace_back(second.output().out.size());
    synchronize();
    for (int round = 0; round < kRounds; ++round) {
      GemmProblem& first = *inputs[static_cast<std::size_t>(round % 2)];
      first.tensors().gemm.flags = second.tensors().gemm.flags = flags;
      second.tensors().out.box.place(outs[static_cast<std::size_t>(round)].data());
      ASSERT_NO_FATAL_FAILURE(first.call(context(), stream.get()));
      ASSERT_NO_FATAL_FAILURE(second.call(context(), stream.get()));
      if (flags == 0) stream.synchronize();
    }
    stream.synchronize();
    for (const Buffer& out : outs) results[way].push_back(out.read());
  }
  for (std::size_t round = 0; round < kRounds; ++round) {
    for (std::size_t way = 1; way < 3; ++way)
      EXPECT_EQ(results[0][round], results[way][round]) << "round " << round << ", flags " << kWays[way];
  }
  EXPECT_NE(results[0][0], results[0][1]);
}

TEST_F(GemmOnCuda, TwoStreamsWithTwoWorkspacesRunSideBySide) {
  GemmProblem a(of_shape(fp8_blocks(), 16, 2112, 7168), Random("stream a")),
      b(of_shape(gemm_of(Element::bf16), 40, 576, 7168), Random("stream b"));
  ASSERT_NO_FATAL_FAILURE(a.run(context()));
  ASSERT_NO_FATAL_FAILURE(b.run(context()));
  synchronize();
  const GemmOutput alone[2] = {a.output(), b.output()};
  a.poison_outputs();
  b.poison_outputs();
  synchronize();
  const Stream streams[2];
  for (int i = 0; i < 100; ++i) {
    ASSERT_NO_FATAL_FAILURE(a.call(context(), streams[0].get()));
    ASSERT_NO_FATAL_FAILURE(b.call(context(), streams[1].get()));
  }
  synchronize();
  EXPECT_TRUE(a.output() == alone[0]);
  EXPECT_TRUE(b.output() == alone[1]);
  a.expect_counters_zero();
  b.expect_counters_zero();
}

// out of more than 4 GiB, whose last rows lie beyond what 32 bits count in bytes and in elements.
TEST_F(GemmOnCuda, RowsLieBeyond4GiB) {
  GemmCase c = of_shape(gemm_of(Element::bf16), 70000, 40, 64);
  c.out_padding = 40000;
  c.padding = 80000;
  GemmProblem problem(c, Random("beyond"));
  ASSERT_GT(problem.tensors().out.elements, std::int64_t{1} << 31);
  ASSERT_NO_FATAL_FAILURE(problem.run(context()));
  problem.check();
}

}  // namespace
}  // namespace quern::test
