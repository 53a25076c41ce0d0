// The element types of GGUF files, in numbers that a layer computes with. A quantised type stores rows in blocks of 32
// or 256 elements, small integers with the scales that make numbers of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace quern::engine {

struct BlockType {
  std::uint32_t number;   // in the file
  const char* name;       // "Q4_K"
  std::int64_t elements;  // of a block; a row is a whole number of blocks
  std::int64_t bytes;     // of a block
  void (*read)(const unsigned char* block, float* values);
};

// Null where the type is not known here: F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q4_K and Q6_K are.
const BlockType* find_block_type(std::uint32_t number);

// All elements of whole blocks, each rounded once, to bf16.
std::vector<std::uint16_t> bf16_of_blocks(const BlockType& type, std::string_view bytes);

}  // namespace quern::engine
