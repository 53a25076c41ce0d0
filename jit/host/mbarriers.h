// Barriers in shared memory: 8 bytes that count arrivals and bytes of copies, phase after phase. The state is in those
// 8 bytes, so that a kernel which overwrites them is found out; who waits is kept here, and which of them a thread has
// initialised with no fence since.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace quern::jit::host {

class Mbarriers {
 public:
  // Nobody waits.
  void begin();

  // Who reaches a barrier otherwise than the block's own threads, and sees its initialisation after a fence alone.
  // Bits.
  enum Reader : std::uint8_t { kCopies = 1, kOtherBlocks = 2 };

  // Null, or what is wrong, after which nothing has changed.
  const char* init(void* at, std::uint32_t arrivals, std::uint32_t thread);
  // What the thread has initialised so far is seen by these readers.
  void fence(std::uint32_t thread, std::uint8_t readers);
  // Whether they need not see it yet.
  const char* reach(const void* at, std::uint8_t readers) const;
  const char* invalidate(void* at);
  // The phase waits for `bytes` more; then `arrivals` (0 or 1) arrive. This and complete() release what was done
  // before, passed() acquires it.
  const char* arrive(void* at, std::uint32_t arrivals, std::uint32_t bytes);
  // What the current fiber has done comes before an arrival that copies of its own will bring later.
  const char* promise(const void* at) const;
  // That arrival, in whichever fiber it comes: of its own it releases nothing.
  const char* keep_promise(void* at);
  // So many bytes have landed.
  const char* complete(void* at, std::uint32_t bytes);
  const char* check(const void* at) const;
  // The current fiber has waited for the phase of this parity.
  static void passed(const void* at, std::uint32_t phase);

  // The parity of the phase under way.
  std::uint32_t phase(const void* at) const;
  std::string describe(const void* at) const;

  // The thread will be among woken() once the phase under way is complete.
  void enlist(std::uint32_t thread, const void* at);
  std::vector<std::uint32_t>& woken() { return woken_; }

 private:
  struct Waiting {
    std::uint32_t thread;
    const void* at;
  };
  struct Fresh {
    const void* at;
    std::uint32_t thread;
    std::uint8_t unseen_by;
  };
  const char* refuse(const void* at, std::uint32_t arrivals, std::uint32_t bytes) const;
  void count(void* at, std::uint32_t arrivals, std::uint32_t bytes);
  void end_phase(const void* at);

  void forget(const void* at);

  std::vector<Waiting> waiting_;
  std::vector<Fresh> fresh_;
  std::vector<std::uint32_t> woken_;
};

}  // namespace quern::jit::host
