// What a choice costs: the microseconds that a product is expected to take.
//
// One formula holds for every variant. A block of threads takes `rounds` tiles (or, with split-K, parts of tiles) one
// after another; each has `k_blocks` k blocks, and a k block takes as long as its products or its copies, whichever is
// longer. Meanwhile memory is read once. Results and launches take their own time. The constants of the formula are
// fitted from times that were measured (costs.def says how).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "sources/gemm/plan/choose.h"

namespace quern::ops::gemm {

// Constants of a family and a kind of operands, in microseconds unless said otherwise.
struct Costs {
  double launch;     // of a launch
  double round;      // of a tile, whatever its size
  double results;    // of 1024 results of a tile
  double k_block;    // of a k block, whatever its size
  double products;   // of 128 x 128 products of a k block of 128 bytes
  double copies;     // bytes in a microsecond that a multiprocessor copies
  double memory;     // bytes in a microsecond that each multiprocessor's share of the memory gives
  double share;      // of an exchange of partial sums
  double sums;       // of 1024 partial sums that a block receives
  double part;       // of each further block that takes part in an exchange
  double l2;         // bytes in a microsecond that each multiprocessor's share of the L2 gives
  double cluster;    // of a k block whose copies are shared, for each block that shares them
  double meeting;    // of the blocks of a cluster, at the beginning and at the end of a launch
  double far;        // bytes in a microsecond that each multiprocessor's share of what joins the halves of the L2 gives
  double unaligned;  // how much longer copies of rows take that do not begin at multiples of 32 bytes
};
inline constexpr std::size_t kCostNumbers = sizeof(Costs) / sizeof(double);

// What the constants depend on besides the family: 16 bits, 8 bits with scales of rows and columns, and of blocks.
inline constexpr std::size_t kCostKinds = 3;
constexpr std::size_t cost_kind(Scales scales) { return static_cast<std::size_t>(scales); }

// What the formula takes of a choice.
struct Work {
  double rounds;         // tiles, or parts of tiles, of the block that has most
  double k_blocks;       // of each
  double rows, columns;  // of a tile, that are multiplied
  double copied;         // bytes of a k block that a multiprocessor copies
  double from_l2;        // bytes that all multiprocessors copy
  double read;           // bytes of the operands, read once, and of the results
  double far;            // bytes of the operands that both halves of the L2 read
  double unaligned;      // 1 where rows do not begin at multiples of 32 bytes
  double parts;          // blocks that divide a tile
  double sharing;        // blocks beside this one that share its copies
  double clustered;      // 1 where blocks form clusters
  double sums;           // partial sums that a block receives at the end of a tile
  double sms;
};
double microseconds(const Costs& costs, const Work& work);

// The work of a choice on a product of so many rows and groups, on `sms` multiprocessors.
Work work_of(const Problem& problem, const Tiling& tiling, const Choice& choice, const Sizes& sizes, int sms);

// As fitted on an H200, of which other devices are thought to differ alike for all choices.
const Costs& costs_of(Variant variant, Scales scales);

// With both of these a kernel may copy b before the launch in front of its own has finished.
inline constexpr std::uint32_t kEarlyCopies = QUERN_CALL_PROGRAMMATIC | QUERN_GEMM_CONSTANT_B;

// The microseconds of a choice, of any variant.
double cost_of(const Problem& problem, const Tiling& tiling, const Choice& choice, const Sizes& sizes, int sms);

}  // namespace quern::ops::gemm
