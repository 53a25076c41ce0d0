// Named cases of MLA decode for tests with parameters.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/ops/mla_problem.h"

namespace quern::test {

class MlaCases {
 public:
  MlaCases& add(const std::string& name, std::vector<MlaLengths> sequences,
                const std::function<void(MlaCase&)>& change = {}) {
    MlaCase c;
    c.name = name;
    c.sequences = std::move(sequences);
    if (change) change(c);
    cases_.push_back(std::move(c));
    return *this;
  }
  const std::vector<MlaCase>& cases() const { return cases_; }

 private:
  std::vector<MlaCase> cases_;
};

inline std::string name_of_mla_case(const testing::TestParamInfo<MlaCase>& info) { return info.param.name; }

}  // namespace quern::test
