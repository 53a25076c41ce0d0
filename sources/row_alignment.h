// What rows may be accessed by, for ops whose rows lie at any distance.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "sources/tensor.h"

namespace quern::ops {

// What the data and all rows of a matrix are aligned to, in bytes, from what was promised of its data; at least an
// element. Its last stride must be 1. Throws Error(QUERN_INVALID).
inline int row_alignment(const Tensor& t, const char* name, int alignment) {
  expect_unit_stride(t, name, 1);
  const auto element = static_cast<int>(bytes_of(t.dtype));
  Tensor data = t;
  data.strides[0] = 0;
  expect_aligned(data, name, alignment);
  const auto bytes = static_cast<std::uint64_t>(t.strides[0] * element);
  while (t.shape[0] > 1 && bytes % static_cast<std::uint64_t>(alignment) != 0) alignment /= 2;
  return std::max(alignment, element);
}

}  // namespace quern::ops
