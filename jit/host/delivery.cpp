// When asynchronous work lands, and whom that wakes.
// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "jit/host/hopper_calls.h"

namespace quern::jit::host {

void Runner::wake() {
  polls_ = 0;
  for (const std::uint32_t slot : mbarriers_.woken()) make_runnable(fibers_[slot].warp, 1ULL << views_[slot].lane);
  mbarriers_.woken().clear();
}

void Runner::wake_warpgroup(std::uint32_t group) {
  const std::uint32_t groups = (warps_ + Products::kWarps - 1) / Products::kWarps;
  const std::uint32_t first = group / groups * warps_ + group % groups * Products::kWarps;
  for_each_slot([&](std::uint32_t slot, std::uint32_t, std::uint32_t) {
    const Fiber& f = fibers_[slot];
    if (f.wait == Wait::products && f.warp - first < Products::kWarps) make_runnable(f.warp, 1ULL << views_[slot].lane);
  });
}

void Runner::deliver_transfers() {
  if (const char* wrong = transfers_.some(random_)) {
    failure_ = std::string("copy_async_arrive: ") + wrong;
    abandon();
  }
  // It may have been the last arrival under way, after which nobody else asks who waits for it.
  if (!mbarriers_.woken().empty()) wake();
}

void Runner::deliver() {
  const char* wrong = bulk_.some(random_);
  const char* wrong_store = remote_stores_.some(random_);
  if (std::string product = products_.some(random_); !product.empty()) {
    failure_ = "wgmma: " + std::exchange(product, {});
    abandon();
  }
  wake();
  const bool ended = returned_ == cluster_blocks_ * threads_;
  const char* wrong_arrival = nullptr;
  while (ready_ == 0 && !ended && wrong_arrival == nullptr && transfers_.press(random_, &wrong_arrival)) wake();
  if (wrong_arrival != nullptr) {
    failure_ = std::string("copy_async_arrive: ") + wrong_arrival;
    abandon();
  }
  while (wrong == nullptr && wrong_store == nullptr && ready_ == 0 && !ended &&
         (bulk_.press(random_, &wrong) || remote_stores_.press(random_, &wrong_store)))
    wake();
  if (wrong == nullptr && wrong_store == nullptr) return;
  failure_ =
      wrong != nullptr ? std::string("a bulk load: ") + wrong : std::string("an asynchronous store: ") + wrong_store;
  abandon();
}

}  // namespace quern::jit::host
