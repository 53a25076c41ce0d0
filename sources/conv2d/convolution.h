// A convolution as a call of conv2d or of conv1d has asked for it, and the way in which it is done. That along a
// sequence is one of a single row.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "sources/call.h"
#include "sources/gemm/plan/shape.h"
#include "sources/op.h"
#include "sources/tensor.h"

namespace quern::ops::conv2d {

enum class Kernel : std::uint8_t {
  windows,    // lays out x or weight for a matrix product
  direct,     // the convolution without a matrix product
  implicit,   // a matrix product that reads windows where x has them
  persistent  // the same on Hopper
};

// Of the implicit products: rows64 and rows128, by 128 columns, are the portable one's; of 128 rows, by as many
// columns, are the persistent one's.
enum class Tile : std::uint8_t { rows64, rows128, columns64, columns176, columns256 };

struct Shape {
  Kernel kernel = Kernel::windows;
  Dtype x = Dtype::bf16;
  // Of the implicit products:
  bool places_first = false;  // out's places are the product's columns
  bool bias = false;
  std::int32_t activation = QUERN_ACTIVATION_DEFAULT;
  Tile tile = Tile::rows128;
};

inline constexpr int kBlocksPerSm = 4;
inline constexpr std::uint64_t kPiece = 256;  // bytes that pieces of the workspace are aligned to

jit::Spec to_spec(const Shape& shape, jit::Target target);

// The epilogue of a product: the activation of its sums with the bias, which lies along rows or columns.
const quern_expression* formula(std::int32_t activation, bool bias, bool rows);
// The implicit product's shape as gemm's portable or persistent kernel has it, which says all of its kernel but for
// where windows lie and, of the persistent one, the bias.
gemm::Shape product_shape(const Shape& shape);
// Whether several blocks may have parts of a tile's k.
bool shares_k(const Shape& shape);

// Of rows and of columns.
struct Plane {
  std::int64_t rows, columns;
  std::int64_t count() const { return rows * columns; }
};

struct Convolution {
  Call call;
  std::uint32_t flags;  // enum quern_call_flags
  void *stream, *workspace;
  std::uint64_t workspace_size;
  std::int32_t alignment, max_sms;
  const DLTensor* like;  // a tensor of the same dtype on the same device

  // x and out [batch, channels, rows, columns], weight [outs, channels, rows, columns]: data and strides alone count.
  Tensor x, weight, out;
  const std::uint8_t* bias;  // may be null, and `has_bias` be true all the same where data may be missing
  bool has_bias;
  std::int64_t batch, outs, groups, channels, group_outs;             // channels and group_outs: of a group
  Plane image, kernel, places, stride, dilation, pad_begin, pad_end;  // image: of x, places: of out
  std::int32_t activation;                                            // enum quern_activation
  Dtype dtype;
  int chunk;  // elements of 16 bytes

  bool direct;
  bool implicit;
  bool portable;      // not by Hopper's kernel: a trial of the portable one
  bool places_first;  // out's columns lie side by side
  // Of a matrix product: elements of a tap and of a row, whether windows lie over each other, what is laid out, whether
  // taps follow each other within a channel or channels within a tap.
  std::int64_t per, k;
  bool over, lays_x, lays_weight, taps_last;
  std::int64_t rows;  // of x for a sample and group as it is laid out
  // x is laid out as it is, channels side by side: with its padding for the product, or without for windows made of it.
  bool plain;

  Plane plain_begin() const { return over ? pad_begin : Plane{0, 0}; }
  Plane plain_end() const { return over ? pad_end : Plane{0, 0}; }
  Plane plain_extents() const {
    const Plane begin = plain_begin(), end = plain_end();
    return {begin.rows + image.rows + end.rows, begin.columns + image.columns + end.columns};
  }
  std::uint64_t plain_bytes() const { return plain ? bytes(batch * groups * plain_extents().count(), per) : 0; }
  std::uint64_t x_bytes() const { return lays_x && !implicit ? bytes(batch * groups * rows, over ? per : k) : 0; }
  std::uint64_t weight_bytes() const { return lays_weight ? bytes(outs, k) : 0; }
  // All of them: windows where they are not what was laid out plain, x laid out plain, weights.
  bool makes_windows() const { return lays_x && !(plain && (over || implicit)); }
  std::uint64_t window_bytes() const { return makes_windows() ? x_bytes() : 0; }
  std::uint64_t laid_bytes() const { return window_bytes() + plain_bytes() + weight_bytes(); }

 private:
  std::uint64_t bytes(std::int64_t lines, std::int64_t of_line) const {
    const auto all = static_cast<std::uint64_t>(lines * of_line * bytes_of(dtype));
    return (all + kPiece - 1) / kPiece * kPiece;
  }
};

// The result's extent along a dimension; negative where x has no room for a window.
constexpr std::int64_t places_of(std::int64_t extent, std::int64_t begin, std::int64_t end, std::int64_t taps,
                                 std::int64_t stride, std::int64_t dilation) {
  const std::int64_t room = extent + begin + end - dilation * (taps - 1) - 1;
  return room < 0 ? -1 : room / stride + 1;
}

// The number of a call's argument that is 0 and more, where 0 stands for `least`. Throws Error(QUERN_INVALID).
std::int64_t read_number(std::int32_t given, const char* name, std::int64_t least);
// What the call's struct has in common with other ops'.
template <class Args>
void read_common(const Args& args, Convolution& c) {
  c.flags = args.flags & kCallFlags;
  c.stream = args.stream, c.workspace = args.workspace, c.workspace_size = args.workspace_size;
  c.alignment = args.alignment, c.max_sms = args.max_sms;
  c.like = args.x;
}
// Checks that tensors are aligned as promised, chooses the way and checks that what it counts has 32 bits; `extent` is
// x.shape[2], which is else refused.
void finish_reading(Convolution& c, std::int64_t extent);

// How the sum is done, from shapes, strides and what is promised alone, so that prepare finds what calls find.
void choose_way(Convolution& c);
// Whether the implicit product can do it: its operands, and what it counts in fewer bits.
bool takes_implicit(const Convolution& c);
// The counters and partial sums that it needs at most.
std::uint64_t implicit_bytes(const Convolution& c);
void prepare_implicit(const Runtime& runtime, const Convolution& c);
// Of one group: x as it lies or as it was laid out plain, weights as rows of the product. `workspace` is its own.
void run_implicit(const Runtime& runtime, const Convolution& c, const void* x, const void* weight, void* workspace);

// The convolution of a call. Throws Error(QUERN_INVALID) naming the argument.
Convolution read_convolution(const quern_conv2d_args& args, const Runtime& runtime, bool may_lack_data);

// What quern_OP_workspace, _prepare and quern_OP do.
std::uint64_t convolution_workspace(const Runtime& runtime, const Convolution& c);
void convolution_prepare(const Runtime& runtime, const Convolution& c);
void convolution_run(const Runtime& runtime, const Convolution& c);

}  // namespace quern::ops::conv2d
