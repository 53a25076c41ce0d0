// One set of pthread_atfork handlers for all of them.
// SPDX-License-Identifier: Apache-2.0
#include "jit/process_mutex.h"

#include <pthread.h>

#include <cstdlib>

namespace quern::jit {
namespace {

constinit std::mutex list_mutex;
constinit ProcessMutex* first = nullptr;

}  // namespace

struct ProcessMutex::Handlers {
  // While the library is loaded. The C library has room for some handlers without allocating.
  Handlers() noexcept {
    if (pthread_atfork(&before, &after, &after) != 0) std::abort();
  }
  static void before() {
    list_mutex.lock();
    for (ProcessMutex* each = first; each != nullptr; each = each->next_) each->mutex_.lock();
  }
  // In the child the one thread that there is is the one that has locked them.
  static void after() {
    for (ProcessMutex* each = first; each != nullptr; each = each->next_) each->mutex_.unlock();
    list_mutex.unlock();
  }
  static const Handlers kNoted;
};
const ProcessMutex::Handlers ProcessMutex::Handlers::kNoted;

ProcessMutex::ProcessMutex() noexcept {
  const std::lock_guard lock(list_mutex);
  next_ = first;
  first = this;
}

}  // namespace quern::jit
