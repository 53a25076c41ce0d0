// Byte-pair encoding's one step, said fast: neighbours are merged, the pair of the lowest rank first, the leftmost of
// equals. (Sennrich, Haddow, Birch: "Neural machine translation of rare words with subword units", 2016.)
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace quern::engine {

class Merges {
 public:
  // The first rank of a pair stays.
  void add(std::int32_t left, std::int32_t right, std::int32_t rank, std::int32_t both) {
    merges_.emplace(pair_of(left, right), Merge{rank, both});
  }
  // In n log n of the tokens' number: a text without spaces is one piece.
  void apply(std::vector<std::int32_t>* tokens) const;

 private:
  struct Merge {
    std::int32_t rank, token;
  };
  static std::uint64_t pair_of(std::int32_t left, std::int32_t right) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 | static_cast<std::uint32_t>(right);
  }
  std::unordered_map<std::uint64_t, Merge> merges_;
};

}  // namespace quern::engine
