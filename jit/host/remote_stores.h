// Asynchronous stores to the shared memory of a cluster's blocks under way, in a seeded run: their destination holds
// 0xff until some later moment, when they land, in any order, and count on a barrier beside it. In a fair run every
// store is made at once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "jit/host/agent.h"
#include "jit/host/async.h"
#include "jit/host/mbarriers.h"
#include "jit/host/random.h"
#include "jit/host/shared_view.h"

namespace quern::jit::host {

class RemoteStores {
 public:
  static constexpr std::uint32_t kMostBytes = 16;  // each

  RemoteStores(Mbarriers& barriers, SharedView& view) : barriers_(barriers), view_(view) {}

  void begin(bool seeded, Delivery delivery, Random& random);
  // By `thread`, from this place in the kernel's code. Null, or what is wrong.
  const char* store(unsigned char* to, const void* value, std::uint32_t bytes, void* barrier, std::uint32_t thread,
                    const void* issued_at);

  bool under_way() const { return !stores_.empty(); }
  // Some of them, where delivery is random.
  const char* some(Random& random);
  // Some, so that who waits for them can go on; false where none is under way.
  bool press(Random& random, const char** wrong);
  // The kernel has ended.
  const char* finish() const;
  // Forgets what is left, whether or not the kernel has come to its end.
  void end();

 private:
  struct Store {
    unsigned char* to;
    void* barrier;
    const void* issued_at;
    std::uint32_t thread, bytes;
    unsigned char value[kMostBytes];
  };
  // A thread's stores are one agent's: there may be more of them under way than there can be agents.
  struct Issuer {
    Agent agent;
    std::uint32_t under_way = 0;
  };
  const Agent& engage(std::uint32_t thread);
  void dismiss(std::uint32_t thread);
  const char* land(const Store& store);
  // So many, each whichever it falls on, or the youngest.
  const char* land_some(std::uint32_t count, Random& random);

  Mbarriers& barriers_;
  SharedView& view_;
  Agents agents_;
  std::vector<Issuer> issuers_;
  std::vector<Store> stores_;
  bool seeded_ = false;
  std::uint32_t once_in_ = 1;  // so many choices of who is to run, some land, where delivery is random
  Delivery delivery_ = Delivery::random;
};

}  // namespace quern::jit::host
