// SPDX-License-Identifier: Apache-2.0
#include "bindings/engine/text/merges.h"

#include <algorithm>
#include <queue>
#include <tuple>

namespace quern::engine {
namespace {

// A pair that may be merged, as it was when it was found.
struct Found {
  std::int32_t rank, place, left, right, both;
  bool operator<(const Found& other) const {  // the queue gives the largest first
    return std::tie(rank, place) > std::tie(other.rank, other.place);
  }
};

}  // namespace

void Merges::apply(std::vector<std::int32_t>* tokens) const {
  std::vector<std::int32_t>& all = *tokens;
  const auto count = static_cast<std::int32_t>(all.size());
  // Neighbours by place; what has been merged away is -1.
  std::vector<std::int32_t> before(all.size()), behind(all.size());
  for (std::int32_t i = 0; i < count; ++i)
    before[static_cast<std::size_t>(i)] = i - 1, behind[static_cast<std::size_t>(i)] = i + 1;
  std::priority_queue<Found> queue;
  const auto look = [&](std::int32_t place) {
    if (place < 0) return;
    const auto at = static_cast<std::size_t>(place), next = static_cast<std::size_t>(behind[at]);
    if (behind[at] >= count) return;
    const auto merge = merges_.find(pair_of(all[at], all[next]));
    if (merge != merges_.end()) queue.push({merge->second.rank, place, all[at], all[next], merge->second.token});
  };
  for (std::int32_t i = 0; i < count; ++i) look(i);
  while (!queue.empty()) {
    const Found found = queue.top();
    queue.pop();
    const auto at = static_cast<std::size_t>(found.place);
    if (all[at] != found.left || behind[at] >= count) continue;  // one of them is part of something else by now
    const auto next = static_cast<std::size_t>(behind[at]);
    if (all[next] != found.right) continue;
    all[at] = found.both, all[next] = -1;
    behind[at] = behind[next];
    if (behind[at] < count) before[static_cast<std::size_t>(behind[at])] = found.place;
    look(before[at]);
    look(found.place);
  }
  std::erase(all, -1);
}

}  // namespace quern::engine
