// Runs the blocks of a grid, one after the other, on one CPU thread: a fiber for each GPU thread, and all that makes
// one wait for another.
//
// A fiber runs until it must wait; the next one is then chosen and switched to directly. In a fair run that is the next
// lane of the same warp, then the next warp. In a seeded run the warp of highest priority goes first, priorities being
// drawn anew now and then: a warp may run far ahead of another, which is what shows a missing barrier.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "jit/host/arena.h"
#include "jit/host/async.h"
#include "jit/host/fiber.h"
#include "jit/host/random.h"
#include "jit/host/sanitizer.h"
#include "sources/common/host_abi.cuh"

namespace quern::jit::host {

inline constexpr std::uint32_t kMaxThreads = 1024;  // of a block
inline constexpr std::uint32_t kMaxWarps = kMaxThreads / 32;
inline constexpr std::uint32_t kMaxLanes = 64;
inline constexpr std::uint32_t kBarriers = 16;  // 0 is the block's

// A kernel of a loaded image.
struct Program {
  std::uint64_t image = 0;  // a number no other has
  const q::host::Kernel* kernel = nullptr;
  q::host::Module module{};
  std::uint64_t placed_bytes = 0;  // Arena
  std::uint64_t static_bytes = 0;
  std::uint32_t max_dynamic_bytes = 0;
  std::string name;
};

struct Grid {
  const Program* program;
  void** args;
  std::uint32_t blocks[3];
  std::uint32_t dynamic_bytes;
  bool seeded;
  std::uint64_t seed;
};

// What a fiber waits for. Whatever comes to be waited for later (a memory barrier with a phase, a warpgroup's products)
// gets a line here and one in report.cpp.
enum class Wait : std::uint8_t { nothing, block, named, warp, shuffle, ballot, mma, returned };

const q::host::Table& table();

class Runner {
 public:
  explicit Runner(std::uint32_t warp_size) : warp_size_(warp_size) {}
  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  // Readies stacks and shared memory. Throws std::bad_alloc.
  void begin_grid(const Grid& grid);
  // Runs one block. Empty, or what went wrong: a sentence that names block, threads and what they wait for.
  std::string run(std::uint32_t x, std::uint32_t y, std::uint32_t z);

 private:
  friend struct Calls;  // the functions of the table

  struct Fiber {
    Suspended suspended = nullptr;
    Watched watched;
    Wait wait = Wait::nothing;
    std::uint8_t barrier = 0;
  };
  struct Warp {
    std::uint64_t all = 0;       // its lanes
    std::uint64_t runnable = 0;  // of which these could go on
    std::uint64_t arrived = 0;   // in the collective under way
    std::uint64_t votes = 0;
    std::uint64_t ballot[2] = {};  // those indexed by `parity` serve two collectives in a row: a lane that has
    std::uint64_t value[2][kMaxLanes] = {};  // not yet fetched the one's result and a lane already in the next
    void* brought[kMaxLanes] = {};
    char order[2] = {};  // addresses that a race detector's ordering is tied to
    std::uint8_t parity = 0;
    Wait collective = Wait::nothing;
  };
  struct Barrier {
    std::uint64_t arrived[kMaxWarps] = {};
    std::uint32_t count = 0;
    std::uint32_t expected = 0;
    char order[2] = {};
    std::uint8_t parity = 0;
  };
  static constexpr std::uint32_t kNone = ~0u;

  static void fiber_main();

  void start_block(std::uint32_t x, std::uint32_t y, std::uint32_t z);
  std::uint32_t pick();
  std::uint32_t pick_fair(std::uint32_t after) const;
  std::uint32_t pick_seeded(bool any_lane);
  std::uint32_t index_of(std::uint32_t warp, std::uint32_t lane) const { return warp * warp_size_ + lane; }
  void switch_to(std::uint32_t next);
  void leave_for_thread(bool for_ever);
  void make_runnable(std::uint32_t warp, std::uint64_t lanes);
  void wait(Wait what, std::uint32_t barrier);
  void reschedule();
  void yield();
  [[noreturn]] void finish_fiber();
  void arrive(std::uint32_t id, std::uint32_t expected);
  // Until all lanes of the warp are here; true in the last, before the others go on.
  template <class AtLast>
  void join(Wait what, AtLast at_last);
  // Ends the block with what failure_ says.
  [[noreturn]] void abandon();
  [[noreturn]] void deadlock();

  std::string describe_block() const;
  std::string describe_waits() const;
  std::string name_of(std::uint32_t thread) const;
  std::string state_of(std::uint32_t thread) const;

  const std::uint32_t warp_size_;
  Grid grid_{};
  std::uint32_t threads_ = 0, warps_ = 0;
  std::uint64_t ready_ = 0;  // warps with a runnable lane
  std::uint32_t current_ = 0;
  std::uint32_t returned_ = 0;
  q::host::Block block_{};
  std::unique_ptr<q::host::Thread[]> views_;
  std::unique_ptr<Fiber[]> fibers_;
  std::unique_ptr<Warp[]> warp_;
  Barrier barriers_[kBarriers];
  Stacks stacks_;
  Arena arena_;
  Transfers transfers_;

  Random random_;
  std::uint8_t priority_[kMaxWarps] = {};  // warps, the most favoured first
  std::uint32_t redraw_ = 0;               // priorities are drawn anew once in so many choices
  std::uint32_t lane_order_ = 0;           // 0 ascending, 1 descending, 2 random

  Suspended thread_ = nullptr;  // whoever called run()
  Watched watched_thread_;
  bool first_step_ = false;
  char begun_ = 0, ended_ = 0;  // as Warp::order
  std::string failure_;
};

}  // namespace quern::jit::host
