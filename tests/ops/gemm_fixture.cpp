// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/gemm_fixture.h"

#include <chrono>
#include <thread>

#include "tests/ops/gemm_problem.h"

namespace quern::test {

namespace {

// What a call of each case takes, compiled in the background.
void begin_calls(const std::vector<const GemmCase*>& cases) {
  for (const GemmCase* c : cases) {
    GemmCase in_background = *c;
    in_background.flags |= QUERN_CALL_BACKGROUND;
    GemmProblem problem(in_background, Random("numbers"));
    std::uint64_t bytes = 0;
    (void)problem.tensors().workspace_of(context(), &bytes, nullptr);
    Buffer workspace(bytes, 0);
    problem.tensors().with_args([&](auto& args) { args.workspace = workspace.data(), args.workspace_size = bytes; });
    // Whatever is wrong is told by the test itself.
    (void)problem.tensors().run(context(), nullptr);
  }
  auto stats = sized<quern_stats>();
  while (quern_get_stats(context(), &stats, nullptr) == QUERN_OK && stats.pending > 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

}  // namespace

void prepare_all(const std::vector<const GemmCase*>& cases) {
  if (!on_cuda()) return begin_calls(cases);
  quern_context* const shared = context();
  side_by_side(cases.size(), [&](std::size_t i) { (void)GemmTensors(*cases[i]).prepare(shared, nullptr); });
}

void Gemm::SetUpTestSuite() { prepare_all(cases_of_this_suite<GemmCase>()); }

TEST_P(Gemm, MatchesItsDefinition) {
  GemmProblem problem(GetParam(), Random(GetParam().name));
  ASSERT_NO_FATAL_FAILURE(problem.run(context()));
  problem.check();
}

}  // namespace quern::test
