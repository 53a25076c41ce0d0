// Telling each notice once.
// SPDX-License-Identifier: Apache-2.0
#include "cache/notices.h"

#include <algorithm>
#include <utility>

namespace quern::cache {
namespace {

constexpr std::size_t kMost = 256;

}  // namespace

void Notices::add(std::string text) {
  if (!callback_) return;
  const std::lock_guard lock(mutex_);
  if (told_.size() >= kMost || !told_.insert(text).second) return;
  pending_.emplace_back(std::this_thread::get_id(), std::move(text));
}

void Notices::add_change(std::string text) {
  if (!callback_) return;
  const std::lock_guard lock(mutex_);
  pending_.emplace_back(std::this_thread::get_id(), std::move(text));
}

void Notices::deliver() noexcept {
  if (!callback_) return;
  try {
    std::vector<std::string> now;
    {
      const std::lock_guard lock(mutex_);
      const auto ours = std::stable_partition(pending_.begin(), pending_.end(), [](const auto& notice) {
        return notice.first != std::this_thread::get_id();
      });
      if (ours == pending_.end()) return;
      now.reserve(static_cast<std::size_t>(pending_.end() - ours));
      for (auto notice = ours; notice != pending_.end(); ++notice) now.push_back(std::move(notice->second));
      pending_.erase(ours, pending_.end());
    }
    for (const std::string& text : now) callback_(text);
  } catch (...) {
    // A notice that cannot be told must not cost a kernel.
  }
}

}  // namespace quern::cache
