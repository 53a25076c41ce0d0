// SPDX-License-Identifier: Apache-2.0
#include "jit/host/remote_stores.h"

#include <algorithm>
#include <cstring>

namespace quern::jit::host {

void RemoteStores::begin(bool seeded, Delivery delivery, Random& random) {
  seeded_ = seeded;
  delivery_ = delivery;
  constexpr std::uint32_t kOnceIn[] = {4, 32, 256};
  if (seeded) once_in_ = kOnceIn[random.below(3)];
}

const Agent& RemoteStores::engage(std::uint32_t thread) {
  if (thread >= issuers_.size()) issuers_.resize(thread + 1);
  Issuer& issuer = issuers_[thread];
  if (issuer.under_way++ == 0) {
    issuer.agent = agents_.engage(thread);
  } else {
    issuer.agent.follow();
  }
  return issuer.agent;
}

void RemoteStores::dismiss(std::uint32_t thread) {
  if (--issuers_[thread].under_way == 0) agents_.dismiss(issuers_[thread].agent, thread);
}

const char* RemoteStores::land(const Store& store) {
  const char* wrong = nullptr;
  {
    const Acting acting(issuers_[store.thread].agent, store.issued_at);
    writes(store.to, store.bytes);
    std::memcpy(store.to, store.value, store.bytes);
    view_.landed(store.to, store.bytes);
    wrong = barriers_.complete(store.barrier, store.bytes);
  }
  dismiss(store.thread);
  return wrong;
}

const char* RemoteStores::store(unsigned char* to, const void* value, std::uint32_t bytes, void* barrier,
                                std::uint32_t thread, const void* issued_at) {
  const Unwatched own;
  const Agent& agent = engage(thread);
  Store store{to, barrier, issued_at, thread, bytes, {}};
  std::memcpy(store.value, value, bytes);
  if (!seeded_) return land(store);
  {
    const Acting acting(agent, issued_at);
    writes(to, bytes);
    std::memset(to, 0xff, bytes);
    view_.landed(to, bytes);
  }
  stores_.push_back(store);
  return nullptr;
}

const char* RemoteStores::land_some(std::uint32_t count, Random& random) {
  const Unwatched own;
  const char* wrong = nullptr;
  for (; count > 0 && wrong == nullptr; --count) {
    if (delivery_ == Delivery::random)
      std::swap(stores_[random.below(static_cast<std::uint32_t>(stores_.size()))], stores_.back());
    const Store store = stores_.back();
    stores_.pop_back();
    wrong = land(store);
  }
  return wrong;
}

const char* RemoteStores::some(Random& random) {
  if (delivery_ != Delivery::random || stores_.empty() || !random.once_in(once_in_)) return nullptr;
  // Rarely all, mostly few.
  const auto all = static_cast<std::uint32_t>(stores_.size());
  return land_some(random.below(random.below(all) + 1) + 1, random);
}

bool RemoteStores::press(Random& random, const char** wrong) {
  if (stores_.empty()) return false;
  const auto all = static_cast<std::uint32_t>(stores_.size());
  *wrong = land_some(random.below(all) + 1, random);
  return true;
}

const char* RemoteStores::finish() const {
  return stores_.empty() ? nullptr
                         : "an asynchronous store is still under way: its shared memory is no longer the block's";
}

void RemoteStores::end() {
  const Unwatched own;
  for (const Store& store : stores_) dismiss(store.thread);
  stores_.clear();
  agents_.join();
}

}  // namespace quern::jit::host
