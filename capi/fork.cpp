// Counting forks.
// SPDX-License-Identifier: Apache-2.0
#include "capi/fork.h"

#include <pthread.h>

#include <string>

#include "jit/error.h"

namespace quern::capi {

void watch_forks() {
  static const int code = pthread_atfork(
      nullptr, nullptr, [] { fork_generation.store(fork_generation.load(std::memory_order_relaxed) + 1); });
  if (code != 0) throw Error(QUERN_NO_MEMORY, "pthread_atfork failed", code);
}

}  // namespace quern::capi
