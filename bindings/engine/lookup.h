// Drafts for speculative decoding without a draft model: what followed the last words where they stood before. (Saxena:
// "Prompt lookup decoding", 2023.)
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace quern::engine {

// At most `most` tokens that may follow `tokens`: those that followed the latest earlier place with the same three last
// tokens, else the same two. None where there is no such place.
inline std::vector<std::int32_t> look_up(std::span<const std::int32_t> tokens, std::int64_t most) {
  for (const std::size_t words : {3u, 2u}) {
    if (most < 1 || tokens.size() <= words) continue;
    const auto last = tokens.last(words);
    for (std::size_t end = tokens.size() - 1; end >= words; --end) {
      if (!std::equal(last.begin(), last.end(), tokens.begin() + static_cast<std::ptrdiff_t>(end - words))) continue;
      const auto follow = tokens.subspan(end, std::min(static_cast<std::size_t>(most), tokens.size() - end));
      return {follow.begin(), follow.end()};
    }
  }
  return {};
}

}  // namespace quern::engine
