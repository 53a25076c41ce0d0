// Which kernel a call takes, and of few rows how wide its tiles are.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <string>

#include "jit/error.h"
#include "sources/quantized_gemm/plan/shape.h"

namespace quern::ops::quantized_gemm {
namespace {

// How long few rows take beyond what every call does, in nanoseconds, roughly: to choose by. Of whole tiles, or of all
// tiles' k blocks if blocks of threads divide them evenly. Measured on an H200: a multiprocessor reads and unpacks so
// many bytes a nanosecond; multiplying takes time as if a line had more bytes; every tile reads a's rows besides, as if
// they were some more of them; and blocks add up their sums.
struct Cost {
  double whole, divided;
  double least() const { return std::min(whole, divided); }
};
Cost cost_of(const Shape& shape, const Extents& call) {
  const int bits = bits_of(shape.code_b), rows = rows_of(shape.rows), columns = shape.columns;
  double bytes = bits / 8.0, of_rows = rows == 8 ? 7 : 20;  // of a line and a k; of a's rows and a k
  if (rows == 16) bytes += bits == 4 ? 0.1 : 0.05;
  if (rows == 32) {
    const bool scaled = shape.code_b == Code::e2m1;
    bytes += bits == 8 ? (shape.integers() ? 0.1 : 0.2) : scaled ? 0.63 : shape.zeros ? 0.73 : 0.53;
    if (bits == 8 || scaled) of_rows = shape.groups_a && shape.group == 16 ? 56 : 34;
  }
  if (shape.integers()) of_rows *= bits == 8 && rows == 32 ? 0.24 : 0.4;
  const double k = static_cast<double>(call.k) / (bits == 4 ? 28 : 34), adding_up = 6500 + rows * columns;
  const auto tiles = static_cast<double>((call.lines + columns - 1) / columns), sms = static_cast<double>(call.sms);
  return {std::ceil(tiles / sms) * (columns * bytes + of_rows) * k,
          (static_cast<double>(call.lines) * bytes + tiles * of_rows) * k / sms + adding_up};
}
// Integers of 4 bits are unpacked and scaled by rows32 as fast, from some size of b on.
double cost_of_rows32(const Extents& call) {
  return static_cast<double>(call.lines) * static_cast<double>(call.k) / 2 / (12.5 * call.sms) + 7500;
}

// With tiles of as many columns as is best for a call, if there is room for any.
std::optional<Shape> with_columns(Shape shape, const Extents& call, const jit::TargetInfo& target) {
  std::optional<Shape> best;
  double least = 0;
  for (const int columns : {256, 128, 64, 32}) {
    shape.columns = columns;
    const double time = cost_of(shape, call).least();
    if (!tile(shape, target) || (best && time >= least)) continue;
    best = shape, least = time;
  }
  const bool unpacked = !shape.integers() && (shape.code_b == Code::int4 || shape.code_b == Code::uint4);
  if (shape.rows == Variant::few32 && unpacked && least > cost_of_rows32(call)) return {};
  return best;
}

// What is taken instead of a shape that a target has no room for; rows16 itself if there is no other.
Shape next_best(Shape shape) {
  if (is_few(shape.rows) && shape.columns < 256) {
    shape.columns = shape.columns < 128 ? 2 * shape.columns : 256;
    return shape;
  }
  shape.columns = 128;
  switch (shape.rows) {
    case Variant::warpgroups:
    case Variant::integers:
      shape.rows = Variant::rows128;
      break;
    case Variant::rows128:
      shape.rows = Variant::rows64;
      break;
    case Variant::rows64:
    case Variant::few32:
      shape.rows = Variant::rows32;
      break;
    case Variant::few8:
      shape.rows = Variant::few16;
      break;
    default:
      shape.rows = Variant::rows16;
  }
  return shape;
}

}  // namespace

Shape fitting(Shape shape, const jit::TargetInfo& target) {
  while (!tile(shape, target)) {
    if (shape.rows == Variant::rows16) {
      throw Error(QUERN_UNSUPPORTED,
                  "a product of these numbers does not fit the shared memory of " + target.target.name());
    }
    shape = next_best(shape);
  }
  return shape;
}

bool pays_to_divide(const Shape& shape, const Extents& call) {
  const Cost cost = cost_of(shape, call);
  return cost.divided < cost.whole;
}

Shape choose(const Shape& shape, const Extents& call, const jit::TargetInfo& target) {
  Shape wanted = shape;
  const std::int64_t rows = call.rows;
  // Not every target has tiles of eight rows.
  for (const Variant few : {Variant::few8, Variant::few16, Variant::few32}) {
    wanted.rows = few;
    if (call.invariant || rows > rows_of(few)) continue;
    if (const std::optional<Shape> best = with_columns(wanted, call, target)) return *best;
  }
  wanted.columns = 128;
  // Up to here weights are read as fast as the other tiles multiply.
  constexpr std::int64_t kFewRows = 64;
  if (!call.invariant && rows > kFewRows && call.mapped && tile_warpgroups(shape, target)) {
    wanted.rows = Variant::warpgroups;
    return wanted;
  }
  if (rows > kFewRows) {
    if (const std::optional<Shape> best = choose_integers(wanted, call, target)) return *best;
  }
  wanted.rows = rows <= 16   ? Variant::rows16
                : rows <= 32 ? Variant::rows32
                : rows <= 64 ? Variant::rows64
                             : Variant::rows128;
  return fitting(wanted, target);
}

}  // namespace quern::ops::quantized_gemm
