// Warpgroup products under way. A product belongs to all four warps and is complete for all of them at once; it can be
// carried out when the last of them has issued it. In a seeded run that happens at some later moment, at the latest at
// the wait that asks for it, and until then the accumulators hold NaN; in a fair run at once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <string>
#include <vector>

#include "jit/host/agent.h"
#include "jit/host/async.h"
#include "jit/host/held_registers.h"
#include "jit/host/random.h"
#include "jit/host/shared_view.h"
#include "jit/host/wgmma.h"

namespace quern::jit::host {

class Products {
 public:
  static constexpr std::uint32_t kWarps = 4;  // of a warpgroup
  // About a reader of shared memory that is not a thread.
  static constexpr const char* kUnseen =
      "it reads what was written there after the last fence_async(), and need not see it";

  explicit Products(SharedView& view) : view_(view) {}

  // Forgets what was; the windows are the shared memory of each block, `groups_per_block` its warpgroups.
  struct Window {
    const unsigned char* shared;
    std::uint32_t bytes;
  };
  void begin(const std::vector<Window>& windows, std::uint32_t groups_per_block, bool seeded, Delivery delivery);

  // All lanes of a warp at once, from this place in the kernel's code. Empty, or what is wrong.
  std::string issue(std::uint32_t group, std::uint32_t warp, void* const* lanes, const void* issued_at);
  void fence(std::uint32_t group, std::uint32_t warp);
  void commit(std::uint32_t group, std::uint32_t warp);
  // Completes all but the warp's youngest groups. False when another warp has yet to issue its part of one of them:
  // then ask again.
  bool wait(std::uint32_t group, std::uint32_t warp, std::uint32_t groups_left, std::string* wrong);
  // A product of somebody's, where delivery is random.
  std::string some(Random& random);
  bool under_way() const { return under_way_ != 0; }
  // At the end of the kernel: empty, or that one was never waited for.
  std::string finish() const;
  // After it, and after a kernel that has not come to its end.
  void end();

 private:
  // The accumulators of one warp while a product works on them.
  struct Flight {
    float* d[32];
    std::uint32_t count;  // each
    std::uint32_t products;
    std::vector<float> held;
  };
  struct Item {
    WarpgroupProduct product;
    Flight* flight[kWarps];
    std::uint32_t issued;  // a bit for each warp
    const void* issued_at;
  };
  struct Warp {
    std::uint32_t issued = 0;  // products
    HeldRegisters registers;
    std::vector<std::uint32_t> group_ends;  // products issued when each group was closed
    std::list<Flight> flights;
  };
  struct Group {
    std::uint32_t block = 0;
    std::uint32_t done = 0;  // products
    std::deque<Item> items;  // from number `done` on
    Warp warps[kWarps];
    Agent agent;
    bool engaged = false;
    char order = 0;  // as Runner::Warp's
  };
  static std::string mismatch(const q::host::Product& mine, const q::host::Product& others);
  Flight* take_off(Warp& warp, void* const* lanes);
  std::string complete_first(Group& group);
  std::string unseen(const Group& group, const Item& item);

  std::vector<Window> windows_;
  std::vector<Group> groups_;
  std::uint32_t under_way_ = 0;
  bool seeded_ = false, used_ = false;
  Delivery delivery_ = Delivery::random;
  WgmmaUnit unit_;
  SharedView& view_;
  Agents agents_;
};

}  // namespace quern::jit::host
