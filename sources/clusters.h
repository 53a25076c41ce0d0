// How many clusters a GPU has room for.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace quern::ops {

// How many clusters of so many blocks, 1 to 8, with a multiprocessor each, a device runs at once. A cluster lies within
// one of the hardware's groups of multiprocessors, which differ in size. The table is the driver's count for 132
// multiprocessors.
inline std::int64_t most_clusters(int blocks, int sms) {
  constexpr std::int64_t kMost[] = {132, 66, 39, 30, 22, 17, 15, 15}, kOf = kMost[0];
  const std::int64_t room = kMost[blocks - 1] * sms / kOf;
  return room > 0 ? room : sms >= blocks ? 1 : 0;
}

}  // namespace quern::ops
