// The process's tables, polled: a condition variable would carry its waiters over into a forked child, and who waits
// here waits for a compiler.
// SPDX-License-Identifier: Apache-2.0
#include "jit/shared_images.h"

#include <unistd.h>

#include <chrono>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "jit/process_mutex.h"

namespace quern::jit {
namespace {

constexpr std::chrono::milliseconds kPause{1};

struct Tables {
  ProcessMutex& mutex = *new ProcessMutex;
  pid_t process = getpid();
  std::set<cache::Key> compiling;
  std::map<cache::Key, std::weak_ptr<const cache::Entry>> images;

  // Under the mutex. What a parent's threads were at nobody is at in a child.
  void settle() {
    if (process == getpid()) return;
    process = getpid();
    compiling.clear();
    images.clear();
  }
};
Tables& tables() {
  static Tables* const kept = new Tables;
  return *kept;
}

}  // namespace

Turn::Turn(const cache::Key& key) : key_(key) {
  for (;;) {
    {
      const std::lock_guard lock(tables().mutex);
      tables().settle();
      if (tables().compiling.insert(key_).second) return;
    }
    waited_ = true;
    std::this_thread::sleep_for(kPause);
  }
}

Turn::~Turn() {
  const std::lock_guard lock(tables().mutex);
  tables().settle();
  tables().compiling.erase(key_);
}

std::shared_ptr<const cache::Entry> shared_image(const cache::Key& key) {
  const std::lock_guard lock(tables().mutex);
  tables().settle();
  const auto found = tables().images.find(key);
  return found == tables().images.end() ? nullptr : found->second.lock();
}

void share_image(const cache::Key& key, const std::shared_ptr<const cache::Entry>& image) noexcept {
  try {
    const std::lock_guard lock(tables().mutex);
    tables().settle();
    std::erase_if(tables().images, [](const auto& each) { return each.second.expired(); });
    tables().images[key] = image;
  } catch (...) {
    // No memory: others compile for themselves.
  }
}

}  // namespace quern::jit
