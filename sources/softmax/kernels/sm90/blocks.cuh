// The blocks that share a row: those of a cluster. portable/blocks.cuh says what there is.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/sm90/tma.cuh"

namespace q {

QUERN_DEVICE i32 row_blocks() { return static_cast<i32>(cluster_size()); }
QUERN_DEVICE i32 row_block() { return static_cast<i32>(cluster_rank()); }
QUERN_DEVICE void begin_rows() { sync_cluster(); }
QUERN_DEVICE void sync_row() { sync_cluster(); }
template <class T>
QUERN_DEVICE void tell(T* place, i32 block, const T& v) {
  store_cluster(cluster_address(place, static_cast<u32>(block)), v);
}
template <class T>
QUERN_DEVICE T ask(const T* place, i32 block) {
  return load_cluster<T>(cluster_address(place, static_cast<u32>(block)));
}

}  // namespace q
