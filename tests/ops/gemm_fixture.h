// The test that every list of products goes through: one call, held against the definition.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/ops/case_suite.h"
#include "tests/ops/gemm_case.h"

namespace quern::test {

class Gemm : public testing::TestWithParam<GemmCase> {
 protected:
  // Readies the kernels of all the suite's cases that will run, several at once: on the host those that the cases take
  // by calling, as compiling is slow there; on a GPU all that prepare names.
  static void SetUpTestSuite();
};

// A list of cases, grown by a common start and a change.
class GemmList {
 public:
  explicit GemmList(GemmCase common) : common_(std::move(common)) {}
  GemmList& add(const std::string& name, const std::function<void(GemmCase&)>& change = {}) {
    GemmCase c = common_;
    c.name = name;
    if (change) change(c);
    cases_.push_back(std::move(c));
    return *this;
  }
  const std::vector<GemmCase>& cases() const { return cases_; }

 private:
  GemmCase common_;
  std::vector<GemmCase> cases_;
};

inline std::string name_of_product(const testing::TestParamInfo<GemmCase>& info) { return info.param.name; }

// The same for any cases.
void prepare_all(const std::vector<const GemmCase*>& cases);

}  // namespace quern::test

#define QUERN_GEMM_CASES(prefix, cases)                                                   \
  INSTANTIATE_TEST_SUITE_P(prefix, Gemm, testing::ValuesIn(::quern::test::listed(cases)), \
                           ::quern::test::name_of_product)
