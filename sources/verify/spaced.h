// Tensors of several dimensions that lie as a kernel of strided tensors wants them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "sources/verify/trial.h"

namespace quern::ops::verify {

// Every place of an extent, in row-major order.
class Places {
 public:
  explicit Places(std::vector<std::int64_t> shape) : extents(std::move(shape)), at(extents.size(), 0) {
    for (const std::int64_t extent : extents) count *= extent;
  }
  void next() {
    for (std::size_t d = extents.size(); d-- > 0;) {
      if (++at[d] < extents[d]) return;
      at[d] = 0;
    }
  }
  std::int64_t offset(const std::vector<std::int64_t>& strides) const {
    std::int64_t sum = 0;
    for (std::size_t d = 0; d < at.size(); ++d) sum += at[d] * strides[d];
    return sum;
  }

  std::vector<std::int64_t> extents, at;
  std::int64_t count = 1;
};

// Strides of a tensor of more than one dimension that has gaps in each, so that none can be taken for part of another;
// of one dimension it is compact. `along` is how it lies along the last: each (side by side), shifted (the same, at odd
// distances), same (one element for all), any (every second), across (side by side along the dimension before).
inline std::vector<std::int64_t> spaced(const std::vector<std::int64_t>& extents, const std::string& along) {
  const std::size_t rank = extents.size();
  std::vector<std::int64_t> strides(rank);
  std::int64_t step = along == "any" ? 2 : 1;
  const std::int64_t gap = along == "shifted" ? 17 : 16;
  if (along == "across" && rank > 1) {
    strides[rank - 2] = 1, strides[rank - 1] = extents[rank - 2] + gap;
    step = strides[rank - 1] * extents[rank - 1] + gap;
    for (std::size_t d = rank - 2; d-- > 0; step = step * extents[d] + gap) strides[d] = step;
    return strides;
  }
  for (std::size_t d = rank; d-- > 0;) {
    strides[d] = d + 1 == rank && along == "same" ? 0 : step;
    step = step * extents[d] + (rank > 1 ? gap : 0);
    if (d + 1 == rank && along == "each") step = (step + 15) / 16 * 16;
  }
  return strides;
}

// The elements from the tensor's first to its last.
inline std::int64_t span(const std::vector<std::int64_t>& extents, const std::vector<std::int64_t>& strides) {
  std::int64_t last = 0;
  for (std::size_t d = 0; d < extents.size(); ++d) last += (extents[d] - 1) * strides[d];
  return last + 1;
}

inline std::vector<std::int64_t> extents_of(std::int64_t rank, std::int64_t inner) {
  std::vector<std::int64_t> extents(static_cast<std::size_t>(rank), 3);
  if (rank > 1) extents[extents.size() - 2] = inner >= 512 ? 5 : 37;
  extents.back() = inner;
  return extents;
}

}  // namespace quern::ops::verify
