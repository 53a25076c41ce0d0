// Asynchronous copies under way, in a seeded run: their destination holds 0xff until some later moment, and they are
// complete at the wait that asks for them, no sooner than they must be.
//
// A thread may have a barrier in shared memory told once its copies so far have landed: that happens at some later
// moment as well, at the latest when nobody could go on without it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "jit/host/mbarriers.h"
#include "jit/host/random.h"

namespace quern::jit::host {

struct Transfer {
  unsigned char* to;
  const unsigned char* from;
  std::uint32_t group;   // counted by thread
  std::uint16_t pieces;  // a bit for each 4 bytes still to come
  bool take;             // false: zeros are written and `from` is not read
};

enum class Delivery { last_in_first_out, random };

class Transfers {
 public:
  explicit Transfers(Mbarriers& barriers) : barriers_(barriers) {}

  void begin_block(std::uint32_t threads, Delivery delivery);
  void copy(std::uint32_t thread, void* to, const void* from, std::uint32_t bytes, bool take);
  void commit(std::uint32_t thread) { ++queues_[thread].groups; }
  // Delivers all but the `groups_left` youngest committed groups of this thread, and what was not committed stays too.
  void wait(std::uint32_t thread, std::uint32_t groups_left);
  // Arrives on the barrier once all copies that this thread has issued so far have landed.
  void arrive(std::uint32_t thread, void* barrier);
  bool arrivals_under_way() const { return arrivals_ != 0; }
  // Some pieces of somebody's copies, and perhaps an arrival that is due, if delivery is random. Null, or what is
  // wrong.
  const char* some(Random& random);
  // An arrival, with the copies that it comes after, so that who waits for it can go on; false where none is under way.
  bool press(Random& random, const char** wrong);

 private:
  struct Arrival {
    void* barrier;
    std::size_t after;  // so many of its thread's transfers, from the oldest that is kept
  };
  struct Queue {
    std::vector<Transfer> transfers;  // oldest first
    std::vector<Arrival> arrivals;    // likewise
    std::uint32_t groups = 0;         // committed so far
  };
  static void deliver(Transfer& t, std::uint16_t pieces);
  const char* arrive_first(Queue& queue);

  Mbarriers& barriers_;
  std::vector<Queue> queues_;
  std::uint32_t threads_ = 0;
  std::uint32_t under_way_ = 0;
  std::uint32_t arrivals_ = 0;
  Delivery delivery_ = Delivery::last_in_first_out;
};

}  // namespace quern::jit::host
