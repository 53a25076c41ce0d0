// Stacks, and the switch from one to another.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace quern::jit::host {

// A suspended flow of control: what lies on its stack is enough to go on.
using Suspended = void*;

// Leaves the present flow in *from and goes on with `to`. Only callee-saved registers are kept, as for any call; the
// floating-point control words are nobody's to change.
extern "C" void quern_switch_fiber(Suspended* from, Suspended to);

// A flow that will begin at `entry`, which never returns, on the stack that ends at `top` (16-byte aligned).
Suspended make_fiber(unsigned char* top, void (*entry)());

// Stacks of one size, kept and used again. The first few thousand of the process end in a guard page; as every guard
// page takes one of the process's memory mappings, which are limited (vm.max_map_count) and not ours alone, the others
// end in a canary.
class Stacks {
 public:
  Stacks() = default;
  ~Stacks();
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;

  // Throws std::bad_alloc.
  void reserve(unsigned count);
  unsigned char* bottom(unsigned i) const { return stacks_[i] + guard_; }
  // Each at another offset: stacks that agree in their low address bits would compete for the same lines of the cache.
  unsigned char* top(unsigned i) const { return stacks_[i] + kBytes - (i * 11 % 32) * 128; }
  std::size_t bytes() const { return kBytes - guard_; }
  // Before and after use; false: the stack has overflowed.
  void arm(unsigned i) const {
    if (i >= guarded_) *canary(i) = kCanary;
  }
  bool intact(unsigned i) const { return i < guarded_ || *canary(i) == kCanary; }

 private:
  static constexpr std::size_t kBytes = 128 << 10;
  static constexpr std::uint64_t kCanary = 0x71756572'6e21a55aULL;
  std::uint64_t* canary(unsigned i) const { return reinterpret_cast<std::uint64_t*>(bottom(i)); }

  std::size_t guard_ = 0;    // bytes
  std::size_t guarded_ = 0;  // the first so many stacks have a guard page
  std::vector<unsigned char*> stacks_;
  struct Mapping {
    void* address;
    std::size_t bytes;
  };
  std::vector<Mapping> mappings_;
};

}  // namespace quern::jit::host
