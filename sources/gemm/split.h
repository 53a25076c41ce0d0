// How many blocks of threads share a tile of few rows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace quern::ops::gemm {

// Of a product whose pace reading sets: `tiles` of `steps` steps each, on a device of `sms` multiprocessors of which the call may
// use `usable`.
struct Split {
  int parts;             // blocks of a cluster, each with so many of a tile's steps
  std::int64_t clusters;  // that take the tiles in turn
};
Split split(std::int64_t tiles, std::int64_t steps, int sms, int usable);

}  // namespace quern::ops::gemm
