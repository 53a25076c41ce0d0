// The run-time arguments of kv_append.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/divisor.cuh"
#include "kv_append/place_params.cuh"
#include "rope/params.cuh"

namespace q {

// Heads of one kind: where they come from and where they go. Strides in elements; a token's destination is page and
// place of the cache, or for queries the token itself.
struct AppendHeads {
  const void* from;
  void* to;
  f32* scale;          // read or written; null: 1
  const void* weight;  // of the norm; null: none
  i64 from_token, from_head;
  i64 to_page, to_token, to_head;
  i64 scale_page, scale_token, scale_head;
  i32 heads;   // 0: none of this kind
  i32 strips;  // teams that share the heads of a token
  i32 rounds;  // heads of a team, at most
};

struct KvAppendParams {
  AppendHeads heads[3];  // queries, keys, values
  Rope rope;
  TokenPlaces places;
  i32 tokens;
  Divisor strips;  // of a token, in all
  f32 eps, weight_offset;
  i32 rehearses;  // blocks go through their work once on no head, while the launch before still runs
};

}  // namespace q
