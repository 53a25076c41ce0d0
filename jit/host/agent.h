// Asynchronous work as ThreadSanitizer sees it: a copy or a warpgroup's products is done by an agent, a flow of control
// of its own, whichever fiber happens to lend it the CPU. What an agent does comes after what its issuer had done, and
// before whatever waits for it; nothing else orders the two. Empty in an ordinary build.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "jit/host/sanitizer.h"

#ifdef QUERN_HOST_TSAN
extern "C" {
void __tsan_func_entry(void* called_from);
void __tsan_func_exit();
void __tsan_read_range(void* at, unsigned long bytes);
void __tsan_write_range(void* at, unsigned long bytes);
unsigned __tsan_atomic32_fetch_add(volatile unsigned* at, unsigned value, int order);
}
#endif

namespace quern::jit::host {

struct Agent {
#ifdef QUERN_HOST_TSAN
  void* flow = nullptr;
#endif
  // What the current fiber has done comes before what the agent does from now on.
  void follow() const {
#ifdef QUERN_HOST_TSAN
    void* const here = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(flow, 0);
    __tsan_switch_to_fiber(here, __tsan_switch_to_fiber_no_sync);
#endif
  }
};

// While one lives, the agent acts. That is for what the work itself reads and writes, and for release(); what the
// executor keeps of its own is none of the agent's business. `issued_at` is the place in the kernel that a report
// names.
class Acting {
 public:
  explicit Acting([[maybe_unused]] const Agent& agent, [[maybe_unused]] const void* issued_at) {
#ifdef QUERN_HOST_TSAN
    here_ = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(agent.flow, __tsan_switch_to_fiber_no_sync);
    __tsan_func_entry(const_cast<void*>(issued_at));
#endif
  }
  ~Acting() {
#ifdef QUERN_HOST_TSAN
    __tsan_func_exit();
    __tsan_switch_to_fiber(here_, __tsan_switch_to_fiber_no_sync);
#endif
  }
  Acting(const Acting&) = delete;
  Acting& operator=(const Acting&) = delete;

#ifdef QUERN_HOST_TSAN
 private:
  void* here_ = nullptr;
#endif
};

// What an agent is about to read, write or add to, 4 bytes.
inline void reads([[maybe_unused]] const void* at, [[maybe_unused]] std::size_t bytes) {
#ifdef QUERN_HOST_TSAN
  if (bytes != 0) __tsan_read_range(const_cast<void*>(at), bytes);
#endif
}
inline void writes([[maybe_unused]] void* at, [[maybe_unused]] std::size_t bytes) {
#ifdef QUERN_HOST_TSAN
  if (bytes != 0) __tsan_write_range(at, bytes);
#endif
}
inline void adds_to([[maybe_unused]] void* at) {
#ifdef QUERN_HOST_TSAN
  __tsan_atomic32_fetch_add(static_cast<unsigned*>(at), 0, __ATOMIC_RELAXED);
#endif
}

// Agents are dear to make: those that are done serve again, each under whom it served before, for it stays ordered
// after what that one has done.
class Agents {
 public:
  Agents() = default;
  Agents(const Agents&) = delete;
  Agents& operator=(const Agents&) = delete;
  ~Agents() {
#ifdef QUERN_HOST_TSAN
    for (const std::vector<Agent>& list : idle_) {
      for (const Agent& agent : list) {
        Watched watched;
        watched.fiber = agent.flow;
        forget_fiber(watched);
      }
    }
#endif
  }

  // One that follows the current fiber, which is `issuer`'s.
  Agent engage([[maybe_unused]] std::uint32_t issuer) {
    Agent agent;
#ifdef QUERN_HOST_TSAN
    const Unwatched own;
    if (issuer >= idle_.size()) idle_.resize(issuer + 1);
    if (idle_[issuer].empty()) {
      agent.flow = __tsan_create_fiber(0);
      __tsan_set_fiber_name(agent.flow, "asynchronous work");
    } else {
      agent = idle_[issuer].back();
      idle_[issuer].pop_back();
      agent.follow();
    }
#endif
    return agent;
  }
  void dismiss([[maybe_unused]] const Agent& agent, [[maybe_unused]] std::uint32_t issuer) {
#ifdef QUERN_HOST_TSAN
    {
      const Acting acting(agent, nullptr);
      release(&done_);
    }
    const Unwatched own;
    idle_[issuer].push_back(agent);
#endif
  }
  // What those dismissed have done comes before what the current fiber does from now on.
  void join() {
#ifdef QUERN_HOST_TSAN
    acquire(&done_);
#endif
  }

#ifdef QUERN_HOST_TSAN
 private:
  std::vector<std::vector<Agent>> idle_;
  char done_ = 0;
#endif
};

}  // namespace quern::jit::host
