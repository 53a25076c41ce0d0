// The model of narrow tiles. Its numbers are of an H200: what memory gives all multiprocessors together, what L2 gives
// one of them (less where tiles of 128 rows leave room for few stages), and what a launch and each round of tiles take
// beside that.
// SPDX-License-Identifier: Apache-2.0
#include "sources/gemm/narrow.h"

#include <algorithm>

namespace quern::ops::gemm {
namespace {

constexpr double kMemory = 4.2e6 / 132, kL2 = 110e3,
                 kL2OfHighTiles = 85e3;             // bytes a microsecond, for each multiprocessor
constexpr double kOfAny = 3.0, kOfEachRound = 1.0;  // microseconds
constexpr double kStepBytes = 128.0;                // of a row

std::int64_t div_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

double time_of(const NarrowTiles& product, int sms) {
  const auto rounds = static_cast<double>(div_up(product.row_tiles * product.column_tiles, sms));
  const double row = kStepBytes * static_cast<double>(product.steps);
  const double from_memory = static_cast<double>(product.column_tiles) * product.columns * row / (kMemory * sms);
  const double from_l2 = rounds * (product.rows + product.columns) * row / (product.rows > 64 ? kL2OfHighTiles : kL2);
  return kOfAny + kOfEachRound * rounds + std::max(from_memory, from_l2);
}

}  // namespace quern::ops::gemm
