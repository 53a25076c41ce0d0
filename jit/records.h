// Small texts kept in the cache beside the kernels: what was measured. Found by the text that says what they are of.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jit/service.h"

namespace quern::jit {

// Thread-safe.
class Records {
 public:
  // The service outlives this object; `notice` is told what it found out about the store.
  explicit Records(Service& service, std::function<void(std::string_view)> notice = {})
      : service_(service), notice_(std::move(notice)) {}
  // Notes in the store which were used.
  ~Records();
  Records(const Records&) = delete;
  Records& operator=(const Records&) = delete;

  // What was kept of this; none where there is nothing that verifies.
  std::optional<std::string> find(const std::string& of);
  // Keeps it, or replaces what was kept. `op` and `target` are for listings. Throws Error(QUERN_IO) where it could not
  // be stored.
  void keep(const std::string& of, std::string op, std::string target, std::string contents);
  // Tells what is left to tell.
  void deliver() noexcept;

 private:
  Service& service_;
  const std::function<void(std::string_view)> notice_;
  std::mutex mutex_;  // over used_
  std::vector<cache::Key> used_;
};

}  // namespace quern::jit
