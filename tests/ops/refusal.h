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

// One way of calling an op wrongly: what, words of the refusal, and how to spoil a good problem.
template <class Problem>
struct Mistake {
  const char* what;
  std::vector<std::string_view> words;
  std::function<void(Problem&)> make;
  bool by_the_call = false;  // workspace and prepare do not look at it
};

// An op's three calls.
template <class Args>
struct ThreeCalls {
  std::int32_t (*run)(quern_context*, const Args*, quern_error*);
  std::int32_t (*workspace)(quern_context*, const Args*, std::uint64_t*, quern_error*);
  std::int32_t (*prepare)(quern_context*, const Args*, quern_error*);
};

// Each mistake, made in a problem of its own (which has its struct as `args`), is refused by all calls that see it.
// make() gives a std::unique_ptr to a good one, watch(problem) a function that says whether its outputs are still what
// they are then.
template <class Problem, class Args, class Make, class Watch>
void expect_all_refused(const std::vector<Mistake<Problem>>& mistakes, const ThreeCalls<Args>& op, Make make,
                        Watch watch) {
  for (const Mistake<Problem>& mistake : mistakes) {
    SCOPED_TRACE(mistake.what);
    const auto problem = make();
    const auto untouched = watch(*problem);
    mistake.make(*problem);
    expect_refused(mistake.words, [&](quern_error* e) { return op.run(context(), &problem->args, e); });
    EXPECT_TRUE(untouched());
    if (mistake.by_the_call) continue;
    std::uint64_t bytes = 5;
    expect_refused(mistake.words, [&](quern_error* e) { return op.workspace(context(), &problem->args, &bytes, e); });
    expect_refused(mistake.words, [&](quern_error* e) { return op.prepare(context(), &problem->args, e); });
    EXPECT_EQ(bytes, 5u);
  }
}

}  // namespace quern::test
