// One warpgroup's matrix product: operands decoded, out of shared memory by descriptor or out of registers, f32 sums
// with k ascending, of integers s32. The GPU sums 8-bit products with fewer bits, which is not modelled.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "jit/host/shared_view.h"
#include "sources/common/portable/host_abi.cuh"

namespace quern::jit::host {

inline constexpr std::uint32_t kWarpgroup = 128;  // threads

// What the threads of a warpgroup agree on, and what each brings.
struct WarpgroupProduct {
  q::host::Product shape;  // d and a_registers are not used
  float* d[kWarpgroup];    // of each thread, shape.count each
  std::uint32_t a_registers[kWarpgroup][4];
};

class WgmmaUnit {
 public:
  // `window` is the block's shared memory, of `bytes`. Empty, or what is wrong with a descriptor.
  std::string run(const WarpgroupProduct& product, const unsigned char* window, std::uint32_t bytes);
  // "A" or "B", whose bytes at the shared address *where need not be seen as they are; null where all are.
  static const char* unseen(const WarpgroupProduct& product, SharedView& view, std::uint32_t block, std::uint32_t bytes,
                            std::uint32_t* where);
  // Tells a race detector what one without fault reads of shared memory.
  static void watch(const WarpgroupProduct& product, const unsigned char* window);

 private:
  // Held here rather than on the stack of a fiber.
  alignas(32) float a_[64][32];
  alignas(32) float b_[32][256];
  alignas(32) float d_[64][256];
};

}  // namespace quern::jit::host
