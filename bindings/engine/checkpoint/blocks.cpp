// SPDX-License-Identifier: Apache-2.0
#include "bindings/engine/checkpoint/blocks.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "bindings/engine/checkpoint/numbers.h"

namespace quern::engine {
namespace {

using Byte = unsigned char;

float f16_at(const Byte* bytes) { return f16_to_float(static_cast<std::uint16_t>(bytes[0] | bytes[1] << 8)); }
float low(Byte byte) { return static_cast<float>(byte & 15); }
float high(Byte byte) { return static_cast<float>(byte >> 4); }

void read_f32(const Byte* block, float* values) { std::memcpy(values, block, sizeof *values); }
void read_f16(const Byte* block, float* values) { *values = f16_at(block); }
void read_bf16(const Byte* block, float* values) {
  *values =
      std::bit_cast<float>(static_cast<std::uint32_t>(block[0]) << 16 | static_cast<std::uint32_t>(block[1]) << 24);
}

// 32 signed bytes behind their scale.
void read_q8_0(const Byte* block, float* values) {
  const float scale = f16_at(block);
  for (int i = 0; i < 32; ++i) values[i] = scale * static_cast<float>(static_cast<signed char>(block[2 + i]));
}

// 4 bits each: 16 bytes hold elements 0 to 15 in their low halves, 16 to 31 in their high ones.
void read_q4_0(const Byte* block, float* values) {
  const float scale = f16_at(block);
  for (int i = 0; i < 16; ++i) {
    values[i] = scale * (low(block[2 + i]) - 8.0f);
    values[i + 16] = scale * (high(block[2 + i]) - 8.0f);
  }
}
void read_q4_1(const Byte* block, float* values) {
  const float scale = f16_at(block), least = f16_at(block + 2);
  for (int i = 0; i < 16; ++i) {
    values[i] = scale * low(block[4 + i]) + least;
    values[i + 16] = scale * high(block[4 + i]) + least;
  }
}

// Eight groups of 32, each with a scale and a minimum of 6 bits, which are in units of the block's own. Of the 12 bytes
// that hold those the first eight have the six low bits of groups 0 to 3, scales then minimums; the last four have the
// low halves of groups 4 to 7, whose two high bits are those of the first eight bytes.
void read_q4_k(const Byte* block, float* values) {
  const float scale = f16_at(block), least = f16_at(block + 2);
  const Byte *packed = block + 4, *bits = block + 16;
  for (int group = 0; group < 8; ++group) {
    int multiple = 0, minimum = 0;
    if (group < 4) {
      multiple = packed[group] & 63;
      minimum = packed[group + 4] & 63;
    } else {
      multiple = (packed[group + 4] & 15) | packed[group - 4] >> 6 << 4;
      minimum = packed[group + 4] >> 4 | packed[group] >> 6 << 4;
    }
    const float by = scale * static_cast<float>(multiple), down = least * static_cast<float>(minimum);
    // Two groups share 32 bytes.
    const Byte* const half = bits + group / 2 * 32;
    for (int i = 0; i < 32; ++i) values[group * 32 + i] = by * (group % 2 == 0 ? low(half[i]) : high(half[i])) - down;
  }
}

// Sixteen groups of 16 with a signed scale each; an element's four low bits lie in `lows`, its two high ones in
// `highs`. Within each 128 elements, quarter q of 32: lows at (q % 2) * 32, their low halves for q 0 and 1; bits 2q of
// the highs.
void read_q6_k(const Byte* block, float* values) {
  const Byte *lows = block, *highs = block + 128, *scales = block + 192;
  const float scale = f16_at(block + 208);
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128, quarter = i / 32 % 4, at = i % 32;
    const int four = lows[half * 64 + quarter % 2 * 32 + at] >> quarter / 2 * 4 & 15;
    const int two = highs[half * 32 + at] >> quarter * 2 & 3;
    const auto group = static_cast<float>(static_cast<signed char>(scales[i / 16]));
    values[i] = scale * group * static_cast<float>((four | two << 4) - 32);
  }
}

constexpr std::array<BlockType, 8> kTypes{{{0, "F32", 1, 4, read_f32},
                                           {1, "F16", 1, 2, read_f16},
                                           {2, "Q4_0", 32, 18, read_q4_0},
                                           {3, "Q4_1", 32, 20, read_q4_1},
                                           {8, "Q8_0", 32, 34, read_q8_0},
                                           {12, "Q4_K", 256, 144, read_q4_k},
                                           {14, "Q6_K", 256, 210, read_q6_k},
                                           {30, "BF16", 1, 2, read_bf16}}};

}  // namespace

const BlockType* find_block_type(std::uint32_t number) {
  const auto found =
      std::find_if(kTypes.begin(), kTypes.end(), [&](const BlockType& type) { return type.number == number; });
  return found == kTypes.end() ? nullptr : found;
}

std::vector<std::uint16_t> bf16_of_blocks(const BlockType& type, std::string_view bytes) {
  const auto count = static_cast<std::int64_t>(bytes.size()) / type.bytes;
  std::vector<std::uint16_t> values(static_cast<std::size_t>(count * type.elements));
  std::array<float, 256> block{};
  auto out = values.begin();
  for (std::int64_t i = 0; i < count; ++i) {
    type.read(reinterpret_cast<const Byte*>(bytes.data()) + i * type.bytes, block.data());
    out = std::transform(block.begin(), block.begin() + type.elements, out, bf16_of);
  }
  return values;
}

}  // namespace quern::engine
