// The run-time arguments of convolutions. A convolution along a sequence is one of a single row.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/divisor.cuh"
#include "gemm/params.cuh"

namespace q {

inline constexpr i32 kConvolutionThreads = 128;
inline constexpr i32 kConvolutionPlaces = 8;  // of the results that a thread has where there is no matrix product

// What stands behind the bias; as enum quern_activation.
enum class Activation : i32 { none, relu, gelu, gelu_tanh, silu };

// Where the windows of a convolution lie: the tap in row i and column j of the window for the result in row r and
// column s is at row r stride_h + i dilation_h - pad_top and column s stride_w + j dilation_w - pad_left, and is zero
// outside of `height` rows and `width` columns.
struct WindowPlaces {
  i32 height, width;
  i32 stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left;
};

// Rows of a matrix product, [outer][rows][chunks of 16 bytes], laid out of x or weight. An element of a row counts in
// three digits, the last of which is the fastest: row and column of the tap and the channel, or the channel before
// them. Strides in bytes.
struct WindowsParams {
  const u8* from;  // where the first element of the first row would be, padding included
  u8* to;
  i64 sample_stride, group_stride;
  i64 down_stride, across_stride;                // from a row of windows to the next, and from window to window in it
  i64 first_stride, second_stride, last_stride;  // of the digits
  i32 first_down, second_down, second_across, last_across;  // rows and columns of x that a digit stands for
  i32 outer;                                                // samples x groups
  Divisor groups, rows, chunks;
  Divisor last;             // numbers that the last digit has, of which some may be filled with zeros,
  i32 last_there;           // and those that there are
  Divisor second;           // of the second digit
  i32 first;                // of the first
  Divisor columns;          // windows in a row of windows
  WindowPlaces places;      // dilation is in the digits
  i32 vectors, rows_first;  // truth values; vectors: chunks are read by one access
};

// A matrix product one of whose operands are windows, which are read where x has them: of rows of out's places, or as
// its columns. Its k counts the channels of a tap, and taps. Groups of the product are samples, unless those follow
// each other as places do and are rows.
struct ImplicitParams {
  GemmParams product;
  const u8* x;
  // In 16 bytes, which a thread copies at once.
  i32 sample_stride, row_stride, column_stride;
  i32 per;  // elements of a tap
  i32 tap_rows, tap_columns;
  WindowPlaces places;
  Divisor of_sample, of_row;  // places
  i32 merged;                 // truth value: samples are rows
  i32 unused;
};

// Strides in elements.
struct DirectParams {
  const void* x;
  const void* weight;
  const void* bias;  // may be null
  void* out;
  i64 x_sample, x_channel, x_row, x_column;
  i64 weight_out, weight_channel, weight_row, weight_column;
  i64 out_sample, out_channel, out_row, out_column;
  WindowPlaces places;
  i32 batch, channels, tap_rows, tap_columns, out_columns;  // channels: of a group
  Divisor outs;                                             // channels of out
  Divisor group_outs;                                       // of a group
  Divisor some;                                             // threads that share a row of out's channel
  Divisor lines;                                            // some x rows of out
  i32 places_first, adjacent;  // truth values; adjacent: stride and dilation of columns are 1
  Activation activation;
};

}  // namespace q
