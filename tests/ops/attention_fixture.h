// The test that every list of cases goes through: one call, held against the definition.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/ops/attention_case.h"
#include "tests/ops/case_suite.h"

namespace quern::test {

class Attention : public testing::TestWithParam<AttentionCase> {
 protected:
  // Readies the kernels of all the suite's cases that will run, several at once.
  static void SetUpTestSuite();
};

// A list of cases, grown by a common start and a change.
class CaseList {
 public:
  explicit CaseList(AttentionCase common) : common_(std::move(common)) {}
  CaseList& add(const std::string& name, std::vector<Lengths> sequences,
                const std::function<void(AttentionCase&)>& change = {}) {
    AttentionCase c = common_;
    c.name = name;
    c.sequences = std::move(sequences);
    if (change) change(c);
    cases_.push_back(std::move(c));
    return *this;
  }
  const std::vector<AttentionCase>& cases() const { return cases_; }

 private:
  AttentionCase common_;
  std::vector<AttentionCase> cases_;
};

inline std::string name_of_case(const testing::TestParamInfo<AttentionCase>& info) { return info.param.name; }

}  // namespace quern::test

#define QUERN_ATTENTION_CASES(prefix, cases)                                                   \
  INSTANTIATE_TEST_SUITE_P(prefix, Attention, testing::ValuesIn(::quern::test::listed(cases)), \
                           ::quern::test::name_of_case)
