// How long tiles of few rows and few columns take (narrow.cuh).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "sources/gemm/split.h"

namespace quern::ops::gemm {

struct NarrowTiles {
  std::int64_t row_tiles, column_tiles, steps;
  int rows;     // of a that a tile copies
  int columns;  // of b
};
// By the model, in microseconds.
double time_of(const NarrowTiles& product, const Machine& machine);

}  // namespace quern::ops::gemm
