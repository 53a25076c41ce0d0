// The run-time arguments of mla_append, and what its kernel and the library name alike.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kv_append/place_params.cuh"
#include "mla_decode/params.cuh"
#include "rope/launch_params.cuh"

namespace q {

inline constexpr i32 kAppendTeam = 32;   // threads that share a token
inline constexpr i32 kScaleGroup = 128;  // of a 656-byte row: numbers that share a scale
inline constexpr i32 kScalesAt = 512;    // byte of such a row where its scales begin,
inline constexpr i32 kRopeAt = 528;      // and its rope part

// Strides in elements unless they say bytes. Parameters come into a multiprocessor by lines of 64 bytes, each of which
// is waited for where it is first needed: what all tokens need stands together, in the order in which it is needed.
struct MlaAppendParams {
  i32 tokens;
  i32 latent_blocks;  // the first blocks of the grid take keys, the others queries
  f32 eps;
  i32 power_of_two;    // scales that are found are rounded up to powers of two
  const void* latent;  // [tokens, D_LATENT]
  const void* k_rope;  // [tokens, D_ROPE]
  i64 latent_token, k_rope_token;
  const void* weight;  // [D_LATENT]
  TokenPlaces places;
  u8* cache;  // [pages, page_size, ...]
  u8* cache_rope;
  i64 page_bytes, place_bytes, rope_page_bytes, rope_place_bytes;
  void* latent_out;  // [tokens, D_LATENT]; may be null
  void* k_rope_out;  // [tokens, D_ROPE]; may be null
  u32* status;       // enum quern_mla_status is or-ed into it; may be null
  Rope rope;
  i64 latent_out_token, k_rope_out_token;
  f32* cache_scale;  // read, or found and written
  i64 scale_page, scale_place;
  RopeHeads queries;
  Divisor strips;  // of a token's queries
};

}  // namespace q
