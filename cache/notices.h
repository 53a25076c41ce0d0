// What the store has to tell, gathered under its locks and told without them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace quern::cache {

class Notices {
 public:
  explicit Notices(std::function<void(std::string_view)> callback) : callback_(std::move(callback)) {}

  // A fault: told once, the same words again are dropped, and after a great many different ones all are.
  void add(std::string text);
  // A change of state: always told.
  void add_change(std::string text);
  // What this thread has added; another one may be told with a lock of the host's held that this notice's callback
  // wants. To be called without any lock held. What the callback throws is dropped.
  void deliver() noexcept;

 private:
  std::function<void(std::string_view)> callback_;
  std::mutex mutex_;
  std::set<std::string> told_;
  std::vector<std::pair<std::thread::id, std::string>> pending_;
};

}  // namespace quern::cache
