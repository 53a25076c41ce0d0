// The copy op: strided copies with a cast, of several parts at once.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>

#include "jit/error.h"
#include "sources/call.h"
#include "sources/copy/fill.h"
#include "sources/copy/shape.h"
#include "sources/divisor.h"
#include "sources/launch.h"
#include "sources/ops.h"
#include "sources/strided.h"

namespace quern::ops::copy {
namespace {

constexpr std::int64_t kNarrow = std::int64_t{1} << 30;
constexpr std::int64_t kFewBlocks = 8;       // small ones, on a multiprocessor
constexpr std::int64_t kFewElements = 4096;  // for each multiprocessor, that change places by small tiles
constexpr const char* kInputs[] = {"inputs[0]",  "inputs[1]",  "inputs[2]",  "inputs[3]", "inputs[4]",  "inputs[5]",
                                   "inputs[6]",  "inputs[7]",  "inputs[8]",  "inputs[9]", "inputs[10]", "inputs[11]",
                                   "inputs[12]", "inputs[13]", "inputs[14]", "inputs[15]"};
constexpr const char* kOutputs[] = {"outputs[0]",  "outputs[1]",  "outputs[2]",  "outputs[3]",
                                    "outputs[4]",  "outputs[5]",  "outputs[6]",  "outputs[7]",
                                    "outputs[8]",  "outputs[9]",  "outputs[10]", "outputs[11]",
                                    "outputs[12]", "outputs[13]", "outputs[14]", "outputs[15]"};

// One part, its dimensions merged: tensor 0 is written, tensor 1 read.
struct Part {
  Walk walk;
  bool filled;
  int across;  // the dimension along which what is read is contiguous, where it is to go through shared memory; or -1
  std::int64_t vectors, rows;
};

struct Request {
  Call call;
  Dtype from = Dtype::other, to = Dtype::other;  // as the kernels see them
  std::int64_t from_bytes = 0, to_bytes = 0;
  std::size_t count = 0;
  std::array<std::array<View, 2>, q::kCopyParts> views;  // out, in
  std::array<bool, q::kCopyParts> filled{};
  std::uint64_t fill = 0;
};

// Elements that are not changed are bits, whatever they stand for.
Dtype bits_of(std::int64_t bytes) {
  return bytes == 1 ? Dtype::u8 : bytes == 2 ? Dtype::i16 : bytes == 4 ? Dtype::i32 : Dtype::i64;
}

bool same_type(const DLDataType& a, const DLDataType& b) { return a.code == b.code && a.bits == b.bits; }

void read_types(const quern_copy_args& args, Request& request) {
  const DLTensor* from = nullptr;
  for (std::size_t i = 0; i < request.count; ++i) {
    const DLTensor* const in = args.inputs[i];
    if (!same_type(args.outputs[i]->dtype, args.outputs[0]->dtype)) {
      throw Error(QUERN_INVALID, std::string(kOutputs[i]) + " is " + type_text(args.outputs[i]->dtype) +
                                     "; allowed: as outputs[0], " + type_text(args.outputs[0]->dtype));
    }
    if (in == nullptr) continue;
    if (from == nullptr) from = in;
    if (!same_type(in->dtype, from->dtype)) {
      throw Error(QUERN_INVALID, std::string(kInputs[i]) + " is " + type_text(in->dtype) +
                                     "; allowed: as the first input, " + type_text(from->dtype));
    }
  }
  const View& out = request.views[0][0];
  request.to_bytes = out.bytes;
  const bool copies = from == nullptr || same_type(from->dtype, args.outputs[0]->dtype);
  if (copies) {
    request.from = request.to = bits_of(out.bytes);
    request.from_bytes = out.bytes;
    return;
  }
  for (std::size_t i = 0; i < request.count; ++i) {
    const bool in_unknown = !request.filled[i] && request.views[i][1].dtype == Dtype::other;
    if (!in_unknown && out.dtype != Dtype::other) continue;
    refuse_dtype(in_unknown ? kInputs[i] : kOutputs[i], in_unknown ? args.inputs[i]->dtype : args.outputs[i]->dtype,
                 {Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::e4m3, Dtype::e5m2, Dtype::i8, Dtype::u8, Dtype::i16,
                  Dtype::i32, Dtype::i64, Dtype::boolean});
  }
  request.from = dtype_of(from->dtype), request.to = out.dtype;
  request.from_bytes = bytes_of(request.from);
}

Request read_request(const quern_copy_args& args, const Runtime& runtime, bool may_lack_data) {
  Request request{};
  request.call = read_call(runtime, args, 0, "enum quern_call_flags", 1, may_lack_data);
  if (args.input_count < 1 || args.input_count > q::kCopyParts)
    refuse_value("input_count", std::int64_t{args.input_count}, "1 to 16");
  if (args.output_count != args.input_count)
    refuse_value("output_count", std::int64_t{args.output_count}, "input_count");
  if (args.inputs == nullptr) refuse_missing("inputs");
  if (args.outputs == nullptr) refuse_missing("outputs");
  request.count = args.input_count;
  for (std::size_t i = 0; i < request.count; ++i) {
    View& out = request.views[i][0];
    out = read_view(args.outputs[i], kOutputs[i], request.call.place, true);
    expect_apart(out, kOutputs[i]);
    expect_data_aligned(out, kOutputs[i], request.call.alignment);
    request.filled[i] = args.inputs[i] == nullptr;
    if (request.filled[i]) {
      request.views[i][1] = out;
      continue;
    }
    const View in = read_view(args.inputs[i], kInputs[i], request.call.place, true);
    request.views[i][1] = broadcast(in, kInputs[i], out, kOutputs[i]);
    expect_data_aligned(request.views[i][1], kInputs[i], request.call.alignment);
  }
  for (std::size_t i = 0; i < request.count; ++i) {
    for (std::size_t j = 0; j < request.count; ++j) {
      const View& out = request.views[i][0];
      if (!request.filled[j] && overlap(request.views[j][1], out) && !(i == j && lie_alike(request.views[j][1], out)))
        throw Error(QUERN_INVALID, std::string(kInputs[j]) + " lies over " + kOutputs[i] +
                                       "; allowed: apart, or the part's own output with its shape, strides and size "
                                       "of element");
      if (j < i && overlap(request.views[j][0], out))
        throw Error(QUERN_INVALID, std::string(kOutputs[i]) + " lies over " + kOutputs[j] + "; allowed: apart");
    }
  }
  read_types(args, request);
  request.fill = fill_bits(args.fill, request.views[0][0].dtype);
  return request;
}

std::size_t at(int d) { return static_cast<std::size_t>(d); }

// A part whose sides are contiguous along different dimensions goes through shared memory where both are long enough to
// fill transactions.
Part part_of(const Request& request, std::size_t i) {
  Part part{walk(request.views[i], false), request.filled[i], -1, 0, 1};
  const Walk& w = part.walk;
  for (int d = 1; d < w.rank; ++d) part.rows *= w.shape[at(d)];
  if (part.filled || w.strides[0][0] != 1 || w.strides[1][0] == 1 || w.strides[1][0] == 0) return part;
  constexpr std::int64_t kLine = 32;
  for (int d = 1; d < w.rank; ++d) {
    const std::int64_t tiles_k = (w.shape[at(d)] * request.from_bytes + 127) / 128;
    const bool fits = tiles_k * ((w.shape[0] + 127) / 128) * (part.rows / w.shape[at(d)]) < INT32_MAX &&
                      w.shape[at(d)] < INT32_MAX && w.shape[0] < INT32_MAX;
    if (w.strides[1][at(d)] == 1 && fits && w.shape[at(d)] * request.from_bytes >= kLine &&
        w.shape[0] * request.to_bytes >= kLine)
      part.across = d;
  }
  return part;
}

// Elements of an access of 16 bytes at most, as a promise and the strides but those along `skip` allow.
int access(const Request& request, const Walk& walk, int tensor, int skip, std::int64_t bytes, int most) {
  Walk others = walk;
  others.strides[at(tensor)][at(skip)] = 0;
  // widest looks at all dimensions but the first.
  if (skip != 0) std::swap(others.strides[at(tensor)][0], others.strides[at(tensor)][at(skip)]);
  return widest(others, tensor, bytes, request.call.alignment, std::min<int>(most, static_cast<int>(16 / bytes)));
}

Shape tiles_shape(const Request& request, const Part& part) {
  Shape shape;
  shape.form = Form::tiles;
  shape.from = request.from, shape.to = request.to;
  shape.rank = part.walk.rank;
  return shape;
}

Shape transpose_shape(const Request& request, const Part& part) {
  Shape shape;
  shape.form = Form::transpose;
  shape.from = request.from, shape.to = request.to;
  shape.rank = part.walk.rank;
  const int vector = static_cast<int>(16 / request.from_bytes);
  shape.from_width = access(request, part.walk, 1, part.across, request.from_bytes, vector);
  shape.width = access(request, part.walk, 0, 0, request.to_bytes, vector);
  // Accesses of less than 4 bytes are single elements.
  if (shape.from_width * request.from_bytes < 4) shape.from_width = 1;
  if (shape.width * request.to_bytes < 4) shape.width = 1;
  return shape;
}

struct Rows {
  Shape shape;
  std::array<Part, q::kCopyParts> parts;
  std::size_t count = 0;
};

// The parts that one launch copies: as many elements at once as all of them allow.
void finish_rows(const Request& request, Rows& rows) {
  Shape& shape = rows.shape;
  shape.form = Form::rows;
  shape.from = request.from, shape.to = request.to;
  shape.parts = rows.count == 1 ? 1 : rows.count <= 4 ? 4 : 16;
  shape.width = static_cast<int>(16 / std::max(request.from_bytes, request.to_bytes));
  for (std::size_t i = 0; i < rows.count; ++i) {
    const Walk& w = rows.parts[i].walk;
    shape.rank = std::max(shape.rank, w.rank);
    shape.width = w.strides[0][0] == 1 ? widest(w, 0, request.to_bytes, request.call.alignment, shape.width) : 1;
    if (rows.parts[i].filled || w.strides[1][0] == 0) continue;
    // Elements that lie apart are read best by neighbouring threads.
    shape.width = w.strides[1][0] == 1 ? widest(w, 1, request.from_bytes, request.call.alignment, shape.width) : 1;
  }
  for (std::size_t i = 0; i < rows.count; ++i) {
    Part& part = rows.parts[i];
    part.vectors = (part.walk.shape[0] + shape.width - 1) / shape.width;
    shape.wide = shape.wide || part.rows * part.vectors >= kNarrow;
    for (int d = 0; d < part.walk.rank; ++d) {
      for (std::size_t side = 0; side < 2; ++side) {
        const std::int64_t bytes = part.walk.strides[side][at(d)] * (side == 0 ? request.to_bytes : request.from_bytes);
        shape.wide = shape.wide || bytes > INT32_MAX || bytes < INT32_MIN;
      }
    }
  }
}

const jit::Kernel* kernel_of(const Shape& shape, const Runtime& runtime, const quern_copy_args& args) {
  return kernel_for(runtime, to_spec(shape, runtime.driver->device().limits.target), args.flags, args.stream);
}

jit::Launch launch_of(const quern_copy_args& args, std::int64_t blocks) {
  jit::Launch launch;
  launch.grid[0] = static_cast<std::uint32_t>(std::min<std::int64_t>(blocks, INT32_MAX));
  launch.block[0] = kThreads;
  launch.programmatic = (args.flags & QUERN_CALL_PROGRAMMATIC) != 0;
  launch.stream = args.stream;
  return launch;
}

void run_transpose(const Request& request, const Part& part, const Runtime& runtime, const quern_copy_args& args) {
  const Walk& w = part.walk;
  const bool few = part.rows * w.shape[0] <= std::int64_t{request.call.sms} * kFewElements;
  const Shape shape = few ? tiles_shape(request, part) : transpose_shape(request, part);
  q::TransposeParams p{};
  p.from = w.data[1], p.to = w.data[0];
  p.k = w.shape[at(part.across)], p.l = w.shape[0];
  p.from_l = w.strides[1][0] * request.from_bytes;
  p.to_k = w.strides[0][at(part.across)] * request.to_bytes;
  const std::int64_t side_k = few ? q::kCopySide : 128 / request.from_bytes, side_l = few ? q::kCopySide : 128;
  const std::int64_t tiles_k = (p.k + side_k - 1) / side_k, tiles_l = (p.l + side_l - 1) / side_l;
  std::int64_t tiles = tiles_k * tiles_l;
  p.tiles_k = divisor(static_cast<std::int32_t>(tiles_k)), p.tiles_l = divisor(static_cast<std::int32_t>(tiles_l));
  std::size_t outer = 0;
  for (int d = 1; d < w.rank; ++d) {
    if (d == part.across) continue;
    p.outer[outer] = divisor(static_cast<std::int32_t>(w.shape[at(d)]));
    p.from_outer[outer] = w.strides[1][at(d)] * request.from_bytes;
    p.to_outer[outer++] = w.strides[0][at(d)] * request.to_bytes;
    tiles *= w.shape[at(d)];
  }
  p.tiles = static_cast<std::int32_t>(tiles);
  const jit::Kernel* kernel = kernel_of(shape, runtime, args);
  const std::int64_t most = args.max_sms > 0 ? std::int64_t{request.call.sms} * kTransposeBlocks : INT32_MAX;
  ops::launch(runtime, *kernel, launch_of(args, std::min(tiles, most)), "launching copy", p);
}

q::CopyPart params_of(const Request& request, const Part& part, const Shape& shape) {
  q::CopyPart p{};
  const Walk& w = part.walk;
  p.from = part.filled ? nullptr : w.data[1];
  p.to = w.data[0];
  for (int d = 0; d < w.rank; ++d) {
    p.dims[d].to = q::distance(w.strides[0][at(d)] * request.to_bytes);
    p.dims[d].from = q::distance(w.strides[1][at(d)] * request.from_bytes);
  }
  for (int d = 0; d < shape.rank - 1; ++d) {
    const std::int64_t value = d == 0 ? part.vectors : d < w.rank ? w.shape[at(d)] : 1;
    q::CopyExtent& extent = p.dims[d].extent;
    extent.value = value;
    if (shape.wide) continue;
    const q::Divisor by = divisor(static_cast<std::int32_t>(value));
    extent.multiplier = by.multiplier, extent.shift = by.shift;
  }
  p.vectors = part.vectors * part.rows;
  p.whole = w.shape[0] / shape.width;
  p.left = static_cast<std::int32_t>(w.shape[0] % shape.width);
  p.repeated = w.strides[1][0] == 0 ? 1 : 0;
  return p;
}

// Whether anything is read more than once.
bool repeats(const Rows& rows) {
  for (std::size_t i = 0; i < rows.count; ++i) {
    const Walk& w = rows.parts[i].walk;
    for (int d = 0; d < w.rank; ++d) {
      if (!rows.parts[i].filled && w.strides[1][at(d)] == 0 && w.shape[at(d)] > 1) return true;
    }
  }
  return false;
}

void run_rows(const Request& request, const Rows& rows, const Runtime& runtime, const quern_copy_args& args) {
  const jit::Kernel* kernel = kernel_of(rows.shape, runtime, args);
  q::CopyParams p{};
  const auto part = [&](std::size_t i) -> q::CopyPart& { return i == 0 ? p.first : p.others[i - 1]; };
  p.fill = request.fill;
  std::int64_t vectors = 0;
  for (std::size_t i = 0; i < rows.count; ++i) {
    part(i) = params_of(request, rows.parts[i], rows.shape);
    vectors += part(i).vectors;
  }
  // Few vectors are spread over all multiprocessors, one a thread, by blocks that start sooner; many come several to a
  // thread, but where 16 bytes are read and written each time: blocks that come and go spread these better.
  const std::int64_t threads_at_once = std::int64_t{request.call.sms} * 2048;
  const bool plain = rows.shape.width * std::min(request.from_bytes, request.to_bytes) == 16 && !repeats(rows);
  const std::int64_t most_each = plain ? 1 : steps(rows.shape);
  p.tile = static_cast<std::int32_t>(std::clamp<std::int64_t>(vectors / threads_at_once, 1, most_each)) * kThreads;
  // Whoever has one vector at most loads its row's first one where its own is not whole.
  bool at_once = true;
  for (std::size_t i = 0; i < rows.count; ++i)
    at_once = at_once && !rows.parts[i].filled && (part(i).whole > 0 || part(i).repeated != 0);
  const bool cuda = runtime.driver->device().limits.target.family() == jit::Family::cuda;
  if (cuda && at_once && args.max_sms == 0 && vectors <= std::int64_t{request.call.sms} * kFewBlocks * kFewThreads)
    p.tile = kFewThreads;
  for (std::size_t i = 0; i < rows.count; ++i) {
    p.first_tile[i] = p.tiles;
    p.tiles += (part(i).vectors + p.tile - 1) / p.tile;
  }
  for (std::size_t i = rows.count; i < at(rows.shape.parts); ++i) p.first_tile[i] = p.tiles;
  const std::int64_t most = args.max_sms > 0 ? std::int64_t{request.call.sms} * 8 : INT32_MAX;
  p.single = p.tile <= kThreads && p.tiles <= most && at_once ? 1 : 0;
  jit::Launch launch = launch_of(args, std::min<std::int64_t>(p.tiles, most));
  if (p.single != 0) launch.block[0] = static_cast<std::uint32_t>(p.tile);
  ops::launch(runtime, *kernel, launch, "launching copy", p);
}

// Caches and activations are moved by ops of their own.
void list(const quern_model&, const jit::TargetInfo&, std::vector<jit::Spec>*) {}

// Calls `transpose` with each part that goes through shared memory, and `copy` with the others.
template <class Transpose, class Copy>
void each_launch(const Request& request, bool with_empty, Transpose transpose, Copy copy) {
  Rows rows;
  for (std::size_t i = 0; i < request.count; ++i) {
    if (!with_empty && request.views[i][0].count() == 0) continue;
    const Part part = part_of(request, i);
    if (part.across >= 0) {
      transpose(part);
    } else {
      rows.parts[rows.count++] = part;
    }
  }
  if (rows.count == 0) return;
  finish_rows(request, rows);
  copy(rows);
}

}  // namespace

const Op op{"copy", unit, parse, list, constants};

std::uint64_t workspace(const Runtime& runtime, const quern_copy_args& args) {
  read_request(args, runtime, true);
  return 0;
}

// As pointwise: extents of the first dimension that are merged otherwise or end within a vector.
void prepare(const Runtime& runtime, const quern_copy_args& args) {
  const Request request = read_request(args, runtime, true);
  for (const std::int64_t less : {0, 1, 2}) {
    Request smaller = request;
    for (std::size_t i = 0; i < request.count; ++i) {
      if (request.views[i][0].rank == 0) continue;
      const std::int64_t given = request.views[i][0].shape[0];
      const std::int64_t first = less == 0 ? given : less == 1 ? std::max<std::int64_t>(given - 1, 0) : 1;
      for (View& view : smaller.views[i]) view.shape[0] = std::min(first, given);
    }
    each_launch(
        smaller, true,
        [&](const Part& part) {
          kernel_of(transpose_shape(smaller, part), runtime, args);
          kernel_of(tiles_shape(smaller, part), runtime, args);
          // Where it is too short to go through shared memory.
          Rows alone;
          alone.parts[alone.count++] = part;
          finish_rows(smaller, alone);
          kernel_of(alone.shape, runtime, args);
        },
        [&](const Rows& rows) {
          Shape shape = rows.shape;
          kernel_of(shape, runtime, args);
          if (!shape.wide) return;
          shape.wide = false;
          kernel_of(shape, runtime, args);
        });
  }
}

void run(const Runtime& runtime, const quern_copy_args& args) {
  const Request request = read_request(args, runtime, false);
  each_launch(
      request, false, [&](const Part& part) { run_transpose(request, part, runtime, args); },
      [&](const Rows& rows) { run_rows(request, rows, runtime, args); });
}

}  // namespace quern::ops::copy
