// What a call's tensors are held against before anything is computed from their extents and strides.
// SPDX-License-Identifier: Apache-2.0
#include "sources/tensor.h"

#include <gtest/gtest.h>

#include <array>

#include "tests/support/error_of.h"

namespace quern::ops {
namespace {

using quern::test::contains;

constexpr std::int64_t kMillion = std::int64_t{1} << 20;

std::string said(std::array<std::int64_t, 4> shape, const std::int64_t* strides, std::int64_t most_extent = INT32_MAX) {
  alignas(16) static std::array<unsigned char, 16> memory{};
  DLTensor given{};
  given.data = memory.data();
  given.device = {kDLCPU, 0};
  given.ndim = 4;
  given.dtype = {kDLFloat, 32, 1};
  given.shape = shape.data();
  given.strides = const_cast<std::int64_t*>(strides);
  try {
    const Tensor t = read(&given, "x", 4, {Dtype::f32}, {kDLCPU, 0, false, nullptr, most_extent});
    return t.strides[3] == (strides != nullptr ? strides[3] : 1) ? "" : "other strides";
  } catch (const Error& error) {
    return error.text();
  }
}

TEST(ReadTensor, TakesWhatIsWithinItsBounds) {
  EXPECT_EQ(said({2, 3, 4, 5}, nullptr), "");
  EXPECT_EQ(said({0, 3, 4, 5}, nullptr), "");
  EXPECT_EQ(said({INT32_MAX, 1, 1, 1}, nullptr), "");
  EXPECT_EQ(said({kMillion, kMillion, 1, 1 << 8}, nullptr), "");
  EXPECT_EQ(said({1, 1, 1, kLongestExtent}, nullptr, kLongestExtent), "");
  constexpr std::array<std::int64_t, 4> kFar{std::int64_t{1} << 48, 3, 2, 1};
  EXPECT_EQ(said({2, 2, 2, 2}, kFar.data()), "");
}

// Each in every dimension: products of extents that come back to small numbers in 64 bits are among them.
TEST(ReadTensor, RefusesWhatWouldOverflow) {
  constexpr std::array<std::int64_t, 4> kNone{0, 0, 0, 0};
  for (std::size_t d = 0; d < 4; ++d) {
    for (const std::int64_t wrong : {std::int64_t{-1}, std::int64_t{1} << 31, INT64_MIN, INT64_MAX}) {
      std::array<std::int64_t, 4> shape{2, 2, 2, 2};
      shape[d] = wrong;
      EXPECT_TRUE(contains(said(shape, kNone.data()), "x.shape[" + std::to_string(d) + "] is ")) << d << ' ' << wrong;
      EXPECT_TRUE(contains(said(shape, nullptr), "x.shape[" + std::to_string(d) + "] is ")) << d << ' ' << wrong;
    }
    for (const std::int64_t wrong : {std::int64_t{-1}, (std::int64_t{1} << 48) + 1, INT64_MIN}) {
      std::array<std::int64_t, 4> strides{1, 1, 1, 1};
      strides[d] = wrong;
      EXPECT_TRUE(contains(said({2, 2, 2, 2}, strides.data()), "x.strides[" + std::to_string(d) + "] is "))
          << d << ' ' << wrong;
    }
  }
  EXPECT_TRUE(contains(said({kMillion, kMillion, kMillion, 16}, kNone.data()), "at most 2^48 elements"));
  EXPECT_TRUE(contains(said({0, kMillion, kMillion, 1 << 9}, kNone.data()), "at most 2^48 elements"));
  EXPECT_TRUE(contains(said({1, 1, 1, kLongestExtent + 1}, kNone.data(), kLongestExtent), "0 to 2^40"));
  EXPECT_TRUE(contains(said({1 << 24, kLongestExtent, 1, 1}, kNone.data(), kLongestExtent), "at most 2^48 elements"));
}

}  // namespace
}  // namespace quern::ops
