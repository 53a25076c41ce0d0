// What layer.cuh must have written, worked out independently of the layer.
// SPDX-License-Identifier: Apache-2.0
#include "tests/host/layer_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>

namespace quern::host_tests {
namespace {

using namespace q::layer;

// The results of one block.
class Block {
 public:
  Block(const LayerRun& run, int block, int warp_size)
      : run_(run),
        words_(run.results.data() + static_cast<std::ptrdiff_t>(block) * kBlockResults),
        warp_(warp_size),
        block_(block) {}

  std::uint32_t word(int row, int t) const { return words_[row * kThreads + t]; }
  float value(int row, int t) const { return std::bit_cast<float>(word(row, t)); }

  // Reports a row's first difference only.
  template <class Expected>
  void exact(int row, const char* name, Expected expected) const {
    for (int t = 0; t < kThreads; ++t) {
      const auto want = static_cast<std::uint32_t>(expected(t));
      if (word(row, t) == want) continue;
      ADD_FAILURE() << name << ": block " << block_ << " thread " << t << " has " << word(row, t) << ", expected "
                    << want;
      return;
    }
  }
  template <class Expected>
  void close(int row, const char* name, Expected expected, double relative) const {
    for (int t = 0; t < kThreads; ++t) {
      const double want = expected(static_cast<double>(run_.params.x * static_cast<float>(t + 1)));
      if (std::abs(value(row, t) - want) <= relative * std::abs(want)) continue;
      ADD_FAILURE() << name << ": block " << block_ << " thread " << t << " has " << value(row, t) << ", expected "
                    << want;
      return;
    }
  }

  void check(bool named_barriers) const {
    execution();
    collectives();
    barriers(named_barriers);
    memory();
    maths();
    for (int warp = 0; warp < kThreads / warp_; ++warp) {
      for (int type = 0; type < kTypes; ++type) tiles(warp, type);
    }
  }

 private:
  int lane(int t) const { return t % warp_; }
  int first(int t) const { return t - lane(t); }

  void execution() const {
    exact(kThreadIndex, "thread_index", [](int t) { return t; });
    exact(kLane, "lane", [&](int t) { return lane(t); });
    exact(kWarpOf, "warp", [&](int t) { return t / warp_; });
    const int index[3] = {block_ % kGrid[0], block_ / kGrid[0] % kGrid[1], block_ / kGrid[0] / kGrid[1]};
    for (int d = 0; d < 3; ++d) {
      exact(kBlockIndex + d, "block_index", [&](int) { return index[d]; });
      exact(kBlockCount + d, "block_count", [&](int) { return kGrid[d]; });
    }
  }

  void collectives() const {
    const auto mine = [](int t) { return t * 3 + 1; };
    exact(kShuffle, "shuffle", [&](int t) { return mine(first(t) + (lane(t) * 7 + 3) % warp_); });
    exact(kShuffleXor, "shuffle_xor", [&](int t) { return mine(t ^ 5); });
    exact(kShuffleUp, "shuffle_up", [&](int t) { return mine(lane(t) < 3 ? t : t - 3); });
    exact(kShuffle64, "shuffle of 64 bits, low", [](int t) { return t ^ 1; });
    exact(kShuffle64 + 1, "shuffle of 64 bits, high", [&](int t) { return mine(t ^ 1); });
    exact(kShuffleF32, "shuffle of f32",
          [&](int t) { return std::bit_cast<std::uint32_t>(static_cast<float>(first(t)) + 0.5f); });
    const auto votes = [&](int t) {
      std::uint64_t bits = 0;
      for (int l = 0; l < warp_; ++l) bits |= std::uint64_t{(first(t) + l) % 3 == 0} << l;
      return bits;
    };
    exact(kBallot, "ballot, low", [&](int t) { return votes(t) & 0xffffffffu; });
    exact(kBallot + 1, "ballot, high", [&](int t) { return votes(t) >> 32; });
  }

  void barriers(bool named_barriers) const {
    exact(kSyncBlock, "sync_block", [](int t) { return (t + 37) % kThreads * 5; });
    exact(kSyncBlockDynamic, "sync_block, dynamic memory", [](int t) { return (t + 41) % kThreads * 9; });
    exact(kSyncWarp, "sync_warp", [&](int t) { return first(t) + (lane(t) + 1) % warp_ + 1000; });
    exact(kSyncNamed, "sync_named", [&](int t) { return named_barriers ? (t ^ warp_) + 2000 : 0; });
    exact(kStaticKept, "static array", [](int t) { return (t + 1) % kThreads; });
  }

  void memory() const {
    for (int i = 0; i < 4; ++i) {
      exact(kLoad16 + i, "load16", [&](int t) { return run_.input[4 * ((t + 3) % kThreads) + i]; });
      exact(kLoad16Once + i, "load16_once", [&](int t) { return run_.input[4 * ((t + 1) % kThreads) + i]; });
    }
    exact(kLoadVolatile, "load_volatile", [&](int t) { return run_.input[t]; });
    exact(kAcquire, "acquire", [&](int t) { return run_.input[(t + 2) % kThreads]; });
    for (int round = 0; round < kCopyRounds; ++round) {
      exact(kCopy16 + round, "copy_async_16", [&](int t) {
        const int owner = (t + 1) % kThreads;
        return (owner + round) % 5 != 0 ? run_.input[4 * (owner + round) + round] : 0u;
      });
    }
    exact(kCopy4, "copy_async_4", [&](int t) {
      const int owner = kThreads - 1 - t;
      return owner % 4 != 0 ? run_.input[owner + 7] : 0u;
    });
  }

  void maths() const {
    constexpr double kFewUlp = 4e-7;
    close(kMaths, "exp2", [](double x) { return std::exp2(x); }, kFewUlp);
    close(kMaths + 1, "log2", [](double x) { return std::log2(x); }, kFewUlp);
    close(kMaths + 2, "rcp", [](double x) { return 1 / x; }, kFewUlp);
    close(kMaths + 3, "rsqrt", [](double x) { return 1 / std::sqrt(x); }, kFewUlp);
    const Params& p = run_.params;
    close(kMaths + 4, "fmin", [&](double x) { return std::min(x, double{p.y}); }, 0);
    close(kMaths + 5, "fmax", [&](double x) { return std::max(x, double{p.y}); }, 0);
    exact(kMaths + 6, "fma",
          [&](int t) { return std::bit_cast<std::uint32_t>(std::fma(p.x * static_cast<float>(t + 1), p.y, p.z)); });
    exact(kMaths + 7, "infinity", [](int) { return 0x7f800000u; });
    for (int t = 0; t < kThreads; ++t) EXPECT_TRUE(std::isnan(value(kMaths + 8, t))) << "nan: thread " << t;
    exact(kMaths + 9, "bits_of, f32_of", [](int t) { return 0x12345678u + static_cast<unsigned>(t); });
    exact(kMaths + 10, "fabs",
          [&](int t) { return std::bit_cast<std::uint32_t>(std::fabs(p.x * static_cast<float>(t + 1))); });
  }

  void tiles(int warp, int type) const {
    const std::uint32_t* tile = words_ + kTiles + (warp * kTypes + type) * kTileValues;
    const std::string where = std::string(type == 0 ? "f16" : "bf16") + ", block " + std::to_string(block_) +
                              ", warp " + std::to_string(warp) + ", ";
    int product[16][16];
    for (int row = 0; row < 16; ++row) {
      for (int column = 0; column < 16; ++column) {
        product[row][column] = 0;
        for (int k = 0; k < 16; ++k) product[row][column] += a_entry(row, k) * b_entry(k, column);
      }
    }
    for (int row = 0; row < 16; ++row) {
      for (int column = 0; column < 16; ++column) {
        int second = 0;
        for (int k = 0; k < 16; ++k) second += product[row][k] * b_entry(k, column);
        const int expected[kMatrices] = {product[row][column], product[row][column] + 1, second};
        for (int matrix = 0; matrix < kMatrices; ++matrix) {
          ASSERT_EQ(std::bit_cast<float>(tile[matrix * 256 + row * 16 + column]), static_cast<float>(expected[matrix]))
              << where << "matrix " << matrix << " at (" << row << ", " << column << ")";
        }
      }
      const int* begin = product[row];
      EXPECT_EQ(std::bit_cast<float>(tile[kMatrices * 256 + row]),
                static_cast<float>(std::accumulate(begin, begin + 16, 0)))
          << where << "reduce_row_sum of row " << row;
      EXPECT_EQ(std::bit_cast<float>(tile[kMatrices * 256 + 16 + row]),
                static_cast<float>(*std::max_element(begin, begin + 16)))
          << where << "reduce_row_max of row " << row;
    }
  }

  const LayerRun& run_;
  const std::uint32_t* words_;
  int warp_;
  int block_;
};

}  // namespace

LayerRun::LayerRun()
    : input(kInputs), results(static_cast<std::size_t>(kBlocks) * kBlockResults, 0xffffffffu), counters(kCounters) {
  for (std::size_t i = 0; i < input.size(); ++i) input[i] = static_cast<std::uint32_t>(i * 2654435761u + 17);
  counters[kMaxI32] = static_cast<std::uint32_t>(-1000);
  params.x = 0.37f;
  params.y = 7.25f;
  params.z = -3.0625f;
}

void check_layer(const LayerRun& run, int warp_size, bool named_barriers) {
  for (int block = 0; block < kBlocks; ++block) {
    Block(run, block, warp_size).check(named_barriers);
    if (testing::Test::HasFailure()) return;
  }
  constexpr int kAll = kBlocks * kThreads;
  std::vector<std::uint32_t> old;
  for (int block = 0; block < kBlocks; ++block) {
    const Block b(run, block, warp_size);
    for (int t = 0; t < kThreads; ++t) old.push_back(b.word(kOldCount, t));
  }
  std::sort(old.begin(), old.end());
  for (int i = 0; i < kAll; ++i) ASSERT_EQ(old[i], static_cast<std::uint32_t>(i)) << "atomic_add gave a value twice";
  EXPECT_EQ(run.counters[kCountOnes], static_cast<std::uint32_t>(kAll));
  EXPECT_EQ(static_cast<std::int32_t>(run.counters[kSumSigned]),
            kBlocks * (5 * kThreads - kThreads * (kThreads - 1) / 2));
  EXPECT_EQ(std::bit_cast<float>(run.counters[kSumF32]), 0.5f * kAll);
  EXPECT_EQ(run.counters[kMaxU32], 0x80000000u + kThreads - 1);
  EXPECT_EQ(static_cast<std::int32_t>(run.counters[kMaxI32]), 0);
}

}  // namespace quern::host_tests
