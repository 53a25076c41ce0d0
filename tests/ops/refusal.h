// Calls that must be refused: the status, what the text names, and that nothing was written.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/ops/device.h"

namespace quern::test {

inline void expect_refused(const std::vector<std::string_view>& words,
                           const std::function<std::int32_t(quern_error*)>& call, std::int32_t status = QUERN_INVALID) {
  auto error = sized<quern_error>();
  const std::int32_t returned = call(&error);
  EXPECT_STREQ(quern_status_name(returned), quern_status_name(status)) << error.text;
  EXPECT_EQ(error.status, returned);
  for (const std::string_view word : words) {
    EXPECT_NE(std::string_view(error.text).find(word), std::string_view::npos)
        << "\"" << word << "\" is not in: " << error.text;
  }
  EXPECT_EQ(call(nullptr), status) << "without a quern_error";
}

}  // namespace quern::test
