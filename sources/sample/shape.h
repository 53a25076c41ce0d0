// The constants of sample's kernel.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "sources/description.h"

namespace quern::ops::sample {

struct Shape {
  Dtype logits = Dtype::f32;
  bool edits = false;     // penalties, biases, masks
  bool filters = false;   // whatever takes tokens away by their probability, or tells of the largest
  bool clusters = false;  // kernels/sm90: a cluster takes a row
  bool streams = false;   // of them, if it filters: for many rows, which are not kept
  bool small = false;     // likewise: what does calls until the others are compiled
  bool largest = false;   // of these: log-probabilities of the largest, or of what filters leave, are asked for
};

inline constexpr int kThreads = 256;
inline constexpr int kKeptThreads = 512;           // where a cluster keeps a row,
inline constexpr int kBlocksPerSm = 3;             // resident at once
inline constexpr int kStreamBlocksPerSm = 2;       // the same where rows stream by
inline constexpr std::uint32_t kDeskBytes = 5120;  // more than a cluster's blocks have in static shared memory

// Of the kernel with these constants, for an op whose name and whose constants' description it goes by.
jit::Unit to_unit(const char* name, const Shape& shape, jit::Target target);

}  // namespace quern::ops::sample
