// operator new that fails when told to.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace quern::cache::testing {

// Allocations of this thread until every further one fails; negative: none does.
extern thread_local long left_until_failure;
// Whether one has failed.
extern thread_local bool failed;

}  // namespace quern::cache::testing
