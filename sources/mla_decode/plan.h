// The compile-time side of MLA decode: what distinguishes its kernels, and the tile sizes that follow from it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "jit/spec.h"
#include "jit/target.h"
#include "jit/unit.h"
#include "sources/mla_decode/params.cuh"
#include "sources/op.h"
#include "sources/tensor.h"

namespace quern::ops::mla_decode {

// Which kernel. The choice depends on a call's heads, dims, cache and most query tokens of a sequence.
enum class Variant : std::uint8_t {
  rows16,    // portable, tiles of 16 rows: up to 16 heads
  rows32,    // portable, tiles of 32 rows
  rows64,    // sm_90a: two warpgroups, tiles of 64 rows, keys copied by tensor maps
  gather64,  // the same, keys looked up and read one by one: any cache, lists, any page size
  few16,     // sm_90a: tiles of 16 rows: up to 16 heads, and where the cache has q's type no more rows
  combine    // joins the pieces that any of the others left
};
inline constexpr int kVariants = 6;

// Which keys a query sees.
enum class Indexed : std::uint8_t { no, positions, slots };

// Everything that is a constant of a kernel.
struct Shape {
  Variant variant = Variant::rows32;
  Dtype element = Dtype::bf16;  // of queries and results
  q::CacheKind kind = q::CacheKind::plain;
  int d_latent = 512;  // multiples of 16, up to kMaxLatent
  int d_rope = 64;     // multiples of 16, up to kMaxRope, and 0
  Indexed indexed = Indexed::no;
  bool cap = false;
  int copy_bytes = 16;  // 16, or 4 where rows are not aligned to 16
  bool paired = false;  // gather64: two blocks of threads with tiles of one sequence are a cluster
  int page_rows = 64;   // rows64: tokens of a page that one copy takes: 8, 16, 32, 64
  int rows = 64;        // combine: of the tiles of the kernel before ...
  int block = 128;      // ... and its keys at once, in which a batch-invariant call's pieces are counted
};
inline constexpr int kMaxLatent = 512, kMaxRope = 128;

// The kernel that a call takes on a target. `most_rows`: of a sequence, query tokens times heads; unbounded where what
// is in the batch must not matter.
Variant variant_of(const Shape& shape, std::int64_t heads, std::int64_t most_rows, std::int64_t page_size,
                   const jit::TargetInfo& target);
// Whether its tiles side by side are clusters that share what they copy: where every query has more than one.
bool is_paired(const Shape& shape, std::int64_t heads);
// The greatest power of two, up to 64, that divides a page size.
int page_rows_of(std::int64_t page_size);

// Whether a shape's kernel joins an item that was cut into two pieces.
bool joins_pairs(const Shape& shape);

// How a kernel of this shape is tiled on a target.
struct Tiling {
  int rows = 0;   // of a tile
  int block = 0;  // keys at once
  int stages = 0;
  int threads = 0;
  int blocks_per_sm = 1;
  int side_by_side = 1;            // tiles of one sequence taken at the same time, at most
  int price = 0;                   // of an item, in blocks of keys
  int cut_price = 0;               // of a run that begins and ends within items, likewise
  std::uint32_t shared_bytes = 0;  // dynamic
};
// Throws Error(QUERN_UNSUPPORTED) when the target has no room for the smallest tiles.
Tiling tile(const Shape& shape, const jit::TargetInfo& target);

// The shape of the kernel that joins what a shape's kernel leaves.
Shape combine_of(const Shape& shape, const Tiling& tiling);

jit::Spec to_spec(const Shape& shape, jit::Target target);
Shape to_shape(const jit::Spec& spec);

// What a manifest says of a shape, and back. Throws Error(QUERN_INVALID).
Constants to_constants(const Shape& shape);
Shape from_constants(const Constants& constants);

// The unit that a shape stands for on a target.
jit::Unit to_unit(const Shape& shape, jit::Target target);

}  // namespace quern::ops::mla_decode
