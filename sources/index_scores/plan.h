// The compile-time side of index_scores: what distinguishes its kernels, and the tile sizes that follow from it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "jit/spec.h"
#include "jit/target.h"
#include "jit/unit.h"
#include "sources/index_scores/params.cuh"
#include "sources/op.h"
#include "sources/tensor.h"

namespace quern::ops::index_scores {

// Which kernel. The choice depends on a call's heads, dims, pages and alignment, never on what is in the batch.
enum class Variant : std::uint8_t {
  portable,
  warpgroups  // sm_90a: 64 heads of 128, rows aligned to 16 bytes, pages of a multiple of 8 keys
};
inline constexpr int kVariants = 2;
inline constexpr int kMostHeads = 128, kMostDim = 256, kMostNumbers = 16384;  // of a query, heads in whole tiles

// Everything that is a constant of a kernel.
struct Shape {
  Variant variant = Variant::portable;
  Dtype code = Dtype::e4m3;  // or e5m2
  int dim = 128;
  int head_rows = 64;  // heads, rounded up to 16
  int tokens = 1;      // queries of a tile
  bool ragged = false;
  int alignment = 16;  // bytes that rows are aligned to: 16 or 4
  int page_rows = 64;  // warpgroups: keys of a page that one copy takes: 8, 16, 32, 64
};

// The kernel that a call takes on a target; it fills in what Shape says of tiles. `page_size` is not looked at where
// keys are not in pages.
void choose(Shape& shape, std::int64_t heads, std::int64_t max_q_len, std::int64_t page_size,
            const jit::TargetInfo& target);

// How a kernel of this shape is tiled on a target.
struct Tiling {
  int keys = 0;  // at once
  int threads = 0;
  int blocks_per_sm = 1;
  std::uint32_t shared_bytes = 0;  // dynamic
};
// Throws Error(QUERN_UNSUPPORTED) when the target has no room for the smallest tiles.
Tiling tile(const Shape& shape, const jit::TargetInfo& target);

jit::Spec to_spec(const Shape& shape, jit::Target target);
Shape to_shape(const jit::Spec& spec);
Constants to_constants(const Shape& shape);
// Throws Error(QUERN_INVALID).
Shape from_constants(const Constants& constants);
jit::Unit to_unit(const Shape& shape, jit::Target target);

}  // namespace quern::ops::index_scores
