// The read-only bundles under the file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "cache/bundle.h"
#include "cache/notices.h"

namespace quern::cache {

class Layers {
 public:
  // Both outlive the object.
  Layers(const std::vector<std::string>& paths, Bundle::Trust trust, Notices& notices)
      : paths_(paths), trust_(std::move(trust)), notices_(notices) {}

  // One slot for each path, in order; null where the bundle cannot be used. Opened once, by the first call; a bundle is
  // told of in a notice then, and what is wrong with it is kept for faults().
  const std::vector<std::unique_ptr<Bundle>>& open();

  // For each path, why it cannot be used; empty where it can.
  const std::vector<std::string>& faults();

 private:
  const std::vector<std::string>& paths_;
  const Bundle::Trust trust_;
  Notices& notices_;
  std::mutex mutex_;
  bool opened_ = false;
  std::vector<std::unique_ptr<Bundle>> bundles_;
  std::vector<std::string> faults_;
};

}  // namespace quern::cache
