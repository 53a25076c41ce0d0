// How long tiles of few rows and few columns take (narrow.cuh).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace quern::ops::gemm {

struct SmallMTiles {
  std::int64_t row_tiles, column_tiles, steps;
  int rows;     // of a that a tile copies
  int columns;  // of b
  int stages;   // that a has room for
};
// By the model, in microseconds, on so many multiprocessors: b alone, read once; all of it.
double from_memory(const SmallMTiles& product, int sms);
double time_of(const SmallMTiles& product, int sms);

}  // namespace quern::ops::gemm
