// The run-time arguments of conv1d.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/divisor.cuh"

namespace q {

inline constexpr i32 kConvThreads = 128;

struct Conv1dParams {
  const void* x;
  const void* weight;
  const void* bias;      // may be null
  const i32* offsets;    // null: a token is a sequence
  void* state;           // may be null
  const i32* state_ids;  // null: a sequence's place
  const u8* has_state;   // null: all have
  void* out;
  i64 x_stride, out_stride;                     // in elements, as all
  i64 weight_stride, tap_stride;                // from channel to channel, from tap to tap
  i64 slot_stride, row_stride, channel_stride;  // of the state
  i32 tokens, batch;
  i32 run;                                  // tokens of an item
  i32 items;                                // runs x chunks
  Divisor chunks;                           // of a row
  i32 state_vectors, weight_vectors, silu;  // truth values; *_vectors: chunks of them lie side by side, aligned
};

}  // namespace q
