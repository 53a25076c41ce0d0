// The run-time arguments of moe_route's two kernels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/types.cuh"

namespace q {

// How far the first kernel goes once it has chosen the experts.
enum class MoeSort : i32 {
  none,    // nothing of the sorted part is asked for
  counts,  // counts and offsets
  whole,   // the last thread block to finish places all choices
  begun    // each thread block's counts are left for the second kernel, which places its choices
};

inline constexpr i32 kMostExperts = 1024;
inline constexpr i32 kMostTopK = 32;
inline constexpr i32 kMostGroups = 32;

// Strides in elements, from token to token.
struct MoeRouteParams {
  const void* logits;  // [tokens, experts]
  const f32* bias;     // [experts]; may be null
  f32* weights;        // [tokens, top_k]
  i32* ids;            // [tokens, top_k]
  i32* offsets;        // [local_experts + 1]; this and the rest may be null
  i32* indices;        // [tokens * top_k]
  i32* positions;      // [tokens, top_k]
  i32* counts;         // [local_experts]
  u32* counters;       // zero between launches: arrivals, then the choices of each local expert
  u32* begins;         // [local_experts]: where each expert's rows begin, for the second kernel
  u32* chunk_counts;   // [chunks, pitch]: the choices of each local expert among a chunk's tokens, likewise
  i64 logits_stride, weights_stride, ids_stride, positions_stride;
  i32 tokens, experts, top_k;
  i32 groups, top_groups;  // groups 1: not limited
  i32 group_size;          // experts of a group
  i32 group_shift;         // 2^group_shift lanes look at a group
  i32 first_expert, local_experts;
  i32 chunk;  // tokens of a thread block, one after the other
  i32 pitch;  // local_experts, rounded up to a multiple of 4
  f32 scale;
  i32 sigmoid, renormalize,
      vectors;  // truth values; vectors: logits and bias lie so that 16 bytes can be loaded at once
  MoeSort sort;
};

}  // namespace q
