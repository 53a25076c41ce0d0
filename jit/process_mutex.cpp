// One pthread_atfork handler for all of them.
// SPDX-License-Identifier: Apache-2.0
#include "jit/process_mutex.h"

#include <pthread.h>

#include <new>

namespace quern::jit {

struct ProcessMutex::All {
  std::mutex mutex;  // over the list
  ProcessMutex* first = nullptr;

  All() {
    if (pthread_atfork(&before, &after, &after) != 0) throw std::bad_alloc();
  }
  static void before() {
    all().mutex.lock();
    for (ProcessMutex* each = all().first; each != nullptr; each = each->next_) each->mutex_.lock();
  }
  // In the child the one thread that there is is the one that has locked them.
  static void after() {
    for (ProcessMutex* each = all().first; each != nullptr; each = each->next_) each->mutex_.unlock();
    all().mutex.unlock();
  }
};

ProcessMutex::All& ProcessMutex::all() {
  static All* const kept = new All;
  return *kept;
}

ProcessMutex::ProcessMutex() {
  const std::lock_guard lock(all().mutex);
  next_ = all().first;
  all().first = this;
}

}  // namespace quern::jit
