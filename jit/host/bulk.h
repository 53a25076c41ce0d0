// Bulk copies under way, in a seeded run: a load lands row by row, in an order of its own, at some later moment, and
// until then its destination holds 0xff; a store reads shared memory when it must or a little sooner, and writes global
// memory later still. In a fair run every copy is made at once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "jit/host/agent.h"
#include "jit/host/async.h"
#include "jit/host/mbarriers.h"
#include "jit/host/random.h"
#include "jit/host/shared_view.h"
#include "jit/host/tensor_map.h"

namespace quern::jit::host {

// What lands where: a box, in the shared memory of a block.
struct Landing {
  Box box;
  unsigned char* window = nullptr;
  std::uint32_t at = 0;
  void* barrier = nullptr;          // of a load
  const void* issued_at = nullptr;  // in the kernel's code
};

class BulkCopies {
 public:
  BulkCopies(Mbarriers& barriers, SharedView& view) : barriers_(barriers), view_(view) {}

  void begin(std::uint32_t threads, bool seeded, Delivery delivery, Random& random);
  // Null, or what is wrong.
  const char* load(const Landing& what, std::uint32_t thread, Random& random);
  void store(const Landing& what, bool add, std::uint32_t thread, Random& random);
  void commit(std::uint32_t thread);
  // All but the youngest groups of this thread have been read, or are complete.
  void wait(std::uint32_t thread, std::uint32_t groups_left, bool read_only);

  bool under_way() const { return !copies_.empty(); }
  // A few rows of somebody's copies, where delivery is random.
  const char* some(Random& random);
  // Some of a load, so that who waits for it can go on; false where none is under way.
  bool press(Random& random, const char** wrong);
  // The kernel has ended: stores that have been read are completed.
  const char* finish();
  // Forgets what is left, whether or not the kernel has come to its end.
  void end();

 private:
  struct Copy {
    Landing what;
    bool is_store, add;
    bool taken;                         // a store that has read its shared memory
    std::uint32_t thread, group;        // who issued it, and among which of its stores
    std::uint32_t done, stride, shift;  // rows so far, and their order
    std::vector<unsigned char> staged;  // of a store
    Agent agent;
    std::uint32_t next_row() const { return (shift + done * stride) % what.box.rows(); }
  };
  Copy copy_of(const Landing& what, std::uint32_t thread, Random& random);
  // So many rows more; true when the copy is complete.
  bool advance(Copy& copy, std::uint32_t rows, const char** wrong);
  void erase(std::size_t i);
  // To which a race detector's ordering is tied: of stores that have read shared memory, and of those complete.
  char* order_of(std::uint32_t thread, bool read) { return reinterpret_cast<char*>(&groups_[thread]) + read; }

  Mbarriers& barriers_;
  SharedView& view_;
  Agents agents_;
  std::vector<Copy> copies_;           // oldest first
  std::vector<std::uint32_t> groups_;  // committed so far, by thread
  bool seeded_ = false;
  std::uint32_t once_in_ = 1;  // so many choices of who is to run, some copy moves on, where delivery is random
  Delivery delivery_ = Delivery::random;
};

}  // namespace quern::jit::host
