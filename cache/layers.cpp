// Opening the bundles once.
// SPDX-License-Identifier: Apache-2.0
#include "cache/layers.h"

namespace quern::cache {

const std::vector<std::unique_ptr<Bundle>>& Layers::open() {
  const std::lock_guard lock(mutex_);
  if (opened_) return bundles_;
  std::vector<std::unique_ptr<Bundle>> bundles;
  std::vector<std::string> faults;
  for (const std::string& path : paths_) {
    std::unique_ptr<Bundle> bundle;
    std::string fault;
    try {
      bundle = std::make_unique<Bundle>(path, trust_);
    } catch (const BundleError& error) {
      fault = error.what();
      notices_.add(fault + "; it is left out");
    }
    bundles.push_back(std::move(bundle));
    faults.push_back(std::move(fault));
  }
  bundles_ = std::move(bundles);
  faults_ = std::move(faults);
  opened_ = true;
  return bundles_;
}

const std::vector<std::string>& Layers::faults() {
  open();
  return faults_;
}

}  // namespace quern::cache
