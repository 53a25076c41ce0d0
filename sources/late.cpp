// SPDX-License-Identifier: Apache-2.0
#include "sources/late.h"

#include <algorithm>
#include <cstdlib>

namespace quern::ops {
namespace {

constexpr std::int64_t kMostBytes = std::int64_t{64} << 20, kMostSparse = 8;

}  // namespace

void LateTensors::note(const char* name, std::uint8_t* data, std::int64_t element_bytes, bool indices,
                       std::span<const std::int64_t> shape, std::span<const std::int64_t> strides) {
  if (data == nullptr || std::find(constant_.begin(), constant_.end(), name) != constant_.end()) return;
  std::int64_t count = 1, before = 0, span = 1;  // elements; `before` of the span lie in front of the data
  for (std::size_t d = 0; d < shape.size(); ++d) {
    count *= shape[d];
    std::int64_t further = 0;
    if (__builtin_mul_overflow(shape[d] - 1, std::abs(strides[d]), &further) ||
        __builtin_add_overflow(span, further, &span)) {
      return;
    }
    if (strides[d] < 0) before += further;
  }
  if (count == 0 || span > kMostBytes / element_bytes || span / kMostSparse > count) return;
  memory_.push_back({data - before * element_bytes, static_cast<std::size_t>(span * element_bytes), indices});
}

}  // namespace quern::ops
