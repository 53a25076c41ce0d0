// The model of the split_k variants: the time of a product by its number of parts, and which numbers of parts are
// possible.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "sources/gemm/plan/small_m.h"
#include "sources/gemm/plan/split.h"

namespace quern::ops::gemm {

struct SplitKTiles {
  int parts;  // blocks that divide a tile's k blocks
  double microseconds;
};
// Every number of parts with which a cluster for each tile fits the device at once, and the time that the model
// expects.
std::vector<SplitKTiles> split_k_tiles(const SmallMTiles& product, const Machine& machine);

}  // namespace quern::ops::gemm
