// SPDX-License-Identifier: Apache-2.0
#include "jit/host/wgmma.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "jit/host/agent.h"
#include "sources/common/sm90/layout.cuh"

namespace quern::jit::host {
namespace {

using q::host::Number;

constexpr std::uint32_t size_of(Number type) { return type == Number::bf16 || type == Number::f16 ? 2 : 1; }

// `exponent` and `mantissa` bits, IEEE but for e4m3, whose only special code is NaN.
float value_of(std::uint32_t code, int exponent_bits, int mantissa_bits, bool ieee) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = static_cast<int>(code >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const int mantissa = static_cast<int>(code) & ((1 << mantissa_bits) - 1);
  const bool last = exponent == (1 << exponent_bits) - 1;
  float magnitude;
  if (last && ieee) {
    magnitude = mantissa == 0 ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
  } else if (last && mantissa == (1 << mantissa_bits) - 1) {
    magnitude = std::numeric_limits<float>::quiet_NaN();
  } else {
    const int implied = exponent == 0 ? 0 : 1 << mantissa_bits;
    magnitude = std::ldexp(static_cast<float>(implied + mantissa), std::max(exponent, 1) - bias - mantissa_bits);
  }
  return code >> (exponent_bits + mantissa_bits) & 1 ? -magnitude : magnitude;
}

struct Tables {
  float f16[65536];
  float e4m3[256];
  float e5m2[256];
  Tables() {
    for (std::uint32_t code = 0; code < 65536; ++code) f16[code] = value_of(code, 5, 10, true);
    for (std::uint32_t code = 0; code < 256; ++code) {
      e4m3[code] = value_of(code, 4, 3, false);
      e5m2[code] = value_of(code, 5, 2, true);
    }
  }
};

float decode(const unsigned char* at, Number type) {
  static const Tables tables;
  if (type == Number::e4m3) return tables.e4m3[*at];
  if (type == Number::e5m2) return tables.e5m2[*at];
  std::uint16_t code;
  std::memcpy(&code, at, sizeof(code));
  if (type == Number::f16) return tables.f16[code];
  return std::bit_cast<float>(static_cast<std::uint32_t>(code) << 16);
}

// A matrix descriptor taken apart.
struct Operand {
  const unsigned char* window;
  std::uint32_t window_bytes;
  Number type;
  q::Major major;
  std::uint32_t start, leading, stride;
  q::Swizzle swizzle;

  Operand(std::uint64_t descriptor, Number of, unsigned as, const unsigned char* shared, std::uint32_t bytes)
      : window(shared),
        window_bytes(bytes),
        type(of),
        major(static_cast<q::Major>(as)),
        start(static_cast<std::uint32_t>(descriptor & 0x3fff) << 4),
        leading(static_cast<std::uint32_t>(descriptor >> 16 & 0x3fff) << 4),
        stride(static_cast<std::uint32_t>(descriptor >> 32 & 0x3fff) << 4),
        swizzle(static_cast<q::Swizzle>((4 - static_cast<int>(descriptor >> 62)) & 3)) {}

  // Element `i` of m or n, at inner index k.
  std::uint32_t address(std::uint32_t i, std::uint32_t k) const {
    const std::uint32_t bytes = size_of(type);
    const std::uint32_t span = q::swizzle_span(swizzle);
    const std::uint32_t rows = major == q::Major::k ? i : k;             // counts what lies span after span
    const std::uint32_t along = (major == q::Major::k ? k : i) * bytes;  // bytes within a row, before it is cut
    std::uint32_t offset;
    if (swizzle != q::Swizzle::none) {
      offset = rows % 8 * span + rows / 8 * stride;
      // A k-major row of one instruction is 32 bytes, within one span.
      offset += major == q::Major::k ? along : along % span + along / span * leading;
    } else {
      const bool k_major = major == q::Major::k;
      offset = rows % 8 * 16 + rows / 8 * (k_major ? stride : leading) + along % 16 +
               along / 16 * (k_major ? leading : stride);
    }
    return q::swizzled(start + offset, swizzle);
  }
  std::string objection(std::uint32_t extent, std::uint32_t depth) const {
    for (std::uint32_t i = 0; i < extent; ++i) {
      for (std::uint32_t k = 0; k < depth; ++k) {
        const std::uint32_t at = address(i, k);
        if (at + size_of(type) <= window_bytes) continue;
        return "a matrix descriptor leads to shared address " + std::to_string(at) + ", the block has " +
               std::to_string(window_bytes) + " bytes (start " + std::to_string(start) + ", leading " +
               std::to_string(leading) + ", stride " + std::to_string(stride) + ", swizzle of " +
               std::to_string(swizzle == q::Swizzle::none ? 0 : q::swizzle_span(swizzle)) + " bytes)";
      }
    }
    return {};
  }
  // The address of each 16 bytes, until one is refused.
  template <class Take>
  bool each(std::uint32_t extent, std::uint32_t depth, Take take) const {
    const std::uint32_t several = 16 / size_of(type);
    const std::uint32_t i_step = major == q::Major::k ? 1 : several, k_step = major == q::Major::k ? several : 1;
    for (std::uint32_t i = 0; i < extent; i += i_step) {
      for (std::uint32_t k = 0; k < depth; k += k_step)
        if (!take(address(i, k))) return false;
    }
    return true;
  }
  void watch(std::uint32_t extent, std::uint32_t depth) const {
    each(extent, depth, [&](std::uint32_t at) {
      reads(window + at, 16);
      return true;
    });
  }
  float at(std::uint32_t i, std::uint32_t k) const { return decode(window + address(i, k), type); }
};

// Between the fields; and the base offset, for tiles that do not begin at a multiple of eight spans, which ours do.
constexpr std::uint64_t kMustBeZero = 0x3fff'c000'c000'c000ULL;

}  // namespace

void WgmmaUnit::watch([[maybe_unused]] const WarpgroupProduct& p, [[maybe_unused]] const unsigned char* window) {
#ifdef QUERN_HOST_TSAN
  const q::host::Product& s = p.shape;
  const std::uint32_t depth = 32 / size_of(s.a_type);
  Operand(s.b, s.b_type, s.b_major, window, 0).watch(s.count * 2, depth);
  if (s.a_registers == nullptr) Operand(s.a, s.a_type, s.a_major, window, 0).watch(64, depth);
#endif
}

const char* WgmmaUnit::unseen(const WarpgroupProduct& p, SharedView& view, std::uint32_t block, std::uint32_t bytes,
                              std::uint32_t* where) {
  const q::host::Product& s = p.shape;
  const std::uint32_t depth = 32 / size_of(s.a_type);
  // One that leads outside is run()'s to tell.
  const auto seen = [&](std::uint32_t at) { return at + 16 > bytes || view.sees(block, at, 16, where); };
  if (s.a_registers == nullptr && !Operand(s.a, s.a_type, s.a_major, nullptr, 0).each(64, depth, seen)) return "A";
  return Operand(s.b, s.b_type, s.b_major, nullptr, 0).each(s.count * 2, depth, seen) ? nullptr : "B";
}

std::string WgmmaUnit::run(const WarpgroupProduct& p, const unsigned char* window, std::uint32_t bytes) {
  const q::host::Product& s = p.shape;
  const std::uint32_t n = s.count * 2;
  const std::uint32_t depth = 32 / size_of(s.a_type);
  for (const std::uint64_t descriptor : {s.a_registers == nullptr ? s.a : 0, s.b}) {
    if ((descriptor & kMustBeZero) != 0) return "a matrix descriptor has bits set that must be zero";
  }

  const Operand b(s.b, s.b_type, s.b_major, window, bytes);
  if (std::string wrong = b.objection(n, depth); !wrong.empty()) return "B: " + wrong;
  for (std::uint32_t k = 0; k < depth; ++k) {
    for (std::uint32_t j = 0; j < n; ++j) b_[k][j] = b.at(j, k);
  }
  if (s.a_registers == nullptr) {
    const Operand a(s.a, s.a_type, s.a_major, window, bytes);
    if (std::string wrong = a.objection(64, depth); !wrong.empty()) return "A: " + wrong;
    for (std::uint32_t i = 0; i < 64; ++i) {
      for (std::uint32_t k = 0; k < depth; ++k) a_[i][k] = a.at(i, k);
    }
  } else {
    const std::uint32_t size = size_of(s.a_type);
    for (std::uint32_t t = 0; t < kWarpgroup; ++t) {
      for (int r = 0; r < 4; ++r) {
        const int row = q::wgmma_a_row(static_cast<int>(t), r);
        const int k =
            size == 2 ? q::wgmma_a_k<q::bf16>(static_cast<int>(t), r) : q::wgmma_a_k<q::e4m3>(static_cast<int>(t), r);
        unsigned char held[4];
        std::memcpy(held, &p.a_registers[t][r], sizeof(held));
        for (std::uint32_t e = 0; e < 4 / size; ++e) {
          a_[row][k + static_cast<int>(e)] = decode(held + e * size, s.a_type);
        }
      }
    }
  }

  for (std::uint32_t t = 0; t < kWarpgroup; ++t) {
    for (std::uint32_t i = 0; i < s.count; ++i) {
      d_[q::wgmma_row(static_cast<int>(t), static_cast<int>(i))]
        [q::wgmma_column(static_cast<int>(t), static_cast<int>(i))] = s.accumulate != 0 ? p.d[t][i] : 0.0f;
    }
  }
  for (std::uint32_t m = 0; m < 64; ++m) {
    for (std::uint32_t k = 0; k < depth; ++k) {
      const float a = a_[m][k];
      for (std::uint32_t j = 0; j < n; j += 8) {
        for (std::uint32_t l = 0; l < 8; ++l) d_[m][j + l] += a * b_[k][j + l];
      }
    }
  }
  for (std::uint32_t t = 0; t < kWarpgroup; ++t) {
    for (std::uint32_t i = 0; i < s.count; ++i) {
      p.d[t][i] = d_[q::wgmma_row(static_cast<int>(t), static_cast<int>(i))]
                    [q::wgmma_column(static_cast<int>(t), static_cast<int>(i))];
    }
  }
  return {};
}

}  // namespace quern::jit::host
