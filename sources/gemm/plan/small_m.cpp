// The model of the small_m and split_k variants. Its numbers are those of an H200, whose times it meets within 8% where
// they were measured (tests/bench/results/2026-11-23_gemm_log.md).
// SPDX-License-Identifier: Apache-2.0
#include "sources/gemm/plan/small_m.h"

#include <algorithm>
#include <cmath>

#include "sources/gemm/plan/split_k.h"

namespace quern::ops::gemm {
namespace {

constexpr double kKBlockBytes = 128.0;                 // bytes of a row in a k block
constexpr double kMemory = 4.2e6 / 132;                // bytes a microsecond for each multiprocessor, from memory
constexpr double kL2 = 130e3;                          // the same from L2,
constexpr double kL2OfHighTiles = 87e3;                // and where tiles of 128 rows leave room for few stages
constexpr double kOfLaunch = 2.0, kOfEachRound = 0.6;  // microseconds of a launch; of a round of tiles
constexpr double kOfKBlock = 0.076;                    // microseconds of a k block at least, however few its bytes
constexpr double kFinished = 6e3;                      // results that a multiprocessor finishes in a microsecond

// For split_k: microseconds of a launch; microseconds until a stage is used again, after it was copied from memory,
// multiplied and freed; bytes of sums that a multiprocessor receives in a microsecond.
constexpr double kOfSplitK = 3.4, kOfAStage = 2.05, kSent = 34e3;
constexpr int kGroupColumns = 8,
              kWarpRows = 16;  // sums are sent in groups of so many columns, by warps of so many rows

std::int64_t div_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

bool can_split(int parts, const SmallMTiles& product, const Machine& machine) {
  const std::int64_t tiles = product.row_tiles * product.column_tiles;
  const FewRows few{product.row_tiles, product.column_tiles, product.k_blocks, 1.0};
  const std::optional<Split> split = split_into(parts, 1, few, machine);
  return split && split->clusters == tiles;
}

double time_of_split_k(int parts, const SmallMTiles& product, int sms) {
  const double by_stages = static_cast<double>(div_up(product.k_blocks, parts)) * kOfAStage / product.stages;
  // Sums that the block with the most columns to finish receives.
  const std::int64_t columns = div_up(product.columns / kGroupColumns, parts) * kGroupColumns;
  const std::int64_t sums = (parts - 1) * columns * div_up(product.rows, kWarpRows) * kWarpRows;
  return kOfSplitK + std::max(time_of_memory(product, sms), by_stages) + 4.0 * static_cast<double>(sums) / kSent;
}

}  // namespace

double time_of_memory(const SmallMTiles& product, int sms) {
  return static_cast<double>(product.column_tiles * product.columns * product.k_blocks) * kKBlockBytes /
         (kMemory * sms);
}

double time_of(const SmallMTiles& product, int sms) {
  const auto rounds = static_cast<double>(div_up(product.row_tiles * product.column_tiles, sms));
  const double bytes = (product.rows + product.columns) * kKBlockBytes * static_cast<double>(product.k_blocks);
  const double from_l2 = rounds * bytes / (product.rows > 64 ? kL2OfHighTiles : kL2);
  // Where both limits are about equal the product takes a little longer than either.
  const double bytes_come = std::sqrt(std::hypot(std::pow(time_of_memory(product, sms), 2), std::pow(from_l2, 2)));
  return kOfLaunch + kOfEachRound * rounds +
         std::max(bytes_come, rounds * static_cast<double>(product.k_blocks) * kOfKBlock) +
         product.rows * product.columns / kFinished;
}

std::vector<SplitKTiles> split_k_tiles(const SmallMTiles& product, const Machine& machine) {
  std::vector<SplitKTiles> all;
  for (int parts = 2; parts <= machine.most_blocks; ++parts) {
    if (can_split(parts, product, machine)) all.push_back({parts, time_of_split_k(parts, product, machine.sms)});
  }
  return all;
}

}  // namespace quern::ops::gemm
