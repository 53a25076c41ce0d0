// The registers that a warp's products work with, between products. Whoever changes accumulators that were waited for,
// or an operand that a product has taken, owes the next product on them a wgmma_fence(): without one a GPU may multiply
// what was there before. Known are registers that a product has had before, by where the threads have them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "sources/common/portable/host_abi.cuh"

namespace quern::jit::host {

class HeldRegisters {
 public:
  void fence() { ++fences_; }
  bool fenced() const { return fences_ != 0; }
  // The warp's product of this number, which now begins, as all its lanes bring it. Null, or what is wrong.
  const char* use(void* const* lanes, std::uint32_t number);
  // The products before this number were waited for: their sums are the threads' again.
  void settle(std::uint32_t number);

 private:
  static constexpr std::uint32_t kLanes = 32;
  static constexpr std::size_t kMost = 64;  // a warp that uses more is not held against the others
  struct Sums {
    const float* of[kLanes];
    std::uint32_t count;
    std::uint32_t number;  // of the last product
    std::uint32_t fences;  // when it was waited for
    bool settled;
    std::vector<float> left;
  };
  struct Operand {
    const unsigned* of;  // the first lane's
    std::uint32_t fences;
    unsigned left[kLanes][4];
  };
  const char* use_sums(void* const* lanes, std::uint32_t number);
  const char* use_operand(void* const* lanes);

  std::uint32_t fences_ = 0;
  std::vector<Sums> sums_;
  std::vector<Operand> operands_;
};

}  // namespace quern::jit::host
