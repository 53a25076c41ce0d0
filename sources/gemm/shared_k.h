// How long products of few rows take whose tiles the blocks of a cluster share by their steps of k (shared_k.cuh), and how many
// blocks share one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "sources/gemm/narrow.h"
#include "sources/gemm/split.h"

namespace quern::ops::gemm {

struct SharedTiles {
  int parts;  // blocks that share a tile
  double microseconds;
};
// By the model the best number of blocks, of which there are as many clusters as tiles at a time; none where the tiles are too
// many.
std::optional<SharedTiles> share_tiles(const NarrowTiles& product, const Machine& machine);
// Whether there is room for as many clusters of so many blocks as there are tiles.
bool can_share(int parts, const NarrowTiles& product, const Machine& machine);

}  // namespace quern::ops::gemm
