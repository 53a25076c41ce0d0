// What somebody is sure to see of a block's shared memory. A GPU reads it by several paths: bulk copies and products
// see what threads wrote only after fence_async(), another block only what was released to the cluster. Here there is
// one memory, so what was there at the last such moment is kept beside it, and a reader of something else is told.
//
// Kept are the pieces that have been read so before, in this launch or in earlier ones of the kernel: the first block
// that reads a piece teaches it, and is itself held against what was there when it began only from then on. Whose write
// it was is not known: one thread's fence, or release, stands for all writes before it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace quern::jit::host {

class SharedView {
 public:
  static constexpr std::uint32_t kPiece = 16;  // bytes

  // Of a kernel's launch; `program` is a number that no other kernel has. Throws std::bad_alloc.
  void begin_grid(std::uint64_t program, std::uint32_t blocks);
  // A block's shared memory, as it is when the block begins.
  void begin_block(std::uint32_t block, const unsigned char* window, std::uint64_t bytes);
  // All that is there now is seen from now on.
  void show(std::uint32_t block);
  // What wrote there needs nothing to be seen: a copy, or a store of another block.
  void landed(const unsigned char* to, std::uint32_t bytes);
  // False where a reader of these bytes need not see them as they are; *where is the shared address of the first such.
  bool sees(std::uint32_t block, std::uint32_t at, std::uint32_t bytes, std::uint32_t* where);

 private:
  struct Run {
    std::uint32_t piece, count;
  };
  struct Block {
    const unsigned char* window = nullptr;
    std::uint64_t bytes = 0;
    std::vector<unsigned char> seen;  // of the pieces known
  };
  void learn(std::uint32_t piece);

  std::uint64_t program_ = 0;
  std::vector<bool> known_;  // by piece
  std::vector<Run> runs_;    // the same, ascending and apart
  bool runs_hold_ = true;
  std::vector<Block> blocks_;
};

}  // namespace quern::jit::host
