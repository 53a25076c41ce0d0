// How long products of few rows take whose tiles the blocks of a cluster share by their steps of k (shared_k.cuh), and
// how many blocks may share one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "sources/gemm/plan/small_m.h"
#include "sources/gemm/plan/split.h"

namespace quern::ops::gemm {

struct SplitKTiles {
  int parts;  // blocks that share a tile
  double microseconds;
};
// Every number of blocks of which as many clusters find room at a time as there are tiles, and what the model expects
// of it.
std::vector<SplitKTiles> split_k_tiles(const SmallMTiles& product, const Machine& machine);

}  // namespace quern::ops::gemm
