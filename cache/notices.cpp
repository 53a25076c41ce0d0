// Telling each notice once.
// SPDX-License-Identifier: Apache-2.0
#include "cache/notices.h"

#include <utility>

namespace quern::cache {
namespace {

constexpr std::size_t kMost = 256;

}  // namespace

void Notices::add(std::string text) {
  if (!callback_) return;
  const std::lock_guard lock(mutex_);
  if (told_.size() >= kMost || !told_.insert(text).second) return;
  pending_.push_back(std::move(text));
}

void Notices::add_change(std::string text) {
  if (!callback_) return;
  const std::lock_guard lock(mutex_);
  pending_.push_back(std::move(text));
}

void Notices::deliver() noexcept {
  if (!callback_) return;
  try {
    std::vector<std::string> now;
    {
      const std::lock_guard lock(mutex_);
      if (pending_.empty()) return;
      now.swap(pending_);
    }
    for (const std::string& text : now) callback_(text);
  } catch (...) {
    // A notice that cannot be told must not cost a kernel.
  }
}

}  // namespace quern::cache
