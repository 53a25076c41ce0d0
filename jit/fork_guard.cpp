// One pthread_atfork handler for the whole library.
// SPDX-License-Identifier: Apache-2.0
#include "jit/fork_guard.h"

#include <pthread.h>

#include "jit/error.h"

namespace quern::jit {

// Noted while the library is loaded: no thread may be in here at a fork().
const int ForkGuard::noted_ = pthread_atfork(nullptr, nullptr, +[] { forks_.fetch_add(1, std::memory_order_relaxed); });

ForkGuard::ForkGuard() {
  if (noted_ != 0) throw Error(QUERN_NO_MEMORY, "no memory to note a fork handler", noted_);
  made_ = forks_.load(std::memory_order_relaxed);
}

void ForkGuard::check() const {
  if (forked()) {
    throw Error(QUERN_FORKED,
                "this context was made before fork(), by the parent of this process: make a context of your own here");
  }
}

}  // namespace quern::jit
