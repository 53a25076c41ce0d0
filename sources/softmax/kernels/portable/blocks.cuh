// The blocks that share a row: one, on targets where blocks cannot wait for each other.
//
//   row_blocks() row_block()   how many there are, and which this one is
//   begin_rows()               once, before anything else of this file: what others are told must find them there
//   sync_row()                 barrier of all threads of all of them
//   tell(place, block, v)      stores v at the same place of that block's shared memory
//   ask(place, block)          what stands there. A sync_row() lies between a telling and whoever reads it, and between
//                              an asking and whoever writes there again
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/kernel.cuh"

namespace q {

QUERN_DEVICE i32 row_blocks() { return 1; }
QUERN_DEVICE i32 row_block() { return 0; }
QUERN_DEVICE void begin_rows() {}
QUERN_DEVICE void sync_row() { sync_block(); }
template <class T>
QUERN_DEVICE void tell(T* place, i32, const T& v) {
  *place = v;
}
template <class T>
QUERN_DEVICE T ask(const T* place, i32) {
  return *place;
}

}  // namespace q
