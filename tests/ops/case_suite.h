// Suites of cases whose kernels are readied several at once, before the first of them runs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace quern::test {

// work(i) for each i below count, on as many threads as there are cores.
void side_by_side(std::size_t count, const std::function<void(std::size_t)>& work);

template <class Case>
std::map<std::string, Case>& known_cases() {
  static std::map<std::string, Case> cases;
  return cases;
}

// Makes cases known by their names.
template <class Case>
std::vector<Case> listed(std::vector<Case> cases) {
  for (const Case& c : cases) {
    if (!known_cases<Case>().emplace(c.name, c).second) throw std::logic_error("two cases are named " + c.name);
  }
  return cases;
}

// Those of the suite that is being set up which will run.
template <class Case>
std::vector<const Case*> cases_of_this_suite() {
  const testing::TestSuite* suite = testing::UnitTest::GetInstance()->current_test_suite();
  std::vector<const Case*> cases;
  for (int i = 0; i < suite->total_test_count(); ++i) {
    const testing::TestInfo* info = suite->GetTestInfo(i);
    const std::string name = info->name();
    const auto found = known_cases<Case>().find(name.substr(name.find('/') + 1));
    if (info->should_run() && found != known_cases<Case>().end()) cases.push_back(&found->second);
  }
  return cases;
}

}  // namespace quern::test
