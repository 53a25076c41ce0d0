// The model of narrow tiles, and of those that are shared. Its numbers are of an H200: what memory gives all multiprocessors together, what L2 gives
// one of them (less where tiles of 128 rows leave room for few stages), and what a launch and each round of tiles take
// beside that.
// SPDX-License-Identifier: Apache-2.0
#include "sources/gemm/narrow.h"

#include <algorithm>

#include "sources/gemm/shared_k.h"

namespace quern::ops::gemm {
namespace {

constexpr double kMemory = 4.2e6 / 132, kL2 = 110e3,
                 kL2OfHighTiles = 85e3;             // bytes a microsecond, for each multiprocessor
constexpr double kOfAny = 3.0, kOfEachRound = 1.0;  // microseconds
constexpr double kStepBytes = 128.0;                // of a row
// Sums that change hands: what a multiprocessor takes of them, and what it takes beside that.
constexpr double kSent = 25e3, kOfExchange = 0.6;

std::int64_t div_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

double time_of(const NarrowTiles& product, int sms) {
  const auto rounds = static_cast<double>(div_up(product.row_tiles * product.column_tiles, sms));
  const double row = kStepBytes * static_cast<double>(product.steps);
  const double from_memory = static_cast<double>(product.column_tiles) * product.columns * row / (kMemory * sms);
  const double from_l2 = rounds * (product.rows + product.columns) * row / (product.rows > 64 ? kL2OfHighTiles : kL2);
  return kOfAny + kOfEachRound * rounds + std::max(from_memory, from_l2);
}

bool can_share(int parts, const NarrowTiles& product, const Machine& machine) {
  const std::int64_t tiles = product.row_tiles * product.column_tiles;
  const std::optional<Split> split = split_into(parts, 1, {product.row_tiles, product.column_tiles, product.steps, 1.0}, machine);
  return split && split->clusters == tiles;
}

std::optional<SharedTiles> share_tiles(const NarrowTiles& product, const Machine& machine) {
  std::optional<SharedTiles> best;
  const double columns = product.columns, rows = product.rows;
  const double bytes = kStepBytes * static_cast<double>(product.column_tiles * product.steps) * columns;
  for (int parts = 2; parts <= machine.most_blocks; ++parts) {
    if (!can_share(parts, product, machine)) continue;
    const auto steps = static_cast<double>(div_up(product.steps, parts));
    const double from_memory = bytes / (kMemory * machine.sms), from_l2 = (rows + columns) * kStepBytes * steps / kL2;
    const double sent = 4.0 * rows * columns * (parts - 1) / parts;
    const double time = kOfAny + kOfEachRound + std::max(from_memory, from_l2) + kOfExchange + sent / kSent;
    if (!best || time < best->microseconds) best = {parts, time};
  }
  return best;
}

}  // namespace quern::ops::gemm
