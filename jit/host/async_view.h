// What copies out of shared memory are sure to see: ordinary writes only once fence_async() has come after them. A GPU
// copies through another path to shared memory than its threads write through; here there is one memory, so what was
// there at the last fence is kept beside it, and a copy that reads something else is a mistake.
//
// Kept are the boxes that copies have read before, in this launch or in earlier ones of the kernel: the first block that
// reads a box teaches it, and is itself held against what was there when it began only from then on. Whose write it was
// is not known: a fence of any thread stands for all writes before it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace quern::jit::host {

class AsyncView {
 public:
  // Of a kernel's launch; `program` is a number that no other kernel has. Throws std::bad_alloc.
  void begin_grid(std::uint64_t program, std::uint32_t blocks);
  // A block's shared memory, as it is when the block begins.
  void begin_block(std::uint32_t block, const unsigned char* window, std::uint64_t bytes);
  void fence(std::uint32_t block);
  // A copy, or a store of another block, wrote there: no fence is needed for that.
  void landed(const unsigned char* to, std::uint32_t bytes);
  // Null, or what is wrong about a copy that reads there; *where is the shared address of the first such byte.
  const char* read(std::uint32_t block, std::uint32_t at, std::uint32_t bytes, std::uint32_t* where);

 private:
  struct Region {
    std::uint32_t at, bytes;
  };
  struct Block {
    const unsigned char* window = nullptr;
    std::uint64_t bytes = 0;
    std::vector<std::vector<unsigned char>> seen;  // by region
  };
  void see(Block& block, std::size_t region);

  std::uint64_t program_ = 0;
  std::vector<Region> regions_;
  std::vector<Block> blocks_;
};

}  // namespace quern::jit::host
