// The smaller instruments against what they are to do, written out.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "jit/sanitizer.h"
#include "tests/hopper/device.h"

namespace quern::hopper_tests {
namespace {

constexpr std::uint32_t kThreads = 256;
constexpr std::uint32_t kRows = 32;

struct Outcome {
  std::uint32_t blocks;
  std::vector<std::uint32_t> words;
  std::uint32_t at(std::uint32_t row, std::uint32_t block, std::uint32_t t) const {
    return words[(row * blocks + block) * kThreads + t];
  }
  // Reports a row's first difference only.
  template <class Expected>
  void expect(std::uint32_t row, const char* name, Expected expected, std::uint32_t threads = kThreads) const {
    for (std::uint32_t b = 0; b < blocks; ++b) {
      for (std::uint32_t t = 0; t < threads; ++t) {
        const auto want = static_cast<std::uint32_t>(expected(b, t));
        if (at(row, b, t) == want) continue;
        ADD_FAILURE() << name << ": block " << b << " thread " << t << " has " << at(row, b, t) << ", expected "
                      << want;
        return;
      }
    }
  }
};

// Fair, and by many seeds: `check` is to hold each time.
template <class Check>
void try_all(int part, std::uint32_t blocks, std::uint32_t cluster, Check check) {
#ifdef QUERN_BUILT_WITH_TSAN
  constexpr std::uint64_t kSeeds = 3;
#else
  constexpr std::uint64_t kSeeds = 30;
#endif
  std::vector<float> tensor(64 * 64);
  for (std::size_t i = 0; i < tensor.size(); ++i) tensor[i] = static_cast<float>(i);
  for (std::uint64_t seed = 0; seed <= (on_cuda() ? 0 : kSeeds); ++seed) {
    SCOPED_TRACE(seed == 0 ? "fair" : "seed " + std::to_string(seed));
    Machine machine({seed != 0, seed});
    const Memory out(std::size_t{kRows} * blocks * kThreads * 4), device(tensor);
    struct {
      void* out;
      void* global;
    } params{out.data(), device.data()};
    jit::TensorMap map = encoded(machine, dense(jit::kTensorF32, 4, device.data(), {64, 64}, {64, 1}, 0));
    ASSERT_EQ(
        run(machine, "instruments.cuh", {{"PART", std::to_string(part)}}, {blocks, cluster, 8192}, {&params, &map}),
        "");
    check(Outcome{blocks, out.read<std::uint32_t>()});
    if (testing::Test::HasFailure()) return;
  }
}

TEST(HopperInstruments, MatricesThereAndBack) {
  try_all(0, 2, 1, [](const Outcome& o) {
    const auto element = [](std::uint32_t t, std::uint32_t m, std::uint32_t row, std::uint32_t column) {
      return t / 32 * 1000 + m * 100 + row * 8 + column;
    };
    for (std::uint32_t transposed = 0, row = 0; transposed < 2; ++transposed) {
      for (const std::uint32_t count : {1u, 2u, 4u}) {
        for (std::uint32_t m = 0; m < count; ++m) {
          o.expect(row + m, "load_matrix", [&](std::uint32_t, std::uint32_t t) {
            const std::uint32_t r = t % 32 / 4, c = t % 4 * 2;
            return transposed != 0 ? element(t, m, c, r) | element(t, m, c + 1, r) << 16
                                   : element(t, m, r, c) | element(t, m, r, c + 1) << 16;
          });
          o.expect(row + count + m, "store_matrix", [&](std::uint32_t, std::uint32_t t) {
            const std::uint32_t e = t % 32 * 2;
            return element(t, m, 0, e) | element(t, m, 0, e + 1) << 16;
          });
        }
        row += 2 * count;
      }
    }
  });
}

TEST(HopperInstruments, ElectionNamedBarriersMbarriersRegisters) {
  try_all(1, 3, 1, [](const Outcome& o) {
    o.expect(0, "elect_one elects the same", [](auto, auto) { return 1; });
    o.expect(1, "elect_one elects one", [](auto, auto) { return 1; });
    o.expect(2, "cluster_rank", [](auto, auto) { return 0; });
    o.expect(3, "cluster_size", [](auto, auto) { return 1; });
    o.expect(4, "tile_shared's alignment", [](auto, auto) { return 0; });
    o.expect(5, "arrive_named", [](auto, std::uint32_t t) { return t < 128 ? t * 3 : (t - 128) * 3 + 1; });
    o.expect(8, "meet_named", [](auto, std::uint32_t t) {
      return t < 32 ? 0 : t < 128 ? (t + 128) * 5 : (t - 128) * 5;
    });
    o.expect(6, "mbarrier", [](auto, std::uint32_t t) { return t < 128 ? 0 : 3 * ((t + 13) % 128) + 3000; });
    o.expect(7, "registers", [](auto, std::uint32_t t) { return t; });
  });
}

TEST(HopperInstruments, Clusters) {
  for (const std::uint32_t size : {1u, 2u, 4u}) {
    SCOPED_TRACE("clusters of " + std::to_string(size));
    try_all(2, 8, size, [size](const Outcome& o) {
      const auto next = [size](std::uint32_t b) { return (b % size + 1) % size; };
      const auto before = [size](std::uint32_t b) { return (b % size + size - 1) % size; };
      o.expect(0, "cluster_rank", [&](std::uint32_t b, auto) { return b % size; });
      o.expect(1, "cluster_size", [&](auto, auto) { return size; });
      for (const std::uint32_t row : {2u, 3u, 4u}) {
        o.expect(row, "load_cluster", [&](std::uint32_t b, std::uint32_t t) { return t + 1000 * next(b); });
      }
      o.expect(5, "store_cluster", [&](std::uint32_t b, std::uint32_t t) { return t + 5000 * before(b); });
      o.expect(6, "mbarrier_arrive_remote", [](auto, auto) { return 1; });
    });
  }
}

TEST(HopperInstruments, AsynchronousStores) {
  for (const std::uint32_t size : {2u, 4u}) {
    SCOPED_TRACE("clusters of " + std::to_string(size));
    try_all(4, 8, size, [size](const Outcome& o) {
      for (std::uint32_t round = 0; round < 2; ++round) {
        for (std::uint32_t other = 1; other < size; ++other)
          o.expect(round * 4 + other, "store_async", [](auto, auto) { return 7; });
      }
    });
  }
}

TEST(HopperInstruments, Multicast) {
  for (const std::uint32_t size : {1u, 2u, 4u}) {
    SCOPED_TRACE("clusters of " + std::to_string(size));
    try_all(3, 8, size, [size](const Outcome& o) {
      for (std::uint32_t i = 0; i < size; ++i) {
        o.expect(
            i, "tma_load_multicast",
            [&](auto, std::uint32_t t) {
              const auto value = static_cast<float>(i * 64 + t);
              std::uint32_t bits;
              std::memcpy(&bits, &value, 4);
              return bits;
            },
            64);
      }
    });
  }
}

}  // namespace
}  // namespace quern::hopper_tests
