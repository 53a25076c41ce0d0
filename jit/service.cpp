// The services of a process, and taking turns in one of them.
// SPDX-License-Identifier: Apache-2.0
#include "jit/service.h"

#include <unistd.h>

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "jit/error.h"
#include "jit/lazy.h"
#include "jit/process_mutex.h"

namespace quern::jit {
namespace {

thread_local const std::function<void(std::string_view)>* listener = nullptr;

cache::StoreOptions telling_the_listener(cache::StoreOptions options) {
  options.notice = [](std::string_view text) {
    if (listener != nullptr && *listener) (*listener)(text);
  };
  return options;
}

unsigned threads(unsigned asked_for) {
  return asked_for != 0 ? asked_for : std::clamp(std::thread::hardware_concurrency(), 1U, 8U);
}

std::size_t bytes_of(const cache::Entry& image) { return image.image.size() + image.text.size() + image.log.size(); }

struct Registry {
  struct Known {
    Service::Options options;
    std::vector<cache::FileIdentity> bundles;  // as they were when it was made
    std::weak_ptr<Service> service;
  };
  pid_t process = getpid();
  std::vector<Known> known;
};
ProcessMutex registry_mutex;
Lazy<Registry> registry;

}  // namespace

bool operator==(const Service::Options& a, const Service::Options& b) {
  return a.store.same_but_notice(b.store) && a.compilers == b.compilers && a.compile_threads == b.compile_threads;
}

std::shared_ptr<Service> Service::shared(const Options& options, bool* found) {
  Registry& all = *registry;
  // Of one that is not kept after all the file is let go of without the mutex: fork() waits for either.
  std::shared_ptr<Service> made;
  const std::lock_guard lock(registry_mutex);
  // Contexts of the parent are of no use here, nor is what they hold.
  if (all.process != getpid()) all.known.clear();
  all.process = getpid();
  std::erase_if(all.known, [](const Registry::Known& each) { return each.service.expired(); });
  std::vector<cache::FileIdentity> bundles = cache::identities(options.store.bundles);
  for (const Registry::Known& each : all.known) {
    const bool same = each.options == options && each.bundles == bundles;
    std::shared_ptr<Service> there = same ? each.service.lock() : nullptr;
    if (there == nullptr) continue;
    *found = true;
    return there;
  }
  *found = false;
  made = std::make_shared<Service>(options);
  all.known.push_back({options, std::move(bundles), made});
  return made;
}

Service::Service(Options options)
    : store_(telling_the_listener(std::move(options.store))),
      compilers_(std::move(options.compilers)),
      compile_threads_(threads(options.compile_threads)) {}

template <class Free>
void Service::wait(std::unique_lock<std::mutex>& lock, const std::atomic<bool>& cancelled, const Free& free) {
  changed_.wait(lock, [&] { return cancelled || free(); });
  if (cancelled) throw Error(QUERN_COMPILE, "cancelled: the context is being destroyed");
}

void Service::wake() noexcept {
  // Under the mutex, so that nobody misses it between looking and waiting.
  {
    const std::lock_guard lock(mutex_);
  }
  changed_.notify_all();
}

Service::Turn::Turn(Service& service, const cache::Key& key, const std::atomic<bool>& cancelled)
    : service_(service), key_(key) {
  std::unique_lock lock(service_.mutex_);
  waited_ = service_.compiling_.contains(key_);
  service_.wait(lock, cancelled, [this] { return !service_.compiling_.contains(key_); });
  service_.compiling_.insert(key_);
}

Service::Turn::~Turn() {
  {
    const std::lock_guard lock(service_.mutex_);
    service_.compiling_.erase(key_);
  }
  service_.changed_.notify_all();
}

Service::Slot::Slot(Service& service, const std::atomic<bool>& cancelled) : service_(service) {
  std::unique_lock lock(service_.mutex_);
  service_.wait(lock, cancelled, [this] { return service_.running_ < service_.compile_threads_; });
  ++service_.running_;
}

Service::Slot::~Slot() {
  {
    const std::lock_guard lock(service_.mutex_);
    --service_.running_;
  }
  service_.changed_.notify_all();
}

std::shared_ptr<const cache::Entry> Service::kept(const cache::Key& key) {
  const std::lock_guard lock(mutex_);
  const auto found = kept_.find(key);
  return found == kept_.end() ? nullptr : found->second.image;
}

void Service::keep(const cache::Key& key, const cache::Entry& image) noexcept {
  try {
    auto copy = std::make_shared<const cache::Entry>(image);
    const std::lock_guard lock(mutex_);
    const std::size_t bytes = bytes_of(*copy);
    erase(key);
    if (bytes > kMostKept) return;
    // The oldest go: who comes for them compiles once more.
    while (kept_bytes_ + bytes > kMostKept) {
      const auto older = [](const auto& a, const auto& b) { return a.second.number < b.second.number; };
      erase(std::min_element(kept_.begin(), kept_.end(), older)->first);
    }
    kept_.emplace(key, Kept{std::move(copy), kept_count_++});
    kept_bytes_ += bytes;
  } catch (...) {
    // No memory: the others compile for themselves.
  }
}

void Service::forget(const cache::Key& key) noexcept {
  const std::lock_guard lock(mutex_);
  erase(key);
}

void Service::erase(const cache::Key& key) noexcept {
  const auto found = kept_.find(key);
  if (found == kept_.end()) return;
  kept_bytes_ -= bytes_of(*found->second.image);
  kept_.erase(found);
}

Listening::Listening(const std::function<void(std::string_view)>& tell) noexcept
    : before_(std::exchange(listener, &tell)) {}
Listening::~Listening() { listener = before_; }

}  // namespace quern::jit
