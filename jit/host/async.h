// Asynchronous copies under way, in a seeded run: their destination holds 0xff until some later moment, and they are
// complete at the wait that asks for them, no sooner than they must be.
//
// New kinds of asynchronous work (bulk tensor copies, matrix products of a warpgroup) become further kinds of Transfer;
// whatever completes them other than a wait on groups calls deliver() likewise.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

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
  void begin_block(std::uint32_t threads, Delivery delivery);
  void copy(std::uint32_t thread, void* to, const void* from, std::uint32_t bytes, bool take);
  void commit(std::uint32_t thread) { ++queues_[thread].groups; }
  // Delivers all but the `groups_left` youngest committed groups of this thread, and what was not committed stays too.
  void wait(std::uint32_t thread, std::uint32_t groups_left);
  // Some pieces of somebody's copies, if delivery is random.
  void some(Random& random);

 private:
  struct Queue {
    std::vector<Transfer> transfers;  // oldest first
    std::uint32_t groups = 0;         // committed so far
  };
  static void deliver(Transfer& t, std::uint16_t pieces);

  std::vector<Queue> queues_;
  std::uint32_t threads_ = 0;
  std::uint32_t under_way_ = 0;
  Delivery delivery_ = Delivery::last_in_first_out;
};

}  // namespace quern::jit::host
