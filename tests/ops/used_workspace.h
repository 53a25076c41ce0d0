// The three calls of an op whose workspace has been used before: its counters are zero, as every launch leaves them,
// and whatever was behind them is still there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/ops/refusal.h"

namespace quern::test {

template <class Args>
void run_in_used_workspace(quern_context* context, const ThreeCalls<Args>& op, Args args) {
  constexpr std::uint64_t kCounters = 256 * 1024;
  auto error = sized<quern_error>();
  std::uint64_t bytes = 0;
  ASSERT_EQ(op.workspace(context, &args, &bytes, &error), QUERN_OK) << error.text;
  Buffer workspace(bytes, 0xa5);
  const std::vector<unsigned char> zeros(std::min(bytes, kCounters), 0);
  if (bytes != 0) workspace.write(zeros);
  args.workspace = bytes != 0 ? workspace.data() : nullptr, args.workspace_size = bytes;
  ASSERT_EQ(op.prepare(context, &args, &error), QUERN_OK) << error.text;
  args.flags |= QUERN_CALL_CACHED_ONLY;
  ASSERT_EQ(op.run(context, &args, &error), QUERN_OK) << error.text;
  synchronize();
  const std::vector<unsigned char> after = workspace.read();
  EXPECT_TRUE(std::equal(zeros.begin(), zeros.end(), after.begin())) << "the counters are not zero again";
  if (bytes == 0) return;
  args.workspace_size = bytes - 1;
  EXPECT_EQ(op.run(context, &args, &error), QUERN_INVALID) << "with a workspace that is too small";
}

}  // namespace quern::test
