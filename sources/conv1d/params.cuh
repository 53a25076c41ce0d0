// The run-time arguments of conv1d.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/divisor.cuh"

namespace q {

inline constexpr i32 kConvThreads = 128;
inline constexpr i32 kConvPlaces = 8;  // of the general convolution's results that a thread has

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

// Rows of a matrix product, [outer][rows][chunks of 16 bytes], laid out of x or weight. Strides in bytes.
struct WindowsParams {
  const u8* from;  // where place 0 - pad of the first row would be
  u8* to;
  i64 sample_stride, group_stride, row_stride, tap_stride, channel_stride;
  i32 outer;  // samples x groups
  Divisor groups, rows, chunks;
  Divisor per;                        // elements of a row for a tap
  i32 taps, channels;                 // that there are
  i32 stride, dilation, pad, length;  // a row's tap is at row stride + tap dilation - pad, there from 0 to length
  i32 vectors, rows_first;            // truth values; vectors: chunks are read by one access
};

// Strides in elements.
struct DirectParams {
  const void* x;
  const void* weight;
  const void* bias;  // may be null
  void* out;
  i64 x_sample, x_channel, x_place;
  i64 weight_out, weight_channel, weight_tap;
  i64 out_sample, out_channel, out_place;
  i32 batch, channels, taps, length, places;  // channels: of a group
  i32 stride, dilation, pad;
  Divisor outs;                      // channels of out
  Divisor group_outs;                // of a group
  Divisor some;                      // threads that share an output channel
  i32 places_first, adjacent, silu;  // truth values; adjacent: stride and dilation are 1
};

}  // namespace q
