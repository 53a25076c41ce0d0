// SPDX-License-Identifier: Apache-2.0
#include "sources/norm/rows.h"

#include <algorithm>
#include <bit>
#include <string>

#include "jit/error.h"

namespace quern::ops::norm {
namespace {

constexpr int kBlockThreads = 256;  // where a warp or less takes a row

}  // namespace

RowShape fit(std::int64_t n, int alignment, std::uint32_t warp, bool twice) {
  RowShape shape;
  shape.twice = twice;
  shape.access = alignment;
  shape.tail = n % (alignment == 16 ? 8 : 4) != 0;
  const std::int64_t threads = (n + shape.held() - 1) / shape.held();
  shape.team = threads > kMostThreads ? q::kNormPieceThreads
               : threads <= static_cast<std::int64_t>(warp)
                   ? static_cast<int>(std::bit_ceil(static_cast<std::uint32_t>(std::max<std::int64_t>(threads, 1))))
                   : static_cast<int>((threads + warp - 1) / warp * warp);
  return shape;
}

int threads_of(const RowShape& shape, std::uint32_t warp) {
  return shape.team <= static_cast<int>(warp) ? kBlockThreads : shape.team;
}

void expect_team(const char* op, const RowShape& shape, Dtype element, int most, std::uint32_t warp) {
  const int lanes = static_cast<int>(warp);
  if (shape.team < 1 || shape.team > most ||
      (shape.team > lanes ? shape.team % lanes != 0 : !std::has_single_bit(static_cast<unsigned>(shape.team)))) {
    throw Error(QUERN_INVALID, std::string(op) + ": team is " + std::to_string(shape.team) +
                                   "; allowed: powers of two to " + std::to_string(lanes) + ", multiples of " +
                                   std::to_string(lanes) + " to " + std::to_string(most));
  }
  if (shape.access < bytes_of(element)) {
    throw Error(QUERN_INVALID, std::string(op) + ": access is 2; allowed with f32: 16, 8, 4");
  }
}

void define_rows(const RowShape& shape, std::uint32_t warp, jit::Unit* unit) {
  const int elements = shape.access == 16 ? 8 : 4;
  unit->constants.push_back({"TEAM", std::to_string(shape.team)});
  unit->constants.push_back({"VECTORS", std::to_string(shape.held() / elements)});
  unit->constants.push_back({"THREADS", std::to_string(threads_of(shape, warp))});
}

void Alignment::take(const Tensor& t, const char* name, std::int64_t step, bool several) {
  Tensor data = t;
  data.rank = 1;
  expect_aligned(data, name, promised_);
  const auto bytes = static_cast<std::uint64_t>(step * bytes_of(t.dtype));
  while (several && bytes % static_cast<std::uint64_t>(access_) != 0) access_ /= 2;
}

void expect_same_place(const Tensor& t, const char* name, const Tensor& other, const char* other_name) {
  if (t.data == nullptr || t.data != other.data) return;
  if (t.dtype != other.dtype) {
    throw Error(QUERN_INVALID, std::string(name) + " is " + other_name + ", but " + name_of(t.dtype) + " and not " +
                                   name_of(other.dtype));
  }
  if (t.shape[0] <= 1 || t.strides[0] == other.strides[0]) return;
  throw Error(QUERN_INVALID, std::string(name) + " is " + other_name + ", but its rows lie " +
                                 std::to_string(t.strides[0]) + " elements apart and those of " + other_name + " " +
                                 std::to_string(other.strides[0]));
}

}  // namespace quern::ops::norm
