// Arrays of integers of 32 or 64 bits, as callers have their positions and page numbers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/types.cuh"

namespace q {

struct Integers {
  const void* data;
  i64 stride;
  i32 wide;  // 64 bits
};

QUERN_SHARED_CODE inline i64 integer_at(const Integers& of, i64 i) {
  return of.wide ? static_cast<const i64*>(of.data)[i * of.stride]
                 : static_cast<i64>(static_cast<const i32*>(of.data)[i * of.stride]);
}

}  // namespace q
