// The model of the small_m variants: the time that a product takes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace quern::ops::gemm {

struct SmallMTiles {
  std::int64_t row_tiles, column_tiles, k_blocks;
  int rows;     // rows of a that a tile copies
  int columns;  // rows of b of a tile
  int stages;   // k blocks of a that there is room for
};
// Microseconds on `sms` multiprocessors: of reading b once from memory; of the whole product.
double time_of_memory(const SmallMTiles& product, int sms);
double time_of(const SmallMTiles& product, int sms);

}  // namespace quern::ops::gemm
