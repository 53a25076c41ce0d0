// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/attention_fixture.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <stdexcept>
#include <thread>

#include "tests/ops/attention_problem.h"

namespace quern::test {
namespace {

std::map<std::string, AttentionCase>& known_cases() {
  static std::map<std::string, AttentionCase> cases;
  return cases;
}

}  // namespace

std::vector<AttentionCase> listed(std::vector<AttentionCase> cases) {
  for (const AttentionCase& c : cases) {
    if (!known_cases().emplace(c.name, c).second) throw std::logic_error("two cases are named " + c.name);
  }
  return cases;
}

void prepare_all(const std::vector<const AttentionCase*>& cases) {
  quern_context* const shared = context();
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < cases.size(); i = next++) {
      AttentionTensors tensors(*cases[i], 1);
      // Whatever is wrong is told by the test itself.
      (void)quern_attention_prepare(shared, &tensors.args, nullptr);
    }
  };
  std::vector<std::thread> threads;
  const std::size_t count = std::min<std::size_t>(std::thread::hardware_concurrency(), cases.size());
  for (std::size_t i = 1; i < count; ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
}

void Attention::SetUpTestSuite() {
  const testing::TestSuite* suite = testing::UnitTest::GetInstance()->current_test_suite();
  std::vector<const AttentionCase*> cases;
  for (int i = 0; i < suite->total_test_count(); ++i) {
    const testing::TestInfo* info = suite->GetTestInfo(i);
    const std::string name = info->name();
    const auto found = known_cases().find(name.substr(name.find('/') + 1));
    if (info->should_run() && found != known_cases().end()) cases.push_back(&found->second);
  }
  prepare_all(cases);
}

TEST_P(Attention, MatchesItsDefinition) {
  AttentionProblem problem(GetParam(), Random(GetParam().name));
  ASSERT_NO_FATAL_FAILURE(problem.run(context()));
  problem.check();
}

}  // namespace quern::test
