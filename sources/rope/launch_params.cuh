// The run-time arguments of rope.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/divisor.cuh"
#include "common/integers.cuh"
#include "rope/params.cuh"

namespace q {

// Heads of one kind; strides in elements.
struct RopeHeads {
  const void* from;
  void* to;
  i64 from_token, from_head, to_token, to_head;
  i32 heads;
  i32 strips;  // teams that share the heads of a token
};

struct RopeParams {
  RopeHeads heads[2];  // queries, keys
  Rope rope;
  Integers positions;
  i32 tokens;
  Divisor strips;  // of a token, in all
};

}  // namespace q
