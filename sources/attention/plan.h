// The compile-time side of attention: what distinguishes its kernels, and the tile sizes that follow from it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "jit/spec.h"
#include "jit/target.h"
#include "jit/unit.h"
#include "sources/op.h"
#include "sources/tensor.h"

namespace quern::ops::attention {

// Which kernel, by the rows (queries times the query heads of a KV head) that a sequence has at most.
enum class Variant : std::uint8_t {
  decode,      // up to 16 rows; bound by reading keys and values
  medium,      // tiles of 64 rows; every length where the call is batch-invariant
  large,       // the tallest tiles that the target has room for
  warpgroups,  // on Hopper, instead of large and for batch-invariant calls, where it can be: takes_warpgroups()
  streams,     // on Hopper, instead of decode, where it can be: takes_streams()
  wide_few,    // instead of decode where a head dim is larger than kMaxNarrowDim
  wide,        // instead of all the others there
  wide_pairs   // on Hopper, instead of wide, where it can be: takes_wide_pairs()
};
inline constexpr int kVariants = 8;

// Everything that is a constant of a kernel.
struct Shape {
  Variant variant = Variant::decode;
  Dtype element = Dtype::bf16;  // of what is multiplied
  Dtype q = Dtype::bf16;        // element, e4m3 or e5m2
  Dtype cache = Dtype::bf16;    // of keys and values: element, e4m3, e5m2 or i8
  Dtype out = Dtype::bf16;      // of the results: element, or with a scale for each 128 e4m3 or e5m2
  bool token_scales = false;    // keys and values have a scale a token and head
  bool mask = false;            // the custom one
  int dim_k = 0;                // multiples of 8, up to kMaxDim
  int dim_v = 0;
  int group = 1;      // query heads of a KV head
  int page_size = 0;  // one of the fast ones; 0: any, told at run time
  bool paged = true;  // else ragged
  bool cap = false;
  bool alibi = false;
  bool sinks = false;
  int copy_bytes = 16;  // 16, or 4 where rows are not aligned to 16

  bool is_wide() const;
  bool codes_results() const { return bytes_of(out) == 1; }
  int cache_bytes() const { return static_cast<int>(bytes_of(cache)); }
  // Bytes of keys and values that are copied at once.
  int cache_copy_bytes() const {
    return copy_bytes == 16 && dim_k * cache_bytes() % 16 == 0 && dim_v * cache_bytes() % 16 == 0 ? 16 : 4;
  }
};
inline constexpr int kMaxDim = 1024, kMaxNarrowDim = 256;
inline bool Shape::is_wide() const { return dim_k > kMaxNarrowDim || dim_v > kMaxNarrowDim; }
// What queries, keys and values may be where heads are wide, or null where these are such.
const char* refusal_of_wide(const Shape& shape);
// The same of results of 8 bits.
const char* refusal_of_coded_results(const Shape& shape);

// The page size as a constant: itself where that makes a faster kernel, else 0.
int constant_page_size(std::int64_t page_size);

// How a kernel of this shape is tiled on a target.
struct Tiling {
  int rows = 0;       // of a tile
  int row_tiles = 1;  // 16-row tiles of a warp
  int warps = 0;
  int block = 0;  // keys at once
  int stages = 0;
  int query_stages = 1;  // tiles of queries in shared memory
  int blocks_per_sm = 1;
  int cluster = 1;  // blocks of threads that have a tile together
  int threads = 0;
  std::uint32_t shared_bytes = 0;  // dynamic
  int columns = 0;                 // of wide heads: at once
  bool hold_queries = false;       // and whether the queries stay in shared memory
  bool two_weights = false;        // of warpgroups: registers have room for two blocks of weights
  int code_stages = 0;             // and blocks of codes on their way to what is multiplied
};
// Whether the target has warpgroups, and they can copy and multiply what the shape says, whatever its variant.
bool takes_warpgroups(const Shape& shape, const jit::TargetInfo& target);
// Whether it has these, and pairs of blocks of them can have wide heads such as the shape's, whatever its variant.
bool takes_wide_pairs(const Shape& shape, const jit::TargetInfo& target);
// Whether the target has Hopper's decode kernel, and that can copy what the shape says, whatever its variant.
bool takes_streams(const Shape& shape, const jit::TargetInfo& target);
// The variant for up to 16 rows a KV head, and the one for up to 64.
Variant decode_variant(const Shape& shape, const jit::TargetInfo& target);
Variant medium_variant(const Shape& shape, const jit::TargetInfo& target);
// Throws Error(QUERN_UNSUPPORTED) when the target has no room for the smallest tiles, or no warpgroups and is to have
// them.
Tiling tile(const Shape& shape, const jit::TargetInfo& target);

jit::Spec to_spec(const Shape& shape, jit::Target target);
Shape to_shape(const jit::Spec& spec);

// What a manifest says of a shape, and back. Throws Error(QUERN_INVALID).
Constants to_constants(const Shape& shape);
Shape from_constants(const Constants& constants);

// The unit that a shape stands for on a target.
jit::Unit to_unit(const Shape& shape, jit::Target target);

}  // namespace quern::ops::attention
