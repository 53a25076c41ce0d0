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
constexpr double kOfNextReader = 0.1;  // of b: what it costs to read from L2 what another has read from memory

std::int64_t div_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

bool can_share(int parts, const NarrowTiles& product, const Machine& machine) {
  const std::int64_t tiles = product.row_tiles * product.column_tiles;
  const FewRows few{product.row_tiles, product.column_tiles, product.steps, 1.0};
  const std::optional<Split> split = split_into(parts, 1, few, machine);
  return split && split->clusters == tiles;
}

double time_of_shared(int parts, const NarrowTiles& product, int sms) {
  const double columns = product.columns, rows = product.rows;
  const double of_row = kStepBytes * static_cast<double>(product.steps);
  // Tiles one below the other read b at about the same time.
  const double readers = 1.0 + kOfNextReader * static_cast<double>(product.row_tiles - 1);
  const double from_memory = readers * static_cast<double>(product.column_tiles) * columns * of_row / (kMemory * sms);
  const double from_l2 = (rows + columns) * kStepBytes * static_cast<double>(div_up(product.steps, parts)) / kL2;
  const double sent = 4.0 * rows * columns * (parts - 1) / parts;
  return kOfAny + kOfEachRound + std::max(from_memory, from_l2) + kOfExchange + sent / kSent;
}

}  // namespace

double time_of(const NarrowTiles& product, int sms) {
  const auto rounds = static_cast<double>(div_up(product.row_tiles * product.column_tiles, sms));
  const double row = kStepBytes * static_cast<double>(product.steps);
  const double from_memory = static_cast<double>(product.column_tiles) * product.columns * row / (kMemory * sms);
  const double from_l2 = rounds * (product.rows + product.columns) * row / (product.rows > 64 ? kL2OfHighTiles : kL2);
  return kOfAny + kOfEachRound * rounds + std::max(from_memory, from_l2);
}

std::vector<SharedTiles> shared_tiles(const NarrowTiles& product, const Machine& machine) {
  std::vector<SharedTiles> all;
  for (int parts = 2; parts <= machine.most_blocks; ++parts) {
    if (can_share(parts, product, machine)) all.push_back({parts, time_of_shared(parts, product, machine.sms)});
  }
  return all;
}

}  // namespace quern::ops::gemm
