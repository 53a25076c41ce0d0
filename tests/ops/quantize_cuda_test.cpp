// What of quantize only a GPU can show: captured calls, programmatic launches one behind the other, and tensors of real
// size.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/ops/cuda.h"
#include "tests/ops/quantize_problem.h"

namespace quern::test {
namespace {

QuantizeCase case_of(const char* name, int front, int kind, std::int64_t rows, std::int64_t n) {
  QuantizeCase c;
  c.name = name, c.front = front, c.kind = kind, c.rows = rows, c.n = n;
  if (front == QUERN_FRONT_RMSNORM) c.residual = true, c.sum = Where::residual, c.weight = Parameter::like_x;
  c.scale_columns_first = kind == QUERN_SCALE_GROUP;
  return c;
}

class QuantizeOnCuda : public testing::TestWithParam<QuantizeCase> {
 protected:
  void SetUp() override {
    if (!on_cuda()) GTEST_SKIP() << "needs a GPU: QUERN_TEST_DEVICE=cuda";
  }
};
INSTANTIATE_TEST_SUITE_P(Large, QuantizeOnCuda,
                         testing::Values(case_of("group", QUERN_FRONT_NONE, QUERN_SCALE_GROUP, 1031, 7168),
                                         case_of("token", QUERN_FRONT_NONE, QUERN_SCALE_TOKEN, 1031, 7168),
                                         case_of("tensor", QUERN_FRONT_NONE, QUERN_SCALE_TENSOR, 1031, 7168),
                                         case_of("block", QUERN_FRONT_NONE, QUERN_SCALE_BLOCK, 1031, 7168),
                                         case_of("rms_group", QUERN_FRONT_RMSNORM, QUERN_SCALE_GROUP, 1031, 7168),
                                         case_of("rms_token", QUERN_FRONT_RMSNORM, QUERN_SCALE_TOKEN, 1031, 5120),
                                         case_of("silu_group", QUERN_FRONT_SILU_MUL, QUERN_SCALE_GROUP, 515, 18432),
                                         case_of("silu_token", QUERN_FRONT_SILU_MUL, QUERN_SCALE_TOKEN, 515, 14336),
                                         case_of("one_row", QUERN_FRONT_RMSNORM, QUERN_SCALE_GROUP, 1, 7168)),
                         [](const testing::TestParamInfo<QuantizeCase>& c) { return c.param.name; });

TEST_P(QuantizeOnCuda, OneGraphServesAnyInput) {
  QuantizeProblem problem(GetParam(), Random(GetParam().name));
  ASSERT_NO_FATAL_FAILURE(problem.run(context()));
  problem.check();
  const Stream stream;
  problem.args.stream = stream.get();
  const Graph graph(stream, [&] {
    auto error = sized<quern_error>();
    ASSERT_EQ(quern_quantize(context(), &problem.args, &error), QUERN_OK) << error.text;
  });
  Random random("graph");
  for (int round = 0; round < 2; ++round) {
    problem.fill(random);
    problem.put();
    synchronize();
    graph.launch(stream);
    stream.synchronize();
    problem.get();
    problem.check();
  }
}

// Each call reads what the one before has written: the sum of a norm, over and over. In one graph with programmatic
// edges it is what it is call by call.
TEST_P(QuantizeOnCuda, ProgrammaticLaunchesWaitForEachOther) {
  QuantizeProblem problem(GetParam(), Random(GetParam().name));
  ASSERT_NO_FATAL_FAILURE(problem.run(context()));
  constexpr int kCalls = 20;
  const Stream stream;
  problem.args.stream = stream.get();
  const auto calls = [&] {
    auto error = sized<quern_error>();
    for (int i = 0; i < kCalls; ++i)
      ASSERT_EQ(quern_quantize(context(), &problem.args, &error), QUERN_OK) << error.text;
  };
  const auto results_of = [&](const std::function<void()>& work) {
    problem.put();
    synchronize();
    work();
    stream.synchronize();
    problem.get();
    return problem.results();
  };
  const std::vector<unsigned char> plain = results_of(calls);
  problem.args.flags |= QUERN_CALL_PROGRAMMATIC;
  EXPECT_EQ(results_of(calls), plain);
  const Graph graph(stream, calls);
  EXPECT_EQ(results_of([&] { graph.launch(stream); }), plain);
}

}  // namespace
}  // namespace quern::test
