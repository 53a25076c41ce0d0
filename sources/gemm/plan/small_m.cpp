// The model of narrow tiles, and of those that are shared. Its numbers are of an H200, which it meets within 8% where
// they were measured (tests/bench/results/2026-11-23_gemm_log.md).
// SPDX-License-Identifier: Apache-2.0
#include "sources/gemm/plan/small_m.h"

#include <algorithm>
#include <cmath>

#include "sources/gemm/plan/shared_k.h"

namespace quern::ops::gemm {
namespace {

constexpr double kStepBytes = 128.0;                // of a row
constexpr double kMemory = 4.2e6 / 132;             // bytes a microsecond, of every multiprocessor's share
constexpr double kL2 = 130e3;                       // the same that L2 gives one multiprocessor,
constexpr double kL2OfHighTiles = 87e3;             // where tiles of 128 rows leave room for few stages
constexpr double kOfAny = 2.0, kOfEachRound = 0.6;  // microseconds, of a launch and of a round of tiles
constexpr double kOfStep = 0.076;                   // of a step, however few bytes it has
constexpr double kFinished = 6e3;                   // sums a microsecond that a multiprocessor finishes

// Of tiles that are shared: microseconds of a launch, those after which a stage comes round again, copied from memory,
// multiplied and released, and bytes of sums a microsecond that a multiprocessor is sent.
constexpr double kOfShared = 3.4, kOfAStage = 2.05, kSent = 34e3;
constexpr int kGroupColumns = 8, kWarpRows = 16;  // sums are sent by so many columns, of so many rows

std::int64_t div_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

bool can_share(int parts, const SmallMTiles& product, const Machine& machine) {
  const std::int64_t tiles = product.row_tiles * product.column_tiles;
  const FewRows few{product.row_tiles, product.column_tiles, product.steps, 1.0};
  const std::optional<Split> split = split_into(parts, 1, few, machine);
  return split && split->clusters == tiles;
}

double time_of_shared(int parts, const SmallMTiles& product, int sms) {
  const double by_stages = static_cast<double>(div_up(product.steps, parts)) * kOfAStage / product.stages;
  // To the block that finishes the most columns.
  const std::int64_t columns = div_up(product.columns / kGroupColumns, parts) * kGroupColumns;
  const std::int64_t sums = (parts - 1) * columns * div_up(product.rows, kWarpRows) * kWarpRows;
  return kOfShared + std::max(from_memory(product, sms), by_stages) + 4.0 * static_cast<double>(sums) / kSent;
}

}  // namespace

double from_memory(const SmallMTiles& product, int sms) {
  return static_cast<double>(product.column_tiles * product.columns * product.steps) * kStepBytes / (kMemory * sms);
}

double time_of(const SmallMTiles& product, int sms) {
  const auto rounds = static_cast<double>(div_up(product.row_tiles * product.column_tiles, sms));
  const double bytes = (product.rows + product.columns) * kStepBytes * static_cast<double>(product.steps);
  const double from_l2 = rounds * bytes / (product.rows > 64 ? kL2OfHighTiles : kL2);
  // Where both take about as long they take a little longer.
  const double bytes_come = std::sqrt(std::hypot(std::pow(from_memory(product, sms), 2), std::pow(from_l2, 2)));
  return kOfAny + kOfEachRound * rounds + std::max(bytes_come, rounds * static_cast<double>(product.steps) * kOfStep) +
         product.rows * product.columns / kFinished;
}

std::vector<SplitKTiles> split_k_tiles(const SmallMTiles& product, const Machine& machine) {
  std::vector<SplitKTiles> all;
  for (int parts = 2; parts <= machine.most_blocks; ++parts) {
    if (can_share(parts, product, machine)) all.push_back({parts, time_of_shared(parts, product, machine.sms)});
  }
  return all;
}

}  // namespace quern::ops::gemm
