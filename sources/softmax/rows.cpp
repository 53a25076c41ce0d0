// SPDX-License-Identifier: Apache-2.0
#include "sources/softmax/rows.h"

#include <algorithm>
#include <bit>

#include "jit/error.h"
#include "sources/clusters.h"
#include "sources/common_headers.h"
#include "sources/embedded.h"
#include "sources/softmax/params.cuh"

namespace quern::ops {

constexpr std::int64_t kMostRows = 1 << 24;

namespace {

// Of static shared memory: histograms, lists.
constexpr std::uint32_t kOtherShared = 36 * 1024;

// Elements that a thread can hold.
std::int64_t most_each(Held where, const jit::TargetInfo& target) {
  const int each = q::kHeldElements / threads_of(where);
  if (where == Held::registers) return each;
  const std::int64_t room = std::int64_t{target.shared_per_block} - kOtherShared;
  return std::clamp<std::int64_t>(room / (4 * q::kRowThreads), 0, each) / 8 * 8;
}

// Blocks that may share a row.
int most_blocks(const jit::TargetInfo& target, int sms, int threads) {
  if (!target.tensor_maps) return 1;
  // `host` runs clusters of 64 warps.
  const int of_target = target.target.family() == jit::Family::host ? 64 * 32 / threads : q::kMostRowBlocks;
  return std::min<int>(of_target, static_cast<int>(std::bit_floor(static_cast<unsigned>(sms))));
}

constexpr std::int64_t kResident = 2;  // blocks of a multiprocessor

}  // namespace

int threads_of(Held where) { return where == Held::registers ? q::kRegisterThreads : q::kRowThreads; }

RowShare share_row(std::int64_t n, Dtype element, Held where, int sms, const jit::TargetInfo& target) {
  RowShare share{{false, target.tensor_maps}, threads_of(where), 1, 0, 0};
  const std::int64_t vector = 16 / bytes_of(element), tile = vector * target.warp_size,
                     warps = share.threads / static_cast<int>(target.warp_size);
  // A row may begin anywhere in a vector.
  const std::int64_t tiles = (n + vector - 1 + tile - 1) / tile;
  const int most = most_blocks(target, sms, share.threads);
  const std::int64_t held_tiles = most_each(where, target) / vector;
  const auto tiles_each = [&](std::int64_t blocks) { return (tiles + blocks * warps - 1) / (blocks * warps); };
  while (share.blocks < most && tiles_each(share.blocks) > held_tiles) share.blocks *= 2;
  share.shape.held = tiles_each(share.blocks) <= held_tiles;
  share.each = static_cast<int>(tiles_each(share.blocks) * vector);
  if (where == Held::registers && share.shape.held) {
    // Half as many threads with twice as many elements, where that leaves room for three blocks: short rows then need
    // fewer rounds of clusters.
    constexpr int kFewer = q::kRegisterThreads / q::kShortThreads;
    const std::int64_t fewer = share.blocks * warps / kFewer;
    if ((tiles + fewer - 1) / fewer * vector <= q::kShortEach)
      share.threads = q::kShortThreads, share.each = q::kShortEach;
  }
  if (where == Held::shared_memory && share.shape.held)
    share.kept_bytes = static_cast<std::uint32_t>((tiles_each(share.blocks) * vector + 7) / 8 * 8 * 4 * share.threads);
  return share;
}

RowShare spread_rows(std::int64_t rows, std::int64_t n, int each, int sms, const jit::TargetInfo& target) {
  RowShare share{{false, target.tensor_maps}, q::kRowThreads, most_blocks(target, sms, q::kRowThreads), 0, each};
  const std::int64_t work = std::int64_t{q::kRowThreads} * each / 2, of_grid = kResident * sms,
                     wanted = std::min(of_grid / std::max<std::int64_t>(rows, 1), n / work);
  share.blocks =
      static_cast<int>(std::bit_floor(static_cast<std::uint64_t>(std::clamp<std::int64_t>(wanted, 1, share.blocks))));
  // A cluster lies within one group of multiprocessors: where not all of them are there at once, but smaller ones are,
  // the last few would take as long again.
  const auto at_once = [&](int blocks) { return kResident * most_clusters(blocks, sms); };
  if (share.blocks > 1 && rows > at_once(share.blocks) && rows <= at_once(share.blocks / 2)) share.blocks /= 2;
  return share;
}

void set_row_grid(std::int64_t rows, const RowShare& share, int sms, bool bounded, jit::Launch* launch) {
  const std::int64_t at_once = std::max<std::int64_t>(1, kResident * sms / share.blocks);
  launch->grid[0] = static_cast<std::uint32_t>((bounded ? std::min(rows, at_once) : rows) * share.blocks);
  launch->block[0] = static_cast<std::uint32_t>(share.threads);
  launch->cluster[0] = static_cast<std::uint32_t>(share.blocks);
  launch->shared_bytes = share.kept_bytes;
}

std::uint32_t most_kept_bytes(const RowShape& shape, const jit::TargetInfo& target) {
  return shape.held ? static_cast<std::uint32_t>(most_each(Held::shared_memory, target)) * 4 * q::kRowThreads : 0;
}

void define_rows(const RowShape& shape, Held where, Dtype element, const std::string& name, int each, jit::Unit* unit) {
  if (each == 0) each = shape.held ? q::kHeldElements / threads_of(where) : q::kStreamedEach;
  unit->constants.push_back({"ELEMENT", name_of(element)});
  unit->constants.push_back({"HELD", shape.held ? "1" : "0"});
  unit->constants.push_back({"EACH", std::to_string(each)});
  const bool is_short = where == Held::registers && shape.held && each == q::kShortEach;
  unit->constants.push_back({"THREADS", std::to_string(is_short ? q::kShortThreads : threads_of(where))});
  unit->constants.push_back({"BLOCKS_PER_SM", is_short ? "3" : "2"});
  unit->source = embedded(name + "/kernels/" + (shape.cluster ? "sm90/" : "portable/") + name + ".cuh");
  unit->headers = device_headers(unit->target);
}

Tensor read_rows(const DLTensor* given, const char* name, std::initializer_list<Dtype> allowed, std::int64_t most,
                 const Place& place) {
  const Tensor t = read(given, name, 2, allowed, place);
  expect_unit_stride(t, name, 1);
  if (t.shape[1] < 1 || t.shape[1] > most) refuse_extent(name, 1, t.shape[1], ("1 to " + std::to_string(most)).c_str());
  if (t.shape[0] > kMostRows) refuse_extent(name, 0, t.shape[0], "at most 2^24");
  return t;
}

Tensor read_rows_like(const DLTensor* given, const char* name, std::initializer_list<Dtype> allowed, const Tensor& over,
                      const char* over_name, const Place& place) {
  const Tensor t = read(given, name, 2, allowed, place);
  for (int d = 0; d < 2; ++d) expect_extent(t, name, d, over.shape[d]);
  expect_unit_stride(t, name, 1);
  expect_apart(t, name);
  if (t.data != nullptr && t.data == over.data) {
    if (t.dtype != over.dtype)
      throw Error(QUERN_INVALID, std::string(name) + " is " + over_name + ", but " + name_of(t.dtype) + " and not " +
                                     name_of(over.dtype));
    if (t.shape[0] > 1 && t.strides[0] != over.strides[0])
      throw Error(QUERN_INVALID, std::string(name) + " is " + over_name + ", but its rows lie " +
                                     std::to_string(t.strides[0]) + " elements apart and those of " + over_name + " " +
                                     std::to_string(over.strides[0]));
  }
  return t;
}

void expect_clusters(const char* op, const RowShape& shape, const jit::TargetInfo& target) {
  if (shape.cluster && !target.tensor_maps)
    throw Error(QUERN_INVALID, std::string(op) + ": cluster is 1; allowed for this target: 0");
}

}  // namespace quern::ops
