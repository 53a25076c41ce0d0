// The table of tensor maps: what it keeps, what it tells apart, and many threads at one slot.
// SPDX-License-Identifier: Apache-2.0
#include "jit/tensor_maps.h"

#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

#include "jit/sanitizer.h"
#include "tests/race/fixture.h"

namespace quern::jit::test {
namespace {

// Its maps spell out what they describe, every word of them depending on all of it.
class SpellingDriver final : public StringDriver {
 public:
  void encode_tensor_map(const TensorMapDesc& desc, TensorMap& map) override {
    ++encoded;
    if (desc.address == nullptr) throw Error(QUERN_INVALID, "no address");
    map = spelled(desc);
  }
  static TensorMap spelled(const TensorMapDesc& d) {
    std::uint64_t sum = 0;
    const auto add = [&](std::uint64_t v) { sum = (sum ^ v) * 0x9e3779b97f4a7c15ULL + 1; };
    add(d.data_type), add(d.rank), add(reinterpret_cast<std::uintptr_t>(d.address));
    for (std::uint32_t i = 0; i < d.rank; ++i) add(d.extent[i]), add(d.box[i]);
    for (std::uint32_t i = 0; i + 1 < d.rank; ++i) add(d.stride[i]);
    add(d.swizzle), add(d.l2_promotion);
    TensorMap map;
    for (std::size_t i = 0; i < sizeof(map); i += 8) {
      const std::uint64_t word = sum + i;
      std::memcpy(map.bytes + i, &word, 8);
    }
    return map;
  }
  std::atomic<int> encoded{0};
};

TensorMapDesc desc_of(std::uint64_t n) {
  TensorMapDesc d;
  d.data_type = kTensorBF16;
  d.rank = 2;
  d.address = reinterpret_cast<void*>(0x10000);
  d.extent[0] = 4096;
  d.extent[1] = n + 1;
  d.stride[0] = 8192;
  d.box[0] = d.box[1] = 64;
  d.swizzle = 3;
  return d;
}

bool same(const TensorMap& a, const TensorMap& b) { return std::memcmp(&a, &b, sizeof(a)) == 0; }

TEST(TensorMaps, EncodesOnceAndKeepsIt) {
  SpellingDriver driver;
  TensorMaps maps(driver);
  for (int round = 0; round < 3; ++round) {
    for (std::uint64_t n = 0; n < 100; ++n) {
      TensorMap map{};
      maps.get(desc_of(n), map);
      ASSERT_TRUE(same(map, SpellingDriver::spelled(desc_of(n)))) << n;
    }
  }
  EXPECT_EQ(driver.encoded, 100);
}

TEST(TensorMaps, EveryFieldCounts) {
  std::vector<std::function<void(TensorMapDesc&)>> changes = {
      [](TensorMapDesc& d) { d.data_type = kTensorF16; }, [](TensorMapDesc& d) { d.rank = 4; },
      [](TensorMapDesc& d) { d.swizzle = 2; }, [](TensorMapDesc& d) { d.l2_promotion = 2; },
      [](TensorMapDesc& d) { d.address = reinterpret_cast<void*>(0x20000); }};
  for (int i = 0; i < 5; ++i) {
    changes.push_back([i](TensorMapDesc& d) { ++d.extent[i]; });
    changes.push_back([i](TensorMapDesc& d) { d.extent[i] += 1ULL << 32; });
    changes.push_back([i](TensorMapDesc& d) { ++d.box[i]; });
    if (i < 4) changes.push_back([i](TensorMapDesc& d) { d.stride[i] += 16; });
  }
  SpellingDriver driver;
  TensorMaps maps(driver);
  TensorMapDesc base = desc_of(5);
  base.rank = 5;
  TensorMap map;
  maps.get(base, map);
  for (std::size_t i = 0; i < changes.size(); ++i) {
    TensorMapDesc changed = base;
    changes[i](changed);
    maps.get(changed, map);
    EXPECT_TRUE(same(map, SpellingDriver::spelled(changed))) << "change " << i;
    EXPECT_EQ(driver.encoded, static_cast<int>(i) + 2) << "change " << i;
  }
}

TEST(TensorMaps, WhatLiesPastTheRankDoesNotCount) {
  SpellingDriver driver;
  TensorMaps maps(driver);
  TensorMapDesc d = desc_of(1);
  TensorMap map;
  maps.get(d, map);
  d.extent[2] = d.stride[1] = 77;
  d.box[2] = 3;
  maps.get(d, map);
  EXPECT_EQ(driver.encoded, 1);
}

TEST(TensorMaps, ARefusedDescriptionIsNotKept) {
  SpellingDriver driver;
  TensorMaps maps(driver);
  TensorMapDesc d = desc_of(1);
  d.address = nullptr;
  TensorMap map;
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(error_of([&] { maps.get(d, map); }).status(), QUERN_INVALID);
  }
  EXPECT_EQ(driver.encoded, 2);
}

TEST(TensorMaps, MoreThanItHoldsIsEncodedAgain) {
  SpellingDriver driver;
  TensorMaps maps(driver);
  constexpr std::uint64_t kMany = 20000;
  TensorMap map;
  for (int round = 0; round < 2; ++round) {
    for (std::uint64_t n = 0; n < kMany; ++n) {
      maps.get(desc_of(n), map);
      ASSERT_TRUE(same(map, SpellingDriver::spelled(desc_of(n)))) << n;
    }
  }
  EXPECT_GT(driver.encoded, static_cast<int>(kMany));
}

// Many more descriptions than slots: each slot is being overwritten all the time while others read it.
TEST(TensorMaps, NoThreadEverSeesATornMap) {
  SpellingDriver driver;
  TensorMaps maps(driver);
#ifdef QUERN_BUILT_WITH_TSAN
  constexpr int kCalls = 30000;
#else
  constexpr int kCalls = 300000;
#endif
  std::atomic<int> torn{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::uint64_t state = t * 977 + 1;
      for (int i = 0; i < kCalls; ++i) {
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        const TensorMapDesc d = desc_of(state >> 33 & 4095);
        TensorMap map;
        maps.get(d, map);
        torn += !same(map, SpellingDriver::spelled(d));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(torn, 0);
  EXPECT_LT(driver.encoded, 4 * kCalls) << "some were found";
}

// A figure, not a bound: machines differ.
TEST(TensorMaps, AHitIsCheap) {
  SpellingDriver driver;
  TensorMaps maps(driver);
  TensorMap map;
  constexpr int kRounds = 2000, kMaps = 32;
  double best = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (std::uint64_t n = 0; n < kMaps; ++n) maps.get(desc_of(n), map);
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count() / kMaps);
  }
  EXPECT_EQ(driver.encoded, kMaps);
  std::printf("ns a hit: %.0f\n", best);
}

}  // namespace
}  // namespace quern::jit::test
