// SPDX-License-Identifier: Apache-2.0
#include "jit/host/mbarriers.h"

#include <algorithm>
#include <cstring>

#include "jit/host/sanitizer.h"

namespace quern::jit::host {
namespace {

constexpr std::uint32_t kMost = (1u << 20) - 1;  // arrivals, and bytes either way
constexpr std::uint32_t kValid = 1;              // what shared memory holds otherwise, 0xff or zeros, is not this

// What the 8 bytes are.
struct State {
  std::uint64_t pending : 20;   // arrivals still to come in this phase
  std::uint64_t expected : 20;  // of a whole phase
  std::uint64_t bytes : 21;     // still to land, plus kMost
  std::uint64_t phase : 1;
  std::uint64_t valid : 2;

  std::int64_t to_land() const { return static_cast<std::int64_t>(bytes) - kMost; }
};
static_assert(sizeof(State) == 8);

State state_at(const void* at) {
  State s;
  std::memcpy(&s, at, sizeof(s));
  return s;
}
void set_state(void* at, const State& s) { std::memcpy(at, &s, sizeof(s)); }

// One address for either phase, to which a race detector's ordering is tied.
void* order_of(const void* at, std::uint32_t phase) { return const_cast<char*>(static_cast<const char*>(at)) + phase; }

}  // namespace

void Mbarriers::begin() {
  waiting_.clear();
  fresh_.clear();
  woken_.clear();
}

const char* Mbarriers::check(const void* at) const {
  return state_at(at).valid == kValid ? nullptr : "it is not initialised, or was overwritten";
}

const char* Mbarriers::init(void* at, std::uint32_t arrivals, std::uint32_t thread) {
  if (arrivals == 0 || arrivals > kMost) return "allowed are 1 to 1048575 arrivals";
  for (const Waiting& w : waiting_) {
    if (w.at == at) return "threads wait for it";
  }
  set_state(at, {arrivals & kMost, arrivals & kMost, kMost, 0, kValid});
  const Unwatched own;
  forget(at);
  fresh_.push_back({at, thread, kCopies | kOtherBlocks});
  return nullptr;
}

void Mbarriers::forget(const void* at) {
  std::erase_if(fresh_, [at](const Fresh& f) { return f.at == at; });
}

void Mbarriers::fence(std::uint32_t thread, std::uint8_t readers) {
  if (fresh_.empty()) return;
  const Unwatched own;
  for (Fresh& f : fresh_) {
    if (f.thread == thread) f.unseen_by &= static_cast<std::uint8_t>(~readers);
  }
  std::erase_if(fresh_, [](const Fresh& f) { return f.unseen_by == 0; });
}

const char* Mbarriers::reach(const void* at, std::uint8_t readers) const {
  const auto unseen = [&](const Fresh& f) { return f.at == at && (f.unseen_by & readers) != 0; };
  if (std::none_of(fresh_.begin(), fresh_.end(), unseen)) return nullptr;
  return "the thread that called mbarrier_init for it has not called fence_mbarrier_init() since, so it need not be "
         "seen there yet";
}

const char* Mbarriers::invalidate(void* at) {
  if (const char* wrong = check(at)) return wrong;
  for (const Waiting& w : waiting_) {
    if (w.at == at) return "threads wait for it";
  }
  std::memset(at, 0xff, sizeof(State));
  forget(at);
  return nullptr;
}

const char* Mbarriers::refuse(const void* at, std::uint32_t arrivals, std::uint32_t bytes) const {
  if (const char* wrong = check(at)) return wrong;
  const State s = state_at(at);
  if (arrivals > s.pending) return "all the arrivals of its phase have come already";
  if (s.to_land() + static_cast<std::int64_t>(bytes) > kMost) return "more than 1048575 bytes are to land in its phase";
  return nullptr;
}

void Mbarriers::count(void* at, std::uint32_t arrivals, std::uint32_t bytes) {
  State s = state_at(at);
  s.bytes = (s.bytes + bytes) & (2u * kMost + 1);
  s.pending = (s.pending - arrivals) & kMost;
  set_state(at, s);
  if (arrivals != 0) end_phase(at);
}

const char* Mbarriers::arrive(void* at, std::uint32_t arrivals, std::uint32_t bytes) {
  if (const char* wrong = refuse(at, arrivals, bytes)) return wrong;
  release(order_of(at, phase(at)));
  count(at, arrivals, bytes);
  return nullptr;
}

const char* Mbarriers::keep_promise(void* at) {
  if (const char* wrong = refuse(at, 1, 0)) return wrong;
  count(at, 1, 0);
  return nullptr;
}

const char* Mbarriers::promise(const void* at) const {
  if (const char* wrong = check(at)) return wrong;
  release(order_of(at, phase(at)));
  return nullptr;
}

const char* Mbarriers::complete(void* at, std::uint32_t bytes) {
  if (const char* wrong = check(at)) return wrong;
  State s = state_at(at);
  if (s.to_land() - static_cast<std::int64_t>(bytes) < -static_cast<std::int64_t>(kMost)) {
    return "1048575 bytes more than expected have landed in its phase";
  }
  release(order_of(at, s.phase));
  s.bytes = (s.bytes - bytes) & (2u * kMost + 1);
  set_state(at, s);
  end_phase(at);
  return nullptr;
}

void Mbarriers::passed(const void* at, std::uint32_t phase) { acquire(order_of(at, phase)); }

void Mbarriers::enlist(std::uint32_t thread, const void* at) {
  const Unwatched own;
  waiting_.push_back({thread, at});
}

void Mbarriers::end_phase(const void* at) {
  const Unwatched own;
  State s = state_at(at);
  if (s.pending != 0 || s.to_land() != 0) return;
  s.pending = s.expected;
  s.phase ^= 1;
  set_state(const_cast<void*>(at), s);
  std::size_t kept = 0;
  for (const Waiting& w : waiting_) {
    if (w.at == at) {
      woken_.push_back(w.thread);
    } else {
      waiting_[kept++] = w;
    }
  }
  waiting_.resize(kept);
}

std::uint32_t Mbarriers::phase(const void* at) const { return state_at(at).phase; }

std::string Mbarriers::describe(const void* at) const {
  if (const char* wrong = check(at)) return wrong;
  const State s = state_at(at);
  return "in phase " + std::to_string(s.phase) + " with " + std::to_string(s.expected - s.pending) + " of " +
         std::to_string(s.expected) + " arrivals and " + std::to_string(s.to_land()) + " bytes to land";
}

}  // namespace quern::jit::host
