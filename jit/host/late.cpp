// SPDX-License-Identifier: Apache-2.0
#include "jit/host/late.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>

#include "jit/host/sanitizer.h"

namespace quern::jit::host {
namespace {

// By the kernel rather than by a store: a weight may lie in a file that is mapped for reading alone.
void write(void* to, const unsigned char* from, std::size_t bytes) noexcept {
  iovec source{const_cast<unsigned char*>(from), bytes}, target{to, bytes};
  static_cast<void>(process_vm_writev(getpid(), &source, 1, &target, 1, 0));
}

}  // namespace

void Late::hide() {
  const Unwatched own;
  const std::lock_guard lock(mutex_);
  std::size_t most = 0;
  std::vector<std::vector<unsigned char>> kept;
  for (const LateMemory& each : memory_) {
    const auto* const bytes = static_cast<const unsigned char*>(each.at);
    kept.emplace_back(bytes, bytes + each.bytes);
    most = std::max(most, each.bytes);
  }
  // Numbers become NaN; indices 0, at which there is something whatever they count.
  const std::vector<unsigned char> ones(most, 0xff), zeros(most, 0);
  kept_ = std::move(kept);
  hidden_.store(true, std::memory_order_relaxed);
  for (const LateMemory& each : memory_) write(each.at, each.indices ? zeros.data() : ones.data(), each.bytes);
}

void Late::arrive() noexcept {
  // Whoever finds it back has no need of the lock, which would order threads that their kernel does not.
  if (!hidden_.load(std::memory_order_acquire)) return;
  const Unwatched own;
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < kept_.size(); ++i) write(memory_[i].at, kept_[i].data(), kept_[i].size());
  kept_.clear();
  hidden_.store(false, std::memory_order_release);
}

}  // namespace quern::jit::host
