// The model that chooses how many blocks of threads share a tile.
//
// Times are counted in steps of one multiprocessor. All multiprocessors together read at the memory's pace; what a split changes is
// how evenly the work lies on them, of which about half can be made up for, as those that have more to do find the memory less
// busy; and the exchange of sums.
// SPDX-License-Identifier: Apache-2.0
#include "sources/gemm/split.h"

#include <algorithm>

namespace quern::ops::gemm {
namespace {

constexpr int kMostParts = 6;
// A block has at least so many steps.
constexpr std::int64_t kFewestSteps = 2;
constexpr double kUneven = 0.5, kExchange = 2.0, kOfEachPart = 0.25;

// Clusters lie within one of the groups of multiprocessors that the hardware has, which are of 16 and more.
std::int64_t clusters_of(int parts, int sms) {
  constexpr int kGroup = 16;
  if (parts == 1) return sms;
  return std::int64_t{std::max(sms / kGroup, 1)} * (std::min(sms, kGroup) / parts);
}

}  // namespace

Split split(std::int64_t tiles, std::int64_t steps, int sms, int usable) {
  Split best{1, std::min<std::int64_t>(tiles, usable)};
  double least = 0.0;
  for (int parts = 1; parts <= kMostParts; ++parts) {
    const std::int64_t most = std::min(clusters_of(parts, sms), std::int64_t{usable / parts});
    if (most == 0 || (parts > 1 && steps < parts * kFewestSteps)) continue;
    const std::int64_t clusters = std::clamp<std::int64_t>(tiles, 1, most);
    const std::int64_t rounds = (tiles + clusters - 1) / clusters;
    const double own = static_cast<double>(rounds * ((steps + parts - 1) / parts));
    const double cost = kUneven * own + (parts > 1 ? kExchange + kOfEachPart * parts : 0.0);
    if (parts == 1 || cost < least) best = {parts, std::min(tiles, clusters)}, least = cost;
  }
  return best;
}

}  // namespace quern::ops::gemm
