// What the contexts of one process compile for each other: eight devices without a cache file need not compile a kernel
// eight times.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "cache/store.h"

namespace quern::jit {

// One compilation of a key at a time in this process, whatever stores there are. Waits for whoever is at it; a forked
// child finds nobody at anything.
class Turn {
 public:
  explicit Turn(const cache::Key& key);
  ~Turn();
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  // Somebody else was at it.
  bool waited() const { return waited_; }

 private:
  const cache::Key key_;
  bool waited_ = false;
};

// What another context has compiled and still keeps; null where there is nothing. To be asked in one's turn.
std::shared_ptr<const cache::Entry> shared_image(const cache::Key& key);
// For others to find for as long as the caller keeps it. Fails silently where there is no memory for it.
void share_image(const cache::Key& key, const std::shared_ptr<const cache::Entry>& image) noexcept;

}  // namespace quern::jit
