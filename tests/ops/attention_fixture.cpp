// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/attention_fixture.h"

#include "tests/ops/attention_problem.h"

namespace quern::test {

void Attention::SetUpTestSuite() {
  const std::vector<const AttentionCase*> cases = cases_of_this_suite<AttentionCase>();
  quern_context* const shared = context();
  side_by_side(cases.size(), [&](std::size_t i) {
    AttentionTensors tensors(*cases[i], 1);
    // Whatever is wrong is told by the test itself.
    (void)quern_attention_prepare(shared, &tensors.args, nullptr);
  });
}

TEST_P(Attention, MatchesItsDefinition) {
  AttentionProblem problem(GetParam(), Random(GetParam().name));
  ASSERT_NO_FATAL_FAILURE(problem.run(context()));
  problem.check();
}

}  // namespace quern::test
