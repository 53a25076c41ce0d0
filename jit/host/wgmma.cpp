// SPDX-License-Identifier: Apache-2.0
#include "jit/host/wgmma.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "jit/host/agent.h"
#include "jit/lazy.h"
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
  float i8[256];
  Tables() {
    for (std::uint32_t code = 0; code < 65536; ++code) f16[code] = value_of(code, 5, 10, true);
    for (std::uint32_t code = 0; code < 256; ++code) {
      e4m3[code] = value_of(code, 4, 3, false);
      e5m2[code] = value_of(code, 5, 2, true);
      i8[code] = static_cast<float>(static_cast<std::int8_t>(code));
    }
  }
};

Lazy<const Tables> tables;

// `bytes` of codes, side by side.
void decode(const unsigned char* codes, std::uint32_t bytes, Number type, float* to) {
  if (size_of(type) == 1) {
    const float* const table = type == Number::e4m3 ? tables->e4m3 : type == Number::e5m2 ? tables->e5m2 : tables->i8;
    for (std::uint32_t e = 0; e < bytes; ++e) to[e] = table[codes[e]];
    return;
  }
  std::uint16_t halves[8];
  std::memcpy(halves, codes, bytes);
  if (type == Number::f16) {
    for (std::uint32_t e = 0; e < bytes / 2; ++e) to[e] = tables->f16[halves[e]];
  } else {
    for (std::uint32_t e = 0; e < bytes / 2; ++e) {
      to[e] = std::bit_cast<float>(static_cast<std::uint32_t>(halves[e]) << 16);
    }
  }
}

// The elements that lie side by side in shared memory whatever the layout.
constexpr std::uint32_t kPiece = 16;  // bytes

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
  // Piece after piece, as take(i, k, address) with the first element's i and k, until one is refused.
  template <class Take>
  bool each(std::uint32_t extent, std::uint32_t depth, Take take) const {
    const std::uint32_t several = kPiece / size_of(type);
    const std::uint32_t i_step = major == q::Major::k ? 1 : several, k_step = major == q::Major::k ? several : 1;
    for (std::uint32_t i = 0; i < extent; i += i_step) {
      for (std::uint32_t k = 0; k < depth; k += k_step) {
        if (!take(i, k, address(i, k))) return false;
      }
    }
    return true;
  }
  // All elements, as take(i, k, element). Empty, or what is wrong with the descriptor.
  template <class Take>
  std::string read(std::uint32_t extent, std::uint32_t depth, Take take) const {
    const std::uint32_t several = kPiece / size_of(type), i_step = major == q::Major::k ? 0 : 1, k_step = 1 - i_step;
    float elements[kPiece];
    std::uint32_t last = 0;
    const bool within = each(extent, depth, [&](std::uint32_t i, std::uint32_t k, std::uint32_t at) {
      last = at;
      if (at + kPiece > window_bytes) return false;
      decode(window + at, kPiece, type, elements);
      for (std::uint32_t e = 0; e < several; ++e) take(i + e * i_step, k + e * k_step, elements[e]);
      return true;
    });
    return within ? std::string() : objection(last);
  }
  std::string objection(std::uint32_t at) const {
    return "a matrix descriptor leads to shared address " + std::to_string(at) + ", the block has " +
           std::to_string(window_bytes) + " bytes (start " + std::to_string(start) + ", leading " +
           std::to_string(leading) + ", stride " + std::to_string(stride) + ", swizzle of " +
           std::to_string(swizzle == q::Swizzle::none ? 0 : q::swizzle_span(swizzle)) + " bytes)";
  }
  void watch(std::uint32_t extent, std::uint32_t depth) const {
    each(extent, depth, [&](std::uint32_t, std::uint32_t, std::uint32_t at) {
      reads(window + at, kPiece);
      return true;
    });
  }
};

// Between the fields; and the base offset, for tiles that do not begin at a multiple of eight spans, which ours do.
constexpr std::uint64_t kMustBeZero = 0x3fff'c000'c000'c000ULL;

using Eight [[gnu::vector_size(32), gnu::may_alias]] = float;

// d[j..] += a[k] * b[k][j..] for every k in turn, `several` vectors of eight columns at once, whose sums stay in
// registers.
template <int several>
[[gnu::always_inline]] inline void add_products(const float* a, const float (*b)[256], std::uint32_t depth, float* d) {
  Eight sums[several];
  for (int v = 0; v < several; ++v) sums[v] = reinterpret_cast<const Eight*>(d)[v];
  for (std::uint32_t k = 0; k < depth; ++k) {
    for (int v = 0; v < several; ++v) sums[v] += a[k] * reinterpret_cast<const Eight*>(b[k])[v];
  }
  for (int v = 0; v < several; ++v) reinterpret_cast<Eight*>(d)[v] = sums[v];
}

[[gnu::always_inline]] inline void add_products(const float (*a)[32], const float (*b)[256], std::uint32_t n,
                                                std::uint32_t depth, float (*d)[256]) {
  for (std::uint32_t m = 0; m < 64; ++m) {
    std::uint32_t j = 0;
    for (; j + 64 <= n; j += 64)
      add_products<8>(a[m], reinterpret_cast<const float (*)[256]>(b[0] + j), depth, d[m] + j);
    for (; j < n; j += 8) add_products<1>(a[m], reinterpret_cast<const float (*)[256]>(b[0] + j), depth, d[m] + j);
  }
}

void multiply_anywhere(const float (*a)[32], const float (*b)[256], std::uint32_t n, std::uint32_t depth,
                       float (*d)[256]) {
  add_products(a, b, n, depth, d);
}

#ifdef __x86_64__
// A product of two operands' elements is exact in f32: fused or not, the sums are the same bits.
[[gnu::target("avx2,fma")]] void multiply_avx2(const float (*a)[32], const float (*b)[256], std::uint32_t n,
                                               std::uint32_t depth, float (*d)[256]) {
  add_products(a, b, n, depth, d);
}
const auto multiply =
    __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? multiply_avx2 : multiply_anywhere;
#else
const auto multiply = multiply_anywhere;
#endif

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
  const auto seen = [&](std::uint32_t, std::uint32_t, std::uint32_t at) {
    return at + kPiece > bytes || view.sees(block, at, kPiece, where);
  };
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
  std::string wrong = b.read(n, depth, [this](std::uint32_t j, std::uint32_t k, float element) { b_[k][j] = element; });
  if (!wrong.empty()) return "B: " + wrong;
  if (s.a_registers == nullptr) {
    const Operand a(s.a, s.a_type, s.a_major, window, bytes);
    wrong = a.read(64, depth, [this](std::uint32_t i, std::uint32_t k, float element) { a_[i][k] = element; });
    if (!wrong.empty()) return "A: " + wrong;
  } else {
    const std::uint32_t size = size_of(s.a_type);
    for (std::uint32_t t = 0; t < kWarpgroup; ++t) {
      for (int r = 0; r < 4; ++r) {
        const int row = q::wgmma_a_row(static_cast<int>(t), r);
        const int k =
            size == 2 ? q::wgmma_a_k<q::bf16>(static_cast<int>(t), r) : q::wgmma_a_k<q::e4m3>(static_cast<int>(t), r);
        unsigned char held[4];
        std::memcpy(held, &p.a_registers[t][r], sizeof(held));
        decode(held, sizeof(held), s.a_type, &a_[row][k]);
      }
    }
  }

  // A thread's accumulators are pairs of columns, of two rows in turn.
  const auto for_pairs = [&](auto visit) {
    for (std::uint32_t t = 0; t < kWarpgroup; ++t) {
      const int thread = static_cast<int>(t), rows[2] = {q::wgmma_row(thread, 0), q::wgmma_row(thread, 2)};
      for (std::uint32_t i = 0; i < s.count; i += 2) {
        visit(&p.d[t][i], &d_[rows[i >> 1 & 1]][q::wgmma_column(thread, static_cast<int>(i))]);
      }
    }
  };
  // Of integers an instruction's own sums, at most 32 x 2^14, are exact in f32; the accumulators are s32.
  if (s.a_type == Number::i8) {
    std::memset(d_, 0, sizeof(d_));
    multiply(a_, b_, n, depth, d_);
    for_pairs([&s](float* thread, const float* tile) {
      for (int i = 0; i < 2; ++i) {
        const auto before = s.accumulate != 0 ? std::bit_cast<std::uint32_t>(thread[i]) : 0u;
        thread[i] = std::bit_cast<float>(before + static_cast<std::uint32_t>(static_cast<std::int32_t>(tile[i])));
      }
    });
    return {};
  }
  if (s.accumulate != 0) {
    for_pairs([](const float* thread, float* tile) { std::memcpy(tile, thread, 2 * sizeof(float)); });
  } else {
    std::memset(d_, 0, sizeof(d_));
  }
  multiply(a_, b_, n, depth, d_);
  for_pairs([](float* thread, const float* tile) { std::memcpy(thread, tile, 2 * sizeof(float)); });
  return {};
}

}  // namespace quern::jit::host
