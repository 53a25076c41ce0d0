// MLA decode as only a GPU can show it: one captured graph for lengths that grow, shrink and vanish.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/ops/cuda.h"
#include "tests/ops/mla_problem.h"

namespace quern::test {
namespace {

class MlaOnCuda : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (!on_cuda()) GTEST_SKIP() << "needs a GPU: QUERN_TEST_DEVICE=cuda";
  }
};
// The dims of the fastest kernel, and others.
INSTANTIATE_TEST_SUITE_P(Latents, MlaOnCuda, testing::Values(512, 64),
                         [](const testing::TestParamInfo<int>& latent) { return "d" + std::to_string(latent.param); });

TEST_P(MlaOnCuda, OneGraphServesAnyLengths) {
  MlaCase c;
  c.name = "graph";
  c.d_latent = GetParam();
  c.heads = 40;
  c.causal = true;
  c.sequences = {{4, 900}, {1, 300}, {2, 4096}, {1, 64}};
  MlaProblem problem(c, Random("graph"));
  ASSERT_NO_FATAL_FAILURE(problem.run(context()));
  const Stream stream;
  const Graph graph(stream, [&] { problem.call(context(), stream.get()); });
  Random random("rounds");
  for (int round = 0; round < 12; ++round) {
    SCOPED_TRACE(round);
    std::vector<MlaLengths> lengths;
    for (const MlaLengths& s : c.sequences) {
      const bool left = round > 4 && random.below(3) == 0;
      const int kv = round <= 4 ? s.kv * round / 4 : random.between(0, s.kv);
      lengths.push_back({left ? 0 : random.between(round == 4 ? s.q : 0, s.q), left ? 0 : kv});
    }
    problem.fill(lengths, Random(run_seed() + static_cast<std::uint64_t>(round)));
    synchronize();
    graph.launch(stream);
    stream.synchronize();
    problem.check();
    const MlaOutput captured = problem.output();
    problem.poison_outputs();
    synchronize();
    ASSERT_NO_FATAL_FAILURE(problem.call(context(), stream.get()));
    stream.synchronize();
    const MlaOutput called = problem.output();
    for (int t = 0; t < problem.description().total_q(); ++t) {
      ASSERT_EQ(problem.bits_of(captured, t), problem.bits_of(called, t)) << "a call gives other bits than the graph";
    }
  }
}

}  // namespace
}  // namespace quern::test
